package accesslog

import "net/netip"

// An Address selects which part of a client's address lines have.
type Address string

// What lines have of addresses.
const (
	// AddressFull is the whole address.
	AddressFull Address = "full"
	// AddressMasked is the address without what names one client: the last octet of IPv4 and the
	// last 80 bits of IPv6 are zero.
	AddressMasked Address = "masked"
	// AddressNone is no address.
	AddressNone Address = "none"
)

// The bits of an address that are not masked.
const (
	shownIPv4 = 24
	shownIPv6 = 48
)

// clientOf returns what a line has of the address of a client, without its port.
func (a Address) clientOf(remote string) string {
	host, _ := splitHost(cut(remote, maxHost))
	switch a {
	case AddressMasked:
		return masked(host)
	case AddressNone:
		return ""
	}
	return host
}

// masked masks an address. What is none has nothing that may be shown.
func masked(host string) string {
	address, err := netip.ParseAddr(host)
	if err != nil {
		return ""
	}
	address = address.Unmap().WithZone("")
	shown := shownIPv6
	if address.Is4() {
		shown = shownIPv4
	}
	network, _ := address.Prefix(shown) // it has as many bits
	return network.Addr().String()
}
