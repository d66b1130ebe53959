package gateway

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net/netip"
	"slices"
	"strings"
)

// maxNetworks bounds the networks of a file, and maxNetworkLine the length of its lines, in bytes.
const (
	maxNetworks    = 100_000
	maxNetworkLine = 4 << 10
)

// Networks is a set of networks of IP addresses. It is immutable and safe for concurrent use. The zero
// value is empty.
type Networks struct {
	prefixes []netip.Prefix // sorted; none contains another
}

// ParseNetworks parses networks ("10.0.0.0/8", "2001:db8::/32"), addresses, and two
// names: "loopback" (127.0.0.0/8 and ::1) and "private" (RFC 1918, RFC 4193 and
// link-local).
func ParseNetworks(texts []string) (Networks, error) {
	var all []netip.Prefix
	for _, text := range texts {
		prefixes, err := parseNetwork(text)
		if err != nil {
			return Networks{}, err
		}
		all = append(all, prefixes...)
	}
	return networksOf(all), nil
}

// ReadNetworks reads networks as [ParseNetworks] has them, one a line, at most 100,000. What follows a # is a comment.
func ReadNetworks(r io.Reader) (Networks, error) {
	var all []netip.Prefix
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, maxNetworkLine)
	n := 0
	for lines.Scan() {
		n++
		text, _, _ := strings.Cut(lines.Text(), "#")
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		prefixes, err := parseNetwork(text)
		if err != nil {
			return Networks{}, fmt.Errorf("line %d: %w", n, err)
		}
		if all = append(all, prefixes...); len(all) > maxNetworks {
			return Networks{}, fmt.Errorf("line %d: there are more than %d networks; merge neighbors into larger networks", n, maxNetworks)
		}
	}
	if err := lines.Err(); err != nil {
		return Networks{}, fmt.Errorf("line %d: %w", n+1, err)
	}
	return networksOf(all), nil
}

// And returns the networks of both.
func (n Networks) And(m Networks) Networks { return networksOf(slices.Concat(n.prefixes, m.prefixes)) }

// Find returns the network that has an address; ok is false if there is none. An IPv4 address in IPv6
// notation (RFC 4291, section 2.5.5.2) is the IPv4 address. It does not allocate.
func (n Networks) Find(a netip.Addr) (found netip.Prefix, ok bool) {
	a = a.Unmap().WithZone("")
	at, exact := slices.BinarySearchFunc(n.prefixes, a, func(p netip.Prefix, a netip.Addr) int { return p.Addr().Compare(a) })
	switch {
	case exact:
	case at == 0:
		return netip.Prefix{}, false
	default:
		at-- // the last network that begins before the address
	}
	p := n.prefixes[at]
	return p, p.Contains(a)
}

// networksOf returns a set of networks. Two networks are apart, or one contains the other.
func networksOf(all []netip.Prefix) Networks {
	slices.SortFunc(all, func(a, b netip.Prefix) int {
		return cmp.Or(a.Addr().Compare(b.Addr()), cmp.Compare(a.Bits(), b.Bits()))
	})
	kept := all[:0]
	for _, p := range all {
		if len(kept) == 0 || !kept[len(kept)-1].Overlaps(p) {
			kept = append(kept, p)
		}
	}
	return Networks{slices.Clip(kept)}
}

// parseNetwork parses a network, an address, or the name of some networks.
func parseNetwork(text string) ([]netip.Prefix, error) {
	switch text {
	case "loopback":
		return prefixesOf("127.0.0.0/8", "::1/128"), nil
	case "private":
		return prefixesOf("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "169.254.0.0/16", "fc00::/7", "fe80::/10"), nil
	}
	if address, err := netip.ParseAddr(text); err == nil && address.Zone() == "" {
		address = address.Unmap()
		return []netip.Prefix{netip.PrefixFrom(address, address.BitLen())}, nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() { // an IPv4 network in IPv6 notation
		return nil, fmt.Errorf("%.100q is not a network; expected one like 10.0.0.0/8, an address, loopback or private", text)
	}
	return []netip.Prefix{prefix.Masked()}, nil
}

func prefixesOf(texts ...string) (all []netip.Prefix) {
	for _, text := range texts {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}
