package isr

import (
	"cmp"
	"errors"
	"maps"
	"math"
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
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
	// negative: the page is a response such as 404, of the negative cache.
	negative bool
	// stored: the body is in the store under entry.BodyKey, and its codings may be beside it.
	stored bool
	// outage: the page could not be stored, since a store did not answer, which may have another one.
	outage bool
	// detached: the page lacks its body, which is read from the store when it is sent (see newDetached).
	detached bool

	fields   []headerField         // the stored header, with Vary and Date
	upstream string                // the Cache-Status of caches between the origin and this one
	varies   []httpcache.Nominated // the headers that Vary names; nil if there are none
	hints    []string              // the links of the stored header that clients can use early; nil without
	lastMod  time.Time             // Last-Modified, zero without
	modified time.Time             // lastMod, or else when the page was generated, in whole seconds
	plain    representation
	brief    *lifetimes              // replaces the lifetime of an error response that is meant for a file; nil: nothing does
	codable  bool                    // the body may have codings
	digests  bool                    // fields has digests of the plain body
	coded    atomic.Pointer[codings] // nil: nothing is known of them

	// dropped: the page is no longer served, but its body may be reused. Its outline, and other
	// pages that were made of that, share the mark.
	dropped *atomic.Bool
	// rejected: the last attempt in this process to replace the page was rejected.
	rejected atomic.Bool
	// stamp has Age and Cache-Status of hits in the current second of the page's age.
	stamp atomic.Pointer[stamp]
	// nextTry is the earliest moment of the next fill for a newer generation, so
	// that a stale page does not start a flight per request.
	nextTry attempt
	// nextEarly is the same while the page is fresh. It is separate so that requests
	// that find the page stale a moment later wait for the flight.
	nextEarly attempt
	// nextCoding is the earliest moment at which the coder is asked for a coding.
	nextCoding attempt
}

type headerField struct {
	name   string
	values []string
}

// A representation is the body in one coding, with its own strong validator.
type representation struct {
	kind   httpcache.Coding
	body   []byte // immutable; nil if the page is detached
	size   int64  // of the body, in bytes
	pin    *pin   // nil: the body is small, or not in memory
	etag   string
	header []string // the ETag field
	length []string // the Content-Length field
	coding []string // the Content-Encoding field, nil for the plain body
}

type stamp struct {
	second   int64 // of the page's age, counted from generatedAhead before it
	used     int64 // the Unix time after its first hit
	fresh    bool
	rejected bool // the last attempt to replace the page was rejected; of a page that is not fresh
	cutOff   bool
	aged     time.Duration // the age of the page
	shown    httpcache.Status
	as       *presentation // of the route: another one may be bound to it
	age      []string
	status   []string
	instead  *lifetimes // replaces fields of the page; nil: it does not
	heads    heads
}

// The memory of a page in addition to its texts and bodies, as measured.
const (
	pageOverhead  = 2048 // the page, its place in the memory tier, the names in its entry, its marks, and the beginning of a head
	fieldOverhead = 128  // a header field, in the entry and in page.fields
	textOverhead  = 16   // an element of a list of texts
)

// newPage makes a page of a route that presents it as as says.
func newPage(k store.Key, e store.Entry, c store.PurgeState, read reading, body []byte, as *presentation) *page {
	p := &page{key: k, entry: e, cover: c, read: read, dropped: new(atomic.Bool)}
	h := e.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	p.prepare(h, body, int64(len(body)), as)
	return p
}

// prepareOnce completes a page of unpack for one response with its key, whose text may be part of a buffer, and
// its body; nil if a coding of it is served. Nothing may keep the page, nor make codings of it.
func (p *page) prepareOnce(k store.Key, body []byte, as *presentation) {
	p.stored, p.key = true, store.Key{Tenant: strings.Clone(k.Tenant), Text: strings.Clone(k.Text)} // for reports, which stay
	if p.entry.Header == nil {
		p.entry.Header = make(http.Header)
	}
	p.nextCoding.notBefore.Store(math.MaxInt64) // the coder would keep the page
	p.prepare(p.entry.Header, body, p.entry.Length, as)
}

