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

// maxHosts bounds the number of host names.
const maxHosts = 10_000

// Hosts are the hosts that a gateway serves. Requests for other hosts are refused before any
// I/O: otherwise clients could fill the store with pages of invented hosts. Hosts is
// immutable and safe for concurrent use. The zero value serves no host.
type Hosts struct {
	exact    map[string]bool // canonical, with the port if it is not a default one
	suffixes []string        // ".example.com" for *.example.com
	ports    []string        // ":8080": ports of listeners, accepted with any of the hosts
	any      bool            // "*"
	loopback bool            // names and addresses of this machine
	file     string          // the configuration file that lists them; empty: flags do
}

// ParseHosts parses the host names of a site: "example.com", "*.example.com" (subdomains at
// any depth), "example.com:8443" (for a port other than 80, 443 and the ports of listeners), an
// IP address, or "*" for any host, for sites behind a proxy that checks the host. Case and a
// trailing dot are ignored. At most 10,000 names.
func ParseHosts(names []string) (Hosts, error) {
	h := Hosts{exact: make(map[string]bool, len(names))}
	if len(names) > maxHosts {
		return h, fmt.Errorf("got %d hosts, at most %d are supported; use patterns such as *.example.com", len(names), maxHosts)
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

// LoopbackHosts returns localhost, its subdomains and the loopback addresses, for a gateway
// that only this machine can reach.
func LoopbackHosts() Hosts { return Hosts{loopback: true} }

// WithListener returns the hosts, also accepted with the port of a listener:
// "example.com:8080" for "example.com". Listeners that are not TCP change nothing.
func (h Hosts) WithListener(a net.Addr) Hosts {
	if tcp, ok := a.(*net.TCPAddr); ok {
		h.ports = append(slices.Clone(h.ports), fmt.Sprintf(":%d", tcp.Port))
	}
	return h
}

// InFile returns the hosts as hosts of a configuration file, which Advice names.
func (h Hosts) InFile(name string) Hosts {
	h.file = name
	return h
}

// Advice is how to serve another host, for messages: "start isr with --host example.com",
// or what to add to the configuration file.
func (h Hosts) Advice(host string) string {
	if h.file == "" {
		return "start isr with --host " + host
	}
	return "add it to hosts in " + h.file
}

// Serve reports whether a host, in canonical form (see [canonical.Host]), is served. It does
// not allocate.
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

// Only returns the forms of the only host that is served, with and without the ports of
// listeners, in the form of cache keys; none if there may be several.
func (h Hosts) Only() (forms []string) {
	if h.any || h.loopback || len(h.suffixes) > 0 || len(h.exact) != 1 {
		return nil
	}
	for host := range h.exact {
		forms = append(forms, host)
		for _, port := range h.ports {
			if with, ok := canonical.Host(host + port); ok && !slices.Contains(forms, with) {
				forms = append(forms, with)
			}
		}
	}
	return forms
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

// String lists the hosts, for messages.
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
	colon, bracket := strings.LastIndexByte(host, ':'), strings.LastIndexByte(host, ']')
	if colon > bracket && (bracket >= 0 || colon == strings.IndexByte(host, ':')) {
		return false // it has a port; the error of ParseAddr would be allocated
	}
	address, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil && address.Unmap().IsLoopback()
}
