package gateway

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// NextDeploymentTag is a tag of all pages of a Next.js site (see [NextTags]), by which a new
// deployment makes them stale. Next.js makes no such tag: the tags of paths have a slash there.
const NextDeploymentTag = nextTag + ":deployment"

// nextTag begins the tags that Next.js makes of paths (NEXT_CACHE_IMPLICIT_TAG_ID in its
// lib/constants).
const nextTag = "_N_T_"

// maxNextLayouts bounds the layouts of a path that have tags.
const maxNextLayouts = 16

// NextTags returns the tags by which Next.js revalidates the path of a request, as its
// server/lib/implicit-tags makes them: _N_T_/blog/rye, _N_T_/blog/rye/page, and the layouts
// _N_T_/layout, _N_T_/blog/layout and _N_T_/blog/rye/layout; and [NextDeploymentTag]. The HTML of
// a page, its payloads and its data (/_next/data/BUILD/blog/rye.json) have the same ones. They are
// made of the public path: what Next.js does not know of it, such as basePath, is part of them. A
// path with escapes has the tags of its decoded form too. A deep path has the tags of its first 16
// layouts. Files of a build below /_next/static/ have none: they never change.
func NextTags(r *http.Request) []string {
	path, ok := nextPath(r.URL.EscapedPath())
	if !ok {
		return nil
	}
	tags := []string{NextDeploymentTag, nextTag + "/layout"}
	add := func(path string) {
		for at, layouts := 1, 0; at < len(path) && layouts < maxNextLayouts; layouts++ {
			end := len(path)
			if i := strings.IndexByte(path[at:], '/'); i >= 0 {
				end = at + i
			}
			tags = append(tags, nextTag+path[:end]+"/layout")
			at = end + 1
		}
		tags = append(tags, nextTag+strings.TrimSuffix(path, "/")+"/page", nextTag+path)
		if path == "/" {
			tags = append(tags, nextTag+"/index")
		}
	}
	add(path)
	if decoded, err := url.PathUnescape(path); err == nil && decoded != path {
		add(headerSafe(decoded))
	}
	// Next.js cannot revalidate a path of which it would make another tag.
	return slices.DeleteFunc(tags, func(tag string) bool { return store.ValidTag(tag) != nil })
}

// nextPath returns the path of the page that a public path shows, without a slash at its end. It
// is false for files of a build.
func nextPath(path string) (string, bool) {
	if strings.Contains(path, "/_next/static/") {
		return "", false
	}
	if base, data, ok := strings.Cut(path, "/_next/data/"); ok {
		_, page, _ := strings.Cut(data, "/") // after the id of the build
		page = strings.TrimSuffix(page, ".json")
		if page == "index" {
			page = ""
		}
		path = base + "/" + page
	}
	if path = strings.TrimRight(path, "/"); path == "" {
		path = "/"
	}
	return path, true
}

// headerSafe percent-encodes what is not printable ASCII, as Next.js does in tags
// (server/lib/encode-header-safe).
func headerSafe(s string) string {
	var b strings.Builder
	for i := range len(s) {
		if c := s[i]; c == '\t' || c >= ' ' && c <= '~' {
			b.WriteByte(c)
		} else {
			b.WriteString(url.PathEscape(s[i : i+1]))
		}
	}
	return b.String()
}

// withNextTags adds the tags of [NextTags] to those that a route makes of its paths.
func withNextTags(own func(*http.Request) []string) func(*http.Request) []string {
	if own == nil {
		return NextTags
	}
	return func(r *http.Request) []string { return append(own(r), NextTags(r)...) }
}

// WithNextTags returns the route with the tags of [NextTags] in addition to its own.
func WithNextTags(route isr.Route) isr.Route {
	route.Tags = withNextTags(route.Tags)
	return route
}

// limitNextStale makes a response briefly fresh that Next.js took from its own cache although it was
// not fresh there, and that it regenerates only now. Such a response states the window of a new
// page, which may be a year, and would be stored as one. After a second the next visitor gets what
// Next.js has made by then. CDN-Cache-Control takes precedence over Cache-Control (RFC 9213,
// section 2.2), so a response that states no window, or must not be shared, stays as it is.
func limitNextStale(h http.Header) {
	if h.Get("X-Nextjs-Cache") != "STALE" {
		return
	}
	d, _ := httpcache.Governing(h)
	for _, forbids := range []string{"private", "no-store", "no-cache"} {
		if d.Has(forbids) || d.Malformed() {
			return
		}
	}
	if !d.Has("s-maxage") && !d.Has("max-age") {
		return
	}
	limited := "max-age=1"
	if stale, ok := d.Seconds("stale-while-revalidate"); ok {
		limited += fmt.Sprintf(", stale-while-revalidate=%d", int64(stale.Seconds()))
	}
	h.Set("CDN-Cache-Control", limited)
}
