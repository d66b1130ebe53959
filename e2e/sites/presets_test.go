package sites

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// TestPresets serves sites by a configuration file with the preset of their framework, and no
// other setting.
func TestPresets(t *testing.T) {
	for preset, site := range map[string]struct {
		setting, name string // of the site's folder
		wants         []want
		shared        field // a request for / with it gets the page of all visitors
	}{
		"next": {"ISR_TEST_NEXT", "built Next.js site", []want{
			{path: "/", status: 200, cached: true},
			{path: "/articles/rye", status: 200, cached: true},
			{path: "/articles/missing", status: 404, cached: true},
			{path: "/now", status: 200, live: true, said: "detail=private"},
			{path: "/", h: field{"Cookie": "__prerender_bypass=x"}, status: 200, said: "detail=cookie"},
			{path: "/?x=1", status: 200, said: "detail=query"},
			{path: "/api/time", status: 200, live: true, said: "detail=off"},
			{path: "/_next/image?url=%2Fcloth.png&w=64&q=75", status: 200, said: "detail=off"},
		}, field{"Cookie": "_ga=1"}},
		"django": {"ISR_TEST_DJANGO", "built Django site", []want{
			{path: "/", status: 200, live: true, cached: true},
			{path: "/slow/", status: 200, live: true, cached: true},
			{path: "/?page=2", status: 200, live: true, cached: true},
			{path: "/?x=1", status: 200, live: true, said: "detail=query"},
			{path: "/", h: field{"Cookie": "sessionid=x"}, status: 200, live: true, said: "detail=cookie"},
			{path: "/visits/", status: 200, live: true, said: "detail=set-cookie"},
			{path: "/guestbook/", status: 200, live: true, said: "detail=set-cookie"},
			{path: "/admin/", status: 404, said: "detail=off"},
			{path: "/accounts/login/", status: 404, said: "detail=off"},
		}, field{"Cookie": "csrftoken=x"}},
	} {
		t.Run(preset, func(t *testing.T) {
			folder := isrtest.Engine(t, site.setting, site.name)
			t.Parallel()
			origin := startSite(t, folder)
			file := filepath.Join(t.TempDir(), "isr.yaml")
			text := fmt.Sprintf("preset: %s\nlisten: [{address: 127.0.0.1:0}]\nadmin: {address: none}\nstore: {data: %s}\norigins: {site: {url: %q}}\n", preset, t.TempDir(), origin)
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			cmd := exec.Command(process.Binary(t, "../.."), "serve", "--config", file)
			_, address := process.Serve(t, cmd, regexp.MustCompile(`serving (http://127\.0\.0\.1:\d+)`))
			p := pair{newVisitor(address), newVisitor(origin)}
			for _, w := range site.wants {
				p.check(t, w)
			}
			if got := p.through.get(t, "/", site.shared); got.status != 200 || !got.hit() {
				t.Errorf("/ with %v: %d, %s; want a hit", site.shared, got.status, got.cacheStatus())
			}
		})
	}
}
