package gateway_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gateway"
)

func limit(t testing.TB, text string) gateway.RateLimit {
	t.Helper()
	l, err := gateway.ParseRateLimit(text)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func TestParseRateLimit(t *testing.T) {
	for text, want := range map[string]string{
		"10/s": "10/s burst 10", "100/m burst 20": "100/m burst 20", "1000/h by client count all": "1000/h burst 1000",
		"5/m by route": "5/m burst 5 by route", " 5/m  by header x-api-key  burst 7 count origin ": "5/m burst 7 by header X-Api-Key count origin",
	} {
		l := limit(t, text)
		if got := l.String(); got != want || limit(t, got).String() != want {
			t.Errorf("%q is %q, want %q", text, got, want)
		}
	}
	for _, text := range []string{
		"", "10", "10/d", "0/s", "-1/s", "1.5/s", "1000001/s", "10/s burst", "10/s burst 0", "10/s burst 2 burst 3", "10/s by", "10/s by ip",
		"10/s by header", "10/s by header a:b", "10/s count hits", "10/s, 20/m",
	} {
		if l, err := gateway.ParseRateLimit(text); err == nil || !strings.Contains(err.Error(), "10/s, 100/m or 1000/h") {
			t.Errorf("%q: %v, %v", text, l, err)
		}
	}
}

// limited is a site with limits, of which /api/ has its own.
func limited(t testing.TB, site string, api ...string) (*gateway.Site, gateway.SiteConfig) {
	t.Helper()
	route := isr.Route{Revalidate: time.Hour, Stale: time.Hour}
	cfg := gateway.SiteConfig{
		Origins: map[string]gateway.Origin{"site": {Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, r.URL.Path) })}},
		Routes:  []gateway.SiteRoute{{Pattern: "/", Route: route, Origin: "site"}, {Pattern: "/api/", Route: route, Origin: "site"}},
		Logger:  slog.New(slog.DiscardHandler),
	}
	if site != "" {
		cfg.Protection.Limits = append(cfg.Protection.Limits, limit(t, site))
	}
	for _, text := range api {
		cfg.Routes[1].Protection.Limits = append(cfg.Routes[1].Protection.Limits, limit(t, text))
	}
	return newSite(t, newCache(t), cfg), cfg
}

// accepted counts how many of n requests are accepted; the others get 429. Every second one is looked up first, as the fast path does.
func accepted(t testing.TB, s *gateway.Site, n int, request func(i int) *http.Request) (count int) {
	t.Helper()
	for i := range n {
		r := request(i)
		if i%2 == 0 {
			var hit isr.Hit
			found := s.Lookup(r, &hit)
			hit.Release()
			if found {
				count++
				continue
			}
		}
		switch w := serve(s, r); {
		case w.Code == http.StatusOK:
			count++
		case w.Code != http.StatusTooManyRequests, w.Header().Get("Cache-Control") != "no-store", w.Header().Get("Retry-After") == "", w.Header().Get("Cache-Status") != "isr; detail=rate-limited":
			t.Fatalf("got %d %v", w.Code, w.Header())
		}
	}
	return count
}

