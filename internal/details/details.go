// Package details explains what the details of Cache-Status mean, and what an operator can change
// (docs/cache-status.md). isr explain, isr doctor and the console show these texts.
package details

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
)

// A Detail describes why a request was not answered with a fresh page from the cache, or why a
// response was not stored.
type Detail struct {
	Meaning string `json:"meaning" doc:"What it means: a clause for people."`
	Advice  string `json:"advice,omitempty" doc:"What to change. Missing if there is nothing to change."`
	RFC     string `json:"rfc,omitempty" doc:"Section that requires it."`
}

// Of returns the description of a detail of Cache-Status, or of the value of its parameter fwd
// if it has no detail. ok is false for other words.
func Of(word string) (d Detail, ok bool) {
	d, ok = Marked(word)
	return d.As(nil), ok
}

// Named is Of, with the settings named in the way in which they are set.
func Named(word string, name Naming) (d Detail, ok bool) {
	d, ok = Marked(word)
	return d.As(name), ok
}

// Marked is Of, with the settings of the advice in angle brackets, for [Naming.Advice].
func Marked(word string) (d Detail, ok bool) {
	for _, describe := range []func(string) (Detail, bool){MarkedRefusal, ofRequest, ofProtection, ofPage, ofFailure} {
		if d, ok = describe(word); ok {
			return d, true
		}
	}
	return Detail{}, false
}

// OfStatus returns the description of a Cache-Status, with the settings of its advice in angle brackets, for [Naming.Advice].
func OfStatus(s httpcache.Status) Detail {
	if d, ok := MarkedRefusal(s.Detail); ok {
		d.Meaning = "the response of the page must not be shared (" + s.Detail + "), because " + d.Meaning + ": each visitor's own request reaches the origin"
		return d
	}
	if d, ok := Marked(s.Detail); ok {
		return d
	}
	switch {
	case s.Forward == httpcache.ForwardMethod, s.Forward == httpcache.ForwardRequest:
		d, _ := Marked(s.Forward)
		return d
	case s.Hit:
		return Detail{Meaning: "the page is fresh", RFC: "RFC 9111, section 4.2"}
	case s.Stored:
		return Detail{Meaning: "the new page is stored", RFC: "RFC 9111, section 3"}
	}
	return Detail{Meaning: "the request reaches the origin"}
}

// A Naming returns how a setting of the configuration file is set: by its flag (--revalidate), its variable
// (ISR_REVALIDATE), or at a place in the file (isr.yaml:12). Empty: it is not set, or the file is all that is known.
type Naming func(setting string) string

// As returns the description with the settings named in the way in which they are set.
func (d Detail) As(name Naming) Detail {
	d.Advice = name.Advice(d.Advice)
	return d
}

// Advice returns an advice whose settings, which are in angle brackets, are named in the way in which they are set. A nil
// Naming has the names of the file.
func (name Naming) Advice(text string) string {
	return setting.ReplaceAllStringFunc(text, func(found string) string {
		found = strings.Trim(found, "<>")
		field, value, hasValue := strings.Cut(found, ": ")
		how := ""
		if name != nil {
			how = name(field)
		}
		value = strings.Trim(value, "[]")
		switch {
		case how == "":
			return found
		case strings.HasPrefix(how, "--") && hasValue:
			return how + " " + value
		case strings.HasPrefix(how, "--"):
			return how
		case strings.HasPrefix(how, "ISR_") && hasValue:
			return how + "=" + value
		case strings.HasPrefix(how, "ISR_"):
			return how
		}
		return found + " (" + how + ")"
	})
}

// namingKey is the context key of a Naming.
type namingKey struct{}

// WithNaming returns the context of a request whose explanation names settings in the way in which they are set.
func WithNaming(ctx context.Context, name Naming) context.Context {
	return context.WithValue(ctx, namingKey{}, name)
}

// NamingOf returns the Naming of a context; nil if it has none.
func NamingOf(ctx context.Context) Naming {
	name, _ := ctx.Value(namingKey{}).(Naming)
	return name
}

// setting matches the setting of an advice, with a value or without one.
var setting = regexp.MustCompile(`<[a-z_.]+(: [^>]+)?>`)

