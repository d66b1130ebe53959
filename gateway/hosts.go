package gateway

import (
	"fmt"
	"maps"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// maxHosts bounds how many names a gateway can be given.
const maxHosts = 10_000

// Hosts are the hosts that a gateway answers for. A host in no list is refused
// before any I/O: each would be a site of its own, with pages and renders of its
// own, and a stranger can invent as many as there are connections. It is
// immutable, and safe for concurrent use. The zero value serves no host.
type Hosts struct {
	exact    map[string]bool // canonical, with the port if it is not a default one
	suffixes []string        // ".example.com", of *.example.com
	ports    []string        // ":8080", with which a name may also be asked for
	any      bool            // of "*"
	loopback bool            // names and addresses of this machine
}

// ParseHosts reads the names of a site: "example.com", "*.example.com" (every
// name below it, however deep), "example.com:8443" (a port that is neither 80 nor
// 443 nor that of a listener), an IP address, or "*", which serves every host and
// is for sites whose own list of hosts stands elsewhere. Case and a trailing dot
// do not matter. At most 10,000 names.
func ParseHosts(names []string) (Hosts, error) {
	h := Hosts{exact: make(map[string]bool, len(names))}
	if len(names) > maxHosts {
		return h, fmt.Errorf("%d hosts are more than %d; name them by patterns such as *.example.com", len(names), maxHosts)
	}
	for _, name := range names {
		if name == "*" {
			h.any = true
			continue
		}
		suffix, wild := strings.CutPrefix(name, "*.")
		host, ok := canonical.Host(suffix)
		_, addressErr := netip.ParseAddr(host)
		if !ok || strings.Contains(suffix, "*") || wild && addressErr == nil {
			return Hosts{}, fmt.Errorf("%q is not a host; expected a name like example.com, *.example.com or example.com:8443, without scheme and path", name)
		}
		if wild {
			h.suffixes = append(h.suffixes, "."+host)
		} else {
			h.exact[host] = true
		}
	}
	return h, nil
}

// LoopbackHosts are localhost, the names below it, and the loopback addresses:
// those of a gateway that only this machine can reach.
func LoopbackHosts() Hosts { return Hosts{loopback: true} }

// WithListener returns the hosts, which may then also be asked for with the port
// of a listener: "example.com" as "example.com:8080". A listener on no TCP port
// changes nothing.
func (h Hosts) WithListener(a net.Addr) Hosts {
	if tcp, ok := a.(*net.TCPAddr); ok {
		h.ports = append(slices.Clone(h.ports), fmt.Sprintf(":%d", tcp.Port))
	}
	return h
}

// Serve says whether the hosts have this one, which is canonical (see
// [canonical.Host]). It allocates nothing.
func (h Hosts) Serve(host string) bool {
	if h.any || h.match(host) {
		return true
	}
	for _, port := range h.ports {
		if name, ok := strings.CutSuffix(host, port); ok && h.match(name) {
			return true
		}
	}
	return false
}

func (h Hosts) match(host string) bool {
	if h.exact[host] {
		return true
	}
	for _, suffix := range h.suffixes {
		if len(host) > len(suffix) && strings.HasSuffix(host, suffix) {
			return true
		}
	}
	return h.loopback && isLoopbackName(host)
}

// String lists the hosts, for people.
func (h Hosts) String() string {
	names := slices.Sorted(maps.Keys(h.exact))
	for _, suffix := range h.suffixes {
		names = append(names, "*"+suffix)
	}
	if h.loopback {
		names = append(names, "localhost")
	}
	if h.any {
		names = append(names, "*")
	}
	return strings.Join(names, ", ")
}

func isLoopbackName(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}
