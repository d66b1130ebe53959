package spec_test

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// tenYears is the longest lifetime, window and age, in seconds.
const tenYears = 315360000

// seconds: rule 3, the arguments of directives.
func (c *cases) seconds() {
	for argument, fresh := range ordered(
		"60", 60, "0", 0, "1", 1, "060", 60, "000000000000000000060", 60, "\"60\"", 60, "\"060\"", 60, "315360000", tenYears, "315360001", tenYears,
		"2147483648", tenYears, "99999999999999999999", tenYears, strings.Repeat("9", 400), tenYears,
		"-1", 0, "+60", 0, "60.5", 0, "6e1", 0, "60s", 0, "0x3c", 0, "1_000", 0, "abc", 0, "\"abc\"", 0, "\"\"", 0, "", 0, "60 60", 0, "6\\0", 0,
	) {
		name := brief(argument)
		c.lasting(3, "max-age="+name, fresh, "Cache-Control: max-age="+argument)
		c.lasting(3, "s-maxage="+name, fresh, "Cache-Control: s-maxage="+argument)
		c.lasting(3, "Surrogate-Control: max-age="+name, fresh, "Surrogate-Control: max-age="+argument)
	}
	c.refused(3, "max-age without an argument", "no-freshness", "Cache-Control: max-age")
	c.refused(3, "s-maxage without an argument", "no-freshness", "Cache-Control: s-maxage, max-age=60")
	for argument, fresh := range ordered(
		"60", 60, "0", 0, "060", 60, "-1", 0, "-0", 0, "60.5", 0, "60.0", 0, "\"60\"", 0, "abc", 0, "?1", 0, "?0", -1, ":NjA=:", 0, "(60)", 0, "@60", 0, "%\"60\"", 0,
		"999999999999999", tenYears, "60;a=1", 60, "60;a;b=\"c,d\"", 60, "60; a", 60,
	) {
		if fresh < 0 { // false: no directive, and the field is empty
			c.refused(3, "CDN-Cache-Control: max-age="+argument, "no-freshness", "CDN-Cache-Control: max-age="+argument)
			continue
		}
		c.lasting(3, "CDN-Cache-Control: max-age="+argument, fresh, "CDN-Cache-Control: max-age="+argument)
	}
	c.refused(3, "CDN-Cache-Control: max-age without an argument", "no-freshness", "CDN-Cache-Control: max-age")
}

// syntax: rules 1 and 3, lists, case, white space and quotes.
func (c *cases) syntax() {
	for _, text := range []string{
		"max-age=60", "MAX-AGE=60", "Max-Age=60", " max-age=60 ", "max-age = 60", "max-age\t=\t60", "max-age= 60", ",max-age=60", ",,max-age=60,,", ", ,\tmax-age=60, ",
		"a,max-age=60", "a=b,max-age=60", "a=\"b\",max-age=60", "a=\"b, private\", max-age=60", "a=\"b\\\", private\", max-age=60", "a=\"\\\\\", max-age=60", "a = \"b\" , max-age=60",
		"max-age=60, max-age=0", "max-age=60, MAX-AGE=0", "max-age=60, s-max-age=5", "max-age=60, privatex", "max-age=60, x-private", "max-age=60, nostore",
		"=private, max-age=60", "max-age=60=1, s-maxage=60", "\"=60, s-maxage=60", "public, max-age=60", "immutable, max-age=60", "max-age=60;private", "max-age=5, s-maxage=60", "s-maxage=60, s-maxage=0",
	} {
		switch text {
		case "\"=60, s-maxage=60":
			c.refused(3, "a quote that begins a directive", "malformed", "Cache-Control: "+text)
		case "max-age=60;private":
			c.refused(3, "a semicolon is part of the argument", "no-freshness", "Cache-Control: "+text)
		default:
			c.stored(3, "Cache-Control: "+strconv.Quote(text), 60, "Cache-Control: "+text)
		}
	}
	c.stored(1, "a field in upper case", 60, "CACHE-CONTROL: max-age=60")
	c.stored(1, "directives in two lines", 60, "Cache-Control: public", "Cache-Control: max-age=60")
	c.stored(1, "the first of repeated directives in two lines", 60, "Cache-Control: max-age=60", "Cache-Control: max-age=5")
	c.stored(1, "an empty line and another", 60, "Cache-Control:", "Cache-Control: max-age=60")
	for _, d := range []string{"private", "no-store", "no-cache"} {
		c.refused(1, d+" in a second line", d, "Cache-Control: max-age=60", "Cache-Control: "+d)
		c.refused(1, d+" in a first line", d, "Cache-Control: "+d, "Cache-Control: max-age=60")
	}
	for i, text := range []string{
		"max-age=60, a=\"b", "max-age=60, a=\"b\\\"", "max-age=60, a=\"b, private", "max-age=60, a=b\"c, no-store, d\"e", "max-age=60, \"no-store\"", "max-age=60, a=\"b\"c",
		"max-age=60, a=\"b\" \"c\"", "max-age=60\"", "max-age=\"60", "\"", "\"\"", "max-age=60, a\"=b\"", "max-age=60, a=\\\"b\\\"", "max-age=60, a=\"\"\"\"", "max-age=60, a==\"b\"\"",
	} {
		c.refused(3, fmt.Sprintf("malformed quotes %d", i+1), "malformed", "Cache-Control: "+text)
	}
}