// Do returns what to do: the advice, or nothing.
func (d Detail) Do() string { return cmp.Or(d.Advice, "nothing, if that is meant") }

// Bypasses returns how many of these requests, counted by reason, were answered without the cache, the shares of the three
// most frequent reasons, and the most frequent one; both are empty if there is none.
func Bypasses(reasons map[string]int64) (requests int64, shares, most string) {
	var words []string
	for word, n := range reasons {
		if isBypass(word) {
			words = append(words, word)
			requests += n
		}
	}
	slices.SortFunc(words, func(a, b string) int { return cmp.Or(cmp.Compare(reasons[b], reasons[a]), cmp.Compare(a, b)) })
	var texts []string
	for _, word := range words[:min(len(words), 3)] {
		texts = append(texts, fmt.Sprintf("%s %d%%", word, 100*reasons[word]/requests))
	}
	if len(words) > 0 {
		most = words[0]
	}
	return requests, strings.Join(texts, ", "), most
}

// isBypass reports whether a word is why the origin answered a request without the cache: the request may not be
// answered by a page, or the response must not be stored.
func isBypass(word string) bool {
	_, refused := MarkedRefusal(word)
	_, requested := ofRequest(word)
	return refused || requested
}

const public = "if the page is the same for all visitors, send Cache-Control: public, s-maxage=60"

// OfRefusal describes the details of responses that must not be stored.
func OfRefusal(word string) (d Detail, ok bool) {
	d, ok = MarkedRefusal(word)
	return d.As(nil), ok
}

// MarkedRefusal is OfRefusal, with the settings of the advice in angle brackets, for [Naming.Advice].
func MarkedRefusal(word string) (d Detail, ok bool) {
	switch word {
	case httpcache.RefusedStatus:
		d = Detail{"its status answers one visitor, and not the page", "if all visitors may share it, name the status in <statuses>, and let the response state a lifetime", "RFC 9111, section 3"}
	case httpcache.RefusedSetCookie:
		d = Detail{"the response sets a cookie", "set no cookie in a page for all visitors: set it at the URL that needs it, such as the login, or by a script", "RFC 9111, section 7.3"}
	case httpcache.RefusedPrivate:
		d = Detail{"the response is private", public, "RFC 9111, section 5.2.2.7"}
	case httpcache.RefusedNoStore:
		d = Detail{"the response has no-store", public, "RFC 9111, section 5.2.2.5"}
	case httpcache.RefusedNoCache:
		d = Detail{"the response has no-cache", "send s-maxage instead of no-cache, for this cache; max-age=0 beside it keeps browsers asking", "RFC 9111, section 5.2.2.4"}
	case httpcache.RefusedVary:
		d = Detail{"its Vary names a header that is not in the key", "put the header in the key (<headers: [NAME]>), or let the route learn it (<vary: auto>), or remove it from Vary; a Vary: Cookie means that the site reads cookies for this page", "RFC 9111, section 4.1"}
	case httpcache.RefusedCoding:
		d = Detail{"it has a content coding that cannot be decoded", "send the page without a coding, or in one of gzip, br, zstd and deflate; isr compresses it", "RFC 9110, section 8.4"}
	case httpcache.RefusedStream:
		d = Detail{"the response is an event stream, which does not end", "nothing: streams are not stored", ""}
	case httpcache.RefusedTooLarge:
		d = Detail{"the response is too large", "raise <max_body>, or turn the cache off for such responses (cache: off)", ""}
	case httpcache.RefusedHeader:
		d = Detail{"its header is too large", "raise <max_header>, or send less in the header: many servers and browsers refuse responses with large ones", ""}
	case httpcache.RefusedNoFreshness:
		d = Detail{"the response does not say how long it is fresh", "send Cache-Control: s-maxage=60, or set <revalidate: 60s> for the route", "RFC 9111, section 4.2.1"}
	case httpcache.RefusedOld:
		d = Detail{"by its Date or its Age it is older than it may be served for", "if its Date is old, correct the clock of the site (NTP); if it has an Age, a cache behind isr has kept it: give the address of the site itself as the origin, or a longer s-maxage", "RFC 9111, section 4.2.3"}
	case httpcache.RefusedEmpty:
		d = Detail{"its body is empty, which counts as a mistake of the site", "look into the log of the site; send 204 if the page is meant to be empty", ""}
	case httpcache.RefusedMalformed:
		d = Detail{"its Cache-Control has an unclosed quote", "close the quoted string: what it hides might forbid storing", "RFC 9111, section 5.2"}
	case httpcache.RefusedSelfRedirect:
		d = Detail{
			"the response redirects to another spelling of the URL, or to its other scheme, and both have the same cache key: whoever followed it would get it again",
			"if the site redirects http to https, set <public_scheme: https>, the scheme that renders state; else let the site answer the spelling that isr sends (percent-encoding in upper case, %20 for a space, parameters sorted by name), or link to the spelling that it prefers", "RFC 9110, section 10.2.2",
		}
	case httpcache.RefusedTags:
		d = Detail{"its tags are invalid or too many", "correct the tags, or raise <max_tags>: without one of them a purge would miss the page", ""}
	default:
		return Detail{}, false
	}
	return d, true
}

