package page

import (
	"bytes"
	"cmp"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/httpconn"
	"github.com/facetheory/isr/store"
)

// ErrNoRoom: the body of the page is not in the store, and there is no room in memory to send it.
var ErrNoRoom = errors.New("there is no memory left for responses")

// Light returns a request whose response may need no body, or only a part of one: what says so of
// it. Nil: it needs the body.
func Light(r *http.Request) *http.Request {
	light := &http.Request{Method: r.Method, Header: make(http.Header)}
	for _, name := range []string{"If-None-Match", "If-Modified-Since", "Range"} {
		if lines := r.Header[name]; len(lines) > 0 {
			light.Header[name] = lines
		}
	}
	if r.Method != http.MethodHead && len(light.Header) == 0 {
		return nil
	}
	if lines := r.Header["Accept-Encoding"]; len(lines) > 0 {
		light.Header["Accept-Encoding"] = lines
	}
	return light
}

// IsLight reports whether the response to a request needs less than the body of the page.
func (p *Page) IsLight(r *http.Request, as *View) bool {
	if r == nil {
		return false
	}
	_, status, ranged := p.choose(r, as)
	return r.Method == http.MethodHead || status == http.StatusNotModified || ranged
}

// A BodyStore is where the bodies of detached pages are, and bodies that there is no memory for.
type BodyStore struct {
	Reader *bodies.Reader
	// Patience is how long the first bytes of a body may take.
	Patience time.Duration
	// Suspect is called with a page whose body could not be read to its end.
	Suspect func(p *Page, err error)
}

// A source is what the body of a response is taken from: a representation in memory, or the stored body.
type source struct {
	rep    *representation
	pinned *ResponseMemory // of rep.pin; nil: it is not pinned
	stored *bodies.Body    // nil: the body is the body of rep
	page   *Page
	from   *BodyStore
}

// source returns the source of the body of a response with a representation. The caller must close it.
// ErrNoRoom, guard.ErrSlow, or what reading the body returns: nothing was sent.
func (p *Page) source(r *http.Request, as *View, rep *representation, ranged bool) (source, error) {
	if !p.Detached && rep.pin == nil {
		return source{rep: rep}, nil
	}
	switch from := as.Bodies; {
	case !p.Detached && as.Responses == nil:
		return source{rep: rep}, nil
	case !p.Detached && rep.pin.take(as.Responses):
		return source{rep: rep, pinned: as.Responses}, nil
	case !p.Stored || !from.Reader.Sendable(&p.Entry):
		return source{}, ErrNoRoom
	}
	field := ""
	if ranged {
		field = r.Header["Range"][0]
	}
	src := source{rep: &p.plain, stored: as.Bodies.Reader.Open(r.Context(), &p.Entry, field), page: p, from: as.Bodies}
	if err := src.stored.Begin(as.Bodies.Patience); err != nil {
		return source{}, err
	}
	return src, nil
}

// content returns the body.
func (s *source) content() io.ReadSeeker {
	if s.stored != nil {
		return s.stored
	}
	return bytes.NewReader(s.rep.body)
}

// writer returns the writer for the parts of the body.
func (s *source) writer(w http.ResponseWriter) http.ResponseWriter {
	if s.stored != nil {
		return s.from.Reader.Pieces().Writer(w)
	}
	return w
}

func (s *source) mustHaveSent() {
	if s.stored != nil {
		MustHaveSent(s.stored, func(err error) { s.from.Suspect(s.page, err) })
	}
}

// MustHaveSent breaks the connection if a body could not be read to its end, as the visitor must not take what
// was sent for all of it. suspect is called with the error, unless the visitor went away.
func MustHaveSent(body *bodies.Body, suspect func(error)) {
	err, canceled := body.Err()
	if err == nil {
		return
	}
	if !canceled {
		suspect(err)
	}
	panic(http.ErrAbortHandler)
}

func (s *source) close() {
	if s.pinned != nil {
		s.rep.pin.give(s.pinned)
	}
	if s.stored != nil {
		s.stored.Close()
	}
}

type hitFields struct {
	second   int64 // of the page's age, counted from generatedAhead before it
	used     int64 // the Unix time after its first hit
	fresh    bool
	rejected bool // the last attempt to replace the page was rejected; of a page that is not fresh
	cutOff   bool
	aged     time.Duration // the age of the page
	shown    httpcache.Status
	as       *View // of the route: another one may be bound to it
	age      []string
	status   []string
	instead  *lifetimes // replaces fields of the page; nil: it does not
	heads    heads
}

// generatedAhead makes ages positive, so that whole seconds of them are rounded down, also of a page whose
// writer's clock is ahead.
const generatedAhead = 24 * time.Hour

// ServeHit answers with a cache hit. cutOff: the log was not read, so that the page may be
// outdated. An error means that the body cannot be sent, and that nothing was.
func (p *Page) ServeHit(w http.ResponseWriter, r *http.Request, as *View, now time.Time, state store.State, cutOff bool) error {
	as.Hint(w, r, p)
	s := p.hitFieldsAt(as, now, state, cutOff)
	if as.Report != nil {
		as.Report(w, p, s.shown, s.aged)
	}
	h := w.Header()
	h["Age"] = s.age
	h["Cache-Status"] = s.status
	return p.write(w, r, as, s.instead)
}