// targeted: rules 2 and 3, CDN-Cache-Control.
func (c *cases) targeted() {
	c.stored(2, "CDN-Cache-Control alone", 60, "CDN-Cache-Control: max-age=60")
	c.stored(2, "CDN-Cache-Control before Cache-Control", 60, "CDN-Cache-Control: max-age=60", "Cache-Control: private, no-store")
	c.stored(2, "CDN-Cache-Control with s-maxage", 60, "CDN-Cache-Control: max-age=5, s-maxage=60")
	c.refused(2, "CDN-Cache-Control forbids alone", "no-store", "CDN-Cache-Control: no-store", "Cache-Control: s-maxage=60")
	c.refused(2, "CDN-Cache-Control without a lifetime", "no-freshness", "CDN-Cache-Control: must-revalidate", "Cache-Control: s-maxage=60")
	c.refused(2, "an unknown directive of CDN-Cache-Control governs", "no-freshness", "CDN-Cache-Control: a", "Cache-Control: max-age=60")
	c.refused(2, "Expires beside CDN-Cache-Control", "no-freshness", "CDN-Cache-Control: must-revalidate", "Expires: "+at(60), "Date: "+at(0))
	c.stored(2, "an empty CDN-Cache-Control", 60, "CDN-Cache-Control:", "Cache-Control: max-age=60")
	c.refused(2, "an empty CDN-Cache-Control alone", "no-freshness", "CDN-Cache-Control:")
	c.stored(2, "CDN-Cache-Control in which all is false", 60, "CDN-Cache-Control: no-store=?0", "Cache-Control: max-age=60")
	c.stored(3, "a directive for CDNs that is false", 60, "CDN-Cache-Control: max-age=60, no-store=?0")
	c.stored(3, "the last of repeated directives for CDNs", 60, "CDN-Cache-Control: max-age=5, max-age=60")
	c.stored(3, "the last of repeated directives for CDNs in two lines", 60, "CDN-Cache-Control: max-age=5", "CDN-Cache-Control: max-age=60")
	c.stored(3, "a repeated directive for CDNs that is false at last", 60, "CDN-Cache-Control: no-store, max-age=60, no-store=?0")
	c.stored(3, "white space for CDNs", 60, "CDN-Cache-Control: a ,\t max-age=60  ,b")
	for _, d := range []string{"private", "no-store", "no-cache"} {
		c.refused(3, "CDN-Cache-Control: "+d, d, "CDN-Cache-Control: max-age=60, "+d)
		c.refused(3, "CDN-Cache-Control: "+d+"=1", d, "CDN-Cache-Control: max-age=60, "+d+"=1")
		c.refused(3, "CDN-Cache-Control: "+d+" with field names", d, "CDN-Cache-Control: max-age=60, "+d+"=\"set-cookie, x-a\"")
		c.refused(3, "CDN-Cache-Control: "+d+" with an inner list", d, "CDN-Cache-Control: max-age=60, "+d+"=(\"a\" \"b\");c")
		c.refused(3, "CDN-Cache-Control: "+d+" with a parameter", d, "CDN-Cache-Control: max-age=60, "+d+";a=?0")
	}
	for _, text := range []string{
		"max-age=60, a=\"", "!!bad", "Max-Age=60", "max-age=60,", ",max-age=60", "max-age=60,,a", "max-age = 60", "max-age=", "max-age=+60", "max-age=60s", "max-age=1000000000000000", "max-age=60; private\"",
		"max-age=1.2345", "max-age=--1", "max-age=?2", "max-age=60 a", "1=60", "max-age=(60", "max-age=:a", "a=\"\\x\"", "a=\"\x01\", max-age=60", "max-age=60;A", "max-age=60;", "\"max-age\"=60", "a=%\"%zz\"", "a=@1.5",
		"a=1234567890123.4", "a=-", "a='b'", "a=[b]", "max-age:60", "max-age=60, no-störe",
	} {
		name := "CDN-Cache-Control that is malformed: " + strconv.QuoteToASCII(text)
		c.refused(2, name, "malformed", "CDN-Cache-Control: "+text)
		c.stored(2, name+", and Cache-Control", 30, "CDN-Cache-Control: "+text, "Cache-Control: s-maxage=30")
	}
	c.refused(2, "a malformed CDN-Cache-Control and an empty Cache-Control", "malformed", "CDN-Cache-Control: A", "Cache-Control: ,")
	c.refused(2, "a malformed CDN-Cache-Control and a Cache-Control without a lifetime", "no-freshness", "CDN-Cache-Control: A", "Cache-Control: public")
	c.refused(2, "a malformed CDN-Cache-Control and Expires", "malformed", "CDN-Cache-Control: A", "Expires: "+at(60), "Date: "+at(0))
	c.stored(2, "a malformed CDN-Cache-Control and Surrogate-Control", 20, "CDN-Cache-Control: A", "Surrogate-Control: max-age=20", "Cache-Control: no-store")
	c.refused(2, "a malformed line among lines of CDN-Cache-Control", "malformed", "CDN-Cache-Control: max-age=60", "CDN-Cache-Control: A")
	c.refused(2, "an empty line among lines of CDN-Cache-Control", "malformed", "CDN-Cache-Control: max-age=60", "CDN-Cache-Control:")
}

