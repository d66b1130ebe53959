package redirect_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/facetheory/isr/internal/redirect"
)

func served(host string) bool { return host == "example.com" || host == "www.example.com" }

func newTable(t testing.TB, patterns, exact []redirect.Rule) *redirect.Table {
	t.Helper()
	table, err := redirect.New(patterns, exact, served)
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// ask returns the request for a target as a server has parsed it.
func ask(t testing.TB, target string) *http.Request {
	t.Helper()
	return httptest.NewRequest(http.MethodGet, target, http.NoBody)
}

func TestFind(t *testing.T) {
	table := newTable(t, []redirect.Rule{
		{From: "/blog/{slug}", To: "/posts/{slug}", Status: 301},
		{From: "/blog/special", To: "/special?from=blog#top", Status: 302},
		{From: "GET /drop", To: "/dropped", Status: 308, Drop: true},
		{From: "www.example.com/{path...}", To: "https://example.com/{path}", Status: 308},
		{From: "/search/{q}", To: "/find?q={q}", Status: 307},
		{From: "/up/{path...}", To: "/{path}", Status: 301},
	}, []redirect.Rule{
		{From: "/old.html", To: "/new", Status: 301},
		{From: "https://example.com/caf%c3%a9", To: "/cafe", Status: 301},
		{From: "/blog/one", To: "/1", Status: 301},
	})
	for target, want := range map[string]string{
		"http://example.com/blog/two?page=2":   "301 /posts/two?page=2",
		"http://example.com/blog/one":          "301 /1",
		"http://example.com/blog/special?x=1":  "302 /special?from=blog&x=1#top",
		"http://example.com/drop?x=1":          "308 /dropped",
		"http://www.example.com/a/b%20c?d":     "308 https://example.com/a/b%20c?d",
		"http://www.example.com:8080/":         "308 https://example.com/",
		"http://example.com/search/a%26b+c%23": "307 /find?q=a%26b%2Bc%23",
		"http://example.com/old.html?a=b":      "301 /new?a=b",
		"http://example.com:8080/old.html":     "301 /new",
		"http://example.com/%6fld.html":        "301 /new",
		"http://example.com/caf%C3%A9":         "301 /cafe",
		"http://other.test/caf%C3%A9":          "",
		"http://example.com/old.html/":         "",
		"http://example.com/":                  "",
		"http://example.com/blog/a/b":          "",
	} {
		r := ask(t, target)
		to, ok := table.Find(r)
		got := ""
		if ok {
			got = fmt.Sprintf("%d %s", to.Status, to.Location)
		}
		if got != want || table.Has(r) != ok {
			t.Errorf("%s: got %q; expected %q", target, got, want)
		}
	}
	if to, ok := (*redirect.Table)(nil).Find(ask(t, "http://example.com/")); ok {
		t.Errorf("a table without rules redirects to %v", to)
	}
}

// attacks are requests of an attacker, who wants a visitor to arrive at evil.example, or wants a second header.
func attacks() []string {
	var all []string
	for _, tail := range []string{
		"/evil.example", "//evil.example", `\evil.example`, `/\evil.example`, "%2F%2Fevil.example", "%5C%5Cevil.example", "%2fevil.example",
		"@evil.example", "%40evil.example", ".evil.example", "..//evil.example", "%2e%2e//evil.example", "x/..//evil.example", "a%0d%0aSet-Cookie:%20a=b",
		"%0d%0a%0d%0a<script>", "http://evil.example", "http:%2F%2Fevil.example", "%09//evil.example", "javascript:alert(1)", "%00//evil.example",
		"?//evil.example", "?x=%0d%0aSet-Cookie:a", "#@evil.example", "%E2%80%AE//evil.example", ";//evil.example",
	} {
		for _, path := range []string{"/up/", "/one/", "/in/", "/query/", "/whole/"} {
			all = append(all, path+tail)
		}
	}
	return all
}

// TestAttacks: no request leads to a host that is not in a rule, or ends a line.
func TestAttacks(t *testing.T) {
	table := newTable(t, []redirect.Rule{
		{From: "/up/{path...}", To: "/{path}", Status: 301},
		{From: "/one/{slug}", To: "/{slug}", Status: 301},
		{From: "/in/{path...}", To: "https://example.com/{path}", Status: 301},
		{From: "/query/{path...}", To: "/q?next={path}", Status: 301},
		{From: "/whole/{path...}", To: "http://www.example.com/x{path}", Status: 301},
	}, nil)
	base := &url.URL{Scheme: "https", Host: "example.com", Path: "/up/x"}
	for _, path := range attacks() {
		r := ask(t, "http://example.com/")
		u, err := url.ParseRequestURI(path)
		if err != nil {
			continue // no server passes it on
		}
		r.URL.Path, r.URL.RawPath, r.URL.RawQuery = u.Path, u.RawPath, u.RawQuery
		to, ok := table.Find(r)
		if !ok {
			continue
		}
		for i := range len(to.Location) {
			if c := to.Location[i]; c <= ' ' || c >= 0x7f || c == '\\' {
				t.Errorf("%q: the location %q has the byte %#x", path, to.Location, c)
			}
		}
		location, err := base.Parse(to.Location)
		if err != nil || location.Host != "example.com" && location.Host != "www.example.com" || location.User != nil {
			t.Errorf("%q leads to %v, %v (%q)", path, location, err, to.Location)
		}
		if strings.HasPrefix(to.Location, "//") {
			t.Errorf("%q: the location %q begins with a host", path, to.Location)
		}
	}
}

// FuzzFind: whatever a visitor asks for, a redirect stays on the hosts of the rules, and is one line.
func FuzzFind(f *testing.F) {
	for _, path := range attacks() {
		f.Add(path)
	}
	table := newTable(f, []redirect.Rule{
		{From: "/up/{path...}", To: "/{path}", Status: 301},
		{From: "/one/{slug}", To: "/{slug}", Status: 301},
		{From: "/in/{path...}", To: "https://example.com/{path}", Status: 301},
		{From: "/query/{path...}", To: "/q?next={path}", Status: 301},
	}, []redirect.Rule{{From: "/exact", To: "/a", Status: 301}})
	base := &url.URL{Scheme: "https", Host: "example.com", Path: "/"}
	f.Fuzz(func(t *testing.T, path string) {
		u, err := url.ParseRequestURI(path)
		if err != nil {
			return
		}
		r := ask(t, "http://example.com/")
		r.URL = u
		to, ok := table.Find(r)
		if ok != table.Has(r) {
			t.Errorf("Has and Find differ")
		}
		if !ok {
			return
		}
		location, err := base.Parse(to.Location)
		if err != nil || location.Host != "example.com" || location.User != nil || strings.ContainsFunc(to.Location, func(c rune) bool { return c <= ' ' || c >= 0x7f }) {
			t.Errorf("%q leads to %q", path, to.Location)
		}
	})
}

func TestNewRefuses(t *testing.T) {
	for _, c := range []struct{ from, to, want string }{
		{"/a", "b", "neither a path"},
		{"/a", "//evil.example/", "begins with //"},
		{"/a", "ftp://example.com/", "neither a path"},
		{"/a", "javascript:alert(1)", "neither a path"},
		{"/{host}", "https://{host}/", "is not a host name"},
		{"/{host}", "https://example.com{host}/", "is not a host name"},
		{"/{a}", "https://user@example.com/{a}", "is not a host name"},
		{"/{a}", "/{b}", "no wildcard {b}"},
		{"/{a}", "/x#{a}", "wildcard in its fragment"},
		{"/a", "/b c", "percent-encode"},
		{"/a", "/b\r\nX: y", "percent-encode"},
		{"a", "/b", "host/path missing /"},
		{"/a", "/a", "leads back to itself: /a -> /a"},
		{"/old/", "/old/archive", "leads back to itself"},
		{"/{path...}", "https://www.example.com/{path}", "leads back to itself"},
		{"/x/{path...}", "/x/new/{path}", "leads back to itself"},
	} {
		_, err := redirect.New([]redirect.Rule{{From: c.from, To: c.to, Status: 301, Place: "redirects[0]"}}, nil, served)
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s to %s: got %v; expected %q", c.from, c.to, err, c.want)
		}
	}
	_, err := redirect.New(
		[]redirect.Rule{{From: "/{a}/b", To: "/1", Place: "redirects[0]"}, {From: "/a/{b}", To: "/2", Place: "redirects[1]"}},
		[]redirect.Rule{{From: "/x", To: "/y", Place: "m:1"}, {From: "/%78", To: "/z", Place: "m:2"}, {From: "/q?a", To: "/z", Place: "m:3"}, {From: "/{q}", To: "/z", Place: "m:4"}}, served)
	for _, want := range []string{"redirects[1]: conflicts with redirects[0]", "m:2: /%78 is redirected by m:1 already", "m:3: \"/q?a\" has a query", "m:4: \"/{q}\" has a wildcard"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; expected %q too", err, want)
		}
	}
	_, err = redirect.New(nil, []redirect.Rule{{From: "/a", To: "/b", Place: "m:1"}, {From: "/b", To: "https://example.com/c", Place: "m:2"}, {From: "/c", To: "/a", Place: "m:3"}}, served)
	var wrong *redirect.RuleError
	if !errors.As(err, &wrong) || !wrong.Exact || !strings.Contains(err.Error(), "/a -> /b -> example.com/c -> example.com/a") && !strings.Contains(err.Error(), "leads back to itself") {
		t.Errorf("a loop of the map: %v", err)
	}
	// Another site may have the same paths.
	if _, err := redirect.New([]redirect.Rule{{From: "/{path...}", To: "https://new.example/{path}"}}, nil, served); err != nil {
		t.Error(err)
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "old.csv")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("\ufeff# old addresses\r\n/a,/b\r\n\n\"/c,d\", /e ,302\nhttps://example.com/f,https://new.example/f,308\n")
	rules, err := redirect.ReadFile(path)
	if got, want := fmt.Sprint(rules), "[{/a /b 301 false old.csv:2} {/c,d /e 302 false old.csv:4} {https://example.com/f https://new.example/f 308 false old.csv:5}]"; err != nil || got != want {
		t.Errorf("got %s, %v; expected %s", got, err, want)
	}
	write("/a\n/b,/c,303\n/d,/e\n/f,\"/g\n/h,/i,301,x\n")
	_, err = redirect.ReadFile(path)
	for _, want := range []string{"old.csv:1: \"/a\" has 1 fields", "old.csv:2: the status is \"303\"", "old.csv:4: ", "old.csv:5: "} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v; expected %q too", err, want)
		}
	}
	write("/a," + strings.Repeat("x", 9000) + "\n")
	if _, err = redirect.ReadFile(path); err == nil || !strings.Contains(err.Error(), "old.csv:1: the line is longer") {
		t.Errorf("got %v", err)
	}
	write(strings.Repeat("/a,/b\n", redirect.MaxEntries+1))
	if _, err = redirect.ReadFile(path); err == nil || !strings.Contains(err.Error(), "more than 100000 redirects") {
		t.Errorf("got %v", err)
	}
}

