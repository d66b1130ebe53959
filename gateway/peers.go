package gateway

import (
	"cmp"
	"maps"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
)

// Bounds of [Peers].
const (
	maxPeers   = 64  // addresses
	firstPeers = 256 // requests that are all counted; of later ones, one in peerSample is, since this is on the path of hits
	peerSample = 128
)

// Peers are the addresses that requests came from, and whether they sent forwarding fields:
// a bounded sample by which an operator sees whether the right proxies are trusted. It is
// safe for concurrent use; the zero value is empty.
type Peers struct {
	requests atomic.Int64
	mu       sync.Mutex
	seen     map[netip.Addr]Peer // guarded by mu; at most maxPeers
	sampled  int64               // guarded by mu
	others   Peer                // guarded by mu; those that found no place in seen
}

// A Peer is what was counted of one address.
type Peer struct {
	Address    netip.Addr // invalid for several
	Trusted    bool       // its forwarding fields are trusted
	Requests   int64      // of the sample
	Forwarding int64      // of these, with forwarding fields
	Fields     []string   // the names of these fields, sorted
}

// A PeerSample is what [Peers] has counted.
type PeerSample struct {
	Requests int64  // in all
	Sampled  int64  // of these, counted in Peers and Others
	Peers    []Peer // the most frequent first
	Others   Peer   // the sum of the other addresses
}

// sampled reports whether the nth request is counted in full.
func sampled(n int64) bool { return n <= firstPeers || n%peerSample == 0 }

// due reports whether the next request is counted in full, with its forwarding fields.
func (p *Peers) due() bool { return p != nil && sampled(p.requests.Load()+1) }

// count counts a request as its listener received it. It allocates for few requests only.
func (p *Peers) count(r *http.Request, trust Trust) {
	if p == nil {
		return
	}
	if !sampled(p.requests.Add(1)) {
		return
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return
	}
	address := at.Addr().Unmap().WithZone("")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sampled++
	peer, known := p.seen[address]
	switch {
	case known:
	case len(p.seen) < maxPeers:
		if p.seen == nil {
			p.seen = make(map[netip.Addr]Peer)
		}
		peer.Address = address
	default:
		p.others.add(r)
		return
	}
	peer.Trusted = trust.Trusts(address)
	peer.add(r)
	p.seen[address] = peer
}

func (p *Peer) add(r *http.Request) {
	p.Requests++
	forwarding := false
	for _, name := range forwardingFields() {
		if r.Header[name] == nil {
			continue
		}
		forwarding = true
		if at, found := slices.BinarySearch(p.Fields, name); !found {
			p.Fields = slices.Insert(slices.Clone(p.Fields), at, name)
		}
	}
	if forwarding {
		p.Forwarding++
	}
}

// Sample returns what has been counted.
func (p *Peers) Sample() PeerSample {
	p.mu.Lock()
	defer p.mu.Unlock()
	return PeerSample{
		Requests: p.requests.Load(), Sampled: p.sampled, Others: p.others,
		Peers: slices.SortedFunc(maps.Values(p.seen), func(a, b Peer) int {
			return cmp.Or(cmp.Compare(b.Requests, a.Requests), a.Address.Compare(b.Address))
		}),
	}
}
