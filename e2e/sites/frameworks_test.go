package sites

import (
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// A framework is a site with pages for all, and a login. It is served with the configuration
// isr.yaml in its folder.
type framework struct {
	setting, what string // the variable with the site's folder

	pages    []want // compared with the origin, without a session
	home     string // is stale after a few seconds
	greeting string // greets visitors by name; else the home page
	story    string // a page that visitors with a session share; empty if there is none
	ignored  string // cookies with which visitors share all pages
	asset    string // a pattern: a hashed file that the home page refers to
	kept     bool   // responses 404 are, since the preset has a freshness window
	login    form   // sets the session
	account  string // redirects visitors without a session
	logout   form
	note     form   // changes the page notes
	notes    string // is cached
	data     want   // of the page story, for navigations by a script; empty if there is none
	moved    [2]string
	explain  []explained
}

// A form is submitted as a browser does: with its hidden fields.
type form struct {
	page, field string     // the form is the one on the page with the field or, without a field, the last one
	fixed       url.Values // of other fields
	link        string     // a pattern: a link on the page, instead of a form
}

// An explained is a URL, and lines of what isr config explain says about it.
type explained struct {
	url, header string
	lines       []string
}

func bakery(f framework) framework {
	f.home, f.greeting, f.story = "/", "/", "/stories/rye"
	f.login, f.account, f.logout = form{page: "/login", field: "name"}, "/account", form{page: "/account"}
	f.note, f.notes = form{page: "/notes", field: "text"}, "/notes"
	f.moved = [2]string{"/old", "/stories/rye"}
	return f
}

func frameworks() map[string]framework {
	rye := want{path: "/stories/rye", status: 200, cached: true}
	notes := want{path: "/notes", status: 200, cached: true}
	return map[string]framework{
		"flask": bakery(framework{
			setting: "ISR_TEST_FLASK", what: "Flask site", asset: `/static/3f2a9c/site\.css`,
			pages: []want{
				rye, notes,
				{path: "/stories/rye?lang=de", status: 200, cached: true},
				{path: "/stories/rye?x=1", status: 200, said: "detail=query"},
				{path: "/nothing", status: 404, said: "fwd-status=404"},
			},
			explain: []explained{
				{url: "/stories/rye?lang=de", header: "Cookie: session=x", lines: []string{`route +/stories/ \(.*isr.yaml:\d+\)`, `key +127.0.0.1/stories/rye\?lang=de`, `query +.*isr.yaml:\d+ +lang`}},
				{url: "/", header: "Cookie: session=x", lines: []string{`cache +bypassed \(cookie\)`}},
			},
		}),
		"express": bakery(framework{
			setting: "ISR_TEST_EXPRESS", what: "Express site", asset: `/assets/site\.3f2a9c\.css`,
			pages: []want{
				rye, notes,
				{path: "/stories/rye?lang=de", status: 200, cached: true},
				{path: "/stories/rye?x=1", status: 200, said: "detail=query"},
				{path: "/nothing", status: 404, said: "detail=private"},
			},
			explain: []explained{
				{url: "/stories/rye?lang=de", lines: []string{`route +/stories/ \(.*isr.yaml:\d+\)`, `key +127.0.0.1/stories/rye\?lang=de`}},
			},
		}),
		"rails": bakery(framework{
			setting: "ISR_TEST_RAILS", what: "Rails site", asset: `/assets/site-3f2a9c\.css`,
			pages: []want{
				rye, notes,
				{path: "/nothing", status: 404, said: "fwd-status=404"},
			},
			explain: []explained{
				{url: "/stories/rye", header: "Cookie: _bakery_session=x", lines: []string{`key +127.0.0.1/stories/rye#accept=text%2Fhtml&x-requested-with=none`, `ignore_cookies +.*isr.yaml:\d+ +_bakery_session`}},
				{url: "/rails/active_storage/blobs/x", lines: []string{`route +/rails/ \(preset rails\)`, `cache +bypassed \(off\)`}},
			},
		}),
		"laravel": bakery(framework{
			setting: "ISR_TEST_LARAVEL", what: "Laravel site", asset: `/build/assets/[\w.-]+\.css`,
			pages: []want{
				rye, notes,
				{path: "/stories/rye?x=1", status: 200, said: "detail=query"},
				{path: "/nothing", status: 404, said: "detail=private"},
				{path: "/api/none", status: 404, said: "detail=off"},
			},
			explain: []explained{
				{url: "/stories/rye", header: "Cookie: bakery_session=x; XSRF-TOKEN=y", lines: []string{`key +127.0.0.1/stories/rye`, `ignore_cookies +.*isr.yaml:\d+ +bakery_session, XSRF-TOKEN`}},
				{url: "/livewire/update", lines: []string{`route +/livewire/ \(preset laravel\)`, `cache +bypassed \(off\)`}},
			},
		}),
		"astro": bakery(framework{
			kept:    true,
			setting: "ISR_TEST_ASTRO", what: "built Astro site", asset: `/_astro/[\w.-]+\.css`,
			pages: []want{
				rye, notes,
				{path: "/nothing", status: 404, cached: true},
				{path: "/_actions/none", status: 404, said: "detail=off"},
			},
			explain: []explained{
				{url: "/stories/rye", lines: []string{`key +127.0.0.1/stories/rye`}},
				{url: "/_server-islands/Cart", lines: []string{`route +/_server-islands/ \(preset astro\)`, `cache +bypassed \(off\)`}},
			},
		}),
		"nuxt": bakery(framework{
			data:    want{path: "/stories/rye/_payload.json?build"},
			setting: "ISR_TEST_NUXT", what: "built Nuxt site", asset: `/_nuxt/[\w.-]+\.css`,
			pages: []want{
				rye, notes,
				{path: "/stories/rye/_payload.json?build", status: 200, cached: true},
				{path: "/nothing", status: 404, said: "detail=no-cache"}, // JSON for others than browsers
				{path: "/api/notes", status: 200, said: "detail=off"},
			},
			explain: []explained{
				{url: "/stories/rye/_payload.json?3f2a9c", lines: []string{`route +/stories/\{slug\}/_payload.json \(.*isr.yaml:\d+\)`, `key +127.0.0.1/stories/rye/_payload.json`}},
				{url: "/api/notes", lines: []string{`route +/api/ \(preset nuxt\)`, `cache +bypassed \(off\)`}},
			},
		}),
		"react-router": bakery(framework{
			data:    want{path: "/stories/rye.data"},
			kept:    true,
			setting: "ISR_TEST_REACT_ROUTER", what: "built React Router site", asset: `/assets/[\w.-]+\.css`,
			pages: []want{
				rye, notes,
				{path: "/stories/rye.data", status: 200, cached: true},
				{path: "/stories/rye.data?_routes=routes%2Fstory", status: 200, cached: true},
				{path: "/_root.data", status: 200, live: true, cached: true},
				{path: "/notes.data", status: 200, said: "detail=off"},
				{path: "/account.data", status: 202, said: "fwd-status=202"}, // a redirect
				{path: "/stories/rye?x=1", status: 200, said: "detail=query"},
				{path: "/nothing", status: 404, cached: true},
				{path: "/stories/none.data", status: 404, cached: true},
			},
			explain: []explained{
				{url: "/stories/rye.data?_routes=root,routes%2Fstory", header: "Cookie: session=x", lines: []string{`route +/stories/ \(.*isr.yaml:\d+\)`, `key +127.0.0.1/stories/rye.data\?_routes=root%2Croutes%2Fstory`, `query +preset react-router +_routes`}},
				{url: "/__manifest?paths=%2F,%2Fnotes&version=3f2a9c", lines: []string{`route +/__manifest \(preset react-router\)`, `key +127.0.0.1/__manifest\?paths=%2F%2C%2Fnotes&version=3f2a9c`}},
			},
		}),
		"sveltekit": bakery(framework{
			data:    want{path: "/stories/rye/__data.json?x-sveltekit-invalidated=01"},
			setting: "ISR_TEST_SVELTEKIT", what: "built SvelteKit site", asset: `/_app/immutable/assets/[\w.-]+\.css`,
			pages: []want{
				rye, notes,
				{path: "/stories/rye/__data.json?x-sveltekit-invalidated=01", status: 200, cached: true},
				{path: "/stories/none/__data.json", status: 200, said: "detail=private"},
				{path: "/notes/__data.json", status: 200, said: "detail=private"},
				{path: "/nothing", status: 404, cached: true},
				{path: "/_app/version.json", status: 200, said: "detail=off"},
			},
			explain: []explained{
				{url: "/stories/rye/__data.json?x-sveltekit-invalidated=01", lines: []string{`key +127.0.0.1/stories/rye/__data.json\?x-sveltekit-invalidated=01`, `query +preset sveltekit +x-sveltekit-invalidated, x-sveltekit-trailing-slash`}},
			},
		}),
		"next": {
			data:    rscOf("/articles/wheat"),
			setting: "ISR_TEST_NEXT", what: "built Next.js site", asset: `/_next/static/[^"\\\\ ]+\.js`,
			home: "/", greeting: "/now", story: "/articles/wheat", ignored: "_ga=1",
			login: form{page: "/login", field: "name"}, account: "/account", logout: form{page: "/account"},
			note: form{page: "/notes", field: "text"}, notes: "/notes", moved: [2]string{"/old", "/articles/rye"},
			pages: []want{
				{path: "/articles/rye", status: 200, cached: true, live: true},
				notes,
				{path: "/articles/missing", status: 404, cached: true},
				{path: "/now", status: 200, live: true, said: "detail=private"},
				{path: "/", h: field{"Cookie": "__prerender_bypass=x"}, status: 200, live: true, said: "detail=cookie"},
				{path: "/?x=1", status: 200, live: true, said: "detail=query"},
				{path: "/api/time", status: 200, live: true, said: "detail=off"},
				{path: "/_next/image?url=%2Fcloth.png&w=64&q=75", status: 200, said: "detail=off"},
			},
			explain: []explained{
				{url: "/articles/rye?_rsc=1", header: "RSC: 1", lines: []string{`route +/articles/ \(.*isr.yaml:\d+\)`, `key +127.0.0.1/articles/rye\?_rsc=1#rsc=1`, `query +preset next +_rsc`}},
				{url: "/_next/image?url=x", lines: []string{`route +/_next/image \(preset next\)`, `cache +bypassed \(off\)`}},
			},
		},
		"django": {
			kept:    true,
			setting: "ISR_TEST_DJANGO", what: "built Django site", asset: `/static/bakery\.\w+\.css`,
			home: "/", greeting: "/hello/", story: "/stories/rye/", ignored: "csrftoken=x",
			login: form{page: "/accounts/login/", field: "name"}, account: "/accounts/profile/", logout: form{page: "/accounts/profile/"},
			note: form{page: "/notes/", field: "text"}, notes: "/notes/", moved: [2]string{"/old/", "/"},
			pages: []want{
				{path: "/stories/rye/", status: 200, cached: true},
				{path: "/notes/", status: 200, cached: true},
				{path: "/?page=2", status: 200, live: true, cached: true},
				{path: "/?x=1", status: 200, live: true, said: "detail=query"},
				{path: "/", h: field{"Cookie": "sessionid=x"}, status: 200, live: true, said: "detail=cookie"},
				{path: "/hello/", status: 200, live: true, said: "detail=vary"},
				{path: "/visits/", status: 200, live: true, said: "detail=set-cookie"},
				{path: "/guestbook/", status: 200, live: true, said: "detail=set-cookie"},
				{path: "/admin/", status: 404, said: "detail=off"},
				{path: "/accounts/login/", status: 200, live: true, said: "detail=off"},
			},
			explain: []explained{
				{url: "/?page=2", header: "Cookie: csrftoken=x", lines: []string{`key +127.0.0.1/\?page=2`, `ignore_cookies +preset django +csrftoken`}},
				{url: "/admin/", lines: []string{`route +/admin/ \(preset django\)`, `cache +bypassed \(off\)`}},
			},
		},
		"wordpress": {
			setting: "ISR_TEST_WORDPRESS", what: "WordPress site", asset: `/wp-includes/[\w./-]+\.css\?ver=[\w.]+`,
			home: "/", greeting: "/", ignored: "wordpress_test_cookie=WP; wp-settings-1=x", moved: [2]string{"/index.php", "/"},
			login:   form{page: "/wp-login.php", field: "log", fixed: url.Values{"pwd": {"only-for-tests"}}},
			account: "/wp-admin/",
			logout:  form{page: "/", link: `/wp-login\.php\?action=logout[^"']*`},
			note:    form{page: "/?p=1", field: "comment", fixed: url.Values{"author": {"Cay"}}}, notes: "/?p=1",
			pages: []want{
				{path: "/?p=1", status: 200, live: true, cached: true},
				{path: "/?page_id=2", status: 200, live: true, cached: true},
				{path: "/?s=rye", status: 200, live: true, said: "detail=query"},
				{path: "/?rest_route=/wp/v2/posts", status: 200, live: true, said: "detail=query"},
				{path: "/?p=1", h: cookieHeader("wp-postpass_3f2a9c=x"), status: 200, live: true, said: "detail=cookie"},
				{path: "/wp-login.php", status: 200, live: true, said: "detail=off"},
				{path: "/?p=99", status: 404, live: true, said: "detail=no-cache"},
			},
			explain: []explained{
				{url: "/?p=1", header: "Cookie: wordpress_test_cookie=x", lines: []string{`key +127.0.0.1/\?p=1`, `revalidate +.*isr.yaml:\d+ \(defaults\) +2s`, `ignore_cookies +preset wordpress +wordpress_test_cookie, wp-settings-\*, sbjs_\*`}},
				{url: "/wp-includes/css/x.css?ver=6.1", lines: []string{`key +127.0.0.1/wp-includes/css/x.css\?ver=6.1`}},
				{url: "/", header: "Cookie: wordpress_logged_in_3f2a9c=x", lines: []string{`cache +bypassed \(cookie\)`}},
				{url: "/wp-admin/edit.php", lines: []string{`route +/wp-admin/ \(preset wordpress\)`, `cache +bypassed \(off\)`}},
			},
		},
	}
}

// TestFrameworks serves each site with the configuration in its folder.
func TestFrameworks(t *testing.T) {
	for name, f := range frameworks() {
		t.Run(name, func(t *testing.T) {
			s := &configured{framework: f, program: process.Binary(t, "../.."), folder: isrtest.Engine(t, f.setting, f.what)}
			t.Parallel()
			s.origin = startSite(t, s.folder)
			t.Run("explain", s.explains)
			t.Run("pages", s.compares)
			t.Run("assets", s.assets)
			t.Run("redirects", s.redirects)
			t.Run("leaks", s.leaks)
			t.Run("purge", s.purge)
			t.Run("forms", s.forms) // last: it changes a page
		})
	}
}

// browser is the Accept header of a browser.
const browser = "text/html,application/xhtml+xml,application/xml;q=0.9,image/webp,*/*;q=0.8"

// A configured is a running site, and the program that is put in front of it.
type configured struct {
	framework
	program, folder, origin string
}

// command returns isr with the site's configuration, in which the environment has the addresses.
func (s *configured) command(t *testing.T, data string, arguments ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command(s.program, append(arguments, "--config", filepath.Join(s.folder, "isr.yaml"))...)
	cmd.Env = append(os.Environ(), "ORIGIN="+s.origin, "LISTEN=127.0.0.1:0", "ADMIN=none", "DATA="+data, "STORE_TIMEOUT=10s")
	return cmd
}

// start starts isr with an empty cache in front of the site.
func (s *configured) start(t *testing.T) (pair, gate) {
	t.Helper()
	g := gate{program: s.program, data: t.TempDir()}
	_, g.address = process.Serve(t, s.command(t, g.data, "serve"), regexp.MustCompile(`serving (http://127\.0\.0\.1:\d+)`))
	p := pair{newVisitor(g.address), newVisitor(s.origin)}
	p.through.accept, p.direct.accept = browser, browser
	return p, g
}

func (s *configured) behind(t *testing.T) pair {
	t.Helper()
	p, _ := s.start(t)
	return p
}

// explains expects an answer of isr config explain for pages of the site.
func (s *configured) explains(t *testing.T) {
	for _, e := range s.explain {
		arguments := []string{"config", "explain", "http://127.0.0.1" + e.url}
		if e.header != "" {
			arguments = append(arguments, "-H", e.header)
		}
		out, err := s.command(t, t.TempDir(), arguments...).CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", e.url, err, out)
		}
		for _, line := range e.lines {
			if !regexp.MustCompile(`(?m)^` + line + `([ :]|$)`).Match(out) {
				t.Errorf("%s %s: no line like %s in\n%s", e.url, e.header, line, out)
			}
		}
	}
}

