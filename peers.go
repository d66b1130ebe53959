package isr

import (
	"context"
	"net/netip"
	"strings"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/fleet"
	"github.com/facetheory/isr/store"
)

// Peers reach the other processes of a fleet directly (see package peer). What they say are
// hints: the table decides, and a process that hears nothing, or is told lies, looks at the table
// as one without peers. Bodies that they send are verified by the table. All methods are safe for concurrent use.
type Peers interface {
	// Address is where the others reach this process.
	Address() netip.AddrPort
	// AwaitLease waits, for a bounded time, until the process at an address says that it has
	// ended its work on a page, and reports whether it has said so.
	AwaitLease(ctx context.Context, at netip.AddrPort, k store.Key) bool
	// Tell tells processes that the log has changed up to a sequence. It does not block.
	Tell(all []netip.AddrPort, seq int64)
	// ReadBody asks the process at an address for a body that it has in memory or on its local disk
	// (see [Cache.LocalBody]), and returns its bytes, at most Length. [store.ErrNotFound]: it has
	// not. [store.ErrPeerBusy]: it sends too many. Any other error: it did not answer. The caller verifies the bytes.
	ReadBody(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error)
}

// newMembers returns what announces this process, and counts the others; nil if the process has no
// name, or does not read the log. Purges wait for processes that are announced (see
// [Cache.AwaitPurge]), and each adapts its polls to the number of them.
func newMembers(c *Cache) *fleet.Members {
	if c.cfg.Node == "" || c.cfg.Poll < 0 {
		return nil
	}
	return fleet.New(fleet.Options{
		Table: c.meta, Peers: c.peers,
		ID: strings.ToLower(c.cfg.NewToken()), Name: c.cfg.Node, Release: c.cfg.Release, Configuration: c.cfg.Configuration,
		Begun: c.follower.Begun(), Applied: c.follower.Applied, Committed: c.follower.Committed, Counted: c.follower.SetNodes,
		Now: c.now, Below: c.below, Log: c.log,
	})
}

// HearPeer is called for a process that has sent an authenticated message (see package peer): if
// it is new, this process looks for it in the table. It is safe for concurrent use.
func (c *Cache) HearPeer(at netip.AddrPort) {
	c.peers.Knows(at)
}

// HearChange is called when a peer says that the log has changed up to a sequence: this process
// reads the log, unless peers have made it do so often lately, and returns once it has applied
// that change. The error is ctx's, or means that the log does not reach the sequence. It is safe
// for concurrent use.
func (c *Cache) HearChange(ctx context.Context, seq int64) error {
	return c.follower.Hear(ctx, seq)
}

// AwaitFlight waits until this process has ended its work on a page, such as a render and its
// publish. It returns false if it does not work on it, or if ctx ends first. It is safe for
// concurrent use.
func (c *Cache) AwaitFlight(ctx context.Context, k store.Key) bool {
	f := c.flights.Oldest(k)
	if f == nil {
		return false
	}
	select {
	case <-f.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// LocalBody returns a stored body for a peer: the body of a page which this process has in memory, or
// whose stub is there and whose body is on the local disk. Nothing is read from elsewhere. Keys
// are only compared with the keys of these pages, and name no file. nil: there is no such body, or this process
// knows that the page was purged hard. The body must not be changed. It is safe for concurrent use.
func (c *Cache) LocalBody(ctx context.Context, b store.PeerBody) []byte {
	body := c.localBody(ctx, b)
	if body == nil {
		c.note(Event{Kind: EventPeerServed, Reason: "absent"})
		return nil
	}
	c.note(Event{Kind: EventPeerServed, Reason: "sent", Bytes: int64(len(body))})
	return body
}

func (c *Cache) localBody(ctx context.Context, b store.PeerBody) []byte {
	p := c.node.Known(b.Key)
	if p == nil {
		return nil
	}
	e := &p.Entry
	if e.Foreign || e.Withdrawn || e.BodyKey != b.BodyKey || e.SHA256 != b.SHA256 || e.Length != b.Length || e.Length > store.MaxPeerBody || c.node.State(nil, p, c.now()) == store.Purged {
		return nil
	}
	if p.Body() != nil {
		return p.Body()
	}
	if !c.reader.HasLocal() {
		return nil
	}
	body, err := c.reader.Local(ctx, e)
	if err != nil || bodies.Verify(e, body) != nil {
		return nil
	}
	return body
}
