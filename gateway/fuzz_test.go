package gateway

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/canonical"
)

// FuzzHosts: a site serves the hosts that it names, and what ParseHosts prints can be parsed.
func FuzzHosts(f *testing.F) {
	for _, s := range []string{"example.com", "*.Example.com.", "*", "[::1]:8443", "a.*.b", "*.10.0.0.1", "*.", "example.com:80"} {
		f.Add(s, "www.example.com")
	}
	f.Fuzz(func(t *testing.T, name, host string) {
		hosts, err := ParseHosts([]string{name})
		if err != nil {
			return
		}
		shown := hosts.String()
		if again, err := ParseHosts([]string{shown}); !hosts.any && (err != nil || again.String() != shown) {
			t.Fatalf("%q is %q, and that is %q, %v", name, shown, again.String(), err)
		}
		suffix, wild := strings.CutPrefix(name, "*.")
		own, ok := canonical.Host(suffix)
		if !hosts.any && (!ok || hosts.Serve(own) == wild || !hosts.Serve("www."+own) == wild) {
			t.Fatalf("%q serves %q: %v, and www of it: %v", name, own, hosts.Serve(own), hosts.Serve("www."+own))
		}
		if c, ok := canonical.Host(host); ok && hosts.Serve(c) && !hosts.any && c != own && !(wild && strings.HasSuffix(c, "."+own)) {
			t.Fatalf("%q serves %q", name, c)
		}
	})
}

// FuzzVia: a request that this gateway has sent is refused, whatever Via it came with and other
// proxies add; one that it has not sent is not.
func FuzzVia(f *testing.F) {
	f.Add("1.1 proxy", `1.0 fred (a, "b)`)
	f.Add("", `1.1 isr-other`)
	f.Add(`1.1 "`, "2 x")
	f.Fuzz(func(t *testing.T, came, added string) {
		own := newPseudonym()
		next := own.refuseLoops(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
		status := func(via ...string) int {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header["Via"] = via
			w := httptest.NewRecorder()
			next.ServeHTTP(w, r)
			return w.Code
		}
		if got := status(came, added); got != http.StatusOK {
			t.Fatalf("Via %q, %q: %d", came, added, got)
		}
		out := http.Header{}
		if came != "" {
			out["Via"] = []string{came}
		}
		own.sign(out, 1, 1)
		if len(out["Via"]) != 1 || !strings.HasSuffix(out["Via"][0], "1.1 "+string(own)) {
			t.Fatalf("signed: %q", out)
		}
		if got := status(out["Via"][0], added); got != http.StatusLoopDetected {
			t.Fatalf("Via %q, then %q: %d, want 508", out["Via"], added, got)
		}
	})
}
