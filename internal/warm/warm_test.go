package warm_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/internal/warm"
	"github.com/facetheory/isr/store"
)

// A site has pages that are fresh for a while after a render.
type site struct {
	sitemap string // its text; empty: 404
	fresh   time.Duration

	mu       sync.Mutex
	rendered map[store.Key][]time.Time // guarded by mu
	busy     bool                      // guarded by mu
	outcome  warm.Outcome              // of renders, instead of Rendered; guarded by mu
	fails    error                     // guarded by mu
	reports  []warm.Report             // guarded by mu
}

func newSite(pages int) *site {
	var text strings.Builder
	for i := range pages {
		fmt.Fprintf(&text, "https://example.com/%d\n", i)
	}
	return &site{sitemap: text.String(), fresh: 30 * time.Minute, rendered: make(map[store.Key][]time.Time)}
}

func (s *site) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.sitemap == "" {
		return &http.Response{StatusCode: http.StatusNotFound, Status: "404 Not Found", Body: http.NoBody, Request: r}, nil
	}
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(s.sitemap)), Request: r}, nil
}

func (s *site) Find(_ context.Context, url string) (store.Key, warm.Outcome, error) {
	k := store.Key{Text: strings.TrimPrefix(url, "https://")}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch renders := s.rendered[k]; {
	case strings.HasSuffix(url, "/account"):
		return store.Key{}, warm.NotCached, nil
	case len(renders) > 0 && time.Since(renders[len(renders)-1]) < s.fresh:
		return k, warm.Fresh, nil
	}
	return k, warm.Due, nil
}

func (s *site) Render(_ context.Context, k store.Key) (warm.Outcome, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fails != nil || s.outcome != "" {
		return s.outcome, s.fails
	}
	s.rendered[k] = append(s.rendered[k], time.Now())
	return warm.Rendered, nil
}

func (s *site) Busy() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.busy
}

// with changes the site, and returns what it has rendered, and the reports.
func (s *site) with(change func()) (renders int, reports []warm.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
	for _, times := range s.rendered {
		renders += len(times)
	}
	return renders, append([]warm.Report(nil), s.reports...)
}

// settings has a rate that does not matter.
var settings = warm.Settings{Sitemaps: []string{"https://example.com/sitemap.txt"}, Every: time.Hour, Rate: 1000, Pages: 1000}

func (s *site) schedule(table *dynamostore.Store, c warm.Settings, log io.Writer) *warm.Schedule {
	return warm.New(warm.Options{
		Store: table, Pages: s, Transport: s, Serves: func(host string) bool { return host == "example.com" },
		Ended:  func(r warm.Report) { s.with(func() { s.reports = append(s.reports, r) }) },
		Logger: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelInfo})),
	}, c)
}

// start runs a schedule until stop is called.
func start(s *warm.Schedule) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { s.Run(ctx) })
	return sync.OnceFunc(func() {
		cancel()
		running.Wait()
	})
}

func complete(reports []warm.Report) (n int) {
	for _, r := range reports {
		if r.Result() == warm.Complete {
			n++
		}
	}
	return n
}

// Of several servers, one runs each period, also if they are started again and again.
func TestOneRunPerPeriod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), newSite(20)
		s.fresh = time.Minute
		stops := make([]func(), 3)
		for i := range stops {
			stops[i] = start(s.schedule(table, settings, io.Discard))
		}
		const hours = 6
		for range hours * 4 {
			time.Sleep(15 * time.Minute)
			for i := range stops { // each server is started again
				stops[i]()
				stops[i] = start(s.schedule(table, settings, io.Discard))
			}
		}
		for _, stop := range stops {
			stop()
		}
		renders, reports := s.with(func() {})
		if n := complete(reports); n < hours || n > hours+1 || len(reports) != n {
			t.Errorf("%d runs, of which %d are complete, in %d periods", len(reports), n, hours)
		}
		if want := 20 * len(reports); renders != want {
			t.Errorf("%d renders; want %d", renders, want)
		}
	})
}

// A run that is cut off goes on at another server, which renders what is left.
func TestStoppedRunGoesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), newSite(20)
		slow := settings
		slow.Rate = 0.1
		stop := start(s.schedule(table, slow, io.Discard))
		for {
			time.Sleep(time.Second)
			if n, _ := s.with(func() {}); n == 5 {
				break
			}
		}
		stop()
		defer start(s.schedule(table, slow, io.Discard))()
		time.Sleep(10 * time.Minute)
		renders, reports := s.with(func() {})
		if len(reports) != 2 || reports[0].Result() != warm.Stopped || reports[1].Result() != warm.Complete || renders != 20 {
			t.Fatalf("%d renders, %+v", renders, reports)
		}
		if r := reports[1]; r.Pages != 20 || r.Fresh != 5 || r.Rendered != 15 {
			t.Errorf("%+v", r)
		}
	})
}

