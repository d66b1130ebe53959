package fastpath_test

import (
	"strings"
	"testing"
)

// get returns a GET request for a page of the site.
func get(target string, fields ...string) string { return request("GET", target, fields...) }

func request(method, target string, fields ...string) string {
	lines := append([]string{method + " " + target + " HTTP/1.1", "Host: h.test"}, fields...)
	return strings.Join(lines, "\r\n") + "\r\n\r\n"
}

// A stream is what a client sends.
type stream struct {
	name string
	sent string
	hits int64 // of its requests, how many are hits of the fast path
}

// streams are odd and ordinary streams.
func streams() []stream {
	const browser = "User-Agent: Mozilla/5.0 (X11; Linux x86_64)\r\nAccept: text/html,application/xhtml+xml,*/*;q=0.8\r\nAccept-Language: de-AT,de;q=0.9\r\n" +
		"Accept-Encoding: gzip, deflate, br, zstd\r\nsec-ch-ua: \"Chromium\";v=\"130\"\r\nsec-ch-ua-mobile: ?0\r\nConnection: keep-alive\r\nSec-Fetch-Mode: navigate\r\nUpgrade-Insecure-Requests: 1\r\nCookie: _ga=GA1.1.1; _gid=2"
	return []stream{
		{"a hit", get("/"), 1},
		{"hits", get("/a") + get("/b") + get("/a"), 3},
		{"HEAD", request("HEAD", "/a"), 1},
		{"a browser", get("/a", browser), 1},
		{"a declared query", get("/a?page=2") + get("/a?utm_source=x&page=2"), 2},
		{"another query", get("/a?other=1"), 0},
		{"an empty query", get("/a?"), 0},
		{"a query with a question mark", get("/a?page=?"), 1},
		{"a fragment", get("/a#b") + get("/a?page=1#b"), 0},
		{"percent-encoding", get("/%61") + get("/a%2Fb") + get("/%zz"), 0},
		{"path characters", get("/-_.~$&+,:;=@") + get("/a;b") + get("/a/./b/../c"), 3},
		{"other path characters", get("/a!b") + get("/(a)*'") + get("/a\"b") + get("/ä"), 0},
		{"slashes", get("/a//b") + get("//a") + get("///"), 1},
		{"absolute form", get("http://h.test/a") + get("http://other.test/a") + get("https://h.test:443/a"), 0},
		{"other forms", get("*") + request("OPTIONS", "*") + request("CONNECT", "h.test:80"), 0},
		{"other hosts", "GET /a HTTP/1.1\r\nhost: H.TEST:80\r\n\r\n" + "GET /a HTTP/1.1\r\nHost: h.test.\r\n\r\n" + "GET /a HTTP/1.1\r\nHost: [::1]\r\n\r\n" + "GET /a HTTP/1.1\r\nHost: other.test\r\n\r\n", 3},
		{"no host", "GET /a HTTP/1.1\r\n\r\n", 0},
		{"an empty host", "GET /a HTTP/1.1\r\nHost:\r\n\r\n", 0},
		{"an odd host", "GET /a HTTP/1.1\r\nHost: h.test/../x\r\n\r\n", 0},
		{"two hosts", get("/a", "Host: h.test"), 0},
		{"two different hosts", get("/a", "Host: other.test"), 0},
		{"HTTP/1.0", "GET /a HTTP/1.0\r\nHost: h.test\r\n\r\n", 0},
		{"HTTP/1.0 with keep-alive", "GET /a HTTP/1.0\r\nHost: h.test\r\nConnection: keep-alive\r\n\r\n" + get("/a"), 0},
		{"HTTP/0.9", "GET /a\r\n\r\n", 0},
		{"HTTP/1.2", "GET /a HTTP/1.2\r\nHost: h.test\r\n\r\n", 0},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 0},
		{"lower-case HTTP", "GET /a http/1.1\r\nHost: h.test\r\n\r\n", 0},
		{"lower-case method", request("get", "/a"), 0},
		{"spaces in the request line", "GET  /a HTTP/1.1\r\nHost: h.test\r\n\r\n", 0},
		{"a space at the end of the request line", "GET /a HTTP/1.1 \r\nHost: h.test\r\n\r\n", 0},
		{"a tab in the request line", "GET\t/a\tHTTP/1.1\r\nHost: h.test\r\n\r\n", 0},
		{"an empty line first", "\r\n" + get("/a"), 0},
		{"bare LF", "GET /a HTTP/1.1\nHost: h.test\n\n", 0},
		{"bare LF between", "GET /a HTTP/1.1\r\nHost: h.test\nX: y\r\n\r\n", 0},
		{"bare LF at the end", "GET /a HTTP/1.1\r\nHost: h.test\r\n\n" + get("/b"), 0},
		{"bare CR", "GET /a HTTP/1.1\r\nHost: h.test\r\nX: a\rb\r\n\r\n", 0},
		{"CR before CRLF", "GET /a HTTP/1.1\r\nHost: h.test\r\nX: a\r\r\n\r\n", 0},
		{"a folded line", get("/a", "X: a", " b"), 0},
		{"a folded line first", "GET /a HTTP/1.1\r\n Host: h.test\r\n\r\n", 0},
		{"a space before the colon", get("/a", "X : a"), 0},
		{"a space in a name", get("/a", "X y: a"), 0},
		{"no colon", get("/a", "X"), 0},
		{"no name", get("/a", ": a"), 0},
		{"an underscore", get("/a", "Content_Length: 5"), 1},
		{"NUL in a value", get("/a", "X: a\x00b"), 0},
		{"obs-text", get("/a", "X: \xe4"), 0},
		{"no value", get("/a", "X:"), 1},
		{"white space around values", "GET /a HTTP/1.1\r\nHost:h.test\r\nX:\t a \t\r\n\r\n", 1},
		{"a repeated field", get("/a", "X: a", "x: b") + get("/kind/a", "X-Kind: a", "X-Kind: b"), 0},
		{"a body", get("/a", "Content-Length: 5") + "hello" + get("/a"), 0},
		{"no body", get("/a", "Content-Length: 0") + get("/a"), 0},
		{"two lengths", get("/a", "Content-Length: 5", "Content-Length: 6") + "hello", 0},
		{"a length that is none", get("/a", "Content-Length: +5") + "hello", 0},
		{"CL.TE", get("/a", "Content-Length: 6", "Transfer-Encoding: chunked") + "0\r\n\r\nG", 0},
		{"TE.CL", get("/a", "Transfer-Encoding: chunked", "Content-Length: 4") + "5c\r\nGPOST / HTTP/1.1\r\nHost: h.test\r\n\r\n0\r\n\r\n", 0},
		{"TE.TE", get("/a", "Transfer-Encoding: chunked", "Transfer-Encoding: identity") + "0\r\n\r\n", 0},
		{"an obfuscated TE", get("/a", "Transfer-Encoding : chunked") + "0\r\n\r\n", 0},
		{"a folded TE", get("/a", "Transfer-Encoding:", " chunked") + "0\r\n\r\n", 0},
		{"an odd TE", get("/a", "Transfer-Encoding: xchunked") + "0\r\n\r\n", 0},
		{"a chunked body with a request in it", request("POST", "/off/a", "Transfer-Encoding: chunked") + "24\r\n" + "GET /a HTTP/1.1\r\nHost: h.test\r\n\r\n..." + "\r\n0\r\n\r\n" + get("/a"), 0},
		{"a body with a request in it", request("POST", "/off/a", "Content-Length: 34") + "GET /a HTTP/1.1\r\nHost: h.test\r\n\r\n." + get("/a"), 0},
		{"POST", request("POST", "/off/a", "Content-Length: 5") + "hello\r\n" + get("/a"), 0},
		{"other methods", request("PUT", "/off/a", "Content-Length: 0") + request("DELETE", "/off/a") + request("TRACE", "/a") + request("PURGE", "/a"), 0},
		{"Expect", get("/a", "Expect: 100-continue") + get("/a", "Expect: x"), 0},
		{"Upgrade", get("/a", "Connection: Upgrade", "Upgrade: websocket"), 0},
		{"h2c", get("/a", "Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"), 0},
		{"Connection: close", get("/a", "Connection: close"), 0},
		{"Connection names a field", get("/a", "Connection: X-Kind", "X-Kind: a") + get("/a", "Connection: cookie"), 0},
		{"Cookies", get("/a", "Cookie: _ga=1") + get("/a", "Cookie: session=1") + get("/a", "Cookie: isr-draft=x"), 1},
		{"drafts", get("/a?isr-draft=x") + get("/a?isr-draft=off"), 0},
		{"Authorization", get("/a", "Authorization: Basic eDp5"), 0},
		{"ranges", get("/a", "Range: lines=1-2") + get("/a", "Range: bytes=0-9") + get("/a", "Range: bytes=0-9, 20-29") + get("/a", "Range: bytes=999999-"), 1},
		{"If-None-Match", get("/a", `If-None-Match: "x"`) + get("/a", "If-None-Match: *") + get("/a", `If-None-Match: "x", W/"y"`) + request("HEAD", "/a", "If-None-Match: *"), 4},
		{"If-Modified-Since", get("/a", "If-Modified-Since: Sun, 06 Nov 2094 08:49:37 GMT") + get("/a", "If-Modified-Since: yesterday"), 2},
		{"other conditions", get("/a", `If-Match: "x"`) + get("/a", "If-Unmodified-Since: Sun, 06 Nov 1994 08:49:37 GMT"), 2},
		{"Cache-Control", get("/a", "Cache-Control: no-cache") + get("/a", "Cache-Control: only-if-cached") + get("/browser/a", "Cache-Control: no-cache") + get("/browser/a", "Cache-Control: max-age=60"), 3},
		{"Pragma", get("/browser/a", "Pragma: no-cache") + get("/a", "Pragma: x"), 0},
		{"lifetimes", get("/browser/a") + get("/browser/a", "Accept-Encoding: gzip"), 2},
		{"declared headers", get("/kind/a", "X-Kind: b") + get("/kind/a"), 2},
		{"classes", get("/class/a", "Accept-Language: de", "Cookie: shop=us") + get("/class/a"), 2},
		{"Vary", get("/vary") + get("/vary", "Accept-Language: de"), 0},
		{"learned Vary", get("/learn/vary") + get("/learn/vary", "Accept-Language: de") + get("/learn/vary"), 2},
		{"tenants", get("/tenant/a", "X-Tenant: t") + get("/tenant/a", "X-Tenant: t/u") + get("/tenant/a") + get("/a", "X-Tenant: t"), 1},
		{"early hints", get("/hints/a", "Sec-Fetch-Mode: cors") + get("/hints/a"), 1},
		{"other statuses", get("/moved/a") + get("/gone/a"), 1},
		{"no cache", get("/off/a"), 0},
		{"health", get("/healthz"), 0},
		{"a receipt", get("/a", "ISR-Min-Seq: 1") + get("/a", "ISR-Min-Seq: x"), 0},
		{"forwarding fields", get("/a", "X-Forwarded-For: 192.0.2.1", "X-Forwarded-Host: other.test", "X-Request-Id: x", "Forwarded: for=192.0.2.1"), 0},
		{"Via", get("/a", "Via: 1.1 x"), 1},
		{"many fields", get("/a", strings.Split(strings.Repeat("X: y\r\n", 100), "\r\n")[:100]...), 0},
		{"a long head", get("/a", "Cookie: _ga="+strings.Repeat("x", 5000)) + get("/a"), 0},
		{"the longest head", get("/a", "Cookie: _ga="+strings.Repeat("x", 4096-len(get("/a", "Cookie: _ga=")))), 1},
		{"a longer head", get("/a", "Cookie: _ga="+strings.Repeat("x", 4097-len(get("/a", "Cookie: _ga=")))) + get("/a"), 0},
		{"an oversized head", get("/a", "Cookie: _ga="+strings.Repeat("x", 80<<10)), 0},
		{"an oversized request line", get("/" + strings.Repeat("a", 80<<10)), 0},
		{"a hit, then a miss", get("/a") + get("/off/a") + get("/a"), 2},
		{"a hit, then half a request", get("/a") + "GET /a HTTP/1.1\r\nHo", 1},
		{"half a request line", "GET /a HTT", 0},
		{"one byte", "G", 0},
		{"no request", "\r\n\r\n\r\n\r\n", 0},
		{"binary", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", 0},
	}
}

