package store

import (
	"encoding/json"
	"errors"
	"os"
	"testing"
)

// TestBodyPrefixes holds BodyPrefix to spec/vectors/partition-keys.json; what else is
// in it, package spec_test checks.
func TestBodyPrefixes(t *testing.T) {
	text, err := os.ReadFile("../spec/vectors/partition-keys.json")
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
			if got := BodyPrefix(v.PK); got != v.BodyPrefix {
				t.Errorf("%s, %s: %s, expected %s", preset, v.Name, got, v.BodyPrefix)
			}
		}
	}
}

func TestParseKey(t *testing.T) {
	tests := []struct{ in, want string }{
		{"https://Example.com", "example.com/"},
		{"http://example.com:80/a?b=2&a=1", "example.com/a?a=1&b=2"},
		{"example.com/a#rsc=1", "example.com/a#rsc=1"},
		{"127.0.0.1:8080/", "127.0.0.1:8080/"},
		{"[::1]:8080/%7e", "[::1]:8080/~"},
		{"/news", ""},
		{"", ""},
		{"http://exa mple.com/", ""},
		{"http://h/%zz", ""},
		{"http://h/?a=%zz", ""},
	}
	for _, tt := range tests {
		k, err := ParseKey("", tt.in)
		if (tt.want == "") != errors.Is(err, ErrInvalidKey) || k.Text != tt.want {
			t.Errorf("ParseKey(%q) = %q, %v; want %q", tt.in, k.Text, err, tt.want)
		}
	}
	if _, err := ParseKey("a#b", "h/"); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("a tenant with '#': %v", err)
	}
}

func TestPartitions(t *testing.T) {
	k := Key{Text: "example.com/"}
	const sum = "73d986e009065f182c10bcb6a45db3d6eda9498f8930654af2653f8a938cd801"
	if got := HashedPartition(k); got != "CACHE#"+sum {
		t.Errorf("hashed: %q", got)
	}
	k.Tenant = "acme"
	if got := HashedPartition(k); got != "TENANT#acme#CACHE#"+sum {
		t.Errorf("hashed with a tenant: %q", got)
	}
	if got := RawPartition(k); got != "TENANT#acme#CACHE#example.com/" {
		t.Errorf("raw: %q", got)
	}
}