// A run ends if the circuit breaker is open, or if many pages fail; the whole fleet waits before it tries again, and the
// period is completed then.
func TestFailedRunIsTriedAgain(t *testing.T) {
	for name, breaks := range map[string]func(*site){
		"the circuit breaker":    func(s *site) { s.outcome = warm.OriginDown },
		"failing pages":          func(s *site) { s.fails = errors.New("status 500") },
		"a busy origin":          func(s *site) { s.outcome = warm.OriginBusy },
		"a sitemap that is away": func(s *site) { s.sitemap = "" },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				table, s := testbed.Table(t), newSite(30)
				text := s.sitemap
				breaks(s)
				log := new(testbed.Log)
				for range 2 {
					defer start(s.schedule(table, settings, log))()
				}
				time.Sleep(10 * time.Minute)
				renders, reports := s.with(func() { s.outcome, s.fails, s.sitemap = "", nil, text })
				if renders != 0 || len(reports) < 2 || len(reports) > 8 || complete(reports) != 0 || reports[0].Result() != warm.Failed {
					t.Errorf("while it fails: %d renders, %d runs, %+v", renders, len(reports), reports[0])
				}
				if !strings.Contains(log.String(), "level=WARN msg=\"warmed pages\" result=failed") {
					t.Errorf("log: %s", log)
				}
				time.Sleep(40 * time.Minute)
				if renders, reports = s.with(func() {}); renders != 30 || complete(reports) < 1 {
					t.Errorf("afterwards: %d renders, %d complete runs", renders, complete(reports))
				}
			})
		})
	}
}

// Renders keep to the rate, and wait while visitors do.
func TestRunYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), newSite(20)
		s.busy = true
		paced := settings
		paced.Rate = 2
		defer start(s.schedule(table, paced, io.Discard))()
		time.Sleep(10 * time.Minute)
		if n, _ := s.with(func() { s.busy = false }); n != 0 {
			t.Errorf("%d renders while visitors wait", n)
		}
		time.Sleep(5 * time.Second)
		if n, _ := s.with(func() {}); n < 8 || n > 16 { // at once those that waited for their turn, and then two a second
			t.Errorf("%d renders in 5 seconds", n)
		}
		time.Sleep(time.Minute)
		if n, reports := s.with(func() {}); n != 20 || complete(reports) != 1 {
			t.Errorf("%d renders, %+v", n, reports)
		}
	})
}

// Other settings end a run by the old ones. Without a sitemap nothing runs.
func TestSettingsAreReplaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		table, s := testbed.Table(t), newSite(50)
		s.sitemap += "https://example.com/account\nhttps://other.example/\n"
		slow := settings
		slow.Rate = 0.01
		schedule := s.schedule(table, warm.Settings{}, io.Discard)
		defer start(schedule)()
		time.Sleep(time.Hour)
		if n, reports := s.with(func() {}); n != 0 || len(reports) != 0 {
			t.Errorf("without a sitemap: %d renders", n)
		}
		schedule.Set(slow)
		time.Sleep(10 * time.Minute)
		schedule.Set(slow) // the same: the run goes on
		if n, reports := s.with(func() {}); n == 0 || n > 8 || len(reports) != 0 {
			t.Errorf("slowly: %d renders, %+v", n, reports)
		}
		schedule.Set(settings)
		time.Sleep(5 * time.Minute)
		renders, reports := s.with(func() {})
		if len(reports) != 2 || reports[0].Result() != warm.Stopped || renders != 50 {
			t.Fatalf("%d renders, %+v", renders, reports)
		}
		if r := reports[1]; r.Pages != 52 || r.Skipped != 2 || r.Rendered+r.Fresh != 50 || r.Failed != 0 {
			t.Errorf("%+v", r)
		}
		few := settings
		few.Every, few.Pages = 2*time.Hour, 10
		schedule.Set(few)
		time.Sleep(10 * time.Minute)
		if _, reports := s.with(func() {}); len(reports) != 3 || reports[2].Pages-reports[2].Skipped > 10 || reports[2].Result() != warm.Complete {
			t.Errorf("at most ten pages: %+v", reports)
		}
	})
}
