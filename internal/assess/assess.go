// Package assess forecasts what a cache would gain a site, from its access log.
//
// The problem: whether a cache is worth it, and with which settings, is known after it runs in front of a site.
// A model of a cache would forecast the model.
//
// The model: the real cache answers the requests of the log, at the times of the log.
//
//	                      ┌─► forecast: gateway.Site, isr.Cache, embedded store ─┐
//	log ──► Entry ──► batch ─► forecast: the same with one other setting          ├─► Report
//	                      └─► forecast …  each with a clock of its own ──────────┘
//
// Time is what the entry says (isr.Config.Now): a request is answered, and what it has started ends, before time
// passes. The origin answers with the status of the log, at once. What a log does not show is stated in
// Report.Assumptions: cookies, credentials and request headers above all.
//
// Some of the cache uses the monotonic clock, and not Config.Now: how long it remembers failures and refusals. So
// responses that are not stored by their status never reach it: whether it has the page is asked with
// "Cache-Control: only-if-cached".
//
// Guarantees:
//   - Memory is bounded, whatever the log contains: Options.Memory bounds the pages that all forecasts know together. Beyond
//     that each forecast goes on with a part of its pages, chosen by the hashes of their keys (spatial sampling: Waldspurger
//     et al., FAST 2015), with probabilities in proportion to how often a page was requested. A page counts for as many as
//     it stands for, corrected by the number of requests, which is known (forecast.estimated).
//   - Time is bounded: a render takes as long as a thousand other requests. So a request whose outcome is certain does not
//     reach the cache; a page that was rendered four times in the same way is taken to be rendered so the next 16 times,
//     then the next 32, and so on; and half of the pages are left out each time there were too many renders for the length
//     of the log. TestSampledForecast compares with a replay of everything (Options.Sample 1), from which the last two are
//     left out.
//   - The report has no client addresses and no values of query parameters.
package assess

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/logreader"
)

// Bounds of Options.Memory, in bytes.
const (
	DefaultMemory = 512 << 20
	MinMemory     = 256 << 20
)

const (
	// batchSize is how many entries are passed on together, and queued how many batches wait.
	batchSize = 512
	queued    = 4
	// lookAhead is how many entries are read before the settings are chosen.
	lookAhead = 20_000
	// disorder is by how much an entry may be older than the one before it without being counted.
	disorder = time.Minute
)

// Options are what is assessed.
type Options struct {
	// Name is what the report calls the configuration, and Site the configuration. Its origins are replaced.
	Name string
	Site gateway.SiteConfig
	// Host is the host of entries that have none.
	Host string
	// Compare adds forecasts that differ from the configuration in one setting each.
	Compare bool
	// Memory is what the process may use, in bytes: at least MinMemory. It bounds the pages of all forecasts together; the
	// process limits its heap (debug.SetMemoryLimit). Zero means DefaultMemory.
	Memory int64
	// Sample is the share of the pages requested once that are simulated after the first 10,000 requests, and those
	// requested more often are as many times as likely: more than 0 and at most 1. 1 also means that nothing is assumed of
	// renders: the log is replayed. Zero means as many as bound the time.
	Sample float64
	// Progress is called now and then. Nil means not.
	Progress func()
}

// ErrEmpty: a log has no requests.
var ErrEmpty = errors.New("the log has no requests")

// A Source returns entries in the order of time, and io.EOF after the last one.
type Source interface {
	Next(e *logreader.Entry) error
}

// Run reads a log to its end, and returns what the cache would make of it. The error wraps ErrEmpty if it has no
// requests.
func Run(ctx context.Context, log Source, opts Options) (*Report, error) {
	opts.Memory = cmp.Or(opts.Memory, DefaultMemory)
	in := &intake{log: log, opts: opts, parameters: newParameters()}
	first, err := in.begin()
	if err != nil {
		return nil, err
	}
	forecasts, keyings, err := newForecasts(opts, in.parameters)
	in.keyings = keyings
	defer func() {
		for _, f := range forecasts {
			f.close()
		}
	}()
	if err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	feeds := make([]chan []request, len(forecasts))
	for i, f := range forecasts {
		feeds[i] = make(chan []request, queued)
		group.Go(func() error { return f.run(ctx, feeds[i]) })
	}
	group.Go(func() error {
		defer func() {
			for _, feed := range feeds {
				close(feed)
			}
		}()
		return in.feed(ctx, first, feeds)
	})
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return newReport(in, forecasts), nil
}

// An intake reads the log, and counts what does not depend on a configuration.
type intake struct {
	log        Source
	opts       Options
	parameters *parameters
	identify   identifier
	keyings    []*keying

	from, until time.Time
	requests    int64
	bytes       int64
	disordered  int64
	series      series // requests
}

// begin reads the first entries.
func (in *intake) begin() (first []request, err error) {
	for len(first) < lookAhead {
		var e request
		switch err := in.next(&e); {
		case errors.Is(err, io.EOF) && len(first) == 0:
			return nil, ErrEmpty
		case errors.Is(err, io.EOF):
			return first, nil
		case err != nil:
			return nil, err
		}
		first = append(first, e)
	}
	return first, nil
}

// next reads one entry.
func (in *intake) next(q *request) error {
	e := &q.Entry
	if err := in.log.Next(e); err != nil {
		return err
	}
	if e.Host == "" {
		e.Host = in.opts.Host
	}
	if in.from.IsZero() {
		in.from = e.Time
	}
	if e.Time.Before(in.until.Add(-disorder)) {
		in.disordered++
	}
	if e.Time.After(in.until) {
		in.until = e.Time
	}
	in.requests++
	in.bytes += e.Bytes
	in.series.add(e.Time, 1)
	in.parameters.add(e)
	return nil
}

// find finds the pages of requests.
func (in *intake) find(batch []request) {
	for i := range batch {
		q := &batch[i]
		id := in.identify.of(&q.Entry)
		for n, k := range in.keyings {
			q.found[n] = k.find(&q.Entry, id)
		}
	}
}

// feed passes all entries to all forecasts.
func (in *intake) feed(ctx context.Context, first []request, feeds []chan []request) error {
	send := func(batch []request) error {
		in.find(batch)
		for _, feed := range feeds {
			select {
			case feed <- batch: // read by all, changed by none
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if in.opts.Progress != nil {
			in.opts.Progress()
		}
		return nil
	}
	for len(first) > 0 {
		n := min(len(first), batchSize)
		if err := send(first[:n:n]); err != nil {
			return err
		}
		first = first[n:]
	}
	for {
		batch := make([]request, 0, batchSize)
		var err error
		for len(batch) < batchSize && err == nil {
			var e request
			if err = in.next(&e); err == nil {
				batch = append(batch, e)
			}
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		if len(batch) > 0 {
			if err := send(batch); err != nil {
				return err
			}
		}
		if err != nil {
			return nil
		}
	}
}
