package httpcache

import (
	"net/http"
	"reflect"
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
	strict := Rules{Strict: true}
	received := Rules{Requested: time.Date(2026, time.November, 21, 10, 0, 30, 0, time.UTC)}
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
		{name: "max-age alone", header: "Cache-Control: max-age=60", revalidate: time.Minute},
		{name: "max-age alone, opted in", rules: opted, header: "Cache-Control: max-age=5", revalidate: 5 * time.Second},
		{name: "Expires alone", header: date + "Expires: Sat, 21 Nov 2026 10:01:00 GMT", revalidate: time.Minute},
		{name: "Expires without Date", rules: received, header: "Expires: Sat, 21 Nov 2026 10:01:00 GMT", revalidate: 30 * time.Second},
		{name: "Expires with a Date that is none", rules: received, header: "Date: today\nExpires: Sat, 21 Nov 2026 10:01:00 GMT", refused: RefusedNoFreshness},
		{name: "max-age wins over Expires", header: date + "Cache-Control: max-age=5\nExpires: Sat, 21 Nov 2026 10:01:00 GMT", revalidate: 5 * time.Second},
		{name: "Expires beside a targeted field", header: date + "CDN-Cache-Control: must-revalidate\nExpires: Sat, 21 Nov 2026 10:01:00 GMT", refused: RefusedNoFreshness},
		{name: "strict: max-age alone", rules: strict, header: "Cache-Control: max-age=60", refused: RefusedNoFreshness},
		{name: "strict: Expires alone", rules: strict, header: date + "Expires: Sat, 21 Nov 2026 10:01:00 GMT", refused: RefusedNoFreshness},
		{name: "strict: public max-age", rules: strict, header: "Cache-Control: public, max-age=60", revalidate: time.Minute},
		{name: "strict: s-maxage", rules: strict, header: "Cache-Control: s-maxage=60", revalidate: time.Minute},
		{name: "strict: a targeted max-age", rules: strict, header: "CDN-Cache-Control: max-age=60", revalidate: time.Minute},
		{name: "strict: max-age alone, opted in", rules: Rules{Strict: true, Revalidate: time.Hour}, header: "Cache-Control: max-age=60", revalidate: time.Minute},
		{name: "CDN-Cache-Control rules alone", header: "Cache-Control: private, no-store\nCDN-Cache-Control: max-age=60", revalidate: time.Minute},
		{name: "CDN-Cache-Control forbids alone", header: "Cache-Control: s-maxage=60\nCDN-Cache-Control: no-store", refused: RefusedNoStore},
		{name: "an empty CDN-Cache-Control", header: "Cache-Control: s-maxage=60\nCDN-Cache-Control: ", revalidate: time.Minute},
		{name: "nothing said, opted in", rules: opted, revalidate: time.Minute},
		{name: "s-maxage=0, opted in", rules: opted, header: "Cache-Control: s-maxage=0", refused: RefusedNoFreshness},
		{name: "nonsense counts as zero", header: "Cache-Control: s-maxage=soon", refused: RefusedNoFreshness},
		{name: "digits without end", header: "Cache-Control: s-maxage=99999999999999999999", revalidate: maxDelta},
		{name: "a fraction counts as zero", header: "Cache-Control: s-maxage=1.5", refused: RefusedNoFreshness},
		{name: "the age it already has", header: "Cache-Control: s-maxage=60\nAge: 50", revalidate: 10 * time.Second},
		{name: "older than its window", header: "Cache-Control: s-maxage=60\nAge: 60", refused: RefusedOld},
		{name: "an age beyond 32 bits", header: "Cache-Control: s-maxage=60\nAge: 4294967296", refused: RefusedOld},
		{name: "an age beyond 64 bits", header: "Cache-Control: s-maxage=60\nAge: 99999999999999999999", refused: RefusedOld},
		{name: "an age beyond all windows", header: "Cache-Control: s-maxage=2147483648\nAge: 2147483647", refused: RefusedOld},
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
		{name: "quotes inside an argument", header: `Cache-Control: max-age=60, x=a"b, no-store, c"d`, refused: RefusedMalformed},
		{name: "quotes inside a name", header: `Cache-Control: max-age=60, x"y, private, z"`, refused: RefusedMalformed},
		{name: "a directive in quotes", header: `Cache-Control: max-age=60, "no-store"`, refused: RefusedMalformed},
		{name: "a quote after a quoted argument", header: `Cache-Control: max-age=60, x="a"", no-store, "`, refused: RefusedMalformed},
		{name: "two quoted arguments", header: `Cache-Control: max-age=60, x="a" "b, no-store"`, refused: RefusedMalformed},
		{name: "an escape before a quote outside of quotes", header: `Cache-Control: max-age=60, x=a\", no-store, "`, refused: RefusedMalformed},
		{name: "a quoted argument that has the name of a directive", header: `Cache-Control: max-age="60", x="a\", no-store" , y = "b"`, revalidate: time.Minute},
		{name: "not found, as immutable as a file", status: 404, header: "Cache-Control: public, max-age=31536000, immutable", revalidate: MaxNegative},
		{name: "not found, by itself, for CDNs", status: 404, header: "Cache-Control: max-age=31536000, s-maxage=86400, immutable", revalidate: 24 * time.Hour},
		{name: "vary on what is in no key", header: "Cache-Control: s-maxage=60\nVary: Accept-Encoding, Accept-Language", refused: RefusedVary},
		{name: "vary on everything", header: "Cache-Control: s-maxage=60\nVary: *", refused: RefusedVary},
		{name: "vary on the coding", header: "Cache-Control: s-maxage=60\nVary: accept-encoding", revalidate: time.Minute},
		{name: "vary on a declared header", rules: Rules{InKey: func(name string) bool { return name == "Rsc" }}, header: "Cache-Control: s-maxage=60\nVary: RSC", revalidate: time.Minute},
		{name: "stale-while-revalidate", header: "Cache-Control: s-maxage=60, stale-while-revalidate=30", revalidate: time.Minute, stale: 30 * time.Second},
		{name: "a stale window of a year is bounded by the route", header: "Cache-Control: s-maxage=60, stale-while-revalidate=31536000", revalidate: time.Minute, stale: longestStale},
		{name: "a coding that was not requested", header: "Cache-Control: s-maxage=60\nContent-Encoding: compress", refused: RefusedCoding},
		{name: "gzip that was not requested", header: "Cache-Control: s-maxage=60\nContent-Encoding: gzip", revalidate: time.Minute},
		{name: "an event stream", rules: opted, header: "Content-Type: text/event-stream", refused: RefusedStream},
		{name: "too long", rules: opted, header: "Content-Length: 1001", refused: RefusedTooLarge},
		{name: "just short enough", rules: opted, header: "Content-Length: 1000", revalidate: time.Minute},
		{name: "too many header bytes", rules: opted, header: "X-A: " + strings.Repeat("a", DefaultMaxHeader), refused: RefusedHeader},
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

// TestJudgeStatuses: RFC 9111, sections 3 and 5.2.2.3.
func TestJudgeStatuses(t *testing.T) {
	all := Rules{Statuses: []int{204, 299, 400, 405, 414, 429, 499, 501, 503, 599}, MaxBody: 1000}
	none := Rules{MaxBody: 1000}
	for _, tt := range []struct {
		rules   Rules
		status  int
		header  string
		refused string
		failed  bool
	}{
		{none, 204, "max-age=60", "", false},
		{none, 299, "max-age=60", RefusedStatus, false},
		{none, 405, "max-age=60", RefusedStatus, false},
		{none, 206, "max-age=60", RefusedStatus, false},
		{none, 501, "max-age=60", "", true},
		{all, 299, "max-age=60", "", false},
		{all, 405, "max-age=60", "", false},
		{all, 405, "public", RefusedNoFreshness, false},
		{all, 414, "s-maxage=60", "", false},
		{all, 499, "max-age=60", "", false},
		{all, 429, "max-age=60", "", false},
		{all, 429, "no-cache", "", true},
		{all, 501, "max-age=60", "", false},
		{all, 503, "max-age=60", "", false},
		{all, 599, "max-age=60", "", false},
		{all, 503, "max-age=0", "", true},
		{all, 503, "private, max-age=60", "", true},
		{all, 503, "", "", true},
		{all, 502, "max-age=60", "", true},
		{none, 200, "no-store, must-understand, max-age=60", "", false},
		{none, 404, "no-store, must-understand, max-age=60", "", false},
		{none, 200, "no-store, max-age=60", RefusedNoStore, false},
		{none, 200, "must-understand, private, max-age=60", RefusedPrivate, false},
		{all, 405, "no-store, must-understand, max-age=60", "", false},
		{all, 299, "no-store, must-understand, max-age=60", RefusedStatus, false},
		{all, 299, "must-understand, max-age=60", RefusedStatus, false},
		{none, 403, "no-store, must-understand, max-age=60", RefusedStatus, false},
	} {
		v := tt.rules.Judge(tt.status, headerOf("Cache-Control: "+tt.header))
		if v.Refused != tt.refused || v.Failed != tt.failed || tt.refused == "" && !tt.failed && v.Revalidate != time.Minute {
			t.Errorf("%d with %q: %+v; want %q, failed %v", tt.status, tt.header, v, tt.refused, tt.failed)
		}
	}
	for status, want := range map[int]bool{100: false, 199: false, 200: true, 206: false, 304: false, 401: false, 403: true, 412: false, 416: false, 511: false, 599: true, 600: false} {
		if got := MayBeStored(status); got != want {
			t.Errorf("MayBeStored(%d) = %v", status, got)
		}
	}
}

// TestStaleWindows: RFC 5861, sections 3 and 4, within RFC 9111, sections 5.2.2.2, 5.2.2.8 and
// 5.2.2.10.
func TestStaleWindows(t *testing.T) {
	const (
		h, d = time.Hour, 24 * time.Hour
		own  = ", stale-while-revalidate=3600, stale-if-error=86400"
	)
	for _, tt := range []struct {
		name         string
		rules        Rules
		header       string
		stale, error time.Duration
	}{
		{name: "nothing stated", header: "public, max-age=1"},
		{name: "what the response states", header: "public, max-age=1" + own, stale: h, error: d},
		{name: "beside must-revalidate", header: "public, max-age=1, must-revalidate" + own},
		{name: "beside proxy-revalidate", header: "public, max-age=1, proxy-revalidate" + own},
		{name: "beside s-maxage", header: "s-maxage=1" + own},
		{name: "beside s-maxage and max-age", header: "max-age=1, s-maxage=1" + own},
		{name: "the default of the route", rules: Rules{Stale: time.Minute, StaleIfError: 2 * time.Minute}, header: "public, max-age=1", stale: time.Minute, error: 2 * time.Minute},
		{name: "the bound of the route", rules: Rules{Stale: time.Minute, StaleIfError: 2 * time.Minute}, header: "public, max-age=1" + own, stale: time.Minute, error: 2 * time.Minute},
		{name: "less than the bound", rules: Rules{Stale: 7 * d, StaleIfError: 7 * d}, header: "public, max-age=1" + own, stale: h, error: d},
		{name: "the route overrules s-maxage", rules: Rules{Stale: 7 * d}, header: "s-maxage=1" + own, stale: h, error: d},
		{name: "the route overrules s-maxage on errors", rules: Rules{StaleIfError: 7 * d}, header: "s-maxage=1" + own, error: d},
		{name: "the route does not overrule must-revalidate", rules: Rules{Stale: h, StaleIfError: h}, header: "max-age=1, s-maxage=1, must-revalidate" + own},
		{name: "the route does not overrule proxy-revalidate", rules: Rules{Stale: h, StaleIfError: h}, header: "s-maxage=1, proxy-revalidate" + own},
		{name: "never", rules: Rules{Stale: -1, StaleIfError: -1}, header: "public, max-age=1" + own},
		{name: "only on errors", rules: Rules{Stale: -1}, header: "public, max-age=1" + own, error: d},
		{name: "intervals that are none", header: "public, max-age=1, stale-while-revalidate=x, stale-if-error"},
		{name: "without a value, as Nitro sends it", header: "s-maxage=600, stale-while-revalidate"},
		{name: "without a value, and the route overrules s-maxage", rules: Rules{Stale: h}, header: "s-maxage=600, stale-while-revalidate", stale: h},
		{name: "kept stale, as the route's window counts", rules: Rules{Revalidate: h, KeepStale: true}, header: "public", stale: h, error: d},
		{name: "kept stale without a value", rules: Rules{Revalidate: h, KeepStale: true}, header: "stale-while-revalidate, stale-if-error", stale: h, error: d},
		{name: "kept stale as the response states", rules: Rules{Revalidate: h, KeepStale: true}, header: "stale-while-revalidate=60, stale-if-error=0", stale: time.Minute},
		{name: "kept stale within the windows of the route", rules: Rules{Revalidate: h, KeepStale: true, Stale: 7 * d, StaleIfError: 2 * d}, header: "public", stale: 7 * d, error: 2 * d},
		{name: "not kept stale: the response states its lifetime", rules: Rules{Revalidate: h, KeepStale: true}, header: "max-age=60"},
		{name: "not kept stale: the route forbids it", rules: Rules{Revalidate: h, KeepStale: true, Stale: -1, StaleIfError: -1}, header: "public"},
		{name: "not kept stale: the response forbids it", rules: Rules{Revalidate: h, KeepStale: true}, header: "must-revalidate"},
		{name: "stale-if-error without a value", rules: Rules{StaleIfError: h}, header: "max-age=600, stale-if-error", error: h},
	} {
		header := headerOf("Cache-Control: " + tt.header)
		rules := tt.rules
		rules.MaxBody = 1000
		v := rules.Judge(http.StatusOK, header)
		if onError := rules.StaleIfErrorOf(200, header); v.Refused != "" || v.Stale != tt.stale || onError != tt.error {
			t.Errorf("%s: %v and %v on errors (%q), want %v and %v", tt.name, v.Stale, onError, v.Refused, tt.stale, tt.error)
		}
	}
}

// TestParseDate: RFC 9110, section 5.6.7.
func TestParseDate(t *testing.T) {
	want := time.Date(1994, time.November, 6, 8, 49, 37, 0, time.UTC)
	for _, text := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "SUN, 06 nov 1994 08:49:37 gmt"} {
		if got, ok := ParseDate(text); !ok || !got.Equal(want) {
			t.Errorf("%q: %v, %v; want %v", text, got, ok, want)
		}
	}
	for _, text := range []string{
		"", "0", "-1", "Sun, 6 Nov 1994 08:49:37 GMT", "Sun, 06 Nov 1994 8:49:37 GMT", "Mon, 06 Nov 1994 08:49:37 GMT",
		"Sun, 06 Nov 1994 08:49:37 +0000", "Sun, 06 Nov 1994 08:49:37", " Sun, 06 Nov 1994 08:49:37 GMT", "Sun, 31 Feb 1994 08:49:37 GMT",
	} {
		if got, ok := ParseDate(text); ok {
			t.Errorf("%q is the date %v", text, got)
		}
	}
}