// compares requests pages twice, and those that are cached with gzip, too.
func (s *configured) compares(t *testing.T) {
	p := s.behind(t)
	p.check(t, want{path: s.home, status: 200, cached: true, live: true})
	for _, w := range s.pages {
		p.check(t, w)
		if !w.cached {
			continue
		}
		h := field{"Accept-Encoding": "gzip"}
		for name, value := range w.h {
			h[name] = value
		}
		before, zipped, after := p.through.get(t, w.path, w.h), p.through.get(t, w.path, h), p.through.get(t, w.path, w.h)
		if got := decoded(t, zipped); !zipped.hit() || got != before.body && got != after.body {
			t.Errorf("%s: the gzip copy differs from the page: %s", w.path, zipped.cacheStatus())
		}
	}
	if s.ignored == "" {
		return
	}
	if got := p.through.get(t, s.home, field{"Cookie": s.ignored}); !got.hit() {
		t.Errorf("%s with the cookies %s: %s, want a hit", s.home, s.ignored, got.cacheStatus())
	}
}

// decoded returns the content of an answer with or without gzip.
func decoded(t *testing.T, a answer) string {
	t.Helper()
	if a.header.Get("Content-Encoding") == "gzip" {
		return gunzip(t, a.body)
	}
	return a.body
}

