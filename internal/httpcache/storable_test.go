package httpcache

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

func headerOf(lines string) http.Header {
	h := make(http.Header)
	for line := range strings.SplitSeq(lines, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			h.Add(name, value)
		}
	}
	return h
}

const longestStale = time.Hour

// withBounds adds the bounds that most tests share.
func (r Rules) withBounds() Rules {
	r.Stale, r.MaxBody = longestStale, 1000
	return r
}

func TestJudge(t *testing.T) {
	const date = "Date: Sat, 21 Nov 2026 10:00:00 GMT\n"
	opted := Rules{Revalidate: time.Minute}
	tests := []struct {
		name       string
		rules      Rules
		status     int
		header     string
		revalidate time.Duration // zero: not stored
		stale      time.Duration // checked if not zero
		refused    string
	}{
		{name: "nothing said", refused: RefusedNoFreshness},
		{name: "s-maxage", header: "Cache-Control: s-maxage=60", revalidate: time.Minute, stale: longestStale},
		{name: "s-maxage wins over max-age", header: "Cache-Control: public, max-age=5, s-maxage=60", revalidate: time.Minute},
		{name: "public max-age", header: "Cache-Control: public, max-age=60", revalidate: time.Minute},
		{name: "max-age alone", header: "Cache-Control: max-age=60", refused: RefusedNoFreshness},
		{name: "max-age alone, opted in", rules: opted, header: "Cache-Control: max-age=5", revalidate: 5 * time.Second},
		{name: "CDN-Cache-Control rules alone", header: "Cache-Control: private, no-store\nCDN-Cache-Control: max-age=60", revalidate: time.Minute},
		{name: "CDN-Cache-Control forbids alone", header: "Cache-Control: s-maxage=60\nCDN-Cache-Control: no-store", refused: RefusedNoStore},
		{name: "an empty CDN-Cache-Control", header: "Cache-Control: s-maxage=60\nCDN-Cache-Control: ", revalidate: time.Minute},
		{name: "nothing said, opted in", rules: opted, revalidate: time.Minute},
		{name: "s-maxage=0, opted in", rules: opted, header: "Cache-Control: s-maxage=0", refused: RefusedNoFreshness},
		{name: "nonsense counts as zero", header: "Cache-Control: s-maxage=soon", refused: RefusedNoFreshness},
		{name: "digits without end", header: "Cache-Control: s-maxage=99999999999999999999", revalidate: maxDelta},
		{name: "a fraction counts as zero", header: "Cache-Control: s-maxage=1.5", refused: RefusedNoFreshness},
		{name: "the age it already has", header: "Cache-Control: s-maxage=60\nAge: 50", revalidate: 10 * time.Second},
		{name: "older than its window", header: "Cache-Control: s-maxage=60\nAge: 60", refused: RefusedNoFreshness},
		{name: "an age beyond 32 bits", header: "Cache-Control: s-maxage=60\nAge: 4294967296", refused: RefusedNoFreshness},
		{name: "an age beyond 64 bits", header: "Cache-Control: s-maxage=60\nAge: 99999999999999999999", refused: RefusedNoFreshness},
		{name: "an age beyond all windows", header: "Cache-Control: s-maxage=2147483648\nAge: 2147483647", refused: RefusedNoFreshness},
		{name: "the first of several ages", header: "Cache-Control: s-maxage=60\nAge: 50, 0", revalidate: 10 * time.Second},
		{name: "an age that is none", header: "Cache-Control: s-maxage=60\nAge: -1", revalidate: time.Minute},
		{name: "expires, opted in", rules: opted, header: date + "Expires: Sat, 21 Nov 2026 10:00:30 GMT", revalidate: 30 * time.Second},
		{name: "expires 0, opted in", rules: opted, header: date + "Expires: 0", refused: RefusedNoFreshness},
		{name: "expires and the age it already has", rules: opted, header: date + "Age: 20\nExpires: Sat, 21 Nov 2026 10:00:30 GMT", revalidate: 10 * time.Second},
		{name: "expires with the wrong day", rules: opted, header: date + "Expires: Sun, 21 Nov 2026 10:00:30 GMT", refused: RefusedNoFreshness},
		{name: "expires in another zone", rules: opted, header: date + "Expires: Sat, 21 Nov 2026 10:00:30 UTC", refused: RefusedNoFreshness},
		{name: "private", rules: opted, header: "Cache-Control: private, max-age=60", refused: RefusedPrivate},
		{name: "no-store in capitals", rules: opted, header: "Cache-Control: No-Store", refused: RefusedNoStore},
		{name: "no-cache", rules: opted, header: "Cache-Control: no-cache", refused: RefusedNoCache},
		{name: "no-cache in a second line", header: "Cache-Control: s-maxage=60\nCache-Control: no-cache", refused: RefusedNoCache},
		{name: "a cookie", header: "Cache-Control: s-maxage=60\nSet-Cookie: a=b", refused: RefusedSetCookie},
		{name: "a cookie of RFC 2965", header: "Cache-Control: s-maxage=60\nSet-Cookie2: a=b", refused: RefusedSetCookie},
		{name: "a quote that is not closed", header: `Cache-Control: s-maxage=60, foo="bar, private`, refused: RefusedMalformed},
		{name: "a quote that is not closed, opted in", rules: opted, header: `Cache-Control: foo="bar, private`, refused: RefusedMalformed},
		{name: "a quote over two lines", header: "Cache-Control: s-maxage=60, foo=\"bar\nCache-Control: private, a=\"", refused: RefusedMalformed},
		{name: "an escaped quote", header: `Cache-Control: s-maxage=60, foo="bar\", private`, refused: RefusedMalformed},
		{name: "a CDN-Cache-Control that cannot be parsed is ignored", header: "Cache-Control: s-maxage=60\nCDN-Cache-Control: no-store, a=\"", revalidate: time.Minute},
		{name: "an invalid CDN-Cache-Control alone", header: "CDN-Cache-Control: private, a=\"", rules: opted, refused: RefusedMalformed},
		{name: "the last of repeated directives for CDNs", header: "CDN-Cache-Control: max-age=60, max-age=30", revalidate: 30 * time.Second},
		{name: "lines for CDNs are one dictionary", header: "CDN-Cache-Control: max-age=60\nCDN-Cache-Control: private", refused: RefusedPrivate},
		{name: "parameters of directives for CDNs", header: "CDN-Cache-Control: max-age=60;a=1", revalidate: time.Minute},
		{name: "a directive for CDNs that is false", header: "CDN-Cache-Control: max-age=60, no-store=?0", revalidate: time.Minute},
		{name: "a qualified directive for CDNs", header: "CDN-Cache-Control: max-age=60, private=\"set-cookie\"", refused: RefusedPrivate},
		{name: "an interval for CDNs of the wrong type", header: "CDN-Cache-Control: max-age=\"60\"", refused: RefusedNoFreshness},
		{name: "a negative interval for CDNs", header: "CDN-Cache-Control: max-age=-60", refused: RefusedNoFreshness},
		{name: "quotes that are closed", header: `Cache-Control: s-maxage="60", foo="a, private"`, revalidate: time.Minute},
		{name: "vary on what is in no key", header: "Cache-Control: s-maxage=60\nVary: Accept-Encoding, Accept-Language", refused: RefusedVary},
		{name: "vary on everything", header: "Cache-Control: s-maxage=60\nVary: *", refused: RefusedVary},
		{name: "vary on the coding", header: "Cache-Control: s-maxage=60\nVary: accept-encoding", revalidate: time.Minute},
		{name: "vary on a declared header", rules: Rules{InKey: func(name string) bool { return name == "Rsc" }}, header: "Cache-Control: s-maxage=60\nVary: RSC", revalidate: time.Minute},
		{name: "stale-while-revalidate", header: "Cache-Control: s-maxage=60, stale-while-revalidate=30", revalidate: time.Minute, stale: 30 * time.Second},
		{name: "a stale window of a year is bounded by the route", header: "Cache-Control: s-maxage=60, stale-while-revalidate=31536000", revalidate: time.Minute, stale: longestStale},
		{name: "a coding that was not requested", header: "Cache-Control: s-maxage=60\nContent-Encoding: br", refused: RefusedCoding},
		{name: "gzip that was not requested", header: "Cache-Control: s-maxage=60\nContent-Encoding: gzip", revalidate: time.Minute},
		{name: "an event stream", rules: opted, header: "Content-Type: text/event-stream", refused: RefusedStream},
		{name: "too long", rules: opted, header: "Content-Length: 1001", refused: RefusedTooLarge},
		{name: "just short enough", rules: opted, header: "Content-Length: 1000", revalidate: time.Minute},
		{name: "too many header bytes", rules: opted, header: "X-A: " + strings.Repeat("a", MaxHeaderBytes), refused: RefusedTooLarge},
		{name: "not found, opted in", rules: opted, status: 404, revalidate: MaxNegative},
		{name: "not found, by itself", status: 404, header: "Cache-Control: s-maxage=60", revalidate: time.Minute},
		{name: "moved for good, opted in", rules: opted, status: 308, revalidate: time.Minute},
		{name: "moved for now, opted in", rules: opted, status: 302, refused: RefusedNoFreshness},
		{name: "moved for now, by itself", status: 302, header: "Cache-Control: s-maxage=60", revalidate: time.Minute},
		{name: "forbidden", status: 403, header: "Cache-Control: s-maxage=60", refused: RefusedStatus},
		{name: "partial content", status: 206, header: "Cache-Control: s-maxage=60", refused: RefusedStatus},
		{name: "not modified", status: 304, header: "Cache-Control: s-maxage=60", refused: RefusedStatus},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.status == 0 {
				tt.status = http.StatusOK
			}
			v := tt.rules.withBounds().Judge(tt.status, headerOf(tt.header))
			if v.Refused != tt.refused || v.Revalidate != tt.revalidate || v.Failed {
				t.Fatalf("refused %q, revalidate %v, failed %v; want %q, %v", v.Refused, v.Revalidate, v.Failed, tt.refused, tt.revalidate)
			}
			if tt.stale != 0 && v.Stale != tt.stale {
				t.Errorf("stale window %v, want %v", v.Stale, tt.stale)
			}
		})
	}
	for _, directive := range []string{"must-revalidate", "proxy-revalidate", "stale-while-revalidate=0", "must-revalidate, stale-while-revalidate=30", "stale-while-revalidate=30, proxy-revalidate"} {
		if v := opted.withBounds().Judge(200, headerOf("Cache-Control: s-maxage=1, "+directive)); v.Stale != 0 {
			t.Errorf("%s leaves a stale window of %v", directive, v.Stale)
		}
	}
	for _, status := range []int{408, 425, 429, 500, 503} {
		if v := opted.withBounds().Judge(status, headerOf("Cache-Control: private, s-maxage=60\nSet-Cookie: a=1")); !v.Failed || v.Refused != "" || v.Withdraws {
			t.Errorf("status %d: %+v, want a failure", status, v)
		}
	}
}

