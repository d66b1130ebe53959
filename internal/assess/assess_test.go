package assess_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/assess"
	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/internal/testbed"
)

// entries is a log in memory.
type entries []logreader.Entry

func (s *entries) Next(e *logreader.Entry) error {
	if len(*s) == 0 {
		return io.EOF
	}
	*e, *s = (*s)[0], (*s)[1:]
	return nil
}

func siteOf(route isr.Route) gateway.SiteConfig {
	return gateway.SiteConfig{Origins: map[string]gateway.Origin{"site": {}}, Routes: []gateway.SiteRoute{{Pattern: "/", Origin: "site", Route: route}}}
}

// visits returns the log of a site with popular and rare pages, searches, invented URLs and errors.
func visits(n int, seed uint64) (log entries) {
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same log each time
	popular := rand.NewZipf(rng, 1.1, 4, 400)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for range n {
		now = now.Add(time.Duration(rng.ExpFloat64() * float64(300*time.Millisecond)))
		e := logreader.Entry{Method: "GET", Host: "example.com", URI: fmt.Sprintf("/page/%d", popular.Uint64()), Status: 200, Bytes: 5000}
		e.Took = time.Duration(20+rng.IntN(200)) * time.Millisecond
		switch rng.IntN(40) {
		case 0:
			e.URI += "?utm_source=letter"
		case 1:
			e.URI += fmt.Sprintf("?page=%d", rng.IntN(4))
		case 2:
			e.URI = fmt.Sprintf("/search?q=%d", rng.IntN(1000))
		case 3:
			e.URI, e.Status = fmt.Sprintf("/missing/%d", rng.IntN(20)), 404
		case 4:
			e.Status = 500
		case 5:
			e.Status = 304
		case 6:
			e.Method, e.URI, e.Status = "POST", "/login", 302
		case 7:
			e.URI, e.CacheControl = "/account", "private, no-store"
		}
		e.Time = now.Add(e.Took)
		log = append(log, e)
	}
	slices.SortStableFunc(log, func(a, b logreader.Entry) int { return a.Time.Compare(b.Time) })
	return log
}

// The forecast is the hit ratio that visitors see: of a cache with the same configuration behind HTTP, whose
// requests come at the times of the log from clients of their own, and whose origin takes as long as the log says.
func TestForecastAndReplay(t *testing.T) {
	for name, route := range map[string]isr.Route{
		"ten seconds":        {Revalidate: 10 * time.Second, Stale: time.Hour},
		"a minute, no stale": {Revalidate: time.Minute, Stale: -1},
		"an hour, all queries are one": {
			Revalidate: time.Hour, Stale: time.Hour, IgnoreQuery: []string{"*"},
		},
		"queries in the key": {Revalidate: time.Minute, Stale: time.Minute, Query: []string{"page", "q"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			log := visits(800, 7)
			replayed := replay(t, siteOf(route), log)
			report, err := assess.Run(t.Context(), &log, assess.Options{Site: siteOf(route)})
			if err != nil {
				t.Fatal(err)
			}
			forecast := report.Forecasts[0].HitRatio
			t.Logf("forecast %.4f, replay %.4f", forecast, replayed)
			if math.Abs(forecast-replayed) >= 0.02 {
				t.Errorf("the forecast is %.4f, and the replay %.4f", forecast, replayed)
			}
			if report.Forecasts[0].Sampled {
				t.Error("pages were left out")
			}
		})
	}
}

// replay sends the requests of a log through a cache behind HTTP, in a bubble in which time passes when all wait,
// and returns the hit ratio that Cache-Status tells.
func replay(t *testing.T, site gateway.SiteConfig, log entries) (ratio float64) {
	synctest.Test(t, func(t *testing.T) {
		cache := testbed.Cache(t, testbed.Table(t), isr.Config{Poll: -1, RenderTimeout: time.Hour})
		origin := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answerAsLogged(w, r, log) })
		site.Origins = map[string]gateway.Origin{"site": {Handler: origin, Renders: -1, Failures: -1}}
		site.Logger = slog.New(slog.DiscardHandler)
		handler, err := gateway.NewSite(cache, site)
		if err != nil {
			t.Fatal(err)
		}
		defer handler.Close()
		server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Hour}
		listener := newPipes()
		serving := make(chan struct{})
		go func() {
			defer close(serving)
			_ = server.Serve(listener)
		}()
		var hits sync.Map
		var visitors sync.WaitGroup
		began, start := time.Now(), log[0].Time.Add(-log[0].Took)
		for i, e := range byArrival(log) {
			time.Sleep(e.Time.Add(-e.Took).Sub(start) - time.Since(began))
			visitors.Go(func() {
				if visit(t, listener, &e) {
					hits.Store(i, true)
				}
			})
		}
		visitors.Wait()
		n := 0
		hits.Range(func(any, any) bool { n++; return true })
		ratio = float64(n) / float64(len(log))
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-serving
		if err := cache.Settle(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return ratio
}

