package fleet

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// A channel has an address, and records whom it has told what.
type channel struct {
	own  netip.AddrPort
	told map[netip.AddrPort]int64
}

func (c *channel) Address() netip.AddrPort { return c.own }

func (c *channel) Tell(all []netip.AddrPort, seq int64) {
	for _, at := range all {
		c.told[at] = seq
	}
}

func address(n int) netip.AddrPort {
	return netip.MustParseAddrPort(fmt.Sprintf("10.0.%d.%d:80", n/256, n%256))
}

// nodes returns the nodes at the addresses of first to last.
func nodes(first, last int) (all []store.Node) {
	for n := first; n <= last; n++ {
		all = append(all, store.Node{ID: fmt.Sprint(n), Peer: address(n)})
	}
	return all
}

// newPeers returns the peers of process 0, which knows processes 1 to n, and how often a count was
// asked for.
func newPeers(n int) (p *Peers, ch *channel, missed *int) {
	ch, missed = &channel{own: address(0), told: make(map[netip.AddrPort]int64)}, new(int)
	p = NewPeers(ch)
	p.missing = func() { *missed++ }
	p.count(append(nodes(0, n), store.Node{ID: "without an address"}))
	return p, ch, missed
}

// Peers are the processes that have announced an address, without this one. An address that none has
// announced is not used.
func TestPeersAreThoseAnnounced(t *testing.T) {
	p, ch, missed := newPeers(2)
	if p.Own() != address(0) || !p.Knows(address(1)) || !p.Knows(address(2)) || *missed != 0 {
		t.Errorf("own %v, peers %v, missed %d", p.Own(), p.all(), *missed)
	}
	if p.Knows(address(0)) || *missed != 0 {
		t.Error("this process is a peer of its own")
	}
	if p.Knows(address(3)) || *missed != 1 || !p.missed.Load() {
		t.Errorf("an unknown address: counts asked for %d times", *missed)
	}
	p.Tell(7)
	if len(ch.told) != 2 || ch.told[address(1)] != 7 || ch.told[address(2)] != 7 {
		t.Errorf("told %v", ch.told)
	}
	for _, at := range p.Holders(store.Key{Text: "site/"}, address(3)) {
		if at == address(3) {
			t.Error("an address that was not announced is asked for a body")
		}
	}

	none := NewPeers(nil)
	none.count(nodes(1, 2))
	none.Tell(1)
	if none.Own().IsValid() || none.Knows(address(1)) || none.Holders(store.Key{Text: "site/"}, address(1)) != nil {
		t.Error("a process without a channel has peers")
	}
}

// The publisher of a page is asked first, then one other peer, the same for each read of the page. If a
// peer leaves the fleet, only its pages move to other peers.
func TestHolders(t *testing.T) {
	const peers, pages = 8, 2000
	p, _, _ := newPeers(peers)
	keys, before, share := make([]store.Key, pages), make([]netip.AddrPort, pages), make(map[netip.AddrPort]int)
	for n := range keys {
		keys[n] = store.Key{Text: fmt.Sprint("site/", n)}
		holders := p.Holders(keys[n], address(1))
		if len(holders) != 2 || holders[0] != address(1) || holders[1] == address(1) || !slices.Equal(holders, p.Holders(keys[n], address(1))) {
			t.Fatalf("%v: %v", keys[n], holders)
		}
		before[n] = p.Holders(keys[n], netip.AddrPort{})[0]
		share[before[n]]++
	}
	for at, n := range share {
		if n < pages/peers/2 || n > pages/peers*2 {
			t.Errorf("%v has %d of %d pages", at, n, pages)
		}
	}
	p.count(nodes(0, peers-1))
	for n, k := range keys {
		if after := p.Holders(k, netip.AddrPort{})[0]; after != before[n] && before[n] != address(peers) {
			t.Errorf("%v moved from %v to %v", k, before[n], after)
		}
	}
}

// A peer that fails is not asked for growing pauses, each of which one request ends. One that sends
// wrong content is not asked at once.
func TestHealth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, _, _ := newPeers(1)
		k, at := store.Key{Text: "site/"}, address(1)
		isAsked := func() bool { return len(p.Holders(k, at)) == 1 }
		for range peerFailures {
			if !isAsked() || !p.Begin(at) {
				t.Fatal("the circuit breaker opened early")
			}
			p.Failed(at, false)
		}
		for _, pause := range []time.Duration{5 * time.Second, 10 * time.Second, 20 * time.Second, 40 * time.Second, time.Minute, time.Minute} {
			time.Sleep(pause - time.Second)
			if isAsked() || p.Begin(at) {
				t.Errorf("asked within a pause of %v", pause)
			}
			time.Sleep(2 * time.Second)
			if !isAsked() || !p.Begin(at) || p.Begin(at) {
				t.Errorf("not probed once after a pause of %v", pause)
			}
			p.Failed(at, false)
		}
		time.Sleep(maxPeerPause)
		p.Answered(at)
		p.Failed(at, false)
		if !isAsked() {
			t.Error("failures before an answer still count")
		}
		p.Failed(at, true)
		if isAsked() {
			t.Error("a peer that sends wrong content is asked")
		}
		p.count(nodes(0, 0)) // it has left
		p.count(nodes(0, 1))
		if !isAsked() {
			t.Error("another process at the same address inherits the failures")
		}
	})
}
