package hostile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// rawOrigin starts an origin that answers requests for healthy pages, and passes the connection
// of any other request to answer.
func rawOrigin(t *testing.T, answer func(conn net.Conn, r *http.Request)) (url string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return // closed at the end of the test
			}
			go func() {
				defer conn.Close()
				_ = conn.SetDeadline(time.Now().Add(patience))
				r, err := http.ReadRequest(bufio.NewReader(conn))
				if err != nil {
					return
				}
				if strings.HasPrefix(r.URL.Path, "/healthy/") {
					page := "healthy " + r.URL.Path
					fmt.Fprintf(conn, "HTTP/1.1 200 OK\r\nCache-Control: s-maxage=60\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s", len(page), page)
					return
				}
				answer(conn, r)
			}()
		}
	}()
	return "http://" + l.Addr().String()
}

// For any response of the origin, a visitor gets an error with no-store, or a connection that
// ends where the response did. Nothing is stored, and other pages are served.
func TestHostileOrigins(t *testing.T) {
	t.Parallel()
	const keep = "Cache-Control: s-maxage=60\r\n"
	endless := func(conn net.Conn, start, more string) {
		_, err := io.WriteString(conn, start)
		for sent := 0; err == nil && sent < 64<<20; sent += len(more) {
			_, err = io.WriteString(conn, more)
		}
	}
	text := func(response string) func(net.Conn) {
		return func(conn net.Conn) { _, _ = io.WriteString(conn, response) }
	}
	block := strings.Repeat("x", 32<<10)
	answers := map[string]func(net.Conn){
		"/status-000":      text("HTTP/1.1 000 X\r\n" + keep + "Content-Length: 2\r\n\r\nno"),
		"/status-099":      text("HTTP/1.1 099 X\r\n" + keep + "Content-Length: 2\r\n\r\nno"),
		"/status-999":      text("HTTP/1.1 999 X\r\n" + keep + "Content-Length: 2\r\n\r\nno"),
		"/garbage":         text("\x00\x01\x02\x16\x03\x01 not HTTP at all\r\n\r\n"),
		"/nothing":         text(""),
		"/half-header":     text("HTTP/1.1 200 OK\r\n" + keep),
		"/bad-header":      text("HTTP/1.1 200 OK\r\n" + keep + "no colon here\r\n\r\nno"),
		"/two-lengths":     text("HTTP/1.1 200 OK\r\n" + keep + "Content-Length: 2\r\nContent-Length: 3\r\n\r\nno"),
		"/negative":        text("HTTP/1.1 200 OK\r\n" + keep + "Content-Length: -2\r\n\r\nno"),
		"/bad-chunk":       text("HTTP/1.1 200 OK\r\n" + keep + "Transfer-Encoding: chunked\r\n\r\nzz\r\nno\r\n0\r\n\r\n"),
		"/bad-gzip":        text("HTTP/1.1 200 OK\r\n" + keep + "Content-Encoding: gzip\r\nContent-Length: 2\r\n\r\nno"),
		"/cut-off":         text("HTTP/1.1 200 OK\r\n" + keep + "Content-Length: 1000\r\n\r\nhalf"),
		"/cut-off-chunks":  text("HTTP/1.1 200 OK\r\n" + keep + "Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"),
		"/endless-header":  func(conn net.Conn) { endless(conn, "HTTP/1.1 200 OK\r\n"+keep, "X-A: "+block+"\r\n") },
		"/endless-status":  func(conn net.Conn) { endless(conn, "HTTP/1.1 200 ", block) },
		"/endless-interim": func(conn net.Conn) { endless(conn, "", strings.Repeat("HTTP/1.1 103 Early Hints\r\n\r\n", 1000)) },
		"/silent":          func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) },
	}
	origin := rawOrigin(t, func(conn net.Conn, r *http.Request) { answers[r.URL.Path](conn) })
	g := startTarget(t, origin, "--render-timeout", "2s", "--breaker-failures", "0")
	var group sync.WaitGroup
	for path := range answers {
		for range 2 { // the second request follows a failure
			group.Go(func() {
				res, err := g.tryRaw("GET " + path + " HTTP/1.1\r\nHost: " + site + "\r\nConnection: close\r\n\r\n")
				if err != nil {
					t.Errorf("%s: no response: %v", path, err)
					return
				}
				body, _ := io.ReadAll(res.Body)
				if res.StatusCode != http.StatusBadGateway && res.StatusCode != http.StatusGatewayTimeout {
					t.Errorf("%s: got %d %.40q", path, res.StatusCode, body)
				}
				if c := res.Header.Get("Cache-Control"); c != "no-store" {
					t.Errorf("%s: the error has Cache-Control %q, expected no-store", path, c)
				}
			})
		}
	}
	group.Wait()
	for path := range answers { // the same for pass-through requests
		if path == "/silent" || path == "/bad-gzip" { // bounded only by the visitor; passed on unchanged
			continue
		}
		group.Go(func() {
			res, err := g.tryRaw("POST " + path + " HTTP/1.1\r\nHost: " + site + "\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
			switch {
			case errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF):
				return // cut off like the origin's response
			case err != nil:
				t.Errorf("POST %s: no response: %v", path, err)
				return
			}
			if _, err := io.ReadAll(res.Body); err == nil && res.StatusCode < 500 {
				t.Errorf("POST %s: got a complete response with status %d", path, res.StatusCode)
			}
		})
	}
	group.Wait()
	if rows := g.stored(); strings.Contains(rows, `"body":`) {
		t.Errorf("stored: %s", rows)
	}
	g.healthy()
}

// The origin answers thousands of requests before it has read their bodies. Every response
// arrives complete.
func TestResponsesBeforeRequestBody(t *testing.T) {
	t.Parallel()
	answer := bytes.Repeat([]byte("0123456789abcdef"), 8<<10) // 128 KiB
	origin, _ := startOrigin(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write(answer[:len(answer)/2])
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = w.Write(answer[len(answer)/2:])
	})
	g := startTarget(t, origin, "--max-origin-connections", "1024")
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: patience}
	defer client.CloseIdleConnections()
	const workers, each = 8, 250
	var group sync.WaitGroup
	deadline := time.Now().Add(12 * time.Second)
	for worker := range workers {
		group.Go(func() {
			for i := 0; i < each && time.Now().Before(deadline); i++ {
				body := strings.Repeat("x", []int{1, 1 << 10, 70 << 10}[(worker+i)%3])
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+g.address+"/early", strings.NewReader(body))
				if err != nil {
					t.Error(err)
					return
				}
				req.Host = site
				res, err := client.Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				got, err := io.ReadAll(res.Body)
				_ = res.Body.Close()
				if err != nil || !bytes.Equal(got, answer) {
					t.Errorf("%d: %d bytes of %d, %v", res.StatusCode, len(got), len(answer), err)
					return
				}
			}
		})
	}
	group.Wait()
	g.healthy()
}