// surrogate: rules 2 and 3, Surrogate-Control.
func (c *cases) surrogate() {
	c.stored(2, "Surrogate-Control before Cache-Control", 60, "Surrogate-Control: max-age=60", "Cache-Control: no-store")
	c.stored(2, "CDN-Cache-Control before Surrogate-Control", 60, "CDN-Cache-Control: max-age=60", "Surrogate-Control: no-store")
	c.refused(2, "Surrogate-Control: no-store", "no-store", "Surrogate-Control: no-store", "Cache-Control: max-age=60")
	c.stored(2, "Surrogate-Control without max-age and no-store", 60, "Surrogate-Control: content=\"ESI/1.0\"", "Cache-Control: max-age=60")
	c.stored(2, "Surrogate-Control with s-maxage alone does not govern", 60, "Surrogate-Control: s-maxage=5", "Cache-Control: max-age=60")
	c.stored(2, "Surrogate-Control with private alone does not govern", 60, "Surrogate-Control: private", "Cache-Control: max-age=60")
	c.refused(2, "Expires beside Surrogate-Control", "no-freshness", "Surrogate-Control: max-age=0", "Expires: "+at(60), "Date: "+at(0))
	c.refused(2, "a malformed Surrogate-Control", "malformed", "Surrogate-Control: content=\"ESI/1.0", "Cache-Control: max-age=60")
	c.refused(2, "a semicolon after a quote that is not closed", "malformed", "Surrogate-Control: max-age=60, a=\"b;edge, no-store", "Cache-Control: max-age=60")
	c.refused(2, "a quote that is not closed in Surrogate-Control for others", "malformed", "Surrogate-Control: content=\"ESI/1.0;edge", "Cache-Control: max-age=60")
	c.stored(3, "Surrogate-Control in capitals", 60, "Surrogate-Control: MAX-AGE=60")
	c.stored(3, "Surrogate-Control for others is ignored", 60, "Surrogate-Control: no-store;edge, max-age=5;varnish", "Cache-Control: max-age=60")
	c.refused(3, "Surrogate-Control for others alone", "no-freshness", "Surrogate-Control: max-age=60;edge")
	c.stored(3, "Surrogate-Control for isr comes first", 60, "Surrogate-Control: max-age=5, max-age=60;isr")
	c.stored(3, "Surrogate-Control for ISR", 60, "Surrogate-Control: max-age=60; ISR ")
	c.refused(3, "Surrogate-Control: no-store for isr", "no-store", "Surrogate-Control: max-age=60, no-store;isr")
	c.stored(3, "a semicolon in quotes", 60, "Surrogate-Control: content=\"a;edge\", max-age=60")
	c.stored(3, "a comma in quotes", 60, "Surrogate-Control: content=\"a, no-store;b\"", "Cache-Control: max-age=60")
	c.refused(3, "the argument ends at the last semicolon", "no-freshness", "Surrogate-Control: max-age=60;edge;isr")
	c.stored(3, "lines of Surrogate-Control", 60, "Surrogate-Control: content=\"a\"", "Surrogate-Control: max-age=60")
	for _, d := range []string{"private", "no-cache"} {
		c.refused(3, "Surrogate-Control: "+d+" beside max-age", d, "Surrogate-Control: max-age=60, "+d)
	}
	for _, v := range []struct {
		text                string
		stale, staleIfError int64
	}{
		{"max-age=60+600", 600, 600},
		{"max-age=60 + 600", 600, 600},
		{"max-age=60+600, stale-while-revalidate=30", 30, 600},
		{"max-age=60+600, stale-if-error=30", 600, 30},
		{"max-age=60+abc", 0, 0},
		{"max-age=60+", 0, 0},
		{"max-age=60+1+2", 0, 0},
		{"max-age=\"60+600\"", 600, 600},
		{"max-age=60+600, must-revalidate", 0, 0},
		{"max-age=60+0", 0, 0},
		{"max-age=60+600;isr, max-age=5+5", 600, 600},
		{"max-age=60+600, s-maxage=60", 0, 0},
	} {
		c.stored(10, "Surrogate-Control: "+v.text, 60, "Surrogate-Control: "+v.text).windows(v.stale, v.staleIfError)
	}
	c.refused(10, "Surrogate-Control: max-age=+600", "no-freshness", "Surrogate-Control: max-age=+600")
	c.stored(10, "Surrogate-Control: max-age=60+600 within the longest windows", 60, "Surrogate-Control: max-age=60+600").with(storableConfig{Stale: 100, StaleIfError: 200}).windows(100, 200)
	c.stored(10, "Surrogate-Control: max-age=60+ has the longest windows", 60, "Surrogate-Control: max-age=60+").with(storableConfig{Stale: 100, StaleIfError: 200}).windows(100, 200)
}

