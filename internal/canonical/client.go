package canonical

import (
	"net"
	"net/netip"
)

// Client returns the network that counts as one client: an IPv4 address or an IPv6 /64,
// the usual allocation of a subscriber. Remotes without an address are one client.
func Client(remote string) netip.Prefix {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	address, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Prefix{}
	}
	address, bits := address.Unmap().WithZone(""), 32
	if address.Is6() {
		bits = 64
	}
	prefix, _ := address.Prefix(bits) // both are in range
	return prefix
}
