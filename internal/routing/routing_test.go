package routing

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

func table(t testing.TB, patterns ...string) *Table {
	t.Helper()
	table, err := New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

func TestFind(t *testing.T) {
	of := table(t, "/", "GET /blog/{slug}", "/account/", "/static/{path...}", "example.com/", "example.com:8443/shop",
		"GET example.com/blog/{slug}/edit", "/exact/{$}", "/a%20b/", "/both", "/both/", "/caf%C3%A9")
	for _, c := range []struct{ method, host, path, want string }{
		{"GET", "x.test", "/", "/"},
		{"GET", "x.test", "/blog/one", "GET /blog/{slug}"},
		{"HEAD", "x.test", "/blog/one", "GET /blog/{slug}"},
		{"POST", "x.test", "/blog/one", "/"},
		{"GET", "x.test", "/blog/one/", "/"},
		{"GET", "x.test", "/blog/one/two", "/"},
		{"GET", "x.test", "/blog/", "/"},
		{"GET", "x.test", "/account/", "/account/"},
		{"GET", "x.test", "/account", "/account/"},
		{"GET", "x.test", "/accounts", "/"},
		{"GET", "x.test", "/account/a/b", "/account/"},
		{"GET", "x.test", "/%61ccount/a", "/account/"},
		{"GET", "x.test", "/static/a/b", "/static/{path...}"},
		{"GET", "x.test", "/static", "/static/{path...}"},
		{"GET", "example.com", "/account/", "example.com/"}, // a host is more specific than a path
		{"GET", "example.com:8443", "/shop", "example.com:8443/shop"},
		{"GET", "example.com:8443", "/other", "example.com/"},
		{"GET", "example.com:1", "/shop", "example.com/"},
		{"GET", "example.com", "/blog/one/edit", "GET example.com/blog/{slug}/edit"},
		{"GET", "[::1]", "/blog/one", "GET /blog/{slug}"},
		{"GET", "x.test", "/exact/", "/exact/{$}"},
		{"GET", "x.test", "/exact/a", "/"},
		{"GET", "x.test", "/a%20b/c", "/a%20b/"},
		{"GET", "x.test", "/both", "/both"},
		{"GET", "x.test", "/both/", "/both/"},
		{"GET", "x.test", "/caf%c3%a9", "/caf%C3%A9"},
		{"OPTIONS", "x.test", "*", "/"},
		{"GET", "x.test", "/.well-known/a", "/"},
		{"GET", "x.test", "/static/https://x/../y", "/static/{path...}"}, // every reading leads there, or above it: see below
	} {
		i, err := of.Find(c.method, c.host, c.path)
		if c.path == "/static/https://x/../y" {
			// "/static/https:/y" at most: it cannot leave /static.
			if err != nil {
				t.Errorf("%s: %v", c.path, err)
			}
			continue
		}
		if err != nil || of.Pattern(i).String() != c.want {
			t.Errorf("%s %s%s: got %d, %v; expected %s", c.method, c.host, c.path, i, err, c.want)
		}
	}
}

// TestAmbiguous: a path that some server behind reads as one of another route is refused,
// however it is disguised.
func TestAmbiguous(t *testing.T) {
	of := table(t, "/", "/account/", "/blog/{slug}", "/img/")
	for _, path := range []string{
		"//account/", "/x/../account/", "/./account/", "/account/../x", "/x/%2e%2e/account/", "/x/.%2E/account/",
		"/account%2Fx", "/account%2fx", "/%2Faccount/", "/account%5Cx", "/account;x=1/", "/account;/x", "/account%3Bx/",
		"/x/..;/account/", "/x/..%3B/account/", "/x/..%2Faccount/", "/x%2F..%2Faccount", "/blog/a%2Fb", "/account%252Fx", "/x/%252E%252E/account/",
		"/account/..", "/img/../account/", "/img//../../account/x", "/account/..%2Fpublic", "//account/..%2F", "/x/..;/../account/..%2f", "/img/..",
		"///account", "/account/.//../x",
	} {
		if i, err := of.Find("GET", "x.test", path); !errors.Is(err, ErrAmbiguous) {
			t.Errorf("%s: got %d, %v; expected a refusal", path, i, err)
		}
	}
	for path, want := range map[string]string{
		"/img/https://x.test/a.png": "/img/", "/x//y": "/", "/x/./y": "/", "/x/../y": "/", "/x;v=1": "/", "/blog/x;v=1": "/blog/{slug}",
		"/account//x": "/account/", "/account/x%2Fy": "/account/", "/a%2Fb": "/", "/..": "/", "/account/./x": "/account/", "/100%25": "/",
	} {
		if i, err := of.Find("GET", "x.test", path); err != nil || of.Pattern(i).String() != want {
			t.Errorf("%s: got %d, %v; expected %s", path, i, err, want)
		}
	}
}

func TestFindNothing(t *testing.T) {
	of := table(t, "GET /a", "x.test/b")
	for path, want := range map[string]error{"/": ErrNone, "/b": ErrNone, "": ErrPath, "a": ErrPath, "/%zz": ErrPath, "/a\x80": ErrPath, "//a": ErrAmbiguous} {
		if i, err := of.Find("GET", "y.test", path); !errors.Is(err, want) {
			t.Errorf("%q: got %d, %v; expected %v", path, i, err, want)
		}
	}
	if i, err := of.Find("POST", "y.test", "/a"); !errors.Is(err, ErrNone) {
		t.Errorf("POST: got %d, %v", i, err)
	}
	if i, err := table(t, "/").Find("GET", "y.test", "not a path"); i != 0 || err != nil {
		t.Errorf("a lone / matches everything; got %d, %v", i, err)
	}
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct {
		patterns []string
		want     string
	}{
		{[]string{"blog"}, "host/path missing /"},
		{[]string{""}, "invalid pattern"},
		{[]string{"/{a}/{a}"}, "duplicate wildcard name"},
		{[]string{"/{a...}/b"}, "{...} wildcard not at end"},
		{[]string{"/b{a}"}, "bad wildcard segment"},
		{[]string{"/a//b"}, "is empty or a dot segment"},
		{[]string{"ex_am!ple/"}, "not a host name"},
		{[]string{"/%2e%2e/"}, "is empty or a dot segment"},
		{[]string{"/", "/a/", "/"}, "matches the same requests"},
		{[]string{"Example.com/", "example.com/"}, "matches the same requests"},
		{[]string{"/{a}/b", "/a/{b}"}, "neither is more specific"},
	} {
		_, err := New(c.patterns)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ".go:") {
			t.Errorf("%q: got %v; expected %q, without places of our source", c.patterns, err, c.want)
		}
	}
	var conflict *ConflictError
	if _, err := New([]string{"/x", "/{a}/b", "/y", "/a/{b}"}); !errors.As(err, &conflict) || conflict.First != 1 || conflict.Second != 3 {
		t.Errorf("got %v; expected a conflict of 1 and 3", err)
	}
}