// assets fetches a file with a hash in its URL, for a visitor without a session.
func (s *configured) assets(t *testing.T) {
	p := s.behind(t)
	path := regexp.MustCompile(s.asset).FindString(p.through.get(t, s.home, nil).body)
	if path == "" {
		t.Fatalf("%s refers to no file like %s", s.home, s.asset)
	}
	p.check(t, want{path: path, status: 200, cached: true})
	first := p.through.get(t, path, nil)
	if got := p.through.get(t, path, field{"If-None-Match": first.header.Get("Etag")}); got.status != 304 {
		t.Errorf("%s: status %d with its ETag, want 304", path, got.status)
	}
	p.check(t, want{path: strings.Replace(path, "s", "none", 1), status: 404, cached: s.kept, said: "fwd-status=404"})
}

// redirects requests a page that has moved, and the account without a session.
func (s *configured) redirects(t *testing.T) {
	p := s.behind(t)
	for path, target := range map[string]string{s.moved[0]: s.moved[1], s.account: s.login.page} {
		for range 2 {
			got := p.through.get(t, path, nil)
			location, _, _ := strings.Cut(resolve(t, p.through.address+path, got.header.Get("Location")), "?redirect_to=")
			if got.status/100 != 3 || location != p.through.address+target {
				t.Errorf("%s: status %d to %q, want a redirect to %s", path, got.status, location, target)
			}
		}
	}
}

// purge purges a page by its URL, and with its data by the prefix.
func (s *configured) purge(t *testing.T) {
	p, g := s.start(t)
	all := []want{{path: s.home}}
	target := []string{"--hard", g.address + s.home}
	if s.data.path != "" {
		all = []want{{path: s.story}, s.data}
		target = []string{"--hard", "--prefix", g.address + s.story}
	}
	for _, w := range all {
		p.through.get(t, w.path, w.h)
		if got := p.through.get(t, w.path, w.h); !got.hit() {
			t.Errorf("%s %v: %s, want a hit", w.path, w.h, got.cacheStatus())
		}
	}
	out, err := exec.CommandContext(t.Context(), g.program, append([]string{"purge", "--data", g.data}, target...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("isr purge %q: %v\n%s", target, err, out)
	}
	for _, w := range all {
		if got := p.through.get(t, w.path, w.h); got.hit() || !got.stored() {
			t.Errorf("%s %v after the purge: %s, want a new page", w.path, w.h, got.cacheStatus())
		}
	}
}

// rscOf is the request for the data of a page by Next's router.
func rscOf(path string) want {
	path, h := rsc{}.request(path)
	return want{path: path, h: h}
}
