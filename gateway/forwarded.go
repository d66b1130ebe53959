package gateway

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// Trust is the set of peers whose forwarding fields are trusted: load balancers and CDNs in
// front of a gateway. It is immutable and safe for concurrent use. The zero value trusts no
// peer.
type Trust struct {
	networks Networks
	host     bool // X-Forwarded-Host, host= of Forwarded, X-Forwarded-Port, X-Forwarded-Prefix, … are trusted, too
}

// WithHost returns a Trust that takes the requested host from X-Forwarded-Host, or from host= of
// Forwarded (RFC 7239, section 5.3), and passes X-Forwarded-Port, X-Forwarded-Prefix, and other fields
// that state a part of the URL on. Many proxies forward these
// fields as visitors send them. Behind such a proxy a visitor chooses the host of a page, and a
// cache in front stores the page under another host. Without WithHost the fields have no effect:
// the host is the one of the Host field or of :authority.
func (t Trust) WithHost() Trust {
	t.host = true
	return t
}

// ParseTrust parses networks as [ParseNetworks] does.
func ParseTrust(networks []string) (Trust, error) {
	n, err := ParseNetworks(networks)
	return Trust{networks: n}, err
}

// Trusts reports whether an address is in one of the networks.
func (t Trust) Trusts(a netip.Addr) bool {
	_, ok := t.networks.Find(a)
	return ok
}

// Limits of forwarding fields.
const (
	maxHops       = 64      // members of X-Forwarded-For or Forwarded
	maxForwarding = 8 << 10 // bytes of one forwarding field
)

// A hop is the result of the forwarding fields of trusted peers: the client, and the fields
// that are sent to the origin.
type hop struct {
	client   netip.Addr
	forwards bool   // the peer has forwarded the request of a client, which it names
	scheme   string // "http" or "https"; empty if unknown
	port     string // X-Forwarded-Port; empty if unknown
	chain    string // X-Forwarded-For for the origin: the client first, our peer last
	unread   string // the forwarded host that is not trusted; empty if there is none
	urls     bool   // forwarded hosts and other parts of URLs are trusted
}

// hopKey is the context key of a *hop.
type hopKey struct{}

// FromTrustedPeer reports whether a request that has passed an [Edge] came from a trusted peer.
func FromTrustedPeer(r *http.Request) bool { return hopOf(r.Context()) != nil }

func hopOf(ctx context.Context) *hop {
	h, _ := ctx.Value(hopKey{}).(*hop)
	return h
}

// forwardingFields are the fields that state the client of a request, including X-Real-IP,
// which many origins trust. The fields of untrusted peers are dropped.
func forwardingFields() []string {
	return []string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Proto", "X-Forwarded-Host", "X-Forwarded-Port", "X-Real-Ip"}
}

// requestIDHeader has the id of a request. A visitor must not choose the id by which an
// operator finds a request.
const requestIDHeader = "X-Request-Id"

// resolve determines the client of a request and stores it in r: RemoteAddr becomes the
// address of the client, and Host the requested host, if forwarded hosts are trusted. Forwarding
// fields that an untrusted peer may have written are removed, and so is its X-Request-Id. X-Forwarded-Proto, which may be part of a key, comes
// from trusted peers only. The error text is sent to the client.
func (t Trust) resolve(r *http.Request) (*http.Request, error) {
	peer, trusted := t.peer(r)
	if !trusted {
		delete(r.Header, requestIDHeader)
		for _, name := range forwardingFields() {
			delete(r.Header, name)
		}
		return r, nil
	}
	h, err := t.read(peer.Unmap().WithZone(""), r)
	if err != nil {
		return nil, err
	}
	_, named := r.Header["X-Real-Ip"]
	for _, name := range forwardingFields() {
		delete(r.Header, name)
	}
	if named {
		// A peer that does not set this field forwards the client's: replace it.
		r.Header["X-Real-Ip"] = []string{h.client.String()}
	}
	if h.scheme != "" {
		r.Header["X-Forwarded-Proto"] = []string{h.scheme}
	}
	if h.client != peer {
		// The port of a client behind proxies is unknown.
		r.RemoteAddr = net.JoinHostPort(h.client.String(), "0")
	}
	return r.WithContext(context.WithValue(r.Context(), hopKey{}, h)), nil
}

// peer returns the RemoteAddr of a request, and whether it is in one of the networks.
func (t Trust) peer(r *http.Request) (address netip.Addr, trusted bool) {
	if len(t.networks.prefixes) == 0 {
		return netip.Addr{}, false
	}
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	return at.Addr(), err == nil && t.Trusts(at.Addr())
}

// read reads the forwarding fields of a request from a trusted peer, from right to left:
// each proxy appends the address of its peer, so that the first untrusted address is the
// client, and members to its left may be forged by it. Forwarded (RFC 7239) is read only
// without X-Forwarded-For: a peer that writes only one of them forwards a forged value of
// the other.
func (t Trust) read(peer netip.Addr, r *http.Request) (*hop, error) {
	for _, name := range forwardingFields() {
		if n := fieldLength(r.Header[name]); n > maxForwarding {
			return nil, fmt.Errorf("field %s has %d bytes, more than %d", name, n, maxForwarding)
		}
	}
	var hops []forwardedElement // from the client's side
	switch {
	case len(r.Header["X-Forwarded-For"]) > 0:
		hops = fromLists(r.Header)
	case len(r.Header["Forwarded"]) > 0:
		var err error
		if hops, err = parseForwarded(r.Header["Forwarded"]); err != nil {
			return nil, err
		}
	default:
		hops = []forwardedElement{{scheme: lastOf(r.Header, "X-Forwarded-Proto"), host: lastOf(r.Header, "X-Forwarded-Host"), port: lastOf(r.Header, "X-Forwarded-Port")}}
	}
	if len(hops) > maxHops {
		return nil, fmt.Errorf("the request passed %d proxies, more than %d", len(hops), maxHops)
	}
	return t.walk(peer, hops, r)
}

