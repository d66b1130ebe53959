package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// tagged renders pages of example.com with tags of their own and a common one.
func (f *fixture) tagged(paths ...string) {
	f.t.Helper()
	for _, path := range paths {
		f.render = func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Surrogate-Key", "all-pages page-"+strings.Trim(path, "/"))
			page(w, "hello from "+path)
		}
		if _, err := f.client().Regenerate(f.t.Context(), regenerate("example.com"+path)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// state returns what the store says of a page, as isr get and isr ls show it.
func (f *fixture) state(key string) string {
	f.t.Helper()
	p, err := f.client().Page(f.t.Context(), target(key))
	if err != nil {
		f.t.Fatal(err)
	}
	for listed, err := range f.client().Pages(f.t.Context()) {
		if err != nil {
			f.t.Fatal(err)
		}
		if listed.Key == key && (listed.State != p.State || listed.PurgedAt != p.PurgedAt || listed.HardAt != p.HardAt) {
			f.t.Errorf("%s is %s, %d, %d in the list, and %s, %d, %d by itself", key, listed.State, listed.PurgedAt, listed.HardAt, p.State, p.PurgedAt, p.HardAt)
		}
	}
	return p.State
}

// Each kind of target makes the pages stale that it covers, and no others, through a running
// server and on the store itself.
func TestPurge(t *testing.T) {
	for name, cfg := range map[string]func(*fixture) admin.Config{
		"running server": func(f *fixture) admin.Config { return admin.Config{Cache: f.cache} },
		"store itself":   func(*fixture) admin.Config { return admin.Config{} },
	} {
		t.Run(name, func(t *testing.T) {
			for target, want := range map[admin.PurgeTarget]string{
				{URL: "https://EXAMPLE.com:443/a"}:    "/a",
				{URL: "example.com/none"}:             "",
				{Tag: "page-b"}:                       "/b",
				{Tag: "all-pages"}:                    "/a /b /blog/1 /blog/2",
				{Tag: "all"}:                          "",
				{Prefix: "https://example.com/blog/"}: "/blog/1 /blog/2",
				{Prefix: "example.com/b"}:             "/b /blog/1 /blog/2",
				{Host: "example.com"}:                 "/a /b /blog/1 /blog/2",
				{Host: "example.co"}:                  "",
				{Tenant: "acme"}:                      "",
				{All: true}:                           "/a /b /blog/1 /blog/2",
			} {
				f := newFixture(t)
				paths := []string{"/a", "/b", "/blog/1", "/blog/2"}
				f.tagged(paths...)
				f.serve(cfg(f))
				would, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{target}, DryRun: true})
				if err != nil || would.DryRun == nil || would.DryRun.Pages != len(strings.Fields(want)) || would.DryRun.Stored != 4 || would.Seq != 0 {
					t.Errorf("%+v, dry run: %+v, %v; want %q", target, would.DryRun, err, want)
				}
				got, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{target}, Mode: admin.PurgeSoft})
				if err != nil || got.Seq != 1 || got.WriteUnits <= 0 || len(got.Targets) != 1 {
					t.Errorf("%+v: %+v, %v", target, got, err)
				}
				for _, path := range paths {
					wantState := "fresh"
					if slices.Contains(strings.Fields(want), path) {
						wantState = "stale"
					}
					if state := f.state("example.com" + path); state != wantState {
						t.Errorf("%+v: %s is %s, want %s", target, path, state, wantState)
					}
				}
			}
		})
	}
}

