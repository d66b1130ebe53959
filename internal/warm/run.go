package warm

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/sitemap"
	"github.com/facetheory/isr/store"
)

// Pages are the pages of a site. It must be safe for concurrent use.
type Pages interface {
	// Find returns the page that a visitor of a URL gets, by the rules for visitors, and what there is to do: Due, Fresh,
	// NotCached or OriginDown. It renders nothing.
	Find(ctx context.Context, url string) (store.Key, Outcome, error)
	// Render renders a page unless it has become fresh: Rendered, Fresh, NotCached, OriginDown or OriginBusy.
	Render(ctx context.Context, k store.Key) (Outcome, error)
	// Busy reports whether visitors wait for renders.
	Busy() bool
}

// An Outcome is what became of a page.
type Outcome string

// The outcomes.
const (
	Due        Outcome = "due"          // it is missing, stale or expired
	Rendered   Outcome = "rendered"     // it was rendered now
	Fresh      Outcome = "fresh"        // it needs no render, or another server renders it
	NotCached  Outcome = "not cached"   // it cannot be stored, or its URL is no visitor's
	OriginBusy Outcome = "origin busy"  // too many pages wait for the origin
	OriginDown Outcome = "origin fails" // the circuit breaker of its origin is open
)

// A Report is what a run did.
type Report struct {
	Sitemaps []string
	Pages    int // that were looked at: the sum of the next four
	Rendered int
	Fresh    int
	Skipped  int // that cannot be stored, or whose URLs are of other hosts or invalid
	Failed   int
	Took     time.Duration
	Err      error // why it ended early; nil if it did not
}

// The results of a run.
const (
	Complete = "complete" // all pages were looked at
	Stopped  = "stopped"  // the server ends, the schedule has changed, or the lease is lost: another run goes on
	Failed   = "failed"   // it is tried again later
)

// errStopped: the context of a run has ended.
var errStopped = errors.New("stopped")

// Result returns the result of the run.
func (r Report) Result() string {
	switch {
	case r.Err == nil:
		return Complete
	case errors.Is(r.Err, errStopped):
		return Stopped
	}
	return Failed
}

const (
	workers = 4
	// maxLooks is how many pages are looked at in a second: each may be a read of the store.
	maxLooks = 50
	// maxFailures is how many pages in a row may fail.
	maxFailures = 20
	// maxTries is how often a page is tried while its origin is busy.
	maxTries = 4
	// busyPause is the wait while visitors wait for renders.
	busyPause = time.Second
)

// A run looks at the pages of the sitemaps once.
type run struct {
	o              Options
	settings       Settings
	looks, renders pace

	mu     sync.Mutex
	report Report // guarded by mu
	inARow int    // failures; guarded by mu
}

// run executes a run until ctx is done, whose cause may be that the lease is lost.
func (s *Schedule) run(ctx context.Context, settings Settings) Report {
	began := time.Now()
	s.o.Logger.Info("warming pages", "sitemaps", settings.Sitemaps, "every", settings.Every, "rate", settings.Rate)
	r := &run{o: s.o, settings: settings, report: Report{Sitemaps: settings.Sitemaps}}
	r.looks.interval, r.renders.interval = time.Second/maxLooks, time.Duration(float64(time.Second)/settings.Rate)
	working, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	urls := make(chan string)
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for u := range urls {
				if err := r.page(working, u); err != nil {
					fail(err)
				}
			}
		})
	}
	err := r.feed(working, urls)
	close(urls)
	running.Wait()
	if cause := context.Cause(working); cause != nil {
		err = cause
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", errStopped, context.Cause(ctx))
	}
	r.report.Err, r.report.Took = err, time.Since(began)
	r.log()
	return r.report
}

