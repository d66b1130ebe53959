package conformance

import (
	"fmt"
	"net/http"
	"slices"
	"time"
)

const (
	hour = "Cache-Control: max-age=3600\n"
	// brief is fresh for two seconds; expired is how long until it is not.
	brief   = "Cache-Control: max-age=2\n"
	expired = 3 * time.Second
)

// Cases returns all cases.
func Cases() []Case {
	return slices.Concat(freshness(), expires(), parsing(), ages(), targeted(), directives(), requests(), authorization(),
		varying(), conditional(), updates(), invalidation(), methods(), statuses(), partial(), fields(), staleness(), others())
}

// stores is a first step whose response a cache may store.
func stores(lines string) Step { return Step{Response: lines, From: origin, Setup: true} }

// again is a second request for what the first has stored.
func again(from source) Step { return Step{From: from, Response: hour} }

// reuse is an optimal case: a response is stored and used.
func reuse(name, section, lines string) Case {
	return Case{name, section, Optimal, []Step{stores(lines), again(cached)}}
}

// never is a required case: a response is not used again without asking the origin.
func never(name, section, lines string) Case {
	return Case{name, section, Required, []Step{stores(lines), again(notFresh)}}
}

// until is a required case: a response is not used once it has expired.
func until(name, section, lines string) Case {
	step := again(notFresh)
	step.After = expired
	return Case{name, section, Required, []Step{stores(lines), step}}
}

func freshness() []Case {
	const section = "9111 4.2"
	return []Case{
		reuse("freshness/max-age", section, hour),
		reuse("freshness/max-age beside a past Expires", "9111 5.3", hour+"Expires: {now-60}"),
		reuse("freshness/public max-age", section, "Cache-Control: public, max-age=3600"),
		reuse("freshness/s-maxage", "9111 5.2.2.10", "Cache-Control: s-maxage=3600"),
		reuse("freshness/s-maxage over max-age=0", "9111 5.2.2.10", "Cache-Control: max-age=0, s-maxage=3600"),
		reuse("freshness/part of the lifetime is over", section, hour+"Age: 1800"),
		reuse("freshness/ten digits", "9111 1.2.2", "Cache-Control: max-age=9999999999"),
		never("freshness/max-age=0", section, "Cache-Control: max-age=0"),
		never("freshness/max-age=0 beside a later Expires", "9111 5.3", "Cache-Control: max-age=0\nExpires: {now+3600}"),
		never("freshness/s-maxage=0 over max-age", "9111 5.2.2.10", "Cache-Control: max-age=3600, s-maxage=0"),
		never("freshness/Age over max-age", "9111 4.2.3", hour+"Age: 7200"),
		never("freshness/Age over s-maxage", "9111 4.2.3", "Cache-Control: s-maxage=3600\nAge: 7200"),
		until("freshness/max-age is over", section, brief),
		until("freshness/s-maxage is over", section, "Cache-Control: s-maxage=2, max-age=3600"),
		until("freshness/the rest is over", section, "Cache-Control: max-age=3600\nAge: 3598"),
	}
}

func expires() []Case {
	const section = "9111 5.3"
	all := []Case{
		reuse("expires/in the future", section, "Expires: {now+3600}"),
		reuse("expires/in 850 format", "9110 5.6.7", "Expires: Saturday, 18-Nov-34 10:00:00 GMT"),
		reuse("expires/in lower case", "9111 4.2", "Expires: sat, 18 nov 2034 10:00:00 gmt"),
		reuse("expires/in asctime format", "9110 5.6.7", "Expires: Sat Nov 18 10:00:00 2034"),
		never("expires/in the past", section, "Expires: {now-3600}"),
		never("expires/now", section, "Date: {now}\nExpires: {now}"),
		never("expires/later, but Age is larger", "9111 4.2.3", "Expires: {now+3600}\nAge: 7200"),
		until("expires/over", section, "Date: {now}\nExpires: {now+2}"),
	}
	for _, text := range []string{
		"0", "-1", "soon", "Sat, 18 Nov 2034 10:00:00", "Sat, 18 Nov 2034 10:00:00 UTC", "Sat, 18 Nov 2034 10:00:00 +0100", "Sat, 18-Nov-2034 10:00:00 GMT",
		"Sat, 18 Nov 2034 10:00 GMT", "18 Nov 2034 10:00:00 GMT", "Sat, 18 Nov 2034 25:00:00 GMT", "Sat,  18  Nov  2034  10:00:00  GMT", "Sat, 18 Nov 34 10:00:00 GMT", "2034-11-18T10:00:00Z",
	} {
		all = append(all, never("expires/invalid: "+text, section, "Expires: "+text))
	}
	return all
}

