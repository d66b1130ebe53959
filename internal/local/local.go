// Package local answers requests from the local disk, for pages whose stub is in memory.
//
// The problem: memory holds a part of the pages of a site, and a copy of the others is on the local disk. A
// page that is read from there as from the store costs a search, and displaces a page that is requested more
// often.
//
// The model: a stub (see package nodecache) has all but the body of a page. If the body's file is in the OS page
// cache, the request is a hit:
//
//	stub ──► AtHand: read the file, which waits for nothing ──► the sum is the body's ──► serve
//	  └────► Load:   wait for the disk, once for all requests ──► back into memory ──► serve
//
// AtHand makes a page for one response, which is forgotten with it: its memory is used again. A page that is
// requested again and again is put back into memory: there it takes a third of the time. So pages that are
// requested once do not displace those that are requested often, and leave little garbage.
//
// A page whose body is long is answered without its body in memory, if the body need not be there:
//
//	HEAD, 304         the entry says all, and the head of its codings
//	ranges            these parts are read from the store
//	the whole body    is read from the store in pieces, and verified while it is sent: its last bytes
//	                  are held back until its digest is right, so that no visitor takes a damaged
//	                  body for a whole one
//
// Such a page is detached. It is made for a request, or for a fill and those who wait for it, and
// memory keeps its stub alone. Whole bodies are sent so if they are on a local disk, longer than
// fill.MaxLoaded and without codings, until they have been requested maxLoads times; and from any store if
// there is no room for them in memory.
//
// Guarantees:
//   - That the content of a file is what it was is verified at each read: the body by a hash of this
//     process, which it made after it had verified the digest of the entry, codings by their own sum.
//   - What is verified of a range is its length: no digest is known of a part of a body. A body that turns
//     out to be missing or damaged is suspect: it is read and verified as a whole next, and rendered again.
//   - The caller judges a page: a stub says what was known when its page was evicted.
package local

