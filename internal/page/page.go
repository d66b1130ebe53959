package page

import (
	"cmp"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/marks"
	"github.com/facetheory/isr/store"
)

// NewDetached makes a page without its body, as New does. as may be of another page of the entry.
func NewDetached(k store.Key, e store.Entry, cover store.PurgeState, read Interval, as *View) *Page {
	p := &Page{Key: k, Entry: e, Purges: cover, Read: read, Dropped: new(atomic.Bool), Stored: true, Detached: true}
	p.nextCoding.notBefore.Store(math.MaxInt64) // there is nothing to encode
	p.prepare(e.Header.Clone(), nil, e.Length, as)
	return p
}

// SameBody reports whether two entries have the same immutable body. Other services may
// write new content under an old key; this package never does.
func SameBody(a, b *store.Entry) bool {
	return !a.Foreign && !b.Foreign && a.BodyKey == b.BodyKey && a.SHA256 == b.SHA256
}

// SameEntry reports whether two readings are of one generation, unchanged.
func SameEntry(a, b *store.Entry) bool {
	return a.Version == b.Version && a.GenerationID == b.GenerationID && a.Foreign == b.Foreign &&
		a.BodyKey == b.BodyKey && a.GeneratedAt.Equal(b.GeneratedAt) && a.Revalidate == b.Revalidate && a.Stale == b.Stale && a.ETag == b.ETag
}

// An Interval brackets a read or a write of an entry: the entry was current at some instant between began and
// ended. Both are by the monotonic clock of this process.
type Interval struct {
	Began, Ended time.Time
	// AsOf is when the purge marks that cover the entry were read; zero: they are as old as
	// the last poll of the log.
	AsOf time.Time
}

// Before reports whether r ended before other began, so that other saw the newer entry.
func (r Interval) Before(other Interval) bool { return !r.Ended.After(other.Began) }

// Contains reports whether a moment lies within the interval; nil does not.
func (r Interval) Contains(t *time.Time) bool {
	return t != nil && r.Began.Before(*t) && t.Before(r.Ended)
}

// A page is an entry with its body, prepared to be served many times. Only its atomic
// fields change.
type Page struct {
	Key   store.Key
	Entry store.Entry
	// Purges is the purge state when the page was read. Marks that were made since are in
	// the table of marks: Marked has the marks of its last version.
	Purges store.PurgeState
	Marked marks.Memo
	Read   Interval // by which it was found
	// Negative: the page is a response such as 404, of the negative cache.
	Negative bool
	// Stored: the body is in the store under Entry.BodyKey, and its codings may be beside it.
	Stored bool
	// Outage: the page could not be stored, since a store did not answer, which may have another one.
	Outage bool
	// Detached: the page lacks its body, which is read from the store when it is sent (see NewDetached).
	Detached bool

	fields   []field               // the stored header, with Vary and Date
	upstream string                // the Cache-Status of caches between the origin and this one
	Varies   []httpcache.Nominated // the headers that Vary names; nil if there are none
	hints    []string              // the links of the stored header that clients can use early; nil if there are none
	lastMod  time.Time             // Last-Modified; zero if there is none
	modified time.Time             // lastMod, or else when the page was generated, in whole seconds
	plain    representation
	brief    *lifetimes              // replaces the lifetime of an error response that is meant for a file; nil: nothing does
	Codable  bool                    // the body may have codings
	digests  bool                    // fields has digests of the plain body
	coded    atomic.Pointer[codings] // nil: nothing is known of them

	// Dropped: the page is no longer served, but its body may be reused. The stub that memory keeps of an evicted
	// page, and pages that were made of the stub, share the mark.
	Dropped *atomic.Bool
	// Rejected: the last attempt in this process to replace the page was rejected.
	Rejected atomic.Bool
	// hit has Age and Cache-Status of hits in the current second of the page's age.
	hit atomic.Pointer[hitFields]
	// NextTry is the earliest moment of the next fill for a newer generation, so
	// that a stale page does not start a flight per request.
	NextTry attempt
	// NextEarly is the same while the page is fresh. It is separate so that requests
	// that find the page stale a moment later wait for the flight.
	NextEarly attempt
	// nextCoding is the earliest moment at which View.Want is called again.
	nextCoding attempt
}