// prepare prepares a page that has its entry to be served, with the stored header, which it changes.
// The body has some length, and may be missing: then only codings of it may be served.
func (p *page) prepare(h http.Header, body []byte, length int64, as *presentation) {
	p.plain = newRepresentation(p.entry.ETag, body, length)
	if len(h["Content-Type"]) == 0 && len(body) > 0 {
		h.Set("Content-Type", http.DetectContentType(body))
	}
	_, _, _, variant := p.key.Split()
	p.varies = httpcache.NominatedBy(variant, h["Vary"])
	p.hints = httpcache.EarlyHints(h["Link"])
	p.codable = as.varyByCoding(h, length)
	if text := h.Get("Last-Modified"); text != "" { // ParseTime makes an error for each of its formats
		if t, err := http.ParseTime(text); err == nil {
			p.lastMod = t
		}
	}
	p.modified = cmp.Or(p.lastMod, p.entry.GeneratedAt.Truncate(time.Second))
	p.brief = briefly(p.status(), h)
	p.upstream = h.Get("Cache-Status")
	delete(h, "Cache-Status")
	if len(h["Date"]) == 0 { // RFC 9110, section 6.6.1
		h["Date"] = []string{p.entry.GeneratedAt.UTC().Format(http.TimeFormat)}
	}
	p.digests = httpcache.HasDigests(h)
	p.fields = slices.Grow(p.fields[:0], len(h))
	for name, values := range h {
		if httpcache.Replayed(name) { // another writer may have stored the others
			p.fields = append(p.fields, headerField{name, values})
		}
	}
	if p.entry.GeneratedAt.Sub(p.read.began) > store.ClockTolerance {
		// The writer's clock was ahead, so the entry counts as stale. It is
		// regenerated for that reason at most once per window.
		p.nextTry.notBefore.Store(int64(p.entry.Revalidate))
	}
}

func newRepresentation(etag string, body []byte, size int64) representation {
	r := representation{kind: httpcache.Identity, body: body, size: size, etag: etag, length: []string{strconv.FormatInt(size, 10)}}
	if len(body) > bodies.MaxCached {
		r.pin = &pin{size: int64(cap(body))}
	}
	if etag != "" {
		r.header = []string{etag}
	}
	return r
}

// body returns the body, which must not be changed; nil if the page is detached.
func (p *page) body() []byte { return p.plain.body }

// size returns the length of the body, in bytes, also of a detached page.
func (p *page) size() int64 { return p.plain.size }

// lastHit returns when the page was served last as a hit, rounded up to a whole second; ok is false if it
// never was.
func (p *page) lastHit() (at time.Time, ok bool) {
	s := p.stamp.Load()
	if s == nil {
		return time.Time{}, false
	}
	return time.Unix(s.used, 0), true
}

