package fastpath_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/fastpath"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/internal/testbed"
)

// A sites is one site behind two servers, of which only one has a fast path.
type sites struct {
	cache       *isr.Cache
	site        *gateway.Site
	plain, fast *server
	done        atomic.Int64 // requests that were reported
}

type server struct {
	address string
	http    *http.Server
	path    *httpconn.FastPath // nil if there is none
	counted *counted
}

// counted counts the requests that a responder answers by itself, and those that it has served.
type counted struct {
	httpconn.Responder
	hits, served atomic.Int64
}

func (c *counted) Respond(client httpconn.Client, head []byte) httpconn.Outcome {
	watched := &countedClient{Client: client, counted: c}
	outcome := c.Responder.Respond(watched, head)
	if outcome == httpconn.Answered {
		forget(head)
	}
	return outcome
}

// forget overwrites a head: nothing may have kept a part of it, also if the request is yet to be served.
func forget(head []byte) {
	for i := range head {
		head[i] = 'X'
	}
}

// A countedClient counts what is sent to it.
type countedClient struct {
	httpconn.Client
	counted *counted
}

func (c *countedClient) Send(header, body []byte) (int64, error) {
	c.counted.hits.Add(1)
	return c.Client.Send(header, body)
}

func (c *countedClient) Serve(h http.Handler, r *http.Request) {
	c.counted.served.Add(1)
	c.Client.Serve(h, r)
}

// echo is the origin: pages that differ by all that the renderer sees.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h, status := w.Header(), http.StatusOK
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "s-maxage=3600")
	switch {
	case strings.HasSuffix(r.URL.Path, "/vary"):
		h.Set("Vary", "Accept-Language")
	case strings.HasPrefix(r.URL.Path, "/gone"):
		status = http.StatusNotFound
	case strings.HasPrefix(r.URL.Path, "/moved"):
		h.Set("Location", "/")
		status = http.StatusMovedPermanently
	case strings.HasPrefix(r.URL.Path, "/hints"):
		h.Set("Link", "</a.css>; rel=preload; as=style")
	}
	text := fmt.Sprintf("<p>%s %s %s %q %q %q</p>\n%s", r.Method, r.Host, r.RequestURI, r.Header["X-Kind"], r.Header["Cookie"], body, strings.Repeat("<p>", 500))
	h.Set("Content-Length", strconv.Itoa(len(text))) // or else it depends on flushes
	w.WriteHeader(status)
	_, _ = io.WriteString(w, text)
}

func routes() gateway.SiteConfig {
	route := func(pattern string, rt isr.Route) gateway.SiteRoute {
		rt.Jitter, rt.Stale = -1, time.Hour
		return gateway.SiteRoute{Pattern: pattern, Route: rt, Origin: "echo"}
	}
	return gateway.SiteConfig{
		Routes: []gateway.SiteRoute{
			route("/", isr.Route{Query: []string{"page"}}),
			route("/off/", isr.Route{Off: true}),
			route("/kind/", isr.Route{Vary: []string{"X-Kind"}}),
			route("/class/", isr.Route{KeyClasses: []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}, {Cookie: "shop", Values: []string{"eu", "us"}}}}),
			route("/lang/", isr.Route{KeyClasses: []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}}}),
			route("/learn/", isr.Route{VaryAuto: true}),
			route("/tenant/", isr.Route{TenantHeader: "X-Tenant"}),
			route("/hints/", isr.Route{EarlyHints: true}),
			route("/browser/", isr.Route{Downstream: isr.DownstreamControl{CacheControl: "max-age=remaining"}, ObeyRequests: true, SetHeader: http.Header{"X-Frame-Options": {"DENY"}}}),
		},
		Origins: map[string]gateway.Origin{"echo": {Handler: http.HandlerFunc(echo)}},
		Logger:  slog.New(slog.DiscardHandler),
	}
}

// Done implements telemetry.Sink.
func (s *sites) Done(*telemetry.Exchange) { s.done.Add(1) }

