package config_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/config"
)

func TestPresets(t *testing.T) {
	files, err := os.ReadDir("presets")
	if err != nil || len(files) != len(config.Presets()) {
		t.Fatalf("%d files for %d presets, %v", len(files), len(config.Presets()), err)
	}
	for _, name := range config.Presets() {
		text, ok := config.PresetText(name)
		if !ok || !strings.HasPrefix(text, "# ") {
			t.Errorf("%s: %t %q", name, ok, text)
		}
		// A preset is itself part of a valid file, and has the same effect when it is copied.
		origins := "origins: {site: {url: \"http://a\"}}\n"
		copied, err := config.Parse("isr.yaml", []byte(origins+text), environment)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		applied, err := config.Parse("isr.yaml", []byte(origins+"preset: "+name+"\n"), environment)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if len(copied.Routes) != len(applied.Routes) {
			t.Fatalf("%s: %d routes copied, %d applied", name, len(copied.Routes), len(applied.Routes))
		}
		for i, r := range applied.Routes {
			if c := copied.Routes[i]; r.Match != c.Match || r.Cache != c.Cache || !slices.Equal(r.Query, c.Query) || !slices.Equal(r.IgnoreCookies, c.IgnoreCookies) || len(r.Headers) != len(c.Headers) {
				t.Errorf("%s: route %d is %+v, copied %+v", name, i, r, c)
			}
		}
	}
}

// The presets know the headers by which the scripts of their framework ask for parts of pages: pages
// whose Vary names them are stored, and a visitor cannot make more variants than there are values.
func TestPresetsKnowScriptHeaders(t *testing.T) {
	for _, tt := range []struct{ preset, header, value, key, bypass string }{
		{"rails", "Turbo-Frame", "comments", "a/p#accept=text%2Fhtml&x-requested-with=none", ""},
		{"rails", "X-Requested-With", "XMLHttpRequest", "a/p#accept=text%2Fhtml&x-requested-with=XMLHttpRequest", ""},
		{"django", "HX-Request", "true", "a/p#hx-request=true", ""},
		{"django", "HX-Boosted", "true", "a/p#hx-boosted=true", ""},
		{"django", "HX-History-Restore-Request", "true", "a/p#hx-history-restore-request=true", ""},
		{"django", "X-Requested-With", "XMLHttpRequest", "a/p#x-requested-with=XMLHttpRequest", ""},
		{"django", "HX-Request", "1", "a/p", ""},
		{"laravel", "X-Inertia", "true", "", "header"},
		{"laravel", "X-Requested-With", "XMLHttpRequest", "a/p#x-requested-with=XMLHttpRequest", ""},
		{"laravel", "HX-Request", "true", "a/p#hx-request=true", ""},
		{"laravel", "Turbo-Frame", "comments", "a/p", ""},
		{"next", "RSC", "1", "a/p#rsc=1", ""},
	} {
		f, err := config.Parse("isr.yaml", []byte("preset: "+tt.preset+"\norigins: {site: {url: \"http://a\"}}\n"), environment)
		if err != nil {
			t.Fatal(err)
		}
		at := slices.IndexFunc(f.Routes, func(r config.Route) bool { return r.Match == "/" })
		if at < 0 {
			t.Fatalf("%s: no route / of %d", tt.preset, len(f.Routes))
		}
		rt, err := f.Routes[at].Rules()
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/p", http.NoBody)
		r.Header.Set(tt.header, tt.value)
		e, err := rt.Explain(r)
		if err != nil || e.Key.Text != tt.key || e.Bypass != tt.bypass {
			t.Errorf("%s, %s: %s: key %q, bypass %q, %v; want %q, %q", tt.preset, tt.header, tt.value, e.Key.Text, e.Bypass, err, tt.key, tt.bypass)
		}
	}
}