// TestParseDate: RFC 9110, section 5.6.7.
func TestParseDate(t *testing.T) {
	want := time.Date(1994, time.November, 6, 8, 49, 37, 0, time.UTC)
	for _, text := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"} {
		if got, ok := ParseDate(text); !ok || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "0", "-1", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Sun, 06 nov 1994 08:49:37 GMT", "Mon, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 gmt", "Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994 08:49:37", " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
	} {
		if got, ok := ParseDate(text); ok {
			t.Errorf("%q is the date %v", text, got)
		}
	}
}

func TestStoredHeader(t *testing.T) {
	h := headerOf("Content-Type: text/html\nConnection: x-hop, close\nX-Hop: 1\nDate: now\nAge: 3\nEtag: \"a\"\n" +
		"Content-Length: 3\nTransfer-Encoding: chunked\nCache-Status: other; hit\nLink: a\nLink: b\nCdn-Cache-Control: max-age=1")
	got := StoredHeader(h)
	want := http.Header{"Content-Type": {"text/html"}, "Link": {"a", "b"}, "Cdn-Cache-Control": {"max-age=1"}}
	if len(got) != len(want) || got.Get("Content-Type") != "text/html" || len(got["Link"]) != 2 {
		t.Errorf("stored %v, want %v", got, want)
	}
}