func TestWildcards(t *testing.T) {
	for _, c := range []struct{ pattern, path, want string }{
		{"/blog/{slug}", "/blog/one", "map[slug:one]"},
		{"GET x.test/{a}/b/{c}", "/1/b/3", "map[a:1 c:3]"},
		{"/{a}/{rest...}", "/1/2/3", "map[a:1 rest:2/3]"},
		{"/{a}/", "/caf%C3%A9/x", "map[a:café]"},
		{"/static/{path...}", "/static", "map[path:]"},
		{"/", "/x", "map[]"},
	} {
		p, err := Parse(c.pattern)
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprint(p.Wildcards(c.path)); got != c.want {
			t.Errorf("%s in %s: got %s, expected %s", c.pattern, c.path, got, c.want)
		}
	}
	if p, _ := Parse("/{a}/x/{b...}"); !slices.Equal(p.Names(), []string{"a", "b"}) {
		t.Errorf("names: %q", p.Names())
	}
}

// TestLikeServeMux compares random tables with http.ServeMux.
func TestLikeServeMux(t *testing.T) {
	segments := []string{"a", "b", "c", "{x}", "{y}", "{r...}", "{$}", ""}
	compared := 0
	for seed := range uint64(3000) {
		rng := rand.New(rand.NewPCG(seed, 1))
		pick := func(list ...string) string { return list[rng.IntN(len(list))] }
		mux, patterns := http.NewServeMux(), []string(nil)
		for range 8 {
			pattern := pick("", "", "GET ", "POST ", "HEAD ") + pick("", "", "x.test", "y.test") + "/"
			for i, n := 0, rng.IntN(4); i < n; i++ {
				if pattern += segments[rng.IntN(len(segments))]; i+1 < n {
					pattern += "/"
				}
			}
			if !strings.Contains(pattern, "//") && register(mux, pattern) == nil {
				patterns = append(patterns, pattern)
			}
		}
		of := table(t, patterns...)
		if of.everything >= 0 {
			continue
		}
		for range 50 {
			method, host, path := pick("GET", "POST", "HEAD", "PUT"), pick("x.test", "y.test", "z.test", "x.test:81"), ""
			for range 1 + rng.IntN(4) {
				path += "/" + pick("a", "b", "c", "d")
			}
			path += pick("", "/")
			lookUp := func(path string) string {
				_, pattern := mux.Handler(httptest.NewRequest(method, "http://"+host+path, nil))
				return pattern
			}
			want, got := lookUp(path), ""
			if i, err := of.Find(method, host, path); err == nil {
				got = of.Pattern(i).String()
			}
			if got == want {
				compared++
				continue
			}
			// A pattern of a subtree also matches its root, where ServeMux redirects.
			if strings.HasSuffix(path, "/") || lookUp(path+"/") != got {
				t.Fatalf("seed %d: %s %s%s: got %q, ServeMux %q\npatterns %q", seed, method, host, path, got, want, patterns)
			}
		}
	}
	t.Log("compared", compared)
	if compared < 50_000 {
		t.Errorf("only %d comparisons", compared)
	}
}

