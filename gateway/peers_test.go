package gateway_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/facetheory/isr/gateway"
)

// Peers are counted with the forwarding fields that they send, before these are dropped.
func TestPeersAreCounted(t *testing.T) {
	t.Parallel()
	var peers gateway.Peers
	request := edgeOfPeers(t, &peers)
	request("10.0.0.1:1", "X-Forwarded-For", "X-Forwarded-Proto")
	request("[::ffff:10.0.0.1]:2", "X-Forwarded-For")
	request("192.0.2.1:3")
	request("192.0.2.1:4", "X-Real-Ip")
	request("no address")
	s := peers.Sample()
	want := []string{
		"10.0.0.1 true 2 2 [X-Forwarded-For X-Forwarded-Proto]",
		"192.0.2.1 false 2 1 [X-Real-Ip]",
	}
	if got := texts(s.Peers); !slices.Equal(got, want) || s.Requests != 5 || s.Sampled != 4 {
		t.Errorf("got %+v, want %q", s, want)
	}
}

// The sample is bounded, whatever clients do.
func TestPeersAreBounded(t *testing.T) {
	t.Parallel()
	var peers gateway.Peers
	request := edgeOfPeers(t, &peers)
	const n = 64 * 200
	for i := range n {
		request(fmt.Sprintf("192.0.%d.%d:1", i/256, i%256), "X-Forwarded-For")
	}
	s := peers.Sample()
	if len(s.Peers) != 64 || s.Requests != n || s.Sampled != 256+(n-256)/128 || s.Others.Requests != s.Sampled-64 || s.Others.Forwarding != s.Others.Requests {
		t.Errorf("%d peers, %d of %d requests, others %+v", len(s.Peers), s.Sampled, s.Requests, s.Others)
	}
}

func TestPeersOfHitsDoNotAllocate(t *testing.T) {
	var peers gateway.Peers
	edge := gateway.Edge(gateway.EdgeConfig{Hosts: anyHost(t), Peers: &peers}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
	serve := func() { edge.ServeHTTP(w, r) }
	serve()
	if n := testing.AllocsPerRun(1000, serve); n != 0 {
		t.Errorf("%v allocations per request", n)
	}
	if s := peers.Sample(); len(s.Peers) != 1 || s.Sampled < 64 {
		t.Errorf("%+v", s)
	}
}

// edgeOfPeers returns a function that sends a request with forwarding fields to an edge that
// trusts 10.0.0.0/8.
func edgeOfPeers(t *testing.T, peers *gateway.Peers) func(peer string, fields ...string) {
	trust, err := gateway.ParseTrust([]string{"10.0.0.0/8"})
	if err != nil {
		t.Fatal(err)
	}
	edge := gateway.Edge(gateway.EdgeConfig{Hosts: anyHost(t), Trust: trust, Peers: peers}, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	return func(peer string, fields ...string) {
		r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
		r.RemoteAddr = peer
		for _, name := range fields {
			r.Header.Set(name, "198.51.100.7")
		}
		edge.ServeHTTP(httptest.NewRecorder(), r)
	}
}

func texts(peers []gateway.Peer) (all []string) {
	for _, p := range peers {
		all = append(all, fmt.Sprint(p.Address, p.Trusted, p.Requests, p.Forwarding, p.Fields))
	}
	return all
}

func anyHost(t *testing.T) gateway.Hosts {
	t.Helper()
	hosts, err := gateway.ParseHosts([]string{"*"})
	if err != nil {
		t.Fatal(err)
	}
	return hosts
}
