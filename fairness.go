package isr

import (
	"errors"
	"net"
	"net/netip"
	"time"
)

// The queue for an origin is fair. Otherwise whoever asks most gets all turns, and one
// client that asks for slow or unknown pages keeps everybody else from theirs:
//
//	a turn is free -> a known page, and an unknown one, by turns
//	               -> of these, the page of the client with the fewest renders
//	               -> of these, the one that has waited longest
//
// A known page has rendered before: there are as many as the site has. There is no end
// of others. A client is what Route.Client says; without one, a page is bounded by no
// share.

// An asker is what is said of a page for which a turn is taken.
type asker struct {
	client   netip.Prefix // who pays for it; zero: nobody
	known    bool         // the page has rendered before
	yielding bool         // a copy of the page is served meanwhile, and others come first
}

// clientShare is what one client has of a budget.
type clientShare struct{ rendering, waiting int }

// ofLocked is what a client has, which is nothing where it is not known.
func (b *Budget) ofLocked(client netip.Prefix) clientShare {
	if c := b.clients[client]; c != nil {
		return *c
	}
	return clientShare{}
}

// load is how much of the budget it is.
func (c clientShare) load() int { return c.rendering + c.waiting }

// mayRenderLocked says whether one more page may be rendered for a client.
func (b *Budget) mayRenderLocked(client netip.Prefix) bool {
	return b.ofLocked(client).rendering < max(b.renders/2, 1)
}

// mayWaitLocked says whether there is a place in the queue.
func (b *Budget) mayWaitLocked(a asker) bool {
	switch {
	case a.yielding && b.queue.Len() >= b.room/2, b.queue.Len() >= b.room:
		return false
	case !a.known && b.unknown >= (3*b.room+3)/4:
		return false
	}
	return b.ofLocked(a.client).waiting < b.placesOfOne()
}

// placesOfOne is how many places of the queue one client may have.
func (b *Budget) placesOfOne() int { return (b.room + 3) / 4 }

// complainLocked tells the log, once a minute at most, of a client that has all the
// places it may have: a load balancer that is not known to be one stands for everybody.
func (b *Budget) complainLocked(client netip.Prefix) {
	c, now := b.ofLocked(client), time.Now()
	if c.load() == 0 || c.waiting < b.placesOfOne() || now.Sub(b.complained) < time.Minute {
		return
	}
	b.complained = now
	b.log.Warn("one client has all the renders that it may have, and further ones are refused; "+
		"if it is a load balancer, its forwarding fields must be trusted", "client", client, "renders", c.rendering, "waiting", c.waiting)
}

// shareLocked is that of a client, to be changed; nobody's is thrown away.
func (b *Budget) shareLocked(client netip.Prefix) *clientShare {
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

// tidyLocked forgets a client that has nothing.
func (b *Budget) tidyLocked(client netip.Prefix) {
	if c := b.clients[client]; c != nil && *c == (clientShare{}) {
		delete(b.clients, client)
	}
}

func (b *Budget) startLocked(t *turn) {
	b.rendering++
	b.shareLocked(t.asker.client).rendering++
	close(t.ready)
}

func (b *Budget) queueLocked(t *turn) {
	t.place = b.queue.PushBack(t)
	b.shareLocked(t.asker.client).waiting++
	if !t.asker.known {
		b.unknown++
	}
}

func (b *Budget) unqueueLocked(t *turn) {
	b.queue.Remove(t.place)
	t.place = nil
	b.shareLocked(t.asker.client).waiting--
	if !t.asker.known {
		b.unknown--
	}
}

// advanceLocked gives the turns that are free to those who wait.
func (b *Budget) advanceLocked() {
	for b.rendering < b.renders {
		next := b.nextLocked()
		if next == nil {
			return
		}
		b.lastKnown = next.asker.known
		b.unqueueLocked(next)
		b.startLocked(next)
	}
}

// nextLocked is whose turn is next; nil if nobody waits who may have one.
func (b *Budget) nextLocked() *turn {
	var known, unknown *turn
	for e := b.queue.Front(); e != nil; e = e.Next() {
		t := e.Value.(*turn)
		first := &unknown
		if t.asker.known {
			first = &known
		}
		if b.mayRenderLocked(t.asker.client) && (*first == nil || b.ofLocked(t.asker.client).rendering < b.ofLocked((*first).asker.client).rendering) {
			*first = t
		}
	}
	if known == nil || unknown != nil && b.lastKnown {
		return unknown
	}
	return known
}

// charge lets another client that waits for the same page pay for the place in the
// queue, if it has less of the budget.
func (t *turn) charge(client netip.Prefix) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	payer := t.asker.client
	if t.place == nil || !payer.IsValid() || b.ofLocked(client).load() >= b.ofLocked(payer).load()-1 {
		return
	}
	b.clients[payer].waiting--
	b.tidyLocked(payer)
	t.asker.client = client
	b.shareLocked(client).waiting++
	b.advanceLocked()
}

// blamePause is how far apart failures are, at least, that count against the origin
// because of one client's unknown pages.
const blamePause = time.Second

// weigh says what a verdict counts. A client can ask for as many pages that hang as it
// likes: those that fail together count as one. That the origin could not be connected
// to is nobody's doing.
func (b *Budget) weigh(t *turn, verdict error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	client, now := t.asker.client, time.Now()
	switch {
	case verdict == nil:
		clear(b.blamed)
		return nil
	case errors.Is(verdict, errNoVerdict), t.asker.known, !client.IsValid(), isDialError(verdict):
		return verdict
	case now.Sub(b.blamed[client]) < blamePause:
		return errNoVerdict
	case len(b.blamed) >= maxBlamed:
		clear(b.blamed)
	}
	b.blamed[client] = now
	return verdict
}

// giveWay ends the time of a probe that says nothing of the origin: a page that has
// never rendered, and fails or hangs. The next probe is another client's, if there is
// one: a client that asks for nothing but such pages does not keep the breaker open.
func (t *turn) giveWay() {
	b := t.b
	b.mu.Lock()
	b.prober, b.yieldsTill = t.asker.client, time.Now().Add(busyRetry)
	b.mu.Unlock()
	t.verdict(errNoVerdict)
}

// triedInVain says that a client has just had its try at an origin that failed.
func (b *Budget) triedInVain(t *turn) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	client := t.asker.client
	return client.IsValid() && client == b.prober && time.Now().Before(b.yieldsTill)
}

// maxBlamed bounds how many clients are remembered.
const maxBlamed = 1024

func isDialError(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op == "dial"
}
