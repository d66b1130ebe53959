package httpconn_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/httpconn"
)

// serveUnread serves with a handler that reads n bytes of a body.
func serveUnread(t *testing.T, n int64) string {
	t.Helper()
	s := httptest.NewServer(httpconn.LimitUnread(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.CopyN(io.Discard, r.Body, n)
		fmt.Fprint(w, "refused")
	})))
	t.Cleanup(s.Close)
	return s.Listener.Addr().String()
}

// A request whose body does not come is answered if its handler does not wait for it, and its connection is closed.
func TestUnreadBodies(t *testing.T) {
	for name, request := range map[string]string{
		"chunks":                        "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"a part of a chunk":             "Transfer-Encoding: chunked\r\n\r\n5\r\nhel",
		"no chunk":                      "Transfer-Encoding: chunked\r\n\r\n",
		"chunks, and the client closes": "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
		"a length":                      "Content-Length: 9\r\n\r\nhello",
		"a great length":                "Content-Length: 9000000\r\n\r\nhello",
		"an expectation":                "Expect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
	} {
		for _, n := range []int64{0, 3} {
			if n > 0 && !strings.Contains(request, "hel") {
				continue // the handler waits
			}
			t.Run(fmt.Sprintf("%s, %d read", name, n), func(t *testing.T) {
				t.Parallel()
				c := dialIdle(t, serveUnread(t, n))
				fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\n"+request)
				answer, err := io.ReadAll(c)
				if err != nil || !strings.HasPrefix(string(answer), "HTTP/1.1 200 ") || !strings.HasSuffix(string(answer), "refused") {
					t.Errorf("got %q, %v", answer, err)
				}
			})
		}
	}
}

// A connection whose bodies come is kept, whether they are read or not.
func TestUnreadBodiesThatCome(t *testing.T) {
	for _, n := range []int64{0, 3, 1 << 20} {
		c := dialIdle(t, serveUnread(t, n))
		from := bufio.NewReader(c)
		for i, request := range []string{"Content-Length: 5\r\n\r\nhello", "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n", "\r\n", "Content-Length: 5\r\n\r\nhello"} {
			fmt.Fprint(c, "POST / HTTP/1.1\r\nHost: a\r\n"+request)
			res, err := http.ReadResponse(from, nil)
			if err != nil {
				t.Fatalf("%d read, request %d: %v", n, i, err)
			}
			if body, err := io.ReadAll(res.Body); string(body) != "refused" || err != nil {
				t.Errorf("%d read, request %d: got %q, %v", n, i, body, err)
			}
		}
	}
}
