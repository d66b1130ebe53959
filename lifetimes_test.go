package isr_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// TestRemainingFreshness: caches in front are told for how much longer a page is fresh here, counted
// from now, so that the page has no age and the current Date; of a page that is not fresh, nothing;
// and of a pinned one, a few seconds.
func TestRemainingFreshness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			w.Header().Set("Surrogate-Control", "max-age=60")
			cacheable(w, r, n)
		})
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(isr.Route{Name: "r", Stale: time.Hour, Jitter: -1, Downstream: isr.DownstreamControl{
			CacheControl: "no-cache", CDN: "max-age=remaining, stale-if-error=9", Surrogate: "max-age=remaining",
		}}, s)
		check := func(name, want string) {
			t.Helper()
			a := get(h, "/")
			x := a.Header()
			if got := fmt.Sprint(x["Cache-Control"], x["Cdn-Cache-Control"], x["Surrogate-Control"], x["Age"], len(x["Date"])); got != want {
				t.Errorf("%s: %s, want %s (%s)", name, got, want, a.status())
			}
		}
		check("new", "[no-cache] [max-age=59, stale-if-error=9] [max-age=59] [0] 0") // less a fraction of a second
		for range 2 {
			check("fresh", "[no-cache] [max-age=59, stale-if-error=9] [max-age=59] [0] 0")
		}
		time.Sleep(30 * time.Second)
		check("older", "[no-cache] [max-age=29, stale-if-error=9] [max-age=29] [0] 0")
		if _, err := c.Pin(t.Context(), page, time.Hour); err != nil {
			t.Fatal(err)
		}
		time.Sleep(40 * time.Second)
		check("pinned", "[max-age=10] [] [] [0] 0")
		if _, err := c.Unpin(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		s.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusBadGateway) })
		time.Sleep(3 * time.Second)
		check("stale", "[max-age=0, must-revalidate] [] [] [73] 1")
	})
}

// TestDate: the Date of the origin is kept with the page and sent on hits; a page without one has
// the time at which its rendering began (RFC 9110, section 6.6.1).
func TestDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		began := time.Now()
		origins := began.Add(-30 * time.Second).UTC().Format(http.TimeFormat)
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			if r.URL.Path == "/dated" {
				w.Header().Set("Date", origins)
			}
			cacheable(w, r, n)
		})
		a, b := tb.node(tb.store("a"), nil).Handler(isr.Route{}, s), tb.node(tb.store("b"), nil).Handler(isr.Route{}, s)
		for path, want := range map[string]string{"/": began.UTC().Format(http.TimeFormat), "/dated": origins} {
			get(a, path)
			time.Sleep(2 * time.Second)
			for _, h := range []http.Handler{a, b} {
				if got := get(h, path); got.Header().Get("Date") != want && path == "/dated" || len(got.Header()["Date"]) != 1 {
					t.Errorf("%s: the Date is %q, want %q", path, got.Header()["Date"], want)
				}
			}
		}
		if age := get(b, "/dated").Header().Get("Age"); age != "2" && age != "4" {
			t.Errorf("the Age is %s, although clocks may differ by 30 seconds", age)
		}
	})
}

// TestAgeIsOfTheMoment: hits share their Age for a second of the page's age, not of the clock, so that none is
// sent as younger than it is (RFC 9111, section 4.2.3).
func TestAgeIsOfTheMoment(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, s)
		time.Sleep(600 * time.Millisecond)
		get(h, "/")
		time.Sleep(1500 * time.Millisecond)
		for _, want := range []string{"1", "1", "1", "1", "1", "2", "2"} {
			if got := get(h, "/").Header().Get("Age"); got != want {
				t.Errorf("the Age is %s, want %s", got, want)
			}
			time.Sleep(100 * time.Millisecond)
		}
	})
}