type field struct {
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

// The memory of a page in addition to its texts and bodies, as measured.
const (
	pageOverhead  = 2048 // the page, its place in the memory tier, the names in its entry, its marks, and the beginning of a head
	FieldOverhead = 128  // a header field, in the entry and in page.fields
	textOverhead  = 16   // an element of a list of texts
)

// New makes the page of an entry and its body, for a route that presents it by as. read is when the entry was
// read, and c the purges that were known of it then.
func New(k store.Key, e store.Entry, c store.PurgeState, read Interval, body []byte, as *View) *Page {
	p := &Page{Key: k, Entry: e, Purges: c, Read: read, Dropped: new(atomic.Bool)}
	h := e.Header.Clone()
	if h == nil {
		h = make(http.Header)
	}
	p.prepare(h, body, int64(len(body)), as)
	return p
}

// PrepareOnce completes a page of unpack for one response with its key, whose text may be part of a buffer, and
// its body; nil if a coding of it is served. Nothing may keep the page, nor make codings of it.
func (p *Page) PrepareOnce(k store.Key, body []byte, as *View) {
	p.Stored, p.Key = true, store.Key{Tenant: strings.Clone(k.Tenant), Text: strings.Clone(k.Text)} // for reports, which stay
	if p.Entry.Header == nil {
		p.Entry.Header = make(http.Header)
	}
	p.nextCoding.notBefore.Store(math.MaxInt64) // the encoder would keep the page
	p.prepare(p.Entry.Header, body, p.Entry.Length, as)
}

// prepare prepares a page that has its entry to be served, with the stored header, which it changes.
// The body has some length, and may be missing: then only codings of it may be served.
func (p *Page) prepare(h http.Header, body []byte, length int64, as *View) {
	p.plain = newRepresentation(p.Entry.ETag, body, length)
	if len(h["Content-Type"]) == 0 && len(body) > 0 {
		h.Set("Content-Type", http.DetectContentType(body))
	}
	_, _, _, variant := p.Key.Split()
	p.Varies = httpcache.NominatedBy(variant, h["Vary"])
	p.hints = httpcache.EarlyHints(h["Link"])
	p.Codable = as.VaryByCoding(h, length)
	if text := h.Get("Last-Modified"); text != "" { // ParseTime makes an error for each of its formats
		if t, err := http.ParseTime(text); err == nil {
			p.lastMod = t
		}
	}
	p.modified = cmp.Or(p.lastMod, p.Entry.GeneratedAt.Truncate(time.Second))
	p.brief = briefly(p.Status(), h)
	p.upstream = h.Get("Cache-Status")
	delete(h, "Cache-Status")
	if len(h["Date"]) == 0 { // RFC 9110, section 6.6.1
		h["Date"] = []string{p.Entry.GeneratedAt.UTC().Format(http.TimeFormat)}
	}
	p.digests = httpcache.HasDigests(h)
	p.fields = slices.Grow(p.fields[:0], len(h))
	for name, values := range h {
		if httpcache.Replayed(name) { // another writer may have stored the others
			p.fields = append(p.fields, field{name, values})
		}
	}
	if p.Entry.GeneratedAt.Sub(p.Read.Began) > store.ClockTolerance {
		// The writer's clock was ahead, so the entry counts as stale. It is
		// regenerated for that reason at most once per window.
		p.NextTry.notBefore.Store(int64(p.Entry.Revalidate))
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

// Body returns the body, which must not be changed; nil if the page is detached.
func (p *Page) Body() []byte { return p.plain.body }

// Size returns the length of the body, in bytes, also of a detached page.
func (p *Page) Size() int64 { return p.plain.size }

// LastHit returns when the page was served last as a hit, rounded up to a whole second; ok is false if it
// never was.
func (p *Page) LastHit() (at time.Time, ok bool) {
	s := p.hit.Load()
	if s == nil {
		return time.Time{}, false
	}
	return time.Unix(s.used, 0), true
}

// Weight is the memory of the page, in bytes.
func (p *Page) Weight() uint32 {
	n := pageOverhead + cap(p.plain.body) + p.coded.Load().weight() + len(p.Key.Tenant) + 2*len(p.Key.Text) + TextBytes(p.Entry.Tags) + textOverhead*len(p.hints) + 2*len(p.upstream)
	for _, f := range p.fields {
		n += FieldOverhead + 2*(len(f.name)+TextBytes(f.values)) // once in a head
	}
	for _, v := range p.Varies {
		n += FieldOverhead + len(v.Name) + len(v.Value)
	}
	return uint32(n)
}

func TextBytes(texts []string) int {
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

// RetryPause is the mean pause between fills of a page that is served, while another process renders
// its next generation; and the least pause between attempts.
const RetryPause = time.Second

// Put postpones the attempt by d.
func (a *attempt) Put(p *Page, d time.Duration) {
	a.notBefore.Store(int64(time.Since(p.Read.Began) + d))
}

// IsDue reports whether the attempt may be made.
func (a *attempt) IsDue(p *Page) bool {
	return int64(time.Since(p.Read.Began)) >= a.notBefore.Load()
}

// Claim reports whether the caller is to make the attempt now: one of all that ask.
func (a *attempt) Claim(p *Page) bool {
	now, at := int64(time.Since(p.Read.Began)), a.notBefore.Load()
	return now >= at && a.notBefore.CompareAndSwap(at, now+int64(RetryPause))
}

// Status is the status of the entry; foreign entries have none.
func (p *Page) Status() int {
	if p.Entry.Status == 0 {
		return http.StatusOK
	}
	return p.Entry.Status
}