// Targets of one request are one transaction; repeated ones count once.
func TestPurgeIsOneTransaction(t *testing.T) {
	f := newFixture(t)
	f.tagged("/a", "/b", "/c")
	got, err := f.client().Purge(t.Context(), admin.Purge{Mode: admin.PurgeHard, Targets: []admin.PurgeTarget{
		{URL: "example.com/a"}, {Tag: "page-b"}, {Tag: "page-b"}, {URL: "https://example.com/a"},
	}})
	if err != nil || got.Seq != 1 || got.Mode != admin.PurgeHard || !slices.Equal(got.Targets, []string{"example.com/a", "tag page-b"}) {
		t.Errorf("%+v, %v", got, err)
	}
	for path, want := range map[string]string{"/a": "purged", "/b": "purged", "/c": "fresh"} {
		if state := f.state("example.com" + path); state != want {
			t.Errorf("%s is %s, want %s", path, state, want)
		}
	}
	if !strings.Contains(f.log.String(), `"action":"purgePages","target":"hard: example.com/a, tag page-b, tag page-b, example.com/a","result":"ok"`) {
		t.Errorf("no audit line: %s", f.log)
	}
}

// The visitors of this server get no old page as fresh, and none at all after a hard purge.
func TestPurgeIsServed(t *testing.T) {
	f := newFixture(t)
	f.tagged("/")
	site := f.site() // renders nothing but 404
	if got := visit(t, site); got != "hello from /" {
		t.Fatalf("before: %q", got)
	}
	if a := f.ask("POST", "/-/purge", `{"targets":[{"url":"https://example.com/"}],"mode":"hard"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if got := visit(t, site); strings.Contains(got, "hello") {
		t.Errorf("after: %q", got)
	}
}

// A hard purge of a pinned URL is refused with the page's name, and nothing is purged.
func TestPurgeOfPinnedPage(t *testing.T) {
	f := newFixture(t)
	f.tagged("/a", "/b")
	if _, err := f.client().Pin(t.Context(), admin.Pin{Target: target("example.com/a")}); err != nil {
		t.Fatal(err)
	}
	in := admin.Purge{Mode: admin.PurgeHard, Targets: []admin.PurgeTarget{{URL: "example.com/b"}, {URL: "example.com/a"}}}
	_, err := f.client().Purge(t.Context(), in)
	var failed *admin.Error
	if !errors.As(err, &failed) || failed.Status != 409 || failed.Code != "pinned" || !strings.Contains(failed.Message, "example.com/a") || !strings.Contains(failed.Hint, "--unpin") {
		t.Errorf("%v", err)
	}
	if state := f.state("example.com/b"); state != "fresh" {
		t.Errorf("the other page is %s", state)
	}
	in.Unpin = true
	if _, err := f.client().Purge(t.Context(), in); err != nil || f.state("example.com/a") != "purged" {
		t.Errorf("unpinned: %v, %s", err, f.state("example.com/a"))
	}
}

// The form of Fastly's API: tags in a header, hard unless Fastly-Soft-Purge is 1.
func TestPurgeInTheFormOfFastly(t *testing.T) {
	send := func(f *fixture, body string, headers ...string) answer {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, f.open.URL+"/-/purge", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i < len(headers); i += 2 {
			req.Header.Add(headers[i], headers[i+1])
		}
		return f.send(req)
	}
	for want, headers := range map[string][]string{
		"purged": {"Surrogate-Key", "page-a other", "Surrogate-Key", "another"},
		"stale":  {"Surrogate-Key", "page-a", "Fastly-Soft-Purge", "1"},
	} {
		f := newFixture(t)
		f.tagged("/a")
		if a := send(f, "", headers...); a.status != 200 || f.state("example.com/a") != want {
			t.Errorf("%q: %d %s; the page is %s, want %s", headers, a.status, a.text, f.state("example.com/a"), want)
		}
	}
	f := newFixture(t)
	for _, c := range []struct {
		body, text string
		headers    []string
	}{
		{"", "Fastly-Soft-Purge must be 1", []string{"Surrogate-Key", "a", "Fastly-Soft-Purge", "yes"}},
		{"", "targets is empty", []string{"Surrogate-Key", " "}},
		{"{}", "send one of them", []string{"Surrogate-Key", "a"}},
	} {
		if a := send(f, c.body, c.headers...); a.status != 400 || !strings.Contains(a.text, c.text) {
			t.Errorf("%q: %d %s; want %s", c.headers, a.status, a.text, c.text)
		}
	}
	if a := send(f, "", "Fastly-Soft-Purge", "1"); a.status != 415 {
		t.Errorf("without tags: %d %s", a.status, a.text)
	}
}

func TestPurgeRefusesBadInput(t *testing.T) {
	f := newFixture(t)
	many := make([]string, store.MaxPurgeTargets+1)
	for i := range many {
		many[i] = fmt.Sprintf(`{"tag":"t%d"}`, i)
	}
	for body, want := range map[string]string{
		`{}`:                                            "targets is empty",
		`{"targets":[{}]}`:                              "expected exactly one of url, tag, prefix, host, tenant and all (found 0)",
		`{"targets":[{"tag":"a","all":true}]}`:          "(found 2)",
		`{"targets":[{"tag":"a"},{"url":"/a"}]}`:        "target 2: ",
		`{"targets":[{"url":"a.com/b/*"}]}`:             "isr purge --prefix a.com/b/",
		`{"targets":[{"prefix":"/blog/"}]}`:             "has no host; a prefix begins with one, like example.com/blog/",
		`{"targets":[{"prefix":"a.com/*"}]}`:            "taken literally",
		`{"targets":[{"host":"a.com/b"}]}`:              "has a path",
		`{"targets":[{"tag":"a\u0001"}]}`:               "without control characters",
		`{"targets":[{"all":true}],"tenant":"x"}`:       "all is all tenants",
		`{"targets":[{"tenant":"y"}],"tenant":"x"}`:     "the tenant y",
		`{"targets":[{"tag":"a"}],"tenant":"x#"}`:       "must consist of letters",
		`{"targets":[{"tag":"a"}],"mode":"gone"}`:       "mode must be soft or hard",
		`{"targets":[{"tag":"a"}],"mode":"refresh"}`:    "POST /-/refresh",
		`{"targets":[{"tags":"a"}]}`:                    "unknown field",
		`{"targets":[` + strings.Join(many, ",") + `]}`: "91 targets are more than one purge can have, which is 90; split them",
	} {
		a := f.ask("POST", "/-/purge", body)
		var failed struct{ Error admin.Error }
		if err := json.Unmarshal([]byte(a.text), &failed); err != nil || a.status != 400 || !strings.Contains(failed.Error.Error(), want) {
			t.Errorf("%.80s: %d %s; want %q", body, a.status, a.text, want)
		}
	}
	if sequence, err := f.store.Sequence(t.Context()); err != nil || sequence.Seq != 0 {
		t.Errorf("sequence %+v, %v; want that nothing was purged", sequence, err)
	}
}

// serving returns the Hosts of a gateway that listens on port 8080.
func serving(t *testing.T, names ...string) func() admin.Hosts {
	t.Helper()
	hosts, err := gateway.ParseHosts(names)
	if err != nil {
		t.Fatal(err)
	}
	hosts = hosts.WithListener(&net.TCPAddr{Port: 8080})
	return func() admin.Hosts { return hosts }
}

// A prefix needs no host on a server with one.
func TestPurgeOfPrefixWithoutHost(t *testing.T) {
	f := newFixture(t)
	f.tagged("/a", "/blog/1")
	ask := func(cfg admin.Config) (string, error) {
		cfg.Cache = f.cache
		f.serve(cfg)
		got, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{{Prefix: "/blog/"}, {Tag: "x"}}})
		return strings.Join(got.Targets, ", "), err
	}
	for want, cfg := range map[string]admin.Config{
		"serves more than one (a.example, *.b.example); give the prefix with each host, like example.com/blog/": {Hosts: serving(t, "a.example", "*.b.example")},
		"has no host; a prefix begins with one, like example.com/blog/":                                         {},
	} {
		if got, err := ask(cfg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
	got, err := ask(admin.Config{Hosts: serving(t, "example.com")})
	if want := "prefix example.com/blog/, prefix example.com:8080/blog/, tag x"; err != nil || got != want {
		t.Errorf("%q, %v; want %q", got, err, want)
	}
	if a, b := f.state("example.com/a"), f.state("example.com/blog/1"); a != "fresh" || b != "stale" {
		t.Errorf("the pages are %s and %s", a, b)
	}
}

// A purge of a page that is not stored does not make it one of the list.
func TestPurgedPagesThatAreNotStoredAreNotListed(t *testing.T) {
	f := newFixture(t)
	f.tagged("/a")
	for _, path := range []string{"/a", "/none"} {
		if _, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{{URL: "example.com" + path}}}); err != nil {
			t.Fatal(err)
		}
	}
	var listed []string
	for p, err := range f.client().Pages(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		listed = append(listed, p.Key+" "+p.State)
	}
	if !slices.Equal(listed, []string{"example.com/a stale"}) {
		t.Errorf("%q", listed)
	}
}

// A purge of a URL in letters beyond ASCII covers the page that a browser gets there. One of
// which no page is stored is named.
func TestPurgeOfURLsAsPeopleWriteThem(t *testing.T) {
	f := newFixture(t)
	for _, url := range []string{"http://example.com/Prés", "example.com/Prés", "http://example.com/Pr%C3%A9s", "http://example.com/a/../Pr%c3%a9s#top", "ｅxample.com/Prés"} {
		f.tagged("/Pr%C3%A9s")
		got, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{{URL: url}, {Tag: "x"}}})
		if state := f.state("example.com/Pr%C3%A9s"); err != nil || state != "stale" || got.NotStored != nil {
			t.Errorf("%s: %+v, %v; the page is %s", url, got, err, state)
		}
	}
	var targets []admin.PurgeTarget
	for i := range 12 {
		targets = append(targets, admin.PurgeTarget{URL: fmt.Sprintf("example.com/Prés/%d", i)})
	}
	got, err := f.client().Purge(t.Context(), admin.Purge{Targets: targets})
	if err != nil || len(got.NotStored) != 11 || got.NotStored[0] != "example.com/Pr%C3%A9s/0" || got.NotStored[10] != "and 2 more" {
		t.Errorf("%q, %v", got.NotStored, err)
	}
}

// A purge of a URL that no page can have says so, and what to give instead.
func TestPurgeOfUnreachableURLs(t *testing.T) {
	f := newFixture(t)
	f.cache = f.node()
	f.cache.Handler(isr.Route{Name: "site", Revalidate: time.Minute, Query: []string{"page"}}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.render(w, r) }))
	f.serve(admin.Config{Cache: f.cache, Hosts: serving(t, "example.com")})
	for url, want := range map[string]string{
		"example.com/a?page=2":          "",
		"example.com/a?x=1&page=2":      "example.com/a?page=2&x=1: no visitor can reach this page: the key has a query parameter that the route does not declare; expected only page; to purge the page that visitors get give example.com/a?page=2",
		"example.com/a?utm_source=mail": "to purge the page that visitors get give example.com/a",
		"example.com/a#x-lang=de":       "no visitor can reach this page: invalid key: example.com/a#x-lang=de varies on the header",
		"example.org/a":                 "the host example.org is not served; expected one of example.com",
	} {
		got, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{{Tag: "a"}, {URL: url}}})
		text := strings.Join(got.Warnings, "|")
		if err != nil || got.Seq == 0 || !strings.Contains(text, want) || (want == "") != (text == "") {
			t.Errorf("%s: %q, %v; want %q", url, text, err, want)
		}
	}
	var many []admin.PurgeTarget
	for i := range 30 {
		many = append(many, admin.PurgeTarget{URL: fmt.Sprintf("example.com/a?x=%d%s", i, strings.Repeat("y", 3000))})
	}
	got, err := f.client().Purge(t.Context(), admin.Purge{Targets: many, DryRun: true})
	if err != nil || len(got.Warnings) != 11 || len(strings.Join(got.Warnings, "")) > 11_000 {
		t.Errorf("%d warnings of %d bytes, %v", len(got.Warnings), len(strings.Join(got.Warnings, "")), err)
	}
	f.serve(admin.Config{}) // the store itself does not know the routes
	if got, err := f.client().Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{{URL: "example.com/a?x=1"}}}); err != nil || got.Warnings != nil {
		t.Errorf("%q, %v", got.Warnings, err)
	}
}

// 90 of the longest tags fit into one request.
func TestLargestPurge(t *testing.T) {
	f := newFixture(t)
	in := admin.Purge{Wait: true}
	for i := range store.MaxPurgeTargets {
		in.Targets = append(in.Targets, admin.PurgeTarget{Tag: fmt.Sprintf("%0*d", store.MaxTagLength, i)})
	}
	got, err := f.client().Purge(t.Context(), in)
	if err != nil || got.Seq != 1 || len(got.Targets) != store.MaxPurgeTargets || got.Waited == nil || len(got.Waited.Missing) != 0 {
		t.Errorf("%d targets at %d, %v", len(got.Targets), got.Seq, err)
	}
}

// The method PURGE of the public listener.
func TestPurgeMethod(t *testing.T) {
	token, err := admin.NewToken(secret)
	if err != nil {
		t.Fatal(err)
	}
	passed := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) })
	ask := func(h http.Handler, method, url string, headers ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), method, url, http.NoBody)
		for i := 0; i < len(headers); i += 2 {
			r.Header.Add(headers[i], headers[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	const auth, bearer = "Authorization", "Bearer " + secret
	f := newFixture(t)
	h := f.api.PurgeMethod(admin.PurgeMethodConfig{Token: &token}, passed)
	for _, c := range []struct {
		method  string
		headers []string
		url     string
		want    string
	}{
		{"PURGE", nil, "/a", "purged"},
		{"PURGE", []string{"Fastly-Soft-Purge", "1"}, "/a", "stale"},
		{"PURGE", nil, "/b", "fresh"},
		{"PURGE", nil, "/%61", "purged"},
		{"PURGE", []string{"Surrogate-Key", "page-a x"}, "/b", "purged"},
		{"PURGE", []string{"Surrogate-Key", "page-a", "Fastly-Soft-Purge", "1"}, "/", "stale"},
		{"PURGE", []string{"xkey-purge", "page-a"}, "/", "purged"},
		{"PURGE", []string{"xkey-softpurge", "page-a"}, "/", "stale"},
		{"PURGEKEYS", []string{"xkey-purge", "page-a"}, "/", "purged"},
		{"PURGEKEYS", []string{"xkey-softpurge", "x page-a"}, "/", "stale"},
	} {
		f.tagged("/a")
		w := ask(h, c.method, "http://example.com"+c.url, append(c.headers, auth, bearer)...)
		var got admin.Purged
		if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 || got.Seq == 0 || f.state("example.com/a") != c.want {
			t.Errorf("%s %q: %d %s; the page is %s, want %s", c.url, c.headers, w.Code, w.Body, f.state("example.com/a"), c.want)
		}
	}
	if !strings.Contains(f.log.String(), `"action":"purgeMethod","target":"hard: example.com/a","result":"ok"`) {
		t.Errorf("no audit line: %s", f.log)
	}

	before, err := f.store.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	admitted := false
	network := f.api.PurgeMethod(admin.PurgeMethodConfig{
		Admit: func(*http.Request) bool { return admitted },
		TenantHeader: func(r *http.Request) (string, error) {
			switch r.URL.Path {
			case "/a":
				return "X-Shop", nil
			case "/refused":
				return "", errors.New("the path can be read in several ways")
			}
			return "", nil
		},
	}, passed)
	for _, c := range []struct {
		h       http.Handler
		method  string
		headers []string
		status  int
		text    string
	}{
		{h, "GET", nil, 418, ""},
		{h, "DELETE", nil, 418, ""},
		{h, "PURGE", nil, 401, "no_token"},
		{h, "PURGE", []string{auth, "Bearer wrong-wrong-wrong"}, 401, "wrong_token"},
		{h, "PURGE", []string{auth, bearer, "Origin", "http://evil.example"}, 403, "browser"},
		{h, "PURGE", []string{auth, bearer, "Fastly-Soft-Purge", "0"}, 400, "must be 1"},
		{h, "PURGE", []string{auth, bearer, "Surrogate-Key", "a", "xkey-purge", "b"}, 400, "exclude each other"},
		{h, "PURGEKEYS", nil, 401, "no_token"},
		{h, "PURGEKEYS", []string{auth, bearer}, 400, "needs tags in the header Xkey-Softpurge"},
		{network, "PURGE", []string{auth, bearer}, 403, "wrong_network"},
		{network, "PURGEKEYS", []string{"xkey-purge", "a"}, 403, "wrong_network"},
	} {
		if w := ask(c.h, c.method, "http://example.com/a", c.headers...); w.Code != c.status || !strings.Contains(w.Body.String(), c.text) {
			t.Errorf("%s %q: %d %s; want %d %s", c.method, c.headers, w.Code, w.Body, c.status, c.text)
		}
	}
	if after, err := f.store.Sequence(t.Context()); err != nil || after != before {
		t.Errorf("a refused request has purged: %+v, %+v, %v", before, after, err)
	}
	admitted = true
	if w := ask(network, "PURGE", "http://example.com/a"); w.Code != 400 || !strings.Contains(w.Body.String(), "X-Shop must name the tenant") {
		t.Errorf("no tenant: %d %s", w.Code, w.Body)
	}
	if w := ask(network, "PURGE", "http://example.com/a", "X-Shop", "acme"); w.Code != 200 || !strings.Contains(w.Body.String(), `"acme:example.com/a"`) {
		t.Errorf("a tenant: %d %s", w.Code, w.Body)
	}
	if w := ask(network, "PURGE", "http://example.com/b", "X-Shop", "acme"); w.Code != 200 || !strings.Contains(w.Body.String(), `"example.com/b"`) {
		t.Errorf("a page without tenants: %d %s", w.Code, w.Body)
	}
	if w := ask(network, "PURGE", "http://example.com/refused"); w.Code != 400 || !strings.Contains(w.Body.String(), "several ways") {
		t.Errorf("a URL without pages: %d %s", w.Code, w.Body)
	}
}

// The newest purge of a tag is known by itself: purges of other tags, of other tenants, and of
// everything are not of the tag.
func TestTagMark(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	mark := func() admin.TagMark {
		t.Helper()
		m, err := c.TagMark(t.Context(), "", "deployment")
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	for _, in := range []admin.Purge{
		{Targets: []admin.PurgeTarget{{Tag: "other"}}},
		{Targets: []admin.PurgeTarget{{Tag: "deployment"}}, Tenant: "acme"},
		{Targets: []admin.PurgeTarget{{All: true}}},
	} {
		if _, err := c.Purge(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	if m := mark(); m != (admin.TagMark{}) {
		t.Errorf("before a purge of the tag: %+v", m)
	}
	for _, mode := range []admin.PurgeMode{admin.PurgeHard, admin.PurgeSoft} {
		purged, err := c.Purge(t.Context(), admin.Purge{Targets: []admin.PurgeTarget{{Tag: "deployment"}, {Tag: "build"}}, Mode: mode})
		if err != nil {
			t.Fatal(err)
		}
		if m := mark(); m.Seq != purged.Seq || (m.HardSeq == m.Seq) != (mode == admin.PurgeHard) || m.At.IsZero() || m.AgoMS < 0 {
			t.Errorf("after the %s purge %d: %+v", mode, purged.Seq, m)
		}
	}
	if a := f.ask("GET", "/-/purges/tag?tag=", ""); a.status != 400 || a.code != "invalid_request" {
		t.Errorf("no tag: %d %s", a.status, a.text)
	}
}
