package gateway_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/gateway"
)

// RFC 9110, sections 10.1.1 and 15.2: clients of HTTP/1.0 get no interim responses, neither the
// origin's nor 100 (Continue), for which they do not wait.
func TestHTTP10HasNoInterimResponses(t *testing.T) {
	address := front(t, gateway.Config{MaxConnections: 16}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Expect") != "" {
			t.Errorf("%s: the expectation was forwarded", r.URL.Path)
		}
		if r.Header.Get("Upgrade") != "" {
			t.Errorf("%s: the upgrade was forwarded", r.URL.Path)
		}
		w.Header().Set("Cache-Control", "private")
		if r.Method == http.MethodGet {
			w.WriteHeader(http.StatusEarlyHints)
		}
		n, err := io.Copy(io.Discard, r.Body)
		fmt.Fprint(w, n, err)
	}))
	const size = 100 << 10
	for name, request := range map[string]string{
		"early hints": "GET /hints HTTP/1.0\r\nHost: example.com\r\n\r\n",
		"upgrade":     "GET /socket HTTP/1.0\r\nHost: example.com\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"expectation": fmt.Sprintf("POST /form HTTP/1.0\r\nHost: example.com\r\nContent-Length: %d\r\nExpect: 100-continue\r\n\r\n%s", size, strings.Repeat("x", size)),
	} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if err := conn.SetDeadline(time.Now().Add(5 * time.Minute)); err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		response, err := io.ReadAll(conn)
		if text := string(response); err != nil || !strings.HasPrefix(text, "HTTP/1.0 200 OK\r\n") || !strings.HasSuffix(text, " <nil>") {
			t.Errorf("%s: got %q, %v; expected only a response with status 200", name, text, err)
		}
	}
}