// hitFieldsAt returns the stamp of the current second of the page's age.
func (p *Page) hitFieldsAt(as *View, now time.Time, state store.State, cutOff bool) *hitFields {
	// Not of the clock: the age of the first request in a second of that is too low for later ones.
	second := int64((now.Sub(p.Entry.GeneratedAt) + generatedAhead) / time.Second)
	s := p.hit.Load()
	if s != nil && s.second == second && s.fresh == (state == store.Fresh) && (s.fresh || s.rejected == p.Rejected.Load()) && s.cutOff == cutOff && s.as == as {
		return s
	}
	rejected := p.Rejected.Load() // before it decides the status
	status := p.HitStatus(now, state, cutOff)
	s = &hitFields{
		second:   second,
		used:     now.Unix() + 1,
		fresh:    state == store.Fresh,
		rejected: rejected,
		cutOff:   cutOff,
		as:       as,
		aged:     p.Entry.Age(now),
		shown:    httpcache.Status{Hit: true, Detail: status.Detail},
		age:      []string{p.age(now)},
		status:   []string{status.After(p.upstream)},
		instead:  p.lifetimes(as, now, state, status.Detail == detailPinned),
	}
	p.hit.Store(s)
	return s
}

// Reasons in the Cache-Status of hits.
const (
	detailStale    = "stale"
	DetailCutOff   = "cut-off" // the log was not read
	DetailNegative = "negative"
	detailPinned   = "pinned"
	DetailRejected = "rejected"
)

// HitStatus is the status of a hit. See ServeHit for cutOff.
func (p *Page) HitStatus(now time.Time, state store.State, cutOff bool) httpcache.Status {
	status := httpcache.Status{Hit: true, HasTTL: true, TTL: p.Entry.FreshUntil().Sub(now)}
	switch {
	case cutOff:
		status.Detail = DetailCutOff
	case state != store.Fresh && p.Rejected.Load():
		status.Detail = DetailRejected
	case state != store.Fresh:
		status.Detail = detailStale
	case p.Negative:
		status.Detail = DetailNegative
	case status.TTL <= 0: // fresh because of a pin
		status.Detail, status.HasTTL = detailPinned, false
	}
	return status
}

// ServeNew answers with a page that was rendered for this request, or while it waited.
func (p *Page) ServeNew(w http.ResponseWriter, r *http.Request, as *View, now time.Time, state store.State, status httpcache.Status) error {
	status.ForwardStatus = cmp.Or(status.ForwardStatus, p.Status())
	return p.Serve(w, r, as, now, state, status)
}

// Serve answers with a page in a state, and a status. An error is as of serveHit.
func (p *Page) Serve(w http.ResponseWriter, r *http.Request, as *View, now time.Time, state store.State, status httpcache.Status) error {
	as.Hint(w, r, p)
	status.HasTTL = true
	status.TTL = p.Entry.FreshUntil().Sub(now)
	if as.Report != nil {
		as.Report(w, p, status, p.Entry.Age(now))
	}
	h := w.Header()
	h["Age"] = []string{p.age(now)}
	h["Cache-Status"] = []string{status.After(p.upstream)}
	return p.write(w, r, as, p.lifetimes(as, now, state, false))
}

func (p *Page) age(now time.Time) string {
	return strconv.FormatInt(int64(p.Entry.Age(now)/time.Second), 10)
}

// header sets the fields of the page that do not depend on its representation. instead, if not
// nil, replaces the fields that tell downstream caches how long to keep it.
func (p *Page) header(h http.Header, as *View, instead *lifetimes) {
	for _, f := range p.fields {
		h[f.name] = f.values
	}
	if instead != nil {
		instead.set(h)
	}
	as.SetFields(h)
}

// write sends the page according to the request's conditions (RFC 9110, section 13.2.2).
// instead is as in header, and an error as of serveHit.
func (p *Page) write(w http.ResponseWriter, r *http.Request, as *View, instead *lifetimes) error {
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
func (p *Page) choose(r *http.Request, as *View) (rep *representation, status int, ranged bool) {
	rep, status, ranged = &p.plain, p.Status(), p.ranged(r)
	if p.Codable && !ranged {
		rep = p.represent(as, r.Header["Accept-Encoding"])
	}
	if status == http.StatusOK && httpcache.NotModified(r.Header, rep.etag, p.modified) {
		status = http.StatusNotModified
	}
	return rep, status, ranged
}

// complete adds the fields of the page to the header of a response, except Age and Cache-Status.
// instead is as in header.
func (p *Page) complete(h http.Header, as *View, instead *lifetimes, rep *representation, status int, ranged bool) {
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

// ranged reports whether a request is answered with ranges, which are ranges of the plain body.
// They are defined for GET alone (RFC 9110, section 14.2).
func (p *Page) ranged(r *http.Request) bool {
	lines, present := r.Header["Range"]
	return present && r.Method == http.MethodGet && p.Status() == http.StatusOK &&
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

// Begin sends the header of a page whose body is not known yet, and reports whether the body
// follows. length is the length of the body, -1 if it is unknown.
func (p *Page) Begin(w http.ResponseWriter, r *http.Request, as *View, now time.Time, state store.State, status httpcache.Status, length int64) bool {
	status.ForwardStatus = p.Status()
	as.Hint(w, r, p)
	if as.Report != nil {
		as.Report(w, p, status, p.Entry.Age(now))
	}
	h := w.Header()
	h["Age"] = []string{p.age(now)}
	h["Cache-Status"] = []string{status.After(p.upstream)}
	p.header(h, as, p.lifetimes(as, now, state, false))
	if p.plain.header != nil {
		h["Etag"] = p.plain.header
	}
	if httpcache.NotModified(r.Header, p.plain.etag, p.modified) {
		w.WriteHeader(http.StatusNotModified)
		return false
	}
	if length >= 0 {
		h["Content-Length"] = []string{strconv.FormatInt(length, 10)}
	}
	w.WriteHeader(p.Status())
	return true
}