// TestApparentAge: a response whose Date is long ago has been in a cache that does not send Age (RFC
// 9111, section 4.2.3).
func TestApparentAge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Date", time.Now().Add(-time.Hour).UTC().Format(http.TimeFormat))
			w.Header().Set("Cache-Control", "s-maxage=3600")
			if r.URL.Path == "/fresh" {
				w.Header().Set("Cache-Control", "s-maxage=3660")
			}
			fmt.Fprint(w, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Jitter: -1}, s)
		if a := get(h, "/"); !strings.Contains(a.status(), "detail=too-old") {
			t.Errorf("a page that is as old as its lifetime: %q", a.status())
		}
		get(h, "/fresh")
		if a := get(h, "/fresh"); !strings.HasPrefix(a.status(), "isr; hit; ttl=") || a.Header().Get("Age") != "3600" {
			t.Errorf("a page that is an hour old: %q, Age %s", a.status(), a.Header().Get("Age"))
		}
	})
}

// TestUnchangedButForDate: Date and Cache-Status make no other content, so that a regeneration
// without a change makes no version, and a diff does not show them.
func TestUnchangedButForDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		s.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
			w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
			w.Header().Set("Cache-Status", fmt.Sprintf("cdn; fwd=miss; key=%d", n))
			w.Header().Set("Cache-Control", "s-maxage=60")
			fmt.Fprint(w, "always")
		})
		p := tb.peer("a", withHistory, s, nil)
		get(p, "/")
		p.regenerate(t, 2)
		if v := p.versions(t); len(v) != 1 {
			t.Errorf("%d versions of one content", len(v))
		}
	})
}

// TestUpstreamCacheStatus: the members of caches closer to the origin come first, on renders and on
// hits (RFC 9211, section 2); and the obsolete Warning is not kept (RFC 9111, section 5.5).
func TestUpstreamCacheStatus(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		s.delay = 0
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			switch r.URL.Path {
			case "/":
				w.Header()["Cache-Status"] = []string{"inner; hit; ttl=9", "outer; fwd=miss"}
				w.Header().Set("Warning", `110 - "Response is Stale"`)
			case "/invalid":
				w.Header().Set("Cache-Status", "inner; ;")
			case "/long":
				w.Header().Set("Cache-Status", "c"+strings.Repeat("x", 1024))
			}
			cacheable(w, r, n)
		})
		a, b := tb.node(tb.store("a"), nil).Handler(isr.Route{}, s), tb.node(tb.store("b"), nil).Handler(isr.Route{}, s)
		for path, upstream := range map[string]string{"/": "inner; hit; ttl=9, outer; fwd=miss, ", "/invalid": "", "/long": ""} {
			get(a, path)
			for _, h := range []http.Handler{a, b} {
				const want = "isr; hit"
				got := get(h, path)
				if lines := got.Header()["Cache-Status"]; len(lines) != 1 || !strings.HasPrefix(lines[0], upstream+want) {
					t.Errorf("%s: Cache-Status %q, want %q", path, lines, upstream+want)
				}
				if got.Header()["Warning"] != nil {
					t.Errorf("the header is %v", got.Header())
				}
			}
		}
		if got := get(a, "/?x").Header()["Cache-Status"]; len(got) != 3 || !strings.HasPrefix(got[2], "isr; fwd=bypass") {
			t.Errorf("a bypass has %q", got)
		}
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Status", "cdn; hit")
			cacheable(w, r, n)
		})
		if got := get(a, "/new").status(); !strings.HasPrefix(got, "cdn; hit, isr; fwd=miss; fwd-status=200; stored") {
			t.Errorf("a new page has %q", got)
		}
	})
}

// A 404 with the lifetime of a file, as during a rolling deploy, is kept by no browser for long, and
// by the cache only as long as other 404s. It does not matter how it is answered.
func TestMissingFileIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			w.Header().Set("Expires", time.Now().Add(365*24*time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusNotFound)
			_, _ = w.Write([]byte("not found"))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		for _, test := range []struct{ when, cookie string }{{"rendered", ""}, {"from memory", ""}, {"passed through", "Cookie: session=1"}} {
			var header []string
			if test.cookie != "" {
				header = append(header, test.cookie)
			}
			a := get(h, "/app.js", header...)
			if got := a.Header().Get("Cache-Control"); a.Code != http.StatusNotFound || got != "public, max-age=10" || a.Header().Get("Expires") != "" {
				t.Errorf("%s: %d with Cache-Control %q and Expires %q", test.when, a.Code, got, a.Header().Get("Expires"))
			}
		}
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
			_, _ = w.Write([]byte("a file"))
		})
		time.Sleep(11 * time.Second)
		if a := get(h, "/app.js"); a.Code != http.StatusOK || a.Header().Get("Cache-Control") != "public, max-age=31536000, immutable" {
			t.Errorf("once the file is there: %d %v", a.Code, a.Header())
		}
	})
}