// statuses: rules 4 and 12.
func (c *cases) statuses() {
	storable := set(200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410)
	failed := set(408, 425, 429)
	withdrawing := set(301, 302, 303, 307, 308, 401, 403, 404, 410, 451)
	understood := set(200, 201, 202, 203, 204, 205, 207, 208, 226, 300, 301, 302, 303, 305, 307, 308)
	for _, status := range []int{
		200, 201, 202, 203, 204, 205, 206, 207, 208, 226, 299, 300, 301, 302, 303, 304, 305, 306, 307, 308, 399, 400, 401, 402, 403, 404, 405, 406, 407, 408, 409,
		410, 411, 412, 413, 414, 415, 416, 417, 418, 421, 422, 423, 424, 425, 426, 428, 429, 431, 451, 499, 500, 501, 502, 503, 504, 505, 511, 520, 599,
	} {
		for _, directives := range []string{"s-maxage=60", "private, s-maxage=60", "must-understand, no-store, s-maxage=60"} {
			name := fmt.Sprintf("status %d with %s", status, directives)
			isPrivate := strings.Contains(directives, "private")
			isUnderstood := understood[status] || status == 404 || status == 410
			isForbidden := isPrivate || strings.Contains(directives, "no-store") && !isUnderstood
			ends := withdrawing[status] || status < 400 && isForbidden
			switch {
			case failed[status] || status >= 500:
				v := c.stored(4, name, 0, "Cache-Control: "+directives)
				v.Status, v.Verdict = status, "failed"
			case !storable[status]:
				c.refused(4, name, "status", "Cache-Control: "+directives).status(status, ends)
			case isPrivate:
				c.refused(4, name, "private", "Cache-Control: "+directives).status(status, ends)
			default:
				c.stored(4, name, 60, "Cache-Control: "+directives).status(status, ends)
			}
		}
	}
	for _, status := range []int{200, 203, 204, 300, 301, 302, 303, 307, 308, 404, 410} {
		c.refused(8, fmt.Sprintf("status %d that states nothing", status), "no-freshness").status(status, withdrawing[status])
		c.stored(8, fmt.Sprintf("status %d with max-age alone", status), 60, "Cache-Control: max-age=60").status(status, withdrawing[status])
	}
	for _, header := range []string{"Set-Cookie: a=1", "Cache-Control: a=\"", "Cache-Control: no-store", "Cache-Control: private", "Cache-Control: no-cache"} {
		v := c.stored(4, "status 503 with "+header, 0, header)
		v.Status, v.Verdict = 503, "failed"
		c.refused(12, "status 400 with "+header, "status", header).status(400, false)
		c.refused(12, "status 206 with "+header, "status", header).status(206, true)
	}
}

// refusals: rule 5.
func (c *cases) refusals() {
	for _, d := range []string{"private", "no-store", "no-cache"} {
		for _, text := range []string{d, strings.ToUpper(d), d + "=1", d + "=\"\"", d + "=\"set-cookie\"", d + "=\"x-a, x-b\"", d + " = \"a\"", d + "=?0", d + "="} {
			c.refused(5, "Cache-Control: "+strconv.Quote("s-maxage=60, "+text), d, "Cache-Control: s-maxage=60, "+text)
		}
		c.refused(5, d+" before a lifetime", d, "Cache-Control: "+d+", s-maxage=60")
		c.refused(5, d+" alone", d, "Cache-Control: "+d)
	}
	c.refused(5, "a cookie", "set-cookie", "Cache-Control: s-maxage=60", "Set-Cookie: a=b")
	c.refused(5, "two cookies", "set-cookie", "Cache-Control: s-maxage=60", "Set-Cookie: a=b", "Set-Cookie: c=d")
	c.refused(5, "an empty cookie", "set-cookie", "Cache-Control: s-maxage=60", "Set-Cookie:")
	c.refused(5, "a cookie of RFC 2965", "set-cookie", "Cache-Control: s-maxage=60", "Set-Cookie2: a=b")
	c.refused(5, "a cookie, although no-cache names it", "set-cookie", "Cache-Control: s-maxage=60, no-cache=\"set-cookie\"", "Set-Cookie: a=b")
	c.stored(5, "public beside nothing else", 60, "Cache-Control: public, s-maxage=60")
	c.refused(5, "public and private", "private", "Cache-Control: public, private, s-maxage=60")
	c.refused(5, "must-understand and private", "private", "Cache-Control: must-understand, private, s-maxage=60")
	c.refused(5, "must-understand and no-cache", "no-cache", "Cache-Control: must-understand, no-store, no-cache, s-maxage=60")
	c.stored(5, "must-understand after no-store", 60, "Cache-Control: no-store, s-maxage=60, must-understand")
	c.stored(5, "must-understand with an argument", 60, "Cache-Control: no-store, s-maxage=60, must-understand=1")
	c.stored(5, "must-understand for CDNs", 60, "CDN-Cache-Control: no-store, max-age=60, must-understand")
	c.refused(5, "must-understand of another field", "no-store", "CDN-Cache-Control: no-store, max-age=60", "Cache-Control: must-understand")
	c.stored(5, "Pragma: no-cache is of requests", 60, "Cache-Control: s-maxage=60", "Pragma: no-cache")
}

