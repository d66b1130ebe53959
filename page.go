package isr

import (
	"bytes"
	"cmp"
	"net/http"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/httpconn"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/marks"
	"github.com/facetheory/isr/store"
)

// A page is an entry with its body, prepared to be served many times. Only its atomic
// fields change.
type page struct {
	key   store.Key
	entry store.Entry
	// cover is the purge state when the page was read. Marks that were made since are in
	// the table of marks: marked has those of its last version.
	cover  store.PurgeState
	marked marks.Memo
	read   reading // by which it was found
	body   []byte  // immutable
	// negative: the page is a response such as 404, of the negative cache.
	negative bool
	gzip     []byte // the body in gzip; nil if that saves nothing

	fields   []headerField // the stored header, with Vary
	lastMod  time.Time     // Last-Modified, zero without
	etag     representation
	etagGzip representation

	// dropped: the page is no longer served, but its body may be reused.
	dropped atomic.Bool
	// rejected: the last attempt in this process to replace the page was rejected.
	rejected atomic.Bool
	// stamp has Age and Cache-Status of hits in the current second.
	stamp atomic.Pointer[stamp]
	// nextTry is the earliest moment of the next search for a newer generation, so
	// that a stale page does not start a flight per request.
	nextTry attempt
	// nextEarly is the same while the page is fresh. It is separate so that requests
	// that find the page stale a moment later wait for the flight.
	nextEarly attempt
}

type headerField struct {
	name   string
	values []string
}

// A representation is one coding of the body, with its own strong validator.
type representation struct {
	etag   string
	header []string // the ETag field
	length []string // the Content-Length field
	coding []string // the Content-Encoding field, nil for the plain body
}

type stamp struct {
	second  int64
	fresh   bool
	cutOff  bool
	age     []string
	status  []string
	control []string // replaces the page's Cache-Control; nil: it does not
}

// The memory of a page in addition to its texts and bodies, as measured.
const (
	pageOverhead  = 1728 // the page, its place in the memory tier, the names in its entry, and its marks
	fieldOverhead = 128  // a header field, in the entry and in page.fields
	textOverhead  = 16   // an element of a list of texts
)

// newPage makes a page of a route that presents it as as says.
func newPage(k store.Key, e store.Entry, c store.PurgeState, read reading, body []byte, as *presentation) *page {
	return makePage(k, e, c, read, body, as.compress)
}

// renew makes a page of another entry with the same body, which is not compressed again.
func (p *page) renew(e store.Entry, c store.PurgeState, read reading, as *presentation) *page {
	return makePage(p.key, e, c, read, p.body, func(contentType string, body []byte) []byte {
		if p.gzip != nil && httpcache.Compressible(contentType) {
			return p.gzip
		}
		return as.compress(contentType, body)
	})
}

func makePage(k store.Key, e store.Entry, c store.PurgeState, read reading, body []byte, compress func(contentType string, body []byte) []byte) *page {
	p := &page{key: k, entry: e, cover: c, read: read, body: body}
	h := e.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	if len(h["Content-Type"]) == 0 && len(body) > 0 {
		h.Set("Content-Type", http.DetectContentType(body))
	}
	p.gzip = compress(h.Get("Content-Type"), body)
	p.etag = newRepresentation(e.ETag, len(body))
	if p.gzip != nil {
		p.etagGzip = newRepresentation(httpcache.CodedETag(e.ETag, "gzip"), len(p.gzip))
		p.etagGzip.coding = []string{"gzip"}
		if !httpcache.HasMember(h["Vary"], "Accept-Encoding") {
			h.Add("Vary", "Accept-Encoding")
		}
	}
	if t, err := http.ParseTime(h.Get("Last-Modified")); err == nil {
		p.lastMod = t
	}
	for name, values := range h {
		p.fields = append(p.fields, headerField{name, values})
	}
	if e.GeneratedAt.Sub(read.began) > store.ClockTolerance {
		// The writer's clock was ahead, so the entry counts as stale. It is
		// regenerated for that reason at most once per window.
		p.nextTry.notBefore.Store(int64(e.Revalidate))
	}
	return p
}

func newRepresentation(etag string, length int) representation {
	r := representation{etag: etag, length: []string{strconv.Itoa(length)}}
	if etag != "" {
		r.header = []string{etag}
	}
	return r
}

// weight is the memory of the page, in bytes.
func (p *page) weight() uint32 {
	n := pageOverhead + cap(p.body) + cap(p.gzip) + len(p.key.Tenant) + 2*len(p.key.Text) + textBytes(p.entry.Tags)
	for _, f := range p.fields {
		n += fieldOverhead + len(f.name) + textBytes(f.values)
	}
	return uint32(n)
}

func textBytes(texts []string) int {
	n := 0
	for _, t := range texts {
		n += textOverhead + len(t)
	}
	return n
}

// An attempt is the earliest moment at which something may be tried again with a page. It
// is counted from when the page was read, by the monotonic clock: a wall clock that is
// set back would delay it.
type attempt struct {
	notBefore atomic.Int64 // in nanoseconds since p.read.began
}

// put postpones the attempt by d.
func (a *attempt) put(p *page, d time.Duration) {
	a.notBefore.Store(int64(time.Since(p.read.began) + d))
}