// ofRequest describes requests that the origin answers, or that demand more than a fresh page.
func ofRequest(word string) (d Detail, ok bool) {
	switch word {
	case "off":
		d = Detail{"the cache is off for the route (cache: off)", "", ""}
	case httpcache.ForwardMethod:
		d = Detail{"the method of the request is not GET or HEAD", "", "RFC 9111, section 4"}
	case "host":
		d = Detail{"the request has no host", "", ""}
	case "authorization":
		d = Detail{"the request has Authorization, so that the response may be for one visitor alone", "", "RFC 9111, section 3.5"}
	case "upgrade":
		d = Detail{"the request asks for another protocol, such as WebSocket", "", "RFC 9110, section 7.8"}
	case "body":
		d = Detail{"the request has a body, which the response may depend on", "", ""}
	case "cookie":
		d = Detail{"the request has a cookie that the route does not ignore, so that the response may be for one visitor alone", "list it in <ignore_cookies> if the page does not depend on it", "RFC 9111, section 7.3"}
	case "tenant":
		d = Detail{"the request has a header that names a tenant, and the route has no tenants", "set <tenant_header>", ""}
	case "header":
		d = Detail{"a request header has a value that the route excludes from the cache", "name the value in <headers> if pages may be shared for it", ""}
	case "query":
		d = Detail{"the request has a query parameter that the route neither has in its key nor ignores", "put it in the key (<query: [NAME]>), or in <ignore_query> if the page does not depend on it", ""}
	case "key-length":
		d = Detail{"the key of the page would be too long", "shorten the URL, or declare fewer parts of the request for the key", ""}
	case "draft":
		d = Detail{"an editor with a valid token sees unpublished content", "", ""}
	case "redirect":
		d = Detail{"a rule of <redirects>, or a line of <redirects_file>, redirects the request", "", ""}
	case "bad-request":
		d = Detail{"the request is malformed, or asks for what a visitor may not ask for", "", "RFC 9110, section 15.5.1"}
	case "canceled":
		d = Detail{"the visitor went away before the answer", "", ""}
	case httpcache.ForwardBypass:
		d = Detail{"the request passes the cache", "", ""}
	case httpcache.ForwardRequest:
		d = Detail{"the Cache-Control of the request asks for a response of the origin, and the route obeys it", "", "RFC 9111, section 5.2.1"}
	case "only-if-cached":
		d = Detail{"no page is stored, and the request accepts no other", "", "RFC 9111, section 5.2.1.7"}
	case "min-seq":
		d = Detail{"no page is as new as the ISR-Min-Seq of the request demands", "", ""}
	default:
		return Detail{}, false
	}
	return d, true
}

