package spec_test

import (
	"encoding/json"
	"os"
	"strings"
)

// keep adds a question about fields that are stored, all of them, beside those that are not.
func (c *cases) keep(name, etag string, stored []string, dropped ...string) {
	v := kept{Name: name, Headers: fields(append(stored, dropped...)...), ETag: etag}
	if len(stored) > 0 {
		v.Stored = fields(stored...)
	}
	c.Fields = append(c.Fields, v)
}

// storedFields: rule 13, which fields are stored.
func (c *cases) storedFields() {
	for _, name := range listed() {
		switch name {
		case "cache-status", "surrogate-control", "etag":
			continue // have vectors of their own
		}
		c.keep(name+" is not stored", "", []string{"X-Kept: 1"}, name+": a")
	}
	for _, stored := range []string{
		"Content-Type: text/html; charset=utf-8", "Cache-Control: max-age=60", "CDN-Cache-Control: max-age=60", "Surrogate-Control: max-age=60", "Expires: 2037", "Last-Modified: rubbish", "Vary: Accept-Encoding", "Location: /b",
		"Link: </a>; rel=preload", "Content-Language: de", "Content-Security-Policy: default-src 'self'", "Strict-Transport-Security: max-age=1", "Cache-Tag: a", "Surrogate-Key: a", "Cache-Groups: \"a\"", "X-Next-Cache-Tags: a",
		"Content-Digest: sha-256=:YQ==:", "Repr-Digest: sha-256=:YQ==:", "Via: 1.1 a", "Pragma: no-cache", "Retry-After: 60", "WWW-Authenticate: Basic", "Server: a", "X-Powered-By: a", "X-Cached: a", "X-Request-Ids: a", "Trailers: a", "Content-Disposition: inline; filename=\"é.html\"", "X-Latin: \xe9", "X-Empty:",
	} {
		name, _, _ := strings.Cut(stored, ":")
		c.keep(name+" is stored", "", []string{stored})
	}
	c.keep("lines of a field", "", []string{"Link: </a>; rel=preload", "Link: </b>; rel=preload"})
	c.keep("fields that Connection names", "", []string{"X-Kept: 1"}, "Connection: close, X-Hop ,\tX-Other", "X-Hop: 1", "X-Other: 2")
	c.keep("fields that lines of Connection name", "", []string{"X-Kept: 1"}, "Connection: x-hop", "Connection: X-OTHER", "X-Hop: 1", "X-Other: 2")
	c.keep("Content-Type that Connection names", "", nil, "Connection: content-type", "Content-Type: text/html")
	c.keep("a Date", "", []string{"Date: " + at(0)})
	for _, date := range []string{"now", "0", "2026-11-27T12:00:00Z", "Sat, 27 Nov 2026 12:00:00 GMT"} {
		c.keep("Date: "+date, "", []string{"X-Kept: 1"}, "Date: "+date)
	}
	c.keep("two dates", "", []string{"X-Kept: 1"}, "Date: "+at(0), "Date: "+at(0))
	c.keep("Cache-Status of a cache behind", "", []string{"Cache-Status: \"b\"; hit; ttl=5, c; fwd=miss"})
	for _, status := range []string{"", "a; hit,", "b \"", "a;;b", "a b", "(a", strings.Repeat("a", 1025)} {
		c.keep("Cache-Status: "+brief(status), "", []string{"X-Kept: 1"}, "Cache-Status: "+status)
	}
	c.keep("the longest Cache-Status", "", []string{"Cache-Status: " + strings.Repeat("a", 1024)})
	c.keep("digests of a content with a coding", "", []string{"X-Kept: 1"}, "Content-Encoding: identity", "Content-Digest: sha-256=:YQ==:", "Repr-Digest: sha-256=:YQ==:", "Digest: sha-256=YQ==", "Content-MD5: YQ==")
}

// validators: rule 13, entity tags.
func (c *cases) validators() {
	for _, etag := range []string{`"a"`, `""`, `W/"a"`, `W/""`, `"a,b"`, `"a'b"`, `"a\b"`, `"W/a"`, `"é"`, `"!#~"`, `"` + strings.Repeat("a", 1022) + `"`, `W/"` + strings.Repeat("a", 1022) + `"`} {
		c.keep("ETag: "+brief(etag), etag, []string{"X-Kept: 1"}, "ETag: "+etag)
	}
	for _, etag := range []string{
		"undefined", "null", "a", "", `"a`, `a"`, `"`, `'a'`, `w/"a"`, `W/a`, `W/ "a"`, `W"a"`, `"a b"`, `"a"b"`, `"a", "b"`, `"a";q=1`, `*`, "\"\xe9\"", `"a` + "\x01" + `"`, `"a` + "\x7f" + `"`, "`a`",
		`"` + strings.Repeat("a", 1023) + `"`, `W/"` + strings.Repeat("a", 1023) + `"`,
	} {
		c.keep("ETag that is none: "+brief(etag), "", []string{"X-Kept: 1"}, "ETag: "+etag)
	}
	c.keep("two ETags", "", []string{"X-Kept: 1"}, `ETag: "a"`, `ETag: "b"`)
}

// ask adds a question about a request.
func (c *cases) ask(name, method, target, bypass, key string, lines ...string) *asked {
	c.Requests = append(c.Requests, asked{Name: name, Method: method, Target: target, Headers: fields(lines...), Bypass: bypass, Key: key})
	return &c.Requests[len(c.Requests)-1]
}

