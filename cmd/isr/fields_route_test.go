package main

import (
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"strconv"
	"strings"
	"time"
)

// answer returns a site that always answers the same.
func answer(code int, body string, headers ...string) siteHandler {
	return func(_ *countedSite, _ int, w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(headers); i += 2 {
			w.Header().Set(headers[i], headers[i+1])
		}
		w.WriteHeader(code)
		fmt.Fprint(w, body)
	}
}

// inLanguages is a site whose pages depend on Accept-Language.
func inLanguages(_ *countedSite, _ int, w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept-Language")
	fmt.Fprint(w, cmp.Or(r.Header.Get("Accept-Language"), "any"))
}

// first returns a site whose first answer is another one than those that follow.
func first(first, then siteHandler) siteHandler {
	return func(s *countedSite, n int, w http.ResponseWriter, r *http.Request) {
		if n == 1 {
			first(s, n, w, r)
		} else {
			then(s, n, w, r)
		}
	}
}

// held is a site that does not answer until it is released.
func held(s *countedSite, _ int, w http.ResponseWriter, r *http.Request) {
	s.wait(r)
	fmt.Fprint(w, "late")
}

// ttl returns the remaining freshness in a Cache-Status.
func (v visit) ttl() int {
	_, text, _ := strings.Cut(v.status, "ttl=")
	text, _, _ = strings.Cut(text, ";")
	n, err := strconv.Atoi(text)
	if err != nil {
		return -1
	}
	return n
}

func (s *fieldServer) ttlBetween(v visit, least, most int) {
	s.Helper()
	if n := v.ttl(); n < least || n > most {
		s.Errorf("%s: the remaining freshness is %d, not between %d and %d", v, n, least, most)
	}
}

// rejected shows that the second generation of a page is rejected for a reason.
func rejected(reason string) func(*fieldServer) {
	return func(s *fieldServer) {
		before := s.expect("/", 200, stored)
		s.contains(s.isrFails("regenerate", s.url+"/"), "reject")
		if after := s.expect("/", 200, hit); after.body != before.body {
			s.Errorf("the page is %q, and not that before, %q", after.body, before.body)
		}
		s.contains(s.isr("quarantine"), reason)
	}
}

