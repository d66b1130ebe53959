package admin_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// generations renders a page n times, with different content.
func (f *fixture) generations(key string, n int) []admin.Regenerated {
	f.t.Helper()
	var all []admin.Regenerated
	for i := range n {
		f.render = func(w http.ResponseWriter, _ *http.Request) { page(w, fmt.Sprintf("render %d of the page", i)) }
		made, err := f.client().Regenerate(f.t.Context(), regenerate(key))
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, made)
	}
	return all
}

func TestVersions(t *testing.T) {
	f := newFixture(t)
	c := f.client()
	none, err := c.Versions(t.Context(), target("example.com/"))
	if err != nil || none.Key != "example.com/" || len(none.Versions) != 0 {
		t.Errorf("a page that is not stored: %+v, %v", none, err)
	}
	if a := f.ask("GET", "/-/versions?key=example.com/", ""); !strings.Contains(a.text, `"versions":[]`) {
		t.Errorf("none are no list: %s", a.text)
	}
	made := f.generations("example.com/", 4) // three are kept
	kept, err := c.Versions(t.Context(), target("example.com/"))
	if err != nil || len(kept.Versions) != 3 {
		t.Fatalf("%+v, %v", kept, err)
	}
	for i, v := range kept.Versions {
		want := made[len(made)-1-i]
		if v.Generation != want.Generation || v.Current != (i == 0) || v.BodyBytes != want.BodyBytes || v.Status != 200 || v.KeptUntil.IsZero() || len(v.SHA256) != 64 {
			t.Errorf("version %d: %+v; want %s", i, v, want.Generation)
		}
	}
	f.ask("GET", "/-/versions?key=example.com/", "") // checked against the document
}

// Rollback and unpin need no cache.
func TestRollback(t *testing.T) {
	for name, cfg := range map[string]func(*fixture) admin.Config{
		"running server": func(f *fixture) admin.Config { return admin.Config{Cache: f.cache} },
		"store itself":   func(*fixture) admin.Config { return admin.Config{} },
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			made := f.generations("example.com/", 3)
			server := cfg(f)
			f.serve(server)
			c := f.client()

			back, err := c.Rollback(t.Context(), admin.Rollback{Target: target("example.com/")})
			if err != nil || back.Generation != made[1].Generation || back.State != "fresh" || !back.PinnedUntil.Equal(store.Forever()) {
				t.Fatalf("to the one before: %+v, %v; want %s", back, err, made[1].Generation)
			}
			back, err = c.Rollback(t.Context(), admin.Rollback{Target: target("example.com/"), To: made[0].Generation, PinSeconds: 7200})
			if left := time.Until(back.PinnedUntil); err != nil || back.Generation != made[0].Generation || left < 2*time.Hour-time.Minute || left > 2*time.Hour+time.Second {
				t.Errorf("to the first, for two hours: %+v, %v", back, err)
			}
			p, err := c.Page(t.Context(), target("example.com/"))
			if err != nil || p.Generation != made[0].Generation || p.PinnedUntil.IsZero() || p.BodyProblem != "" {
				t.Errorf("stored: %+v, %v", p, err)
			}
			kept, err := c.Versions(t.Context(), target("example.com/"))
			if err != nil || len(kept.Versions) != 3 || !kept.Versions[2].Current || kept.Versions[2].PinnedUntil.IsZero() {
				t.Errorf("versions: %+v, %v", kept, err)
			}
			free, err := c.Unpin(t.Context(), target("example.com/"))
			if err != nil || free.Generation != made[0].Generation || !free.PinnedUntil.IsZero() {
				t.Errorf("unpinned: %+v, %v", free, err)
			}
			pinned, err := c.Pin(t.Context(), admin.Pin{Target: target("example.com/"), Seconds: 60})
			if err != nil || time.Until(pinned.PinnedUntil) > 61*time.Second || pinned.PinnedUntil.IsZero() {
				t.Errorf("pinned: %+v, %v", pinned, err)
			}
			for _, action := range []string{"rollBackPage", "unpinPage", "pinPage"} {
				if !strings.Contains(f.log.String(), `"action":"`+action+`","target":"example.com/","result":"ok"`) {
					t.Errorf("no audit line of %s", action)
				}
			}
		})
	}
}

