package gateway

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/facetheory/isr"
)

// trusted returns a Trust of 10.0.0.0/8 and fd00::/8.
func trusted(t *testing.T) Trust {
	t.Helper()
	trust, err := ParseTrust([]string{"10.0.0.0/8", "fd00::/8"})
	if err != nil {
		t.Fatal(err)
	}
	return trust
}

// resolved returns the result of Edge for a request from an address. 10.0.0.0/8 and fd00::/8 are
// trusted, also to forward the host.
func resolved(t *testing.T, remote string, header http.Header) (*http.Request, error) {
	t.Helper()
	return trusted(t).WithHost().resolve(incoming(remote, header))
}

func incoming(remote string, header http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://inner.example/", http.NoBody)
	r.RemoteAddr = remote
	for name, values := range header {
		r.Header[name] = values
	}
	return r
}

func TestForwardedFieldsOfTrustedPeers(t *testing.T) {
	const peer = "10.0.0.9:4000"
	for name, test := range map[string]struct {
		header http.Header
		remote string // "" if it stays the peer
		chain  string
		scheme string
		host   string
	}{
		"no header": {chain: "10.0.0.9"},
		"one hop":   {header: http.Header{"X-Forwarded-For": {"192.0.2.1"}}, remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.9"},
		"what the client claims does not count": {
			header: http.Header{"X-Forwarded-For": {"127.0.0.1, 10.6.6.6, 192.0.2.1"}}, remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.9",
		},
		"two trusted hops": {
			header: http.Header{"X-Forwarded-For": {"203.0.113.5, 192.0.2.1, 10.0.0.1"}}, remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.1, 10.0.0.9",
		},
		"several lines": {
			header: http.Header{"X-Forwarded-For": {"192.0.2.1", "10.0.0.1"}}, remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.1, 10.0.0.9",
		},
		"all trusted": {header: http.Header{"X-Forwarded-For": {"10.0.0.1, 10.0.0.2"}}, remote: "10.0.0.1:0", chain: "10.0.0.1, 10.0.0.2, 10.0.0.9"},
		"ports and brackets": {
			header: http.Header{"X-Forwarded-For": {"[2001:db8::1]:99, [fd00::2]"}}, remote: "[2001:db8::1]:0", chain: "2001:db8::1, fd00::2, 10.0.0.9",
		},
		"an entry that is no address ends the chain": {
			header: http.Header{"X-Forwarded-For": {"192.0.2.1, unknown, 10.0.0.1"}}, remote: "10.0.0.1:0", chain: "10.0.0.1, 10.0.0.9",
		},
		"scheme, host": {
			header: http.Header{"X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"Site.example"}},
			remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.9", scheme: "https", host: "Site.example",
		},
		"a scheme of the first trusted hop": {
			header: http.Header{"X-Forwarded-For": {"192.0.2.1, 10.0.0.1"}, "X-Forwarded-Proto": {"https, http"}},
			remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.1, 10.0.0.9", scheme: "https",
		},
		"a scheme that the client claims": {
			header: http.Header{"X-Forwarded-For": {"203.0.113.5, 192.0.2.1"}, "X-Forwarded-Proto": {"https, http"}},
			remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.9", scheme: "http",
		},
		"a scheme without addresses": {header: http.Header{"X-Forwarded-Proto": {"https"}}, chain: "10.0.0.9", scheme: "https"},
		"a scheme that is none":      {header: http.Header{"X-Forwarded-Proto": {"gopher"}}, chain: "10.0.0.9"},
		"Forwarded": {
			header: http.Header{"Forwarded": {`for=203.0.113.5, for="[2001:db8::1]:99";proto=https;host="site.example:8443"`, "FOR=10.0.0.1"}},
			remote: "[2001:db8::1]:0", chain: "2001:db8::1, 10.0.0.1, 10.0.0.9", scheme: "https", host: "site.example:8443",
		},
		"Forwarded beside X-Forwarded-For": {
			header: http.Header{"Forwarded": {"for=203.0.113.5"}, "X-Forwarded-For": {"192.0.2.1"}}, remote: "192.0.2.1:0", chain: "192.0.2.1, 10.0.0.9",
		},
		"a name instead of an address": {header: http.Header{"Forwarded": {`for="_hidden";proto=https`}}, chain: "10.0.0.9", scheme: "https"},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := resolved(t, peer, test.header)
			if err != nil {
				t.Fatal(err)
			}
			h := hopOf(r.Context())
			if h == nil || h.chain != test.chain || h.scheme != test.scheme {
				t.Errorf("%+v, want the chain %q and the scheme %q", h, test.chain, test.scheme)
			}
			if want := orElse(test.remote, peer); r.RemoteAddr != want {
				t.Errorf("RemoteAddr is %s, want %s", r.RemoteAddr, want)
			}
			if want := orElse(test.host, "inner.example"); r.Host != want {
				t.Errorf("Host is %s, want %s", r.Host, want)
			}
			if got := r.Header.Get("X-Forwarded-Proto"); got != test.scheme {
				t.Errorf("X-Forwarded-Proto is %q, want %q", got, test.scheme)
			}
			r, err = trusted(t).resolve(incoming(peer, test.header))
			if err != nil || r.Host != "inner.example" || r.RemoteAddr != orElse(test.remote, peer) {
				t.Errorf("without trust in forwarded hosts: %v, Host %s, RemoteAddr %s", err, r.Host, r.RemoteAddr)
			}
		})
	}
}