// selection: rule 6.
func (c *cases) selection() {
	for _, vary := range []string{"Accept-Encoding", "accept-encoding", "Host", "Accept-Encoding, Host", "", " , Accept-Encoding,", "HOST,\tACCEPT-ENCODING"} {
		c.stored(6, "Vary: "+strconv.Quote(vary), 60, "Cache-Control: s-maxage=60", "Vary: "+vary)
	}
	for _, vary := range []string{"*", "Accept-Encoding, *", "Accept-Language", "Cookie", "Accept-Encoding, User-Agent", "Accept Encoding", "\"Host\"", "Accept-Encodings", "Origin", "Authorization", "Accept-Encoding; Host"} {
		c.refused(6, "Vary: "+strconv.Quote(vary), "vary", "Cache-Control: s-maxage=60", "Vary: "+vary)
	}
	c.refused(6, "lines of Vary", "vary", "Cache-Control: s-maxage=60", "Vary: Accept-Encoding", "Vary: Accept")
	c.stored(6, "covered lines of Vary", 60, "Cache-Control: s-maxage=60", "Vary: Accept-Encoding", "Vary: host")
}

// contents: rule 7.
func (c *cases) contents() {
	const fresh = "Cache-Control: s-maxage=60"
	for _, coding := range []string{"identity", "Identity", "", "identity, identity", " ,identity"} {
		c.stored(7, "Content-Encoding: "+strconv.Quote(coding), 60, fresh, "Content-Encoding: "+coding)
	}
	for _, coding := range []string{"compress", "aes128gcm", "dcb", "gzip, compress", "gzip;q=1", "*", "none", "gzip, gzip, gzip, gzip"} {
		c.refused(7, "Content-Encoding: "+strconv.Quote(coding), "content-encoding", fresh, "Content-Encoding: "+coding)
	}
	for _, kind := range []string{"text/event-stream", "Text/Event-Stream", "text/event-stream; charset=utf-8", "multipart/x-mixed-replace;boundary=a", "MULTIPART/X-Mixed-Replace"} {
		c.refused(7, "Content-Type: "+kind, "stream", fresh, "Content-Type: "+kind)
	}
	for _, kind := range []string{"text/html", "text/html; a=text/event-stream", "multipart/mixed", "application/x-ndjson", ""} {
		c.stored(7, "Content-Type: "+strconv.Quote(kind), 60, fresh, "Content-Type: "+kind)
	}
	thousand := storableConfig{MaxBody: 1000}
	for _, length := range []string{"0", "1000", "01000", "abc", "-1001", "+1001", "1001.5", "", "1001 bytes", "1001, 1001"} {
		c.stored(7, "Content-Length: "+strconv.Quote(length), 60, fresh, "Content-Length: "+length).with(thousand)
	}
	for _, length := range []string{"1001", "0001001", "99999999999999999999", strings.Repeat("9", 400)} {
		c.refused(7, "Content-Length: "+brief(length), "too-large", fresh, "Content-Length: "+length).with(thousand)
	}
	c.stored(7, "several lines of Content-Length are invalid", 60, fresh, "Content-Length: 1001", "Content-Length: 1001").with(thousand)
	c.headerSizes()
}

