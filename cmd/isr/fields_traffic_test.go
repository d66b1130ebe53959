package main

import (
	"net/http"
	"strings"
)

// trafficFields are tests of fields that answer requests without the origin, or change what the origin gets.
func trafficFields() []fieldTest {
	return []fieldTest{
		{
			fields: "error_pages", file: "error_pages: {421: DIR/host.json, 502: DIR/502.html, 5xx: DIR/all.txt}\ndefaults: {revalidate: 1h}",
			origin: func(_ *countedSite, _ int, w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/own" {
					http.Error(w, "of the site", http.StatusBadGateway)
					return
				}
				panic(http.ErrAbortHandler) // the connection breaks
			},
			prepare: func(s *fieldServer) {
				s.write("host.json", `{"error": "host"}`)
				s.write("502.html", "<p>broken, {request_id}")
				s.write("all.txt", "any error")
			},
			show: func(s *fieldServer) {
				shows := func(v visit, code int, kind, body string) {
					s.Helper()
					if h := v.header; v.code != code || h.Get("Content-Type") != kind || v.body != body || h.Get("Cache-Control") != "no-store" {
						s.Errorf("%s, %v; expected %d %s %q", v, h, code, kind, body)
					}
				}
				for _, method := range []string{"GET", "POST"} { // a render, and a request that passes through
					v := s.do(method, "/broken")
					shows(v, 502, "text/html; charset=utf-8", "<p>broken, "+v.header.Get("X-Request-Id"))
				}
				if v := s.do("HEAD", "/broken"); v.code != 502 || v.body != "" {
					s.Errorf("HEAD: %s", v)
				}
				shows(s.get("/", "Host", "other.test"), 421, "application/json", `{"error": "host"}`)
				shows(s.get("/new", "Cache-Control", "only-if-cached"), 504, "text/plain; charset=utf-8", "any error")
				s.contains(s.do("POST", "/own").body, "of the site")
				s.contains(s.get("/own").body, "of the site")
				s.contains(s.do("TRACE", "/").body, "TRACE is not allowed")
				s.write("host.json", `{"error": 2}`)
				s.isr("reload")
				shows(s.get("/", "Host", "other.test"), 421, "application/json", `{"error": 2}`)
			},
		},
		{
			fields:  "redirects[].from redirects[].to redirects[].status redirects[].query redirects_file",
			file:    "redirects_file: DIR/old.csv\nredirects:\n  - {from: \"/blog/{slug}\", to: \"/posts/{slug}\", status: 308}\n  - {from: /drop, to: /, query: drop}\n",
			prepare: func(s *fieldServer) { s.write("old.csv", "/blog/one,/1\n") },
			show: func(s *fieldServer) {
				leads := func(target string, code int, location string) {
					s.Helper()
					if v := s.expect(target, code, "isr; detail=redirect"); v.header.Get("Location") != location {
						s.Errorf("%s leads to %q", target, v.header.Get("Location"))
					}
				}
				leads("/blog/two?a=b", 308, "/posts/two?a=b")
				leads("/drop?a=b", 301, "/")
				leads("/blog/one?a=b", 301, "/1?a=b")
				if v := s.do("POST", "/blog/x"); v.code != 308 || s.origin.count() != 0 {
					s.Errorf("%s, %d requests at the origin", v, s.origin.count())
				}
				s.contains(s.isr("explain", "http://localhost/blog/two"), "redirects[0] of the configuration redirects the request to /posts/two")
				s.write("old.csv", "/blog/three,/3\n")
				s.isr("reload")
				leads("/blog/three", 301, "/3")
				s.write("old.csv", "/x,/x\n/y,evil\n")
				s.contains(s.isrFails("reload"), "old.csv:2: \"evil\" is neither a path")
				leads("/blog/three", 301, "/3")
			},
		},
		{
			fields:  "maintenance.on maintenance.page maintenance.retry_after",
			file:    "maintenance: {on: true, page: DIR/down.txt, retry_after: 7m}",
			prepare: func(s *fieldServer) { s.write("down.txt", "back at noon") },
			show: func(s *fieldServer) {
				v := s.expect("/", 503, "isr; fwd=miss; fwd-status=503; detail=maintenance")
				if v.body != "back at noon" || v.header.Get("Retry-After") != "420" || v.header.Get("Content-Type") != "text/plain; charset=utf-8" || s.origin.count() != 0 {
					s.Errorf("%s, %d requests at the origin", v, s.origin.count())
				}
				s.contains(s.isrFails("maintenance", "off"), "the configuration file has maintenance: {on: true}")
				s.reload("defaults: {revalidate: 1h}")
				s.expect("/", 200, "isr; fwd=miss; fwd-status=200; stored")
				s.contains(s.isr("maintenance", "on"), "maintenance mode is on")
				s.expect("/", 200, "isr; hit")
				s.expect("/2", 503, "isr; fwd=miss; fwd-status=503; detail=maintenance")
				s.contains(s.isr("top", "--once"), "isr maintenance off ends it")
				s.restart("defaults: {revalidate: 1h}")
				s.contains(s.isr("maintenance", "status"), "maintenance mode is on")
				if v := s.do("POST", "/"); v.code != 503 || !strings.Contains(v.body, "Down for maintenance") {
					s.Errorf("%s", v)
				}
				s.contains(s.isr("maintenance", "off"), "maintenance mode is off")
				s.until("a page is rendered", func() bool { return s.get("/2").code == 200 })
			},
		},
	}
}
