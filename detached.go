package isr

import (
	"maps"
	"net/http"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
)

// A page whose body is long is answered without its body in memory, if it need not be there:
//
//	HEAD, 304         the entry says all, and the head of its codings
//	ranges            these parts are read from the store
//	the whole body    is read from the store in pieces, and verified while it is sent: its last bytes
//	                  are held back until its digest is right, so that no visitor takes a damaged
//	                  body for a whole one
//
// Such a page is detached. It is made for a request, or for a fill and those who wait for it, and
// memory keeps its stub alone. Whole bodies are sent so if they are on a local disk, longer than
// MaxLoaded and without codings, until they have been requested maxLoads times; and from any store if
// there is no room for them in memory (see pin).
//
// What is verified of a range is its length: no digest is known of a part of a body. A body that turns
// out to be missing or damaged is suspect: it is read and verified as a whole next, and rendered again.

// maxShare is the largest part of the memory tier, as a divisor, that a body may take that is put there
// because it is requested often.
const maxShare = 8

// lightRequest returns a request whose response may need no body, or only a part of one: what says so of
// it. Nil: it needs the body.
func lightRequest(r *http.Request) *http.Request {
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
	light.Header = maps.Clone(light.Header)
	return light
}

// detached returns the page of the stub of a decision without its body, if the request is answered
// so; else nil.
func (h *handler) detached(r *http.Request, d *decision) *page.Page {
	o, e := d.stub, &d.page.Entry
	light := lightRequest(r)
	if !h.c.reader.Sendable(e) || light == nil && (!h.c.reader.HasLocal() || e.Length <= fill.MaxLoaded) {
		return nil
	}
	p := o.Detached(d.page.Key, *e, h.route.present)
	if light != nil {
		h.c.encoder.Describe(r.Context(), p, h.route.present, httpcache.AcceptEncoding(r.Header["Accept-Encoding"]))
	}
	if p.IsLight(light, h.route.present) || h.c.engine.SentFromDisk(p) && (p.Size() > h.c.node.Limit()/maxShare || o.Count() < maxLoads) {
		return p
	}
	return nil
}
