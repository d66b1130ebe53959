package gateway

import (
	"net"
	"slices"
	"testing"
)

func TestOnlyHost(t *testing.T) {
	for _, c := range []struct {
		names []string
		port  int
		want  []string
	}{
		{[]string{"Example.com"}, 8080, []string{"example.com", "example.com:8080"}},
		{[]string{"example.com"}, 443, []string{"example.com"}},
		{[]string{"a.example", "b.example"}, 8080, nil},
		{[]string{"*.example.com"}, 8080, nil},
		{[]string{"*"}, 8080, nil},
	} {
		hosts, err := ParseHosts(c.names)
		if err != nil {
			t.Fatal(err)
		}
		if got := hosts.WithListener(&net.TCPAddr{Port: c.port}).Only(); !slices.Equal(got, c.want) {
			t.Errorf("%q: %q, want %q", c.names, got, c.want)
		}
	}
	if got := LoopbackHosts().Only(); got != nil {
		t.Errorf("this machine: %q", got)
	}
}