// log writes the line of the run.
func (r *run) log() {
	level, more := slog.LevelInfo, []slog.Attr{}
	if err := r.report.Err; err != nil {
		more = append(more, slog.Any("error", err))
	}
	if r.report.Result() == Failed {
		level = slog.LevelWarn
	}
	r.o.Logger.LogAttrs(context.Background(), level, "warmed pages", append([]slog.Attr{
		slog.String("result", r.report.Result()), slog.Int("pages", r.report.Pages), slog.Int("rendered", r.report.Rendered), slog.Int("fresh", r.report.Fresh),
		slog.Int("skipped", r.report.Skipped), slog.Int("failed", r.report.Failed), slog.Float64("seconds", r.report.Took.Round(time.Millisecond).Seconds()),
	}, more...)...)
}

// feed sends the URLs of the sitemaps to the workers.
func (r *run) feed(ctx context.Context, urls chan<- string) error {
	n := 0
	for u, err := range r.urls(ctx) {
		if err != nil {
			return err
		}
		if n++; n > r.settings.Pages {
			r.o.Logger.Warn("the sitemaps have more pages than warm.pages: the rest is not warmed", "pages", r.settings.Pages)
			return nil
		}
		select {
		case urls <- u:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

// urls yields the URLs of all sitemaps, and ends after the first error.
func (r *run) urls(ctx context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) {
		for _, at := range r.settings.Sitemaps {
			reader := &sitemap.Reader{Serves: r.o.Serves, Transport: r.o.Transport}
			for u, err := range reader.URLs(ctx, at) {
				if !yield(u, err) || err != nil {
					return
				}
			}
			r.mu.Lock()
			r.report.Pages += reader.Skipped
			r.report.Skipped += reader.Skipped
			r.mu.Unlock()
		}
	}
}

// page looks at a page, and renders it if that is due. The error ends the run.
func (r *run) page(ctx context.Context, u string) error {
	if r.looks.wait(ctx) != nil {
		return nil
	}
	k, outcome, err := r.o.Pages.Find(ctx, u)
	for try := 1; err == nil && outcome == Due; try++ {
		if r.await(ctx) != nil {
			return nil
		}
		outcome, err = r.o.Pages.Render(ctx, k)
		if err == nil && outcome == OriginBusy && try < maxTries {
			outcome = Due
			_ = backoff.Wait(ctx, busyPause)
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	if outcome != Fresh || err != nil {
		r.o.Logger.Debug("warming a page", "url", u, "outcome", outcome, "error", err)
	}
	return r.count(u, outcome, err)
}

// await waits for the turn of a render, and then while visitors wait for theirs.
func (r *run) await(ctx context.Context) error {
	err := r.renders.wait(ctx)
	for err == nil && r.o.Pages.Busy() {
		err = backoff.Wait(ctx, busyPause)
	}
	return err
}

// count counts a page. The error ends the run.
func (r *run) count(u string, outcome Outcome, err error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.report.Pages++
	switch {
	case err == nil && outcome == Rendered:
		r.report.Rendered++
	case err == nil && outcome == Fresh:
		r.report.Fresh++
	case err == nil && outcome == NotCached:
		r.report.Skipped++
	default:
		r.report.Failed++
		if r.inARow++; outcome == OriginDown && err == nil {
			return fmt.Errorf("the circuit breaker of the origin is open (%s)", u)
		} else if err == nil {
			err = errors.New("the origin is busy")
		}
		if r.inARow == maxFailures {
			return fmt.Errorf("%d pages in a row have failed; the last, %s: %w", maxFailures, u, err)
		}
		return nil
	}
	r.inARow = 0
	return nil
}

// A pace lets callers pass, each an interval after the one before. The zero value lets all pass at once.
type pace struct {
	interval time.Duration

	mu   sync.Mutex
	next time.Time // guarded by mu
}

func (p *pace) wait(ctx context.Context) error {
	p.mu.Lock()
	now := time.Now()
	at := p.next
	if at.Before(now) {
		at = now
	}
	p.next = at.Add(p.interval)
	p.mu.Unlock()
	return backoff.Wait(ctx, at.Sub(now))
}
