package httpconn

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// framedRequests are requests of which it is ambiguous where they end, and others.
func framedRequests() map[string]struct {
	text      string
	ambiguous bool
} {
	type request = struct {
		text      string
		ambiguous bool
	}
	all := make(map[string]request)
	for _, method := range []string{"GET", "POST", "DELETE"} {
		add := func(name, version, fields, body string, ambiguous bool) {
			all[method+" "+name] = request{method + " / HTTP/" + version + "\r\nHost: a\r\n" + fields + "\r\n" + body, ambiguous}
		}
		const chunked, none = "Transfer-Encoding: chunked\r\n", "0\r\n\r\n"
		add("length and encoding", "1.1", "Content-Length: 5\r\n"+chunked, none, true)
		add("encoding and length", "1.1", chunked+"content-length:5\r\n", none, true)
		add("encoding and a length of zero", "1.1", chunked+"Content-Length: 0\r\n", none, true)
		add("identity and length", "1.1", "Transfer-Encoding: identity\r\nContent-Length: 1\r\n", "x", true)
		add("encoding twice", "1.1", chunked+chunked, none, true)
		add("equal lengths", "1.1", "Content-Length: 1\r\nContent-Length: 1\r\n", "x", true)
		add("unequal lengths", "1.1", "Content-Length: 1\r\nContent-Length: 2\r\n", "x", true)
		add("encoding of HTTP/1.0", "1.0", chunked+"Connection: keep-alive\r\n", none, true)
		add("both of HTTP/1.0", "1.0", chunked+"Content-Length: 5\r\nConnection: keep-alive\r\n", none, true)
		add("folded encoding", "1.1", "Transfer-Encoding:\r\n chunked\r\n", none, true)
		add("folded length", "1.1", "X: y\r\n\tContent-Length: 5\r\n", "", true)
		add("a space before the colon", "1.1", "Content-Length : 1\r\n", "x", true)
		add("a length with a sign", "1.1", "Content-Length: +1\r\n", "x", true)
		add("a list of lengths", "1.1", "Content-Length: 1, 1\r\n", "x", true)
		add("length", "1.1", "Content-Length: 3\r\n", "\r\n\r", false)
		add("chunks", "1.1", chunked, "3;a=b\r\n\r\n\r\r\n0a\r\n0123456789\r\n0\r\n\r\n", false)
		add("chunks and a trailer", "1.1", "Trailer: X\r\n"+chunked, "1\r\nx\r\n0\r\nX: y\r\n\r\n", false)
		add("no body", "1.1", "", "", false)
		add("line feeds alone", "1.1", "X: y\n", "", false)
	}
	return all
}

func TestAmbiguousFraming(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %d %v", r.URL.Path, len(body), err)
	}))
	s.Listener = CoalesceWrites(s.Config, s.Listener, time.Minute)
	RefuseAmbiguous(s.Config, s.Listener)
	s.Start()
	t.Cleanup(s.Close)
	const before, after = "GET /before HTTP/1.1\r\nHost: a\r\n\r\n", "GET /after HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
	for name, tt := range framedRequests() {
		for size, parts := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "in bytes": iotest.OneByteReader} {
			t.Run(name+" "+size, func(t *testing.T) {
				t.Parallel()
				c, err := net.Dial("tcp", s.Listener.Addr().String())
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				go func() { _, _ = io.Copy(struct{ io.Writer }{c}, parts(strings.NewReader(before+tt.text+after))) }()
				var got []string
				for r := bufio.NewReader(c); ; {
					res, err := http.ReadResponse(r, nil)
					if err != nil {
						break // closed
					}
					body, _ := io.ReadAll(res.Body)
					got = append(got, fmt.Sprint(res.StatusCode, " ", strings.Fields(string(body))[0]))
				}
				want := "200 /before, 200 /, 200 /after"
				if tt.ambiguous {
					want = "200 /before, 400 400"
				}
				if text := strings.Join(got, ", "); text != want {
					t.Errorf("got %s, want %s", text, want)
				}
			})
		}
	}
}