func parsing() []Case {
	const section = "9111 5.2"
	return []Case{
		reuse("parsing/letter case", section, "Cache-Control: MaX-aGe=3600"),
		reuse("parsing/a quoted argument", section, `Cache-Control: max-age="3600"`),
		reuse("parsing/empty members", "9110 5.6.1.2", "Cache-Control: , max-age=3600,"),
		reuse("parsing/unknown directives", "9111 5.2.3", "Cache-Control: extension, other=1, max-age=3600"),
		reuse("parsing/two lines", "9110 5.2", "Cache-Control: extension\nCache-Control: max-age=3600"),
		reuse("parsing/leading zeros", section, "Cache-Control: max-age=003600"),
		never("parsing/a quoted string hides max-age", section, `Cache-Control: extension="max-age=3600"`),
		never("parsing/a quoted string with a comma hides max-age", section, `Cache-Control: extension="a, max-age=3600, b"`),
		never("parsing/a negative number", "9111 4.2.1", "Cache-Control: max-age=-3600"),
		never("parsing/no number", "9111 4.2.1", "Cache-Control: max-age=soon"),
		never("parsing/no argument", "9111 4.2.1", "Cache-Control: max-age"),
		never("parsing/another name", section, "Cache-Control: max-ages=3600, my-max-age=3600"),
		never("parsing/no-store on a second line", "9110 5.2", "Cache-Control: max-age=3600\nCache-Control: no-store"),
		never("parsing/no-store without spaces", section, "Cache-Control: max-age=3600,no-store"),
		until("parsing/the first of two is shorter", "9111 4.2.1", "Cache-Control: max-age=2, max-age=3600"),
	}
}

func ages() []Case {
	const section = "9111 5.1"
	aged := again(cached)
	aged.After, aged.MinAge = 2*time.Second, 2
	upstream := again(cached)
	upstream.After, upstream.MinAge = 2*time.Second, 32
	return []Case{
		{"age/is sent", section, Required, []Step{{Response: hour, From: origin, Setup: true}, setup(again(cached)), aged}},
		{"age/includes the Age of the response", "9111 4.2.3", Required, []Step{stores(hour + "Age: 30"), setup(again(cached)), upstream}},
		never("age/the first of two counts", section, hour+"Age: 7200, 0"),
		never("age/beyond 31 bits", "9111 1.2.2", hour+"Age: 2147483649"),
		never("age/beyond 64 bits", "9111 1.2.2", hour+"Age: 99999999999999999999"),
		reuse("age/zero", section, hour+"Age: 0"),
		reuse("age/a negative number is ignored", section, hour+"Age: -7200"),
		reuse("age/no number is ignored", section, hour+"Age: old"),
	}
}

func setup(s Step) Step {
	s.Setup = true
	return s
}