// ofProtection describes why a request is not accepted.
func ofProtection(word string) (d Detail, ok bool) {
	switch word {
	case "denied":
		d = Detail{"the address of the client is one that the site does not accept", "if it should be accepted, see <allow> and <deny>; behind a proxy, name the proxy in trusted_proxies", "RFC 9110, section 15.5.4"}
	case "rate-limited":
		d = Detail{"there were more requests than the site accepts", "raise the limit in <rate_limits> if they were wanted; behind a proxy, name the proxy in trusted_proxies, or all visitors are one client", "RFC 6585, section 4"}
	default:
		return Detail{}, false
	}
	return d, true
}

// ofPage describes what the cache knows of a page.
func ofPage(word string) (d Detail, ok bool) {
	switch word {
	case httpcache.ForwardMiss:
		d = Detail{"the page was not stored, or no longer: it is rendered while the visitor waits", "", "RFC 9111, section 4"}
	case httpcache.ForwardStale: // as a detail too
		d = Detail{"the page is stale, and served while a new one is rendered", "", "RFC 5861, section 3"}
	case "cut-off":
		d = Detail{"this server cannot read the log of changes: the page may have been purged or rolled back by another one", "look into the log of isr, and at the table", ""}
	case "negative":
		d = Detail{"the response means that there is no page; this server keeps it in memory for a short time", "", "RFC 9111, section 4"}
	case "stale-if-error":
		d = Detail{"the page is served because a new one cannot be rendered", "look into the log of the site", "RFC 5861, section 4"}
	case "min-uses":
		d = Detail{"the page was not requested often enough to be stored (min_uses)", "lower <min_uses> if such pages shall be stored", ""}
	case "no-room":
		d = Detail{"the store is full, so that no further page is stored", "raise <store.disk>", ""}
	case "no-memory":
		d = Detail{"there was no memory left to buffer the response (buffers), so that it was not stored", "raise <buffers>, or lower max_renders of the origin", ""}
	case "pinned":
		d = Detail{"the page is pinned: it does not age, and is not regenerated", "", ""}
	case "purged":
		d = Detail{"the page was purged hard while it was rendered", "", ""}
	case "head":
		d = Detail{"the page is not stored, and a HEAD request is sent to the origin as it is; if its response may be stored, the page is rendered behind it", "", "RFC 9110, section 9.3.2"}
	case "learned":
		d = Detail{"the last renders of the section (the first segment of the path) were refused, so that the visitor's own request goes first; a render is tried now and then", "isr top and the log say why they were refused; with cache: off for the section, no render is tried", ""}
	case "variants":
		d = Detail{"the page has too many variants (max_variants)", "reduce the header to classes (headers: {NAME: [a, b]}), or raise <max_variants>", "RFC 9111, section 4.1"}
	default:
		return Detail{}, false
	}
	return d, true
}

const logOfSite = "look into the log of the site"

// ofFailure describes why there is no new page, or why it could not be stored.
func ofFailure(word string) (d Detail, ok bool) {
	switch word {
	case "render-failed":
		d = Detail{"the site failed to render the page", logOfSite + "; a stored page stays, and is served for as long as it may be instead of a failure", "RFC 9111, section 4.2.4"}
	case "back-off":
		d = Detail{"the last render failed, and the page is not rendered again before its back-off ends", logOfSite, ""}
	case "timeout":
		d = Detail{"the site takes too long to render the page", "make the page faster, or raise <render_timeout> and wait", ""}
	case "rejected":
		d = Detail{"the last render was rejected by the rules of the route, and quarantined", "see isr quarantine; accept the quarantined generation, or change the rule (reject)", ""}
	case "origin-busy":
		d = Detail{"the queue for the renders of the origin is full", "raise the origin's max_renders if it can render more pages at a time", ""}
	case "origin-failing":
		d = Detail{"too many renders of the origin have failed in a row: its circuit breaker is open", logOfSite, ""}
	case "maintenance":
		d = Detail{"the site is in maintenance mode: its origin is not called, and stored pages are served", "isr maintenance off, or <maintenance.on: false>, ends it", ""}
	case "store-error":
		d = Detail{"a store does not answer", "look into the log of isr", ""}
	case "unpublished":
		d = Detail{"the page was rendered a moment ago and could not be stored", "look into the log of isr", ""}
	case "closing":
		d = Detail{"this server is shutting down", "", ""}
	default:
		return Detail{}, false
	}
	return d, true
}
