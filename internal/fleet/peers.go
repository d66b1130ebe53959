package fleet

import (
	"hash/fnv"
	"io"
	"net/netip"
	"slices"
	"sync/atomic"

	"github.com/facetheory/isr/store"
)

// A Channel reaches the other processes of a fleet directly. isr.Peers has its methods, and
// documents them.
type Channel interface {
	Address() netip.AddrPort
	Tell(all []netip.AddrPort, seq int64)
}

// Peers are what a process knows of its peers. All methods are safe for concurrent use.
type Peers struct {
	channel Channel // nil: there are no peers
	// known are the addresses of the processes that have announced themselves, without this one.
	known   atomic.Pointer[[]netip.AddrPort]
	missed  atomic.Bool // an address is not known: the processes are to be counted
	missing func()      // is called then; nil if this process does not count them
	health  health
}

// NewPeers returns the peers of a process, none of which is known yet. A nil channel means that
// there are none.
func NewPeers(channel Channel) *Peers { return &Peers{channel: channel} }

// Own returns the address of this process; invalid if it has no peers.
func (p *Peers) Own() netip.AddrPort {
	if p.channel == nil {
		return netip.AddrPort{}
	}
	return p.channel.Address()
}

// count records the processes that have announced themselves.
func (p *Peers) count(nodes []store.Node) {
	if p.channel == nil {
		return
	}
	own := p.channel.Address()
	var all []netip.AddrPort
	for _, n := range nodes {
		if n.Peer.IsValid() && n.Peer != own {
			all = append(all, n.Peer)
		}
	}
	p.known.Store(&all)
	p.health.retain(all)
}

// all returns the known peers.
func (p *Peers) all() []netip.AddrPort {
	if all := p.known.Load(); all != nil {
		return *all
	}
	return nil
}

// Knows reports whether a process has announced itself with an address. No other is connected
// to. If it has not, the processes are counted soon: it may be new.
func (p *Peers) Knows(at netip.AddrPort) bool {
	if p.channel == nil {
		return false
	}
	if slices.Contains(p.all(), at) {
		return true
	}
	if at != p.channel.Address() {
		p.missed.Store(true)
		if p.missing != nil {
			p.missing()
		}
	}
	return false
}

// Tell notifies all peers that the log has changed up to a sequence.
func (p *Peers) Tell(seq int64) {
	if p.channel == nil {
		return
	}
	if all := p.all(); len(all) > 0 {
		p.channel.Tell(all, seq)
	}
}

// Holders returns the peers that are asked for the body of a page, at most two: the publisher, which
// has rendered the page, and another one, always the same for a page. Publisher may be invalid.
// Peers whose circuit breakers are open are left out.
func (p *Peers) Holders(k store.Key, publisher netip.AddrPort) []netip.AddrPort {
	if p.channel == nil {
		return nil
	}
	all := p.all()
	var holders []netip.AddrPort
	if publisher.IsValid() && slices.Contains(all, publisher) && p.health.allows(publisher) {
		holders = append(holders, publisher)
	}
	var best netip.AddrPort
	most := uint64(0)
	for _, at := range all {
		if score := rendezvous(k, at); at != publisher && (score > most || !best.IsValid()) && p.health.allows(at) {
			best, most = at, score
		}
	}
	if best.IsValid() {
		holders = append(holders, best)
	}
	return holders
}

// rendezvous returns the weight of a peer for a page: each page has the peers in an order of its own.
func rendezvous(k store.Key, at netip.AddrPort) uint64 {
	h := fnv.New64a()
	_, _ = io.WriteString(h, k.Tenant+"\x00"+k.Text+"\x00"+at.String()) // it cannot fail
	n := h.Sum64()
	// FNV mixes its last bytes, the address, into few bits (MurmurHash3 finalizer).
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	return n ^ n>>33
}

// Begin reports whether a peer may still be asked. If it is, the caller reports by [Peers.Answered]
// or [Peers.Failed] how the request ended, unless it gave up.
func (p *Peers) Begin(at netip.AddrPort) bool { return p.health.begin(at) }

// Answered records that a peer has answered as it should.
func (p *Peers) Answered(at netip.AddrPort) { p.health.answered(at) }

// Failed records that a peer has not answered, or has sent content that is wrong, which opens its
// circuit breaker at once.
func (p *Peers) Failed(at netip.AddrPort, wrong bool) { p.health.failed(at, wrong) }
