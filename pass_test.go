package isr_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/httpconn"
)

// Responses that pass through are whole on connections that write in one, also those whose
// renderer writes a body that the server drops.
func TestPassedResponsesAreWhole(t *testing.T) {
	const status = "Status"
	tb := newTable(t)
	h := tb.node(tb.store("a"), nil).Handler(isr.Route{Off: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.Header.Get(status))
		size, _ := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
		w.Header().Set("Content-Length", strconv.Itoa(size))
		w.WriteHeader(code)
		text := strings.Repeat("x", size)
		half := size
		if r.URL.RawQuery == "halves" {
			half = size / 2
		}
		_, _ = io.WriteString(w, text[:half])
		_, _ = io.WriteString(w, text[half:])
	}))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewUnstartedServer(h)
	s.Listener = httpconn.CoalesceWrites(s.Config, l, time.Minute)
	s.Start()
	defer s.Close()
	c, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(time.Minute)) // a response that is held back never comes
	in := bufio.NewReader(c)
	for _, tt := range []struct {
		method, target string
		status, want   int
	}{
		{"GET", "/10000", 200, 10000},
		{"HEAD", "/10000", 200, 0},
		{"GET", "/10000", 304, 0},
		{"GET", "/10000?halves", 200, 10000},
		{"GET", "/10000", 204, 0},
		{"GET", "/10000", 404, 10000},
		{"GET", "/0", 200, 0},
		{"GET", "/1", 200, 1},
		{"GET", "/1000000", 200, 1000000},
	} {
		fmt.Fprintf(c, "%s %s HTTP/1.1\r\nHost: example.com\r\n%s: %d\r\n\r\n", tt.method, tt.target, status, tt.status)
		res, err := http.ReadResponse(in, httptest.NewRequest(tt.method, tt.target, http.NoBody))
		if err != nil {
			t.Fatalf("%v: %v", tt, err)
		}
		body, err := io.ReadAll(res.Body)
		if err != nil || res.StatusCode != tt.status || len(body) != tt.want {
			t.Errorf("%v: %s with %d bytes, %v", tt, res.Status, len(body), err)
		}
	}
}
