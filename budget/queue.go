package budget

import (
	"container/list"
	"net/netip"
	"time"
)

// The queue is fair. Without that, the client with the most requests would get all turns,
// and one that requests slow or unknown pages would block all others:
//
//	a turn is free -> pages that visitors wait for, before regenerations
//	               -> among the pages of visitors, known and unknown pages alternate
//	               -> among these, the page of the client with the fewest renders
//	               -> among these clients, the one that was served or came longest ago
//	               -> among its pages, the one that has waited longest
//
// A client with few turns gets each turn that is free, and one with many leaves a reserve
// for clients who arrive (see reserve.go). What a client borrows of the reserve comes
// after all that others wait for, also after their regenerations.
//
// A known page has rendered before: there are as many as the site has. The number of
// unknown ones is unlimited. A page without a client has no share to exceed.
//
// Each operation takes time in proportion to the logarithm of the number of clients that
// have turns or places, which is at most Renders and Queue together.

// A class is a kind of page in the queue.
type class int

const (
	known        class = iota // it has rendered before, and a visitor waits for it
	unknown                   // it has never rendered, and a visitor waits for it
	regeneration              // no visitor waits for it
	classes
)

func classOf(p Page) class {
	switch {
	case p.Yielding:
		return regeneration
	case p.Known:
		return known
	}
	return unknown
}

// A client has turns, or places in the queue.
type client struct {
	prefix netip.Prefix // zero: pages without a client
	usage
	lines [classes]list.List // of *Turn: places, in order of arrival
	since uint64             // when it came, or got a turn last, by the clock of the budget
	at    [rankings]int      // the client's index in each ranking, from 1; 0 if it is not in it
}

// visitors is how many places the client has for pages that visitors wait for.
func (c *client) visitors() int { return c.lines[known].Len() + c.lines[unknown].Len() }

// loadLocked is what a client uses of the budget. Its regenerations in the queue are no
// load: they are the first to leave it.
func (b *Budget) loadLocked(prefix netip.Prefix) int {
	if c := b.clients[prefix]; c != nil {
		return c.rendering + c.visitors()
	}
	return 0
}

// clientLocked returns a client, to be changed.
func (b *Budget) clientLocked(prefix netip.Prefix) *client {
	c := b.clients[prefix]
	if c == nil {
		b.clock++
		c = &client{prefix: prefix, since: b.clock}
		b.clients[prefix] = c
	}
	return c
}

// changedLocked restores the order of clients after one has changed. A client that has
// nothing is removed.
func (b *Budget) changedLocked(c *client) {
	for i := range b.rankings {
		b.rankings[i].update(c)
	}
	if c.rendering == 0 && c.visitors() == 0 && c.lines[regeneration].Len() == 0 {
		delete(b.clients, c.prefix)
	}
}

func (b *Budget) enqueueLocked(t *Turn) {
	c := b.clientLocked(t.payer)
	t.place = c.lines[t.class].PushBack(t)
	b.waiting[t.class]++
	b.changedLocked(c)
}

func (b *Budget) dequeueLocked(t *Turn) {
	c := b.clients[t.payer]
	c.lines[t.class].Remove(t.place)
	t.place = nil
	b.waiting[t.class]--
	b.changedLocked(c)
}

// displaceLocked takes the place of a turn.
func (b *Budget) displaceLocked(t *Turn) {
	b.dequeueLocked(t)
	t.displaced = true
	close(t.ready)
}

// startLocked gives a turn to a page in the queue.
func (b *Budget) startLocked(t *Turn) {
	c := b.clients[t.payer]
	b.clock++
	c.since = b.clock // behind other clients
	t.began = time.Now()
	t.youth = b.young.PushBack(t)
	for _, u := range b.usagesLocked(t) {
		u.start(t.began)
	}
	b.rendering++
	b.dequeueLocked(t)
	close(t.ready)
}

// endLocked takes a turn back.
func (b *Budget) endLocked(t *Turn) {
	now := time.Now()
	b.noteSlowLocked(now)
	for _, u := range b.usagesLocked(t) {
		u.end(now, t.youth == nil)
	}
	if t.youth != nil {
		b.young.Remove(t.youth)
	} else {
		b.defaultLocked(t, now)
	}
	b.rendering--
	b.changedLocked(b.clients[t.payer])
}