func newSites(t testing.TB) *sites {
	t.Helper()
	s := &sites{}
	cfg := isr.Config{Poll: -1, StoreTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)}
	s.cache = testbed.Cache(t, testbed.Table(t), cfg)
	var err error
	if s.site, err = gateway.NewSite(s.cache, routes()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.site.Close)
	s.plain, s.fast = s.serve(t, false), s.serve(t, true)
	return s
}

// serve starts a server. All have the same edge, so that their responses can be compared.
func (s *sites) serve(t testing.TB, fast bool) *server {
	t.Helper()
	hosts, err := gateway.ParseHosts([]string{"h.test", "[::1]"})
	if err != nil {
		t.Fatal(err)
	}
	recorder := telemetry.NewRecorder(telemetry.RecorderConfig{Sinks: []telemetry.Sink{s}})
	edge := gateway.Edge(gateway.EdgeConfig{
		Hosts: hosts, Peers: &gateway.Peers{}, HealthPath: "/healthz", Health: http.HandlerFunc(echo),
		Observe: recorder.Serve, Logger: slog.New(slog.DiscardHandler),
	}, gateway.Drafts([]string{"0123456789abcdef"}, s.site, s.site))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	sv := &server{address: l.Addr().String(), http: &http.Server{
		Handler: edge, ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute, MaxHeaderBytes: 64 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError),
	}}
	l = httpconn.CoalesceWrites(sv.http, l, time.Minute)
	if fast {
		sv.counted = &counted{Responder: fastpath.New(fastpath.Config{
			Handler: func() http.Handler { return edge }, Recorder: recorder, Counter: new(gauge),
		})}
		sv.path = httpconn.NewFastPath(sv.http, l, sv.counted)
	}
	go func() { _ = sv.http.Serve(l) }() // ends with Close
	t.Cleanup(func() { _ = sv.http.Close() })
	return sv
}

type gauge struct{ n atomic.Int64 }

func (g *gauge) Begin() { g.n.Add(1) }
func (g *gauge) End()   { g.n.Add(-1) }

// first is the request by which a connection begins, and last the one by which it ends.
const (
	first = "GET /first HTTP/1.1\r\nHost: h.test\r\n\r\n"
	last  = "GET /last HTTP/1.1\r\nHost: h.test\r\nConnection: close\r\n\r\n"
)

// patience is how long a server may take before the client ends its side of a connection: the
// request is not whole.
const patience = time.Second / 2

// exchange sends parts of a stream on a connection that has served a request, and returns all that
// is received.
func (sv *server) exchange(t testing.TB, parts ...string) string {
	t.Helper()
	c, err := net.Dial("tcp", sv.address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	in := bufio.NewReader(c)
	_, _ = io.WriteString(c, first)
	res, err := http.ReadResponse(in, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, res.Body)
	for _, part := range append(parts, last) {
		_, _ = io.WriteString(c, part) // the server may have closed it
	}
	var got strings.Builder
	_ = c.SetReadDeadline(time.Now().Add(patience))
	if _, err := io.Copy(&got, in); isTimeout(err) {
		_ = c.(*net.TCPConn).CloseWrite()
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Minute))
		if _, err := io.Copy(&got, in); isTimeout(err) {
			t.Fatalf("the server neither answers nor closes the connection after %q", parts)
		}
	}
	return lasting(got.String())
}

// lasting returns what is received without what changes from one time to the next.
func lasting(received string) string {
	if boundary := regexp.MustCompile(`[0-9a-f]{60}`).FindString(received); boundary != "" { // of multipart/byteranges
		received = strings.ReplaceAll(received, boundary, "boundary")
	}
	return times.ReplaceAllString(received, "$1 some time")
}

var times = regexp.MustCompile(`(?m)(^Date:|^Age:|; ttl=|max-age=)(?: ?[-0-9]+| ?[A-Z][^\r]*GMT)`)

func isTimeout(err error) bool {
	timeout, ok := err.(net.Error)
	return ok && timeout.Timeout()
}
