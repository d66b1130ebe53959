package cachekey

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Directives in the Cache-Control of a request are advisory (RFC 9111, section 5.2.1). They
// are ignored unless the route obeys them (see Rules.ObeyRequests), except only-if-cached, which
// spares the origin work:
//
//	only-if-cached                  ──► the stored page, or 504
//	no-store, no-cache              ──► the renderer, by the visitor's own request (fwd=request)
//	max-age, min-fresh not met      ──► the same
//	max-stale                       ──► the page in memory, if it is not staler than that and
//	                                    its response does not forbid it

// Directives are what a request asks for in its Cache-Control. The zero value asks for nothing.
type Directives struct {
	OnlyIfCached bool
	Pass         bool          // no-store or no-cache
	maxAge       time.Duration // with hasMaxAge
	minFresh     time.Duration // 0 if there is none
	maxStale     time.Duration // 0 if there is none; the longest interval if it has no argument
	hasMaxAge    bool
}

// Directives returns what a request asks for, as far as the route obeys it. It is on the hit path:
// it looks up one header, and parses it only if it can matter.
func (m *Mapper) Directives(r *http.Request) (d Directives) {
	lines := r.Header["Cache-Control"]
	if m.rules.ObeyRequests {
		if len(lines) == 0 { // section 5.4
			lines = r.Header["Pragma"]
		}
	} else if !mayAskOnlyIfCached(lines) {
		return Directives{}
	}
	if len(lines) == 0 {
		return Directives{}
	}
	parsed := httpcache.ParseDirectives(lines)
	d.OnlyIfCached = parsed.Has("only-if-cached")
	if !m.rules.ObeyRequests {
		return d
	}
	d.Pass = parsed.Has("no-store") || parsed.Has("no-cache")
	d.maxAge, d.hasMaxAge = parsed.Seconds("max-age")
	d.minFresh, _ = parsed.Seconds("min-fresh")
	if d.maxStale = 0; parsed.Has("max-stale") {
		d.maxStale = store.MaxInterval
		if parsed["max-stale"] != "" {
			d.maxStale, _ = parsed.Seconds("max-stale")
		}
	}
	return d
}

// mayAskOnlyIfCached reports whether a field may have only-if-cached.
func mayAskOnlyIfCached(lines []string) bool {
	for _, line := range lines {
		if len(line) >= len("only-if-cached") && strings.Contains(strings.ToLower(line), "only-if-cached") {
			return true
		}
	}
	return false
}

// Accepts reports whether the request takes a stored entry.
func (d Directives) Accepts(e *store.Entry, now time.Time) bool {
	if d.Pass || d.hasMaxAge && e.Age(now) > d.maxAge {
		return false
	}
	return d.minFresh == 0 || e.FreshUntil().Sub(now) >= d.minFresh
}

// AcceptsStale reports whether the request takes an entry although it is stale or expired.
func (d Directives) AcceptsStale(rules httpcache.Rules, e *store.Entry, state store.State, now time.Time) bool {
	return d.maxStale > 0 && (state == store.Stale || state == store.Expired) && d.Accepts(e, now) &&
		now.Sub(e.FreshUntil()) <= d.maxStale && rules.AllowsStale(e.Header)
}

// ParseReceipt parses the values of ISR-Min-Seq, the receipt of a purge.
func ParseReceipt(values []string) (int64, error) {
	if len(values) != 1 {
		return 0, fmt.Errorf("the header ISR-Min-Seq must be given once (found %d times)", len(values))
	}
	seq, err := strconv.ParseUint(values[0], 10, 63)
	if err != nil {
		return 0, fmt.Errorf("the header ISR-Min-Seq must be the receipt of a purge, a decimal number (got %.40q)", values[0])
	}
	return int64(seq), nil
}
