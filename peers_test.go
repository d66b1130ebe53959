package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A channel connects the peers of a test without a network. Package peer has the real one.
type channel struct {
	mu     sync.Mutex
	caches map[netip.AddrPort]*isr.Cache // guarded by mu
}

// An end of a channel is one process.
type end struct {
	*channel
	at     netip.AddrPort
	await  func(ctx context.Context) bool                                                 // nil: what the holder says
	read   func(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error) // nil: local
	asked  atomic.Int64
	bodies atomic.Int64 // that it asked for
	dials  sync.Map     // of netip.AddrPort
}

func (e *end) Address() netip.AddrPort { return e.at }

func (e *end) cache(at netip.AddrPort) *isr.Cache {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.caches[at]
}

func (e *end) AwaitLease(ctx context.Context, at netip.AddrPort, k store.Key) bool {
	e.asked.Add(1)
	e.dials.Store(at, true)
	if e.await != nil {
		return e.await(ctx)
	}
	return e.cache(at).AwaitFlight(ctx, k)
}

func (e *end) ReadBody(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error) {
	e.bodies.Add(1)
	if e.read != nil {
		return e.read(ctx, at, b)
	}
	return e.local(ctx, at, b)
}

// local returns what the process at an address has.
func (e *end) local(ctx context.Context, at netip.AddrPort, b store.PeerBody) ([]byte, error) {
	time.Sleep(time.Millisecond)
	c := e.cache(at)
	if c == nil {
		return nil, errors.New("nothing listens")
	}
	if body := c.LocalBody(ctx, b); body != nil {
		return body, nil
	}
	return nil, store.ErrNotFound
}

func (e *end) Tell(all []netip.AddrPort, seq int64) {
	for _, at := range all {
		if c := e.cache(at); c != nil {
			c.HearPeer(e.at)
			go func() {
				ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
				defer cancel()
				_ = c.HearChange(ctx, seq)
			}()
		}
	}
}

// A connected process has peers.
type connected struct {
	*peer
	end    *end
	bucket *bucket
}

// A bucket is a store of bodies on the network, which counts those that are opened.
type bucket struct {
	store.BodyStore
	delay time.Duration
	opens atomic.Int64
}

func (b *bucket) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	b.opens.Add(1)
	if err := backoff.Wait(ctx, b.delay); err != nil {
		return nil, 0, err
	}
	return b.BodyStore.Open(ctx, key)
}

// connect starts processes that are each other's peers, and waits until they know each other.
func connect(tb *table, n int, renderer http.Handler) []connected {
	ch := &channel{caches: make(map[netip.AddrPort]*isr.Cache)}
	all := make([]connected, n)
	for i := range all {
		all[i] = ch.start(tb, i, renderer)
	}
	time.Sleep(30 * time.Second)
	return all
}

// start starts the ith process, in place of its predecessor.
func (ch *channel) start(tb *table, i int, renderer http.Handler) connected {
	at := netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(i + 1)}), 7946)
	e, b := &end{channel: ch, at: at}, &bucket{BodyStore: tb.bodies, delay: bucketDelay}
	name := store.OwnerWithPeer(fmt.Sprint("node", i), at)
	p := tb.peerOn(b, name, isr.Route{Name: "site"}, renderer, func(cfg *isr.Config) { cfg.Node, cfg.Peers = name, e })
	ch.mu.Lock()
	ch.caches[at] = p.Cache
	ch.mu.Unlock()
	synctest.Wait()
	return connected{p, e, b}
}

// bucketDelay is what a read of the bucket takes.
const bucketDelay = 40 * time.Millisecond

// Processes see a page as soon as the holder of its lease has published it, whatever the render takes.
func TestPeersSayWhenAPageIsStored(t *testing.T) {
	for _, took := range []time.Duration{70 * time.Millisecond, 730 * time.Millisecond, 3310 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			nodes := connect(tb, 3, site)
			site.delay = took
			hs := make([]http.Handler, len(nodes))
			for i := range nodes {
				hs[i] = nodes[i]
			}
			go get(hs[0], "/")
			synctest.Wait() // it holds the lease
			for _, a := range crowd(60, hs, "/") {
				if a.Body.String() != "/ rendered 1" || a.took > took+5*time.Millisecond {
					t.Errorf("%q after %v", a.Body, a.took)
				}
			}
			for i, n := range nodes[1:] {
				if asked, reads := n.end.asked.Load(), n.store.reads.Load(); asked != 1 || reads > 4+2*int64(took/time.Second) {
					t.Errorf("node %d asked %d times, and read %d times", i+1, asked, reads)
				}
			}
		})
	}
}

// Peers that lie, are slow or are dead delay no visitor, and cost a look at most.
func TestPeersAreNotTrusted(t *testing.T) {
	const took = 3 * time.Second
	for name, await := range map[string]func(context.Context) bool{
		"ends at once": func(context.Context) bool { return true },
		"ends late": func(ctx context.Context) bool {
			select {
			case <-time.After(10 * time.Second):
			case <-ctx.Done():
			}
			return true
		},
		"is dead":          func(context.Context) bool { return false },
		"does not answer":  func(ctx context.Context) bool { <-ctx.Done(); return false },
		"ends in a moment": func(context.Context) bool { time.Sleep(10 * time.Millisecond); return true },
	} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			nodes := connect(tb, 2, site)
			site.delay = took
			get(nodes[0], "/earlier")
			get(nodes[1], "/earlier")
			nodes[1].end.await = await
			before := nodes[1].store.reads.Load()
			go get(nodes[0], "/")
			synctest.Wait() // it holds the lease
			for _, a := range crowd(10, []http.Handler{nodes[0], nodes[1]}, "/") {
				if a.Body.String() != "/ rendered 2" || a.took > took+40*time.Millisecond {
					t.Errorf("a peer that %s: %q after %v", name, a.Body, a.took)
				}
			}
			// The first read, a look each second, one or two at the end, and one for the lie.
			if asked, reads := nodes[1].end.asked.Load(), nodes[1].store.reads.Load()-before; asked != 1 || reads > 6 {
				t.Errorf("a peer that %s: asked %d times, and read %d times", name, asked, reads)
			}
		})
	}
}

// A writer of leases cannot make a process connect to an address that no process of the table has.
func TestPeersAreThoseOfTheTable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		nodes := connect(tb, 2, site)
		foreign := tb.store(store.OwnerWithPeer("evil", netip.MustParseAddrPort("10.9.9.9:80")))
		lease, err := foreign.Acquire(t.Context(), store.HashedPartition(page), 3*time.Second, nil)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, get(nodes[0], "/"), "/ rendered 1", "isr; fwd=miss")
		if n := nodes[0].end.asked.Load(); n != 0 {
			t.Errorf("asked %d times", n)
		}
		if err := foreign.Release(t.Context(), lease); err != nil {
			t.Fatal(err)
		}
	})
}

// Purges and rollbacks take effect on the peers at once, rather than at their next polls.
func TestPeersHearOfChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = 5 * time.Second
		nodes := connect(tb, 3, site)
		for _, n := range nodes {
			get(n, "/")
		}
		if _, err := nodes[1].Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeSite}}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(20 * time.Millisecond)
		site.delay = 0
		for i, n := range nodes {
			if a := get(n, "/"); a.Body.String() != "/ rendered 2" {
				t.Errorf("node %d: %q", i, a.Body)
			}
		}
	})
}
