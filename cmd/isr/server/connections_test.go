package server

import (
	"log/slog"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

// Descriptors are reserved, and a client has a part of the others unless another limit is given.
func TestConnectionLimits(t *testing.T) {
	for _, tt := range []struct {
		files int64
		given int
		want  string
	}{
		{0, 0, "files=0 visitors=0 client=1024"},
		{3, 0, "files=3 visitors=2 client=1"},
		{1024, 0, "files=1024 visitors=512 client=128"},
		{1024, 400, "files=1024 visitors=512 client=400"},
		{20000, 0, "files=20000 visitors=15904 client=1024"},
		{1 << 20, 5000, "files=1048576 visitors=1044480 client=5000"},
	} {
		var log strings.Builder
		connections(tt.files, tt.given, nil, slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug})))
		if got := strings.TrimSpace(log.String()); !strings.HasSuffix(got, tt.want) {
			t.Errorf("got %s, expected %s", got, tt.want)
		}
	}
}

// The connections of trusted proxies have no limit, connections of others count for their networks.
func TestPeerOf(t *testing.T) {
	peer := peerOf(config.Listener{TrustedProxies: []string{"10.0.0.0/8"}})
	for address, want := range map[string]string{
		"10.1.2.3": "10.1.2.3/32 false", "::ffff:10.1.2.3": "10.1.2.3/32 false", "192.0.2.1": "192.0.2.1/32 true", "2001:db8::1:2": "2001:db8::/64 true",
	} {
		client, limited := peer(net.TCPAddrFromAddrPort(netip.AddrPortFrom(netip.MustParseAddr(address), 1)))
		got := client.String() + " false"
		if limited {
			got = client.String() + " true"
		}
		if got != want {
			t.Errorf("%s: %s, expected %s", address, got, want)
		}
	}
}
