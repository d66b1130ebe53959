package isr

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
)

// TestBodyPrefixes holds the cache to spec/vectors/partition-keys.json; what else is
// in it, package spec_test checks.
func TestBodyPrefixes(t *testing.T) {
	text, err := os.ReadFile("spec/vectors/partition-keys.json")
	if err != nil {
		t.Fatal(err)
	}
	var presets map[string][]struct {
		Name       string `json:"name"`
		PK         string `json:"pk"`
		BodyPrefix string `json:"body_prefix"`
	}
	if err := json.Unmarshal(text, &presets); err != nil {
		t.Fatal(err)
	}
	for preset, vectors := range presets {
		if len(vectors) == 0 {
			t.Errorf("%s: no vectors", preset)
		}
		for _, v := range vectors {
			if got := bodyPrefix(v.PK); got != v.BodyPrefix {
				t.Errorf("%s, %s: %s, expected %s", preset, v.Name, got, v.BodyPrefix)
			}
		}
	}
}

func TestCanonicalHost(t *testing.T) {
	for _, c := range []struct {
		host, want string // want is empty where there is none
	}{
		{"example.com", "example.com"},
		{"Example.COM", "example.com"},
		{"example.com:80", "example.com"},
		{"example.com:443", "example.com"},
		{"example.com:", "example.com"},
		{"example.com:8080", "example.com:8080"},
		{"127.0.0.1:3000", "127.0.0.1:3000"},
		{"[::1]", "[::1]"},
		{"[::1]:80", "[::1]"},
		{"[::1]:8080", "[::1]:8080"},
		{"", ""},
		{":80", ""},
		{"a b", ""},
		{"a/b", ""},
		{"user@example.com", ""},
		{"example.com:x", ""},
		{"example.com:80x", ""},
		{"example.com:-1", ""},
		{"example.com:80:80", ""},
		{"::1", ""},
		{"example.com.", "example.com"},
		{"Example.com.:8080", "example.com:8080"},
		{"Example.com:8080", "example.com:8080"},
		{"example.com..", ""},
		{".example.com", ""},
		{"a..b", ""},
		{".", ""},
		{"[", ""},
		{"[]", ""},
		{"[::1", ""},
		{"[::1]x", ""},
		{"[::1]:80:80", ""},
		{"[127.0.0.1]", ""},
		{"[fe80::1%25eth0]", ""},
		{"example.com:0", ""},
		{"example.com:65535", "example.com:65535"},
		{"example.com:65536", ""},
		{"example.com:999999", ""},
		{"example.com:08080", ""},
		{strings.Repeat("a", 261), ""},
	} {
		if got, ok := CanonicalHost(c.host); got != c.want || ok != (c.want != "") {
			t.Errorf("CanonicalHost(%q) = %q, %t; expected %q", c.host, got, ok, c.want)
		}
	}
}
