package sites

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// TestReactRouter makes the requests of React Router's scripts: data of pages, parts of the
// manifest, and forms.
func TestReactRouter(t *testing.T) {
	s := &configured{
		framework: frameworks()["react-router"], program: process.Binary(t, "../.."),
		folder: isrtest.Engine(t, "ISR_TEST_REACT_ROUTER", "built React Router site"),
	}
	t.Parallel()
	s.origin = startSite(t, s.folder)
	t.Run("deferred", func(t *testing.T) { deferred(t, s.behind(t)) })
	t.Run("errors", func(t *testing.T) { loaderErrors(t, s.behind(t)) })
	t.Run("manifest", func(t *testing.T) { routeManifest(t, s.behind(t)) })
	t.Run("data of visitors", func(t *testing.T) { s.dataOfVisitors(t) })
	t.Run("action", func(t *testing.T) { action(t, s.behind(t)) })
}

// deferred requests a page and its data, whose last part comes after the others: all of it is
// stored.
func deferred(t *testing.T, p pair) {
	for _, path := range []string{"/recipes/rye", "/recipes/rye.data"} {
		first := p.through.get(t, path, nil)
		if first.status != 200 || !first.stored() || !strings.Contains(first.body, "Knead, wait, bake.") {
			t.Errorf("%s: status %d (%s)\n%s", path, first.status, first.cacheStatus(), first.body)
		}
		p.sameAgain(t, path, nil, first)
	}
}

// loaderErrors requests a page whose loader fails. The error page of the site passes through, and is
// not stored.
func loaderErrors(t *testing.T, p pair) {
	for _, path := range []string{"/stories/burnt", "/stories/burnt.data"} {
		want := p.direct.get(t, path, nil)
		for range 2 {
			got := p.through.get(t, path, nil)
			if got.status != 500 || got.body != want.body || got.header.Get("X-Remix-Response") != want.header.Get("X-Remix-Response") || got.hit() || got.stored() {
				t.Errorf("%s: status %d (%s), want the error page of the site\n%s", path, got.status, got.cacheStatus(), got.body)
			}
		}
	}
}

// routeManifest requests the routes of some links, for this build and for another one.
func routeManifest(t *testing.T, p pair) {
	page := p.through.get(t, "/stories/rye", nil).body
	version := regexp.MustCompile(`"version": ?"(\w+)"`).FindStringSubmatch(page)
	if version == nil {
		t.Fatalf("no version of the build in\n%s", page)
	}
	p.check(t, want{path: "/__manifest?paths=%2Flogin%2C%2Fnotes&version=" + version[1], status: 200, cached: true})
	p.check(t, want{path: "/__manifest?paths=%2Flogin%2C%2Fnotes&version=none", status: 204, said: "detail=no-freshness"})
}

// dataOfVisitors requests data that depends on the session: every visitor gets his own.
func (s *configured) dataOfVisitors(t *testing.T) {
	p := s.behind(t)
	everyone := s.everyone(t, p.through.address)
	for range 2 {
		for _, v := range everyone {
			for _, path := range []string{"/_root.data", "/account.data"} {
				v.visit(t, path, everyone)
				got := v.get(t, path, nil)
				if v.name != "" && (!strings.Contains(got.body, v.name) || got.hit() || got.stored()) {
					t.Errorf("%s of %q: status %d (%s)\n%s", path, v.name, got.status, got.cacheStatus(), got.body)
				}
			}
		}
	}
}

// action posts a form as a script does: the page shows the change.
func action(t *testing.T, p pair) {
	p.check(t, want{path: "/notes", status: 200, cached: true})
	sent := p.through.post(t, "/notes.data", field{"Origin": p.through.address}, url.Values{"text": {"A note d41e"}})
	if sent.status != http.StatusAccepted || sent.header.Get("Location") != "" || !strings.Contains(sent.body, "/notes") {
		t.Fatalf("the action got status %d, Location %q\n%s", sent.status, sent.header.Get("Location"), sent.body)
	}
	for _, path := range []string{"/notes", "/notes.data"} {
		if got := p.through.get(t, path, nil); !strings.Contains(got.body, "A note d41e") {
			t.Errorf("%s does not show the change: %s", path, got.cacheStatus())
		}
	}
	// A form of another site is refused.
	refused := p.through.post(t, "/notes.data", field{"Origin": "https://other.example"}, url.Values{"text": {"Another's"}})
	if refused.status != http.StatusBadRequest {
		t.Errorf("a form of another site: status %d, want 400", refused.status)
	}
}