func TestRateLimits(t *testing.T) {
	at := func(address, path string, header ...string) func(int) *http.Request {
		return func(int) *http.Request { return request(address, path, header...) }
	}
	for name, c := range map[string]struct {
		site  string
		api   []string
		steps func(expect func(want, n int, r func(int) *http.Request))
	}{
		"by client": {"10/h burst 20", nil, func(expect func(int, int, func(int) *http.Request)) {
			expect(20, 100, at("192.0.2.1:1", "/a"))
			expect(0, 1, at("[::ffff:192.0.2.1]:1", "/a"))
			expect(20, 100, at("192.0.2.2:1", "/a"))
		}},
		"of a route, and not of others": {"", []string{"2/h"}, func(expect func(int, int, func(int) *http.Request)) {
			expect(2, 10, at("192.0.2.1:1", "/api/a"))
			expect(10, 10, at("192.0.2.1:1", "/a"))
		}},
		"several: a request that one refuses takes nothing of another": {"4/h", []string{"3/h by route", "2/h"}, func(expect func(int, int, func(int) *http.Request)) {
			expect(2, 10, at("192.0.2.1:1", "/api/a"))
			expect(2, 10, at("192.0.2.1:1", "/a"))
			expect(1, 10, at("192.0.2.2:1", "/api/a"))
			expect(3, 10, at("192.0.2.2:1", "/a"))
		}},
		"by route": {"", []string{"5/h by route"}, func(expect func(int, int, func(int) *http.Request)) {
			expect(5, 50, func(i int) *http.Request { return request(fmt.Sprintf("192.0.2.%d:1", i), "/api/a") })
		}},
		"by header, and invented values": {"2/h by header X-Api-Key", nil, func(expect func(int, int, func(int) *http.Request)) {
			expect(2, 10, at("192.0.2.1:1", "/a", "X-Api-Key", "one"))
			expect(0, 10, at("192.0.2.2:1", "/a", "X-Api-Key", "one"))
			expect(2, 10, at("192.0.2.2:1", "/a", "X-Api-Key", "two"))
			expect(2, 10, at("192.0.2.3:1", "/a")) // by client
			expect(32, 1000, func(i int) *http.Request { return request("192.0.2.4:1", "/a", "X-Api-Key", fmt.Sprint(i)) })
			expect(2, 10, at("192.0.2.5:1", "/a", "X-Api-Key", "three"))
		}},
		"networks of IPv6": {"2/h", nil, func(expect func(int, int, func(int) *http.Request)) {
			within := func(format string) func(int) *http.Request {
				return func(i int) *http.Request { return request("["+fmt.Sprintf(format, i)+"]:1", "/a") }
			}
			expect(2, 100, within("2001:db8::%x"))
			expect(2*16-2, 1000, within("2001:db8:0:%x::1"))
			expect(2*256-2*16, 3000, within("2001:db8:%x::1"))
			expect(2, 10, at("[2001:db9::1]:1", "/a"))
			expect(2, 10, at("192.0.2.1:1", "/a"))
		}},
		"clients without an address are one": {"2/h", nil, func(expect func(int, int, func(int) *http.Request)) {
			expect(2, 10, func(i int) *http.Request { return request(fmt.Sprintf("@%d", i), "/a") })
		}},
		"requests to the origin": {"2/h count origin", nil, func(expect func(int, int, func(int) *http.Request)) {
			expect(50, 50, at("192.0.2.1:1", "/a"))
			expect(2, 10, func(i int) *http.Request { return request("192.0.2.1:1", fmt.Sprintf("/new/%d", i)) })
			expect(50, 50, at("192.0.2.1:1", "/a")) // while there is no token
			expect(0, 1, at("192.0.2.1:1", "/a", "Cookie", "session=1"))
			expect(2, 10, at("192.0.2.2:1", "/a", "Cookie", "session=1"))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s, _ := limited(t, c.site, c.api...)
			accepted(t, s, 1, at("203.0.113.1:1", "/a"))
			accepted(t, s, 1, at("203.0.113.1:1", "/b"))
			c.steps(func(want, n int, r func(int) *http.Request) {
				t.Helper()
				if got := accepted(t, s, n, r); got != want {
					t.Errorf("%d of %d requests were accepted, want %d", got, n, want)
				}
			})
		})
	}
}

// A client that has used its tokens up stays refused during a flood of other clients, and none of them is locked out.
func TestRateLimitDuringFlood(t *testing.T) {
	s, _ := limited(t, "2/h")
	at := func(int) *http.Request { return request("192.0.2.1:1", "/a") }
	if n := accepted(t, s, 10, at); n != 2 {
		t.Fatalf("%d were accepted", n)
	}
	if n := accepted(t, s, 200_000, func(i int) *http.Request { return request(fmt.Sprintf("10.%d.%d.%d:1", i>>16, i>>8&255, i&255), "/a") }); n != 200_000 {
		t.Errorf("%d other clients were locked out", 200_000-n)
	}
	if n := accepted(t, s, 10, at); n != 0 {
		t.Errorf("%d were accepted after a flood", n)
	}
}

// A reload keeps the tokens of limits that stay; an explanation names the limit, and takes no token.
func TestRateLimitIsReloadedAndExplained(t *testing.T) {
	s, cfg := limited(t, "", "2/h")
	at := func(int) *http.Request { return request("192.0.2.1:1", "/api/a") }
	explain := func() isr.Decision {
		p, err := gateway.Prepare(at(0), gateway.Trust{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		d, err := s.Explain(p, false)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	for range 5 {
		if d := explain(); d.Verdict != isr.VerdictMiss {
			t.Fatalf("explained as %+v", d)
		}
	}
	if n := accepted(t, s, 5, at); n != 2 {
		t.Fatalf("%d were accepted", n)
	}
	cfg.Routes[0].Protection.Limits = []gateway.RateLimit{limit(t, "1/h")}
	if err := s.Reload(cfg); err != nil {
		t.Fatal(err)
	}
	if n := accepted(t, s, 5, at); n != 0 {
		t.Errorf("%d were accepted after a reload", n)
	}
	if d := explain(); d.Status != http.StatusTooManyRequests || !strings.Contains(d.Reasons[0].Text, "rate_limits of route /api/ allow: 2/h burst 2") {
		t.Errorf("explained as %+v", d)
	}
}