func targeted() []Case {
	const section = "9213 2"
	optimal := func(c Case) Case {
		c.Level = Optimal
		return c
	}
	return []Case{
		reuse("targeted/max-age", section, "CDN-Cache-Control: max-age=3600"),
		reuse("targeted/over no-store", "9213 2.2", "CDN-Cache-Control: max-age=3600\nCache-Control: no-store"),
		reuse("targeted/over a past Expires", "9213 2.2", "CDN-Cache-Control: max-age=3600\nExpires: {now-60}"),
		reuse("targeted/parameters are ignored", "9213 2.1", "CDN-Cache-Control: max-age=3600;a=b"),
		reuse("targeted/an invalid field is ignored", "9213 2.1", "CDN-Cache-Control: max-age=0, &\nCache-Control: max-age=3600"),
		reuse("targeted/the last duplicate counts", "9651 3.2", "CDN-Cache-Control: max-age=0, max-age=3600"),
		optimal(never("targeted/max-age=0 over max-age", "9213 2.2", "CDN-Cache-Control: max-age=0\nCache-Control: max-age=3600")),
		optimal(never("targeted/no-store over max-age", "9213 2.2", "CDN-Cache-Control: no-store\nCache-Control: max-age=3600")),
		optimal(never("targeted/private over max-age", "9213 2.2", "CDN-Cache-Control: private\nCache-Control: max-age=3600")),
	}
}

func directives() []Case {
	const etag = "ETag: \"a\"\n"
	later := Step{From: origin, After: expired, Response: brief}
	return []Case{
		never("response/private", "9111 5.2.2.7", "Cache-Control: private, max-age=3600"),
		never("response/no-store", "9111 5.2.2.5", "Cache-Control: no-store"),
		never("response/No-StOrE", "9111 5.2", "Cache-Control: No-StOrE, max-age=3600"),
		never("response/no-store beside max-age", "9111 5.2.2.5", "Cache-Control: max-age=3600, no-store\nExpires: {now+3600}"),
		never("response/no-cache", "9111 5.2.2.4", "Cache-Control: no-cache, max-age=3600"),
		never("response/No-CaChE", "9111 5.2", "Cache-Control: max-age=3600, No-CaChE"),
		never("response/no-cache and Expires", "9111 5.2.2.4", "Cache-Control: no-cache\nExpires: {now+3600}"),
		{"response/no-cache is validated", "9111 5.2.2.4", Optimal, []Step{stores("Cache-Control: no-cache, max-age=3600\n" + etag), {From: validated, Response: hour + etag}}},
		reuse("response/must-revalidate while fresh", "9111 5.2.2.2", "Cache-Control: max-age=3600, must-revalidate"),
		reuse("response/proxy-revalidate while fresh", "9111 5.2.2.8", "Cache-Control: max-age=3600, proxy-revalidate"),
		reuse("response/must-understand over no-store", "9111 5.2.2.3", "Cache-Control: max-age=3600, no-store, must-understand"),
		{"response/must-understand of an unknown status", "9111 5.2.2.3", Required, []Step{
			{Response: "Cache-Control: max-age=3600, must-understand", Status: 599, From: origin, Setup: true, WantStatus: 599},
			{After: expired, From: notFresh, Response: hour},
		}},
		{"response/no-store is not replaced by an older one", "9111 3", Required, []Step{stores(brief), setup(again(cached)), {From: origin, After: expired, Response: "Cache-Control: no-store"}, {From: origin}}},
		until("response/must-revalidate once stale", "9111 5.2.2.2", "Cache-Control: max-age=2, must-revalidate"),
		{"response/expires again", "9111 4.2", Required, []Step{stores(brief), later, {From: notFresh, After: expired, Response: brief}}},
	}
}

