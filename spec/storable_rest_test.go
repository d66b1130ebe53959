package spec_test

import (
	"fmt"
	"strings"
)

// staleWindows: rule 10.
func (c *cases) staleWindows() {
	bounds := []storableConfig{{}, {Stale: 100}, {StaleIfError: 200}, {Stale: 100, StaleIfError: 200}}
	for _, lifetime := range []string{"max-age=60", "s-maxage=60"} {
		for _, argument := range []struct {
			text     string // of both directives
			absent   bool
			open     bool // without an argument
			seconds  int64
			forbids  bool
			targeted bool // CDN-Cache-Control can have it
		}{
			{text: "", absent: true, targeted: true},
			{text: "stale-while-revalidate, stale-if-error", open: true, targeted: true},
			{text: "stale-while-revalidate=, stale-if-error=", open: true},
			{text: "stale-while-revalidate=\"\", stale-if-error=\"\"", open: true},
			{text: "stale-while-revalidate=30, stale-if-error=30", seconds: 30, targeted: true},
			{text: "Stale-While-Revalidate=\"30\", STALE-IF-ERROR=\"30\"", seconds: 30},
			{text: "stale-while-revalidate=300, stale-if-error=300", seconds: 300, targeted: true},
			{text: "stale-while-revalidate=0, stale-if-error=0", targeted: true},
			{text: "stale-while-revalidate=-30, stale-if-error=-30", targeted: true},
			{text: "stale-while-revalidate=abc, stale-if-error=abc"},
			{text: "stale-while-revalidate=30.5, stale-if-error=30.5"},
			{text: "stale-while-revalidate=99999999999999999999, stale-if-error=99999999999999999999", seconds: tenYears},
			{text: "stale-while-revalidate=30, stale-while-revalidate=40, stale-if-error=30, stale-if-error=40", seconds: 30},
			{text: "stale-while-revalidate=30, stale-if-error=30, must-revalidate", forbids: true, targeted: true},
			{text: "stale-while-revalidate=30, stale-if-error=30, Proxy-Revalidate", forbids: true},
			{text: "must-revalidate", absent: true, forbids: true, targeted: true},
		} {
			for _, config := range bounds {
				// window returns what one of the directives grants.
				window := func(longest int64, allowed bool) int64 {
					switch {
					case argument.forbids, lifetime == "s-maxage=60" && !allowed:
						return 0
					case argument.absent, argument.open:
						return longest
					case longest > 0:
						return min(argument.seconds, longest)
					}
					return argument.seconds
				}
				stale, onError := window(config.Stale, config.Stale > 0), window(config.StaleIfError, config.Stale > 0 || config.StaleIfError > 0)
				text := strings.TrimSuffix(lifetime+", "+argument.text, ", ")
				name := fmt.Sprintf("%s within %d and %d", text, config.Stale, config.StaleIfError)
				c.stored(10, name, 60, "Cache-Control: "+text).with(config).windows(stale, onError)
				if argument.targeted {
					c.stored(10, name+", for CDNs", 60, "CDN-Cache-Control: "+text).with(config).windows(stale, onError)
				}
			}
		}
	}
	c.stored(10, "stale directives of another field", 60, "CDN-Cache-Control: max-age=60", "Cache-Control: stale-while-revalidate=30, stale-if-error=30")
	c.stored(10, "s-maxage of another field", 60, "CDN-Cache-Control: max-age=60, stale-while-revalidate=30", "Cache-Control: s-maxage=5").windows(30, 0)
}