// Ranges and preconditions of requests for a stored page: RFC 9110, sections 13.1.1, 13.1.4,
// 13.1.5 and 14.2; RFC 9111, section 4.3.2.
func TestRangesAndPreconditions(t *testing.T) {
	const modified, later, earlier = "Sat, 01 Jan 2000 00:00:00 GMT", "Sat, 01 Jan 2000 00:00:01 GMT", "Fri, 31 Dec 1999 23:59:59 GMT"
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		body := strings.Repeat("0123456789", 200)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Last-Modified", modified)
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Cache-Control", "s-maxage=60")
			_, _ = w.Write([]byte(body))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		get(h, "/", "Accept-Encoding: gzip") // has the coding made
		synctest.Wait()
		for name, c := range map[string]struct {
			method string
			fields []string
			status int
			coded  bool
			length string
		}{
			"14.2: a range":                        {"GET", []string{"Range: bytes=10-19"}, 206, false, "10"},
			"14.2: a range, not of a coding":       {"GET", []string{"Range: bytes=10-19", "Accept-Encoding: gzip"}, 206, false, "10"},
			"14.2: HEAD has no ranges":             {"HEAD", []string{"Range: bytes=10-19"}, 200, false, "2000"},
			"14.2: HEAD, with the coding of a GET": {"HEAD", []string{"Range: bytes=10-19", "Accept-Encoding: gzip"}, 200, true, ""},
			"14.2: an unknown unit":                {"GET", []string{"Range: lines=1-2"}, 200, false, "2000"},
			"14.2: an unknown unit, coded":         {"GET", []string{"Range: lines=1-2", "Accept-Encoding: gzip"}, 200, true, ""},
			"14.1.2: beyond the end":               {"GET", []string{"Range: bytes=2000-"}, 416, false, ""},
			"13.1.1: If-Match is ignored":          {"GET", []string{`If-Match: "v0"`}, 200, false, "2000"},
			"13.1.1: also with a range":            {"GET", []string{`If-Match: "v0"`, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.4: If-Unmodified-Since, too":     {"GET", []string{"If-Unmodified-Since: " + earlier, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.5: If-Range with the tag":        {"GET", []string{`If-Range: "v1"`, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.5: another tag":                  {"GET", []string{`If-Range: "v0"`, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.1.5: the tag of a coding":          {"GET", []string{`If-Range: "v1-gzip"`, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.1.5: a weak tag":                   {"GET", []string{`If-Range: W/"v1"`, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.1.5: the date":                     {"GET", []string{"If-Range: " + modified, "Range: bytes=10-19"}, 206, false, "10"},
			"13.1.5: another date":                 {"GET", []string{"If-Range: " + later, "Range: bytes=10-19"}, 200, false, "2000"},
			"13.2.2: If-None-Match before Range":   {"GET", []string{`If-None-Match: "v1"`, "Range: bytes=10-19"}, 304, false, ""},
		} {
			r := request(c.fields...)
			r.Method = c.method
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			got := w.Header()
			if w.Code != c.status || (got.Get("Content-Encoding") != "") != c.coded || c.length != "" && got.Get("Content-Length") != c.length {
				t.Errorf("%s: %d %v, want %d, coded: %v, length %s", name, w.Code, got, c.status, c.coded, c.length)
			}
		}
	})
}

// Fields about one answer reach the visitor who passes through, and nobody by a stored page, whoever
// stored it.
func TestFieldsOfOneAnswer(t *testing.T) {
	const lasting = "Clear-Site-Data Alt-Svc Server-Timing X-Runtime Traceparent X-Nextjs-Cache Surrogate-Control"
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
			for name := range strings.FieldsSeq(lasting) {
				w.Header().Set(name, "max-age=60")
			}
			w.Header().Set("X-Page", "kept")
			fmt.Fprint(w, "page ", n)
		})
		none := func(when string, a answer) {
			t.Helper()
			for name := range strings.FieldsSeq(lasting) {
				if v := a.Header().Get(name); v != "" {
					t.Errorf("%s has %s: %s", when, name, v)
				}
			}
			if a.Header().Get("X-Page") != "kept" {
				t.Errorf("%s lacks X-Page", when)
			}
		}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		none("a miss", get(h, "/"))
		a := get(h, "/")
		expect(t, a, "page 1", "isr; hit")
		none("a hit", a)

		// An older version stored them.
		_, err := tb.db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String(tableName),
			Key: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: store.HashedPartition(page)},
				"sk": &types.AttributeValueMemberS{Value: "META"},
			},
			UpdateExpression:         aws.String("SET isr.headers.#r = :v"),
			ExpressionAttributeNames: map[string]string{"#r": "x-runtime"},
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":v": &types.AttributeValueMemberL{Value: []types.AttributeValue{&types.AttributeValueMemberS{Value: "0.5"}}},
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		a = get(tb.node(tb.store("b"), nil).Handler(isr.Route{}, site), "/")
		expect(t, a, "page 1", "isr; hit")
		none("a page of an older version", a)
	})
}