// walk follows the hops from right to left while their addresses are trusted.
func (t Trust) walk(peer netip.Addr, hops []forwardedElement, r *http.Request) (*hop, error) {
	h := &hop{client: peer, urls: t.host}
	chain, host := []string{peer.String()}, ""
	for i := len(hops) - 1; i >= 0 && t.Trusts(h.client); i-- {
		e := hops[i]
		h.scheme, h.port, host = orElse(schemeOf(e.scheme), h.scheme), orElse(portOf(e.port), h.port), orElse(e.host, host)
		address, err := netip.ParseAddr(e.address)
		if err != nil {
			break // "unknown", an obfuscated name, or empty: take the last known address as the client
		}
		h.client = address.Unmap().WithZone("")
		chain = append(chain, h.client.String())
	}
	h.forwards = len(chain) > 1
	slices.Reverse(chain)
	h.chain = strings.Join(chain, ", ")
	if !t.host {
		h.port, h.unread = "", host
		return h, nil
	}
	if host == "" {
		return h, nil
	}
	if _, ok := canonical.Host(host); !ok {
		return nil, fmt.Errorf("forwarded host %.100q is not a host name", host)
	}
	r.Host = host
	return h, nil
}

// A forwardedElement is the statement of one proxy about its peer.
type forwardedElement struct{ address, scheme, host, port string }

// fromLists aligns the X-Forwarded fields at their ends: many proxies append to
// X-Forwarded-For but replace the other fields, whose single value is then the value of the last
// hop.
func fromLists(h http.Header) []forwardedElement {
	addresses := listOf(h["X-Forwarded-For"])
	schemes, hosts, ports := listOf(h["X-Forwarded-Proto"]), listOf(h["X-Forwarded-Host"]), listOf(h["X-Forwarded-Port"])
	hops := make([]forwardedElement, len(addresses))
	for i, address := range addresses {
		fromEnd := len(addresses) - 1 - i
		hops[i] = forwardedElement{
			address: withoutPort(address), scheme: atEnd(schemes, fromEnd), host: atEnd(hosts, fromEnd), port: atEnd(ports, fromEnd),
		}
	}
	return hops
}

// atEnd returns the member at an index from the end, empty if the list is shorter.
func atEnd(list []string, fromEnd int) string {
	if fromEnd >= len(list) {
		return ""
	}
	return list[len(list)-1-fromEnd]
}

func lastOf(h http.Header, name string) string { return atEnd(listOf(h[name]), 0) }

func listOf(lines []string) []string {
	var list []string
	for _, line := range lines {
		for member := range strings.SplitSeq(line, ",") {
			list = append(list, strings.TrimSpace(member))
		}
	}
	return list
}

// withoutPort removes the port from "192.0.2.1:4711" and "[2001:db8::1]:4711", and the
// brackets of an IPv6 address.
func withoutPort(address string) string {
	if ap, err := netip.ParseAddrPort(address); err == nil {
		return ap.Addr().String()
	}
	return strings.Trim(address, "[]")
}

// parseForwarded parses Forwarded fields (RFC 7239, section 4). Quoted strings may contain
// commas and semicolons. A malformed field is an error, because a client could have forged
// any part of it.
func parseForwarded(lines []string) ([]forwardedElement, error) {
	var hops []forwardedElement
	for _, line := range lines {
		var e forwardedElement
		for rest := line; ; {
			name, value, delimiter, tail, err := nextPair(rest)
			if err != nil {
				return nil, fmt.Errorf("malformed field Forwarded: %w", err)
			}
			switch strings.ToLower(name) {
			case "for":
				e.address = withoutPort(value)
			case "proto":
				e.scheme = value
			case "host":
				e.host = value
			}
			if rest = tail; delimiter == ';' {
				continue
			}
			hops, e = append(hops, e), forwardedElement{}
			if delimiter == 0 {
				break
			}
		}
	}
	return hops, nil
}

// nextPair parses one pair and the delimiter after it: ';', ',' or 0 at the end.
func nextPair(s string) (name, value string, delimiter byte, rest string, err error) {
	name, s, found := strings.Cut(strings.TrimLeft(s, " \t"), "=")
	if !found || name == "" || strings.ContainsAny(name, " \t\";,") {
		return "", "", 0, "", fmt.Errorf("expected name=value, found %.40q", name)
	}
	if strings.HasPrefix(s, `"`) {
		value, s, err = unquote(s[1:])
	} else {
		end := strings.IndexAny(s, ";, \t")
		if end < 0 {
			end = len(s)
		}
		value, s = s[:end], s[end:]
	}
	s = strings.TrimLeft(s, " \t")
	switch {
	case err != nil:
	case s == "":
	case s[0] == ';' || s[0] == ',':
		delimiter, rest = s[0], s[1:]
	default:
		err = fmt.Errorf("unexpected %.40q", s)
	}
	return name, value, delimiter, rest, err
}

// unquote parses a quoted-string (RFC 9110, section 5.6.4) after its opening quote.
func unquote(s string) (value, rest string, err error) {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], nil
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", fmt.Errorf("unterminated quoted string")
}

func schemeOf(s string) string {
	switch strings.ToLower(s) {
	case "http", "ws":
		return "http"
	case "https", "wss":
		return "https"
	}
	return ""
}

func portOf(s string) string {
	if s == "" || len(s) > 5 || strings.Trim(s, "0123456789") != "" {
		return ""
	}
	return s
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

func fieldLength(lines []string) int {
	n := 0
	for _, line := range lines {
		n += len(line)
	}
	return n
}