func FuzzFind(f *testing.F) {
	of := table(f, "/", "/account/", "/blog/{slug}", "GET x.test/a/{r...}")
	f.Add("GET", "x.test", "/x/..;/account/%2F")
	f.Fuzz(func(t *testing.T, method, host, path string) {
		i, err := of.Find(method, host, path)
		if err == nil && (i < 0 || i > 3) {
			t.Fatalf("%d", i)
		}
		if err != nil && i != -1 {
			t.Fatalf("%d, %v", i, err)
		}
	})
}

// many returns patterns as of a large site.
func many(n int) []string {
	patterns := []string{"/"}
	for i := 1; i < n; i++ {
		patterns = append(patterns, []string{"GET /section%d/{slug}", "/area%d/", "/area%d/{a}/{b}/edit", "/static%d/{path...}"}[i%4])
		patterns[i] = fmt.Sprintf(patterns[i], i/4)
	}
	return patterns
}

func TestFindDoesNotAllocate(t *testing.T) {
	of := table(t, many(200)...)
	for _, path := range []string{"/", "/section7/a", "/area7/a/b/edit", "/unknown/a/b/c", "/static7/a/b/c/d"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = of.Find("GET", "example.com:8080", path) }); n != 0 {
			t.Errorf("%s: %v allocations", path, n)
		}
	}
}

func BenchmarkFind(b *testing.B) {
	for _, n := range []int{2, 200} {
		of := table(b, many(n)...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				_, _ = of.Find("GET", "example.com", "/area7/a/b/edit")
			}
		})
	}
}
