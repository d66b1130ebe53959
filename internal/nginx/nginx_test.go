package nginx_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/nginx"
)

var update = flag.Bool("update", false, "write the expected files")

func today() time.Time { return time.Date(2026, 11, 28, 0, 0, 0, 0, time.UTC) }

// TestTranslate compares the files and notes of the configurations in testdata with the expected ones. Each file is valid.
func TestTranslate(t *testing.T) {
	confs, err := filepath.Glob("testdata/*.conf")
	if err != nil || len(confs) == 0 {
		t.Fatalf("testdata has no configurations: %v", err)
	}
	for _, conf := range confs {
		t.Run(filepath.Base(conf), func(t *testing.T) {
			got := translate(t, conf)
			file, err := config.Parse(conf, []byte(got.Text), os.LookupEnv)
			if err != nil {
				t.Fatalf("the file is not valid: %v", err)
			}
			if len(file.Routes) < got.Routes {
				t.Errorf("the file has %d routes; want %d", len(file.Routes), got.Routes)
			}
			text := got.Text
			for _, n := range got.Notes {
				text += fmt.Sprintf("# NOTE %s: %s: %s\n", n.At, n.Directive, n.Text)
			}
			golden := strings.TrimSuffix(conf, ".conf") + ".yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if text != string(want) {
				t.Errorf("got\n%s\nwant\n%s\n(-update writes %s)", text, want, golden)
			}
		})
	}
}

