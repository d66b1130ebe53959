package isr

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// routeRules are a route as the cache applies it: its keys, and the rules by which responses are
// stored and presented. They do not change.
type routeRules struct {
	Route
	keys    *cachekey.Mapper
	rules   httpcache.Rules
	maxTags int
	jitter  float64
	present *page.View
}

func newRouteRules(rt Route) *routeRules {
	b := &routeRules{Route: rt, keys: cachekey.New(rt.keyRules()), jitter: max(rt.Jitter, 0), present: page.NewView(rt.viewRules()), maxTags: DefaultMaxTags}
	b.present.Keys = b.keys
	if rt.Jitter == 0 {
		b.jitter = DefaultJitter
	}
	if rt.Auto.enabled() {
		b.Revalidate = rt.Auto.Min
	}
	b.rules = httpcache.Rules{
		Revalidate: b.Revalidate, Strict: rt.OptIn == OptInStrict, Statuses: rt.Statuses, Negative: rt.Negative,
		Stale: rt.Stale, StaleIfError: cmp.Or(rt.StaleIfError, min(rt.Stale, 0)), MaxHeader: DefaultMaxHeader,
	}
	return b
}

// keyRules returns what the route declares of its keys.
func (rt Route) keyRules() cachekey.Rules {
	classes := make([]cachekey.Class, len(rt.KeyClasses))
	for i, c := range rt.KeyClasses {
		classes[i] = cachekey.Class(c)
	}
	return cachekey.Rules{
		Off: rt.Off, Query: rt.Query, IgnoreQuery: rt.IgnoreQuery, IgnoreCookies: rt.IgnoreCookies, Vary: rt.Vary, Classes: classes,
		VaryAuto: rt.VaryAuto, Forward: rt.Forward, TenantHeader: rt.TenantHeader, ReceiptHeader: minSeqHeader, ObeyRequests: rt.ObeyRequests,
	}
}

// codings returns the codings that pages of the route may have.
func (rt Route) codings() (has coding.Has) {
	if len(rt.Codings) == 0 {
		return coding.All()
	}
	for _, token := range rt.Codings {
		if c, ok := httpcache.ParseCoding(token); ok && c < httpcache.Identity {
			has[c] = true
		}
	}
	return has
}

// viewRules returns what the route declares of its responses.
func (rt Route) viewRules() page.ViewRules {
	return page.ViewRules{
		Set: rt.SetHeader, Remove: rt.RemoveHeader, EarlyHints: rt.EarlyHints, Codings: rt.codings(),
		CacheControl: rt.Downstream.CacheControl, CDN: rt.Downstream.CDN, Surrogate: rt.Downstream.Surrogate,
	}
}

// judge decides by the header whether a response of the page k may be stored and shared. tags are
// the tags of the route, and requested is when the response was requested.
func (b *routeRules) judge(k store.Key, status int, h http.Header, maxBody int64, tags []string, requested time.Time) httpcache.Verdict {
	if location, ok := b.keys.SelfRedirect(k, status, h); ok {
		return httpcache.Verdict{Refused: httpcache.RefusedSelfRedirect, Cause: fmt.Errorf("%w: Location: %.200s", errSelfRedirect, location)}
	}
	rules := b.rules
	rules.MaxBody, rules.InKey, rules.Requested = maxBody, b.keys.Allowed(h), requested
	return b.withTags(rules.Judge(status, h), h, tags)
}

// errSelfRedirect: a redirect leads to the page that it answers for.
var errSelfRedirect = errors.New("the origin redirects to another spelling of the URL that has the same cache key, or to another scheme (see public_scheme)")

// errManyTags: a page has more tags than it may have.
var errManyTags = errors.New("too many tags")

// withTags adds the tags of the route and of the response to the verdict on a response
// that may be stored. A response with invalid or too many tags is refused: without one of
// its tags, a purge would miss the page.
func (b *routeRules) withTags(v httpcache.Verdict, h http.Header, ofRoute []string) httpcache.Verdict {
	if (v.Refused == httpcache.RefusedTooLarge || v.Refused == httpcache.RefusedHeader) && b.validTagsOf(h) != nil {
		v = httpcache.Verdict{Withdraws: v.Withdraws} // the tags are the reason, and are named
	}
	if v.Refused != "" || v.Failed {
		return v
	}
	tags, err := httpcache.Tags(h)
	if err == nil && len(ofRoute) > 0 {
		tags = append(tags, ofRoute...)
		slices.Sort(tags)
		tags = slices.Compact(tags)
	}
	if err == nil {
		err = b.validTags(tags)
	}
	if err != nil {
		return httpcache.Verdict{Refused: httpcache.RefusedTags, Cause: err, Withdraws: v.Withdraws}
	}
	v.Tags = tags
	return v
}

// validTagsOf checks the tags of a response alone.
func (b *routeRules) validTagsOf(h http.Header) error {
	tags, err := httpcache.Tags(h)
	if err == nil {
		err = b.validTags(tags)
	}
	return err
}

// validTags checks the tags of a page. They are part of its rows, and each is looked up among the
// purge marks.
func (b *routeRules) validTags(tags []string) error {
	if len(tags) > b.maxTags {
		return fmt.Errorf("%w: the page has %d, at most %d are allowed (max_tags)", errManyTags, len(tags), b.maxTags)
	}
	var bytes int64
	for _, tag := range tags {
		if err := store.ValidTag(tag); err != nil {
			return err
		}
		bytes += int64(len(tag))
	}
	if bytes > b.rules.MaxHeader {
		return fmt.Errorf("%w: they have %d bytes in all, at most %d are allowed (max_header)", errManyTags, bytes, b.rules.MaxHeader)
	}
	return nil
}

// decidedByHeader reports whether the header of a response shows that a reason for a
// refusal no longer applies: no body and no tags of the route are needed for that.
func (b *routeRules) decidedByHeader(reason string) bool {
	switch reason {
	case httpcache.RefusedTooLarge, httpcache.RefusedEmpty:
		return false
	case httpcache.RefusedSelfRedirect: // the visitor's spelling is not the spelling of a render
		return false
	case httpcache.RefusedTags:
		return b.Tags == nil
	}
	return true
}
