package assess

import (
	"hash/maphash"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/store"
)

// A request is an entry of the log. Requests with the same method, host and target have the same id.
type request struct {
	logreader.Entry
	id uint64
}

// An identifier gives requests their ids.
type identifier struct{ hash maphash.Hash }

func (i *identifier) of(e *logreader.Entry) uint64 {
	i.hash.Reset()
	for _, text := range [...]string{e.Method, e.Host, e.URI} {
		_, _ = i.hash.WriteString(text) // never fails
		_ = i.hash.WriteByte(0)
	}
	return i.hash.Sum64()
}

// maxOutcomes bounds the outcomes that a forecast remembers.
const maxOutcomes = 1 << 17

// An outcome is what the cache does with a request, as far as it is known. Nothing is purged, and requests have neither
// cookies nor directives.
type outcome struct {
	is   kind
	page *page  // that answers it
	why  string // it passes
}

// A kind is a kind of outcome.
type kind uint8

const (
	leftOut kind = iota // its page is not in the sample
	ofPage
	passes
)

// outcomes are the outcomes of requests, by id.
type outcomes map[uint64]outcome

// set notes an outcome. If there are too many, all are forgotten: they are found out again.
func (o outcomes) set(id uint64, found outcome) {
	if len(o) >= maxOutcomes {
		clear(o)
	}
	o[id] = found
}

const (
	// steady is how many renders in a row must have had the same course before the next ones are taken to have it too,
	// and trusted how many are, before the cache renders again.
	steady  = 8
	trusted = 64
)

// A rhythm is how a page is rendered again and again.
type rhythm struct {
	fresh    time.Time // until when it is fresh
	rendered time.Time // the last time
	by       course
	streak   int                   // renders with this course, of which is known how long the page was fresh then
	measured bool                  // the last one is one of them
	lasted   [steady]time.Duration // how long it was fresh after them, in turns
	assumed  int                   // renders since the cache has rendered
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

// wasRendered notes a render by the cache.
func (r *rhythm) wasRendered(e *logreader.Entry, now time.Time, stale bool) {
	if r.measured { // it was fresh for less than since then
		last := &r.lasted[(r.streak-1)%steady]
		*last = min(*last, now.Sub(r.rendered))
	}
	by, ok := courseOf(e, stale)
	if !ok || by != r.by || !r.measured {
		r.streak = 0
	}
	r.by, r.rendered, r.measured, r.assumed = by, now, false, 0
}

// wasFresh notes that the page is fresh for so many whole seconds.
func (r *rhythm) wasFresh(now time.Time, left time.Duration) {
	r.fresh = now.Add(left)
	if !r.measured && !r.rendered.IsZero() {
		r.lasted[r.streak%steady] = r.fresh.Sub(r.rendered) + time.Second/2 // on average, unless wasRendered knows better
		r.streak, r.measured = r.streak+1, true
	}
}

// assumes reports whether the page is rendered for a request as it was before, and notes that it is.
func (r *rhythm) assumes(e *logreader.Entry, now time.Time) bool {
	by, ok := courseOf(e, r.by.stale)
	late := now.Sub(r.fresh)
	if !ok || by != r.by || r.streak < steady || r.assumed >= trusted || late > r.lasted[0] {
		return false
	}
	// All but the last one are exact: see wasRendered.
	lasted := r.lasted[(r.streak+r.assumed%(steady-1))%steady]
	r.assumed++
	r.rendered, r.fresh = now, now.Add(lasted)
	return true
}

// repeat counts a request whose outcome is known, without asking the cache again. ok is false if it is not known.
func (f *forecast) repeat(q *request) (ok bool) {
	known, ok := f.known[q.id]
	if !ok {
		return false
	}
	switch known.is {
	case passes:
		f.pass(&q.Entry, known.why, 1)
	case ofPage:
		return f.repeatPage(known.page, q)
	}
	return true
}

func (f *forecast) repeatPage(p *page, q *request) (ok bool) {
	now := f.time()
	switch {
	case now.Before(p.until): // the response that it waits for is not there yet
		return false
	case now.Before(p.fresh):
		p.hits++
		f.hits.add(q.Time, p.weight())
	case f.sample == 1 || !p.assumes(&q.Entry, now): // a replay of everything assumes nothing
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

// remember notes the outcome of a request that the cache has answered.
func (f *forecast) remember(q *request, w *writer) {
	report := &w.report
	switch {
	case report.Forward == "method", report.Forward == "bypass" && (report.Detail == "off" || report.Detail == "query"):
		f.known.set(q.id, outcome{is: passes, why: report.Detail})
	case report.Key == (store.Key{}) || f.refreshesEarly:
	case report.Hit && report.Detail == "":
		p := f.pages[hash(report.Key)]
		if left := timeToLive(w.header.Get("Cache-Status")); p != nil && left > 0 {
			p.wasFresh(f.time(), left)
			f.known.set(q.id, outcome{is: ofPage, page: p})
		}
	case f.asked.Load() > 0:
		if p := f.pages[hash(report.Key)]; p != nil {
			p.wasRendered(&q.Entry, f.time(), report.Hit && report.Detail == "stale")
		}
	}
}

// timeToLive returns for how long a page is fresh, in whole seconds, as Cache-Status tells; 0 if it does not.
func timeToLive(status string) time.Duration {
	_, rest, _ := strings.Cut(status, "; ttl=")
	digits, _, _ := strings.Cut(rest, ";")
	seconds, err := strconv.ParseInt(digits, 10, 32)
	if err != nil {
		return 0
	}
	return time.Duration(seconds) * time.Second
}
