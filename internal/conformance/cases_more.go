package conformance

import (
	"net/http"
	"strings"
	"time"
)

const tag = "ETag: \"abc\"\n"

func conditional() []Case {
	const modified = "Last-Modified: Sat, 21 Nov 2020 10:00:00 GMT\n"
	asks := func(name, section string, level Level, stored, request string, status int) Case {
		return Case{"conditional/" + name, section, level, []Step{stores(hour + stored), setup(again(cached)), {Request: request, Response: hour + stored, From: cached, WantStatus: status}}}
	}
	const etags, dates = "9110 13.1.2", "9110 13.1.3"
	return []Case{
		asks("If-None-Match, the tag", etags, Optimal, tag, `If-None-Match: "abc"`, 304),
		asks("If-None-Match, the tag, weakly", etags, Optimal, tag, `If-None-Match: W/"abc"`, 304),
		asks("If-None-Match, a weak tag", etags, Optimal, "ETag: W/\"abc\"\n", `If-None-Match: "abc"`, 304),
		asks("If-None-Match, in a list", etags, Optimal, tag, `If-None-Match: "x", "abc" , "y"`, 304),
		asks("If-None-Match, on two lines", etags, Optimal, tag, "If-None-Match: \"x\"\nIf-None-Match: \"abc\"", 304),
		asks("If-None-Match, any", etags, Optimal, tag, `If-None-Match: *`, 304),
		asks("If-None-Match, a tag with a comma", etags, Optimal, "ETag: \"a,b\"\n", `If-None-Match: "a,b"`, 304),
		asks("If-None-Match, another", etags, Optimal, tag, `If-None-Match: "x"`, 200),
		asks("If-None-Match, before If-Modified-Since", "9110 13.2.2", Required, tag+modified, "If-None-Match: \"x\"\nIf-Modified-Since: Sat, 21 Nov 2020 10:00:00 GMT", 200),
		asks("If-Modified-Since, the date", dates, Optimal, modified, "If-Modified-Since: Sat, 21 Nov 2020 10:00:00 GMT", 304),
		asks("If-Modified-Since, later", dates, Optimal, modified, "If-Modified-Since: Sat, 21 Nov 2020 10:00:01 GMT", 304),
		asks("If-Modified-Since, in 850 format", dates, Optimal, modified, "If-Modified-Since: Saturday, 21-Nov-20 10:00:00 GMT", 304),
		asks("If-Modified-Since, earlier", dates, Required, modified, "If-Modified-Since: Sat, 21 Nov 2020 09:59:59 GMT", 200),
		asks("If-Modified-Since, no date", dates, Required, modified, "If-Modified-Since: yesterday", 200),
		{"conditional/304 has the fields of 200", "9110 15.4.5", Required, []Step{
			stores(hour + tag + "Content-Location: /here\nVary: Accept-Encoding\n"),
			{Request: `If-None-Match: "abc"`, From: cached, WantStatus: 304, Setup: true},
			{Request: `If-None-Match: "abc"`, From: cached, WantStatus: 304, Want: tag + "Content-Location: /here", Check: has("Cache-Control", "Date", "Vary")},
		}},
		{"conditional/is not stored by a cold cache as 304", "9111 4.3", Required, []Step{
			{Request: `If-None-Match: "abc"`, Response: hour + tag, Status: 0}, {Response: hour + tag, WantStatus: 200, Check: hasBody},
		}},
	}
}

func has(names ...string) func(*http.Response, []byte) string {
	return func(res *http.Response, _ []byte) string {
		for _, name := range names {
			if res.Header.Get(name) == "" {
				return "the response has no " + name
			}
		}
		return ""
	}
}