func translate(t *testing.T, conf string) *nginx.Result {
	t.Helper()
	directives, err := nginx.Read(conf)
	if err != nil {
		t.Fatal(err)
	}
	got, err := nginx.Translate(directives, conf, today())
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func written(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "nginx.conf")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestSettings: each directive becomes the setting that does the same.
func TestSettings(t *testing.T) {
	const cached = "proxy_cache zone; proxy_pass http://127.0.0.1:3000;"
	for name, c := range map[string]struct{ conf, want string }{
		"any":                          {"location / { " + cached + " proxy_cache_valid any 5m; }", "revalidate: 5m"},
		"no code":                      {"location / { " + cached + " proxy_cache_valid 90; }", "revalidate: 1m30s"},
		"two units":                    {"location / { " + cached + " proxy_cache_valid 200 '1h 30m'; }", "revalidate: 1h30m"},
		"only freshness of responses":  {"location / { " + cached + " }", "revalidate: 0s"},
		"404":                          {"location / { " + cached + " proxy_cache_valid 404 2m; }", "negative: {404: 2m}"},
		"inherited":                    {"proxy_cache_valid 3m; location / { " + cached + " }", "revalidate: 3m"},
		"the inner block replaces":     {"proxy_cache_valid 3m; location / { " + cached + " proxy_cache_valid 7m; }", "revalidate: 7m"},
		"exact":                        {"location = /a { " + cached + " }", `match: "/a"`},
		"the home page":                {"location = / { " + cached + " }", `match: "/{$}"`},
		"a prefix":                     {"location ^~ /a/ { " + cached + " }", `match: "/a/"`},
		"alternatives":                 {"location ~ ^/(a|b/c)$ { " + cached + " }", `match: "/b/c"`},
		"no cache":                     {"location / { proxy_pass http://127.0.0.1:3000; }", "cache: off"},
		"cache off":                    {"proxy_cache zone; location / { proxy_cache off; proxy_pass http://127.0.0.1:3000; }", "cache: off"},
		"nested":                       {"location / { location /b/ { " + cached + " } }", `match: "/b/"`},
		"stale while updating":         {"location / { " + cached + " proxy_cache_use_stale updating; }", "stale: 10m"},
		"stale in failures":            {"location / { " + cached + " proxy_cache_use_stale error http_502; }", "stale_if_error: 10m"},
		"never stale":                  {"location / { " + cached + " }", "stale: 0s"},
		"key without parameters":       {"location / { " + cached + " proxy_cache_key $host$uri; }", `ignore_query: ["*"]`},
		"key with a parameter":         {"location / { " + cached + " proxy_cache_key $uri${arg_page}x; }", `query: ["page"]`},
		"key with a header":            {"location / { " + cached + " proxy_cache_key $request_uri$http_accept_language; }", `headers: ["Accept-Language"]`},
		"cookies that bypass":          {"location / { " + cached + " proxy_cache_bypass $cookie_sid; proxy_no_cache $cookie_sid $cookie_tok; }", `ignore_cookies: ["*", "!sid", "!tok"]`},
		"cookies are not ignored":      {"location / { " + cached + " }", `# ignore_cookies: ["*"]`},
		"min uses":                     {"location / { " + cached + " proxy_cache_min_uses 3; }", "min_uses: 3"},
		"time limit":                   {"location / { " + cached + " proxy_read_timeout 20s; }", "render_timeout: 20s"},
		"a name that is an IP address": {"location / { " + cached + " }", "site:\n    url: \"http://127.0.0.1:3000\""},
		"a script":                     {"content_by_lua_block { x = {1, 2} }\n location / { " + cached + " }", "cache: on"},
		"a quoted brace":               {"add_header X '{;}'; location / { " + cached + " }", "cache: on"},
	} {
		t.Run(name, func(t *testing.T) {
			got := translate(t, written(t, "http { server { listen 80; server_name example.com; "+c.conf+" } }"))
			if _, err := config.Parse("isr.yaml", []byte(got.Text), os.LookupEnv); err != nil {
				t.Errorf("the file is not valid: %v\n%s", err, got.Text)
			}
			if !strings.Contains(got.Text, c.want) {
				t.Errorf("got\n%s\nwant a line with %q", got.Text, c.want)
			}
		})
	}
}

// TestUncachedStaysUncached: what nginx does not cache, no route caches, and neither do the defaults.
func TestUncachedStaysUncached(t *testing.T) {
	got := translate(t, written(t, `server { server_name example.com; proxy_cache zone; proxy_cache_valid 1m;
		location / { proxy_pass http://127.0.0.1:3000; }
		location /account/ { proxy_cache off; proxy_pass http://127.0.0.1:3000; }
		location ~* "\.(cgi|pl)$" { proxy_cache off; proxy_pass http://127.0.0.1:3000; }
		location /files/ { root /srv; }
	}`))
	file, err := config.Parse("isr.yaml", []byte(got.Text), os.LookupEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range file.Routes {
		if want := r.Match != "/account/"; (r.Cache == "on") != want {
			t.Errorf("%s: cache is %q; want it on: %t", r.Match, r.Cache, want)
		}
	}
	if len(got.Notes) == 0 || !strings.Contains(got.Notes[0].Text, "nginx does not cache this location") {
		t.Errorf("notes: %v; want one that the expression is not translated", got.Notes)
	}
}

// TestNotes: what isr does not do, or does in another way, is noted.
func TestNotes(t *testing.T) {
	for directive, want := range map[string]string{
		"proxy_ignore_headers Set-Cookie":        "never stores a response that sets a cookie",
		"proxy_ignore_headers Cache-Control":     "obeys Cache-Control",
		"proxy_cache_key $request_uri$cookie_ab": "needs the values that a cookie may have, cookies: {ab: [a, b]}",
		"proxy_cache_key $request_uri$mobile":    "does not know $mobile",
		"proxy_cache_bypass $skip":               "does not know $skip",
		"proxy_cache_methods GET POST":           "stores responses to GET alone",
		"proxy_cache_valid 503 1m":               "keeps a response with status 503 only if",
		"auth_basic staff":                       "must go on to check this in front of isr",
		"deny 10.0.0.0/8":                        "must go on to check this in front of isr",
		"slice 1m":                               "isr does not do this",
	} {
		t.Run(directive, func(t *testing.T) {
			got := translate(t, written(t, "server { server_name example.com; location / { proxy_pass http://127.0.0.1:3000; proxy_cache zone; "+directive+"; } }"))
			for _, n := range got.Notes {
				if n.Directive == directive && strings.Contains(n.Text, want) && strings.HasSuffix(n.At, "nginx.conf:1") {
					return
				}
			}
			t.Errorf("notes: %v; want one of %s, with %q", got.Notes, directive, want)
		})
	}
}

// TestErrors: what cannot be read is refused with its place.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct{ conf, want string }{
		"no server":           {"http { }", "has no server"},
		"no site":             {"server { location / { root /srv; } }", "there is no site to cache"},
		"no semicolon":        {"server {\n listen 80 }", ":2: unexpected }; the directive listen needs a semicolon"},
		"no end of the block": {"server { listen 80;", "the block of server in line 1 has no }"},
		"no end of a text":    {"a 'b", "a quoted text has no end"},
		"no end":              {"a b", "ends in the middle of a directive"},
		"no directive":        {"a; ;", "unexpected ;"},
		"a closing brace":     {"a; }", "unexpected }"},
		"no included file":    {"include none.conf;", "does not exist"},
		"itself":              {"include nginx.conf;", "nested more than 32 deep"},
		"too deep":            {strings.Repeat("a {", 100), "nested more than 32 deep"},
		"too many":            {strings.Repeat("a;", 50_001), "more than 50000 directives"},
		"too long":            {strings.Repeat("a", 4<<20+1) + ";", "more than 4 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			conf := written(t, c.conf)
			directives, err := nginx.Read(conf)
			if err == nil {
				_, err = nginx.Translate(directives, conf, today())
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "nginx.conf") {
				t.Errorf("got error %v; want one that names the file, with %q", err, c.want)
			}
		})
	}
}

// FuzzTranslate: any text is refused or translated, to a text without control characters.
func FuzzTranslate(f *testing.F) {
	for _, conf := range []string{"testdata/proxy.conf", "testdata/wordpress.conf"} {
		text, err := os.ReadFile(conf)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(strings.ReplaceAll(string(text), "include", "# include"))
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "include") {
			return // of files of this machine
		}
		conf := written(t, text)
		directives, err := nginx.Read(conf)
		if err != nil {
			return
		}
		got, err := nginx.Translate(directives, conf, today())
		if err != nil {
			return
		}
		if strings.ContainsFunc(got.Text, func(r rune) bool { return r < ' ' && r != '\n' }) {
			t.Errorf("the file has control characters: %q", got.Text)
		}
	})
}
