package fill

import (
	"net/http"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A visitor who waits for a page that is missing gets it while it is rendered:
//
//	renderer ──► recorder ──► stream ──► the body, publish                   (the flight)
//	                            ├──────► the visitor whose request started it
//	                            └──────► those who joined, from the beginning
//
// The body is kept once, and bounded by MaxBody. Each visitor is written to by the goroutine
// of his request, at his own pace, so that none slows the render. A render that breaks
// breaks the connections of its visitors, and nothing is stored.
//
// A visitor attaches once: when the header was judged storable, the first bytes of the body
// have come, and neither he nor the render needs the whole page first (see
// fill.streamable and handler.attach). The end of the response waits until the page is
// published, for Config.StoreTimeout at most, so that a visitor who has read a whole page
// finds it stored.
//
// If the flight can no longer store what is rendered, because its lease is lost or the body
// is larger than MaxBody, the render goes on for those who have attached, and ends when the
// last of them leaves. Beyond MaxBody nothing more is kept: the renderer then waits for the
// slowest of them.

// streamAfter is how long after the first bytes of a body visitors attach. A page that is
// rendered and published until then is served as a whole, with its length and entity tag.
const streamAfter = time.Millisecond

// settleStreams tells the visitors of a render that its page is stored, or will not be.
func (s *Fill) settleStreams() {
	s.f.settleStream()
	if s.Own != nil {
		s.Own.Settle()
	}
}

// streamable reports whether visitors may get a response while it is rendered: nothing
// needs its body first, and there is no older page for them should the render fail. rec is
// what it replaces.
func (s *Fill) streamable(rec store.Record, status int, h http.Header) bool {
	switch {
	case s.Force, s.f.Stream.Load() != nil:
		return false
	case status != http.StatusOK && status != http.StatusNonAuthoritativeInfo:
		return false // small, and kept or withdrawn by rules of their own
	case len(h["Content-Encoding"]) > 0, len(h["Content-Type"]) == 0:
		return false // it is decoded, or its type detected, as a whole
	case s.Policy.Reject.ReadsText():
		return false
	}
	return !s.servableOnError(rec)
}

// An Offer is a response that visitors may attach to while it is rendered.
type Offer struct {
	*render.Stream
	Page   *page.Page       // without body; its header and its purges
	Length int64            // Content-Length, -1 if there is none
	Status httpcache.Status // Stored, or the Detail for which it is not
	settle func()           // tells its visitors that the page is stored, or will not be
}

// offerStream shows a response, of which the first bytes have arrived, to the visitors who
// wait for it. unpublished is the reason for which it is not stored; empty if it is.
func (s *Fill) offerStream(st *render.Stream, e store.Entry, at timing, unpublished string, length int64) {
	size := length
	if size < 0 {
		size = coding.MinBody
	}
	s.Policy.View.VaryByCoding(e.Header, size) // as when it is stored
	stored := make(chan struct{})
	st.SettlesWith(stored)
	s.f.Stream.Store(&Offer{
		Stream: st,
		Page:   page.New(s.Key, e, store.PurgeState{}, page.Interval{Began: at.began, Ended: at.began}, nil, s.Policy.View),
		Length: length,
		Status: httpcache.Status{Stored: unpublished == "", Detail: unpublished},
		settle: sync.OnceFunc(func() { close(stored) }),
	})
	time.AfterFunc(streamAfter, func() { close(s.f.Streaming) })
}