// headerSizes: a line counts for its name, its value and 32 bytes.
func (c *cases) headerSizes() {
	const fresh = "Cache-Control: s-maxage=60" // 13 + 11 + 32 = 56 bytes
	limits := storableConfig{MaxHeader: 1024}
	c.stored(7, "the largest header", 60, fresh, "X-A: "+strings.Repeat("a", 1024-56-35)).with(limits)
	c.refused(7, "a byte more than the largest header", "header-too-large", fresh, "X-A: "+strings.Repeat("a", 1024-56-35+1)).with(limits)
	c.stored(7, "bytes count, not characters", 60, fresh, "X-A: "+strings.Repeat("é", (1024-56-35)/2)).with(limits)
	c.refused(7, "more bytes than the largest header", "header-too-large", fresh, "X-A: "+strings.Repeat("é", (1024-56-35)/2+1)).with(limits)
	c.refused(7, "fields that are not stored count", "header-too-large", fresh, "X-Request-Id: "+strings.Repeat("a", 1024)).with(limits)
	var many []string
	for i := range 31 { // 36 bytes each
		many = append(many, fmt.Sprintf("X-%02d:", i))
	}
	c.refused(7, "many short fields", "header-too-large", append(many, fresh)...).with(limits)
	c.stored(7, "fewer short fields", 60, append(many[:26], fresh)...).with(limits)
	const most = 64 << 10
	c.stored(7, "the largest header by default", 60, fresh).Headers["x-a"] = []line{{"a", most - 56 - 35}}
	c.refused(7, "a byte more than the largest header by default", "header-too-large", fresh).Headers["x-a"] = []line{{"a", most - 56 - 34}}
	c.stored(7, "a header of more than 16 KiB", 60, fresh).Headers["x-a"] = []line{{"a", 20000}}
}

// lifetimes: rule 8, which directive counts.
func (c *cases) lifetimes() {
	expires := []string{"Expires: " + at(60), "Date: " + at(0)}
	c.refused(8, "nothing said", "no-freshness")
	c.refused(8, "public alone", "no-freshness", "Cache-Control: public")
	c.refused(8, "Last-Modified alone: no heuristics", "no-freshness", "Last-Modified: "+at(-86400), "Date: "+at(0))
	c.refused(8, "ETag alone", "no-freshness", "ETag: \"a\"")
	c.stored(8, "max-age alone", 60, "Cache-Control: max-age=60")
	c.stored(8, "s-maxage alone", 60, "Cache-Control: s-maxage=60")
	c.stored(8, "s-maxage before max-age", 60, "Cache-Control: max-age=5, s-maxage=60")
	c.refused(8, "s-maxage of zero before max-age", "no-freshness", "Cache-Control: max-age=60, s-maxage=0")
	c.refused(8, "an invalid s-maxage before max-age", "no-freshness", "Cache-Control: max-age=60, s-maxage=abc")
	c.stored(8, "max-age before Expires", 5, append(expires, "Cache-Control: max-age=5")...)
	c.refused(8, "max-age of zero before Expires", "no-freshness", append(expires, "Cache-Control: max-age=0")...)
	c.stored(8, "Expires alone", 60, expires...)
	c.stored(8, "Expires beside public", 60, append(expires, "Cache-Control: public")...)
	strict := storableConfig{OptIn: "strict"}
	c.refused(8, "strict: max-age alone", "no-freshness", "Cache-Control: max-age=60").with(strict)
	c.stored(8, "strict: max-age beside public", 60, "Cache-Control: max-age=60, public").with(strict)
	c.stored(8, "strict: s-maxage", 60, "Cache-Control: s-maxage=60").with(strict)
	c.refused(8, "strict: Expires alone", "no-freshness", expires...).with(strict)
	c.refused(8, "strict: Expires beside public", "no-freshness", append(expires, "Cache-Control: public")...).with(strict)
	c.refused(8, "strict: Expires beside max-age alone", "no-freshness", append(expires, "Cache-Control: max-age=60")...).with(strict)
	c.stored(8, "strict: max-age for CDNs", 60, "CDN-Cache-Control: max-age=60").with(strict)
	c.stored(8, "strict: max-age for surrogates", 60, "Surrogate-Control: max-age=60").with(strict)
	c.refused(8, "strict: max-age that is too old does not count", "no-freshness", "Cache-Control: max-age=60", "Age: 60").with(strict).Age = 60
}