// advanceLocked gives the free turns to pages in the queue.
func (b *Budget) advanceLocked() {
	for b.rendering < b.renders {
		t := b.nextLocked()
		if t == nil {
			return
		}
		if t.class != regeneration {
			b.lastKnown = t.class == known
		}
		b.startLocked(t)
	}
}

// nextLocked returns the turn that is next; nil if none may render.
func (b *Budget) nextLocked() *Turn {
	b.noteSlowLocked(time.Now())
	for _, may := range []func(*client, class) bool{b.leavesReserveLocked, b.mayBorrowLocked} {
		first, second := known, unknown
		if b.lastKnown {
			first, second = unknown, known
		}
		for _, k := range []class{first, second, regeneration} {
			if c := b.rankings[k].first(); c != nil && may(c, k) {
				t := c.lines[k].Front().Value.(*Turn)
				t.borrowed = !b.leavesReserveLocked(c, k)
				return t
			}
		}
	}
	return nil
}

// loserLocked returns the turn that leaves the queue because t came, which may be t
// itself; nil if there is room for all.
func (b *Budget) loserLocked(t *Turn) *Turn {
	full := b.waiting[known]+b.waiting[unknown]+b.waiting[regeneration] > b.room
	switch {
	case t.place == nil: // it renders
		return nil
	case t.class == regeneration && (full || b.waiting[regeneration] > b.room/2):
		return b.heaviestLocked(mostRegenerations, t)
	case t.class == unknown && b.waiting[unknown] > (3*b.room+3)/4:
		return b.heaviestLocked(mostUnknown, t)
	case !full:
		return nil
	case b.waiting[regeneration] > 0:
		return b.rankings[mostRegenerations].first().newest(regeneration)
	}
	return b.heaviestLocked(mostVisitors, t)
}

// heaviestLocked returns the newest turn of the client that has most places in a ranking;
// t if its client has as many.
func (b *Budget) heaviestLocked(most int, t *Turn) *Turn {
	r := &b.rankings[most]
	heaviest := r.first()
	if r.places(heaviest) <= r.places(b.clients[t.payer]) {
		return t
	}
	if most == mostRegenerations {
		return heaviest.newest(regeneration)
	}
	if heaviest.lines[unknown].Len() > 0 {
		return heaviest.newest(unknown)
	}
	return heaviest.newest(known)
}

func (c *client) newest(k class) *Turn { return c.lines[k].Back().Value.(*Turn) }

// complainLocked logs, at most once a minute, that a visitor of a client with a quarter of
// the queue is refused: the client may be an undeclared load balancer, which stands for all
// visitors.
func (b *Budget) complainLocked(loser *Turn) {
	c, now := b.clients[loser.payer], time.Now()
	if loser.class == regeneration || !loser.payer.IsValid() || 4*c.visitors() < b.room || now.Sub(b.complained) < time.Minute {
		return
	}
	b.complained = now
	b.log.Warn("one client has most of the queue for renders, and further ones are refused; "+
		"if it is a load balancer, its forwarding fields must be trusted", "client", c.prefix, "renders", c.rendering, "waiting", c.visitors())
}

// Charge moves the place in the queue to another client that waits for the same page, if
// that client uses less of the budget. It is safe for concurrent use.
func (t *Turn) Charge(client netip.Prefix) {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.place == nil || !t.payer.IsValid() || b.loadLocked(client) >= b.loadLocked(t.payer)-1 {
		return
	}
	b.moveLocked(t, client, t.class)
}

// Await marks the turn as one that a visitor waits for: it is no longer a regeneration's. It is safe for concurrent use.
func (t *Turn) Await() {
	b := t.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.place != nil && t.class == regeneration {
		b.moveLocked(t, t.payer, classOf(Page{Known: t.page.Known}))
	}
}

// moveLocked moves a place in the queue to a client and a class.
func (b *Budget) moveLocked(t *Turn, payer netip.Prefix, k class) {
	b.dequeueLocked(t)
	t.payer, t.class = payer, k
	b.enqueueLocked(t)
	b.advanceLocked()
}