func requests() []Case {
	asks := func(name, section, line string, wait time.Duration, from source) Case {
		return Case{"request/" + name, section, Optimal, []Step{stores(hour), setup(again(cached)), {Request: line, After: wait, From: from, Response: hour}}}
	}
	return []Case{
		asks("no-cache", "9111 5.2.1.4", "Cache-Control: no-cache", 0, notFresh),
		asks("max-age=0", "9111 5.2.1.1", "Cache-Control: max-age=0", time.Second, notFresh),
		asks("max-age=1", "9111 5.2.1.1", "Cache-Control: max-age=1", expired, notFresh),
		asks("max-age=100", "9111 5.2.1.1", "Cache-Control: max-age=100", 0, cached),
		asks("min-fresh=60", "9111 5.2.1.3", "Cache-Control: min-fresh=60", 0, cached),
		asks("min-fresh=7200", "9111 5.2.1.3", "Cache-Control: min-fresh=7200", 0, notFresh),
		asks("Pragma: no-cache", "9111 5.4", "Pragma: no-cache", 0, notFresh),
		asks("only-if-cached, stored", "9111 5.2.1.7", "Cache-Control: only-if-cached", 0, cached),
		{"request/max-stale", "9111 5.2.1.2", Optimal, []Step{stores(brief), {Request: "Cache-Control: max-stale=60", After: expired, From: cached, Response: brief}}},
		{"request/max-stale is over", "9111 5.2.1.2", Required, []Step{stores(brief), {Request: "Cache-Control: max-stale=1", After: 5 * time.Second, From: notFresh, Response: brief}}},
		{"request/only-if-cached, not stored", "9111 5.2.1.7", Optimal, []Step{{Request: "Cache-Control: only-if-cached", WantStatus: http.StatusGatewayTimeout}}},
		{"request/no-store", "9111 5.2.1.5", Optimal, []Step{{Request: "Cache-Control: no-store", From: origin, Response: hour}, again(notFresh)}},
	}
}

func authorization() []Case {
	const alice, bob = "Authorization: Basic YWxpY2U6YQ==", "Authorization: Basic Ym9iOmI="
	as := func(who, lines string, from source) Step {
		return Step{Request: who, Response: lines, From: from}
	}
	const section = "9111 3.5"
	return []Case{
		{"authorization/for another one", section, Required, []Step{setup(as(alice, hour, origin)), as(bob, hour, origin)}},
		{"authorization/for a visitor without", section, Required, []Step{setup(as(alice, hour, origin)), as("", hour, origin)}},
		{"authorization/for the same", section, Required, []Step{setup(as(alice, hour, origin)), as(alice, hour, origin)}},
		{"authorization/Expires", section, Required, []Step{setup(as(alice, "Expires: {now+3600}", origin)), as(bob, hour, origin)}},
		{"authorization/public", section, Optimal, []Step{setup(as(alice, "Cache-Control: public, max-age=3600", origin)), as(alice, hour, cached)}},
		{"authorization/s-maxage", section, Optimal, []Step{setup(as(alice, "Cache-Control: s-maxage=3600", origin)), as(alice, hour, cached)}},
		{"authorization/must-revalidate", section, Optimal, []Step{setup(as(alice, "Cache-Control: max-age=3600, must-revalidate", origin)), as(alice, hour, cached)}},
	}
}