func TestStoredHeader(t *testing.T) {
	h := headerOf("Content-Type: text/html\nConnection: x-hop, close\nX-Hop: 1\nDate: now\nAge: 3\nEtag: \"a\"\n" +
		"Content-Length: 3\nTransfer-Encoding: chunked\nCache-Status: other; hit\nLink: a\nLink: b\nCdn-Cache-Control: max-age=1\nSurrogate-Control: max-age=2\nWarning: 110 - x\nX-Request-Id: 1\nClear-Site-Data: \"cookies\"\nAlt-Svc: h3\nX-Nextjs-Cache: HIT\nX-B3-TraceId: 1\nRepr-Digest: sha-256=:a=:")
	got := StoredHeader(h)
	want := http.Header{"Content-Type": {"text/html"}, "Link": {"a", "b"}, "Cdn-Cache-Control": {"max-age=1"}, "Surrogate-Control": {"max-age=2"}, "Cache-Status": {"other; hit"}, "Repr-Digest": {"sha-256=:a=:"}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("stored %v, want %v", got, want)
	}
	h.Set("Content-Encoding", "gzip") // the digest is of the content before it is decoded
	if got := StoredHeader(h); HasDigests(got) {
		t.Errorf("stored %v", got)
	}
	h.Set("Date", anyDate)
	if got := StoredHeader(h)["Date"]; len(got) != 1 || got[0] != anyDate {
		t.Errorf("the stored Date is %q", got)
	}
}

