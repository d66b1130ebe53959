package server

import (
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"

	"github.com/facetheory/isr/internal/config"
)

// parse parses the flags of isr serve.
func parse(t *testing.T, args ...string) (*ServeCommand, given) {
	t.Helper()
	var grammar struct {
		Serve ServeCommand `cmd:""`
	}
	parser, err := kong.New(&grammar, kong.DefaultEnvars("ISR_TEST_FLAGS"))
	if err != nil {
		t.Fatal(err)
	}
	k, err := parser.Parse(append([]string{"serve"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	return &grammar.Serve, givenFlags(k)
}

// Each preset does the same as a flag as it does in a file.
func TestPresetsAsFlags(t *testing.T) {
	for _, name := range config.Presets() {
		c, g := parse(t, "--origin", "http://127.0.0.1:3000", "--preset", name)
		got, err := c.read(g)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		want, err := config.Parse("isr.yaml", []byte("preset: "+name+"\norigins: {site: {url: http://127.0.0.1:3000}}\n"), func(string) (string, bool) { return "", false })
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(got.Routes, want.Routes) || !slices.Equal(got.Origins["site"].URL, want.Origins["site"].URL) || got.Origins["site"].Demo {
			t.Errorf("%s: as flags %+v\nin a file %+v", name, got.Routes, want.Routes)
		}
	}
}

// Flags change what the preset sets, and add to its lists.
func TestFlagsBesidePreset(t *testing.T) {
	c, g := parse(t, "--demo", "--preset", "wordpress", "--revalidate", "5m", "--query", "lang", "--stale", "0")
	f, err := c.read(g)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(f.Routes, func(r config.Route) bool { return r.Match == "/" })
	r := f.Routes[i]
	if r.Revalidate != config.Fixed(5*time.Minute) || *r.Stale != 0 || !slices.Contains(r.Query, "lang") || !slices.Contains(r.Query, "paged") || len(r.Reject.With) == 0 {
		t.Errorf("got %+v", r.Settings)
	}
	if !f.Origins["site"].Demo {
		t.Error("the origin is not the demonstration site")
	}
	if i := slices.IndexFunc(f.Routes, func(r config.Route) bool { return r.Match == "/cart/" }); i < 0 || f.Routes[i].Cache != "off" {
		t.Errorf("/cart/ is not off: %+v", f.Routes)
	}
}

// Hints and errors name a setting in the way in which it was set.
func TestNamedSettings(t *testing.T) {
	t.Setenv("ISR_TEST_FLAGS_JITTER", "0.7")
	t.Setenv("ISR_TEST_FLAGS_QUERY", "page")
	c, g := parse(t, "--origin", "http://127.0.0.1:3000", "--revalidate", "60s")
	_, err := c.prepare(g)
	if err == nil || !strings.Contains(err.Error(), "ISR_TEST_FLAGS_JITTER must be") || strings.Contains(err.Error(), "--jitter") {
		t.Errorf("the error is %v", err)
	}
	file, err := c.FileOfFlags(g)
	if err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"revalidate": "--revalidate", "query": "ISR_TEST_FLAGS_QUERY", "headers": "--vary", "ignore_query": ""} {
		if got := g.naming(setting, file); got != want {
			t.Errorf("without a file, %s is named %q, want %q", setting, got, want)
		}
	}

	path := filepath.Join(t.TempDir(), "isr.yaml")
	if err := os.WriteFile(path, []byte("origins: {site: {url: \"http://127.0.0.1:3000\"}}\ndefaults:\n  revalidate: 60s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("ISR_TEST_FLAGS_JITTER", "0.1")
	c, g = parse(t, "--config", path)
	if file, err = c.read(g); err != nil {
		t.Fatal(err)
	}
	for setting, want := range map[string]string{"revalidate": path + ":3", "query": "ISR_TEST_FLAGS_QUERY", "ignore_cookies": ""} {
		if got := g.naming(setting, file); got != want {
			t.Errorf("with a file, %s is named %q, want %q", setting, got, want)
		}
	}
}
