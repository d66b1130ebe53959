package isr

import (
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/page"
)

// During an outage of a store a visitor waits for at most Config.StoreTimeout, and the
// origin renders a page once per flight:
//
//	request -> memory -> unpublished pages -> breaker closed: flight -> the store
//	                           ^                                |
//	                           |              it fails, or takes too long
//	                           |                                v
//	                           +--- render, not stored <- unstored flight
//
// A flight whose store calls have failed, or have taken longer than Config.StoreTimeout
// in all, sends its waiting requests to the unstored flight of the key, which renders
// once, within the origin's budget, and never calls a store. The first flight goes on in
// the background, and publishes what was rendered if the page is not stored yet: a store
// that is slow, but not down, gets its page by the same render. After several failures
// in a row the store's circuit breaker opens (see internal/breaker), and no flight calls the
// store until a probe succeeds.

// useWindow is how long the uses of a page count for Config.MinUses, at least; up to twice that.
const useWindow = 30 * time.Minute

// lookForStored looks for the stored page behind a request that gets an unpublished one, of an outage that may be over: the
// store may have had a page all along, which takes precedence, such as one that an operator has rolled back to.
func (h *handler) lookForStored(r *http.Request, p *page.Page) {
	if p.Outage && p.NextTry.Claim(p) && h.c.stores.Down() == nil {
		s := h.fill(r, p.Key)
		s.OnlyStored = true
		h.c.engine.Start(s)
	}
}

// full reports whether the stores have no room for another page.
func (c *Cache) full() bool { return c.cfg.Full != nil && c.cfg.Full() }