func updates() []Case {
	const section = "9111 3.2"
	const modified = "Last-Modified: {now-864000}\n"
	renewed := func(response, want, without string) []Step {
		return []Step{
			stores(brief + tag + "Test: old\nOther: kept\n"),
			{After: expired, From: validated, Response: response, Setup: true},
			{From: cached, Response: hour, Want: want, Without: without},
		}
	}
	return []Case{
		{"update/an ETag validates", "9111 4.3.1", Optimal, []Step{stores(brief + tag), {After: expired, From: validated, Response: hour + tag, AtOrigin: "If-None-Match: \"abc\""}}},
		{"update/a weak ETag validates", "9111 4.3.1", Optimal, []Step{stores(brief + "ETag: W/\"abc\"\n"), {After: expired, From: validated, Response: hour + tag, AtOrigin: "If-None-Match: W/\"abc\""}}},
		{"update/Last-Modified validates", "9111 4.3.1", Optimal, []Step{stores(brief + modified), {After: expired, From: validated, Response: hour, AtOrigin: "If-Modified-Since"}}},
		{"update/a 304 makes it fresh", "9111 4.3.4", Optimal, renewed(hour+tag, "", "")},
		{"update/a field of the 304 replaces", section, Required, renewed(hour+tag+"Test: new", "Test: new\nOther: kept", "")},
		{"update/a new field of the 304 is added", section, Required, renewed(hour+tag+"Fresh: 1", "Fresh: 1\nTest: old", "")},
		{"update/Content-Length of the 304 is ignored", section, Required, renewed(hour+tag+"Content-Range: bytes 1-2/3", "Test: old", "Content-Range")},
		{"update/Content-Encoding of the 304 is ignored", section, Required, renewed(hour+tag+"Content-Encoding: gzip", "", "Content-Encoding")},
		{"update/the visitor's condition gets 304 as well", "9111 4.3.2", Optimal, []Step{stores(brief + tag), {After: expired, Request: `If-None-Match: "abc"`, From: validated, Response: hour + tag, WantStatus: 304}}},
		{"update/a 200 replaces the stored one", "9111 4.3.3", Required, []Step{stores(brief + tag), {After: expired, Status: 200, From: origin, Response: hour + "ETag: \"x\"", Setup: true}, {From: cached, WantBody: text("update/a 200 replaces the stored one, step 1\n")}}},
	}
}

func invalidation() []Case {
	const section = "9111 4.4"
	var all []Case
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "FROB"} {
		all = append(all, Case{"invalidation/" + method, section, Required, []Step{
			stores(hour), setup(again(cached)), {Method: method, From: origin, Setup: true}, {From: origin, Response: hour},
		}})
	}
	other := func(name, field, host string, status int, level Level, from source) Case {
		path := "invalidation/" + name
		return Case{path, section, level, []Step{
			{Query: "/other", Response: hour, From: origin, Setup: true},
			{Query: "/other", From: cached, Setup: true},
			{Method: "POST", Status: status, Response: field + ": " + host + "{other}", From: origin, Setup: true},
			{Query: "/other", From: from, Response: hour},
		}}
	}
	return append(all,
		Case{"invalidation/a failed POST", section, Optimal, []Step{
			stores(hour), setup(again(cached)), {Method: "POST", Status: 500, From: origin, Setup: true}, {From: cached, WantStatus: 200},
		}},
		Case{"invalidation/GET, HEAD and OPTIONS do not", "9110 9.2.1", Optimal, []Step{
			stores(hour), {Method: "HEAD"}, {Method: "OPTIONS", From: origin, Setup: true}, {From: cached},
		}},
		other("Location", "Location", "", 201, Optimal, origin),
		other("Content-Location", "Content-Location", "", 200, Optimal, origin),
		other("Location on another host", "Location", "http://other.example", 201, Required, cached),
		other("Content-Location on another host", "Content-Location", "http://other.example", 200, Required, cached),
	)
}

// digits is the whole of which the origin sends parts.
const digits = "0123456789"

