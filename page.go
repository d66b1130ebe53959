package isr

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
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

// A DownstreamControl is what fresh pages of a route, with a status below 400, tell the
// caches behind this one, which are the visitors' browsers and proxies between. It replaces
// Cache-Control, CDN-Cache-Control and Expires of the renderer, which decide for this cache
// alone. Lifetimes count from when a page is served, so these pages have "Age: 0".
//
// Pages that are not fresh get "max-age=0, must-revalidate" instead, so that no cache keeps
// one for longer than this one, and pinned pages a few seconds. Responses that pass through
// are not changed.
//
// A cache that purges do not reach, such as a browser, serves its copy for the whole
// lifetime after a purge.
type DownstreamControl struct {
	// CacheControl is the field Cache-Control, such as "max-age=60" or "no-cache". Empty:
	// the page has the renderer's fields.
	CacheControl string
	// CDN is the field CDN-Cache-Control (RFC 9213), for caches that purges do reach.
	// Empty: the page has none. It needs CacheControl.
	CDN string
}

// Bounds of the response headers of a route.
const (
	maxResponseRules = 64
	maxResponseBytes = 8 << 10
	maxControlBytes  = 256
)

func (rt Route) validateResponse() error {
	var errs []error
	if n := len(rt.SetHeader); n > maxResponseRules {
		errs = append(errs, configErrorf("SetHeader", "must have at most %d fields (got %d)", maxResponseRules, n))
	}
	if n := len(rt.RemoveHeader); n > maxResponseRules {
		errs = append(errs, configErrorf("RemoveHeader", "must have at most %d names (got %d)", maxResponseRules, n))
	}
	bytes := 0
	for name, values := range rt.SetHeader {
		errs = append(errs, validateRule("SetHeader", name))
		if len(values) == 0 {
			errs = append(errs, configErrorf("SetHeader", "must have a value for %q; use RemoveHeader to remove it", name))
		}
		for _, v := range values {
			bytes += len(name) + len(v)
			if !validFieldValue(v) {
				errs = append(errs, configErrorf("SetHeader", "must not have control characters or outer spaces in values (got %.100q for %q)", v, name))
			}
		}
	}
	for _, name := range rt.RemoveHeader {
		bytes += len(name)
		errs = append(errs, validateRule("RemoveHeader", name))
		if containsHeader(slices.Collect(maps.Keys(rt.SetHeader)), textproto.CanonicalMIMEHeaderKey(name)) {
			errs = append(errs, configErrorf("RemoveHeader", "must not contain %q, which SetHeader sets", name))
		}
	}
	if bytes > maxResponseBytes {
		errs = append(errs, configErrorf("SetHeader", "must have at most %d bytes in all, with RemoveHeader (got %d)", maxResponseBytes, bytes))
	}
	return errors.Join(append(errs, rt.Downstream.validate())...)
}

func validateRule(field, name string) error {
	switch {
	case !validHeaderName(name):
		return configErrorf(field, "must contain names of header fields (got %q)", name)
	case ownedHeader(textproto.CanonicalMIMEHeaderKey(name)):
		return configErrorf(field, "must not contain %q, which the cache or the connection decides", name)
	}
	return nil
}

// ownedHeader reports whether a field describes the message, its body, its freshness or a
// cookie, so that no route may change it.
func ownedHeader(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
		"Content-Length", "Content-Encoding", "Content-Range", "Accept-Ranges", "Etag", "Last-Modified", "Date", "Location",
		"Cache-Control", "Cdn-Cache-Control", "Surrogate-Control", "Pragma", "Expires", "Age", "Vary", "Cache-Status", "Retry-After",
		"Set-Cookie", "Set-Cookie2", "Www-Authenticate":
		return true
	}
	return strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, http.TrailerPrefix) || strings.HasPrefix(name, "Isr-")
}

// validFieldValue reports whether a text may be sent as the value of a header field (RFC
// 9110, section 5.5).
func validFieldValue(v string) bool {
	for i := range len(v) {
		if c := v[i]; c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return strings.Trim(v, " \t") == v
}

func (d DownstreamControl) validate() error {
	if d.CDN != "" && d.CacheControl == "" {
		return configErrorf("Downstream", "must have CacheControl if it has CDN")
	}
	var errs []error
	for _, v := range []string{d.CacheControl, d.CDN} {
		if v != "" && (!validFieldValue(v) || len(v) > maxControlBytes || httpcache.ParseDirectives([]string{v}).Malformed()) {
			errs = append(errs, configErrorf("Downstream", "must have valid fields of at most %d bytes (got %.100q)", maxControlBytes, v))
		}
	}
	return errors.Join(errs...)
}

// A presentation is how a route presents responses to visitors. It is applied when they are
// served, so that it does not depend on what is stored. The lists are shared by all
// responses: nothing may append to them.
type presentation struct {
	set    []headerField
	remove []string // canonical names
	// control, if not nil, is the Cache-Control of fresh pages, outdated that of others.
	control, outdated, cdn []string
	age                    []string // of pages with control
	identity               bool     // no content coding
}

func newPresentation(rt Route) *presentation {
	a := &presentation{identity: rt.NoCompression}
	for name, values := range rt.SetHeader {
		a.set = append(a.set, headerField{textproto.CanonicalMIMEHeaderKey(name), slices.Clip(slices.Clone(values))})
	}
	for _, name := range rt.RemoveHeader {
		a.remove = append(a.remove, textproto.CanonicalMIMEHeaderKey(name))
	}
	if rt.Downstream.CacheControl != "" {
		a.control, a.outdated, a.age = []string{rt.Downstream.CacheControl}, []string{purgedControl}, []string{"0"}
	}
	if rt.Downstream.CDN != "" {
		a.cdn = []string{rt.Downstream.CDN}
	}
	return a
}

// compress returns a body in gzip; nil if that saves nothing, or the route does not want it.
func (a *presentation) compress(contentType string, body []byte) []byte {
	if a.identity {
		return nil
	}
	return httpcache.Gzip(contentType, body)
}

// fields sets and removes the fields of the route.
func (a *presentation) fields(h http.Header) {
	for _, name := range a.remove {
		delete(h, name)
	}
	for _, f := range a.set {
		h[f.name] = f.values
	}
}

// controls sets the fields of a page for downstream caches. own, if not nil, is what this
// cache tells them of a page that is pinned or purged, whatever the route says.
func (a *presentation) controls(h http.Header, status int, fresh bool, own []string) {
	control := own
	if control == nil && a.control != nil && status < http.StatusBadRequest {
		control = a.outdated
		if fresh {
			control = a.control
		}
	}
	if control == nil {
		return
	}
	h["Cache-Control"] = control
	delete(h, "Cdn-Cache-Control")
	delete(h, "Expires")
	if own == nil && fresh {
		h["Age"] = a.age
		if a.cdn != nil {
			h["Cdn-Cache-Control"] = a.cdn
		}
	}
}
