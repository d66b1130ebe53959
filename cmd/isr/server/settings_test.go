package server

import (
	"reflect"
	"slices"
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
