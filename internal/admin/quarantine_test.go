package admin_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// code returns the code of an error of the API.
func code(err error) string {
	if e := (*admin.Error)(nil); errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// A rejected generation is listed, compared and accepted, by a running server and without
// one.
func TestQuarantine(t *testing.T) {
	for name, cfg := range map[string]func(*fixture) admin.Config{
		"running server": func(f *fixture) admin.Config { return admin.Config{Cache: f.cache} },
		"no server":      func(*fixture) admin.Config { return admin.Config{} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			rejecting := f.node()
			site := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { f.render(w, r) })
			rejecting.Handler(isr.Route{Name: "site", Revalidate: time.Minute, History: 3, Reject: isr.Reject{SmallerThan: 0.5}}, site)
			k := target("example.com/")
			f.render = func(w http.ResponseWriter, _ *http.Request) { page(w, "good "+strings.Repeat("page ", 100)) }
			if _, err := f.client().Regenerate(t.Context(), regenerate("example.com/")); err != nil {
				t.Fatal(err)
			}
			f.serve(cfg(f))
			c := f.client()
			if _, err := c.AcceptQuarantined(t.Context(), admin.QuarantineChoice{Target: k}); code(err) != "not_quarantined" {
				t.Errorf("nothing is in quarantine: %v", err)
			}
			f.render = func(w http.ResponseWriter, _ *http.Request) { page(w, "small") }
			if _, err := rejecting.Regenerate(t.Context(), store.Key{Text: "example.com/"}); err == nil {
				t.Fatal("a small page was accepted")
			}
			var all []admin.Quarantined
			for q, err := range c.Quarantine(t.Context()) {
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, q)
			}
			if len(all) != 1 || all[0].Key != "example.com/" || all[0].BodyBytes != 5 || !strings.Contains(all[0].Reason, "5 bytes") || all[0].KeptUntil.IsZero() {
				t.Fatalf("%+v", all)
			}
			d, err := c.DiffQuarantined(t.Context(), k)
			if err != nil || !strings.Contains(d.Body, "+small") || d.To.Generation != all[0].Generation {
				t.Errorf("%+v, %v", d, err)
			}
			if _, err := c.AcceptQuarantined(t.Context(), admin.QuarantineChoice{Target: k, Generation: "1"}); code(err) != "not_quarantined" {
				t.Errorf("another generation: %v", err)
			}
			p, err := c.AcceptQuarantined(t.Context(), admin.QuarantineChoice{Target: k, Generation: all[0].Generation})
			if err != nil || p.Generation != all[0].Generation || p.BodyBytes != 5 {
				t.Fatalf("%+v, %v", p, err)
			}
			if shown, err := c.Page(t.Context(), k); err != nil || shown.Generation != all[0].Generation {
				t.Errorf("%+v, %v", shown, err)
			}
			if d, err := c.DropQuarantined(t.Context(), k); err != nil || d.Key != "example.com/" {
				t.Errorf("%+v, %v", d, err)
			}
			f.ask("GET", "/-/quarantine", "") // checked against the document
		})
	}
}
