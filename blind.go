package isr

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A BlindPolicy decides what visitors get from a node that has not read the log for longer
// than Config.MaxBlind: whatever it has, in memory or in the store, may have been purged
// or rolled back since. Requests that bypass the cache are not affected, nor is a node
// that has never read the log, which renders every page.
type BlindPolicy int

const (
	// BlindServe serves pages as usual, with detail=cut-off. It is the zero value.
	BlindServe BlindPolicy = iota
	// BlindRevalidate renders each page for the requests that wait for it, within the
	// budget of the origin, without storing it, and serves it for at most five seconds.
	// Older pages are not used, not even in place of a failure of the origin.
	BlindRevalidate
	// BlindRefuse answers with 503 and Retry-After.
	BlindRefuse
)

func (p BlindPolicy) String() string {
	switch p {
	case BlindServe:
		return "serve"
	case BlindRevalidate:
		return "revalidate"
	case BlindRefuse:
		return "refuse"
	}
	return fmt.Sprintf("BlindPolicy(%d)", int(p))
}

// MarshalText implements [encoding.TextMarshaler].
func (p BlindPolicy) MarshalText() ([]byte, error) {
	if !p.valid() {
		return nil, fmt.Errorf("%s is not a blind policy", p)
	}
	return []byte(p.String()), nil
}

// UnmarshalText parses the result of [BlindPolicy.String].
func (p *BlindPolicy) UnmarshalText(text []byte) error {
	for _, known := range []BlindPolicy{BlindServe, BlindRevalidate, BlindRefuse} {
		if string(text) == known.String() {
			*p = known
			return nil
		}
	}
	return fmt.Errorf("%q is not a blind policy; expected serve, revalidate or refuse", text)
}

func (p BlindPolicy) valid() bool { return p >= BlindServe && p <= BlindRefuse }

var errBlind = errors.New("the log has not been read for too long")

// blind reports whether the node has not read the log for so long that [Config.Blind]
// applies. It is on the hit path.
func (c *Cache) blind(now time.Time) bool { return c.cfg.Blind != BlindServe && c.follower.Blind(now) }

// answerBlind answers a request of a node that is blind, by another policy than
// [BlindServe]. old is the page in memory; it may be nil.
func (h *handler) answerBlind(w http.ResponseWriter, r *http.Request, k store.Key, old *page) {
	h.c.follower.TellBlind(h.c.cfg.Blind.String())
	status := httpcache.Status{Forward: httpcache.ForwardMiss, Detail: detailCutOff}
	if old != nil {
		status.Forward = httpcache.ForwardStale
	}
	if h.c.cfg.Blind == BlindRefuse {
		h.serveFailure(w, r, plainFailure(errBlind), status, h.c.now().Add(budget.BusyRetry))
		return
	}
	// A refusal or a failure that is remembered needs no render. A 404 that is remembered may be
	// outdated.
	if known := h.c.negative.get(k, time.Now()); known != nil && known.page == nil && h.answerKnown(w, r, k, nil, status.Forward) {
		return
	}
	if p := h.c.unpublished.get(k); p != nil && time.Since(p.read.began) > h.c.follower.MaxBlind() {
		h.c.unpublished.forget(k) // rendered slowly: it is as old as its render
	}
	h.answerUnstored(w, r, k, nil, status)
}