// TestStreams: a server with a fast path answers as one without it, byte for byte.
func TestStreams(t *testing.T) {
	s := newSites(t)
	for _, st := range streams() {
		t.Run(st.name, func(t *testing.T) {
			s.plain.exchange(t, st.sent) // fills the cache
			s.compare(t, st.sent)
			if st.hits == 0 {
				return
			}
			// A client that is fast enough sends the stream before net/http waits for it.
			got := int64(-1)
			for try := 0; try < 100 && got != st.hits+1 && got != st.hits; try++ {
				before := s.fast.counted.hits.Load()
				s.fast.exchange(t, st.sent)
				got = s.fast.counted.hits.Load() - before
			}
			if got != st.hits {
				t.Errorf("%d requests were answered by the fast path, want %d", got, st.hits)
			}
		})
	}
}

// compare has both servers answer a stream. It does so again if the answers differ, since the
// site may have changed in between: a coding was made, or a page purged by an unsafe method, which
// happens once a second.
func (s *sites) compare(t testing.TB, parts ...string) {
	t.Helper()
	var want, got string
	for range 5 {
		if want, got = s.plain.exchange(t, parts...), s.fast.exchange(t, parts...); want == got {
			return
		}
	}
	shorten := strings.NewReplacer(strings.Repeat("<p>", 500), "...")
	t.Errorf("%.2000q is answered by\n%s\nand without a fast path by\n%s", parts, shorten.Replace(got), shorten.Replace(want))
}