// byArrival returns a log in the order in which its requests came.
func byArrival(log entries) entries {
	log = slices.Clone(log)
	slices.SortStableFunc(log, func(a, b logreader.Entry) int { return a.Time.Add(-a.Took).Compare(b.Time.Add(-b.Took)) })
	return log
}

// visit sends a request, and reports whether it was a hit.
func visit(t *testing.T, to *pipes, e *logreader.Entry) (hit bool) {
	conn := to.dial()
	defer conn.Close()
	go fmt.Fprintf(conn, "%s %s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", e.Method, e.URI, e.Host)
	res, err := http.ReadResponse(bufio.NewReader(conn), &http.Request{Method: e.Method})
	if err != nil {
		t.Error(err)
		return false
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		t.Error(err)
	}
	return strings.Contains(res.Header.Get("Cache-Status"), "; hit")
}

// answerAsLogged is an origin: it answers with what the log has for the URL at about this time, after as long.
func answerAsLogged(w http.ResponseWriter, r *http.Request, log entries) {
	e := logreader.Entry{Status: 200, Took: 50 * time.Millisecond}
	since := time.Since(bubbleStart)
	at, _ := slices.BinarySearchFunc(log, log[0].Time.Add(since-log[0].Took), func(e logreader.Entry, now time.Time) int { return e.Time.Compare(now) })
	path := r.URL.Path
	for _, logged := range log[at:min(len(log), at+50)] {
		if logged.Method == r.Method && (logged.URI == r.URL.RequestURI() || strings.HasPrefix(logged.URI, path)) {
			e = logged
			break
		}
	}
	time.Sleep(e.Took)
	if e.CacheControl != "" {
		w.Header().Set("Cache-Control", e.CacheControl)
	}
	w.Header().Set("Content-Type", "text/html")
	switch e.Status {
	case 304:
		e.Status = 200
	case 302:
		w.Header().Set("Location", "/")
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write([]byte("page"))
}

// bubbleStart is when time begins in a bubble of testing/synctest.
var bubbleStart = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// pipes is a listener whose connections are pipes.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), closed: make(chan struct{})} }

func (p *pipes) dial() net.Conn {
	client, server := net.Pipe()
	p.conns <- server
	return client
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// The report, word by word: of a log with a page, a search, an invented URL and an error.
func TestReport(t *testing.T) {
	at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	var log entries
	add := func(after time.Duration, uri string, status int) {
		log = append(log, logreader.Entry{Time: at.Add(after), Method: "GET", URI: uri, Status: status, Bytes: 10_000})
	}
	for i := range 60 {
		add(time.Duration(i)*time.Minute/2, "/", 200)
		add(time.Duration(i)*time.Minute/2, fmt.Sprintf("/list?page=%d&utm_source=secret", i%3), 200)
	}
	add(time.Hour/2, "/missing\x1b[31m?token=secret", 404)
	add(time.Hour/2, "/broken", 500)
	report, err := assess.Run(t.Context(), &log, assess.Options{
		Name: "revalidate: 1m and stale: 1d", Host: "example.com", Compare: true,
		Site: siteOf(isr.Route{Revalidate: time.Minute, Stale: 24 * time.Hour, Jitter: -1}),
	})
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := report.Write(&text); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(text.String(), "secret") {
		t.Error("the report has the value of a query parameter")
	}
	const golden = "testdata/report.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil { //nolint:gosec // a text
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if text.String() != string(want) {
		t.Errorf("the report is not %s (-update writes it):\n%s", golden, text.String())
	}
}

var update = flag.Bool("update", false, "write the expected reports")

// What strangers have sent is text on the page, wherever it is shown.
func TestHTMLIsEscaped(t *testing.T) {
	const hostile = `<script>alert(1)</script>"'`
	var log entries
	for i := range 4 {
		log = append(log, logreader.Entry{Time: time.Unix(1_790_000_000+int64(i), 0), Method: "GET", Host: "example.com", URI: "/" + hostile + "?" + hostile + "=1", Status: 200})
	}
	report, err := assess.Run(t.Context(), &log, assess.Options{Name: hostile, Compare: true, Site: siteOf(isr.Route{Revalidate: time.Minute})})
	if err != nil {
		t.Fatal(err)
	}
	var page strings.Builder
	if err := report.WriteHTML(&page); err != nil {
		t.Fatal(err)
	}
	if strings.Contains(page.String(), "<script") || strings.Count(page.String(), "&lt;script&gt;") < 3 {
		t.Errorf("the page has what the log has as it is:\n%s", page.String())
	}
}

func TestEmptyLog(t *testing.T) {
	if _, err := assess.Run(t.Context(), new(entries), assess.Options{Site: siteOf(isr.Route{})}); !errors.Is(err, assess.ErrEmpty) {
		t.Errorf("the error is %v, want %v", err, assess.ErrEmpty)
	}
}

// A generated log of many pages: each URL is requested a few times, and popular ones often.
type endless struct {
	n, bytes, limit int64
	rng             *rand.Rand
	popular         *rand.Zipf
	highest         uint64 // memory in use
}

func (s *endless) Next(e *logreader.Entry) error {
	if s.bytes >= s.limit {
		return io.EOF
	}
	if s.n++; s.n%50_000 == 0 {
		runtime.GC()
		var stats runtime.MemStats
		runtime.ReadMemStats(&stats)
		s.highest = max(s.highest, stats.HeapAlloc)
	}
	*e = logreader.Entry{Time: time.Unix(1_790_000_000+s.n/100, 0), Method: "GET", Host: "example.com", Status: 200, Bytes: 1000}
	if s.n%2 == 0 {
		e.URI = fmt.Sprintf("/popular/%d", s.popular.Uint64())
	} else {
		e.URI = fmt.Sprintf("/rare/%d?parameter%d=x", s.rng.IntN(10_000_000), s.rng.IntN(10_000_000))
	}
	s.bytes += int64(100 + len(e.URI))
	return nil
}

// Memory does not grow with the log, and the estimate is near the hit ratio of all pages.
func TestMemoryOfLongLogs(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same log each time
	log := &endless{limit: 50 << 20, rng: rng, popular: rand.NewZipf(rng, 1.2, 8, 5000)}
	report, err := assess.Run(t.Context(), log, assess.Options{
		Site:   siteOf(isr.Route{Revalidate: 24 * time.Hour, Stale: 24 * time.Hour, IgnoreQuery: []string{"*"}}),
		Memory: 50 << 20,
	})
	if err != nil {
		t.Fatal(err)
	}
	got := report.Forecasts[0]
	t.Logf("%d requests, %d MiB in use, hit ratio %.4f of %d pages", log.n, log.highest>>20, got.HitRatio, got.Pages)
	if log.highest > 50<<20 {
		t.Errorf("%d MiB are in use", log.highest>>20)
	}
	if !got.Sampled {
		t.Error("no pages were left out")
	}
	// All but the first request of each popular page is a hit, and few rare pages are requested twice.
	if math.Abs(got.HitRatio-0.5) > 0.05 {
		t.Errorf("the hit ratio is %.4f, want about 0.5", got.HitRatio)
	}
}

// zipfian returns the log of a site on which the request of rank r gets a share of the requests in proportion to 1/r:
// most pages are requested seldom, and some may not be stored.
func zipfian(n int, seed uint64) (log entries) {
	rng := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // the same log each time
	popular := rand.NewZipf(rng, 1.05, 4, 100_000)
	now := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	for range n {
		now = now.Add(time.Duration(rng.ExpFloat64() * float64(20*time.Millisecond)))
		page := popular.Uint64()
		e := logreader.Entry{Time: now, Method: "GET", Host: "example.com", URI: fmt.Sprintf("/page/%d", page), Status: 200, Bytes: 5000}
		switch {
		case page%97 == 5:
			e.CacheControl = "private"
		case rng.IntN(50) == 0:
			e.URI += "?session=1"
		}
		log = append(log, e)
	}
	return log
}

// A part of the pages, which is chosen by itself or by Sample, has nearly the hit ratio of all.
func TestSampledForecast(t *testing.T) {
	log := zipfian(24_000, 3)
	forecast := func(sample float64) assess.Forecast {
		entries := slices.Clone(log)
		report, err := assess.Run(t.Context(), &entries, assess.Options{Site: siteOf(isr.Route{Revalidate: time.Minute, Stale: -1}), Sample: sample})
		if err != nil {
			t.Fatal(err)
		}
		return report.Forecasts[0]
	}
	all := forecast(1)
	if all.Sampled {
		t.Error("pages were left out")
	}
	for name, sample := range map[string]float64{"as many as bound the time": 0, "a quarter": 0.25} {
		part := forecast(sample)
		t.Logf("%s: hit ratio %.4f of %.4f, %d of %d to the site", name, part.HitRatio, all.HitRatio, part.Origin, all.Origin)
		if !part.Sampled {
			t.Errorf("%s: no pages were left out", name)
		}
		if math.Abs(part.HitRatio-all.HitRatio) >= 0.01 {
			t.Errorf("%s: the hit ratio is %.4f, and of all pages %.4f", name, part.HitRatio, all.HitRatio)
		}
	}
}
