package fastpath_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/store"
)

// browser is what a browser sends with a navigation.
const browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:132.0) Gecko/20100101 Firefox/132.0\r\n" +
	"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\nAccept-Language: de-AT,de;q=0.9,en;q=0.8\r\n" +
	"Accept-Encoding: gzip, deflate, br, zstd\r\nConnection: keep-alive\r\nReferer: http://h.test/b\r\nCookie: _ga=GA1.1.1; _gid=2\r\nUpgrade-Insecure-Requests: 1\r\n" +
	"sec-ch-ua: \"Chromium\";v=\"130\"\r\nsec-ch-ua-mobile: ?0\r\nSec-Fetch-Dest: document\r\nSec-Fetch-Mode: navigate\r\nSec-Fetch-Site: same-origin\r\nPriority: u=0, i"

// discard is a client of a hit that gets nothing.
type discard struct{ httpconn.Client }

func (discard) Address() string { return "192.0.2.1:1234" }

func (discard) Send(header, body []byte) (int64, error) { return int64(len(header) + len(body)), nil }

// answer has the responder of a site answer a request, and returns the function that repeats that.
func (s *sites) answer(t testing.TB, sent string) func() {
	t.Helper()
	responder, head := s.fast.counted.Responder, []byte(sent)
	for range 200 { // until the coding is made
		s.plain.exchange(t, sent)
		if !strings.Contains(sent, "gzip") || strings.Contains(s.plain.exchange(t, sent), "Content-Encoding") {
			break
		}
	}
	return func() {
		if responder.Respond(discard{}, head) != httpconn.Answered {
			t.Fatal("not answered")
		}
	}
}

func BenchmarkHit(b *testing.B) {
	s := newSites(b)
	for name, sent := range map[string]string{"plain": get("/a"), "browser": get("/a", browser)} {
		again := s.answer(b, sent)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				again()
			}
		})
	}
}

// TestReports: the sinks are told of hits by the fast path as of others.
func TestReports(t *testing.T) {
	s := newSites(t)
	s.plain.exchange(t, get("/a"))
	before := s.done.Load()
	s.plain.exchange(t, get("/a")+get("/a"))
	s.fast.exchange(t, get("/a")+get("/a"))
	const each = 4 // with the first and the last
	if n := s.done.Load() - before; n != 2*each {
		t.Errorf("%d requests were reported, want %d", n, 2*each)
	}
}

// TestChanges: while pages are purged and the site is reloaded, no request gets content that is
// older than the last purge before it, and Shutdown cuts no response off.
func TestChanges(t *testing.T) {
	var version atomic.Int64
	cfg := routes()
	for i := range cfg.Routes {
		cfg.Routes[i].Origin = "counter"
	}
	cfg.Origins["counter"] = gateway.Origin{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Cache-Control", "s-maxage=3600")
		fmt.Fprintf(w, "%d %s", version.Load(), strings.Repeat("x", 20<<10))
	})}
	s := newSites(t)
	if err := s.site.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	var purged atomic.Int64 // the version that the last purge has ended with
	served, stop := make(chan struct{}), make(chan struct{})
	var clients, changes sync.WaitGroup
	for range 8 {
		clients.Go(func() { s.visit(t, &purged, served, stop) })
	}
	for i := range 40 {
		v := version.Add(1)
		if _, err := s.cache.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(store.Key{Text: "h.test/a"})}, Hard: true}); err != nil {
			t.Error(err)
		}
		purged.Store(v)
		for range 50 {
			<-served
		}
		if i%4 == 0 {
			changes.Go(func() {
				if err := s.site.Reload(cfg); err != nil {
					t.Error(err)
				}
			})
		}
	}
	changes.Wait()
	close(stop)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	if err := s.fast.http.Shutdown(ctx); err != nil {
		t.Error(err)
	}
	if err := s.fast.path.Wait(ctx); err != nil {
		t.Error(err)
	}
	clients.Wait()
	if s.fast.counted.hits.Load() == 0 {
		t.Error("the fast path has answered no request")
	}
}

// visit requests a page on one connection until the server closes it.
func (s *sites) visit(t *testing.T, purged *atomic.Int64, served, stop chan struct{}) {
	c, err := net.Dial("tcp", s.fast.address)
	if err != nil {
		return
	}
	defer c.Close()
	in := bufio.NewReader(c)
	for {
		least := purged.Load()
		_, _ = io.WriteString(c, get("/a"))
		if _, err := in.Peek(1); err != nil {
			return // closed before the response
		}
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			t.Error(err)
			return
		}
		body, err := io.ReadAll(res.Body)
		var got int64
		_, _ = fmt.Sscan(string(body), &got)
		if err != nil || res.StatusCode == http.StatusOK && got < least { // others are failures to render in time
			t.Errorf("version %d after a purge at %d, %v (%s)", got, least, err, res.Header["Cache-Status"])
		}
		select {
		case served <- struct{}{}:
		case <-stop:
		}
	}
}

// TestServed: the handler serves requests other than hits on the fast path, unless they are net/http's.
func TestServed(t *testing.T) {
	s := newSites(t)
	s.plain.exchange(t, get("/a"))
	for sent, want := range map[string]int64{
		get("/a"):                                      0,
		get("/off/a"):                                  1,
		request("HEAD", "/off/a"):                      1,
		get("/a?other=1"):                              1,
		get("/a", "Cookie: session=1"):                 1,
		get("/a", "Authorization: Basic eDp5"):         1,
		get("/a", "Range: bytes=0-9"):                  1,
		get("/healthz"):                                1,
		get("/off/a") + get("/a") + get("/off/b"):      2,
		get("/off/%61"):                                0,
		get("/off/a", "Connection: close"):             0,
		get("/off/a", "Upgrade: x"):                    0,
		get("/off/a", "Content-Length: 0"):             0,
		"GET /a HTTP/1.1\r\nHost: h.test/../x\r\n\r\n": 0,
	} {
		got := int64(-1)
		for try := 0; try < 100 && got != want; try++ { // unless the client is too fast
			before := s.fast.counted.served.Load()
			s.fast.exchange(t, sent)
			got = s.fast.counted.served.Load() - before
		}
		if got != want {
			t.Errorf("%q: %d requests were served on the fast path, want %d", sent, got, want)
		}
	}
}