// A forwarded host that is not trusted has no effect, whatever it is: also the request is not refused.
func TestForwardedHostIsIgnored(t *testing.T) {
	for _, header := range []http.Header{
		{"X-Forwarded-Host": {"evil.example"}},
		{"X-Forwarded-Host": {"evil.example", "site.example"}, "X-Forwarded-For": {"192.0.2.1, 10.0.0.1"}},
		{"X-Forwarded-Host": {"a b"}, "X-Forwarded-For": {"192.0.2.1"}, "X-Forwarded-Port": {"8443"}},
		{"X-Forwarded-Port": {"8443"}},
		{"Forwarded": {"for=192.0.2.1;host=evil.example"}},
		{"Forwarded": {`for=192.0.2.1, for=10.0.0.1;host="evil.example:81"`}, "X-Forwarded-Host": {"evil.example"}},
	} {
		r, err := trusted(t).resolve(incoming("10.0.0.9:4000", header))
		if err != nil {
			t.Errorf("%v: %v", header, err)
			continue
		}
		if h := hopOf(r.Context()); r.Host != "inner.example" || h == nil || h.port != "" || h.scheme != "" {
			t.Errorf("%v: Host %s, %+v", header, r.Host, h)
		}
		for _, name := range forwardingFields() {
			if r.Header[name] != nil {
				t.Errorf("%v: %s is passed on as %q", header, name, r.Header[name])
			}
		}
	}
}

