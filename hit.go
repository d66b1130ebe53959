package isr

import (
	"net/http"

	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// A Hit is the response to a request of HTTP/1.1 with a page in memory, as a [HitHandler] finds
// it: what net/http would send if the handler served the request. A Hit may be used for several
// requests, one after the other.
type Hit struct {
	// Report describes the answer.
	Report Report
	// Request is the request as the cache got it, which handlers in front may have changed. Lookup
	// sets it.
	Request *http.Request
	// Status is the status of the response, and Header its status line and fields, up to and
	// including the empty line. Body is empty for HEAD, and for 304. Both are shared: they must not
	// be changed. They are valid until the next Lookup with this Hit.
	Status int
	Header []byte
	Body   []byte

	own  []byte // of AddField
	key  []byte // the text of the key that is being looked up
	body []byte // for a body that is read for this response
	page page.Memory
	raw  page.Raw
}

// Release must be called once Body was sent, or will not be: the memory of a large body counts against
// Config.Buffers until then. It may be called again.
func (hit *Hit) Release() { hit.raw.Release() }

// AddField adds a field to Header, which is then a copy. The name and the value must be valid (RFC
// 9110, section 5), and Header must not have the field yet.
func (hit *Hit) AddField(name, value string) {
	hit.own = append(hit.own[:0], hit.Header[:len(hit.Header)-len("\r\n")]...)
	hit.own = append(append(append(hit.own, name...), ": "...), value...)
	hit.own = append(hit.own, "\r\n\r\n"...)
	hit.Header = hit.own
}

// A HitHandler is an [http.Handler] that can say what it would answer to a request if that is a page
// in memory, for servers that send such responses without net/http. The handlers of [Cache.Handler]
// and [Cache.Bind] are HitHandlers. One that passes requests to another handler is one if that is.
type HitHandler interface {
	http.Handler
	// Lookup prepares the response to a GET or HEAD request without a body. If it returns
	// false, then ServeHTTP must be called, and Lookup has changed nothing, but may have
	// started the regeneration of the page. It waits for nothing, and keeps nothing of the request:
	// its texts may be parts of a buffer that is used again. Only its Header may be changed. After it has
	// returned true, the caller must call Release of the Hit.
	Lookup(*http.Request, *Hit) bool
}

// LookupIn calls the Lookup of a handler; it returns false if that is no [HitHandler].
func LookupIn(h http.Handler, r *http.Request, hit *Hit) bool {
	hh, ok := h.(HitHandler)
	return ok && hh.Lookup(r, hit)
}

var _ HitHandler = (*handler)(nil)

// Lookup implements [HitHandler]. It decides as ServeHTTP does.
func (h *handler) Lookup(r *http.Request, hit *Hit) bool {
	d := decision{text: &hit.key, memory: &hit.page}
	h.decide(r, &d)
	if d.act == actLoad {
		if d.page = h.atHand(r, &d, &hit.body); d.page == nil {
			return false
		}
		d.act, d.state, d.behind = actHit, store.Fresh, mayRefreshEarly
	}
	switch {
	case d.act != actHit,
		d.behind == refreshStale && d.page.NextTry.IsDue(d.page),
		d.behind == mayRefreshEarly && h.route.EarlyRefresh > 0 && h.route.keys.Forwards(requestIDHeader):
		return false // it is no hit, or a render is due that gets the id of its request
	}
	// A page that has a stub is made for this request alone.
	if !d.page.Raw(&hit.raw, r, h.route.present, d.now, d.state, d.cutOff, d.stub != nil) {
		return false
	}
	hit.Report = Report{}
	hit.Report.ofPage(h.route.Label, d.page, hit.raw.Shown, hit.raw.Age)
	hit.Request, hit.Status, hit.Header, hit.Body = r, hit.raw.Status, hit.raw.Head, hit.raw.Body
	h.refresh(nil, r, &d)
	return true
}
