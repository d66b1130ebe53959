package admin

import (
	"fmt"
	"net/netip"
	"testing"
	"time"
)

// Any number of clients takes a bounded amount of memory.
func TestManyClients(t *testing.T) {
	a, now := newAttempts(), time.Now()
	for i := range maxClients + 100 {
		a.fail(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), now)
		if len(a.full) > maxClients {
			t.Fatalf("%d clients are remembered", len(a.full))
		}
	}
	for range wrongTokens {
		a.fail("192.0.2.1:1", now)
	}
	if wait := a.wait("192.0.2.1:2", now); wait != wrongTokenEvery {
		t.Errorf("a client that guesses waits %s", wait)
	}
	if wait := a.wait("192.0.2.2:2", now); wait != 0 {
		t.Errorf("another client waits %s", wait)
	}
	later := now.Add(time.Hour)
	a.forgetLocked(later)
	if len(a.full) != 0 {
		t.Errorf("%d clients are remembered an hour later", len(a.full))
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
