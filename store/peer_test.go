package store_test

import (
	"net/netip"
	"testing"

	"github.com/facetheory/isr/store"
)

func TestPeerAddresses(t *testing.T) {
	t.Parallel()
	for _, valid := range []string{"10.0.0.5:7946", "127.0.0.1:1", "[fd00::5]:7946", "192.0.2.1:65535"} {
		at, err := store.ParsePeerAddress(valid)
		if err != nil || at != netip.MustParseAddrPort(valid) {
			t.Errorf("%s: %v, %v", valid, at, err)
		}
		if got := (store.Lock{Owner: store.OwnerWithPeer("web-1:77", at)}).Peer(); got != at {
			t.Errorf("the owner with %s has the peer %v", valid, got)
		}
	}
	for _, invalid := range []string{
		"", "10.0.0.5", "10.0.0.5:0", "10.0.0.5:99999", "web-1:7946", "localhost:80", "0.0.0.0:80", "[::]:80", "169.254.169.254:80",
		"[fe80::1]:80", "[fe80::1%eth0]:80", "224.0.0.1:80", "255.255.255.255:80", "[::ffff:10.0.0.5]:80", "010.0.0.5:80", "10.0.0.5:080",
		"10.0.0.5:80/path", "user@10.0.0.5:80", "[FD00::5]:80",
	} {
		if at, err := store.ParsePeerAddress(invalid); err == nil || at.IsValid() {
			t.Errorf("%q is parsed as %v", invalid, at)
		}
		if got := (store.Lock{Owner: "web-1:77 peer=" + invalid}).Peer(); got.IsValid() {
			t.Errorf("the owner with %q has the peer %v", invalid, got)
		}
	}
	for _, owner := range []string{"", "web-1:77", "web-1:77peer=10.0.0.5:7946", "10.0.0.5:7946"} {
		if got := (store.Lock{Owner: owner}).Peer(); got.IsValid() {
			t.Errorf("the owner %q has the peer %v", owner, got)
		}
	}
}
