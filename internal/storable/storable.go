// Package storable decides which responses of a route may be stored and shared, and says what keeps the
// others from it.
//
// The problem: a response that is stored although it is for one visitor is shown to others, and a page
// whose tags or whose key are not all known is missed by a purge. The operator of a site wants to know why a
// page is not stored, and what to change: but most advice does not help by itself, because a response has
// several obstacles, or because a field takes precedence over the one that was changed.
//
// The model: the rules of HTTP caching (package httpcache), the keys of the route (package cachekey) and the
// tags of the page together give one verdict. Advice is tried before it is given, by the same verdict:
//
//	response ──► Verdict ──► refused ──► apply each way of a remedy ──► Verdict ──► the same refusal: the next remedy
//	               ▲                                                         └──► another verdict: give the advice, and
//	               └─────────────────────────────────────────────────────────── carry on with the remedied response
//
// Guarantees:
//   - A response that has Vary for a header that is not in the key, or tags that are invalid or too many, is
//     refused.
//   - The advice of an obstacle ends it. An obstacle without such advice is the last of [Judge.Obstacles].
//
// A Judge is safe for concurrent use once its rules are set.
package storable

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Rules are what a route declares of its responses.
type Rules struct {
	// Keys are the rules of keys.
	Keys cachekey.Rules
	// Responses are the rules of HTTP caching, without InKey and Requested, which a Judge sets.
	Responses httpcache.Rules
	// MaxTags is how many tags a page may have.
	MaxTags int
	// HasTags: the route has tags for its pages, besides the tags of their responses.
	HasTags bool
}

// maxStatuses bounds the statuses that are stored in addition.
const maxStatuses = 32

// Validate calls report for each field of isr.Route that is invalid, with its name and what is wrong.
func (r *Rules) Validate(report func(field, format string, args ...any)) {
	r.Keys.Validate(report)
	http := &r.Responses
	if http.Revalidate < 0 {
		report("Revalidate", "must not be negative (got %s)", http.Revalidate)
	}
	if n := len(http.Statuses); n > maxStatuses {
		report("Statuses", "must have at most %d statuses (got %d)", maxStatuses, n)
	}
	for _, status := range http.Statuses {
		if !httpcache.MayBeStored(status) {
			report("Statuses", "must contain only statuses from 200 to 599, and none of 206, 304, 401, 407, 412, 416 and 511, which are for one request (got %d)", status)
		}
	}
	for status, window := range http.Negative {
		switch {
		case !httpcache.HasOwnWindow(status):
			report("Negative", "must contain only the statuses 301, 302, 303, 307, 308, 404 and 410 (got %d)", status)
		case window < 0 || window > store.MaxInterval:
			report("Negative", "must have windows between 0 and ten years (got %s for %d)", window, status)
		}
	}
}

// Bounds of what a cache stores. The row of a page has its header, its tags and its key, and stays below the
// 400 KB of DynamoDB with the largest of each.
const (
	MinMaxHeader = 1 << 10 // of Responses.MaxHeader
	MaxMaxHeader = 128 << 10
	MaxMaxTags   = 2048
	MaxMaxBody   = 1 << 30
)

// A Judge decides by the rules of a route.
type Judge struct {
	Rules
	// Mapper maps requests to keys by the rules of keys.
	Mapper *cachekey.Mapper
}

// New returns a judge by valid rules. A StaleIfError of zero means none if Stale is negative.
func New(rules Rules) *Judge {
	rules.Responses.MaxHeader = cmp.Or(rules.Responses.MaxHeader, httpcache.DefaultMaxHeader)
	rules.Responses.StaleIfError = cmp.Or(rules.Responses.StaleIfError, min(rules.Responses.Stale, 0))
	return &Judge{rules, cachekey.New(rules.Keys)}
}

