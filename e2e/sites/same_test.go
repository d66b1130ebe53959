package sites

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A moment is what differs between two renders of one page for one visitor: the
// time, a token, a cookie's value. Two answers are the same apart from it.
type moment struct{ pattern, instead string }

func moments() []moment {
	return []moment{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)`, "TIME"},
		{`(name="csrfmiddlewaretoken" value=")\w+`, "${1}TOKEN"},
		{`((?:sessionid|csrftoken)=)\w+`, "${1}VALUE"},
		{`expires=[^;]+`, "expires=TIME"},
		{`"[\w-]{22}"`, `"REQUEST"`}, // Next names each render of a payload
	}
}

func timeless(s string) string {
	for _, m := range moments() {
		s = regexp.MustCompile(m.pattern).ReplaceAllString(s, m.instead)
	}
	return s
}

// differences lists what got and want differ in, as a visitor would notice it;
// none is what is wanted. The bodies must be equal byte by byte unless live,
// which is for pages that are rendered for each request.
func differences(got, want answer, live bool) []string {
	var d []string
	if got.status != want.status {
		d = append(d, fmt.Sprintf("status %d, not %d", got.status, want.status))
	}
	a, b := got.body, want.body
	if live {
		a, b = timeless(a), timeless(b)
	}
	if a != b {
		d = append(d, fmt.Sprintf("a body of %d bytes, not the %d bytes of the origin: %s", len(a), len(b), parting(a, b)))
	}
	return append(d, headerDifferences(got.header, want.header, live)...)
}

func headerDifferences(got, want http.Header, live bool) []string {
	names := make(map[string]bool)
	for name := range got {
		names[name] = true
	}
	for name := range want {
		names[name] = true
	}
	var d []string
	for name := range names {
		a, b := got[name], want[name]
		switch name {
		case "Date", "Connection", "Keep-Alive", "Age", "Cache-Status", // of one moment or one connection
			"X-Nextjs-Cache", // the state of the origin's own cache
			"Content-Length", // the body itself was compared; one side may have sent it in chunks
			"Accept-Ranges":  // the cache gives ranges, and does not say so
			continue
		case "Etag":
			if live || len(b) == 0 {
				continue // of a body that shows its time; or the cache's own
			}
		case "Content-Type":
			if len(b) == 0 {
				continue // then the cache tells it by the content
			}
		case "Vary":
			a, b = list(a), list(b)
		}
		if timeless(fmt.Sprintf("%q", a)) != timeless(fmt.Sprintf("%q", b)) {
			d = append(d, fmt.Sprintf("%s %q, not %q", name, a, b))
		}
	}
	slices.Sort(d)
	return d
}

// list is what the lines of a list field name. The cache may add that it
// compresses.
func list(lines []string) []string {
	var members []string
	for _, m := range strings.Split(strings.ToLower(strings.Join(lines, ",")), ",") {
		if m = strings.TrimSpace(m); m != "" && m != "accept-encoding" {
			members = append(members, m)
		}
	}
	slices.Sort(members)
	return members
}

// parting shows where two texts part.
func parting(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	from := max(0, n-30)
	return fmt.Sprintf("...%.60q... against ...%.60q...", a[from:], b[from:])
}

// A pair is one site, with and without the cache in front.
type pair struct{ through, direct *visitor }

// same asks for a page through the cache, and the origin before and after it: a
// page that the origin itself renews now and then is one of the two.
func (p pair) same(t *testing.T, path string, h field, live bool) answer {
	t.Helper()
	before := p.direct.get(t, path, h)
	got := p.through.get(t, path, h)
	after := p.direct.get(t, path, h)
	if d := differences(got, before, live); len(d) > 0 {
		if d = differences(got, after, live); len(d) > 0 {
			t.Errorf("%s %v: through the cache it has\n\t%s\n(%s)", path, h, strings.Join(d, "\n\t"), got.said())
		}
	}
	if got.said() == "" {
		t.Errorf("%s: no Cache-Status", path)
	}
	return got
}

// sameAgain wants the cache's own copy of what it gave before.
func (p pair) sameAgain(t *testing.T, path string, h field, first answer) {
	t.Helper()
	again := p.through.get(t, path, h)
	if !again.hit() {
		t.Errorf("%s %v: asked for again: %q, not a hit", path, h, again.said())
	}
	if d := differences(again, first, false); len(d) > 0 {
		t.Errorf("%s %v: asked for again, it has\n\t%s", path, h, strings.Join(d, "\n\t"))
	}
}

// A want is how an answer is to come about.
type want struct {
	path   string
	h      field
	status int
	cached bool   // kept, and then a hit
	live   bool   // rendered at each request, showing its time
	said   string // part of Cache-Status, of what is not cached
}

// check compares a page with the origin's, and asks for it again.
func (p pair) check(t *testing.T, w want) {
	t.Helper()
	got := p.same(t, w.path, w.h, w.live)
	if got.status != w.status {
		t.Errorf("%s: status %d, want %d", w.path, got.status, w.status)
	}
	if w.cached {
		// A page that is not there is kept in memory alone.
		if negative := strings.Contains(got.said(), "detail=negative"); !got.stored() && !negative || negative != (w.status >= 400) {
			t.Errorf("%s %v: not kept: %s", w.path, w.h, got.said())
		}
		p.sameAgain(t, w.path, w.h, got)
		return
	}
	again := p.same(t, w.path, w.h, w.live)
	for _, a := range []answer{got, again} {
		if a.hit() || a.stored() || !strings.Contains(a.said(), w.said) {
			t.Errorf("%s %v: %q, want it passed, with %q", w.path, w.h, a.said(), w.said)
		}
	}
}

// crumbs are cookies in the order in which a browser would send them.
func crumbs(pairs ...string) field { return field{"Cookie": strings.Join(pairs, "; ")} }
