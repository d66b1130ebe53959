package gateway_test

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"testing"

	"github.com/facetheory/isr/gateway"
)

func networks(t testing.TB, texts ...string) gateway.Networks {
	t.Helper()
	n, err := gateway.ParseNetworks(texts)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestNetworks(t *testing.T) {
	n := networks(t, "10.0.0.0/8", "10.1.0.0/16", "192.0.2.7", "::ffff:198.51.100.1", "2001:db8::/32", "fe80::/10", "203.0.113.9/24")
	for address, want := range map[string]string{
		"10.0.0.0": "10.0.0.0/8", "10.1.2.3": "10.0.0.0/8", "10.255.255.255": "10.0.0.0/8", "9.255.255.255": "", "11.0.0.0": "",
		"192.0.2.7": "192.0.2.7/32", "192.0.2.8": "", "192.0.2.6": "", "203.0.113.255": "203.0.113.0/24",
		"::ffff:10.1.2.3": "10.0.0.0/8", "::ffff:192.0.2.7": "192.0.2.7/32", "198.51.100.1": "198.51.100.1/32", "::ffff:a01:203": "10.0.0.0/8",
		"2001:db8::1": "2001:db8::/32", "2001:db9::": "", "::10.1.2.3": "", "fe80::1%eth0": "fe80::/10", "0.0.0.0": "", "::": "",
	} {
		p, ok := n.Find(netip.MustParseAddr(address))
		if got := map[bool]string{true: p.String()}[ok]; got != want {
			t.Errorf("%s is in %q, want %q", address, got, want)
		}
	}
	for _, text := range []string{"", "10.0.0.0/33", "10.0.0", "example.com", "::ffff:10.0.0.0/104", "fe80::1%eth0", "10.0.0.0/8 "} {
		if _, err := gateway.ParseNetworks([]string{text}); err == nil || !strings.Contains(err.Error(), "expected one like 10.0.0.0/8") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// Find gives what a look at each network gives.
func TestNetworksAtRandom(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	address := func() netip.Addr {
		return netip.AddrFrom4([4]byte{10, byte(random.IntN(3)), byte(random.IntN(256)), byte(random.IntN(256))})
	}
	for range 200 {
		var texts []string
		var prefixes []netip.Prefix
		for range random.IntN(20) {
			p := netip.PrefixFrom(address(), 12+random.IntN(21)).Masked()
			prefixes = append(prefixes, p)
			texts = append(texts, p.String())
		}
		n := networks(t, texts...)
		for range 200 {
			a, want := address(), false
			for _, p := range prefixes {
				want = want || p.Contains(a)
			}
			if _, got := n.Find(a); got != want {
				t.Fatalf("%s in %v: %v", a, texts, got)
			}
		}
	}
}

func TestReadNetworks(t *testing.T) {
	n, err := gateway.ReadNetworks(strings.NewReader("# office\n10.0.0.0/8 # all\n\n\t2001:db8::/32\r\nloopback\n192.0.2.1"))
	if err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]bool{"10.1.1.1": true, "2001:db8::1": true, "127.0.0.1": true, "192.0.2.1": true, "192.0.2.2": false} {
		if _, ok := n.Find(netip.MustParseAddr(address)); ok != want {
			t.Errorf("%s: %v", address, ok)
		}
	}
	for text, want := range map[string]string{
		"10.0.0.0/8\nexample.com\n":             `line 2: "example.com" is not a network`,
		strings.Repeat("x", 10_000):             "line 1: ",
		strings.Repeat("10.0.0.0/8\n", 100_001): "line 100001: there are more than 100000 networks",
	} {
		if _, err := gateway.ReadNetworks(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v", text, err)
		}
	}
}

func TestFindNetworkAllocates(t *testing.T) {
	n, address := many(t), netip.MustParseAddr("::ffff:10.1.2.3")
	if allocations := testing.AllocsPerRun(100, func() { n.Find(address) }); allocations > 0 {
		t.Errorf("Find allocates %v times", allocations)
	}
}

func many(t testing.TB) gateway.Networks {
	t.Helper()
	var text strings.Builder
	for i := range 100_000 {
		fmt.Fprintf(&text, "%d.%d.%d.0/25\n", 11+i>>16, i>>8&255, i&255)
	}
	n, err := gateway.ReadNetworks(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func BenchmarkFindNetwork(b *testing.B) {
	n, address := many(b), netip.MustParseAddr("11.77.3.9")
	for b.Loop() {
		n.Find(address)
	}
}
