package sites

import (
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A moment is what differs between two renders of one page for one visitor: the time, a token,
// a cookie's value. Answers are compared without it.
type moment struct{ pattern, instead string }

func moments() []moment {
	return []moment{
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)`, "TIME"},
		{`(name="csrfmiddlewaretoken" value=")\w+`, "${1}TOKEN"},
		{`((?:sessionid|csrftoken)=)\w+`, "${1}VALUE"},
		{`expires=[^;]+`, "expires=TIME"},
		{`"[\w-]{22}"`, `"REQUEST"`},       // an id of each render of a payload
		{`127\.0\.0\.1(:|%3A)\d+`, "HOST"}, // in absolute URLs
	}
}

func timeless(s string) string {
	for _, m := range moments() {
		s = regexp.MustCompile(m.pattern).ReplaceAllString(s, m.instead)
	}
	return s
}

// differences lists how got differs from want, as a visitor would notice it. The bodies must be
// equal byte for byte unless live, which is for pages that are rendered for each request.
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
		d = append(d, fmt.Sprintf("a body of %d bytes, not the %d bytes of the origin: %s", len(a), len(b), firstDifference(a, b)))
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
		case "Date", "Connection", "Keep-Alive", "Age", "Cache-Status", // specific to a moment or a connection
			"X-Nextjs-Cache",    // the state of the origin's own cache
			"Cdn-Cache-Control", // of what Next.js took stale from that, by isr
			"X-Request-Id", "X-Runtime",
			"Content-Length", // the body itself was compared; one side may have sent it in chunks
			"Accept-Ranges":  // the cache serves ranges without announcing it
			continue
		case "Etag":
			if live || len(b) == 0 {
				continue // the body shows its time, or the cache made the ETag
			}
		case "Content-Type":
			if len(b) == 0 {
				continue // the cache detects it from the content
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

// list returns the members of a list header, without Accept-Encoding, which the cache may add
// because it compresses, and Accept, which Rails adds for renders but not for browsers.
func list(lines []string) []string {
	var members []string
	for _, m := range strings.Split(strings.ToLower(strings.Join(lines, ",")), ",") {
		if m = strings.TrimSpace(m); m != "" && m != "accept-encoding" && m != "accept" {
			members = append(members, m)
		}
	}
	slices.Sort(members)
	return members
}

// firstDifference shows where two texts begin to differ.
func firstDifference(a, b string) string {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	from := max(0, n-30)
	return fmt.Sprintf("...%.60q... against ...%.60q...", a[from:], b[from:])
}

// A pair is one site, with and without the cache in front.
type pair struct{ through, direct *visitor }

// same requests a page through the cache, and from the origin before and after that. The page
// must equal one of the two, since the origin may renew it in between.
func (p pair) same(t *testing.T, path string, h field, live bool) answer {
	t.Helper()
	before := p.direct.get(t, path, h)
	got := p.through.get(t, path, h)
	after := p.direct.get(t, path, h)
	if d := differences(got, before, live); len(d) > 0 {
		if d = differences(got, after, live); len(d) > 0 {
			t.Errorf("%s %v: differs through the cache:\n\t%s\n(%s)", path, h, strings.Join(d, "\n\t"), got.cacheStatus())
		}
	}
	if got.cacheStatus() == "" {
		t.Errorf("%s: no Cache-Status header", path)
	}
	return got
}

// sameAgain expects a hit with the same content as the first answer.
func (p pair) sameAgain(t *testing.T, path string, h field, first answer) {
	t.Helper()
	again := p.through.get(t, path, h)
	if !again.hit() {
		t.Errorf("%s %v: second request: got %q, want a hit", path, h, again.cacheStatus())
	}
	if d := differences(again, first, false); len(d) > 0 {
		t.Errorf("%s %v: second request differs:\n\t%s", path, h, strings.Join(d, "\n\t"))
	}
}

// A want is a page and how the cache is expected to answer it.
type want struct {
	path   string
	h      field
	status int
	cached bool   // stored, then a hit
	live   bool   // rendered for each request; shows its time
	said   string // expected part of Cache-Status if not cached
}

// check compares a page with the origin's, and requests it again.
func (p pair) check(t *testing.T, w want) {
	t.Helper()
	got := p.same(t, w.path, w.h, w.live)
	if got.status != w.status {
		t.Errorf("%s: status %d, want %d", w.path, got.status, w.status)
	}
	if w.cached {
		// A 404 is kept in memory only.
		if negative := strings.Contains(got.cacheStatus(), "detail=negative"); !got.stored() && !negative || negative != (w.status >= 400) {
			t.Errorf("%s %v: not stored: %s", w.path, w.h, got.cacheStatus())
		}
		p.sameAgain(t, w.path, w.h, got)
		return
	}
	again := p.same(t, w.path, w.h, w.live)
	for _, a := range []answer{got, again} {
		if a.hit() || a.stored() || !strings.Contains(a.cacheStatus(), w.said) {
			t.Errorf("%s %v: got %q, want a pass-through with %q", w.path, w.h, a.cacheStatus(), w.said)
		}
	}
}

// cookieHeader returns a Cookie header with the cookies in this order, as a browser would send them.
func cookieHeader(pairs ...string) field { return field{"Cookie": strings.Join(pairs, "; ")} }
