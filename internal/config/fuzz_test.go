package config_test

import (
	"errors"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/config"
)

// FuzzParse checks that no text panics or hangs, that errors have a place within the file and
// are at most 50, and that valid files have effective settings.
func FuzzParse(f *testing.F) {
	f.Add("origins: {a: {url: \"http://a\"}}\nroutes: [{match: \"GET /{x}/\", tags: \"t-{x}\"}]")
	f.Add("a: &a [*a, *a]\norigins: *a")
	f.Add("origins:\n  a: &o {url: http://a}\n  b: *o\ndefaults: {origin: a, stale: ${TOKEN}}\n")
	f.Add("x: !!str |\n  a\n? [b]\n: c\n<<: {}\n---\n")
	f.Fuzz(func(t *testing.T, text string) {
		began := time.Now()
		file, err := config.Parse("isr.yaml", []byte(text), environment)
		if took := time.Since(began); took > time.Minute {
			t.Errorf("took %s for %d bytes", took, len(text))
		}
		var all *config.Errors
		switch {
		case err == nil:
			for _, r := range file.Routes {
				if r.Origin == "" || r.Policy == "" || r.Cache == "" {
					t.Errorf("route without an effective setting: %+v", r)
				}
			}
		case !errors.As(err, &all) || len(all.List) == 0 || len(all.List) > 50:
			t.Errorf("got %T: %v", err, err)
		}
	})
}