// bypasses: rule 14, requests that are not answered from the cache.
func (c *cases) bypasses() {
	const key = "example.com/a"
	for _, method := range []string{"GET", "HEAD"} {
		c.ask(method, method, "/a", "", key)
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "OPTIONS", "PURGE"} {
		c.ask(method, method, "/a", "method", "")
	}
	for _, header := range []string{"X-Tenant", "X-Tenant-Id", "Tenant-Id", "X-Org-Id", "X-Organization-Id", "X-Account-Id"} {
		c.ask(header, "GET", "/a", "tenant", "", header+": a")
		c.ask(header+" that is empty", "GET", "/a", "tenant", "", header+":")
	}
	for _, value := range []string{"Bearer a", "Basic YTpi", "a"} {
		c.ask("Authorization: "+value, "GET", "/a", "authorization", "", "Authorization: "+value)
	}
	c.ask("WebSocket", "GET", "/a", "upgrade", "", "Upgrade: WebSocket", "Connection: Upgrade")
	for _, upgrade := range []string{"h2c", "TLS/1.0", "websockets", "websocket, h2c"} {
		c.ask("Upgrade: "+upgrade, "GET", "/a", "", key, "Upgrade: "+upgrade, "Connection: Upgrade")
	}
	c.ask("Upgrade-Insecure-Requests", "GET", "/a", "", key, "Upgrade-Insecure-Requests: 1")
	for _, header := range []string{
		"Cache-Control: no-store", "Cache-Control: max-age=60", "Pragma: no-cache", "Accept-Language: de", "User-Agent: a", "Range: bytes=0-1", "If-None-Match: \"a\"", "Proxy-Authorization: a", "X-Authorization: a", "X-Forwarded-Host: evil.test", "X-Tenants: a",
	} {
		c.ask(header+" does not matter", "GET", "/a", "", key, header)
	}
	// The order.
	c.ask("tenant before method", "POST", "/a", "tenant", "", "X-Tenant: a")
	c.ask("method before authorization", "POST", "/a", "method", "", "Authorization: a")
	c.ask("authorization before upgrade", "GET", "/a", "authorization", "", "Authorization: a", "Upgrade: websocket", "Connection: Upgrade")
	c.ask("upgrade before cookie", "GET", "/a", "upgrade", "", "Cookie: a=1", "Upgrade: websocket", "Connection: Upgrade")
	c.ask("cookie before query", "GET", "/a?b=1", "cookie", "", "Cookie: a=1")
	for _, v := range []struct {
		cookie, bypass string
		ignored        []string
	}{
		{"", "", nil},
		{"session=1", "cookie", nil},
		{"_ga=1", "", nil},
		{"_ga=1; session=1", "cookie", nil},
		{"session=1; _ga=1", "cookie", nil},
		{"_ga=1;session=1", "cookie", nil},
		{"  _ga=1 ;; _gid=2; ", "", nil},
		{"=1", "", nil},
		{"_ga", "", nil},
		{"session", "cookie", nil},
		{"_GA=1", "cookie", nil},
		{"_ga =1", "cookie", nil},
		{"_ga=session=1", "", nil},
		{"theme=1", "", []string{"theme"}},
		{"theme_dark=1", "cookie", []string{"theme"}},
		{"theme_dark=1", "", []string{"theme*"}},
		{"session=1", "", []string{"*"}},
		{"session=1; a=1", "cookie", []string{"*", "!session"}},
		{"a=1", "", []string{"*", "!session"}},
		{"_ga=1", "cookie", []string{"!_ga"}},
		{"_ga_x=1", "", []string{"!_ga"}},
		{"_ga_x=1", "cookie", []string{"!_ga*"}},
	} {
		expected := ""
		if v.bypass == "" {
			expected = key
		}
		name := "Cookie: " + v.cookie
		if v.ignored != nil {
			name += ", if " + strings.Join(v.ignored, " and ") + " is ignored"
		}
		c.ask(name, "GET", "/a", v.bypass, expected, "Cookie: "+v.cookie).IgnoreCookies = v.ignored
	}
}

// parameters: rule 14, query parameters.
func (c *cases) parameters() {
	for _, v := range []struct{ query, bypass, key string }{
		{"?page=2", "", "?page=2"},
		{"?b=1", "query", ""},
		{"?page=2&b=1", "query", ""},
		{"?b=1&page=2", "query", ""},
		{"?PAGE=2", "query", ""},
		{"?pages=2", "query", ""},
		{"?", "", ""},
		{"?&&", "", ""},
		{"?utm_source=a", "", ""},
		{"?page=2&utm_source=a&gclid=b", "", "?page=2"},
		{"?utm_source=a&page=2", "", "?page=2"},
		{"?utm_source=a&utm_source=b", "", ""},
		{"?UTM_SOURCE=a", "query", ""},
		{"?utm=a", "query", ""},
		{"?gclid", "", ""},
		{"?gclid=", "", ""},
		{"?%67clid=a", "", ""},
		{"?ref=a", "query", ""},
	} {
		key := ""
		if v.bypass == "" {
			key = "example.com/a" + v.key
		}
		c.ask("GET /a"+v.query, "GET", "/a"+v.query, v.bypass, key)
	}
}

// listed returns the names of responses.json, each made to a name that an entry of the kind prefix covers.
func listed() []string {
	var file struct{ Fields []struct{ Name, Kind string } }
	text, err := os.ReadFile("responses.json")
	if err == nil {
		err = json.Unmarshal(text, &file)
	}
	if err != nil {
		panic(err)
	}
	names := make([]string, len(file.Fields))
	for i, f := range file.Fields {
		if names[i] = f.Name; f.Kind == "prefix" {
			names[i] += "x"
		}
	}
	return names
}