func TestForwardedFieldsOfUntrustedPeersAreDropped(t *testing.T) {
	for _, remote := range []string{"192.0.2.1:4000", "[2001:db8::1]:1", "@", ""} {
		r, err := resolved(t, remote, http.Header{
			"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Port": {"1"},
			"Forwarded": {"for=127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "X-Request-Id": {"1"}, "X-Other": {"kept"},
		})
		if err != nil || r.RemoteAddr != remote || r.Host != "inner.example" || hopOf(r.Context()) != nil {
			t.Errorf("from %s: %v, RemoteAddr %s, Host %s", remote, err, r.RemoteAddr, r.Host)
		}
		if len(r.Header) != 1 || r.Header.Get("X-Other") != "kept" {
			t.Errorf("from %s the header is %v", remote, r.Header)
		}
	}
}

func TestRequestIDOfTrustedPeerIsKept(t *testing.T) {
	r, err := resolved(t, "10.0.0.9:1", http.Header{"X-Request-Id": {"of-balancer"}})
	if err != nil || r.Header.Get("X-Request-Id") != "of-balancer" {
		t.Errorf("%v: the header is %v", err, r.Header)
	}
}

func TestMalformedForwardingFieldsAreRefused(t *testing.T) {
	for name, header := range map[string]http.Header{
		"too long":            {"X-Forwarded-For": {strings.Repeat("1", maxForwarding+1)}},
		"too many":            {"X-Forwarded-For": {strings.Repeat("10.0.0.1,", maxHops) + "10.0.0.1"}},
		"a host that is none": {"X-Forwarded-Host": {"a b"}},
		"an open quote":       {"Forwarded": {`for="192.0.2.1`}},
		"no pair":             {"Forwarded": {"192.0.2.1"}},
		"text behind a quote": {"Forwarded": {`for="192.0.2.1"x`}},
		"an empty element":    {"Forwarded": {"for=10.0.0.1,,for=10.0.0.2"}},
	} {
		if r, err := resolved(t, "10.0.0.9:1", header); err == nil {
			t.Errorf("%s: resolved as %s", name, r.RemoteAddr)
		}
	}
}

func TestParseTrust(t *testing.T) {
	trust, err := ParseTrust([]string{"loopback", "private", "203.0.113.7", "2001:db8:1::/48", "198.51.100.9/24"})
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{
		"127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "10.1.2.3": true, "172.31.0.1": true, "172.32.0.1": false,
		"192.168.0.1": true, "fd12::1": true, "203.0.113.7": true, "203.0.113.8": false, "2001:db8:1::9": true, "2001:db8:2::9": false, "198.51.100.1": true,
		"fe80::1%eth0": true,
	} {
		ap := addr(t, text)
		if got := trust.Trusts(ap); got != want {
			t.Errorf("%s is trusted: %t, want %t", text, got, want)
		}
	}
	for _, text := range []string{"", "10.0.0.0/33", "example.com", "10.0.0.0-10.0.0.9", "::ffff:10.0.0.0/104", "Private"} {
		if _, err := ParseTrust([]string{text}); err == nil {
			t.Errorf("%q is accepted", text)
		}
	}
}

// An explanation states that a forwarded host has no effect, and why.
func TestExplainForwardedHost(t *testing.T) {
	for _, tt := range []struct {
		trust Trust
		host  string
		use   isr.PartUse
	}{{trusted(t), "inner.example", isr.PartIgnored}, {trusted(t).WithHost(), "site.example", isr.PartObeyed}} {
		p, err := Prepare(incoming("10.0.0.9:1", http.Header{"X-Forwarded-Host": {"site.example"}}), tt.trust, nil)
		if err != nil || p.Request.Host != tt.host || len(p.Parts) != 1 || p.Parts[0].Use != tt.use {
			t.Errorf("the host %s, %+v, %v; want %s, %s", p.Request.Host, p.Parts, err, tt.host, tt.use)
		}
	}
}

// FuzzForwarded: whatever trusted peers pass on, the client is the last address that no trusted
// peer has, or the first of all, and what is claimed before it has no effect.
func FuzzForwarded(f *testing.F) {
	f.Add(`for="[2001:db8::1]:99";proto=https;host="a\"b", for=x`, "1.2.3.4, 5.6.7.8:9")
	f.Add(`for=10.1.1.1;proto=http, for="_x"`, "203.0.113.5, 10.0.0.1, fd00::2")
	f.Add(`For="[fe80::1%25eth0]", for=unknown`, "unknown,,10.0.0.1")
	f.Fuzz(func(t *testing.T, forwarded, list string) {
		for _, header := range []http.Header{{"Forwarded": {forwarded}}, {"X-Forwarded-For": {list}, "X-Forwarded-Proto": {forwarded}}} {
			r, err := resolved(t, "10.0.0.9:1", header)
			if err != nil {
				continue
			}
			h := hopOf(r.Context())
			chain := strings.Split(h.chain, ", ")
			if len(chain) > maxHops+1 || chain[len(chain)-1] != "10.0.0.9" || chain[0] != h.client.String() {
				t.Fatalf("the chain of %q is %q", header, h.chain)
			}
			trust, _ := ParseTrust([]string{"10.0.0.0/8", "fd00::/8"})
			for _, text := range chain[1:] {
				if !trust.Trusts(addr(t, text)) {
					t.Fatalf("the chain of %q passes the untrusted %s: %q", header, text, h.chain)
				}
			}
			if from, err := netip.ParseAddrPort(r.RemoteAddr); err != nil || from.Addr() != h.client {
				t.Fatalf("%q is from %s, want %s", header, r.RemoteAddr, h.client)
			}
			if h.scheme != "" && h.scheme != "http" && h.scheme != "https" {
				t.Fatalf("%q has the scheme %q", header, h.scheme)
			}
		}
		// What a client writes before its proxy appends its address has no effect.
		if len(list) < 1000 && strings.Count(list, ",") < maxHops-2 {
			r, err := resolved(t, "10.0.0.9:1", http.Header{"X-Forwarded-For": {list, "192.0.2.1"}})
			if err != nil || r.RemoteAddr != "192.0.2.1:0" {
				t.Fatalf("a client that claims %q is %s, %v", list, r.RemoteAddr, err)
			}
		}
	})
}

func addr(t *testing.T, text string) netip.Addr {
	t.Helper()
	a, err := netip.ParseAddr(text)
	if err != nil {
		t.Fatal(err)
	}
	return a
}
