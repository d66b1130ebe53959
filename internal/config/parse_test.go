package config_test

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/config"
)

// environment is the environment of the tests.
func environment(name string) (string, bool) {
	value, ok := map[string]string{
		"TOKEN": "hunter2-secret", "EMPTY": "", "MEMORY": "64MiB", "COLON": "a: b\nc: d", "GIT_COMMIT": "abc123",
		"SHOP_HOOK_SECRET": "hunter2-hook", "ISR_KEY_ID": "AKIA",
	}[name]
	return value, ok
}

func TestParse(t *testing.T) {
	f, err := config.Parse("isr.yaml", []byte(`
listen:
  - address: :8080
    trusted_proxies: [private]
hosts: [example.com, www.example.com]
store: {table: pages, bucket: my-pages, region: eu-west-1}
memory: ${MEMORY}
build: ${COMMIT:-none}
admin: {token: "${TOKEN}"}
origins:
  site: {url: http://127.0.0.1:3000, max_renders: 8, health: {path: /healthz}}
defaults:
  stale: 2d
  query: page
  revalidate: auto 30s to 1h
routes:
  - match: GET /blog/{slug}
    revalidate: 5m
    stale: 1d
    tags: ["post-{slug}"]
    headers: {Accept-Language: [en, de], X-Device: }
    negative: {404: 1m}
    reject: {smaller_than: 50%, without: "</html>"}
  - match: /account/
    cache: off
`), environment)
	if err != nil {
		t.Fatal(err)
	}
	if got := f.Memory; got != 64<<20 {
		t.Errorf("memory is %d", got)
	}
	if f.Build != "none" {
		t.Errorf("build is %q", f.Build)
	}
	if got, err := f.Admin.Token.Read(); got != "hunter2-secret" || err != nil {
		t.Errorf("token is %q, %v", got, err)
	}
	site := f.Origins["site"]
	if site.MaxRenders != 8 || site.BreakerFailures != 10 || site.Health.Interval != 5*time.Second {
		t.Errorf("origin is %+v", site)
	}
	if len(f.Routes) != 3 {
		t.Fatalf("got %d routes", len(f.Routes))
	}
	blog, account, rest := f.Routes[0], f.Routes[1], f.Routes[2]
	if blog.Revalidate != config.Fixed(5*time.Minute) || *blog.Stale != 24*time.Hour || *blog.Negative.NotFound != time.Minute || blog.Reject.SmallerThan != 0.5 || blog.Reject.Without[0] != "</html>" {
		t.Errorf("blog is %+v", blog)
	}
	if len(blog.Headers) != 2 || blog.Headers[0].Values[1] != "de" || blog.Headers[1].Name != "X-Device" || blog.Headers[1].Values != nil {
		t.Errorf("headers are %+v", blog.Headers)
	}
	if account.Cache != "off" || *account.Stale != 48*time.Hour || account.Origin != "site" {
		t.Errorf("account is %+v", account)
	}
	if rest.Match != "/" || rest.Revalidate != (config.Window{Min: 30 * time.Second, Max: time.Hour}) || rest.Cache != "on" || rest.Query[0] != "page" {
		t.Errorf("the rest is %+v", rest)
	}
	for path, want := range map[string]string{
		"routes[0].revalidate":   "isr.yaml:18",
		"routes[1].stale":        "isr.yaml:13 (defaults)",
		"routes[2].query":        "isr.yaml:14 (defaults)",
		"routes[1].jitter":       "built-in",
		"routes[0].negative.404": "isr.yaml:22",
		"memory":                 "isr.yaml:7",
		"lease":                  "built-in",
	} {
		if got := f.Source(path).String(); got != want {
			t.Errorf("%s comes from %s, want %s", path, got, want)
		}
	}
}

// Port 0 is a free port each time: addresses with it are not the same.
func TestFreePorts(t *testing.T) {
	const text = `
listen: [{address: 127.0.0.1:0}, {address: 127.0.0.1:0}]
admin: {address: 127.0.0.1:0}
origins: {site: {demo: true}}`
	if _, err := config.Parse("isr.yaml", []byte(text), environment); err != nil {
		t.Error(err)
	}
}

// A colon without a space after it is part of a text, also within [] and {} (YAML 1.2, section 7.3.3).
func TestColonsInFlow(t *testing.T) {
	const text = `origins: {site: {url: [http://127.0.0.1:3000, http://127.0.0.1:3001]}}
routes: [{match: example.com:8080/, tags: [a:b]}]
hosts: [example.com:8080]`
	f, err := config.Parse("isr.yaml", []byte(text), environment)
	if err != nil {
		t.Fatal(err)
	}
	if urls := f.Origins["site"].URL; len(urls) != 2 || urls[0] != "http://127.0.0.1:3000" || f.Routes[0].Tags[0] != "a:b" {
		t.Errorf("the URLs are %v, the route is %+v", urls, f.Routes[0])
	}
}
