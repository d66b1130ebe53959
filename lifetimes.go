package isr

import (
	"errors"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
)

// A DownstreamControl is what fresh pages of a route, with a status below 400, tell the
// caches behind this one: the visitors' browsers and the proxies between, and CDNs in front. It
// replaces Cache-Control, CDN-Cache-Control and Expires of the renderer, which decide for this
// cache alone. Lifetimes count from when a page is served, so these pages have "Age: 0" and the
// current Date.
//
// Instead of a number of seconds, max-age and s-maxage may have "remaining": for how much
// longer the page is fresh here, in whole seconds, like "max-age=remaining". A cache then has no
// copy for longer than this one.
//
// Pages that are not fresh get "Cache-Control: max-age=0, must-revalidate" alone, so that no
// cache keeps one for longer than this one, and pages that are pinned beyond their freshness
// "max-age=10". Responses that pass through are not changed.
//
// A cache that purges do not reach, such as a browser, serves its copy for the whole
// lifetime after a purge.
type DownstreamControl struct {
	// CacheControl is the field Cache-Control, such as "max-age=60" or "no-cache". Empty:
	// the page has the renderer's fields.
	CacheControl string
	// CDN is the field CDN-Cache-Control (RFC 9213), for caches that purges do reach.
	// Empty: the page has none. It needs CacheControl.
	CDN string
	// Surrogate is the field Surrogate-Control (the W3C note "Edge Architecture"), for
	// CDNs that do not know CDN-Cache-Control. Empty: the page has none. It needs
	// CacheControl.
	Surrogate string
}

// maxControlBytes bounds each field of [DownstreamControl].
const maxControlBytes = 256

func (d DownstreamControl) validate() error {
	if d.CDN+d.Surrogate != "" && d.CacheControl == "" {
		return configErrorf("Downstream", "must have CacheControl if it has CDN or Surrogate")
	}
	var errs []error
	for _, v := range []string{d.CacheControl, d.CDN, d.Surrogate} {
		if v == "" {
			continue
		}
		if !validFieldValue(v) || len(v) > maxControlBytes || httpcache.ParseDirectives([]string{v}).Malformed() {
			errs = append(errs, configErrorf("Downstream", "must have valid fields of at most %d bytes (got %.100q)", maxControlBytes, v))
		} else if !validRemaining(v) {
			errs = append(errs, configErrorf("Downstream", "must have %q once, as the argument of max-age or s-maxage (got %.100q)", page.Remaining, v))
		}
	}
	return errors.Join(errs...)
}

// validRemaining reports whether a field has "remaining" at most once, and where a number of
// seconds belongs.
func validRemaining(field string) bool {
	switch strings.Count(field, page.Remaining) {
	case 0:
		return true
	case 1:
		d := httpcache.ParseDirectives([]string{field})
		return d["max-age"] == page.Remaining || d["s-maxage"] == page.Remaining
	}
	return false
}