func partial() []Case {
	whole := Step{Response: hour + tag, Body: digits, From: origin, Setup: true}
	ranged := func(name, section string, level Level, request string, status int, body string) Case {
		step := Step{Request: request, Response: hour + tag, Body: digits, From: cached, WantStatus: status}
		if status != http.StatusRequestedRangeNotSatisfiable {
			step.WantBody = &body
		}
		return Case{"partial/" + name, section, level, []Step{whole, {Body: digits, From: cached, Setup: true, WantBody: text(digits)}, step}}
	}
	const section = "9110 14.2"
	part := Step{Request: "Range: bytes=0-4", Status: 206, Response: hour + "Content-Range: bytes 0-4/10\n", Body: "01234"}
	return []Case{
		ranged("first bytes", section, Optimal, "Range: bytes=0-1", 206, "01"),
		ranged("an open end", section, Optimal, "Range: bytes=7-", 206, "789"),
		ranged("a suffix", section, Optimal, "Range: bytes=-2", 206, "89"),
		ranged("beyond the end", section, Optimal, "Range: bytes=20-30", 416, ""),
		ranged("an unknown unit", "9110 14.2", Required, "Range: lines=1-2", 200, digits),
		ranged("If-Range, the tag", "9110 13.1.5", Optimal, "Range: bytes=0-1\nIf-Range: \"abc\"", 206, "01"),
		ranged("If-Range, another tag", "9110 13.1.5", Required, "Range: bytes=0-1\nIf-Range: \"x\"", 200, digits),
		ranged("If-Range, a weak tag", "9110 13.1.5", Required, "Range: bytes=0-1\nIf-Range: W/\"abc\"", 200, digits),
		ranged("If-None-Match wins", "9110 13.2.2", Optimal, "Range: bytes=0-1\nIf-None-Match: \"abc\"", 304, ""),
		{"partial/a stored part is not the whole", "9111 3.3", Required, []Step{part, {Response: hour, Body: digits, WantStatus: 200, WantBody: text(digits)}}},
		{"partial/another part", "9111 3.3", Required, []Step{part, {Request: "Range: bytes=5-9", Status: 206, Response: hour + "Content-Range: bytes 5-9/10\n", Body: "56789", Check: lastHalf}}},
	}
}

// lastHalf accepts the second half of the ten digits, and the whole: a server may ignore Range.
func lastHalf(res *http.Response, body []byte) string {
	if text := string(body); text != "56789" && !(res.StatusCode == http.StatusOK && strings.HasPrefix(text, "0")) {
		return "the body is " + text
	}
	return ""
}

func fields() []Case {
	kept := func(name, section, lines, want, without string) Case {
		return Case{"fields/" + name, section, Required, []Step{stores(hour + lines), setup(again(cached)), {From: cached, Response: hour, Want: want, Without: without}}}
	}
	return []Case{
		kept("all are stored", "9111 3.1", "X-Test: 1\nContent-Type: text/css\nLink: </a>; rel=next\nContent-Language: de", "X-Test: 1\nContent-Type: text/css\nLink: </a>; rel=next\nContent-Language: de", ""),
		kept("several lines are stored", "9111 3.1", "X-Test: 1\nX-Test: 2", "X-Test: 1, 2", ""),
		kept("those that Connection names are not", "9110 7.6.1", "Connection: a, b\nA: 1\nB: 2\nC: 3", "C: 3", "A B"),
		kept("Keep-Alive and Proxy-Connection are not", "9110 7.6.1", "Keep-Alive: timeout=7\nProxy-Connection: x", "", "Keep-Alive Proxy-Connection"),
		kept("Proxy-Authenticate is not", "9111 3.1", "Proxy-Authenticate: Basic\nProxy-Authentication-Info: a=1", "", "Proxy-Authenticate Proxy-Authentication-Info"),
		kept("Expires and Cache-Control are sent", "9111 3.1", "Expires: Sat, 18 Nov 2034 10:00:00 GMT", "Expires: Sat, 18 Nov 2034 10:00:00 GMT\nCache-Control: max-age=3600", ""),
		{"fields/Date is the Date of the origin", "9110 6.6.1", Required, []Step{stores(hour + "Date: {now-60}"), setup(again(cached)), {From: cached, Check: dated}}},
		{"fields/request fields that Connection names stop", "9110 7.6.1", Required, []Step{{Method: "POST", Request: "Connection: close, a\nA: 1\nB: 2", Response: "Cache-Control: no-store", NotOrigin: "A", AtOrigin: "B: 2"}}},
		{"fields/Via is sent to the origin", "9110 7.6.3", Required, []Step{{Response: hour, AtOrigin: "Via"}}},
		{"fields/the client's Via is kept", "9110 7.6.3", Required, []Step{{Method: "POST", Request: "Via: 1.0 fred", Response: "Cache-Control: no-store", AtOrigin: "Via", Check: nil}}},
	}
}