// tags: rule 11.
func (c *cases) tags() {
	const fresh = "Cache-Control: s-maxage=60"
	tagged := func(name string, tags []string, lines ...string) *response {
		v := c.stored(11, name, 60, append(lines, fresh)...)
		v.Tags = tags
		return v
	}
	for _, name := range []string{"Cache-Tag", "X-Next-Cache-Tags"} {
		tagged(name, []string{"a", "b"}, name+": b,a")
		tagged(name+" with white space", []string{"a b", "c"}, name+":  c ,\ta b ,, ")
		tagged(name+" with duplicates", []string{"a"}, name+": a,a, a")
		tagged(name+" in two lines", []string{"a", "b"}, name+": b", name+": a")
		tagged(name+" that is empty", nil, name+": ")
		tagged(name+" with quotes", []string{"\"a", "b\""}, name+": \"a,b\"")
		tagged(name+" with case", []string{"A", "a"}, name+": a,A")
		tagged(name+" with letters of other languages", []string{"z", "é", "ű", "日本", "🎉"}, name+": 🎉,日本,ű,é,z")
		tagged(name+" with semicolons and slashes", []string{"/a/b", "c;d=e"}, name+": c;d=e,/a/b")
		tagged(name+" with spaces of Unicode around", []string{"a"}, name+": \u00a0a\u2003,\u3000")
		c.refused(11, name+" that is no UTF-8", "tags", fresh, name+": a,\xe9")
		c.refused(11, name+" with a control character", "tags", fresh, name+": a,b\x01c")
		c.refused(11, name+" with DEL", "tags", fresh, name+": a\x7f")
		tagged(name+" with the longest tag", []string{strings.Repeat("t", 1024)}, name+": "+strings.Repeat("t", 1024))
		c.refused(11, name+" with a tag that is too long", "tags", fresh, name+": "+strings.Repeat("t", 1025))
		c.refused(11, name+" with a tag of too many bytes", "tags", fresh, name+": "+strings.Repeat("é", 513))
	}
	tagged("Surrogate-Key", []string{"a", "b"}, "Surrogate-Key: b a")
	tagged("Surrogate-Key with commas", []string{",d", "a", "b,c"}, "Surrogate-Key: a, b,c ,,, ,d,,")
	tagged("Surrogate-Key with white space", []string{"a", "b"}, "Surrogate-Key:  b \t a  ")
	tagged("lines of Surrogate-Key", []string{"a", "b"}, "Surrogate-Key: b", "Surrogate-Key: a")
	tagged("Surrogate-Key with spaces of Unicode", []string{"a", "b"}, "Surrogate-Key: a\u00a0b")
	tagged("Surrogate-Key with letters that have the bytes of spaces", []string{"Åb", "à"}, "Surrogate-Key: à Åb")
	c.refused(11, "Surrogate-Key that is no UTF-8", "tags", fresh, "Surrogate-Key: a \xff")
	tagged("Cache-Groups", []string{"a", "b, c"}, "Cache-Groups: \"b, c\", \"a\"")
	tagged("Cache-Groups with escapes", []string{"a\"b\\c"}, "Cache-Groups: \"a\\\"b\\\\c\"")
	tagged("Cache-Groups with parameters", []string{"a"}, "Cache-Groups: \"a\";b=\"c, d\";e")
	tagged("Cache-Groups in two lines", []string{"a", "b"}, "Cache-Groups: \"b\"", "Cache-Groups: \"a\"")
	tagged("Cache-Groups with a tag that has white space around", []string{" a "}, "Cache-Groups: \" a \"")
	tagged("Cache-Groups that is empty", nil, "Cache-Groups: ")
	for _, text := range []string{"a", "a, \"b\"", "\"a", "\"a\",", ",\"a\"", "\"a\" \"b\"", "1", "(\"a\")", "\"é\"", "\"\"", "\"\\a\"", "?1", ":YQ==:", "%\"a\"", "'a'"} {
		c.refused(11, "Cache-Groups: "+text, "tags", fresh, "Cache-Groups: "+text)
	}
	tagged("tags of all fields", []string{"a", "b", "c", "d"}, "Cache-Groups: \"d\"", "Cache-Tag: c", "X-Next-Cache-Tags: b", "Surrogate-Key: a b")
	tagged("two Surrogate-Key and two Cache-Tag", []string{"a", "b", "c"}, "Surrogate-Key: c", "Cache-Tag: b", "Cache-Tag: a")
	c.manyTags(tagged)
	c.refused(11, "other fields have no tags", "no-freshness", "Edge-Cache-Tag: a", "Xkey: b", "X-Cache-Tags: c")
}