func varying() []Case {
	const section = "9111 4.1"
	with := func(request, vary string, from source) Step {
		return Step{Request: request, Response: hour + vary, From: from}
	}
	pair := func(name string, level Level, vary, first, second string, from source) Case {
		return Case{"vary/" + name, section, level, []Step{setup(with(first, vary, origin)), with(second, vary, from)}}
	}
	const foo, both = "Vary: Foo", "Vary: Foo, Bar"
	return []Case{
		pair("the same", Optimal, foo, "Foo: 1", "Foo: 1", cached),
		pair("none in both", Optimal, foo, "", "", cached),
		pair("the name in another case", Optimal, "Vary: fOO", "Foo: 1", "Foo: 1", cached),
		pair("space in the list", Optimal, foo, "Foo: 1,2", "Foo: 1, 2", cached),
		pair("another header differs", Optimal, foo, "Foo: 1\nOther: 1", "Foo: 1\nOther: 2", cached),
		pair("two headers", Optimal, both, "Foo: 1\nBar: a", "Foo: 1\nBar: a", cached),
		pair("another value", Required, foo, "Foo: 1", "Foo: 2", origin),
		pair("none in the second", Required, foo, "Foo: 1", "", origin),
		pair("none in the first", Required, foo, "", "Foo: 1", origin),
		pair("the second of two differs", Required, both, "Foo: 1\nBar: a", "Foo: 1\nBar: b", origin),
		pair("two lines, the second differs", Required, "Vary: Foo\nVary: Bar", "Foo: 1\nBar: a", "Foo: 1\nBar: b", origin),
		pair("values exchanged", Required, both, "Foo: 1\nBar: 2", "Foo: 2\nBar: 1", origin),
		pair("everything", Required, "Vary: *", "Foo: 1", "Foo: 1", notFresh),
		pair("everything in a list", Required, "Vary: Foo, *", "Foo: 1", "Foo: 1", notFresh),
		pair("everything on a second line", Required, "Vary: Foo\nVary: *", "Foo: 1", "Foo: 1", notFresh),
		{"vary/returns to the first variant", section, Optimal, []Step{
			setup(with("Foo: 1", foo, origin)), setup(with("Foo: 2", foo, origin)),
			{Request: "Foo: 1", From: cached, Response: hour, WantBody: text("vary/returns to the first variant, step 0\n")},
		}},
		pair("Cookie", Required, "Vary: Cookie", "Cookie: a=1", "Cookie: a=2", origin),
	}
}

func text(s string) *string { return &s }

func methods() []Case {
	head := func(from source) Step { return Step{Method: http.MethodHead, Response: hour, From: from} }
	return []Case{
		{"method/HEAD from a stored GET", "9111 4", Optimal, []Step{stores(hour), head(cached)}},
		{"method/GET after HEAD", "9110 9.3.2", Required, []Step{head(anywhere), {WantBody: nil, Response: hour, Check: hasBody}}},
		{"method/GET after POST", "9111 4", Required, []Step{{Method: http.MethodPost, Response: hour, From: origin, Setup: true}, again(origin)}},
		{"method/POST is not answered from a GET", "9111 4", Required, []Step{stores(hour), {Method: http.MethodPost, From: origin}}},
		{"method/OPTIONS is not answered from a GET", "9111 4", Required, []Step{stores(hour), {Method: http.MethodOptions, From: origin}}},
		{"method/an unknown one is not answered from a GET", "9111 4", Required, []Step{stores(hour), {Method: "FROB", From: origin}}},
		{"method/the query is part of the key", "9111 2", Required, []Step{
			{Query: "?a=1", Response: hour, From: origin, Setup: true}, {Query: "?a=2", Response: hour, From: origin},
		}},
	}
}

func hasBody(_ *http.Response, body []byte) string {
	if len(body) == 0 {
		return "the body is empty"
	}
	return ""
}

func statuses() []Case {
	// The pauses let caches end that leave a failing origin alone for a moment.
	var all []Case
	for _, status := range []int{200, 203, 204, 299, 301, 302, 303, 307, 308, 400, 404, 405, 410, 414, 499, 500, 501, 502, 503, 504, 599} {
		all = append(all, Case{
			fmt.Sprintf("status/%d with max-age", status), "9111 3", Optimal,
			[]Step{{Status: status, Response: hour + "Location: /elsewhere", From: origin, WantStatus: status, Setup: true}, {After: expired, Response: hour, From: cached, WantStatus: status}},
		})
	}
	for _, status := range []int{201, 202, 302, 303, 307, 403, 422, 500, 502, 503, 504, 599} {
		all = append(all, Case{
			fmt.Sprintf("status/%d without freshness", status), "9111 4.2.2", Required,
			[]Step{{Status: status, Response: "Last-Modified: {now-864000}\nLocation: /elsewhere", From: origin, WantStatus: status, Setup: true}, {After: expired, From: notFresh, Response: hour}},
		})
	}
	return all
}