// isDue reports whether the attempt may be made.
func (a *attempt) isDue(p *page) bool {
	return int64(time.Since(p.read.began)) >= a.notBefore.Load()
}

// claim reports whether the caller is to make the attempt now: one of all that ask.
func (a *attempt) claim(p *page) bool {
	now, at := int64(time.Since(p.read.began)), a.notBefore.Load()
	return now >= at && a.notBefore.CompareAndSwap(at, now+int64(maxPoll))
}

// serveHit answers with a cache hit. cutOff: the log was not read, so that the page may be
// outdated.
func (p *page) serveHit(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, cutOff bool) {
	second := now.Unix()
	s := p.stamp.Load()
	if s == nil || s.second != second || s.fresh != (state == store.Fresh) || s.cutOff != cutOff {
		status := httpcache.Status{Hit: true, HasTTL: true, TTL: p.entry.FreshUntil().Sub(now)}
		switch {
		case cutOff:
			status.Detail = detailCutOff
		case state != store.Fresh && p.rejected.Load():
			status.Detail = detailRejected
		case state != store.Fresh:
			status.Detail = detailStale
		case p.negative:
			status.Detail = detailNegative
		case status.TTL <= 0: // fresh because of a pin
			status.Detail, status.HasTTL = detailPinned, false
		}
		s = &stamp{
			second: second,
			fresh:  state == store.Fresh,
			cutOff: cutOff,
			age:    []string{p.age(now)},
			status: []string{status.String()},
		}
		if status.Detail == detailPinned {
			s.age, s.control = []string{"0"}, []string{pinnedControl}
		} else {
			s.control = p.control(state, now)
		}
		p.stamp.Store(s)
	}
	h := w.Header()
	h["Age"] = s.age
	h["Cache-Status"] = s.status
	p.write(w, r, as, state, s.control)
}

// serveNew answers with a page that was rendered for this request, or while it waited.
func (p *page) serveNew(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, status httpcache.Status) {
	status.ForwardStatus = p.status()
	p.serve(w, r, as, now, state, status)
}

// serve answers with a page in a state, and a status.
func (p *page) serve(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, status httpcache.Status) {
	status.HasTTL = true
	status.TTL = p.entry.FreshUntil().Sub(now)
	h := w.Header()
	h["Age"] = []string{p.age(now)}
	h["Cache-Status"] = []string{status.String()}
	p.write(w, r, as, state, p.control(state, now))
}

// purgedControl is the Cache-Control of a page that is stale although its freshness window
// has not ended, because of a purge. With the page's own, a cache in front, which has just
// dropped its copy for the same purge, would take this one as fresh.
const purgedControl = "max-age=0, must-revalidate"

// control returns what replaces the page's Cache-Control in a state; nil for nothing.
func (p *page) control(state store.State, now time.Time) []string {
	if state == store.Fresh || !now.Before(p.entry.FreshUntil()) {
		return nil
	}
	return []string{purgedControl}
}

// pinnedControl is the Cache-Control of a page that is pinned beyond its freshness
// window. With the page's own, downstream caches would treat it as stale, or, without its
// age, keep it long after it was unpinned.
const pinnedControl = "max-age=10"

func (p *page) age(now time.Time) string {
	return strconv.FormatInt(int64(p.entry.Age(now)/time.Second), 10)
}

// write sends the page according to the request's conditions (RFC 9110, section 13.2.2).
// control, if not nil, replaces the page's Cache-Control, and that of the route.
func (p *page) write(w http.ResponseWriter, r *http.Request, as *presentation, state store.State, control []string) {
	h := w.Header()
	for _, f := range p.fields {
		h[f.name] = f.values
	}
	status := p.status()
	as.controls(h, status, state == store.Fresh, control)
	as.fields(h)
	body, rep := p.body, p.etag
	if p.gzip != nil && !as.identity && httpcache.AcceptsGzip(r.Header["Accept-Encoding"]) {
		if _, ranged := r.Header["Range"]; !ranged { // ranges apply to the plain body
			body, rep = p.gzip, p.etagGzip
			h["Content-Encoding"] = rep.coding
		}
	}
	if rep.header != nil {
		h["Etag"] = rep.header
	}
	if status == http.StatusOK {
		if httpcache.NotModified(r.Header, rep.etag, cmp.Or(p.lastMod, p.entry.GeneratedAt)) {
			delete(h, "Content-Encoding")
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if field := r.Header.Get("Range"); field != "" && r.Method == http.MethodGet && !httpcache.IgnoreRange(field, int64(len(p.body))) {
			http.ServeContent(w, r, "", p.lastMod, bytes.NewReader(p.body))
			return
		}
	}
	if status != http.StatusNoContent {
		h["Content-Length"] = rep.length
	}
	w.WriteHeader(status)
	if r.Method != http.MethodHead && status != http.StatusNoContent {
		httpconn.PromiseBody(r, len(body))
		// Errors mean that the visitor went away.
		_, _ = w.Write(body)
	}
}

// status is the status of the entry; foreign entries have none.
func (p *page) status() int {
	if p.entry.Status == 0 {
		return http.StatusOK
	}
	return p.entry.Status
}
