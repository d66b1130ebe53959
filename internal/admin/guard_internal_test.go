package admin

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// Each new client beyond the bound costs one that is known, the one whose latest wrong token is the oldest: no call looks at all
// clients.
func TestAttemptsForgetOneClient(t *testing.T) {
	a, now := newAttempts(), time.Now()
	remote := func(i int) string { return fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255) }
	for i := range maxClients {
		for range wrongTokens {
			a.fail(remote(i), now)
		}
	}
	a.fail(remote(0), now) // it is the latest now
	later := now.Add(time.Second)
	for i := range 100 {
		a.fail(remote(maxClients+i), later)
		if len(a.clients) != maxClients || a.order.Len() != maxClients {
			t.Fatalf("%d clients are known, %d in order", len(a.clients), a.order.Len())
		}
	}
	for i := range maxClients {
		forgotten := i >= 1 && i <= 100
		if wait := a.wait(remote(i), later); (wait == 0) != forgotten {
			t.Errorf("client %d waits for %v; forgotten: %v", i, wait, forgotten)
		}
	}
	if wait := a.wait(remote(maxClients+300), later); wait != 0 {
		t.Errorf("a client without a wrong token waits %s", wait)
	}
	// Clients that have all their attempts again are not looked for.
	a.fail(remote(maxClients+200), now.Add(time.Hour))
	if len(a.clients) != maxClients {
		t.Errorf("%d clients are known", len(a.clients))
	}
}

func TestClientOf(t *testing.T) {
	for remote, want := range map[string]netip.Prefix{
		"192.0.2.1:80":            netip.MustParsePrefix("192.0.2.1/32"),
		"[::ffff:192.0.2.1]:80":   netip.MustParsePrefix("192.0.2.1/32"),
		"[2001:db8::1]:80":        netip.MustParsePrefix("2001:db8::/64"),
		"[2001:db8::2:1%eth0]:80": netip.MustParsePrefix("2001:db8::/64"),
		"nothing":                 {},
	} {
		if got := clientOf(remote); got != want {
			t.Errorf("%s: %s; want %s", remote, got, want)
		}
	}
}
