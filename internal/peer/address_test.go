package peer_test

import (
	"net"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/peer"
)

func TestResolveAddress(t *testing.T) {
	t.Parallel()
	// As in a task of Fargate: the loopback address, that of the metadata endpoint, that of the VPC; and IPv6.
	task := networks(t, "127.0.0.1/8", "169.254.172.2/22", "10.0.3.7/24", "fd00::5/64", "2001:db8::1/64")
	for _, c := range []struct {
		text string
		own  []net.Addr
		want string
	}{
		{":7946", task, "10.0.3.7:7946"},
		{"10.9.9.9:7946", task, "10.9.9.9:7946"},
		{"[fd00::5]:7946", nil, "[fd00::5]:7946"},
		{":7946", networks(t, "127.0.0.1/8", "203.0.113.5/24"), "no private IPv4 address; give the IP address too, like 10.0.0.5:7946"},
		{":7946", networks(t, "10.0.3.7/24", "172.17.0.1/16"), "several private addresses (10.0.3.7, 172.17.0.1); give the one"},
		{":", task, "like 10.0.0.5:7946"},
		{":0", task, "like 10.0.0.5:7946"},
		{":http", task, "like 10.0.0.5:7946"},
		{"0.0.0.0:7946", task, "that others can connect to"},
		{"web-1:7946", task, "an IP address and a port"},
	} {
		got, err := peer.ResolveAddress(c.text, c.own)
		if err != nil && !strings.Contains(err.Error(), c.want) || err == nil && got.String() != c.want {
			t.Errorf("%s: %v, %v; want %s", c.text, got, err, c.want)
		}
	}
}

func networks(t *testing.T, texts ...string) (all []net.Addr) {
	t.Helper()
	for _, text := range texts {
		ip, network, err := net.ParseCIDR(text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, &net.IPNet{IP: ip, Mask: network.Mask})
	}
	return all
}
