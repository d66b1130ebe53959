package main

import (
	"io"
	"net"
	"net/http"
	"os"
	"strings"
)

// syslogField shows a syslog server that gets the lines, over the fast path too.
func syslogField() fieldTest {
	var server net.PacketConn
	return fieldTest{
		fields: "access_log.syslog", file: "access_log: {syslog: \"udp://SYSLOG\"}",
		prepare: func(s *fieldServer) {
			var err error
			if server, err = net.ListenPacket("udp", "127.0.0.1:0"); err != nil {
				s.Fatal(err)
			}
			s.Cleanup(func() { _ = server.Close() })
			s.replace("SYSLOG", server.LocalAddr().String())
		},
		show: func(s *fieldServer) {
			s.expect("/of-syslog", 200, "")
			message := make([]byte, 64<<10)
			n, _, err := server.ReadFrom(message)
			if err != nil {
				s.Fatal(err)
			}
			s.contains(string(message[:n]), "<190>1 20")
			s.contains(string(message[:n]), ` access - {"time":"`)
			s.contains(string(message[:n]), `"url.path":"/of-syslog"`)
		},
	}
}

// telemetryFieldTests are tests of request ids, logs and metrics.
func telemetryFieldTests() []fieldTest {
	lines := func(s *fieldServer) string {
		text, err := os.ReadFile(s.dir + "/access.log")
		if err != nil {
			s.Fatal(err)
		}
		return string(text)
	}
	return []fieldTest{
		{fields: "access_log.path", file: "access_log: {path: DIR/access.log}", show: func(s *fieldServer) {
			v := s.get("/secret?token=undeclared", "User-Agent", "curl/8", "Cookie", "session=1")
			s.until("the line is written", func() bool { return strings.Count(lines(s), "\n") == 1 })
			for _, part := range []string{
				`"client.address":"127.0.0.1"`, `"url.path":"/secret","network`, `"http.response.status_code":200`, `"user_agent.original":"curl/8"`,
				`"isr.cache":"bypass"`, `"isr.request_id":"` + v.header.Get("X-Request-Id") + `"`,
			} {
				s.contains(lines(s), part)
			}
			if strings.Contains(lines(s), "undeclared") || strings.Contains(lines(s), "session") {
				s.Error(lines(s))
			}
		}},
		{fields: "access_log.format", file: "access_log: {path: DIR/access.log, format: text}\ndefaults: {revalidate: 1h, query: [page]}", show: func(s *fieldServer) {
			s.expect("/?page=2", 200, stored)
			s.until("the line is written", func() bool { return strings.Contains(lines(s), `"GET /?page=2 HTTP/1.1" 200 8 "-"`) })
			s.contains(lines(s), " cache=miss reason=- ")
		}},
		{fields: "access_log.sample_hits", file: "access_log: {path: DIR/access.log, sample_hits: 1000000}\ndefaults: {revalidate: 1h}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			for range 20 {
				s.expect("/", 200, hit)
			}
			s.stop()
			<-s.done
			if strings.Count(lines(s), "\n") != 1 { // or there was a hit of probability 20 in a million
				s.Error(lines(s))
			}
		}},
		{fields: "access_log.client_address", file: "access_log: {path: DIR/access.log, client_address: masked}", show: func(s *fieldServer) {
			s.expect("/", 200, "")
			s.until("the line is written", func() bool { return strings.Contains(lines(s), `"client.address":"127.0.0.0"`) })
		}},
		{fields: "access_log.fields", file: "access_log: {path: DIR/access.log, fields: [status, cache, request.x-team, response.x-kind, response.content-type]}\ndefaults: {revalidate: 1h}", origin: func(_ *countedSite, _ int, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain")
			w.Header().Set("X-Kind", "article")
			_, _ = io.WriteString(w, "page")
		}, show: func(s *fieldServer) {
			s.expect("/", 200, stored, "X-Team", "a\x80b")
			s.until("the first line is written", func() bool { return strings.Count(lines(s), "\n") == 1 })
			s.expect("/", 200, hit, "X-Team", "red") // also without net/http
			s.until("both lines are written", func() bool { return strings.Count(lines(s), "\n") == 2 })
			const kept = `"http.response.header.x-kind":"article","http.response.header.content-type":"text/plain"}` + "\n"
			if got := lines(s); got != `{"http.response.status_code":200,"isr.cache":"miss","http.request.header.x-team":"a`+"\uFFFD"+`b",`+kept+`{"http.response.status_code":200,"isr.cache":"hit","http.request.header.x-team":"red",`+kept {
				s.Error(got)
			}
		}},
		syslogField(),
		{fields: "request_id", file: "request_id: errors\nroutes: [{match: /page, revalidate: 1h}]", show: func(s *fieldServer) {
			if v := s.expect("/page", 200, stored, "X-Request-Id", "of-visitor"); v.header["X-Request-Id"] != nil {
				s.Errorf("a page has the id %v", v.header)
			}
			s.expect("/page?unknown=1", 200, bypassed, "X-Request-Id", "of-visitor")
			sent := s.origin.last().Header.Get("X-Request-Id")
			v := s.get("/page", "X-Request-Id", "of-visitor", "Host", "elsewhere.example")
			id := v.header.Get("X-Request-Id")
			if len(id) != 32 || len(sent) != 32 || id == sent || !strings.HasSuffix(v.body, "\nRequest ID: "+id+"\n") {
				s.Errorf("got %s with the id %q; the origin got %q", v, id, sent)
			}
		}},
	}
}
