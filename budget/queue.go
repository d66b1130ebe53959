package budget

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// The queue is fair. Without that, the client with the most requests would get all turns,
// and one that requests slow or unknown pages would block all others:
//
//	a turn is free -> known and unknown pages alternate
//	               -> among these, the page of the client with the fewest renders
//	               -> among these, the page that has waited longest
//
// A known page has rendered before: there are as many as the site has. The number of
// unknown ones is unlimited. A page without a client has no share to exceed.

// A clientShare is what one client has of a budget.
type clientShare struct{ rendering, waiting int }

func (c clientShare) load() int { return c.rendering + c.waiting }

// shareLocked returns what a client has: nothing, if the client is not known.
func (b *Budget) shareLocked(client netip.Prefix) clientShare {
	if c := b.clients[client]; c != nil {
		return *c
	}
	return clientShare{}
}

// mayRenderLocked reports whether a client may have one more render.
func (b *Budget) mayRenderLocked(client netip.Prefix) bool {
	return b.shareLocked(client).rendering < max(b.renders/2, 1)
}

// mayWaitLocked reports whether a page gets a place in the queue.
func (b *Budget) mayWaitLocked(p Page, client netip.Prefix) bool {
	switch {
	case p.Yielding && b.queue.Len() >= b.room/2, b.queue.Len() >= b.room:
		return false
	case !p.Known && b.unknown >= (3*b.room+3)/4:
		return false
	}
	return b.shareLocked(client).waiting < b.placesPerClient()
}

func (b *Budget) placesPerClient() int { return (b.room + 3) / 4 }

// complainLocked logs, at most once a minute, a client that has all the places it may
// have: it may be an undeclared load balancer, which stands for all visitors.
func (b *Budget) complainLocked(client netip.Prefix) {
	c, now := b.shareLocked(client), time.Now()
	if c.load() == 0 || c.waiting < b.placesPerClient() || now.Sub(b.complained) < time.Minute {
		return
	}
	b.complained = now
	b.log.Warn("one client has used its share of the renders, and further ones are refused; "+
		"if it is a load balancer, its forwarding fields must be trusted", "client", client, "renders", c.rendering, "waiting", c.waiting)
}

// updateLocked returns the share of a client, to be changed. That of no client is
// discarded.
func (b *Budget) updateLocked(client netip.Prefix) *clientShare {
	if !client.IsValid() {
		return new(clientShare)
	}
	c := b.clients[client]
	if c == nil {
		c = new(clientShare)
		b.clients[client] = c
	}
	return c
}

// tidyLocked removes a client that has nothing.
func (b *Budget) tidyLocked(client netip.Prefix) {
	if c := b.clients[client]; c != nil && *c == (clientShare{}) {
		delete(b.clients, client)
	}
}

func (b *Budget) startLocked(t *Turn) {
	b.rendering++
	b.updateLocked(t.payer).rendering++
	close(t.ready)
}

func (b *Budget) enqueueLocked(t *Turn) {
	t.place = b.queue.PushBack(t)
	b.updateLocked(t.payer).waiting++
	if !t.page.Known {
		b.unknown++
	}
}

func (b *Budget) dequeueLocked(t *Turn) {
	b.queue.Remove(t.place)
	t.place = nil
	b.updateLocked(t.payer).waiting--
	if !t.page.Known {
		b.unknown--
	}
}

// advanceLocked gives the free turns to pages in the queue.
func (b *Budget) advanceLocked() {
	for b.rendering < b.renders {
		next := b.nextLocked()
		if next == nil {
			return
		}
		b.lastKnown = next.page.Known
		b.dequeueLocked(next)
		b.startLocked(next)
	}
}

// nextLocked returns the turn that is next; nil if none may render.
func (b *Budget) nextLocked() *Turn {
	var known, unknown *Turn
	for e := b.queue.Front(); e != nil; e = e.Next() {
		t := e.Value.(*Turn)
		first := &unknown
		if t.page.Known {
			first = &known
		}
		if b.mayRenderLocked(t.payer) && (*first == nil || b.shareLocked(t.payer).rendering < b.shareLocked((*first).payer).rendering) {
			*first = t
		}
	}
	if known == nil || unknown != nil && b.lastKnown {
		return unknown
	}
	return known
}

// Charge moves the place in the queue to another client that waits for the same page, if
// that client uses less of the budget. It is safe for concurrent use.
func (t *Turn) Charge(client netip.Prefix) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	payer := t.payer
	if t.place == nil || !payer.IsValid() || b.shareLocked(client).load() >= b.shareLocked(payer).load()-1 {
		return
	}
	b.clients[payer].waiting--
	b.tidyLocked(payer)
	t.payer = client
	b.updateLocked(client).waiting++
	b.advanceLocked()
}

const (
	// blamePause is the least time between failures of one client's unknown pages that
	// count against the origin.
	blamePause = time.Second
	// maxBlamed bounds how many such clients are remembered.
	maxBlamed = 1024
)

// weigh decides whether a verdict counts. A client can request any number of pages that
// hang: those that fail together count once. A failure to connect always counts, since
// no client can cause it.
func (b *Budget) weigh(t *Turn, verdict error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	client, now := t.payer, time.Now()
	switch {
	case verdict == nil:
		clear(b.blamed)
		return nil
	case errors.Is(verdict, ErrNoVerdict), t.page.Known, !client.IsValid(), isDialError(verdict):
		return verdict
	case now.Sub(b.blamed[client]) < blamePause:
		return ErrNoVerdict
	case len(b.blamed) >= maxBlamed:
		clear(b.blamed)
	}
	b.blamed[client] = now
	return verdict
}

func isDialError(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}

// giveWay ends an inconclusive probe: a page that has never rendered, and fails or hangs.
// The next probe is another client's, if there is one, so that a client that requests
// only such pages cannot keep the breaker open.
func (t *Turn) giveWay() {
	b := t.b
	b.mu.Lock()
	b.prober, b.yieldsTill = t.payer, time.Now().Add(BusyRetry)
	b.mu.Unlock()
	t.verdict(ErrNoVerdict)
}

// probedInVain reports whether the last inconclusive probe was this client's.
func (b *Budget) probedInVain(t *Turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return t.payer.IsValid() && t.payer == b.prober && time.Now().Before(b.yieldsTill)
}
