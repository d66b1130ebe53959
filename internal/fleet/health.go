package fleet

import (
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
)

const (
	// peerFailures in a row open the circuit breaker of a peer, for firstPeerPause to
	// maxPeerPause, with exponential backoff.
	peerFailures   = 3
	firstPeerPause = 5 * time.Second
	maxPeerPause   = time.Minute
)

// health has the circuit breakers of peers. The zero value has none. Its methods are safe for
// concurrent use.
type health struct {
	mu    sync.Mutex
	peers map[netip.AddrPort]*ailing // guarded by mu: those that have failed; all are known (see retain)
}

type ailing struct {
	failures int       // in a row
	until    time.Time // it is not asked before
}

// allows reports whether a peer may be asked.
func (h *health) allows(at netip.AddrPort) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.allowsLocked(at)
}

func (h *health) allowsLocked(at netip.AddrPort) bool {
	a := h.peers[at]
	return a == nil || !time.Now().Before(a.until)
}

// begin reports whether a peer may still be asked. Of the requests after a pause, the first probes it.
func (h *health) begin(at netip.AddrPort) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.allowsLocked(at) {
		return false
	}
	if a := h.peers[at]; a != nil && a.failures >= peerFailures {
		a.until = time.Now().Add(firstPeerPause)
	}
	return true
}

func (h *health) answered(at netip.AddrPort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.peers, at)
}

func (h *health) failed(at netip.AddrPort, wrong bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	a := h.peers[at]
	if a == nil {
		if h.peers == nil {
			h.peers = make(map[netip.AddrPort]*ailing)
		}
		a = new(ailing)
		h.peers[at] = a
	}
	if a.failures++; wrong {
		a.failures = max(a.failures, peerFailures)
	}
	if a.failures >= peerFailures {
		a.until = time.Now().Add(backoff.Exponential(firstPeerPause, maxPeerPause, a.failures-peerFailures))
	}
}

// retain forgets all other peers.
func (h *health) retain(all []netip.AddrPort) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for at := range h.peers {
		if !slices.Contains(all, at) {
			delete(h.peers, at)
		}
	}
}
