package cli

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Addresses are where hosts are reached instead of where their names point, by host:port. The zero value has none.
type Addresses map[string]string

// ParseAddresses parses texts in the syntax of curl's --resolve: HOST:PORT:ADDRESS, where an IPv6 address may be in brackets.
func ParseAddresses(texts []string) (Addresses, error) {
	all := make(Addresses)
	for _, text := range texts {
		host, rest, _ := strings.Cut(text, ":")
		port, address, found := strings.Cut(rest, ":")
		number, err := strconv.ParseUint(port, 10, 16)
		if !found || host == "" || err != nil || number == 0 {
			return nil, fmt.Errorf("%q is not HOST:PORT:ADDRESS; expected one like example.com:443:203.0.113.7", text)
		}
		if inner, ok := strings.CutPrefix(address, "["); ok {
			address = strings.TrimSuffix(inner, "]")
		}
		ip, err := netip.ParseAddr(address)
		if err != nil {
			return nil, fmt.Errorf("%q has no IP address after the port; expected one like example.com:443:203.0.113.7", text)
		}
		at := net.JoinHostPort(strings.ToLower(host), port)
		if _, twice := all[at]; twice {
			return nil, fmt.Errorf("%q: there is another address for %s", text, at)
		}
		all[at] = netip.AddrPortFrom(ip, uint16(number)).String()
	}
	return all, nil
}

// Transport returns a transport that connects to the addresses. Host and the server name of TLS stay those of the URL, and a
// proxy of the environment is not used for these hosts.
func (a Addresses) Transport() *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone() //nolint:forcetypeassert // of net/http
	dial, proxy := t.DialContext, t.Proxy
	t.DialContext = func(ctx context.Context, network, at string) (net.Conn, error) {
		if address, ok := a[strings.ToLower(at)]; ok {
			at = address
		}
		return dial(ctx, network, at)
	}
	t.Proxy = func(r *http.Request) (*url.URL, error) {
		if _, ok := a[hostPort(r.URL)]; ok {
			return nil, nil //nolint:nilnil // no proxy
		}
		return proxy(r)
	}
	return t
}

// hostPort returns the host of a URL with its port, as a transport connects to it.
func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}
