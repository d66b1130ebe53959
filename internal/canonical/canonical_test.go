package canonical

import (
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
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
		if got, ok := Host(c.host); got != c.want || ok != (c.want != "") {
			t.Errorf("Host(%q) = %q, %t; expected %q", c.host, got, ok, c.want)
		}
	}
}
