package sites

import (
	"encoding/json"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
)

const (
	hookSecret  = "0123456789abcdef0123456789abcdef"
	draftSecret = "fedcba9876543210fedcba9876543210"
)

// A wordpress is a WordPress site with the plugin of integrations/wordpress, behind isr with the file that isr init has
// written for it.
type wordpress struct {
	t           *testing.T
	site, admin string // addresses, without isr and of the admin API
	server      *process.Process
	reader      *visitor
	editor      *visitor // has logged in as administrator
	nonce       string   // of the REST API
	during      string   // a file: the plugin waits for isr as long as it does by itself, and not for longer, while it exists
}

func startWordPress(t *testing.T) *wordpress {
	t.Helper()
	folder := isrtest.Engine(t, "ISR_TEST_WORDPRESS", "WordPress site")
	t.Parallel()
	dir := t.TempDir()
	admin, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	w := &wordpress{t: t, admin: "http://" + admin}
	w.during = filepath.Join(dir, "outage")
	w.site = startSite(t, folder, "BAKERY_ISR=1", "BAKERY_ISR_DRAFT_SECRET="+draftSecret, "BAKERY_OUTAGE="+w.during)
	write(t, filepath.Join(dir, "isr-hook.secret"), hookSecret)
	write(t, filepath.Join(dir, "isr-draft.secret"), draftSecret)
	program := process.Binary(t, "../..")
	command := func(arguments ...string) *exec.Cmd {
		cmd := exec.Command(program, arguments...)
		cmd.Dir = dir
		return cmd
	}
	if out, err := command("init", w.site, "--no-test").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(filepath.Join(dir, "isr.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	before, hook, _ := strings.Cut(string(text), "# triggers:\n")
	before = strings.NewReplacer("127.0.0.1:8080", "127.0.0.1:0", "# revalidate: 1m", "revalidate: 1h",
		"# draft: {secrets: [{file: /run/secrets/isr-draft}]}", "draft: {secrets: [{file: isr-draft.secret}]}").Replace(before)
	write(t, filepath.Join(dir, "isr.yaml"), before+"triggers:\n"+strings.ReplaceAll(hook, "#  ", "  ")+"admin: {address: "+admin+"}\n")
	var address string
	w.server, address = process.Serve(t, command("serve", "--config", "isr.yaml", "--store-timeout", "10s"), regexp.MustCompile(`serving (http://127\.0\.0\.1:\d+)`))
	w.reader, w.editor = newVisitor(address), newBrowser(t, address)
	w.login(w.editor, "admin")
	w.nonce = w.match(w.editor.get(t, "/wp-admin/post-new.php", nil).body, `createNonceMiddleware\( "([^"]+)"`)
	return w
}

func (w *wordpress) login(v *visitor, user string) {
	w.t.Helper()
	v.post(w.t, "/wp-login.php", field{"Cookie": "wordpress_test_cookie=WP%20Cookie%20check"}, url.Values{"log": {user}, "pwd": {"only-for-tests"}, "testcookie": {"1"}})
}

func (w *wordpress) match(text, pattern string) string {
	w.t.Helper()
	found := regexp.MustCompile(pattern).FindStringSubmatch(text)
	if found == nil {
		w.t.Fatalf("%s is not in %.4000s", pattern, text)
	}
	return html.UnescapeString(found[1])
}

// rest calls the REST API as the editor does, and decodes the answer.
func (w *wordpress) rest(method, path, body string) map[string]any {
	w.t.Helper()
	a := w.editor.do(w.t, method, "/index.php?rest_route=/wp/v2/"+path, field{"X-WP-Nonce": w.nonce, "Content-Type": "application/json"}, body)
	var out map[string]any
	if err := json.Unmarshal([]byte(a.body), &out); err != nil || a.status/100 != 2 {
		w.t.Fatalf("%s %s: %d\n%s", method, path, a.status, a.body)
	}
	return out
}

// act sends a form of the settings page, and returns the notices that follow.
func (w *wordpress) act(action string, form url.Values) string {
	w.t.Helper()
	const page = "/wp-admin/options-general.php?page=isr"
	nonce := w.match(w.editor.get(w.t, page, nil).body, `(?s)name="action" value="isr_`+action+`">.*?name="_wpnonce" value="([^"]+)"`)
	all := url.Values{"action": {"isr_" + action}, "_wpnonce": {nonce}}
	for name, value := range form {
		all[name] = value
	}
	if a := w.editor.post(w.t, "/wp-admin/admin-post.php", nil, all); a.status/100 != 3 && a.status != http.StatusOK {
		w.t.Fatalf("%s: %d\n%s", action, a.status, a.body)
	}
	return w.notices(page)
}

// notices returns the plugin's notices of a page.
func (w *wordpress) notices(page string) string {
	w.t.Helper()
	var all []string
	for _, found := range regexp.MustCompile(`(?s)class="notice notice-[a-z]+ isr-notice"><p>(.*?)</p>`).FindAllStringSubmatch(w.editor.get(w.t, page, nil).body, -1) {
		all = append(all, html.UnescapeString(found[1]))
	}
	return strings.Join(all, "\n")
}

// expect waits until visitors get a page from the cache that is as the test wants it, and returns how long that took.
func (w *wordpress) expect(page, what string, want func(answer) bool) time.Duration {
	w.t.Helper()
	began := time.Now()
	w.server.Await(w.t, page+": "+what, time.Minute, func() bool { return want(w.reader.get(w.t, page, nil)) })
	return time.Since(began)
}

func hitWith(text string) func(answer) bool {
	return func(a answer) bool { return a.hit() && strings.Contains(a.body, text) }
}

func hitWithout(text string) func(answer) bool {
	return func(a answer) bool { return a.hit() && !strings.Contains(a.body, text) }
}

// purges returns the targets of the last purge by webhook, without what all of them have.
func (w *wordpress) purges() []string {
	w.t.Helper()
	all := regexp.MustCompile(`purged by webhook.* targets="?\[([^\]]*)\]`).FindAllStringSubmatch(w.server.Log(), -1)
	if len(all) == 0 {
		w.t.Fatalf("there was no purge by the webhook:\n%s", w.server.Log())
	}
	var targets []string
	for _, target := range strings.Split(strings.ReplaceAll(all[len(all)-1][1], "key ", "tag "), "tag ") {
		if target = strings.TrimSpace(target); target != "" && target != "many" {
			targets = append(targets, target)
		}
	}
	return targets
}

// TestWordPressPlugin goes the way of a stranger: isr init writes a file for the site, the plugin gets address and secret in
// its settings, whose connection test says what is wrong, and what an editor changes is new for visitors, wherever it is
// shown.
func TestWordPressPlugin(t *testing.T) {
	w := startWordPress(t)
	w.connect()
	w.editor.post(t, "/wp-admin/options-permalink.php", nil, url.Values{
		"_wpnonce":            {w.match(w.editor.get(t, "/wp-admin/options-permalink.php", nil).body, `name="_wpnonce" value="([^"]+)"`)},
		"permalink_structure": {"/%postname%/"}, "selection": {"/%postname%/"},
	})
	w.publish()
	w.comment()
	w.outage()
	w.button()
	w.preview()

	// Options of the site are on all pages.
	w.rest(http.MethodPost, "settings", `{"title": "Mill and oven"}`)
	w.expect("/sample-page/", "has the new name of the site", hitWith("Mill and oven"))

	var left []string
	a := w.editor.get(t, "/wp-admin/admin-ajax.php?action=bakery_uninstall", nil)
	if err := json.Unmarshal([]byte(a.body), &left); err != nil || len(left) > 0 {
		t.Errorf("uninstalling leaves %s", a.body)
	}
}

// connect sets address and secret, and tries each mistake with the connection test.
func (w *wordpress) connect() {
	t := w.t
	t.Helper()
	closed, err := testbed.FreeAddress()
	if err != nil {
		t.Fatal(err)
	}
	another := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(another.Close)
	for _, step := range []struct {
		address, secret, want string
	}{
		{"", hookSecret, "address of isr is not set"},
		{"http://user@127.0.0.1", "", "has a user"},
		{w.admin, "short", "has 5 bytes; isr accepts 16 to 1024"},
		{"http://" + closed, "", "Nothing listens there"},
		{another.URL, "", "that of another server"},
		{w.admin + "/-/hooks/shop", "", "isr has no such hook. Name it wordpress"},
		{strings.Replace(w.admin, "http:", "https:", 1), "", "TLS failed"},
		{w.admin, "another secret of 16 bytes", "The secret is wrong"},
		{w.admin, hookSecret, "isr answers, the secret is right"},
	} {
		got := w.act("save", url.Values{"isr_url": {step.address}, "isr_secret": {step.secret}})
		if strings.Contains(got, "Saved") {
			got = w.act("test", nil)
		}
		if !strings.Contains(got, step.want) {
			t.Errorf("%s %s: got the notice %q; want %q", step.address, step.secret, got, step.want)
		}
	}
	if page := w.editor.get(t, "/wp-admin/options-general.php?page=isr", nil).body; strings.Contains(page, hookSecret) || strings.Contains(page, draftSecret) {
		t.Error("the settings page shows a secret")
	}
}

// publish publishes, changes and withdraws a post.
func (w *wordpress) publish() {
	t := w.t
	t.Helper()
	lists := []string{"/", "/category/uncategorized/", "/feed/", "/author/admin/"}
	for _, page := range append([]string{"/sample-page/", "/hello-world/"}, lists...) {
		w.expect(page, "is in the cache", answer.hit)
	}
	id := w.rest(http.MethodPost, "posts", `{"title": "Spelt bread", "slug": "spelt", "status": "publish"}`)["id"]
	for _, page := range lists {
		t.Logf("published: new on %s after %s", page, w.expect(page, "lists the new post", hitWith("Spelt bread")))
	}
	w.expect("/spelt/", "is in the cache", hitWith("Spelt bread"))
	got := w.purges()
	for _, want := range []string{fmt.Sprintf("post:%v", id), "home", "feed", "term:1", "author:1", "list:post", "post:1"} { // themes link the post before
		if !slices.Contains(got, want) {
			t.Errorf("publishing purges %q; want %s too", got, want)
		}
	}
	if slices.Contains(got, "site") {
		t.Errorf("publishing purges %q: all pages", got)
	}
	w.rest(http.MethodPost, fmt.Sprintf("posts/%v", id), `{"title": "Emmer bread"}`)
	for _, page := range append([]string{"/spelt/"}, lists...) {
		w.expect(page, "has the new title", hitWith("Emmer bread"))
	}
	if got := w.purges(); !slices.Equal(got, []string{fmt.Sprintf("post:%v", id)}) {
		t.Errorf("a new title purges %q; want the pages that show the post", got)
	}
	w.rest(http.MethodDelete, fmt.Sprintf("posts/%v", id), "")
	for _, page := range lists {
		w.expect(page, "no longer lists the post", hitWithout("Emmer bread"))
	}
	w.expect("/spelt/", "is gone", func(a answer) bool { return a.status == http.StatusNotFound })
}

// comment holds a comment back, and approves it.
func (w *wordpress) comment() {
	w.t.Helper()
	id := w.rest(http.MethodPost, "comments", `{"post": 1, "content": "Well baked", "status": "hold"}`)["id"]
	w.expect("/hello-world/", "is in the cache", answer.hit)
	w.rest(http.MethodPost, fmt.Sprintf("comments/%v", id), `{"status": "approved"}`)
	w.expect("/hello-world/", "shows the comment", hitWith("Well baked"))
	if got := w.purges(); !slices.Equal(got, []string{"comments", "post:1"}) {
		w.t.Errorf("approving a comment purges %q", got)
	}
}

// outage changes a post while isr is not reached: the editor does not wait, administrators see why, and no purge is lost.
func (w *wordpress) outage() {
	t := w.t
	t.Helper()
	hanging := startRelay(t, w.admin)
	if got := w.act("save", url.Values{"isr_url": {"http://" + hanging.Addr().String()}}); !strings.Contains(got, "Saved") {
		t.Fatalf("saving the address: %q", got)
	}
	write(t, w.during, "")
	began := time.Now()
	w.rest(http.MethodPost, "posts/1", `{"title": "Rye and salt"}`)
	first := time.Since(began)
	began = time.Now()
	w.rest(http.MethodPost, "posts/1", `{"title": "Rye and caraway"}`)
	if n := hanging.requests.Load(); n != 1 {
		t.Errorf("two changes in a minute have waited for isr %d times", n)
	}
	t.Logf("isr hangs: the first save took %s, the second %s", first, time.Since(began))
	if got := w.notices("/wp-admin/"); !strings.Contains(got, "pages were not purged") || !strings.Contains(got, "No answer in time") {
		t.Errorf("the notice of an outage is %q", got)
	}
	author := newBrowser(t, w.editor.address)
	w.login(author, "Ann")
	if a := author.get(t, "/wp-admin/", nil); a.status != http.StatusOK || strings.Contains(a.body, "isr-notice") {
		t.Errorf("an author gets %d, and the notice: %v", a.status, strings.Contains(a.body, "isr-notice"))
	}
	if a := author.post(t, "/wp-admin/admin-post.php", nil, url.Values{"action": {"isr_purge_all"}}); a.status != http.StatusForbidden {
		t.Errorf("an author purges all pages: %d", a.status)
	}
	if a := w.editor.post(t, "/wp-admin/admin-post.php", nil, url.Values{"action": {"isr_purge_all"}}); a.status != http.StatusForbidden {
		t.Errorf("a form without nonce purges all pages: %d", a.status)
	}

	// WP-Cron sends both purges once isr answers.
	hanging.open()
	if err := os.Remove(w.during); err != nil {
		t.Fatal(err)
	}
	if got := w.editor.get(t, "/wp-admin/admin-ajax.php?action=bakery_retry", nil).body; got != "1" {
		t.Errorf("WP-Cron has %q retries; want 1", got)
	}
	newVisitor(w.site).get(t, "/wp-cron.php?doing_wp_cron", nil)
	w.expect("/hello-world/", "shows the new title", hitWith("Rye and caraway"))
	if got := w.notices("/wp-admin/"); got != "" {
		t.Errorf("after the outage there is the notice %q", got)
	}
}

// button looks at a page as the admin bar does, and purges it by its button.
func (w *wordpress) button() {
	t := w.t
	t.Helper()
	w.expect("/sample-page/", "is in the cache", answer.hit)
	page := w.editor.get(t, "/sample-page/", nil).body
	nonce := w.match(page, `var isrBar = .*"nonce":"([^"]+)"`)
	if script := w.match(page, `src='([^']+admin-bar\.js\?ver=1[^']*)'`); w.editor.get(t, strings.TrimPrefix(script, w.editor.address), nil).status != http.StatusOK {
		t.Errorf("the script %s is missing", script)
	}
	asked := w.reader.do(t, http.MethodHead, "/sample-page/", field{"Cache-Control": "only-if-cached"}, "")
	if !asked.hit() || !strings.Contains(asked.header.Get("Cache-Tag"), "post:2") {
		t.Errorf("the state of the page is %d %v", asked.status, asked.header)
	}
	const ajax = "/wp-admin/admin-ajax.php"
	form := url.Values{"action": {"isr_purge_page"}, "_wpnonce": {nonce}, "path": {"/sample-page/"}}
	if a := w.editor.post(t, ajax, nil, form); a.body != `{"success":true}` {
		t.Errorf("the button: %d %s", a.status, a.body)
	}
	host := strings.TrimPrefix(w.editor.address, "http://")
	if got := w.purges(); !slices.Equal(got, []string{host + "/sample-page/"}) {
		t.Errorf("the button purges %q", got)
	}
	for path, want := range map[string]int{"//example.com/": http.StatusBadRequest, "http://example.com/": http.StatusBadRequest, "/a b": http.StatusBadRequest} {
		form.Set("path", path)
		if a := w.editor.post(t, ajax, nil, form); a.status != want {
			t.Errorf("the button on %s: %d", path, a.status)
		}
	}
	form.Set("_wpnonce", "0123456789")
	if a := w.editor.post(t, ajax, nil, form); a.status != http.StatusForbidden {
		t.Errorf("the button without a nonce: %d", a.status)
	}
	author := newBrowser(t, w.editor.address)
	w.login(author, "Bob")
	if page := author.get(t, "/sample-page/", nil).body; !strings.Contains(page, "wpadminbar") || strings.Contains(page, "isrBar") {
		t.Error("an author has the button, or no admin bar")
	}
}

// preview opens the preview of a draft without an account, by the link that its author gets.
func (w *wordpress) preview() {
	t := w.t
	t.Helper()
	id := w.rest(http.MethodPost, "posts", `{"title": "Secret loaf", "status": "draft"}`)["id"]
	other := w.rest(http.MethodPost, "posts", `{"title": "Another loaf", "status": "draft"}`)["id"]
	saved := w.rest(http.MethodPost, fmt.Sprintf("posts/%v/autosaves", id), `{"title": "Secret loaf"}`)
	link, err := url.Parse(fmt.Sprint(saved["preview_link"]))
	if err != nil {
		t.Fatal(err)
	}
	guest := newBrowser(t, w.editor.address)
	redirect := guest.get(t, link.RequestURI(), nil)
	if redirect.status != http.StatusSeeOther || strings.Contains(redirect.header.Get("Location"), "isr-draft") {
		t.Fatalf("%s: %d to %q", link, redirect.status, redirect.header.Get("Location"))
	}
	location := redirect.header.Get("Location")
	shown := guest.get(t, location, nil)
	if !strings.Contains(shown.body, "Secret loaf") || shown.header.Get("Cache-Control") != "private, no-store" || !strings.Contains(shown.body, "noindex") {
		t.Errorf("the preview: %d %v\n%.3000s", shown.status, shown.header, shown.body)
	}
	// Neither proof is enough, and one is for one post.
	signature := link.Query().Get("isr-preview")
	for what, path := range map[string]string{
		"the token without a signature": fmt.Sprintf("/?p=%v&preview=true", id),
		"the signature of another post": fmt.Sprintf("/?p=%v&preview=true&isr-preview=%s", other, signature),
		"a signature that was changed":  fmt.Sprintf("/?p=%v&preview=true&isr-preview=%s", other, strings.Replace(signature, fmt.Sprint(id), fmt.Sprint(other), 1)),
	} {
		if a := guest.get(t, path, nil); strings.Contains(a.body, "loaf") {
			t.Errorf("%s shows a draft: %d", what, a.status)
		}
	}
	if a := newVisitor(w.editor.address).get(t, location, field{"X-Isr-Draft": "1"}); strings.Contains(a.body, "Secret loaf") {
		t.Error("the signature without a token shows a draft")
	}
}

// A relay listens in front of isr. Until it is opened it accepts connections and does not answer.
type relay struct {
	net.Listener
	opened   chan struct{}
	open     func()
	requests atomic.Int32
}

func startRelay(t *testing.T, address string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	target, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{Listener: listener, opened: make(chan struct{})}
	r.open = sync.OnceFunc(func() { close(r.opened) })
	t.Cleanup(r.open)
	proxy := httputil.NewSingleHostReverseProxy(target)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.requests.Add(1)
		select {
		case <-r.opened:
			proxy.ServeHTTP(w, q)
		default:
			<-r.opened
			panic(http.ErrAbortHandler) // what was sent during the outage is lost
		}
	})}
	go func() { _ = server.Serve(listener) }()
	return r
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
