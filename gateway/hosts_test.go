package gateway_test

import (
	"net"
	"slices"
	"testing"

	"github.com/facetheory/isr/gateway"
)

func TestHosts(t *testing.T) {
	hosts, err := gateway.ParseHosts([]string{"Example.com.", "*.shop.example", "other.example:8443", "192.0.2.7", "[2001:db8::1]"})
	if err != nil {
		t.Fatal(err)
	}
	hosts = hosts.WithListener(&net.TCPAddr{Port: 8080})
	for host, want := range map[string]bool{
		"example.com":           true,
		"example.com:8080":      true, // the listener's port
		"example.com:8443":      false,
		"www.example.com":       false,
		"shop.example":          false,
		"a.shop.example":        true,
		"b.a.shop.example":      true,
		"a.shop.example:8080":   true,
		".shop.example":         false,
		"evilshop.example":      false,
		"other.example":         false,
		"other.example:8443":    true,
		"192.0.2.7":             true,
		"[2001:db8::1]":         true,
		"[2001:db8::1]:8080":    true,
		"localhost":             false,
		"example.com.evil.test": false,
		"":                      false,
	} {
		if got := hosts.Serve(host); got != want {
			t.Errorf("%q is served: %t, want %t", host, got, want)
		}
	}
}

func TestInvalidHosts(t *testing.T) {
	for _, name := range []string{
		"", "http://example.com", "example.com/", "a b", "*.*.example.com", "a*.example.com", "**", "*.", "[", "::1",
		"example.com:99999", "example.com:0", "*.192.0.2.1", "exa_mple.com:x", "user@example.com",
	} {
		if hosts, err := gateway.ParseHosts([]string{name}); err == nil {
			t.Errorf("%q is accepted: %s", name, hosts)
		}
	}
	if _, err := gateway.ParseHosts(slices.Repeat([]string{"a.example"}, 10_001)); err == nil {
		t.Error("10,001 hosts are accepted")
	}
}

func TestLoopbackHosts(t *testing.T) {
	hosts := gateway.LoopbackHosts().WithListener(&net.TCPAddr{Port: 8080})
	for host, want := range map[string]bool{
		"localhost": true, "localhost:8080": true, "app.localhost": true, "127.0.0.1:8080": true, "127.1.2.3": true,
		"[::1]:8080": true, "[::ffff:127.0.0.1]": true, "localhost:8081": false, "example.com": false, "192.0.2.1": false,
		"localhost.example.com": false, "notlocalhost": false,
	} {
		if got := hosts.Serve(host); got != want {
			t.Errorf("%q is served: %t, want %t", host, got, want)
		}
	}
}

func TestAnyHost(t *testing.T) {
	hosts, err := gateway.ParseHosts([]string{"*"})
	if err != nil || !hosts.Serve("whatever.example:1") {
		t.Errorf("* does not serve every host: %v", err)
	}
}

// Serve is called for each hit.
func TestServeAllocatesNothing(t *testing.T) {
	names, err := gateway.ParseHosts([]string{"example.com", "*.shop.example"})
	if err != nil {
		t.Fatal(err)
	}
	listener := &net.TCPAddr{Port: 8080}
	for host, hosts := range map[string]gateway.Hosts{
		"example.com:8080":    names,
		"a.shop.example:8080": names,
		"127.0.0.1:8080":      gateway.LoopbackHosts(),
		"[::1]:8080":          gateway.LoopbackHosts(),
		"[::1]":               gateway.LoopbackHosts(),
		"localhost:8080":      gateway.LoopbackHosts(),
	} {
		hosts = hosts.WithListener(listener)
		if n := testing.AllocsPerRun(100, func() {
			if !hosts.Serve(host) {
				t.Errorf("%s is not served", host)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", host, n)
		}
	}
}
