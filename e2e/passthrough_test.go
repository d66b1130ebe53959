package e2e

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Requests that are not for pages pass through to the origin unchanged.

func TestPost(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/form", func(w http.ResponseWriter, r *http.Request, _ int) {
		body, err := io.ReadAll(r.Body)
		w.WriteHeader(http.StatusCreated)
		fmt.Fprintf(w, "%s %s %v", r.Method, body, err)
	})
	g := serve(t, embedded(t), o)
	sent := strings.Repeat("a form ", 10_000)
	for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete} {
		req, err := http.NewRequestWithContext(t.Context(), method, g.url+"/form", strings.NewReader(sent))
		if err != nil {
			t.Fatal(err)
		}
		r := do(browsers(t), req)
		if want := method + " " + sent + " <nil>"; r.err != nil || r.status != http.StatusCreated || r.body != want {
			t.Errorf("%s: got %s, expected 201 and the body back", method, r)
		}
		if want := "isr; fwd=method; fwd-status=201"; r.cache() != want {
			t.Errorf("%s: Cache-Status %q, expected %q", method, r.cache(), want)
		}
	}
	expectNothingStored(t, g)
}

// An upgraded connection carries bytes both ways, until one side closes it.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/socket", func(w http.ResponseWriter, r *http.Request, _ int) {
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		defer func() { _ = conn.Close() }()
		fmt.Fprintf(rw, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", r.Header.Get("Upgrade"))
		for rw.Flush() == nil {
			line, err := rw.ReadString('\n')
			if err != nil {
				return
			}
			_, _ = rw.WriteString("echo " + line)
		}
	})
	g := serve(t, embedded(t), o)
	conn := dial(t, g)
	fmt.Fprintf(conn, "GET /socket HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", host)
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	if res.StatusCode != http.StatusSwitchingProtocols || res.Header.Get("Upgrade") != "websocket" {
		t.Fatalf("got %s, Upgrade %q; expected 101 and websocket", res.Status, res.Header.Get("Upgrade"))
	}
	for i := range 3 {
		fmt.Fprintf(conn, "line %d\n", i)
		if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("echo line %d\n", i) {
			t.Fatalf("got %q, %v; expected the echo of line %d", line, err, i)
		}
	}
	t.Logf("upgrade: Cache-Status %q", res.Header.Get("Cache-Status"))
}

// dial opens a connection to the gateway that ends with the test.
func dial(t *testing.T, g *gateway) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(g.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return conn
}

// Events arrive one by one while the response goes on: the origin sends each only after the
// visitor has received the previous one.
func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	seen := make(chan struct{})
	o.set("/events", func(w http.ResponseWriter, r *http.Request, _ int) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		for i := range 3 {
			fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-seen:
			case <-r.Context().Done():
				return
			}
		}
	})
	g := serve(t, embedded(t), o)
	for range 2 { // the second visitor's is known not to be a page
		res, err := browsers(t).Get(g.url + "/events")
		if err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(res.Body)
		for i := range 3 {
			if line, err := in.ReadString('\n'); err != nil || line != fmt.Sprintf("data: %d\n", i) {
				t.Fatalf("got %q, %v; expected event %d", line, err, i)
			}
			if _, err := in.ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			seen <- struct{}{}
		}
		if _, err := in.ReadByte(); err != io.EOF {
			t.Errorf("after the last event: %v, expected the end", err)
		}
		t.Logf("events: Cache-Status %q", res.Header.Get("Cache-Status"))
		_ = res.Body.Close()
	}
	expectNothingStored(t, g)
}

// Conditions, ranges, HEAD and codings are answered from the stored page.
func TestPageIsHTTP(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	g := serve(t, embedded(t), o)
	want := bodyOf("/", 1)
	if first := get(t, g.url+"/"); first.body != want { // without an ETag, if it was sent while it was rendered
		t.Fatalf("got %s, expected the page", first)
	}
	stored := get(t, g.url+"/")
	etag := stored.header.Get("Etag")
	if stored.body != want || etag == "" {
		t.Fatalf("got %s with ETag %q, expected the page", stored, etag)
	}

	head := visit(t.Context(), browsers(t), http.MethodHead, g.url+"/")
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != fmt.Sprint(len(want)) || head.header.Get("Etag") != etag {
		t.Errorf("HEAD: got %s with %v", head, head.header)
	}
	ranged := get(t, g.url+"/", "Range", "bytes=10-19")
	if ranged.status != http.StatusPartialContent || ranged.body != want[10:20] {
		t.Errorf("Range: got %s, body %q, expected 206 and %q", ranged, ranged.body, want[10:20])
	}
	beyond := get(t, g.url+"/", "Range", "bytes=1000000-")
	if beyond.status != http.StatusRequestedRangeNotSatisfiable {
		t.Errorf("Range beyond the end: got %s, expected 416", beyond)
	}
	if r := get(t, g.url+"/", "If-None-Match", etag); r.status != http.StatusNotModified || r.body != "" {
		t.Errorf("If-None-Match: got %s, expected 304", r)
	}
	if r := get(t, g.url+"/", "If-None-Match", `"another"`); r.status != http.StatusOK || r.body != want {
		t.Errorf("If-None-Match of another: got %s, expected the page", r)
	}
	expectGzip(t, g, want, etag)
	if n := o.count("/"); n != 1 {
		t.Errorf("the origin was asked %d times, expected once", n)
	}
}

func expectGzip(t *testing.T, g *gateway, want, etag string) {
	t.Helper()
	var coded reply
	await(t, "the page in gzip", patience, func() bool {
		coded = get(t, g.url+"/", "Accept-Encoding", "gzip")
		return coded.header.Get("Content-Encoding") != ""
	})
	zr, err := gzip.NewReader(bytes.NewReader([]byte(coded.body)))
	if err != nil {
		t.Fatalf("gzip: got %s: %v", coded, err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil || string(plain) != want || coded.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("gzip: got %s, %v", coded, err)
	}
	codedTag := coded.header.Get("Etag")
	if codedTag == etag || codedTag == "" {
		t.Errorf("gzip has the ETag %q, the plain page %q; expected two", codedTag, etag)
	}
	if r := get(t, g.url+"/", "Accept-Encoding", "gzip", "If-None-Match", codedTag); r.status != http.StatusNotModified {
		t.Errorf("If-None-Match of the coded page: got %s, expected 304", r)
	}
}

// expectNothingStored fails the test if there is a page in the store.
func expectNothingStored(t *testing.T, g *gateway) {
	t.Helper()
	for key := range g.stored(t) {
		t.Errorf("%s is stored, and must not be", key)
	}
}
