package main

import "strings"

// trafficFields are tests of fields that answer requests without the origin, or change what the origin gets.
func trafficFields() []fieldTest {
	return []fieldTest{
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
				s.contains(s.isr("explain", s.url+"/blog/two"), "redirects[0] of the configuration redirects the request to /posts/two")
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
