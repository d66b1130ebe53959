package sites

import (
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
)

// TestWordPressPurges goes the way of a stranger: isr init writes a file for the site, whose webhook is taken out of its
// comments, and the plugin of docs/webhooks.md sends the purges. What an editor publishes, changes and withdraws is then
// seen at once, on the post and on the lists that name it.
func TestWordPressPurges(t *testing.T) {
	folder := isrtest.Engine(t, "ISR_TEST_WORDPRESS", "WordPress site")
	t.Parallel()
	const secret = "0123456789abcdef0123456789abcdef"
	dir := t.TempDir()
	admin, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "isr-hook.secret"), secret)
	write(t, filepath.Join(dir, "isr.php"), strings.Replace(documentedPlugin(t), "127.0.0.1:9180", admin, 1))
	site := startSite(t, folder, "BAKERY_PLUGIN="+filepath.Join(dir, "isr.php"), "BAKERY_SECRET="+secret)

	program := process.Binary(t, "../..")
	command := func(arguments ...string) *exec.Cmd {
		cmd := exec.Command(program, arguments...)
		cmd.Dir = dir
		return cmd
	}
	if out, err := command("init", site, "--no-test").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "isr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, hook, _ := strings.Cut(string(text), "# triggers:\n")
	before = strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "# revalidate: 1m", "revalidate: 1h").Replace(before)
	write(t, filepath.Join(dir, "isr.yaml"), before+"triggers:\n"+strings.ReplaceAll(hook, "#  ", "  ")+"admin: {address: "+admin+"}\n")
	server, address := process.Serve(t, command("serve", "--config", "isr.yaml", "--store-timeout", "10s"), regexp.MustCompile(`serving (http://127\.0\.0\.1:\d+)`))

	reader, editor := newVisitor(address), newBrowser(t, address)
	pages := []string{"/?p=1", "/"}
	for _, page := range pages {
		server.Await(t, page+" is in the cache", time.Minute, func() bool { return reader.get(t, page, nil).hit() })
	}
	editor.post(t, "/wp-login.php", field{"Cookie": "wordpress_test_cookie=WP%20Cookie%20check"}, url.Values{"log": {"admin"}, "pwd": {"only-for-tests"}, "testcookie": {"1"}})
	nonce := regexp.MustCompile(`createNonceMiddleware\( "([^"]+)"`).FindStringSubmatch(editor.get(t, "/wp-admin/post-new.php", nil).body)
	if nonce == nil {
		t.Fatal("the editor did not get the page of a new post")
	}
	change := func(method, body string) {
		t.Helper()
		a := editor.do(t, method, "/index.php?rest_route=/wp/v2/posts/1", field{"X-WP-Nonce": nonce[1], "Content-Type": "application/json"}, body)
		if a.status != http.StatusOK {
			t.Fatalf("%s: %d\n%s", method, a.status, a.body)
		}
	}
	change(http.MethodPost, `{"title": "Spelt bread"}`)
	for _, page := range pages {
		server.Await(t, page+" is new and in the cache", time.Minute, func() bool {
			a := reader.get(t, page, nil)
			return a.hit() && strings.Contains(a.body, "Spelt bread")
		})
	}
	if !strings.Contains(server.Log(), `targets="[tag post-1 tag lists]"`) {
		t.Errorf("there was no purge by the webhook:\n%s", server.Log())
	}
	change(http.MethodDelete, "")
	server.Await(t, "the post is gone", time.Minute, func() bool {
		list := reader.get(t, "/", nil)
		return reader.get(t, "/?p=1", nil).status == http.StatusNotFound && list.hit() && !strings.Contains(list.body, "Spelt bread")
	})
}

// documentedPlugin returns the plugin of docs/webhooks.md.
func documentedPlugin(t *testing.T) string {
	t.Helper()
	page, err := os.ReadFile("../../docs/webhooks.md")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile("(?s)```php\n(.*?)```").FindSubmatch(page)
	if found == nil {
		t.Fatal("docs/webhooks.md has no plugin")
	}
	return string(found[1])
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