// manyTags: the bounds of rule 11.
func (c *cases) manyTags(tagged func(name string, tags []string, lines ...string) *response) {
	const fresh = "Cache-Control: s-maxage=60"
	many := func(n int) []string {
		var tags []string
		for i := range n {
			tags = append(tags, fmt.Sprintf("t%03d", i))
		}
		return tags
	}
	for _, field := range []struct{ name, before, between, after string }{{"Cache-Tag", "", ",", ""}, {"Surrogate-Key", "", " ", ""}, {"X-Next-Cache-Tags", "", ",", ""}, {"Cache-Groups", "\"", "\", \"", "\""}} {
		of := func(n int) string {
			return field.name + ": " + field.before + strings.Join(many(n), field.between) + field.after
		}
		tagged("300 tags in "+field.name, many(300), of(300))
		tagged("512 tags in "+field.name, many(512), of(512))
		c.refused(11, "513 tags in "+field.name, "tags", fresh, of(513))
		tagged("3 of at most 3 tags in "+field.name, many(3), of(3)).with(storableConfig{MaxTags: 3})
		c.refused(11, "4 of at most 3 tags in "+field.name, "tags", fresh, of(4)).with(storableConfig{MaxTags: 3})
	}
	tagged("duplicates do not count", []string{"a", "b", "c"}, "Cache-Tag: a,b,c,a,b,c").with(storableConfig{MaxTags: 3})
	c.refused(11, "too many tags in two fields", "tags", fresh, "Cache-Tag: a,b", "Surrogate-Key: c d").with(storableConfig{MaxTags: 3})
	long := func(n int) string { return strings.Repeat("t", n-1) }
	tagged("tags of as many bytes as the largest header", []string{"a" + long(200), "b" + long(200), "c" + long(200)}, "Cache-Tag: a"+long(200)+",b"+long(200)+",c"+long(200)).with(storableConfig{MaxHeader: 1024})
	c.refused(11, "a header that is too large with too many tags", "tags", fresh, "X-A: "+strings.Repeat("a", 1024), "Cache-Tag: a,b").with(storableConfig{MaxHeader: 1024, MaxTags: 1})
	c.refused(11, "a header that is too large with invalid tags", "tags", fresh, "X-A: "+strings.Repeat("a", 1024), "Cache-Groups: a").with(storableConfig{MaxHeader: 1024})
	c.refused(11, "a body that is too large with too many tags", "tags", fresh, "Content-Length: 1001", "Cache-Tag: a,b").with(storableConfig{MaxBody: 1000, MaxTags: 1})
	c.refused(11, "a body that is too large with few tags", "too-large", fresh, "Content-Length: 1001", "Cache-Tag: a,b").with(storableConfig{MaxBody: 1000})
	c.refused(11, "a redirect with invalid tags", "tags", fresh, "Cache-Groups: a", "Location: /b").status(301, true)
}

// precedence: the order of the verdict.
func (c *cases) precedence() {
	all := []struct{ reason, line string }{
		{"set-cookie", "Set-Cookie: a=1"},
		{"malformed", "Cache-Control: a=\""},
		{"private", "Cache-Control: private"},
		{"no-store", "Cache-Control: no-store"},
		{"no-cache", "Cache-Control: no-cache"},
		{"vary", "Vary: *"},
		{"content-encoding", "Content-Encoding: compress"},
		{"stream", "Content-Type: text/event-stream"},
		{"too-large", "Content-Length: 99999999999"},
		{"header-too-large", "X-A: " + strings.Repeat("a", 1024)},
		{"too-old", "Age: 60"},
	}
	for i, first := range all {
		for _, second := range all[i+1:] {
			v := c.refused(4, first.reason+" before "+second.reason, first.reason, first.line, second.line).with(storableConfig{MaxBody: 1000, MaxHeader: 1024})
			if cc := v.Headers["cache-control"]; len(cc) == 0 {
				v.Headers["cache-control"] = []line{{"s-maxage=60", 1}}
			}
			for _, reason := range []string{first.reason, second.reason} {
				switch reason {
				case "set-cookie", "malformed", "private", "no-store", "no-cache":
					v.Withdraws = true
				case "too-old":
					v.Age = 60
				}
			}
		}
	}
	c.refused(4, "no-freshness before tags", "no-freshness", "Cache-Groups: a")
	c.refused(4, "too-old before tags", "too-old", "Cache-Control: s-maxage=60", "Age: 60", "Cache-Groups: a").Age = 60
	c.refused(4, "vary before tags", "vary", "Cache-Control: s-maxage=60", "Vary: *", "Cache-Groups: a")
}
