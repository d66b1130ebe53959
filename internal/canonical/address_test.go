package canonical

import "testing"

// The answers for URLs come from the WHATWG URL parser, as `new URL(s)` gives them in a
// browser, except for the scheme, the port and the empty path, which keys do not have.
func TestAddress(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"http://h/Prés", "http://h/Pr%C3%A9s"},
		{"http://h/Pr%C3%A9s", "http://h/Pr%C3%A9s"},
		{"http://h/Pr%c3%a9s/é", "http://h/Pr%c3%a9s/%C3%A9"},
		{"h/Prés", "h/Pr%C3%A9s"},
		{"http://h/日本語?q=日本", "http://h/%E6%97%A5%E6%9C%AC%E8%AA%9E?q=日本"},
		{"http://h/a b", "http://h/a%20b"},
		{" \thttp://h/a\nb\r\n ", "http://h/ab"},
		{"http://h/100%", "http://h/100%25"},
		{"http://h/50%off", "http://h/50%25off"},
		{"http://h/a(1),b;c='x'!*:@&=+$", "http://h/a(1),b;c='x'!*:@&=+$"},
		{"http://h/<a>\"{b}`|^", "http://h/%3Ca%3E%22%7Bb%7D%60%7C%5E"},
		{`http://h\a\b`, "http://h/a/b"},
		{"http://h/a/../b/./c/..", "http://h/b/"},
		{"http://h/a/%2E%2e/%2e/b", "http://h/b"},
		{"http://h/../../b", "http://h/b"},
		{"http://h/a//../b", "http://h/a/b"},
		{"h/a/../b", "h/a/../b"}, // a key
		{"http://h/a#top", "http://h/a"},
		{"http://h/a?b#top", "http://h/a?b"},
		{"h/a#rsc=1", "h/a#rsc=1"}, // a key with a variant
		{"HTTPS://münchen.example:8443/ä", "HTTPS://xn--mnchen-3ya.example:8443/%C3%A4"},
		{"http://MÜNCHEN.example", "http://xn--mnchen-3ya.example"},
		{"münchen.example/a", "xn--mnchen-3ya.example/a"},
		{"http://straße.example/", "http://xn--strae-oqa.example/"},
		{"http://ex%61mple。com/", "http://example.com/"},
		{"http://xn--mnchen-3ya.example/", "http://xn--mnchen-3ya.example/"},
		{"http://[::1]:80/é", "http://[::1]:80/%C3%A9"},
		{"http://a\u2024\u00ad\ufffd/", "http://a\u2024\u00ad\ufffd/"},
		{"http://h%2Fa/b", "http://h%2Fa/b"},
		{"%0000000", "%0000000"},
		{"http://h/\xff", "http://h/%FF"},
		{"", ""},
		{"/é", "/%C3%A9"},
		{"ftp://h/é", "ftp://h/%C3%A9"},
	} {
		got := Address(c.text)
		if got != c.want {
			t.Errorf("Address(%q) = %q; expected %q", c.text, got, c.want)
		}
		if again := Address(got); again != got {
			t.Errorf("Address(%q) = %q, and that is %q", c.text, got, again)
		}
	}
}

func TestAddressPrefix(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"münchen.example/Pré", "xn--mnchen-3ya.example/Pr%C3%A9"},
		{"http://h/Pr%C3%A9", "http://h/Pr%C3%A9"},
		{"http://h/blog/..", "http://h/blog/.."},
		{"h/search?q=é&a=b", "h/search?q=%C3%A9&a=b"},
		{"h/a#b=1", "h/a#b=1"},
	} {
		if got := AddressPrefix(c.text); got != c.want {
			t.Errorf("AddressPrefix(%q) = %q; expected %q", c.text, got, c.want)
		}
	}
}

func FuzzAddress(f *testing.F) {
	for _, s := range []string{"http://h/Prés", "münchen.example:80/%", `http://h\..\%2e?a#b`, "[::1]/é", "h/%4", "\xff", "http://é@h/"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Address(s)
		if again := Address(got); again != got {
			t.Fatalf("%q is %q, and that is %q", s, got, again)
		}
		_, _, path, _ := splitAddress(got)
		if path != "" {
			if _, ok := Path(path); !ok {
				t.Fatalf("%q has the path %q, which no request has", s, path)
			}
		}
	})
}
