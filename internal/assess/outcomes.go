package assess

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/store"
)

const (
	// steady is how many renders in a row must have had the same course before the next ones are taken to have it too,
	// and trusted how many are, before the cache renders again: at first, and twice as many each time, up to mostTrusted.
	steady      = 4
	trusted     = 16
	mostTrusted = 1 << 20
	// steadyWithin is the most by which the times for which a page was fresh may differ, as a factor.
	steadyWithin = 1.5
)

// A rhythm is how a page is rendered again and again.
type rhythm struct {
	fresh  time.Time // until when it is fresh
	by     course
	streak int                   // renders with this course
	lasted [steady]time.Duration // how long it was fresh after them, in turns
	// The earliest and the latest request after the page was fresh with which it was rendered so: a later one may get no
	// stale page, and an earlier one may get one.
	early, late time.Duration
	assumed     int // renders since the cache has rendered
	trust       int // how many of them there may be
}

// A course is what a render depends on, and what the visitor has got.
type course struct {
	cacheControl string
	stale        bool // the stale page, and not the new one
}

// courseOf returns the course of a render. ok is false if it is one that is never assumed.
func courseOf(e *logreader.Entry, stale bool) (c course, ok bool) {
	usual := e.Status == http.StatusOK || e.Status == http.StatusNotModified || e.Status == http.StatusPartialContent
	return course{e.CacheControl, stale}, usual && e.Method == http.MethodGet && !e.SetsCookie && e.Bytes <= largestBody
}

// wasRendered notes a render by the cache, after which the page is fresh for so long.
func (r *rhythm) wasRendered(e *logreader.Entry, now time.Time, stale bool, lasts time.Duration) {
	by, ok := courseOf(e, stale)
	if r.assumed > 0 { // the stale page of the cache is older than the one that is assumed
		by.stale = r.by.stale
	}
	late := now.Sub(r.fresh)
	switch {
	case !ok || by != r.by || r.fresh.IsZero():
		r.by, r.streak, r.trust, r.early, r.late = by, 0, trusted, late, late
	case r.assumed >= r.trust:
		r.trust = min(2*r.trust, mostTrusted)
	}
	r.early, r.late = min(r.early, late), max(r.late, late)
	r.assumed, r.fresh = 0, now.Add(lasts)
	r.lasted[r.streak%steady] = lasts
	r.streak++
}

// assumes reports whether the page is rendered for a request as it was before, and notes that it is.
func (r *rhythm) assumes(e *logreader.Entry, now time.Time) bool {
	by, ok := courseOf(e, r.by.stale)
	late := now.Sub(r.fresh)
	switch {
	case !ok || by != r.by || r.streak < steady || r.assumed >= r.trust:
		return false
	case by.stale && late > r.late, !by.stale && late < r.early:
		return false
	case float64(slices.Max(r.lasted[:])) > steadyWithin*float64(slices.Min(r.lasted[:])):
		return false
	}
	r.fresh = now.Add(r.lasted[(r.streak+r.assumed)%steady])
	r.assumed++
	return true
}

// repeat counts a request whose outcome is known, without asking the cache. ok is false if it is not known.
func (f *forecast) repeat(q *request) (ok bool) {
	switch found := &q.found[f.keying]; found.is {
	case bypasses:
		if f.sample == 1 { // a replay of everything assumes nothing
			return false
		}
		f.pass(&q.Entry, found.why, 1)
		return true
	case ofPage:
		if p := f.pages[found.hash]; p != nil {
			return f.repeatPage(p, q)
		}
		return found.hash > f.threshold
	}
	return false
}

func (f *forecast) repeatPage(p *page, q *request) (ok bool) {
	now := f.time()
	switch {
	case now.Before(p.until): // the response that it waits for is not there yet
		return false
	case now.Before(p.fresh):
		p.hits++
		f.hits.add(q.Time, p.weight())
	case f.sample == 1 || !p.assumes(&q.Entry, now):
		return false
	case p.by.stale:
		p.hits, p.stale, p.origin, p.published = p.hits+1, p.stale+1, p.origin+1, p.published+1
		f.hits.add(q.Time, p.weight())
	default:
		p.origin, p.published, p.until = p.origin+1, p.published+1, now.Add(q.Took)
		f.reasons.add("expired", p.key.Text, p.weight())
	}
	f.requested(p, &q.Entry)
	return true
}

// remember notes how the page of a request that the cache has answered was rendered, if it was published.
func (f *forecast) remember(e *logreader.Entry, report *isr.Report) {
	published := f.meta.published.Load()
	p := f.pages[hash(report.Key)]
	if p == nil || published == nil || f.refreshesEarly { // then a hit may begin a render
		return
	}
	now := f.time()
	p.wasRendered(e, now, report.Hit && report.Detail == "stale", published.FreshUntil().Sub(now))
}

// A recorder is a store that records what is published.
type recorder struct {
	*dynamostore.Store
	published atomic.Pointer[store.Entry] // since the present request; nil if nothing was
}

// Publish implements [store.MetaStore].
func (r *recorder) Publish(ctx context.Context, l store.Lease, read store.Record, next store.Entry, how store.PublishOptions) (store.Entry, error) {
	next, err := r.Store.Publish(ctx, l, read, next, how)
	if err == nil {
		r.published.Store(&next)
	}
	return next, err
}
