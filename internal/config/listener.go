package config

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// SchemeOf returns the scheme by which visitors reach a listener, "http" or "https". A listener without
// TLS has the public scheme, which a proxy in front gives it, unless another listener has TLS.
func (f *File) SchemeOf(l Listener) string {
	switch {
	case l.Encrypted():
		return "https"
	case slices.ContainsFunc(f.Listen, Listener.Encrypted):
		return "http"
	}
	return f.PublicScheme
}

// RedirectTo returns the index of the listener with TLS that visitors of listener i are redirected to;
// -1 if they are not. It is the one with port 443, else the first, of those that are reachable from where
// listener i is.
func (f *File) RedirectTo(i int) int {
	from, to := f.Listen[i], -1
	if from.Encrypted() || !from.RedirectHTTPS {
		return -1
	}
	for at, l := range f.Listen {
		if !l.Encrypted() || isLoopback(l.Address) && !isLoopback(from.Address) {
			continue
		}
		if _, port, _ := net.SplitHostPort(l.Address); port == "443" { // checked
			return at
		}
		if to < 0 {
			to = at
		}
	}
	return to
}

// BothSchemes reports whether visitors get pages by http and by https from the listeners, so that the
// scheme is in the cache keys.
func (f *File) BothSchemes() bool {
	for i, l := range f.Listen {
		if f.SchemeOf(l) != f.PublicScheme && f.RedirectTo(i) < 0 {
			return true
		}
	}
	return false
}

