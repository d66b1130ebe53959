package doctor

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// A Process is what a server knows of itself, or, if none runs, what one that is started here
// would have.
type Process struct {
	Running     bool
	Files       int64 // limit of open files; 0: not known
	OpenFiles   int64
	Connections int64 // that requests to all origins may need
	Memory      int64 // bytes of the page cache in memory
	MemoryNeed  int64 // bytes that a process with this cache may use, with garbage
	MemoryLimit int64 // bytes that the process may use; 0: not known
	Listeners   []Listener
	Requests    int64
	// Scheme is how trusted peers contradict the scheme of renders, and SchemeAdvice what to
	// change; empty if they do not.
	Scheme, SchemeAdvice string
	Peers                []Peer
}

// A Listener is a public address.
type Listener struct {
	Address  string
	Trusted  []string // networks whose forwarding fields are trusted
	Host     bool     // of these also the host
	Protocol bool     // trusted peers use the PROXY protocol
}

// A Peer is an address that requests came from.
type Peer struct {
	Address    string // empty for all others
	Trusted    bool
	Requests   int64 // in a sample
	Forwarding int64 // of these, with forwarding fields
	Fields     []string
}

const (
	// visitorFiles is the number of connections of visitors for which the limit of files is
	// judged; each is an open file.
	visitorFiles = 4096
	// baseFiles are open files of the program itself: the store, sockets, logs.
	baseFiles = 128
)

// Limits compares what the operating system allows a process with what it may need.
func Limits(p Process) Check {
	return Check{Name: "limits", Run: func(context.Context) []Finding {
		found := append(p.files(), p.memory()...)
		if len(found) > 0 {
			return found
		}
		return []Finding{{Severity: OK, What: fmt.Sprintf("%s, %s", known(p.Files, "%d open files", p.Files), known(p.MemoryLimit, "%s of memory for a page cache of %s", size(p.MemoryLimit), size(p.Memory)))}}
	}}
}

// known formats what is known if n is not zero.
func known(n int64, format string, args ...any) string {
	if n == 0 {
		return "limits that are not known"
	}
	return fmt.Sprintf(format, args...)
}

func (p Process) files() []Finding {
	const do = "raise it: LimitNOFILE=65536 (systemd), --ulimit nofile=65536:65536 (docker), or ulimit -n 65536 before the start"
	whose := "this shell allows"
	if p.Running {
		whose = "the server may have"
	}
	seen := []string{fmt.Sprintf("RLIMIT_NOFILE %d; origins may need %d connections (max_connections and max_renders)", p.Files, p.Connections)}
	switch {
	case p.Files == 0:
		return nil
	case p.OpenFiles*10 > p.Files*9:
		return []Finding{{Severity: Fault, What: fmt.Sprintf("%d of %d files are open: new connections are about to fail", p.OpenFiles, p.Files), Evidence: seen, Do: do}}
	case p.Files < p.Connections+baseFiles:
		return []Finding{{Severity: Fault, What: fmt.Sprintf("%s %d open files, fewer than the connections to the origins", whose, p.Files), Evidence: seen, Do: do}}
	case p.Files < p.Connections+baseFiles+visitorFiles:
		return []Finding{{Severity: Warning, What: fmt.Sprintf("%s %d open files, which leaves %d for visitors", whose, p.Files, p.Files-p.Connections-baseFiles), Evidence: seen, Do: do}}
	}
	return nil
}

func (p Process) memory() []Finding {
	if p.MemoryLimit == 0 || p.MemoryNeed <= p.MemoryLimit {
		return nil
	}
	f := Finding{
		Severity: Warning, What: fmt.Sprintf("the process may use %s of memory, but may need %s", size(p.MemoryLimit), size(p.MemoryNeed)),
		Evidence: []string{fmt.Sprintf("a page cache of %s, and %s for garbage and requests", size(p.Memory), size(p.MemoryNeed-p.Memory))},
		Do:       "raise the limit of the container, or set memory: " + wholeMiB(p.MemoryLimit*p.Memory/max(p.MemoryNeed, 1)) + " (--memory)",
	}
	if p.Memory >= p.MemoryLimit {
		f.Severity, f.What = Fault, fmt.Sprintf("the page cache of %s does not fit into %s of memory: the process will be killed", size(p.Memory), size(p.MemoryLimit))
	}
	return []Finding{f}
}

// wholeMiB formats a size for a configuration file, at least 16 MiB.
func wholeMiB(n int64) string { return fmt.Sprintf("%dMiB", max(n>>20, 16)) }

const (
	// enoughRequests is the size of a sample from which a conclusion is drawn.
	enoughRequests = 20
	// mostPeers bounds the addresses in the evidence: they may be addresses of visitors.
	mostPeers = 3
)

// Proxies compares the trusted networks with the peers that have sent requests.
func Proxies(p Process) Check {
	return Check{Name: "proxies", Run: func(context.Context) []Finding {
		found := slices.Concat(tooWide(p.Listeners), p.untrusted(), forwardedHosts(p.Listeners), p.scheme())
		if len(found) > 0 {
			return found
		}
		switch {
		case !p.Running:
			return []Finding{{Severity: Note, What: "no server runs, so that its peers are not known", Do: "start it, send requests as visitors do, and run isr doctor again"}}
		case p.Requests == 0:
			return []Finding{{Severity: Note, What: "there were no requests yet, so that the proxies are not known", Do: "send requests as visitors do, and run isr doctor again"}}
		}
		return []Finding{{Severity: OK, What: fmt.Sprintf("no untrusted proxy seen (requests: %d)", p.Requests)}}
	}}
}