import (
	"context"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/encoder"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// Pages makes the pages of stubs. All methods are safe for concurrent use.
type Pages struct {
	Reader  *bodies.Reader
	Node    *nodecache.Cache
	Encoder *encoder.Encoder
	// SentFromDisk reports whether whole bodies of a detached page are sent from the local disk.
	SentFromDisk func(*page.Page) bool
	Timeout      time.Duration
}

// A Request is a request for the page of a stub.
type Request struct {
	HTTP *http.Request
	Key  store.Key
	Stub *nodecache.Stub
	Page *page.Page // of the stub, without its body: to be judged and not to be served
	View *page.View
	// EarlyRefresh is the factor by which pages of the route are regenerated early, and Now the time.
	EarlyRefresh float64
	Now          time.Time
}

// maxLoads is after how many of its requests a page is put back into memory.
const maxLoads = 32

// AtHand returns the page of a request, for the request alone, if no more than what the system has
// in memory is needed. It is valid until the buffer, which grows as needed, is used again. Nil: the
// page is to be loaded.
func (l *Pages) AtHand(q *Request, buffer *[]byte) *page.Page {
	o, p, r := q.Stub, q.Page, q.HTTP
	e := &p.Entry
	switch {
	case !l.Reader.HasCached(), e.Length == 0, e.Length > bodies.MaxCached, o.Count() >= maxLoads:
		return nil
	case q.EarlyRefresh > 0 && p.MayBeDueEarly(q.Now, q.EarlyRefresh):
		return nil // a page that is refreshed must last
	case r.Header["Range"] != nil:
		return nil
	case e.Header.Get("Content-Type") == "":
		return nil // the body says whether codings are to be made, which outlast the buffer
	}
	as, got, body := q.View, encoder.Stored{}, []byte(nil)
	accept := httpcache.AcceptEncoding(r.Header["Accept-Encoding"])
	none, absent := o.Codings()
	wants := accept.Prefer(as.Codings.Without(none)) != httpcache.Identity && coding.Useful(e.Header.Get("Content-Type"), e.Length)
	if wants && (absent || !l.codingAtHand(r.Context(), e, as, accept, buffer, &got)) {
		return nil // one is to be made, or to be read from elsewhere
	}
	if !got.HasContent() {
		if body = l.bodyAtHand(r.Context(), o, e, buffer); body == nil {
			return nil
		}
	}
	p.PrepareOnce(q.Key, body, as)
	switch {
	case wants:
		got.AddTo(p)
	case none != coding.Has{}:
		p.SetCodings(none, absent)
	}
	return p
}

// bodyAtHand returns the body of a stub whose entry is e; nil if it is not at hand, or not what
// it was.
func (l *Pages) bodyAtHand(ctx context.Context, o *nodecache.Stub, e *store.Entry, buffer *[]byte) []byte {
	body, err := l.Reader.Cached(ctx, e.BodyKey, e.Length, buffer)
	if err != nil || !l.Node.Matches(o, e.Length, body) {
		return nil
	}
	return body
}

// codingAtHand reads the coding that a visitor prefers of those beside the body of an entry. It
// returns false if they are not at hand, or damaged.
func (l *Pages) codingAtHand(ctx context.Context, e *store.Entry, as *page.View, accept httpcache.Accept, buffer *[]byte, got *encoder.Stored) bool {
	all, err := l.Reader.Cached(ctx, store.CodingsKey(e.BodyKey), encoder.MaxStored(e.Length), buffer)
	if err != nil {
		return false
	}
	*got, err = encoder.Choose(all, e, as, accept)
	return err == nil
}

// Load returns the page of a request, and waits for the disk if it must: for Timeout at most. All requests for
// the page share one read, which is not a flight: it searches for nothing, and renders nothing. It returns nil
// if the page is to be searched for, and guard.ErrSlow if the disk does not answer in time.
func (l *Pages) Load(q *Request) (*page.Page, error) {
	if p := l.AtHand(q, new([]byte)); p != nil {
		return p, nil
	}
	if p := l.detached(q); p != nil {
		return p, nil
	}
	// What may have to wait for the disk. The page is put back into memory.
	k, o, e, as := q.Key, q.Stub, q.Page.Entry, q.View
	accept := httpcache.AcceptEncoding(q.HTTP.Header["Accept-Encoding"])
	// What a stub says does not change, and all who wait judge the page again.
	read := l.Reader.Load(k, &e, func(ctx context.Context, body []byte) (any, error) {
		return l.Node.Restore(k, o, e, body, as, func(p *page.Page) { l.Encoder.AddStored(ctx, p, as, accept) })
	})
	timer := time.NewTimer(l.Timeout)
	defer timer.Stop()
	select {
	case got := <-read:
		p, _ := got.Val.(*page.Page) // an error says only that the page is to be searched for
		return p, nil
	case <-q.HTTP.Context().Done():
		return nil, nil
	case <-timer.C:
		l.Reader.LocalTooSlow(&e)
		return nil, guard.ErrSlow
	}
}

// maxShare is the largest part of the memory tier, as a divisor, that a body may take that is put there
// because it is requested often.
const maxShare = 8

// detached returns the page of a request without its body, if the request is answered so; else nil.
func (l *Pages) detached(q *Request) *page.Page {
	o, e, as := q.Stub, &q.Page.Entry, q.View
	light := page.Light(q.HTTP)
	if !l.Reader.Sendable(e) || light == nil && (!l.Reader.HasLocal() || e.Length <= fill.MaxLoaded) {
		return nil
	}
	p := o.Detached(q.Page.Key, *e, as)
	if light != nil {
		l.Encoder.Describe(q.HTTP.Context(), p, as, httpcache.AcceptEncoding(q.HTTP.Header["Accept-Encoding"]))
	}
	if p.IsLight(light, as) || l.SentFromDisk(p) && (p.Size() > l.Node.Limit()/maxShare || o.Count() < maxLoads) {
		return p
	}
	return nil
}
