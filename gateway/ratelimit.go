package gateway

import (
	"fmt"
	"hash/maphash"
	"math"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/net/http/httpguts"

	"github.com/facetheory/isr/internal/canonical"
)

// A RateLimit bounds the requests of a client, of a value of a header, or of all, by a token bucket: it has Burst tokens at
// first, a request takes one, and Rate of them come back in each Per.
//
// It is exact on a node, and each node has its own: a fleet lets through as much as its nodes together. Buckets are kept in a table of a
// fixed size. IPv6 clients beside have the buckets of wider networks (see [Protection]).
type RateLimit struct {
	// Rate is how many requests are accepted in each Per, from 1 to 1,000,000.
	Rate int
	// Per is a second, a minute or an hour.
	Per time.Duration
	// Burst is how many requests are accepted at once, from 1 to 1,000,000. Zero means Rate.
	Burst int
	// By is what has a bucket.
	By LimitBy
	// Header is the header of ByHeader.
	Header string
	// OriginOnly: only requests that reach the origin take a token; hits, and requests that are answered by the render of another, take none.
	OriginOnly bool
}

// A LimitBy is what has a bucket of its own.
type LimitBy int

const (
	// ByClient: each IPv4 address, and each IPv6 /64.
	ByClient LimitBy = iota
	// ByHeader: each value of a header, such as an API key. Requests without the header count by client.
	ByHeader
	// ByRoute: all requests of the route, or of the site, share one.
	ByRoute
)

// maxRate bounds rates and bursts.
const maxRate = 1_000_000

const rateLimitForm = "expected a rate like 10/s, 100/m or 1000/h, and then, if it is needed, burst N, by client, by route or by header NAME, and count all or count origin"

// ParseRateLimit parses a rate limit: "10/s", "100/m burst 20", "1000/h by header X-Api-Key", "5/m by route count origin".
func ParseRateLimit(text string) (l RateLimit, err error) {
	words := strings.Fields(text)
	if len(words) == 0 || !l.parseRate(words[0]) {
		return l, fmt.Errorf("%.100q is not a rate limit; %s", text, rateLimitForm)
	}
	seen := make(map[string]bool)
	for words = words[1:]; len(words) > 0; {
		used := l.parseOption(words)
		if used == 0 || seen[words[0]] {
			return l, fmt.Errorf("%.100q is not understood from %.50q on; %s", text, words[0], rateLimitForm)
		}
		seen[words[0]] = true
		words = words[used:]
	}
	return l, nil
}

func (l *RateLimit) parseRate(text string) bool {
	count, unit, _ := strings.Cut(text, "/")
	per, ok := map[string]time.Duration{"s": time.Second, "m": time.Minute, "h": time.Hour}[unit]
	l.Per = per
	return ok && parseCount(count, &l.Rate)
}

func parseCount(text string, to *int) bool {
	n, err := strconv.ParseUint(text, 10, 31)
	*to = int(n) //nolint:gosec // of 31 bits
	return err == nil && n >= 1 && n <= maxRate
}

// parseOption parses an option at the beginning of some words, and returns how many it has; 0 if it is invalid.
func (l *RateLimit) parseOption(words []string) (used int) {
	if len(words) < 2 {
		return 0
	}
	switch words[0] + " " + words[1] {
	case "by client", "count all":
		return 2
	case "by route":
		l.By = ByRoute
		return 2
	case "count origin":
		l.OriginOnly = true
		return 2
	case "by header":
		if len(words) < 3 || !httpguts.ValidHeaderFieldName(words[2]) {
			return 0
		}
		l.By, l.Header = ByHeader, http.CanonicalHeaderKey(words[2])
		return 3
	}
	if words[0] == "burst" && parseCount(words[1], &l.Burst) {
		return 2
	}
	return 0
}

// String returns the text that [ParseRateLimit] parses.
func (l RateLimit) String() string {
	unit := map[time.Duration]string{time.Second: "s", time.Minute: "m", time.Hour: "h"}[l.Per]
	text := fmt.Sprintf("%d/%s burst %d", l.Rate, unit, l.burst())
	switch l.By {
	case ByHeader:
		text += " by header " + l.Header
	case ByRoute:
		text += " by route"
	}
	if l.OriginOnly {
		text += " count origin"
	}
	return text
}

func (l RateLimit) burst() int {
	if l.Burst == 0 {
		return l.Rate
	}
	return l.Burst
}

// interval is the time in which a token comes back, for a bucket that is so many times as large.
func (l RateLimit) interval(times int) time.Duration {
	return max(time.Duration(math.Ceil(float64(l.Per)/float64(l.Rate)/float64(times))), 1)
}

// A limiter has the buckets of a rate limit.
type limiter struct {
	RateLimit
	name    string // of its buckets: a reload that changes nothing keeps them
	buckets *buckets
}

// A bucket is one that a request takes a token of.
type bucket struct {
	key   uint64
	times int // as large as the limit
}

// wider is how many times larger the bucket of a wider network is than the buckets of the networks in it.
const wider = 16

// take takes a token of each bucket of a request, the widest network first: a client that is refused there adds no bucket to the table. If
// one has none, it takes none, and returns how long it takes until there is one; else 0.
func (l *limiter) take(r *http.Request) (wait time.Duration) {
	all, n := l.bucketsOf(r)
	for i, b := range all[:n] {
		if wait := l.buckets.take(b.key, l.interval(b.times), l.burst()*b.times); wait > 0 {
			for _, before := range all[:i] {
				l.buckets.giveBack(before.key, l.interval(before.times))
			}
			return wait
		}
	}
	return 0
}

// giveBack gives back what take has taken.
func (l *limiter) giveBack(r *http.Request) {
	all, n := l.bucketsOf(r)
	for _, b := range all[:n] {
		l.buckets.giveBack(b.key, l.interval(b.times))
	}
}

// bucketsOf returns the buckets of a request, the widest first. It does not allocate.
func (l *limiter) bucketsOf(r *http.Request) (all [4]bucket, n int) {
	add := func(times int, network netip.Prefix, values []string) {
		var h maphash.Hash
		h.SetSeed(l.buckets.seed)
		_, _ = h.WriteString(l.name)
		address := network.Addr().As16()
		_, _ = h.Write(address[:])
		_ = h.WriteByte(byte(network.Bits()))
		for _, value := range values {
			_, _ = h.WriteString(value)
			_ = h.WriteByte(0)
		}
		all[n] = bucket{h.Sum64(), times}
		n++
	}
	if l.By == ByRoute {
		add(1, netip.PrefixFrom(netip.IPv6Unspecified(), 0), nil)
		return all, n
	}
	times, values := 1, r.Header[l.Header]
	if l.By == ByHeader && len(values) > 0 {
		times = wider
	}
	client := canonical.Client(r.RemoteAddr)
	if !client.IsValid() {
		client = netip.PrefixFrom(netip.IPv6Unspecified(), 0) // all clients without an address share one
	}
	if client.Bits() == 64 {
		for _, w := range [...]struct{ bits, times int }{{32, wider * wider}, {48, wider}} {
			network, _ := client.Addr().Prefix(w.bits) // in range
			add(w.times*times, network, nil)
		}
	}
	add(times, client, nil)
	if times > 1 {
		add(1, netip.PrefixFrom(netip.IPv6Unspecified(), 0), values)
	}
	return all, n
}