// CertificateHosts returns the names of the hosts, without ports, that ACME obtains
// certificates for; none if no listener uses ACME.
func (f *File) CertificateHosts() (names []string) {
	if !slices.ContainsFunc(f.Listen, func(l Listener) bool { return l.ACME }) {
		return nil
	}
	for _, host := range f.Hosts {
		if name := withoutPort(host); !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}

// withoutPort returns the canonical form of a host, without its port.
func withoutPort(host string) string {
	host, _ = canonical.Host(host) // checked
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return host
}

// AnswersChallenges reports whether the certificate authority may be asked to prove hosts at
// this listener, by HTTP-01 or, with ACME, by TLS-ALPN-01.
func (f *File) AnswersChallenges(l Listener) bool {
	switch chosen := f.ACME.Challenges; {
	case f.CertificateHosts() == nil:
		return false
	case l.ACME:
		return chosen == nil || slices.Contains(chosen, "tls-alpn")
	case l.Encrypted():
		return false
	case chosen == nil:
		_, port, _ := net.SplitHostPort(l.Address) // checked
		return port == "80"
	default:
		return slices.Contains(chosen, "http")
	}
}

func (f *File) validateACME(d *decoder) {
	at := slices.IndexFunc(f.Listen, func(l Listener) bool { return l.ACME })
	switch {
	case at < 0 && d.inFile("acme"):
		d.failAt("acme", "has no effect: no listener uses it; add acme: true to one, like {address: \":443\", acme: true}")
		return
	case at < 0:
		return
	case !d.inFile("acme"):
		d.failAt(fmt.Sprintf("listen[%d].acme", at), "needs the top-level acme, like\nacme: {email: ops@example.com, agree: true}")
		return
	}
	a := f.ACME
	if !a.Agree {
		d.failAt("acme.agree", "must be true: certificates are requested in your name, under the terms of service of the certificate authority, which you have to read and accept; add agree: true")
	}
	if !strings.HasPrefix(a.Directory, "https://") {
		d.failAt("acme.directory", "must begin with https://; ca_file is for an authority with roots of its own")
	}
	if a.Storage == "" && f.Store.Table != "" {
		d.failAt("acme.storage", "is missing, and required with store.table: give a folder that all servers share, else each of them requests certificates of its own, and they fail each other's challenges")
	}
	if x := a.ExternalAccount; (x.KeyID == "") != x.HMACKey.IsZero() {
		d.failAt("acme.external_account", "needs both key_id and hmac_key, or none")
	}
	f.validateChallenges(d)
	f.validateCertificateHosts(d, at)
}

// OldestVersion returns the oldest version of TLS that is accepted, as crypto/tls has it.
func (p TLSPolicy) OldestVersion() uint16 {
	if p.MinVersion == "1.3" {
		return tls.VersionTLS13
	}
	return tls.VersionTLS12
}

// Groups returns the key exchanges that are accepted, as crypto/tls has them; nil for its own.
func (p TLSPolicy) Groups() (all []tls.CurveID) {
	ids := map[string]tls.CurveID{
		"X25519MLKEM768": tls.X25519MLKEM768, "SecP256r1MLKEM768": tls.SecP256r1MLKEM768, "SecP384r1MLKEM1024": tls.SecP384r1MLKEM1024,
		"X25519": tls.X25519, "P-256": tls.CurveP256, "P-384": tls.CurveP384, "P-521": tls.CurveP521,
	}
	for _, name := range p.Curves {
		all = append(all, ids[name])
	}
	return all
}

func (l Listener) validateTLSPolicy(d *decoder, at string) {
	policy := l.TLSPolicy
	switch {
	case d.inFile(at) && !l.Encrypted():
		d.failAt(at, "has no effect: this listener has neither tls nor acme; add one of them, or remove tls_policy")
	case policy.Curves != nil && len(policy.Curves) == 0:
		d.failAt(at+".curves", "is empty; remove it, or give [X25519MLKEM768, X25519, P-256]")
	case policy.MinVersion != "1.3" && len(policy.Curves) > 0 && !slices.ContainsFunc(policy.Curves, func(c string) bool { return !strings.Contains(c, "MLKEM") }):
		d.failAt(at+".curves", "has none that TLS 1.2 knows, so that its handshakes would fail; add X25519, or set min_version: \"1.3\"")
	}
}

func (l Listener) validateHTTP3(d *decoder, at string) {
	switch {
	case l.HTTP3Port != 0 && !l.HTTP3:
		d.failAt(at+".http3_port", "has no effect without http3: true")
	case !l.HTTP3:
	case !l.Encrypted():
		d.failAt(at+".http3", "needs TLS, without which there is no HTTP/3; add tls or acme, or remove http3")
	case l.ProxyProtocol:
		d.failAt(at+".http3", "and proxy_protocol exclude each other: no proxy sends the PROXY protocol over QUIC; give visitors of HTTP/3 a listener of their own, or remove http3")
	}
}

func (f *File) validateChallenges(d *decoder) {
	chosen := f.ACME.Challenges
	plain := slices.ContainsFunc(f.Listen, func(l Listener) bool { return !l.Encrypted() })
	switch {
	case chosen != nil && len(chosen) == 0:
		d.failAt("acme.challenges", "is empty; remove it, or give tls-alpn or http")
	case slices.Contains(chosen, "http") && !plain:
		d.failAt("acme.challenges", "http needs a listener without TLS, which port 80 of the hosts reaches; add {address: \":80\"} to listen")
	}
}

func (f *File) validateCertificateHosts(d *decoder, listener int) {
	if len(f.Hosts) == 0 {
		d.failAt(fmt.Sprintf("listen[%d].acme", listener), "needs hosts, for each of which a certificate is obtained; add hosts: [example.com]")
	}
	for _, host := range f.Hosts {
		_, addressErr := netip.ParseAddr(strings.Trim(withoutPort(host), "[]"))
		switch {
		case strings.HasPrefix(host, "*"):
			d.failAt("hosts", "%s cannot be used with acme: a certificate is obtained for each name before it is requested, since visitors could make the server request any number of them otherwise; list the names, or use tls with the files of a wildcard certificate", host)
		case addressErr == nil:
			d.failAt("hosts", "%s is an address, and acme obtains certificates for names; remove it, or use tls with files", host)
		}
	}
}