// TestSurrogateControl: the W3C note "Edge Architecture Specification", section 2.2, and its place among the
// targeted fields (RFC 9213, section 2.2).
func TestSurrogateControl(t *testing.T) {
	rules := Rules{Stale: time.Hour, StaleIfError: time.Hour}.withBounds()
	for _, tt := range []struct {
		header     string
		refused    string
		revalidate time.Duration
		stale      time.Duration
	}{
		{"Cache-Control: max-age=60\nSurrogate-Control: no-store", RefusedNoStore, 0, 0},
		{"Cache-Control: no-store\nSurrogate-Control: max-age=60", "", time.Minute, time.Hour},
		{"Surrogate-Control: max-age=60", "", time.Minute, time.Hour},
		{"Surrogate-Control: max-age=60+600", "", time.Minute, 10 * time.Minute},
		{"Surrogate-Control: max-age=60+600, stale-while-revalidate=30", "", time.Minute, 30 * time.Second},
		{"Cache-Control: private\nSurrogate-Control: content=\"ESI/1.0\"", RefusedPrivate, 0, 0},
		{"Cache-Control: max-age=60\nSurrogate-Control: content=\"ESI/1.0\"", "", time.Minute, time.Hour},
		{"Cache-Control: max-age=60\nSurrogate-Control: no-store;edge", "", time.Minute, time.Hour},
		{"Cache-Control: max-age=60\nSurrogate-Control: max-age=5, max-age=120;isr, no-store;edge", "", 2 * time.Minute, time.Hour},
		{"Cache-Control: max-age=60\nSurrogate-Control: content=\"a, no-store;b\"", "", time.Minute, time.Hour},
		{"Cache-Control: max-age=60\nSurrogate-Control: max-age=60, content=\"ESI", RefusedMalformed, 0, 0},
		{"Cache-Control: max-age=60\nSurrogate-Control: max-age=0", RefusedNoFreshness, 0, 0},
		{"Cache-Control: max-age=60\nSurrogate-Control: max-age=x", RefusedNoFreshness, 0, 0},
		{"CDN-Cache-Control: max-age=60\nSurrogate-Control: no-store", "", time.Minute, time.Hour},
	} {
		h := headerOf(strings.Replace(tt.header, "CDN-", "Cdn-", 1))
		v := rules.Judge(http.StatusOK, h)
		if v.Refused != tt.refused || tt.refused == "" && (v.Revalidate != tt.revalidate || v.Stale != tt.stale || rules.StaleIfErrorOf(200, h) > time.Hour) {
			t.Errorf("%q: %+v; want %q, %v, %v", tt.header, v, tt.refused, tt.revalidate, tt.stale)
		}
	}
	if _, field := Governing(headerOf("Surrogate-Control: no-store")); field != "Surrogate-Control" {
		t.Errorf("governed by %s", field)
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