// dates: rule 8, Expires and Date.
func (c *cases) dates() {
	const epoch = "Fri, 27 Nov 2026 12:00:00 GMT"
	date := "Date: " + epoch
	requested := time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC).UnixMilli()
	for _, expires := range []string{
		"Fri, 27 Nov 2026 12:01:00 GMT", "Friday, 27-Nov-26 12:01:00 GMT", "Fri Nov 27 12:01:00 2026", "FRI, 27 NOV 2026 12:01:00 GMT", "fri, 27 nov 2026 12:01:00 gmt", "friday, 27-nov-26 12:01:00 gmt",
	} {
		c.stored(8, "Expires: "+expires, 60, date, "Expires: "+expires)
		c.stored(8, "Expires: "+expires+", without Date", 60, "Expires: "+expires).Requested = requested
	}
	for _, expires := range []string{
		"0", "-1", "", "2037", "2037-01-01", "2037-01-01T00:00:00Z", "1900000000", "never", "Thu, 01 Jan 2037", "Fri, 27 Nov 2026 12:01:00", "Fri, 27 Nov 2026 12:01:00 UTC", "Fri, 27 Nov 2026 12:01:00 +0000", "Fri, 27 Nov 2026 12:01 GMT",
		"Sat, 27 Nov 2026 12:01:00 GMT", "Fri, 27 Nov 26 12:01:00 GMT", "Fri, 27-Nov-2026 12:01:00 GMT", "Fri 27 Nov 2026 12:01:00 GMT", "27 Nov 2026 12:01:00 GMT", "Wed, 2 Dec 2026 12:01:00 GMT", "Sun, 31 Nov 2026 12:01:00 GMT",
		"Fri, 27 Nov 2026 24:01:00 GMT", "Fri, 27 Nov 2026 12:60:00 GMT", "Fri, 27 Nov 2026 12:01:60 GMT", "Fri, 27 Nov 2026 12:01:00.5 GMT", "Fri, 27 Nov 2026  12:01:00 GMT", "Fri, 27 November 2026 12:01:00 GMT", "Wed Dec 2 12:01:00 2026", "Wed Dec 02 12:01:00 2026",
		epoch, "Fri, 27 Nov 2026 11:59:00 GMT", "Sunday, 27-Nov-94 12:01:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT", "\"Fri, 27 Nov 2026 12:01:00 GMT\"", "Fri, 27 Nov 2026 12:01:00 GMT, Fri, 27 Nov 2026 12:01:00 GMT",
	} {
		c.refused(8, "Expires: "+strconv.Quote(expires), "no-freshness", date, "Expires: "+expires)
	}
	c.refused(8, "two Expires", "no-freshness", date, "Expires: "+at(60), "Expires: "+at(60))
	c.refused(8, "Expires and two dates", "no-freshness", date, date, "Expires: "+at(60))
	for _, text := range []string{"rubbish", "0", "", "2026-11-27T12:00:00Z", "Sat, 27 Nov 2026 12:00:00 GMT", "1795780800"} {
		c.refused(8, "Expires and Date: "+strconv.Quote(text), "no-freshness", "Date: "+text, "Expires: Fri, 27 Nov 2026 12:01:00 GMT").Requested = requested
		c.stored(9, "max-age and Date: "+strconv.Quote(text), 60, "Date: "+text, "Cache-Control: max-age=60").Requested = requested
	}
	c.refused(8, "Expires without Date, when the time of the request is unknown", "no-freshness", "Expires: Fri, 27 Nov 2026 12:01:00 GMT")
	c.stored(8, "Expires in 2037", tenYears, date, "Expires: Thu, 01 Jan 2037 00:00:00 GMT")
	c.stored(8, "Expires in 2037, a day after Date", 86400, "Date: Wed, 31 Dec 2036 00:00:00 GMT", "Expires: Thu, 01 Jan 2037 00:00:00 GMT")
	c.refused(8, "Expires in the year 1", "no-freshness", date, "Expires: Mon, 01 Jan 0001 00:00:00 GMT")
	c.refused(8, "Expires in the year 1, and Age", "no-freshness", date, "Expires: Mon, 01 Jan 0001 00:00:00 GMT", "Age: 10").Age = 10
	v := c.refused(9, "Date in the year 1", "too-old", "Date: Mon, 01 Jan 0001 00:00:00 GMT", "Expires: "+at(0))
	v.Requested, v.Age = requested, tenYears
	c.stored(8, "Expires in 9999", tenYears, date, "Expires: Fri, 31 Dec 9999 23:59:59 GMT")
	c.stored(8, "a year of two digits in the next century", tenYears, date, "Expires: Thursday, 01-Jan-37 00:00:00 GMT")
	c.stored(8, "a leap day", 86400, "Date: Mon, 28 Feb 2028 00:00:00 GMT", "Expires: Tue, 29 Feb 2028 00:00:00 GMT")
	c.refused(8, "a leap day that does not exist", "no-freshness", "Date: Sun, 28 Feb 2027 00:00:00 GMT", "Expires: Mon, 29 Feb 2027 00:00:00 GMT")
	c.stored(8, "the date of asctime with one digit", 120, "Date: Wed Dec  2 12:00:00 2026", "Expires: Wed Dec  2 12:02:00 2026")
}

