package isr

import (
	"context"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A process with a name (Config.Node) announces itself in the table, with the sequence up
// to which it has applied the log: at intervals, and at once when a purge asks for that. By
// these rows [Cache.AwaitPurge] knows which nodes to wait for, and each node how many
// others read the log.
//
// A row is a claim about the past, and only about its own process: nothing that is served
// depends on it.

const (
	// announceEvery is the longest interval of announcements; jitter shortens it by up to
	// a fifth.
	announceEvery = 20 * time.Second
	// presentFor is how long an announcement is valid: two may be lost.
	presentFor = 3 * announceEvery
	// countEvery is the shortest interval at which a node counts the others. In a fleet it
	// is countPerNode for each of them, so that a fleet of n nodes, some 30 of which are one
	// read unit, spends n/3 units a second on that.
	countEvery   = time.Minute
	countPerNode = 100 * time.Millisecond
	// recountEvery is the shortest interval of counts because a peer is not known.
	recountEvery = 2 * time.Second
	// presenceTimeout bounds each of these calls.
	presenceTimeout = 5 * time.Second
)

// A presence announces this process. Nil: it has no name.
type presence struct {
	c     *Cache
	id    string
	since time.Time
	soon  chan struct{} // has an element if an announcement is due now
	// countedAt is when the processes were last counted, in nanoseconds since the process began.
	countedAt atomic.Int64
}

func newPresence(c *Cache) *presence {
	if c.cfg.Node == "" || c.cfg.Poll < 0 {
		return nil
	}
	return &presence{c: c, id: strings.ToLower(c.cfg.NewToken()), since: c.now(), soon: make(chan struct{}, 1)}
}

// is reports whether a node is this process.
func (p *presence) is(n store.Node) bool { return p != nil && n.ID == p.id }

// hurry asks for an announcement at once. It never blocks.
func (p *presence) hurry() {
	if p == nil {
		return
	}
	select {
	case p.soon <- struct{}{}:
	default: // asked for already
	}
}

// countSoon asks for a count of the processes, unless they have just been counted: then they are
// counted after the next announcement. It never blocks.
func (p *presence) countSoon() {
	if p != nil && time.Since(p.c.created)-time.Duration(p.countedAt.Load()) >= recountEvery {
		p.hurry()
	}
}

// run announces this process until ctx ends, and then withdraws it.
func (p *presence) run(ctx context.Context) {
	select {
	case <-p.c.follower.begun:
	case <-ctx.Done():
		return
	}
	var counted time.Time
	failing := false
	for ctx.Err() == nil {
		err := p.announce(ctx)
		if err == nil && (counted.IsZero() || time.Since(counted) >= p.countPause() || p.c.peers.missed.Swap(false)) {
			p.countedAt.Store(int64(time.Since(p.c.created)))
			if err = p.count(ctx); err == nil {
				if counted.IsZero() {
					p.c.peers.tell(p.c.follower.committed.Load()) // so that they know of this process
				}
				counted = time.Now()
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			p.c.log.Error("failed to announce this process: purges do not wait for it", "error", err)
		}
		failing = err != nil
		p.rest(ctx)
	}
	p.withdraw(ctx)
}

// rest waits until the next announcement is due, or asked for.
func (p *presence) rest(ctx context.Context) {
	timer := time.NewTimer(announceEvery - time.Duration(p.c.below(uint64(announceEvery/5))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.soon:
		// Purges that follow each other share announcements.
		_ = backoff.Wait(ctx, minPollGap)
	case <-ctx.Done():
	}
}

// announce writes the state of this process, unless it has not read the log yet: it then
// serves no stored page.
func (p *presence) announce(ctx context.Context) error {
	applied, ok := p.c.follower.applied()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	now, digest := p.c.now(), ""
	if p.c.cfg.Configuration != nil {
		digest = p.c.cfg.Configuration()
	}
	var peer netip.AddrPort
	if p.c.peers.Peers != nil {
		peer = p.c.peers.Address()
	}
	return p.c.meta.Announce(ctx, store.Node{
		Peer: peer, ID: p.id, Name: p.c.cfg.Node, Release: p.c.cfg.Release, Config: digest, Applied: applied, Since: p.since, SeenAt: now, Until: now.Add(presentFor),
	})
}

// countPause returns how long after a count the next one is due.
func (p *presence) countPause() time.Duration {
	return max(countEvery, time.Duration(p.c.follower.nodes.Load())*countPerNode)
}

// count counts the nodes, for the interval at which they read the log.
func (p *presence) count(ctx context.Context) error {
	nodes, err := p.c.meta.Nodes(ctx)
	if err == nil {
		p.c.follower.setNodes(len(nodes))
		p.c.peers.count(nodes)
	}
	return err
}

func (t *watchedTable) Nodes(ctx context.Context) ([]store.Node, error) {
	call, cancel := context.WithTimeout(ctx, presenceTimeout)
	defer cancel()
	return t.MetaStore.Nodes(call)
}

// withdraw removes this process, which stops. If that fails, its row expires.
func (p *presence) withdraw(ctx context.Context) {
	ctx, cancel := p.c.settling(ctx)
	defer cancel()
	if err := p.c.meta.Withdraw(ctx, p.id); err != nil {
		p.c.log.Warn("failed to withdraw this process from the list of nodes; it is listed for another minute", "error", err)
	}
}
