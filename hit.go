package isr

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
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
	page pageMemory
	raw  rawResponse
}

// Release must be called once Body was sent, or will not be: the memory of a large body counts against
// Config.Buffers until then. It may be called again.
func (hit *Hit) Release() { hit.raw.release() }

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
		d.behind == refreshStale && d.page.nextTry.isDue(d.page),
		d.behind == mayRefreshEarly && h.route.EarlyRefresh > 0 && h.route.keys.Forwards(requestIDHeader):
		return false // it is no hit, or a render is due that gets the id of its request
	}
	// A page that has an outline is made for this request alone.
	if !d.page.raw(&hit.raw, r, h.route.present, d.now, d.state, d.cutOff, d.outline != nil) {
		return false
	}
	hit.Report = Report{}
	hit.Report.ofPage(h.route.Label, d.page, hit.raw.shown, hit.raw.age)
	hit.Request, hit.Status, hit.Header, hit.Body = r, hit.raw.status, hit.raw.head, hit.raw.body
	h.refresh(nil, r, &d)
	return true
}

// A rawResponse is the response to a hit as bytes: what net/http would send. Its memory is used again for the
// next one.
type rawResponse struct {
	status int
	// head is the status line and the header, up to and including the empty line, and body is empty for
	// HEAD, and for 304. Both are shared: they must not be changed. They are valid until the next response.
	head, body []byte
	// shown and age are what is reported of the hit.
	shown httpcache.Status
	age   time.Duration

	sending *representation // its pin is held until release; nil if none is
	memory  *responseMemory // of the pin
	maker   headMaker
}

// raw prepares the response with the page, as serveHit sends it. once: the page is for this request alone. It
// returns false for what serveHit leaves to net/http.
func (p *page) raw(x *rawResponse, r *http.Request, as *presentation, now time.Time, state store.State, cutOff, once bool) bool {
	if p.varies != nil && !as.keys.Matches(p.varies, r.Header) || as.hints.takes(r, p) {
		return false
	}
	rep, status, ranged := p.choose(r, as)
	if ranged {
		return false
	}
	sends := r.Method != http.MethodHead && status != http.StatusNotModified
	if sends && (p.detached || rep.pin != nil) {
		if p.detached || !x.hold(rep, as) {
			return false
		}
	}
	s := p.stampAt(as, now, state, cutOff)
	if once {
		x.head = x.maker.build(p, s, as, rep, status)
	} else {
		x.head = s.head(p, as, rep, status, &x.maker)
	}
	if len(x.head) == 0 {
		x.release()
		return false
	}
	x.status, x.body, x.shown, x.age = status, nil, s.shown, s.aged
	if sends {
		x.body = rep.body
	}
	return true
}

// hold pins the body of a representation until release. It returns false if there is no memory for that.
func (x *rawResponse) hold(rep *representation, as *presentation) bool {
	x.release()
	if as.responses == nil {
		return true
	}
	if !rep.pin.take(as.responses) {
		return false
	}
	x.sending, x.memory = rep, as.responses
	return true
}

// release ends the response: its body is not sent any more. It may be called again.
func (x *rawResponse) release() {
	if x.sending != nil {
		x.sending.pin.give(x.memory)
		x.sending = nil
	}
}

// heads are the status lines and headers of the responses of a stamp, made when they are needed: of
// each representation, that of the page and that of 304.
type heads [httpcache.Identity + 1][2]atomic.Pointer[head]

// A head is the status line and the header of a response, up to and including the empty line; empty
// if only net/http may write it. It is immutable.
type head struct {
	of   *representation
	text []byte
}

// head returns the status line and the header of a response with a representation.
func (s *stamp) head(p *page, as *presentation, rep *representation, status int, m *headMaker) []byte {
	at := &s.heads[rep.kind][0]
	if status == http.StatusNotModified {
		at = &s.heads[rep.kind][1]
	}
	if made := at.Load(); made != nil && made.of == rep {
		return made.text
	}
	made := &head{of: rep, text: bytes.Clone(m.build(p, s, as, rep, status))}
	at.Store(made)
	return made.text
}

// A headMaker makes heads, one after the other.
type headMaker struct {
	header http.Header
	text   bytes.Buffer
}

// build makes what net/http makes of the header that write sets. It is valid until the next one is made.
// What net/http would add depends on the request or the body in ways that are not repeated here:
// then it returns nil.
func (m *headMaker) build(p *page, s *stamp, as *presentation, rep *representation, status int) []byte {
	if m.header == nil {
		m.header = make(http.Header, 32)
	}
	clear(m.header)
	h := m.header
	h["Age"], h["Cache-Status"] = s.age, s.status
	p.complete(h, as, s.instead, rep, status, false)
	text := http.StatusText(status)
	if text == "" || status < http.StatusOK || status == http.StatusNoContent || !plainHeader(h) {
		return nil
	}
	if status == http.StatusNotModified {
		delete(h, "Content-Type") // RFC 9110, section 15.4.5, as net/http reads it
	} else if _, typed := h["Content-Type"]; !typed && len(rep.body) > 0 {
		return nil // net/http looks at the body
	}
	b := &m.text
	b.Reset()
	b.WriteString("HTTP/1.1 " + strconv.Itoa(status) + " " + text + "\r\n")
	_ = h.Write(b) // a buffer never fails
	if _, dated := h["Date"]; !dated {
		b.WriteString("Date: " + time.Now().UTC().Format(http.TimeFormat) + "\r\n")
	}
	b.WriteString("\r\n")
	return b.Bytes()
}

// plainHeader reports whether a header has no fields that change how net/http sends a response.
func plainHeader(h http.Header) bool {
	for name := range h {
		switch name {
		case "Connection", "Transfer-Encoding", "Trailer", "Upgrade", "Keep-Alive":
			return false
		}
		if strings.HasPrefix(name, http.TrailerPrefix) {
			return false
		}
	}
	return true
}
