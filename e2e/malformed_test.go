package e2e

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// Requests that no browser sends get 400, or another defined status, or a closed connection,
// and the server goes on. At the end the log must not contain a panic.
func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	o.set("/page/", page(3600, 0))
	g := serve(t, embedded(t), o)
	for _, c := range malformedRequests() {
		status, err := raw(t, g, c.request)
		switch {
		case err != nil:
			t.Errorf("%s: %v", c.name, err)
		case !slices.Contains(c.want, status):
			t.Errorf("%s: status %d, expected one of %d", c.name, status, c.want)
		default:
			t.Logf("%-34s %d", c.name, status)
		}
	}
	if r := get(t, g.url+"/"); r.status != http.StatusOK {
		t.Errorf("after all that a visitor got %s", r)
	}
	for key := range g.stored(t) {
		if !strings.HasPrefix(key, host+"/") {
			t.Errorf("a page is stored under the key %q, which is not of this site", key)
		}
	}
}

// A malformedRequest is a request and its acceptable statuses; 0 is a connection closed
// without a response.
type malformedRequest struct {
	name, request string
	want          []int
}

func malformedRequests() []malformedRequest {
	const end = "Host: site.test\r\nConnection: close\r\n\r\n"
	return []malformedRequest{
		{"no request", "\r\n\r\n", []int{400, 0}},
		{"garbage", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", []int{400}},
		{"not HTTP", "HELLO\r\n\r\n", []int{400}},
		{"no path", "GET HTTP/1.1\r\n" + end, []int{400}},
		{"a path without slash", "GET page HTTP/1.1\r\n" + end, []int{400}},
		{"unknown version", "GET / HTTP/9.9\r\n" + end, []int{400, 505}},
		{"a method with a slash", "G/T / HTTP/1.1\r\n" + end, []int{400}},
		{"no Host", "GET / HTTP/1.1\r\nConnection: close\r\n\r\n", []int{400}},
		{"two Hosts", "GET / HTTP/1.1\r\nHost: other.test\r\n" + end, []int{400}},
		{"a Host with a space", "GET / HTTP/1.1\r\nHost: a b\r\nConnection: close\r\n\r\n", []int{400}},
		{"a Host with a path", "GET / HTTP/1.1\r\nHost: a/b\r\nConnection: close\r\n\r\n", []int{400}},
		{"a Host with a user", "GET / HTTP/1.1\r\nHost: u@site.test\r\nConnection: close\r\n\r\n", []int{400}},
		{"a Host with a bad port", "GET / HTTP/1.1\r\nHost: site.test:x\r\nConnection: close\r\n\r\n", []int{400}},
		{"NUL in a header", "GET / HTTP/1.1\r\nX: a\x00b\r\n" + end, []int{400}},
		{"NUL in the path", "GET /page/a\x00b HTTP/1.1\r\n" + end, []int{400}},
		{"a header without a name", "GET / HTTP/1.1\r\n: x\r\n" + end, []int{400}},
		{"a folded header", "GET / HTTP/1.1\r\nX: a\r\n b\r\n" + end, []int{200, 400}},
		{"a huge header", "GET / HTTP/1.1\r\nX: " + strings.Repeat("x", 200<<10) + "\r\n" + end, []int{431, 0}},
		{"a huge path", "GET /" + strings.Repeat("x", 200<<10) + " HTTP/1.1\r\n" + end, []int{431, 0}},
		{"a path longer than a key", "GET /page/" + strings.Repeat("x", 8<<10) + " HTTP/1.1\r\n" + end, []int{200}},
		{"bad percent-encoding", "GET /page/%zz HTTP/1.1\r\n" + end, []int{400}},
		{"an encoded NUL", "GET /page/%00 HTTP/1.1\r\n" + end, []int{200, 400}},
		{"bad percent-encoding in the query", "GET /page/?a=%zz HTTP/1.1\r\n" + end, []int{200, 400}},
		{"a semicolon in the query", "GET /page/?a;b HTTP/1.1\r\n" + end, []int{200}},
		{"the absolute form", "GET http://site.test/page/absolute HTTP/1.1\r\n" + end, []int{200}},
		{"two slashes", "GET //page/ HTTP/1.1\r\n" + end, []int{200, 301, 404, 400}},
		{"dots", "GET /page/../../etc/passwd HTTP/1.1\r\n" + end, []int{200, 301, 404, 400}},
		{"encoded dots", "GET /page/%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\n" + end, []int{200, 301, 404, 400}},
		{"an encoded slash", "GET /page/a%2Fb HTTP/1.1\r\n" + end, []int{200, 404}},
		{"OPTIONS *", "OPTIONS * HTTP/1.1\r\n" + end, []int{200, 204, 400, 404}},
		{"CONNECT", "CONNECT other.test:443 HTTP/1.1\r\n" + end, []int{400, 421}},
		{"two lengths", "POST / HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n" + end + "ab", []int{400}},
		{"length and chunks", "POST / HTTP/1.1\r\nContent-Length: 4\r\nTransfer-Encoding: chunked\r\n" + end + "0\r\n\r\n", []int{200, 400}},
		{"a negative length", "POST / HTTP/1.1\r\nContent-Length: -1\r\n" + end, []int{400}},
		{"an unknown transfer coding", "POST / HTTP/1.1\r\nTransfer-Encoding: cow\r\n" + end, []int{400, 501}},
	}
}

// raw sends bytes and returns the status of the response, 0 if the connection was closed
// without one.
func raw(t *testing.T, g *gateway, request string) (int, error) {
	t.Helper()
	conn := dial(t, g)
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.WriteString(conn, request) }() // the server may close before it has read all
	line, err := bufio.NewReader(conn).ReadString('\n')
	var timeout net.Error
	switch {
	case errors.As(err, &timeout) && timeout.Timeout():
		return 0, fmt.Errorf("no answer: %w", err)
	case line == "":
		return 0, nil
	}
	var status int
	if _, err := fmt.Sscanf(line, "HTTP/1.1 %d", &status); err != nil {
		return 0, fmt.Errorf("the answer begins with %q", line)
	}
	return status, nil
}