// Visitors of this server get the older generation at once.
func TestRollbackIsServed(t *testing.T) {
	f := newFixture(t)
	f.generations("example.com/", 2)
	site := f.site()
	if got := visit(t, site); got != "render 1 of the page" {
		t.Fatalf("before: %q", got)
	}
	if a := f.ask("POST", "/-/rollback", `{"key":"example.com/"}`); a.status != 200 {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if got := visit(t, site); got != "render 0 of the page" {
		t.Errorf("after: %q", got)
	}
}

// site sends a request of a visitor to the cache.
func (f *fixture) site() http.Handler {
	return f.cache.Handler(isr.Route{Name: "visited", Revalidate: time.Minute}, http.NotFoundHandler())
}

func visit(t *testing.T, site http.Handler) string {
	t.Helper()
	w := httptest.NewRecorder()
	site.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "http://example.com/", http.NoBody))
	return w.Body.String()
}

// Each failure of a rollback or pin has its own status and code.
func TestRollbackFails(t *testing.T) {
	f := newFixture(t)
	refused := func(path, body string, status int, code, hint string) {
		t.Helper()
		a := f.ask("POST", path, body)
		if a.status != status || a.code != code || !strings.Contains(a.text, hint) {
			t.Errorf("POST %s %s: %d %s; want %d %s, with %q", path, body, a.status, a.text, status, code, hint)
		}
	}
	const page = `"key":"example.com/"`
	refused("/-/rollback", `{`+page+`}`, 404, "no_version", "--history N")
	refused("/-/pin", `{`+page+`}`, 404, "no_version", "isr regenerate")
	refused("/-/unpin", `{`+page+`}`, 404, "no_version", "isr regenerate")
	made := f.generations("example.com/", 2)
	refused("/-/rollback", `{`+page+`,"to":"2020"}`, 404, "no_version", "isr versions")
	refused("/-/rollback", `{`+page+`,"to":"2"}`, 404, "no_version", "isr versions") // both match
	refused("/-/rollback", `{`+page+`,"pin_seconds":-1}`, 400, "invalid_request", "between 1 and 315360000 seconds")
	refused("/-/pin", `{`+page+`,"seconds":315360001}`, 400, "invalid_request", "315360000")
	refused("/-/rollback", `{}`, 400, "invalid_request", "either url or key")
	refused("/-/unpin", `{`+page+`,"seconds":1}`, 400, "invalid_request", "seconds")

	if err := f.bodies.Delete(t.Context(), made[0].Body); err != nil {
		t.Fatal(err)
	}
	refused("/-/rollback", `{`+page+`}`, 409, "no_body", "another generation")
}

// Regenerate refuses a pinned page.
func TestRegenerateOfPinnedPage(t *testing.T) {
	f := newFixture(t)
	f.generations("example.com/", 2)
	if _, err := f.client().Rollback(t.Context(), admin.Rollback{Target: target("example.com/")}); err != nil {
		t.Fatal(err)
	}
	_, err := f.client().Regenerate(t.Context(), regenerate("example.com/"))
	var failed *admin.Error
	if !errors.As(err, &failed) || failed.Status != 409 || failed.Code != "pinned" || !strings.Contains(failed.Hint, "--unpin") {
		t.Errorf("%v; want that it is pinned", err)
	}
	var p admin.Regenerated
	a := f.ask("POST", "/-/regenerate", `{"key":"example.com/","unpin":true}`)
	if err := json.Unmarshal([]byte(a.text), &p); err != nil || !p.PinnedUntil.IsZero() || a.status != 200 {
		t.Errorf("%d %s, %v; want the page, unpinned", a.status, a.text, err)
	}
}