// dated accepts a response whose Date is a minute old, as the origin's response is.
func dated(res *http.Response, _ []byte) string {
	if date, err := http.ParseTime(res.Header.Get("Date")); err != nil || time.Since(date) < 50*time.Second {
		return "Date is " + res.Header.Get("Date") + ", and not the Date of the origin"
	}
	return ""
}

func staleness() []Case {
	gone := func(directive string) Case {
		return Case{"stale/not with " + directive, "9111 4.2.4", Required, []Step{stores("Cache-Control: max-age=2, " + directive), {After: expired, Break: "before", From: origin}}}
	}
	const revalidating = "Cache-Control: max-age=2, stale-while-revalidate=60\n"
	const failing = "Cache-Control: max-age=2, stale-if-error=60\n"
	return []Case{
		gone("must-revalidate"), gone("proxy-revalidate"), gone("no-cache"), gone("s-maxage=2"),
		gone("must-revalidate, stale-if-error=60"), gone("proxy-revalidate, stale-while-revalidate=60"),
		{"stale/while it is revalidated", "5861 3", Optimal, []Step{stores(revalidating), {After: expired, From: cached, Response: hour}}},
		{"stale/a new one arrives behind", "5861 3", Optimal, []Step{
			stores(revalidating),
			{After: expired, From: cached, Response: hour, Setup: true},
			{After: time.Second, From: cached, WantBody: text("stale/a new one arrives behind, step 1\n")},
		}},
		{"stale/no longer than stated", "5861 3", Required, []Step{stores("Cache-Control: max-age=1, stale-while-revalidate=1"), {After: 5 * time.Second, From: notFresh, Response: hour}}},
		{"stale/if the connection breaks", "5861 4", Optimal, []Step{stores(failing), {After: expired, Break: "before", From: cached, WantStatus: 200}}},
		{"stale/if the origin has an error", "5861 4", Optimal, []Step{stores(failing), {After: expired, Status: 503, From: cached, WantStatus: 200}}},
		{"stale/an error no longer than stated", "5861 4", Required, []Step{stores("Cache-Control: max-age=1, stale-if-error=1"), {After: 5 * time.Second, Status: 503, From: origin, WantStatus: 503}}},
	}
}

func others() []Case {
	return []Case{
		{"other/a body that breaks off is not stored", "9111 3.3", Required, []Step{{Response: hour, Break: "within"}, {After: expired, Response: hour, From: origin, WantStatus: 200}}},
		{"other/103 before the response", "9110 15.2", Required, []Step{{Interim: "Link: </a.css>; rel=preload", Response: hour, From: origin, WantStatus: 200}, {From: cached, Setup: true}, {From: cached, WantStatus: 200}}},
		{"other/an error with its body and Retry-After", "9110 15.6.4", Required, []Step{{Status: 503, Response: "Retry-After: 7\nCache-Control: no-store", From: anywhere, WantStatus: 503, Want: "Retry-After: 7"}}},
		reuse("other/an immutable one", "8246 2", "Cache-Control: max-age=3600, immutable"),
		reuse("other/Pragma in a response means nothing", "9111 5.4", hour+"Pragma: no-cache"),
	}
}