// The digests of a page are sent with the content and the representation that they are of (RFC 9530).
func TestDigestFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			for _, name := range []string{"Repr-Digest", "Content-Digest", "Digest", "Content-Md5"} {
				w.Header().Set(name, "of the page")
			}
			w.Header().Set("Cache-Control", "s-maxage=60")
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Content-Type", "text/html")
			fmt.Fprint(w, strings.Repeat("0123456789", 200))
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		get(h, "/")
		get(h, "/", "Accept-Encoding: gzip") // has the coding made
		synctest.Wait()
		for _, tt := range []struct{ ask, want string }{
			{"Accept: */*", "Repr-Digest Content-Digest Digest Content-Md5"},
			{"Accept-Encoding: gzip", ""},
			{"Range: bytes=0-9", "Repr-Digest Digest"},
			{"Range: bytes=0-9,20-29", "Repr-Digest Digest"},
			{`If-None-Match: "v1"`, "Repr-Digest Content-Digest Digest Content-Md5"},
		} {
			var got []string
			a := get(h, "/", tt.ask)
			for _, name := range []string{"Repr-Digest", "Content-Digest", "Digest", "Content-Md5"} {
				if a.Header().Get(name) != "" {
					got = append(got, name)
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("%s: %d with %q, want %q", tt.ask, a.Code, got, tt.want)
			}
		}
	})
}

// A 304 renews a page by its Surrogate-Control, also if the 304 has none, and leaves the policy whose nonce
// is in the body.
func TestRenewalKeepsWhatIsOfTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSource()
		n := 0
		site.answer = func(w http.ResponseWriter, r *http.Request) bool {
			n++
			w.Header().Set("Cache-Control", "no-store")
			w.Header().Set("Content-Security-Policy", fmt.Sprintf("script-src 'nonce-%d'", n))
			if r.Header.Get("If-None-Match") != "" {
				w.WriteHeader(http.StatusNotModified)
				return true
			}
			w.Header().Set("Surrogate-Control", "max-age=60")
			fmt.Fprintf(w, "<script nonce=%d></script>", n)
			return true
		}
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Stale: time.Hour}, site)
		get(h, "/")
		time.Sleep(61 * time.Second)
		get(h, "/") // stale, and validated behind
		synctest.Wait()
		a := get(h, "/")
		expect(t, a, "<script nonce=1></script>", "isr; hit; ttl=5")
		if policy := a.Header().Get("Content-Security-Policy"); policy != "script-src 'nonce-1'" || n != 2 {
			t.Errorf("the policy is %q after %d requests", policy, n)
		}
	})
}
