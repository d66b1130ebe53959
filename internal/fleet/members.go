package fleet

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

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
	// announceGap is the shortest interval of announcements.
	announceGap = 10 * time.Millisecond
	// callTime bounds a call of the table.
	callTime = 5 * time.Second
)

// Options are what [Members] need.
type Options struct {
	Table store.PresenceStore
	Peers *Peers
	// ID names this process, uniquely in the table; Name and Release are announced with it.
	ID, Name, Release string
	// Configuration returns the digest of the configuration, which may change; nil: there is none.
	Configuration func() string
	// Begun is closed when the log was read for the first time, or could not be.
	Begun <-chan struct{}
	// Applied returns up to which sequence this process has applied the log; false if it has not
	// read the log yet, and so serves no stored page.
	Applied func() (seq int64, ok bool)
	// Committed returns the highest sequence that this process knows to be committed.
	Committed func() int64
	// Counted is called with the number of processes.
	Counted func(nodes int)
	Now     func() time.Time
	Below   func(n uint64) uint64 // draws a number in [0, n)
	Log     *slog.Logger
}

// Members announce this process in the table, and count the others. Methods are safe for concurrent
// use, and may be called of a nil *Members: a process that has no name is not announced.
type Members struct {
	o     Options
	since time.Time     // by Options.Now
	began time.Time     // by the monotonic clock
	soon  chan struct{} // has an element if an announcement is due now
	// countedAt is when the processes were last counted, in nanoseconds since began.
	countedAt atomic.Int64
	nodes     int // as counted last; only Run uses it
}

// New returns the Members of a process, which begin with [Members.Run].
func New(o Options) *Members {
	m := &Members{o: o, since: o.Now(), began: time.Now(), soon: make(chan struct{}, 1)}
	o.Peers.missing = m.countSoon
	return m
}

// Is reports whether a node is this process.
func (m *Members) Is(n store.Node) bool { return m != nil && n.ID == m.o.ID }

// Hurry asks for an announcement at once. It never blocks.
func (m *Members) Hurry() {
	if m == nil {
		return
	}
	select {
	case m.soon <- struct{}{}:
	default: // asked for already
	}
}

// countSoon asks for a count of the processes, unless they have just been counted: then they are
// counted after the next announcement. It never blocks.
func (m *Members) countSoon() {
	if time.Since(m.began)-time.Duration(m.countedAt.Load()) >= recountEvery {
		m.Hurry()
	}
}

// Run announces this process until ctx ends, and then withdraws it.
func (m *Members) Run(ctx context.Context) {
	select {
	case <-m.o.Begun:
	case <-ctx.Done():
		return
	}
	var counted time.Time
	failing := false
	for ctx.Err() == nil {
		err := m.announce(ctx)
		if err == nil && (counted.IsZero() || time.Since(counted) >= m.countPause() || m.o.Peers.missed.Swap(false)) {
			m.countedAt.Store(int64(time.Since(m.began)))
			if err = m.count(ctx); err == nil {
				if counted.IsZero() {
					m.o.Peers.Tell(m.o.Committed()) // so that they know of this process
				}
				counted = time.Now()
			}
		}
		if err != nil && !failing && ctx.Err() == nil {
			m.o.Log.Error("failed to announce this process: purges do not wait for it", "error", err)
		}
		failing = err != nil
		m.rest(ctx)
	}
	m.withdraw(ctx)
}

// rest waits until the next announcement is due, or asked for.
func (m *Members) rest(ctx context.Context) {
	timer := time.NewTimer(announceEvery - time.Duration(m.o.Below(uint64(announceEvery/5))))
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-m.soon:
		// Purges that follow each other share announcements.
		_ = backoff.Wait(ctx, announceGap)
	case <-ctx.Done():
	}
}

// announce writes the state of this process, unless it has not read the log yet: it then
// serves no stored page.
func (m *Members) announce(ctx context.Context) error {
	applied, ok := m.o.Applied()
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	now, digest := m.o.Now(), ""
	if m.o.Configuration != nil {
		digest = m.o.Configuration()
	}
	return m.o.Table.Announce(ctx, store.Node{
		Peer: m.o.Peers.Own(), ID: m.o.ID, Name: m.o.Name, Release: m.o.Release, Config: digest, Applied: applied, Since: m.since, SeenAt: now, Until: now.Add(presentFor),
	})
}

// countPause returns how long after a count the next one is due.
func (m *Members) countPause() time.Duration {
	return max(countEvery, time.Duration(m.nodes)*countPerNode)
}

// count counts the nodes, for the interval at which they read the log.
func (m *Members) count(ctx context.Context) error {
	nodes, err := m.o.Table.Nodes(ctx)
	if err == nil {
		m.nodes = len(nodes)
		m.o.Counted(len(nodes))
		m.o.Peers.count(nodes)
	}
	return err
}

// withdraw removes this process, which stops. If that fails, its row expires.
func (m *Members) withdraw(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	if err := m.o.Table.Withdraw(ctx, m.o.ID); err != nil {
		m.o.Log.Warn("failed to withdraw this process from the list of nodes; it is listed for another minute", "error", err)
	}
}
