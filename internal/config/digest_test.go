package config_test

import (
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/config"
)

// Servers of one fleet have the same digest although their machines differ.
func TestDigestComparesServers(t *testing.T) {
	t.Parallel()
	const first = `
listen: [{address: 127.0.0.1:8080, trusted_proxies: [10.0.0.0/8]}]
hosts: [example.com]
draft: {secrets: [{file: /run/a}]}
origins: {shop: {url: http://127.0.0.1:3000}, blog: {url: http://127.0.0.1:3001}}
routes: [{match: /, origin: shop, revalidate: 60s}, {match: /blog/, origin: blog, headers: {X-Device: [a, b]}}]
`
	digest := func(text string, further ...string) string {
		t.Helper()
		f, err := config.Parse("isr.yaml", []byte(text), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		return f.Digest(further)
	}
	want := digest(first, "memory=1", "poll=2")
	for name, same := range map[string]string{
		"the same":       digest(first, "poll=2", "memory=1"),
		"another port":   digest(strings.ReplaceAll(first, "127.0.0.1:8080", "127.0.0.1:9090"), "memory=1", "poll=2"),
		"another secret": digest(strings.ReplaceAll(first, "/run/a", "/run/b"), "memory=1", "poll=2"),
	} {
		if same != want {
			t.Errorf("%s: digest %s, want %s", name, same, want)
		}
	}
	for name, other := range map[string]string{
		"another flag":     digest(first, "memory=2", "poll=2"),
		"another origin":   digest(strings.ReplaceAll(first, ":3001", ":3002"), "memory=1", "poll=2"),
		"another window":   digest(strings.ReplaceAll(first, "60s", "61s"), "memory=1", "poll=2"),
		"another class":    digest(strings.ReplaceAll(first, "[a, b]", "[a, c]"), "memory=1", "poll=2"),
		"another network":  digest(strings.ReplaceAll(first, "10.0.0.0/8", "10.0.0.0/9"), "memory=1", "poll=2"),
		"a redirect":       digest(first+"redirects: [{from: /old, to: /new}]\n", "memory=1", "poll=2"),
		"an error page":    digest(first+"error_pages: {404: missing.html}\n", "memory=1", "poll=2"),
		"a country header": digest(first+"country_header: CF-IPCountry\n", "memory=1", "poll=2"),
		"another listener": digest(strings.ReplaceAll(first, "listen: [", "listen: [{address: 127.0.0.1:7070}, "), "memory=1", "poll=2"),
	} {
		if other == want {
			t.Errorf("%s has the same digest", name)
		}
	}
	if len(want) != 12 {
		t.Errorf("digest %q does not have 12 digits", want)
	}
}
