package sites

import (
	"compress/gzip"
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// An rsc is a request by Next's client for the payload of a page (React Server Components): its
// headers, omitted where empty. See next/README.md.
type rsc struct{ prefetch, segment, tree, url string }

// request returns the path, with the checksum that Next requires, and the headers.
func (r rsc) request(path string) (string, field) {
	h := field{"RSC": "1"}
	parts := []string{r.prefetch, r.segment, r.tree, r.url}
	names := []string{"Next-Router-Prefetch", "Next-Router-Segment-Prefetch", "Next-Router-State-Tree", "Next-Url"}
	for i, part := range parts {
		if part == "" {
			parts[i] = "0"
		} else {
			h[names[i]] = part
		}
	}
	if r == (rsc{}) {
		return path + "?_rsc", h
	}
	sum := sha256.Sum256([]byte(strings.Join(parts, ",")))
	return path + "?_rsc=" + base64.RawURLEncoding.EncodeToString(sum[:12]), h
}

// tree returns the router state of a client on the front page.
func tree() string {
	return url.PathEscape(`["",{"children":["__PAGE__",{},null,null,160]},null,null,80]`)
}

func (n *nextSite) payloads(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t)
	for _, c := range []struct {
		name string
		rsc  rsc
		want want
	}{
		{"whole payload", rsc{}, want{path: "/articles/rye", status: 200, cached: true}},
		{"front page", rsc{}, want{path: "/", status: 200, cached: true}},
		{"of a link", rsc{prefetch: "1", segment: "/_tree", url: "/"}, want{path: "/articles/rye", status: 200, cached: true}},
		{"from another page", rsc{prefetch: "1", segment: "/_tree", url: "/articles/wheat"}, want{path: "/articles/rye", status: 200, cached: true}},
		{"segment", rsc{prefetch: "1", segment: "/articles/$d$slug/__PAGE__", url: "/"}, want{path: "/articles/rye", status: 200, cached: true}},
		{"no such segment", rsc{prefetch: "1", segment: "/none"}, want{path: "/articles/rye", status: 404, cached: true}},
		{"not found", rsc{}, want{path: "/articles/missing", status: 404, cached: true}},
		{"click", rsc{tree: tree(), url: "/"}, want{path: "/articles/wheat", status: 200, cached: true}},
		{"click on the page per request", rsc{tree: tree(), url: "/"}, want{path: "/now", status: 200, live: true, said: "detail=private"}},
		{"no such page", rsc{tree: tree(), url: "/"}, want{path: "/nothing", status: 404, said: "fwd-status=404"}},
	} {
		c.want.path, c.want.h = c.rsc.request(c.want.path)
		p.check(t, c.want)
		if got := p.through.get(t, c.want.path, c.want.h); got.body != "" && got.header.Get("Content-Type") != "text/x-component" {
			t.Errorf("%s: Content-Type %q", c.name, got.header.Get("Content-Type"))
		}
	}
	for _, path := range []string{"/articles/rye", "/articles/rye?_rsc=wrong"} {
		p.check(t, want{path: path, h: field{"RSC": "1"}, status: 307, said: "fwd-status=307"})
	}
}

// pageOrPayload requests the page and the payload at one URL concurrently. Each request gets
// its own kind, cached or not.
func (n *nextSite) pageOrPayload(t *testing.T) {
	t.Parallel()
	p, _ := n.behind(t)
	path, h := rsc{}.request("/articles/barley")
	kinds := []struct {
		h           field
		kind, begin string
	}{
		{nil, "text/html; charset=utf-8", "<!DOCTYPE html>"},
		{h, "text/x-component", ""},
		{field{"RSC": "0"}, "text/html; charset=utf-8", "<!DOCTYPE html>"},
	}
	var wg sync.WaitGroup
	for i := range 60 {
		k := kinds[i%len(kinds)]
		wg.Go(func() {
			got, err := p.through.ask(t, "GET", path, k.h, "")
			if err != nil {
				t.Error(err)
				return
			}
			page := strings.HasPrefix(got.body, "<!DOCTYPE html>")
			if got.header.Get("Content-Type") != k.kind || page != (k.begin != "") {
				t.Errorf("%v: %s, %.20q (%s), want %s", k.h, got.header.Get("Content-Type"), got.body, got.cacheStatus(), k.kind)
			}
		})
	}
	wg.Wait()
	for _, k := range kinds {
		if got := p.through.get(t, path, k.h); !got.hit() || got.header.Get("Content-Type") != k.kind {
			t.Errorf("%v: then %s with %s", k.h, got.header.Get("Content-Type"), got.cacheStatus())
		}
	}
}

func gunzip(t *testing.T, s string) string {
	t.Helper()
	zr, err := gzip.NewReader(strings.NewReader(s))
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(zr)
	if err != nil {
		t.Fatal(err)
	}
	return string(plain)
}