// Pages of the preset next have the tags by which Next.js revalidates paths, on all routes that cache,
// in addition to the ones that a route declares.
func TestPresetNextHasTagsOfPaths(t *testing.T) {
	f, err := config.Parse("isr.yaml", []byte("preset: next\norigins: {site: {url: \"http://a\"}}\nroutes: [{match: /blog/, tags: [blog]}]\n"), environment)
	if err != nil {
		t.Fatal(err)
	}
	for match, own := range map[string]bool{"/": false, "/blog/": true} {
		at := slices.IndexFunc(f.Routes, func(r config.Route) bool { return r.Match == match })
		rt, err := f.Routes[at].Rules()
		if err != nil {
			t.Fatal(err)
		}
		got := rt.Tags(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://a/blog/rye", http.NoBody))
		for _, tag := range []string{gateway.NextDeploymentTag, "_N_T_/layout", "_N_T_/blog/layout", "_N_T_/blog/rye"} {
			if !slices.Contains(got, tag) {
				t.Errorf("route %s: %q has no %s", match, got, tag)
			}
		}
		if slices.Contains(got, "blog") != own {
			t.Errorf("route %s: %q", match, got)
		}
	}
}

func TestPresetWithOwnRoutes(t *testing.T) {
	f, err := config.Parse("isr.yaml", []byte(`
preset: next
hosts: [example.com, shop.example.com]
origins: {site: {url: "http://a"}}
defaults: {query: [page]}
routes:
  - match: /api/
    headers: {Accept-Language: [en, de]}
  - match: shop.example.com/
    query: [color]
`), environment)
	if err != nil {
		t.Fatal(err)
	}
	routes := make(map[string]config.Route)
	index := make(map[string]int)
	for i, r := range f.Routes {
		routes[r.Match], index[r.Match] = r, i
	}
	if r := routes["/api/"]; r.Cache != "on" || len(r.Headers) != 6 || !slices.Equal(r.Query, []string{"page", "_rsc"}) {
		t.Errorf("own route is %+v", r)
	}
	if r := routes["shop.example.com/"]; !slices.Equal(r.Query, []string{"color", "_rsc"}) || len(r.Headers) != 5 {
		t.Errorf("route of a host is %+v", r)
	}
	for _, match := range []string{"/_next/image", "shop.example.com/_next/image", "shop.example.com/api/"} {
		if routes[match].Cache != "off" {
			t.Errorf("%s is cached: %+v", match, routes[match])
		}
	}
	for path, want := range map[string]string{
		"routes[0].headers": "isr.yaml:8 and preset next",
		"routes[0].query":   "isr.yaml:5 (defaults) and preset next",
		"routes[1].query":   "isr.yaml:10 and preset next",
		"routes[1].headers": "preset next",
		"routes[0].stale":   "preset next",
	} {
		if got := f.Source(path).String(); got != want {
			t.Errorf("%s comes from %s, want %s", path, got, want)
		}
	}
}

// The preset and gateway.Next, of the flag --preset, have the same headers and parameters.
func TestPresetNext(t *testing.T) {
	f, err := config.Parse("isr.yaml", []byte("preset: next\norigins: {site: {url: \"http://a\"}}"), environment)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range f.Routes {
		if r.Cache == "off" {
			continue
		}
		got, err := r.Rules()
		if err != nil {
			t.Fatal(err)
		}
		if want := gateway.Next(isr.Route{}); !slices.Equal(got.Vary, want.Vary) || !slices.Equal(got.Query, want.Query) || got.Stale != want.Stale {
			t.Errorf("route %s of the preset has %q, %q and %s, gateway.Next %q, %q and %s", r.Match, got.Vary, got.Query, got.Stale, want.Vary, want.Query, want.Stale)
		}
	}
}

// TestOfPresetHasNoName: what a preset means without a file is of no file, which hints and refusals would name.
func TestOfPresetHasNoName(t *testing.T) {
	for _, name := range append(config.Presets(), "") {
		f, err := config.OfPreset(name)
		if err != nil || f.Name() != "" || f.Preset != name {
			t.Errorf("%q: %v, of the file %q with the preset %q", name, err, f.Name(), f.Preset)
		}
	}
}
