package store

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"
)

// Processes that reach each other directly (package internal/peer) state their addresses in three places: in
// the name of a holder of a lease, so that waiting processes know which one to ask, in the entries that
// they publish, so that others know who has the body, and in the rows of processes, so that each
// knows all. A process connects only to addresses that both are of this
// form and belong to a process that has announced itself.

// peerMark separates the name of a holder from its address.
const peerMark = " peer="

// ParsePeerAddress parses the address of a process: an IP address and a port in their canonical
// form, which is not unspecified, of a link, or of a group. There are no host names, so that no
// name server decides with whom a process speaks.
func ParsePeerAddress(text string) (netip.AddrPort, error) {
	at, err := netip.ParseAddrPort(text)
	if err != nil {
		return at, fmt.Errorf("%w: the address of a peer is an IP address and a port, like 10.0.0.5:7946 (got %.100q)", ErrInvalidInput, text)
	}
	ip, broadcast := at.Addr(), netip.AddrFrom4([4]byte{255, 255, 255, 255})
	if at.String() != text || at.Port() == 0 || ip.Zone() != "" || ip.Is4In6() || ip.IsUnspecified() || ip.IsMulticast() || ip.IsLinkLocalUnicast() || ip == broadcast {
		return netip.AddrPort{}, fmt.Errorf("%w: the address of a peer is one that others can connect to, like 10.0.0.5:7946 (got %.100q)", ErrInvalidInput, text)
	}
	return at, nil
}

// OwnerWithPeer returns the name of a holder that its peers reach at an address.
func OwnerWithPeer(name string, at netip.AddrPort) string { return name + peerMark + at.String() }

// Peer returns the address at which peers reach the holder, by its own statement; invalid if it gave
// none, or one that must not be used. Any writer of the table can have written it.
func (l Lock) Peer() netip.AddrPort {
	i := strings.LastIndex(l.Owner, peerMark)
	if i < 0 {
		return netip.AddrPort{}
	}
	at, err := ParsePeerAddress(l.Owner[i+len(peerMark):])
	if err != nil {
		return netip.AddrPort{}
	}
	return at
}

// MaxPeerBody bounds the bodies that peers are asked for, in bytes. For a larger one, the first byte
// of a bucket is a small part of the read.
const MaxPeerBody = 1 << 20

// A PeerBody names a stored body of a page, for which a peer is asked.
type PeerBody struct {
	Key     Key
	BodyKey string // of the entry
	SHA256  string // hex, of the body
	Length  int64  // bytes, at most MaxPeerBody
}

// ErrPeerBusy: a peer sends too many bodies.
var ErrPeerBusy = errors.New("the peer is busy")