func routeFields() []fieldTest {
	page := answer(200, "<p>a page</p>", "Content-Type", "text/html", "X-Powered-By", "PHP")
	long := strings.Repeat("a long page ", 100)
	return []fieldTest{
		{
			fields: "defaults.origin", settings: "origin: b, revalidate: 1h",
			file: "origins: {a: {url: 'http://127.0.0.1:1'}, b: {url: ORIGIN}}\n",
			show: func(s *fieldServer) { s.expect("/", 200, stored) },
		},
		{fields: "defaults.cache", settings: "cache: off", origin: answer(200, "", "Cache-Control", "max-age=60"), show: func(s *fieldServer) {
			s.expect("/", 200, bypassed)
			s.expect("/", 200, bypassed)
		}},
		{fields: "defaults.revalidate", settings: "revalidate: 1h", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.ttlBetween(s.expect("/", 200, hit), 3300, 3600)
		}},
		{fields: "defaults.revalidate", settings: "revalidate: auto 30s to 1h", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.ttlBetween(s.expect("/", 200, hit), 1, 1800)
		}},
		{fields: "defaults.opt_in", settings: "opt_in: strict", origin: answer(200, "", "Cache-Control", "max-age=60"), show: func(s *fieldServer) {
			s.contains(s.expect("/", 200, "isr; fwd=").status, "no-freshness")
		}},
		{fields: "defaults.statuses", settings: "statuses: [405, 501]", origin: answer(405, "", "Cache-Control", "max-age=60"), show: func(s *fieldServer) {
			s.expect("/", 405, "isr; fwd=miss")
			s.expect("/", 405, hit)
		}},
		{fields: "defaults.request_directives", settings: "revalidate: 1h, request_directives: obey", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.expect("/", 200, hit)
			s.contains(s.get("/", "Cache-Control", "no-cache").status, "isr; fwd=request")
		}},
		{fields: "defaults.unsafe_requests", settings: "revalidate: 1h, stale: 1h, unsafe_requests: soft", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.do(http.MethodPost, "/")
			s.contains(s.get("/").status, "isr; hit") // by default, a miss
		}},
		{fields: "defaults.unsafe_requests", settings: "revalidate: 1h, unsafe_requests: ignore", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.do(http.MethodPost, "/")
			s.expect("/", 200, hit)
		}},
		{fields: "defaults.stale", settings: "revalidate: 1s, stale: 1h", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			var v visit
			s.until("the page is not fresh", func() bool {
				v = s.get("/")
				return strings.Contains(v.status, "ttl=-") || v.body != "render 1"
			})
			s.contains(v.status, "isr; hit") // without a stale window, a miss
		}},
		{
			fields: "defaults.stale_if_error", settings: "revalidate: 1s, stale_if_error: 1h, keep_stale: false",
			origin: onlyFirst,
			show: func(s *fieldServer) {
				s.expect("/", 200, stored)
				var v visit
				s.until("the origin has failed", func() bool {
					v = s.get("/")
					return s.origin.count() > 1
				})
				s.contains(v.status, "detail=stale-if-error")
			},
		},
		{
			fields: "defaults.keep_stale", settings: "revalidate: 1s, keep_stale: false",
			origin: onlyFirst,
			show: func(s *fieldServer) {
				s.expect("/", 200, stored)
				s.until("the page has expired", func() bool { return s.get("/").code >= 500 }) // by default it is served for a day
			},
		},
		{fields: "defaults.policy", settings: "revalidate: 1h, stale: 1h, policy: wait", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.isr("purge", "--soft", s.url+"/")
			if v := s.get("/"); v.body != "render 2" {
				s.Errorf("got the stale page: %s", v)
			}
		}},
		{
			fields: "defaults.early_refresh", settings: "revalidate: 20s, jitter: 0, early_refresh: 10",
			origin: func(_ *countedSite, n int, w http.ResponseWriter, _ *http.Request) {
				time.Sleep(time.Second) // a page that takes longer is refreshed earlier
				fmt.Fprint(w, "render ", n)
			},
			show: func(s *fieldServer) {
				s.expect("/", 200, stored)
				s.until("a fresh page is refreshed", func() bool {
					s.ttlBetween(s.expect("/", 200, hit), 0, 20)
					return s.origin.count() > 1 || s.Failed()
				})
			},
		},
		{fields: "defaults.jitter", settings: "revalidate: 1h, jitter: 0", show: func(s *fieldServer) {
			for i := range 5 {
				s.expect(fmt.Sprint("/", i), 200, stored)
				s.ttlBetween(s.expect(fmt.Sprint("/", i), 200, hit), 3590, 3600) // by default between 3420 and 3600
			}
		}},
		{fields: "defaults.history", settings: "revalidate: 1h, history: 2", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			for range 2 {
				s.isr("regenerate", s.url+"/")
			}
			s.until("the third generation is removed", func() bool {
				return strings.Count(s.isr("versions", s.url+"/", "--json"), `"generation_id"`) == 2
			})
		}},
		{fields: "defaults.negative.404", settings: "negative: {404: 4m}", origin: answer(404, "none"), show: showNegative(404)},
		{fields: "defaults.negative.410", settings: "negative: {410: 4m}", origin: answer(410, "gone"), show: showNegative(410)},
		{
			fields: "defaults.negative.redirect", settings: "negative: {redirect: 1h}", origin: answer(302, "", "Location", "/b"),
			show: func(s *fieldServer) {
				s.expect("/", 302, "isr; fwd=miss; fwd-status=302; stored")
				s.ttlBetween(s.expect("/", 302, hit), 3300, 3600)
			},
		},
		{fields: "defaults.store_negative", settings: "revalidate: 1h, store_negative: true", origin: answer(404, "none"), show: func(s *fieldServer) {
			s.expect("/a", 404, "isr; fwd=miss; fwd-status=404; stored")
			s.contains(s.isr("ls"), "/a")
		}},
		{fields: "defaults.own_request", settings: "own_request: true", origin: answer(200, "mine", "Cache-Control", "private"), show: func(s *fieldServer) {
			s.expect("/", 200, "isr; fwd=miss; fwd-status=200; detail=private")
			if n := s.origin.count(); n != 2 {
				s.Errorf("the origin saw %d requests, want two: of the render and of the visitor", n)
			}
		}},
		{fields: "defaults.render_timeout", settings: "revalidate: 1h, render_timeout: 50ms", origin: held, show: func(s *fieldServer) {
			s.expect("/", 504, "isr; fwd=miss")
		}},
		{fields: "defaults.wait", settings: "revalidate: 1h, stale: 1h, policy: wait, wait: 50ms", origin: first(answer(200, "old"), held), show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.isr("purge", "--soft", s.url+"/")
			if v := s.expect("/", 200, hit); v.body != "old" || !strings.HasSuffix(v.status, "detail=timeout") {
				s.Errorf("got %s", v)
			}
		}},
		{fields: "defaults.max_body", settings: "revalidate: 1h, max_body: 100B", origin: answer(200, long), show: func(s *fieldServer) {
			s.expect("/", 200, missed)
			if v := s.expect("/", 200, "isr; fwd="); v.body != long {
				s.Errorf("got %s", v)
			}
		}},
		{
			fields: "defaults.compression", settings: "revalidate: 1h, compression: [zstd, gzip]", origin: answer(200, long, "Content-Type", "text/html"),
			show: func(s *fieldServer) {
				s.until("the page is sent in zstd", func() bool {
					return s.get("/", "Accept-Encoding", "gzip, deflate, br, zstd").header.Get("Content-Encoding") == "zstd"
				})
			},
		},
		{
			fields: "defaults.compression", settings: "revalidate: 1h, compression: off", origin: answer(200, long, "Content-Type", "text/html"),
			show: func(s *fieldServer) {
				for range 2 {
					if v := s.get("/", "Accept-Encoding", "gzip"); v.header.Get("Content-Encoding") != "" || v.body != long {
						s.Errorf("got a compressed page: %s", v)
					}
				}
			},
		},
		{fields: "defaults.query", settings: "revalidate: 1h, query: page", show: func(s *fieldServer) {
			s.expect("/?page=1", 200, stored)
			s.expect("/?page=2", 200, stored)
			s.expect("/?page=1", 200, hit)
		}},
		{fields: "defaults.headers", settings: "revalidate: 1h, headers: {Accept-Language: [en, de]}", show: func(s *fieldServer) {
			s.expect("/", 200, stored, "Accept-Language", "en")
			s.expect("/", 200, stored, "Accept-Language", "de-AT")
			s.expect("/", 200, hit, "Accept-Language", "fr")
		}},
		{fields: "defaults.vary", settings: "revalidate: 1h, vary: auto", origin: inLanguages, show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.expect("/", 200, stored, "Accept-Language", "de")
			s.expect("/", 200, hit, "Accept-Language", "de")
			s.expect("/", 200, hit)
		}},
		{fields: "defaults.max_variants", settings: "revalidate: 1h, vary: auto, max_variants: 1", origin: inLanguages, show: func(s *fieldServer) {
			s.expect("/", 200, stored, "Accept-Language", "de")
			if v := s.expect("/", 200, "isr; fwd=", "Accept-Language", "en"); v.body != "en" || !strings.HasSuffix(v.status, "detail=variants") {
				s.Errorf("got %s", v)
			}
			s.expect("/", 200, hit, "Accept-Language", "de")
		}},
		{fields: "defaults.cookies", settings: "revalidate: 1h, cookies: {ab: [a, b]}", show: func(s *fieldServer) {
			s.expect("/", 200, stored, "Cookie", "ab=a")
			s.expect("/", 200, stored, "Cookie", "ab=b")
			s.expect("/", 200, hit, "Cookie", "ab=c")
		}},
		{fields: "defaults.device", settings: "revalidate: 1h, device: [desktop, phone]", show: func(s *fieldServer) {
			const phone = "Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 Mobile/15E148"
			desktop := s.expect("/", 200, stored, "User-Agent", "curl/8").body
			if sent := s.origin.last().Header; sent.Get("X-Device-Class") != "desktop" || sent.Get("User-Agent") != "isr" {
				s.Errorf("the render has %v", sent)
			}
			mobile := s.expect("/", 200, stored, "User-Agent", phone, "X-Device-Class", "desktop").body
			if got := s.origin.last().Header["X-Device-Class"]; len(got) != 1 || got[0] != "phone" {
				s.Errorf("the render for a phone has %q", got)
			}
			for range 3 { // forged classes, and devices without a class
				if v := s.expect("/", 200, hit, "User-Agent", "curl/8", "X-Device-Class", "phone"); v.body != desktop {
					s.Errorf("a desktop got %s", v.body)
				}
				if v := s.expect("/", 200, hit, "User-Agent", "iPad"); v.body != desktop {
					s.Errorf("a tablet got %s", v.body)
				}
				if v := s.expect("/", 200, hit, "User-Agent", phone); v.body != mobile {
					s.Errorf("a phone got %s", v.body)
				}
			}
			s.expect("/", 200, bypassed, "User-Agent", phone, "Authorization", "a", "X-Device-Class", "desktop")
			s.contains(s.origin.last().Header.Get("X-Device-Class"), "phone")
			s.contains(s.isr("explain", "--data", s.dir+"/data", "http://localhost/", "-H", "User-Agent: "+phone), "device of the route reduces it to X-Device-Class: phone")
		}},
		{
			fields: "defaults.country country_header", file: "listen: [{address: 127.0.0.1:0, trusted_proxies: [loopback]}]\ncountry_header: CF-IPCountry",
			settings: "revalidate: 1h, country: [DE, AT]", show: func(s *fieldServer) {
				proxied := func(country string) []string {
					return []string{"X-Forwarded-For", "192.0.2.1", "CF-IPCountry", country, "X-Country", "AT"}
				}
				other := s.expect("/", 200, stored, proxied("FR")...).body
				german := s.expect("/", 200, stored, proxied("DE")...).body
				if got := s.origin.last().Header; got.Get("X-Country") != "DE" || got["Cf-Ipcountry"] != nil {
					s.Errorf("the render has %v", got)
				}
				if v := s.expect("/", 200, hit, proxied("DE")...); v.body != german {
					s.Errorf("DE got %s", v.body)
				}
				for _, country := range []string{"XX", "de", "T1", "US"} {
					if v := s.expect("/", 200, hit, proxied(country)...); v.body != other {
						s.Errorf("%s got %s", country, v.body)
					}
				}
				s.reload("listen: [{address: 127.0.0.1:0, trusted_proxies: [loopback]}]\ncountry_header: CF-IPCountry\ndefaults: {revalidate: 1h, country: [AT]}")
				if v := s.expect("/", 200, hit, proxied("DE")...); v.body != other {
					s.Errorf("DE got %s without a class of its own", v.body)
				}
			},
		},
		{fields: "defaults.ignore_query", settings: "revalidate: 1h, ignore_query: [ref]", show: func(s *fieldServer) {
			s.expect("/?ref=1", 200, stored)
			s.expect("/?ref=2", 200, hit)
			if q := s.origin.last().URL.RawQuery; q != "" {
				s.Errorf("the origin gets the query %q", q)
			}
		}},
		{fields: "defaults.ignore_cookies", settings: "revalidate: 1h, ignore_cookies: [session]", show: func(s *fieldServer) {
			s.expect("/", 200, stored, "Cookie", "session=1")
			s.expect("/", 200, hit, "Cookie", "session=2")
		}},
		{fields: "defaults.forward", settings: "revalidate: 1h, forward: [X-Trace]", show: func(s *fieldServer) {
			s.expect("/", 200, stored, "X-Trace", "one")
			s.expect("/", 200, hit, "X-Trace", "two")
			s.contains(s.origin.last().Header.Get("X-Trace"), "one")
		}},
		{fields: "defaults.set_headers", settings: "revalidate: 1h, set_headers: {X-Frame-Options: DENY}", show: func(s *fieldServer) {
			for _, status := range []string{stored, hit} {
				s.contains(s.expect("/", 200, status).header.Get("X-Frame-Options"), "DENY")
			}
		}},
		{fields: "defaults.remove_headers", settings: "revalidate: 1h, remove_headers: [X-Powered-By]", origin: page, show: func(s *fieldServer) {
			for _, status := range []string{stored, hit} {
				if v := s.expect("/", 200, status); v.header["X-Powered-By"] != nil {
					s.Errorf("got %v", v.header)
				}
			}
		}},
		{
			fields: "defaults.early_hints", settings: "revalidate: 1h, early_hints: true", origin: answer(200, "a page", "Link", "</a.css>; rel=preload, </>; rel=canonical"),
			show: func(s *fieldServer) {
				s.expect("/", 200, stored)
				var hints []string
				ctx := httptrace.WithClientTrace(s.Context(), &httptrace.ClientTrace{Got1xxResponse: func(code int, h textproto.MIMEHeader) error {
					hints = append(hints, fmt.Sprint(code, h))
					return nil
				}})
				r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+"/", http.NoBody)
				if err != nil {
					s.Fatal(err)
				}
				res, err := s.client.Do(r)
				if err != nil {
					s.Fatal(err)
				}
				_ = res.Body.Close()
				if want := "103 map[Link:[</a.css>; rel=preload]]"; len(hints) != 1 || hints[0] != want {
					s.Errorf("got the interim responses %q, want %q", hints, want)
				}
			},
		},
		{fields: "defaults.cache_control defaults.cdn_cache_control defaults.surrogate_control", settings: "revalidate: 1h, jitter: 0, cache_control: max-age=7, cdn_cache_control: max-age=77, surrogate_control: max-age=remaining", show: func(s *fieldServer) {
			for _, status := range []string{stored, hit} {
				v := s.expect("/", 200, status)
				s.contains(v.header.Get("Cache-Control"), "max-age=7")
				s.contains(v.header.Get("CDN-Cache-Control"), "max-age=77")
				s.contains(v.header.Get("Surrogate-Control"), "max-age=35")
			}
		}},
		{fields: "defaults.tags", settings: "revalidate: 1h, tags: [blog]", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.isr("purge", "--hard", "--tag", "blog")
			s.expect("/", 200, "isr; fwd=stale; fwd-status=200; stored")
		}},
		{fields: "defaults.path_tags", settings: "revalidate: 1h, path_tags: next", show: func(s *fieldServer) {
			s.expect("/blog/rye", 200, stored)
			s.isr("purge", "--hard", "--tag", "_N_T_/blog/layout")
			s.expect("/blog/rye", 200, "isr; fwd=stale; fwd-status=200; stored")
		}},
		{fields: "defaults.tenant_header", settings: "revalidate: 1h, tenant_header: X-Tenant", show: func(s *fieldServer) {
			s.expect("/", 400, "isr")
			s.expect("/", 200, stored, "X-Tenant", "a")
			s.expect("/", 200, stored, "X-Tenant", "b")
			s.expect("/", 200, hit, "X-Tenant", "a")
		}},
		{
			fields: "defaults.reject.smaller_than", settings: "revalidate: 1h, reject: {smaller_than: 50%}",
			origin: first(answer(200, long), answer(200, "short")), show: rejected("it has 5 bytes, the current generation 1200"),
		},
		{
			fields: "defaults.reject.without", settings: "revalidate: 1h, reject: {without: </html>}",
			origin: first(answer(200, "<html></html>"), answer(200, "<html>")), show: rejected("</html>"),
		},
		{
			fields: "defaults.reject.with", settings: "revalidate: 1h, reject: {with: Fatal error}",
			origin: first(page, answer(200, "<p>Fatal error")), show: rejected("Fatal error"),
		},
		{
			fields: "defaults.reject.status", settings: "revalidate: 1h, reject: {status: true}",
			origin: first(answer(200, "good"), answer(404, "none")), show: rejected("404"),
		},
		{
			fields: "defaults.reject.truncated", settings: "revalidate: 1h, reject: {truncated: true}",
			origin: first(answer(200, "<html></html>"), answer(200, "<html>")), show: rejected("it lacks </html>"),
		},
		{
			fields: "defaults.reject.content_type", settings: "revalidate: 1h, reject: {content_type: true}",
			origin: first(page, answer(200, "{}", "Content-Type", "application/json")), show: rejected("application/json"),
		},
		{
			fields: "defaults.reject.lost_headers", settings: "revalidate: 1h, reject: {lost_headers: [X-Powered-By]}",
			origin: first(page, answer(200, "<p>", "Content-Type", "text/html")), show: rejected("X-Powered-By"),
		},
		{
			fields: "routes[].match", file: "defaults: {revalidate: 1h}\nroutes: [{match: 'GET /blog/{slug}', cache: off}]",
			show: func(s *fieldServer) {
				s.expect("/blog/a", 200, bypassed)
				s.expect("/blog/a/b", 200, stored)
			},
		},
	}
}

// showNegative shows that an answer without a window of its own is kept for minutes.
func showNegative(code int) func(*fieldServer) {
	return func(s *fieldServer) {
		s.expect("/", code, "isr; fwd=miss; fwd-status="+strconv.Itoa(code))
		s.ttlBetween(s.expect("/", code, hit), 200, 240) // by default none
	}
}

// onlyFirst answers its first request with a page, and then fails.
func onlyFirst(_ *countedSite, n int, w http.ResponseWriter, _ *http.Request) {
	if n > 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
	fmt.Fprint(w, "render ", n)
}