// scheme finds trusted peers that contradict the scheme that renders state.
func (p Process) scheme() []Finding {
	if p.Scheme == "" {
		return nil
	}
	return []Finding{{Severity: Warning, What: p.Scheme, Do: p.SchemeAdvice}}
}

// tooWide finds trusted networks that have more than the machines of one operator.
func tooWide(listeners []Listener) (found []Finding) {
	for _, l := range listeners {
		for _, text := range l.Trusted {
			network, err := netip.ParsePrefix(text)
			if err != nil || network.Addr().IsPrivate() || network.Addr().IsLoopback() {
				continue // an address, or a name such as private
			}
			f := Finding{
				What: fmt.Sprintf("%s trusts %s, which anyone can rent an address in and then claim to be any client", l.Address, text),
				Do:   "name only the networks of your load balancer or CDN in trusted_proxies",
			}
			switch least := 8; {
			case network.Bits() == 0:
				f.Severity, f.What = Fault, fmt.Sprintf("%s trusts all addresses (%s): any client can claim to be another", l.Address, text)
			case network.Addr().Is4() && network.Bits() < least, network.Addr().Is6() && network.Bits() < 3*least:
				f.Severity = Warning
			default:
				continue
			}
			found = append(found, f)
		}
	}
	return found
}

// forwardedHosts finds listeners that take the host from a field which visitors can send.
func forwardedHosts(listeners []Listener) (found []Finding) {
	for _, l := range listeners {
		if l.Host {
			found = append(found, Finding{
				Severity: Note, What: l.Address + " takes the host from X-Forwarded-Host or Forwarded: a visitor chooses it if a trusted proxy passes the visitor's own field on",
				Do: "let isr doctor --url https://YOUR-SITE/ test it through the proxies; remove trust_forwarded_host if they send the Host of the visitor",
			})
		}
	}
	return found
}

// untrusted finds peers that look like proxies and are not trusted.
func (p Process) untrusted() (found []Finding) {
	var all, forwarding int64
	for _, peer := range p.Peers {
		all += peer.Requests
		if !peer.Trusted {
			forwarding += peer.Forwarding
		}
	}
	var proxies, visitors []Peer
	for _, peer := range p.Peers {
		switch address, err := netip.ParseAddr(peer.Address); {
		case peer.Trusted || peer.Forwarding == 0:
		case err == nil && (inside(address) || peer.Forwarding*10 >= all):
			proxies = append(proxies, peer)
		default:
			visitors = append(visitors, peer)
		}
	}
	switch {
	case len(proxies) > 0:
		found = append(found, Finding{
			Severity: Warning, What: "a proxy that is not trusted sends forwarding fields, which are dropped: all of its visitors count as one client",
			Evidence: seenPeers(proxies, all), Do: "if it is yours: trusted_proxies: [" + addressesOfPeers(proxies) + "] in listen of isr.yaml, or --trusted-proxy " + proxies[0].Address + ", or better the subnets of the load balancer",
		})
	case len(visitors) > 0:
		found = append(found, Finding{
			Severity: Note, What: fmt.Sprintf("%d of %d sampled requests had forwarding fields of peers that are not trusted; they were dropped", forwarding, all),
			Do: "nothing, if these are visitors; if a load balancer or CDN is in front, name its networks in trusted_proxies",
		})
	}
	if first := p.alone(all); first != nil && len(proxies) == 0 {
		found = append(found, Finding{
			Severity: Warning, What: "all requests come from one peer that is not trusted: limits per client and the log take it for the only client",
			Evidence: seenPeers([]Peer{*first}, all), Do: "if it is a proxy: let it send X-Forwarded-For, and set trusted_proxies: [" + first.Address + "] in listen of isr.yaml, or --trusted-proxy " + first.Address,
		})
	}
	return found
}

// alone returns the peer that sends all requests, unless it is trusted or on this machine.
func (p Process) alone(all int64) *Peer {
	if len(p.Peers) != 1 || all < enoughRequests || p.Peers[0].Trusted {
		return nil
	}
	if address, err := netip.ParseAddr(p.Peers[0].Address); err != nil || address.IsLoopback() {
		return nil
	}
	return &p.Peers[0]
}

// inside reports whether an address is not one of the Internet: a proxy rather than a visitor.
func inside(a netip.Addr) bool { return a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() }

func seenPeers(peers []Peer, all int64) (lines []string) {
	for i, p := range peers {
		if i == mostPeers {
			return append(lines, fmt.Sprintf("and %d more peers", len(peers)-i))
		}
		line := fmt.Sprintf("%s: %d of %d sampled requests", p.Address, p.Requests, all)
		if p.Forwarding > 0 {
			line += fmt.Sprintf(", %d of them with %s", p.Forwarding, strings.Join(p.Fields, ", "))
		}
		lines = append(lines, line)
	}
	return lines
}

func addressesOfPeers(peers []Peer) string {
	var all []string
	for _, p := range peers[:min(len(peers), mostPeers)] {
		all = append(all, p.Address)
	}
	return strings.Join(all, ", ")
}
