package main

import "net/http"

// protectionFields are tests of which requests are accepted. The address of the client is the one that the test states.
func protectionFields() []fieldTest {
	const behind = "listen: [{address: 127.0.0.1:0, trusted_proxies: [loopback]}]\n"
	const proxied = behind + "defaults: {revalidate: 1h}\n"
	office := []string{"X-Forwarded-For", "192.0.2.1"}
	lists := func(s *fieldServer) { s.write("networks", "# office\n192.0.2.0/24\n") }
	allowed := func(s *fieldServer) {
		s.expect("/", 200, stored, office...)
		s.expect("/", 200, hit, office...)
		s.expect("/", 403, "isr; detail=denied", "X-Forwarded-For", "::ffff:203.0.113.9")
		s.expect("/", 403, "isr; detail=denied")
	}
	denied := func(s *fieldServer) {
		s.expect("/", 200, stored)
		if v := s.expect("/", http.StatusForbidden, "isr; detail=denied", office...); v.header.Get("Cache-Control") != "no-store" {
			s.Errorf("got %v", v.header)
		}
		s.expect("/", 200, hit)
	}
	limited := func(s *fieldServer) {
		s.expect("/", 200, stored)
		s.expect("/", 200, hit)
		if v := s.expect("/", http.StatusTooManyRequests, "isr; detail=rate-limited"); v.header.Get("Retry-After") == "" || v.header.Get("Cache-Control") != "no-store" {
			s.Errorf("got %v", v.header)
		}
		s.expect("/", 200, hit, office...)
	}
	return []fieldTest{
		{fields: "rate_limits", file: proxied + "rate_limits: [2/h]", show: limited},
		{fields: "defaults.rate_limits", file: behind, settings: "revalidate: 1h, rate_limits: [2/h]", show: limited},
		{fields: "allow", file: proxied + "allow: [192.0.2.0/24]", show: allowed},
		{fields: "allow_file", file: proxied + "allow_file: DIR/networks", prepare: lists, show: allowed},
		{fields: "deny", file: proxied + "deny: [192.0.2.0/24]", show: denied},
		{fields: "deny_file", file: proxied + "deny_file: DIR/networks", prepare: lists, show: denied},
		{fields: "defaults.allow", file: behind, settings: "revalidate: 1h, allow: [192.0.2.0/24]", show: allowed},
		{fields: "defaults.allow_file", file: behind, settings: "revalidate: 1h, allow_file: DIR/networks", prepare: lists, show: allowed},
		{fields: "defaults.deny", file: behind, settings: "revalidate: 1h, deny: [192.0.2.0/24]", show: denied},
		{fields: "defaults.deny_file", file: behind, settings: "revalidate: 1h, deny_file: DIR/networks", prepare: lists, show: denied},
	}
}