func TestCacheStatus(t *testing.T) {
	tests := []struct {
		status Status
		want   string
	}{
		{Status{Hit: true, HasTTL: true, TTL: 42 * time.Second}, "isr; hit; ttl=42"},
		{Status{Hit: true, HasTTL: true, TTL: -1, Detail: "stale"}, "isr; hit; ttl=-1; detail=stale"},
		{Status{Forward: ForwardMiss, ForwardStatus: 200, Stored: true, Collapsed: true, HasTTL: true, TTL: time.Second}, "isr; fwd=miss; fwd-status=200; stored; collapsed; ttl=1"},
		{Status{Forward: ForwardBypass, Detail: "cookie"}, "isr; fwd=bypass; detail=cookie"},
		{Status{Detail: "bad-request"}, "isr; detail=bad-request"},
	}
	for _, tt := range tests {
		if got := tt.status.String(); got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

func TestAcceptsGzip(t *testing.T) {
	for line, want := range map[string]bool{
		"": false, "gzip": true, "br, GZIP;q=0.5": true, "gzip;q=0": false, "gzip; q=0.0, *": false, "*": true, "*;q=0": false,
		"identity": false, "x-gzip": true, "deflate, br": false, "gzip;q=nonsense": false,
	} {
		if got := AcceptsGzip([]string{line}); got != want {
			t.Errorf("acceptsGzip(%q) = %v", line, got)
		}
	}
}
