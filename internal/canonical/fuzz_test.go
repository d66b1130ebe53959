package canonical

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func FuzzHost(f *testing.F) {
	for _, s := range []string{"Example.COM.:443", "[2001:DB8::1]:8080", "[::1%25eth0]", "a..b", ".", "x:0080", "127.0.0.1:65535", "[::ffff:1.2.3.4]", "a_b-c.d", "x:", "x:65536", "\u212a.example"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Host(s)
		if !ok {
			return
		}
		if again, ok := Host(got); !ok || again != got {
			t.Fatalf("%q is %q, and that is %q, %v", s, got, again, ok)
		}
		if other, ok := Host(strings.ToUpper(s)); !ok || other != got {
			t.Fatalf("%q is %q, and in upper case %q, %v", s, got, other, ok)
		}
		// net/url reads it as a host, too, and as nothing else.
		u, err := url.Parse("http://" + s + "/")
		if err != nil || u.Host != s || u.User != nil || u.Path != "/" {
			t.Fatalf("%q is no host to net/url: %+v, %v", s, u, err)
		}
		if strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")) != (&url.URL{Host: got}).Hostname() {
			t.Fatalf("%q is %q, and to net/url %q", s, got, u.Hostname())
		}
	})
}

func FuzzPath(f *testing.F) {
	for _, s := range []string{"/a%2fb", "/%41%7e", "/a%", "/%zz", "//a/../b", "/\u00e4", "/a;b=c", "*", "/%25%32%66"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Path(s)
		if !ok {
			return
		}
		if again, ok := Path(got); !ok || again != got {
			t.Fatalf("%q is %q, and that is %q, %v", s, got, again, ok)
		}
		was, err := url.PathUnescape(s)
		is, err2 := url.PathUnescape(got)
		if err != nil || err2 != nil || was != is {
			t.Fatalf("%q is %q: decoded %q and %q, %v, %v", s, got, was, is, err, err2)
		}
		// The structure stays: an encoded slash does not become one.
		if strings.Count(s, "/") != strings.Count(got, "/") || strings.ContainsAny(got, "?# ") {
			t.Fatalf("%q is %q", s, got)
		}
	})
}

func FuzzQuery(f *testing.F) {
	for _, s := range []string{"b=2&a=1&a=0&utm_x=9", "a=%zz", "a;b=c", "a+b=c%20d", "&&=&a", "%61=1&a=2", "a=b=c"} {
		f.Add(s)
	}
	use := func(name string) ParameterUse {
		switch {
		case strings.HasPrefix(name, "utm_"):
			return Dropped
		case len(name) <= 2:
			return InKey
		}
		return Unknown
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := Query(s, use)
		if !ok {
			return
		}
		if again, ok := Query(got, use); !ok || again != got {
			t.Fatalf("%q is %q, and that is %q, %v", s, got, again, ok)
		}
		// net/url reads the same values, without those that are dropped.
		was, _ := url.ParseQuery(s)
		maps.DeleteFunc(was, func(name string, _ []string) bool { return use(name) == Dropped })
		is, err := url.ParseQuery(got)
		bad := strings.Contains(s, "%") && len(was) != len(is) // values of dropped parameters are not decoded
		if err != nil || !bad && !maps.EqualFunc(was, is, slices.Equal) {
			t.Fatalf("%q is %q: %v and %v, %v", s, got, was, is, err)
		}
	})
}

func FuzzClient(f *testing.F) {
	for _, s := range []string{"192.0.2.1:80", "[2001:db8::1%eth0]:80", "::ffff:1.2.3.4", "@", ""} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Client(s)
		if got.IsValid() && (got.Masked() != got || got.Addr().Is4() != (got.Bits() == 32) || got.Addr().Is4In6()) {
			t.Fatalf("%q is %s", s, got)
		}
		if ap, err := netip.ParseAddrPort(s); err == nil && !got.Contains(ap.Addr().Unmap().WithZone("")) {
			t.Fatalf("%q is %s", s, got)
		}
	})
}