// Verdict decides by the header whether a response of the page k may be stored and shared. tags are
// the tags of the route, and requested is when the response was requested.
func (j *Judge) Verdict(k store.Key, status int, h http.Header, tags []string, requested time.Time) httpcache.Verdict {
	if location, ok := j.Mapper.SelfRedirect(k, status, h); ok {
		return httpcache.Verdict{Refused: httpcache.RefusedSelfRedirect, Cause: fmt.Errorf("%w: Location: %.200s", errSelfRedirect, location)}
	}
	rules := j.Responses
	rules.InKey, rules.Requested = j.Mapper.Allowed(h), requested
	return j.withTags(rules.Judge(status, h), h, tags)
}

// errSelfRedirect: a redirect leads to the page that it answers for.
var errSelfRedirect = errors.New("the origin redirects to another spelling of the URL that has the same cache key, or to another scheme (see public_scheme)")

// errManyTags: a page has more tags than it may have.
var errManyTags = errors.New("too many tags")

// withTags adds the tags of the route and of the response to the verdict on a response
// that may be stored. A response with invalid or too many tags is refused: without one of
// its tags, a purge would miss the page.
func (j *Judge) withTags(v httpcache.Verdict, h http.Header, ofRoute []string) httpcache.Verdict {
	if (v.Refused == httpcache.RefusedTooLarge || v.Refused == httpcache.RefusedHeader) && j.validTagsOf(h) != nil {
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
		err = j.validTags(tags)
	}
	if err != nil {
		return httpcache.Verdict{Refused: httpcache.RefusedTags, Cause: err, Withdraws: v.Withdraws}
	}
	v.Tags = tags
	return v
}

// validTagsOf checks the tags of a response alone.
func (j *Judge) validTagsOf(h http.Header) error {
	tags, err := httpcache.Tags(h)
	if err == nil {
		err = j.validTags(tags)
	}
	return err
}

// validTags checks the tags of a page. They are part of its rows, and each is looked up among the
// purge marks.
func (j *Judge) validTags(tags []string) error {
	if len(tags) > j.MaxTags {
		return fmt.Errorf("%w: the page has %d, at most %d are allowed (max_tags)", errManyTags, len(tags), j.MaxTags)
	}
	var bytes int64
	for _, tag := range tags {
		if err := store.ValidTag(tag); err != nil {
			return err
		}
		bytes += int64(len(tag))
	}
	if bytes > j.Responses.MaxHeader {
		return fmt.Errorf("%w: they have %d bytes in all, at most %d are allowed (max_header)", errManyTags, bytes, j.Responses.MaxHeader)
	}
	return nil
}

// DecidedByHeader reports whether the header of a response shows that a reason for a
// refusal no longer applies: no body and no tags of the route are needed for that.
func (j *Judge) DecidedByHeader(reason string) bool {
	switch reason {
	case httpcache.RefusedTooLarge, httpcache.RefusedEmpty:
		return false
	case httpcache.RefusedSelfRedirect: // the visitor's spelling is not the spelling of a render
		return false
	case httpcache.RefusedTags:
		return !j.HasTags
	}
	return true
}

// ServableOnError reports whether an entry in a state may be served while the origin or
// the store fails. The windows of a pinned entry may end long before its pin, and
// nothing is rendered while the pin lasts: such an entry is served until a render
// succeeds. An entry that outlives purge marks is not served: the mark of a hard purge of
// it may have expired.
func (j *Judge) ServableOnError(e *store.Entry, state store.State, purges store.PurgeState, now time.Time) bool {
	switch state {
	case store.Fresh, store.Stale:
		return true
	case store.Expired:
		switch {
		case e.OutlivesMarks(purges.MarkLifetime, now):
			return false
		case !e.PinnedUntil.IsZero():
			return true
		case now.Before(e.FreshUntil()): // a purge, or a newer build, has ended its freshness
			return j.Responses.AllowsOnError(e.Header)
		}
		return now.Before(e.FreshUntil().Add(j.Responses.StaleIfErrorOf(e.Status, e.Header)))
	}
	return false
}