// missingFiles: rule 8, errors with the lifetime of a file.
func (c *cases) missingFiles() {
	for _, status := range []int{404, 410} {
		add := func(name string, fresh int64, lines ...string) {
			c.stored(8, fmt.Sprintf("status %d, %s", status, name), fresh, lines...).status(status, true)
		}
		add("immutable", 10, "Cache-Control: public, max-age=60, immutable")
		add("immutable for a moment", 5, "Cache-Control: max-age=5, immutable")
		add("a year", 10, "Cache-Control: max-age=31536000")
		add("a day", 86400, "Cache-Control: max-age=86400")
		add("more than a day", 10, "Cache-Control: max-age=86401")
		add("s-maxage", 31536000, "Cache-Control: s-maxage=31536000, immutable")
		add("for CDNs", 31536000, "CDN-Cache-Control: max-age=31536000, immutable", "Cache-Control: immutable")
		add("for surrogates", 31536000, "Surrogate-Control: max-age=31536000", "Cache-Control: immutable")
		add("Expires after a year", 10, "Date: "+at(0), "Expires: "+at(31536000))
		add("Expires after an hour", 3600, "Date: "+at(0), "Expires: "+at(3600))
		add("immutable and Expires", 10, "Cache-Control: immutable", "Date: "+at(0), "Expires: "+at(3600))
		c.refused(9, fmt.Sprintf("status %d, a file that is too old", status), "too-old", "Cache-Control: max-age=31536000", "Age: 10").status(status, true).Age = 10
	}
	c.stored(8, "a page that is immutable", 31536000, "Cache-Control: max-age=31536000, immutable")
	c.stored(8, "a redirect that is immutable", 31536000, "Cache-Control: max-age=31536000, immutable").status(301, true)
}

// ages: rule 9.
func (c *cases) ages() {
	const fresh = "Cache-Control: s-maxage=60"
	old := func(name string, age int64, lines ...string) *response {
		var v *response
		if age < 60 {
			v = c.stored(9, name, 60-age, append(lines, fresh)...)
		} else {
			v = c.refused(9, name, "too-old", append(lines, fresh)...)
		}
		v.Age = age
		return v
	}
	for text, age := range ordered(
		"0", 0, "10", 10, "010", 10, "000000000000000000010", 10, "59", 59, "60", 60, "70", 70, "10, 20", 10, "10,20", 10, "10 , abc", 10, "70, 10", 70, "abc", 0, "abc, 10", 0, "", 0, "-10", 0, "+10", 0, "10.5", 0, "10s", 0, "\"10\"", 0, ", 10", 0,
		"2147483648", 1<<31, "4294967296", 1<<31, "99999999999999999999", 1<<31, strings.Repeat("9", 400), 1<<31,
	) {
		old("Age: "+brief(strconv.Quote(text)), age, "Age: "+text)
	}
	old("two ages", 10, "Age: 10", "Age: 20")
	old("two ages, the first invalid", 0, "Age: abc", "Age: 20")
	old("an age of zero and another", 0, "Age: 0", "Age: 70")
	old("white space around the age", 10, "Age: \t10 ")
	for _, seconds := range []int64{-3600, 0, 60, 120, 121, 86400} {
		age := seconds
		if age <= 120 {
			age = 0
		}
		old(fmt.Sprintf("a Date %d s before the request", seconds), age, "Date: "+at(0)).Requested = start().Add(time.Duration(seconds) * time.Second).UnixMilli()
	}
	old("a Date before the request, and a larger Age", 300, "Date: "+at(0), "Age: 300").Requested = start().Add(200 * time.Second).UnixMilli()
	old("a Date before the request, and a smaller Age", 200, "Date: "+at(0), "Age: 100").Requested = start().Add(200 * time.Second).UnixMilli()
	old("an invalid Date before the request", 0, "Date: "+at(0)+" ", "Date: "+at(0)).Requested = start().Add(time.Hour).UnixMilli()
	c.refused(9, "a lifetime of zero and an age", "no-freshness", "Cache-Control: s-maxage=0", "Age: 10").Age = 10
	c.refused(9, "no lifetime and an age", "no-freshness", "Age: 10").Age = 10
	v := c.stored(9, "the age counts from Expires", 50, "Date: "+at(0), "Expires: "+at(60), "Age: 10")
	v.Age = 10
	c.refused(9, "too old for Expires", "too-old", "Date: "+at(0), "Expires: "+at(60), "Age: 60").Age = 60
	c.refused(9, "too old for CDNs", "too-old", "CDN-Cache-Control: max-age=60", "Age: 60").Age = 60
	c.refused(9, "older than ten years", "too-old", "Cache-Control: s-maxage=99999999999", "Age: 315360000").Age = tenYears
}

// ordered yields pairs of a text and a number in their order.
func ordered(pairs ...any) func(yield func(string, int64) bool) {
	return func(yield func(string, int64) bool) {
		for i := 0; i < len(pairs); i += 2 {
			if !yield(pairs[i].(string), int64(pairs[i+1].(int))) {
				return
			}
		}
	}
}

func set(members ...int) map[int]bool {
	s := make(map[int]bool, len(members))
	for _, m := range members {
		s[m] = true
	}
	return s
}

// brief shortens a text for a name.
func brief(text string) string {
	if len(text) <= 60 {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:20], len(text))
}

func start() time.Time { return time.Date(2026, time.November, 27, 12, 0, 0, 0, time.UTC) }

// at returns the date some seconds after start.
func at(seconds int) string {
	return start().Add(time.Duration(seconds) * time.Second).Format("Mon, 02 Jan 2006 15:04:05 GMT")
}
