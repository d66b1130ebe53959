package sites

import (
	"html"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
)

// leaks sends two visitors who have logged in, and one who has not, to every page, while pages
// are cold, fresh and stale. Everyone gets his own page, or one that is everyone's.
func (s *configured) leaks(t *testing.T) {
	paths := []string{s.greeting, s.account, s.home, s.notes}
	for _, w := range s.pages {
		if w.cached || w.status == 200 && w.said != "detail=off" && w.said != "detail=query" {
			paths = append(paths, w.path)
		}
	}
	if s.story != "" {
		paths = append(paths, s.story)
	}
	// Who comes first to a cold page differs.
	for _, order := range [][]int{{0, 1, 2}, {1, 2, 0}, {2, 0, 1}} {
		p := s.behind(t)
		everyone := s.everyone(t, p.through.address)
		for _, path := range paths {
			for _, i := range order {
				everyone[i].visit(t, path, everyone)
			}
		}
	}
	p := s.behind(t)
	everyone := s.everyone(t, p.through.address)
	s.visitAtOnce(t, paths, everyone) // cold
	p.awaitStale(t, s.home)
	s.visitAtOnce(t, paths, everyone)
	if s.story == "" {
		return
	}
	for _, v := range everyone {
		if got := v.get(t, s.story, nil); !got.hit() {
			t.Errorf("%s of %q: %s; want a hit, as its session is ignored", s.story, v.name, got.cacheStatus())
		}
	}
}

func (s *configured) visitAtOnce(t *testing.T, paths []string, everyone []*identity) {
	t.Helper()
	var wg sync.WaitGroup
	for _, v := range everyone {
		wg.Go(func() {
			for _, path := range paths {
				for range 2 {
					v.visit(t, path, everyone)
				}
			}
		})
	}
	wg.Wait()
}

// An identity is a visitor of a configured site; its name is empty if it has not logged in.
type identity struct {
	*visitor
	site *configured
	name string
}

// everyone returns two visitors who have logged in, and one who has not.
func (s *configured) everyone(t *testing.T, address string) []*identity {
	t.Helper()
	var everyone []*identity
	for _, name := range []string{"Ann3f2a9c", "Bob7d41e0", ""} {
		v := &identity{newBrowser(t, address), s, name}
		v.accept = browser
		if name != "" {
			got := v.submit(t, s.login, name)
			if got.status/100 != 3 || !strings.Contains(strings.Join(got.header["Set-Cookie"], "\n"), "=") {
				t.Fatalf("login of %s: status %d, %q\n%s", name, got.status, got.header, got.body)
			}
		}
		everyone = append(everyone, v)
	}
	return everyone
}

// visit requests a page, and expects nothing in it that is another visitor's.
func (v *identity) visit(t *testing.T, path string, everyone []*identity) {
	t.Helper()
	got, err := v.ask(t, http.MethodGet, path, nil, "")
	if err != nil {
		t.Error(err)
		return
	}
	text := got.body
	for name, lines := range got.header {
		text += name + strings.Join(lines, "\n")
	}
	for _, other := range everyone {
		if other.name != "" && other.name != v.name && strings.Contains(text, other.name) {
			t.Errorf("%s of %q has the name %q (%s)", path, v.name, other.name, got.cacheStatus())
		}
	}
	personal := path == v.site.greeting || path == v.site.account
	if v.name != "" && personal && (!strings.Contains(text, v.name) || got.hit() || got.stored()) {
		t.Errorf("%s of %q: status %d, greets %q (%s)", path, v.name, got.status, got.element("name"), got.cacheStatus())
	}
	if v.name == "" && path == v.site.account && got.status/100 != 3 {
		t.Errorf("%s without a session: status %d, want a redirect", path, got.status)
	}
	if got.hit() && len(got.header["Set-Cookie"]) > 0 {
		t.Errorf("%s: Set-Cookie from the cache: %q", path, got.header["Set-Cookie"])
	}
}

// forms changes a page by a form: the next visitor sees the change. Then it logs out.
func (s *configured) forms(t *testing.T) {
	p := s.behind(t)
	p.check(t, want{path: s.notes, status: 200, live: true, cached: true})
	v := &identity{newBrowser(t, p.through.address), s, ""}
	v.accept = browser
	sent := v.submit(t, s.note, "A note 5c1b")
	if sent.status/100 != 3 && sent.status != 200 || sent.hit() {
		t.Fatalf("the form got status %d (%s)\n%s", sent.status, sent.cacheStatus(), sent.body)
	}
	changed := p.through.get(t, s.notes, nil)
	if !strings.Contains(changed.body, "A note 5c1b") {
		t.Errorf("%s does not show the change: %s", s.notes, changed.cacheStatus())
	}
	if again := p.through.get(t, s.notes, nil); !again.hit() || again.body != changed.body {
		t.Errorf("%s after the change: %s, want a hit", s.notes, again.cacheStatus())
	}
	ann := s.everyone(t, p.through.address)[0]
	ann.visit(t, s.account, nil)
	ann.submit(t, s.logout, "")
	if got := ann.get(t, s.account, nil); got.status/100 != 3 {
		t.Errorf("%s after the logout: status %d, want a redirect", s.account, got.status)
	}
}

var (
	forms   = regexp.MustCompile(`(?s)<form[^>]*>.*?</form>`)
	inputs  = regexp.MustCompile(`<input[^>]*>`)
	enctype = regexp.MustCompile(`(?i)<form[^>]*enctype="multipart/form-data"`)
)

// submit fills in the form of a page, as a browser without scripts does.
func (v *identity) submit(t *testing.T, f form, value string) answer {
	t.Helper()
	page := v.get(t, f.page, nil)
	if f.link != "" {
		return v.get(t, html.UnescapeString(regexp.MustCompile(f.link).FindString(page.body)), nil)
	}
	all := forms.FindAllString(page.body, -1)
	i := slices.IndexFunc(all, func(text string) bool { return strings.Contains(text, `name="`+f.field+`"`) })
	if f.field == "" {
		i = len(all) - 1
	}
	if i < 0 {
		t.Fatalf("%s has no form with %q: status %d\n%s", f.page, f.field, page.status, page.body)
	}
	fields := url.Values{}
	for _, input := range inputs.FindAllString(all[i], -1) {
		fields.Set(attribute(input, "name"), attribute(input, "value"))
	}
	if f.field != "" {
		fields.Set(f.field, value)
	}
	for name, values := range f.fixed {
		fields[name] = values
	}
	head, _, _ := strings.Cut(all[i], ">")
	action := resolve(t, v.address+f.page, attribute(head, "action"))
	h := field{"Origin": v.address, "Referer": v.address + f.page, "Content-Type": "application/x-www-form-urlencoded"}
	body := fields.Encode()
	if enctype.MatchString(all[i]) {
		h["Content-Type"], body = multipartForm(t, fields)
	}
	return v.do(t, http.MethodPost, strings.TrimPrefix(action, v.address), h, body)
}

func attribute(tag, name string) string {
	found := regexp.MustCompile(`\b` + name + `=("[^"]*"|'[^']*')`).FindStringSubmatch(tag)
	if found == nil {
		return ""
	}
	return html.UnescapeString(found[1][1 : len(found[1])-1])
}

func multipartForm(t *testing.T, fields url.Values) (contentType, body string) {
	t.Helper()
	var b strings.Builder
	w := multipart.NewWriter(&b)
	for name, values := range fields {
		part, err := w.CreateFormField(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(part, values[0]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return w.FormDataContentType(), b.String()
}