// large returns a table of 100,000 exact rules, and some patterns.
func large(t testing.TB) *redirect.Table {
	t.Helper()
	exact := make([]redirect.Rule, redirect.MaxEntries)
	for i := range exact {
		exact[i] = redirect.Rule{From: fmt.Sprintf("/2014/%d/an-article-with-a-long-name.html", i), To: fmt.Sprintf("/articles/%d", i), Status: 301}
	}
	return newTable(t, []redirect.Rule{{From: "/blog/{slug}", To: "/posts/{slug}", Status: 301}}, exact)
}

func TestAllocations(t *testing.T) {
	table := large(t)
	with := newTable(t, nil, []redirect.Rule{{From: "example.com/a", To: "/b", Status: 301}})
	for _, target := range []string{"http://example.com/2014/7/an-article-with-a-long-name.html", "http://example.com/posts/x"} {
		r := ask(t, target)
		if n := testing.AllocsPerRun(100, func() { table.Has(r); with.Has(r) }); n > 0 {
			t.Errorf("%s: %v allocations", target, n)
		}
	}
}

func BenchmarkHas(b *testing.B) {
	table := large(b)
	for name, target := range map[string]string{"redirected": "http://example.com/2014/77777/an-article-with-a-long-name.html", "not": "http://example.com/posts/x"} {
		r := ask(b, target)
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				table.Has(r)
			}
		})
	}
}
