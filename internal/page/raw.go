package page

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

// A Raw is the response to a hit as bytes: what net/http would send. Its memory is used again for the
// next one.
type Raw struct {
	Status int
	// Head is the status line and the header, up to and including the empty line, and body is empty for
	// HEAD, and for 304. Both are shared: they must not be changed. They are valid until the next response.
	Head, Body []byte
	// Shown and age are what is reported of the hit.
	Shown httpcache.Status
	Age   time.Duration

	sending *representation // its pin is held until release; nil if none is
	memory  *ResponseMemory // of the pin
	maker   headMaker
}

// Raw prepares the response with the page, as serveHit sends it. once: the page is for this request alone. It
// returns false for what serveHit leaves to net/http.
func (p *Page) Raw(x *Raw, r *http.Request, as *View, now time.Time, state store.State, cutOff, once bool) bool {
	if p.Varies != nil && !as.Keys.Matches(p.Varies, r.Header) || as.hints.takes(r, p) {
		return false
	}
	rep, status, ranged := p.choose(r, as)
	if ranged {
		return false
	}
	sends := r.Method != http.MethodHead && status != http.StatusNotModified
	if sends && (p.Detached || rep.pin != nil) {
		if p.Detached || !x.hold(rep, as) {
			return false
		}
	}
	s := p.hitFieldsAt(as, now, state, cutOff)
	if once {
		x.Head = x.maker.build(p, s, as, rep, status)
	} else {
		x.Head = s.head(p, as, rep, status, &x.maker)
	}
	if len(x.Head) == 0 {
		x.Release()
		return false
	}
	x.Status, x.Body, x.Shown, x.Age = status, nil, s.shown, s.aged
	if sends {
		x.Body = rep.body
	}
	return true
}

// hold pins the body of a representation until release. It returns false if there is no memory for that.
func (x *Raw) hold(rep *representation, as *View) bool {
	x.Release()
	if as.Responses == nil {
		return true
	}
	if !rep.pin.take(as.Responses) {
		return false
	}
	x.sending, x.memory = rep, as.Responses
	return true
}

// Release ends the response: its body is not sent any more. It may be called again.
func (x *Raw) Release() {
	if x.sending != nil {
		x.sending.pin.give(x.memory)
		x.sending = nil
	}
}

// heads are the status lines and headers of the responses of a stamp, made when they are needed: for
// each representation, the head of the page and the head of 304.
type heads [httpcache.Identity + 1][2]atomic.Pointer[head]

// A head is the status line and the header of a response, up to and including the empty line; empty
// if only net/http may write it. It is immutable.
type head struct {
	of   *representation
	text []byte
}

// head returns the status line and the header of a response with a representation.
func (s *hitFields) head(p *Page, as *View, rep *representation, status int, m *headMaker) []byte {
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
func (m *headMaker) build(p *Page, s *hitFields, as *View, rep *representation, status int) []byte {
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
