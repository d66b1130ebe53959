package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/facetheory/isr/gateway"
)

// A request is from a network only if its client is known: not if an untrusted proxy has
// forwarded it, whose address all visitors share.
func TestFromNetworks(t *testing.T) {
	networks, err := gateway.ParseTrust([]string{"10.0.0.0/8", "loopback"})
	if err != nil {
		t.Fatal(err)
	}
	trust, err := gateway.ParseTrust([]string{"192.0.2.1"})
	if err != nil {
		t.Fatal(err)
	}
	hosts, err := gateway.ParseHosts([]string{"example.com"})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		peer    string
		headers []string
		unnamed bool
		want    bool
	}{
		"direct":                           {"10.1.2.3:4711", nil, false, true},
		"IPv6 loopback":                    {"[::1]:4711", nil, false, true},
		"mapped":                           {"[::ffff:10.1.2.3]:4711", nil, false, true},
		"other network":                    {"203.0.113.9:4711", nil, false, false},
		"proxy on this machine":            {"127.0.0.1:4711", []string{"X-Forwarded-For", "203.0.113.9"}, false, false},
		"proxy that writes Forwarded":      {"127.0.0.1:4711", []string{"Forwarded", "for=203.0.113.9"}, false, false},
		"proxy that writes X-Real-IP":      {"127.0.0.1:4711", []string{"X-Real-Ip", "203.0.113.9"}, false, false},
		"trusted proxy, admitted client":   {"192.0.2.1:4711", []string{"X-Forwarded-For", "10.9.9.9"}, false, true},
		"trusted proxy, other client":      {"192.0.2.1:4711", []string{"X-Forwarded-For", "203.0.113.9"}, false, false},
		"trusted proxy, forged by client":  {"192.0.2.1:4711", []string{"X-Forwarded-For", "10.9.9.9, 203.0.113.9"}, false, false},
		"client names itself":              {"203.0.113.9:4711", []string{"X-Forwarded-For", "10.9.9.9"}, false, false},
		"PROXY protocol without a client":  {"10.1.2.3:4711", nil, true, false},
		"trusted proxy itself, not listed": {"192.0.2.1:4711", nil, false, false},
	} {
		for _, method := range []string{"PURGE", "PURGEKEYS"} {
			got, called := false, false
			h := gateway.Edge(gateway.EdgeConfig{Hosts: hosts, Trust: trust, Unnamed: func(*http.Request) bool { return c.unnamed }},
				http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, called = gateway.FromNetworks(r, networks), true }))
			r := httptest.NewRequestWithContext(t.Context(), method, "http://example.com/", http.NoBody)
			r.RemoteAddr = c.peer
			for i := 0; i < len(c.headers); i += 2 {
				r.Header.Add(c.headers[i], c.headers[i+1])
			}
			h.ServeHTTP(httptest.NewRecorder(), r)
			if !called || got != c.want {
				t.Errorf("%s, %s: %t, %t; want %t", method, name, called, got, c.want)
			}
		}
	}
}