// TestSplits: it does not matter how a stream arrives.
func TestSplits(t *testing.T) {
	s := newSites(t)
	for _, sent := range []string{
		get("/a") + get("/b", "Accept-Encoding: gzip"),
		get("/a") + get("/off/a") + get("/b"),
		request("POST", "/off/a", "Content-Length: 34") + "GET /a HTTP/1.1\r\nHost: h.test\r\n\r\n." + get("/a"),
		request("HEAD", "/a") + request("POST", "/off/a", "Transfer-Encoding: chunked") + "3\r\nabc\r\n0\r\n\r\n" + get("/a"),
		get("/a", "X: a", " b") + get("/b"),
		"GET /a HTTP/1.1\r\nHost: h.test\r\n\n" + get("/b"),
	} {
		s.plain.exchange(t, sent)
		for at := range len(sent) {
			s.compare(t, sent[:at], sent[at:])
		}
	}
}

// FuzzStreams is TestStreams for any streams.
func FuzzStreams(f *testing.F) {
	for _, st := range streams() {
		f.Add(st.sent, len(st.sent)/2)
	}
	s := newSites(f)
	f.Fuzz(func(t *testing.T, sent string, at int) {
		sent = sent[:min(len(sent), 64<<10)]
		at = min(max(at, 0), len(sent))
		s.plain.exchange(t, sent)
		s.compare(t, sent[:at], sent[at:])
	})
}