// weight is the memory of the page, in bytes.
func (p *page) weight() uint32 {
	n := pageOverhead + cap(p.plain.body) + p.coded.Load().weight() + len(p.key.Tenant) + 2*len(p.key.Text) + textBytes(p.entry.Tags) + textOverhead*len(p.hints) + 2*len(p.upstream)
	for _, f := range p.fields {
		n += fieldOverhead + 2*(len(f.name)+textBytes(f.values)) // once in a head
	}
	for _, v := range p.varies {
		n += fieldOverhead + len(v.Name) + len(v.Value)
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

// searchPause is the mean pause between fills of a page that is served, while another process renders
// its next generation; and the least pause between attempts.
const searchPause = time.Second

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
	return now >= at && a.notBefore.CompareAndSwap(at, now+int64(searchPause))
}

// generatedAhead makes ages positive, so that whole seconds of them are rounded down, also of a page whose
// writer's clock is ahead.
const generatedAhead = 24 * time.Hour

// serveHit answers with a cache hit. cutOff: the log was not read, so that the page may be
// outdated. An error means that the body cannot be sent, and that nothing was.
func (p *page) serveHit(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, cutOff bool) error {
	as.hint(w, r, p)
	s := p.stampAt(as, now, state, cutOff)
	if as.report != nil {
		as.report(w, p, s.shown, s.aged)
	}
	h := w.Header()
	h["Age"] = s.age
	h["Cache-Status"] = s.status
	return p.write(w, r, as, s.instead)
}

// stampAt returns the stamp of the current second of the page's age.
func (p *page) stampAt(as *presentation, now time.Time, state store.State, cutOff bool) *stamp {
	// Not of the clock: the age of the first request in a second of that is too low for later ones.
	second := int64((now.Sub(p.entry.GeneratedAt) + generatedAhead) / time.Second)
	s := p.stamp.Load()
	if s != nil && s.second == second && s.fresh == (state == store.Fresh) && (s.fresh || s.rejected == p.rejected.Load()) && s.cutOff == cutOff && s.as == as {
		return s
	}
	rejected := p.rejected.Load() // before it decides the status
	status := p.hitStatus(now, state, cutOff)
	s = &stamp{
		second:   second,
		used:     now.Unix() + 1,
		fresh:    state == store.Fresh,
		rejected: rejected,
		cutOff:   cutOff,
		as:       as,
		aged:     p.entry.Age(now),
		shown:    httpcache.Status{Hit: true, Detail: status.Detail},
		age:      []string{p.age(now)},
		status:   []string{status.After(p.upstream)},
		instead:  p.lifetimes(as, now, state, status.Detail == detailPinned),
	}
	p.stamp.Store(s)
	return s
}

// Reasons in the Cache-Status of hits.
const (
	detailStale    = "stale"
	detailCutOff   = "cut-off" // the log was not read
	detailNegative = "negative"
	detailPinned   = "pinned"
	detailRejected = "rejected"
)

// hitStatus is the status of a hit. cutOff is as in serveHit.
func (p *page) hitStatus(now time.Time, state store.State, cutOff bool) httpcache.Status {
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
	return status
}

// serveNew answers with a page that was rendered for this request, or while it waited.
func (p *page) serveNew(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, status httpcache.Status) error {
	status.ForwardStatus = cmp.Or(status.ForwardStatus, p.status())
	return p.serve(w, r, as, now, state, status)
}

// serve answers with a page in a state, and a status. An error is as of serveHit.
func (p *page) serve(w http.ResponseWriter, r *http.Request, as *presentation, now time.Time, state store.State, status httpcache.Status) error {
	as.hint(w, r, p)
	status.HasTTL = true
	status.TTL = p.entry.FreshUntil().Sub(now)
	if as.report != nil {
		as.report(w, p, status, p.entry.Age(now))
	}
	h := w.Header()
	h["Age"] = []string{p.age(now)}
	h["Cache-Status"] = []string{status.After(p.upstream)}
	return p.write(w, r, as, p.lifetimes(as, now, state, false))
}

func (p *page) age(now time.Time) string {
	return strconv.FormatInt(int64(p.entry.Age(now)/time.Second), 10)
}

// header sets the fields of the page that do not depend on its representation. instead, if not
// nil, replaces the fields that tell downstream caches how long to keep it.
func (p *page) header(h http.Header, as *presentation, instead *lifetimes) {
	for _, f := range p.fields {
		h[f.name] = f.values
	}
	if instead != nil {
		instead.set(h)
	}
	as.fields(h)
}

// write sends the page according to the request's conditions (RFC 9110, section 13.2.2).
// instead is as in header, and an error as of serveHit.
func (p *page) write(w http.ResponseWriter, r *http.Request, as *presentation, instead *lifetimes) error {
	rep, status, ranged := p.choose(r, as)
	if r.Method == http.MethodHead || status == http.StatusNoContent || status == http.StatusNotModified {
		p.complete(w.Header(), as, instead, rep, status, ranged)
		w.WriteHeader(status)
		return nil
	}
	src, err := p.source(r, as, rep, ranged)
	if err != nil {
		return err
	}
	defer src.close()
	p.complete(w.Header(), as, instead, src.rep, status, ranged)
	switch {
	case ranged:
		http.ServeContent(src.writer(w), withoutPreconditions(r), "", p.lastMod, src.content())
		src.mustHaveSent()
	case src.stored != nil:
		w.WriteHeader(status)
		src.stored.Send(w)
		src.mustHaveSent()
	default:
		w.WriteHeader(status)
		httpconn.PromiseBody(r, len(src.rep.body))
		// Errors mean that the visitor went away.
		_, _ = w.Write(src.rep.body)
	}
	return nil
}

// choose returns which representation of the page a request gets, and with which status. ranged:
// parts of it, unless the status is 304.
func (p *page) choose(r *http.Request, as *presentation) (rep *representation, status int, ranged bool) {
	rep, status, ranged = &p.plain, p.status(), p.ranged(r)
	if p.codable && !ranged {
		rep = p.represent(as, r.Header["Accept-Encoding"])
	}
	if status == http.StatusOK && httpcache.NotModified(r.Header, rep.etag, p.modified) {
		status = http.StatusNotModified
	}
	return rep, status, ranged
}

// complete adds the fields of the page to the header of a response, except Age and Cache-Status.
// instead is as in header.
func (p *page) complete(h http.Header, as *presentation, instead *lifetimes, rep *representation, status int, ranged bool) {
	p.header(h, as, instead)
	switch {
	case p.digests && rep.coding != nil:
		httpcache.DropDigests(h)
	case p.digests && ranged:
		httpcache.DropContentDigests(h)
	}
	if rep.coding != nil {
		h["Content-Encoding"] = rep.coding
	}
	if rep.header != nil {
		h["Etag"] = rep.header
	}
	switch {
	case status == http.StatusNotModified:
		delete(h, "Content-Encoding")
	case status != http.StatusNoContent && !ranged:
		h["Content-Length"] = rep.length
	}
}

// ranged reports whether a request is answered with ranges, which are those of the plain body.
// They are defined for GET alone (RFC 9110, section 14.2).
func (p *page) ranged(r *http.Request) bool {
	lines, present := r.Header["Range"]
	return present && r.Method == http.MethodGet && p.status() == http.StatusOK &&
		len(lines) > 0 && lines[0] != "" && !httpcache.IgnoreRange(lines[0], p.plain.size)
}

// withoutPreconditions returns a request without If-Match and If-Unmodified-Since, which are
// not applicable to a cache (RFC 9111, section 4.3.2; RFC 9110, section 13.1.1).
func withoutPreconditions(r *http.Request) *http.Request {
	if len(r.Header["If-Match"])+len(r.Header["If-Unmodified-Since"]) == 0 {
		return r
	}
	plain := *r
	plain.Header = r.Header.Clone()
	delete(plain.Header, "If-Match")
	delete(plain.Header, "If-Unmodified-Since")
	return &plain
}

// status is the status of the entry; foreign entries have none.
func (p *page) status() int {
	if p.entry.Status == 0 {
		return http.StatusOK
	}
	return p.entry.Status
}

// Bounds of the response headers of a route.
const (
	maxResponseRules = 64
	maxResponseBytes = 8 << 10
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
	case !httpcache.IsToken(name):
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

// A presentation is how a route presents responses to visitors. It is applied when they are
// served, so that it does not depend on what is stored. The lists are shared by all
// responses: nothing may append to them.
type presentation struct {
	// keys decide which requests may get a page (RFC 9111, section 4.1).
	keys *cachekey.Mapper

	set    []headerField
	remove []string // canonical names
	// browsers, cdn and surrogate are the fields of DownstreamControl.
	browsers, cdn, surrogate lifetimeField

	hints hinter
	// report is called when a request is answered with a page of this age, before the header is written. It
	// is on the hit path. Nil: nobody is told.
	report func(w http.ResponseWriter, p *page, status httpcache.Status, age time.Duration)

	codings coding.Has
	// want is called when a visitor wants a coding that the page lacks, at most once per searchPause and
	// page. It must not block. Nil: nothing makes codings.
	want func(*page, httpcache.Coding)
	// responses bounds the memory of long bodies that are being sent. Nil: nothing does.
	responses *responseMemory
	bodies    *bodyStore // not nil if responses is not
}

// viewRules are what a route declares of its responses.
type viewRules struct {
	set    http.Header // fields that are set
	remove []string    // names of fields that are removed
	// cacheControl, cdn and surrogate are the fields that tell downstream caches how long they may keep a
	// page. They may have "remaining" in place of a number of seconds. Empty: the page has its own fields.
	cacheControl, cdn, surrogate string
	earlyHints                   bool       // the links of pages are sent ahead of them
	codings                      coding.Has // the codings that pages may have
}

func newPresentation(rules viewRules) *presentation {
	a := &presentation{codings: rules.codings}
	for name, values := range rules.set {
		a.set = append(a.set, headerField{textproto.CanonicalMIMEHeaderKey(name), slices.Clip(slices.Clone(values))})
	}
	for _, name := range rules.remove {
		a.remove = append(a.remove, textproto.CanonicalMIMEHeaderKey(name))
	}
	a.browsers, a.cdn, a.surrogate = newLifetimeField(rules.cacheControl), newLifetimeField(rules.cdn), newLifetimeField(rules.surrogate)
	a.hints = newHinter(rules.earlyHints, a)
	return a
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
