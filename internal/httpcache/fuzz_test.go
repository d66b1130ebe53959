package httpcache

import (
	"bytes"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"
)

// The grammar of a Cache-Control field (RFC 9111, section 5.2): a reference for those that are
// valid.
const (
	token  = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
	quoted = `"(?:[\t \x21\x23-\x5b\x5d-\x7e]|\\[\t \x21-\x7e])*"`
)

var (
	directive    = regexp.MustCompile(`^[ \t]*(?:(` + token + `)(?:=(` + token + `|` + quoted + `))?)?[ \t]*(?:,|$)`)
	cacheControl = regexp.MustCompile(`^(?:[ \t]*(?:` + token + `(?:=(?:` + token + `|` + quoted + `))?)?[ \t]*(?:,|$))*$`)
)

// directivesOf is ParseDirectives by the grammar. ok is false if the field is not valid, has a
// quoted string with an escape, which ParseDirectives keeps, or is too long to be matched quickly.
func directivesOf(line string) (d Directives, ok bool) {
	if len(line) > 1<<10 || !cacheControl.MatchString(line) || strings.Contains(line, `\`) {
		return nil, false
	}
	d = make(Directives)
	for line != "" {
		m := directive.FindStringSubmatch(line)
		line = line[len(m[0]):]
		if name := strings.ToLower(m[1]); name != "" && !d.Has(name) {
			d[name] = strings.Trim(m[2], `"`)
		}
	}
	return d, true
}

func FuzzCacheControl(f *testing.F) {
	f.Add(`max-age=60, private="set-cookie, x", No-Cache`, "s-maxage=1")
	f.Add(`max-age="60", max-age=5,,`, `ext="a\"b"`)
	f.Add(`private="`, "public")
	f.Add("max-age=99999999999999999999", "max-age=-1")
	f.Add(`s-maxage="  9 "`, "=,=")
	f.Add(`","=1`, "")
	f.Add(`"="`, "0")
	f.Add(`max-age=60, x=a"b, no-store, c"d`, `max-age=9, "no-store"`)
	f.Fuzz(func(t *testing.T, one, two string) {
		d := ParseDirectives([]string{one, two})
		for name, value := range d {
			if name != strings.ToLower(name) {
				t.Fatalf("the directive %q", name)
			}
			if age, ok := d.Seconds(name); !ok || age < 0 || age > maxDelta {
				t.Fatalf("%q is %s", value, age)
			}
		}
		if want, valid := directivesOf(one); valid {
			if got := ParseDirectives([]string{one}); !maps.Equal(got, want) {
				t.Fatalf("%q: %v, want %v", one, got, want)
			}
			// Lines are one list (RFC 9110, section 5.3).
			if joined := ParseDirectives([]string{one + "," + two}); !maps.Equal(joined, d) {
				t.Fatalf("%q and %q: %v in two lines, %v in one", one, two, d, joined)
			}
		}
		if (!balanced(one) || !balanced(two)) && !d.Malformed() {
			t.Fatalf("%q, %q: a quoted string is not closed", one, two)
		}
		// Quotes that the grammar does not allow hide no directive: without them it counts, or the
		// field is malformed.
		bare := ParseDirectives([]string{strings.ReplaceAll(one, `"`, "")})
		if _, valid := directivesOf(one); !valid && !strings.Contains(one, `\`) && bare.Has("no-store") && !d.Has("no-store") && !d.Malformed() && !strings.Contains(one, `="`) {
			t.Fatalf("%q hides a directive", one)
		}
	})
}

// FuzzTargetedControl: RFC 9213, section 2.1 and 2.2.
func FuzzTargetedControl(f *testing.F) {
	f.Add("max-age=60, no-store=?0", "private")
	f.Add("max-age=60, max-age=1;x=y", "max-age=5")
	f.Add(`max-age="60", a=(1 2), b=:YQ==:, c=1.5, d=@1`, "public")
	f.Add("max-age=60,", "")
	f.Add("Max-Age=60", "no-cache")
	f.Fuzz(func(t *testing.T, targeted, control string) {
		h := http.Header{"Cdn-Cache-Control": {targeted}, "Cache-Control": {control}}
		d, got := ForSharedCache(h)
		dictionary, err := httpsfv.UnmarshalDictionary([]string{targeted})
		if err != nil && got {
			t.Fatalf("%q is no dictionary, and counts: %v", targeted, d)
		}
		if !got {
			own := ParseDirectives([]string{control})
			if len(own) > 0 && !maps.Equal(d, own) {
				t.Fatalf("%q is ignored, and Cache-Control %q is %v", targeted, control, d)
			}
			return
		}
		other, _ := ForSharedCache(http.Header{"Cdn-Cache-Control": {targeted}, "Cache-Control": {"no-store"}})
		if !maps.Equal(d, other) {
			t.Fatalf("%q depends on Cache-Control", targeted)
		}
		for name := range d {
			if _, ok := dictionary.Get(name); !ok {
				t.Fatalf("%q has no %q", targeted, name)
			}
		}
		if n, ok := dictionary.Get("max-age"); ok {
			item, _ := n.(httpsfv.Item)
			seconds, isInt := item.Value.(int64)
			age, _ := d.Seconds("max-age")
			if want := time.Duration(min(max(seconds, 0), int64(maxDelta/time.Second))) * time.Second; isInt && age != want {
				t.Fatalf("%q: max-age is %s, want %s", targeted, age, want)
			}
		}
	})
}

// FuzzRange compares a response by IgnoreRange and net/http with the page: 200 is the whole of
// it, 206 are parts of it, none twice, and the response is hardly larger than the page.
func FuzzRange(f *testing.F) {
	for _, field := range []string{"bytes=0-9", "bytes=-5", "bytes=5-", "bytes=0-0,5-9", "bytes=0-9,5-12", "bytes=-0", "bytes=9-5", "lines=1-2", "bytes=99-", "bytes= 0-1 , ,3-4", "bytes=0-18446744073709551615"} {
		f.Add(field)
	}
	page := make([]byte, 200)
	for i := range page {
		page[i] = byte(i)
	}
	simple := regexp.MustCompile(`^bytes=([0-9]{1,3})-([0-9]{1,3})$`)
	f.Fuzz(func(t *testing.T, field string) {
		w := httptest.NewRecorder()
		if IgnoreRange(field, int64(len(page))) {
			_, _ = w.Write(page)
		} else {
			r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
			r.Header["Range"] = []string{field}
			w.Header().Set("Content-Type", "text/html")
			http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(page))
		}
		if w.Body.Len() > len(page)+maxRanges*256 {
			t.Fatalf("%q: %d bytes of a page of %d", field, w.Body.Len(), len(page))
		}
		switch w.Code {
		case http.StatusOK:
			if !bytes.Equal(w.Body.Bytes(), page) {
				t.Fatalf("%q: 200 without the whole page", field)
			}
		case http.StatusPartialContent:
			if !strings.HasPrefix(w.Header().Get("Content-Type"), "multipart/") && !bytes.Contains(page, w.Body.Bytes()) {
				t.Fatalf("%q: 206 with something else than a part", field)
			}
		case http.StatusRequestedRangeNotSatisfiable:
		default:
			t.Fatalf("%q: status %d", field, w.Code)
		}
		if m := simple.FindStringSubmatch(field); m != nil {
			first, _ := strconv.Atoi(m[1])
			last, _ := strconv.Atoi(m[2])
			if first <= last && first < len(page) && !bytes.Equal(w.Body.Bytes(), page[first:min(last+1, len(page))]) {
				t.Fatalf("%q: %v", field, w.Body.Bytes())
			}
		}
	})
}

func FuzzAcceptLanguage(f *testing.F) {
	for _, field := range []string{"de-AT, de;q=0.9, en;q=0.8", "*;q=0, en", "fr, *;q=0.1", "de;q=0, de-CH", "zh-Hant;q=1.000", ";;;,", "DE"} {
		f.Add(field)
	}
	tags := []string{"en", "de", "de-CH", "zh-Hant-TW"}
	f.Fuzz(func(t *testing.T, field string) {
		got := NegotiateLanguage([]string{field}, tags)
		if got < 0 || got >= len(tags) {
			t.Fatalf("%q: %d", field, got)
		}
		if lower := NegotiateLanguage([]string{strings.ToLower(field)}, tags); lower != got && isASCII(field) {
			t.Fatalf("%q: %d, and %d in lower case", field, got, lower)
		}
		if spaced := NegotiateLanguage([]string{" " + strings.ReplaceAll(field, ",", " ,\t")}, tags); spaced != got {
			t.Fatalf("%q: %d, and %d with white space", field, got, spaced)
		}
		if lines := NegotiateLanguage(strings.Split(field, ","), tags); lines != got {
			t.Fatalf("%q: %d, and %d in several lines", field, got, lines)
		}
		if other := NegotiateLanguage([]string{field, "tlh"}, tags); other != got {
			t.Fatalf("%q: %d, and %d with another language", field, got, other)
		}
		if strings.Count(field, ",") < maxLanguageRanges-2 && !strings.ContainsAny(strings.ToLower(field), "z*") {
			// The only range that the last tag matches, with the full weight: only an equal
			// one before it is preferred.
			if got := NegotiateLanguage([]string{"zh-Hant-TW", field}, tags); got != 3 {
				t.Fatalf("zh-Hant-TW, %q: %d", field, got)
			}
		}
	})
}

func isASCII(s string) bool { return strings.IndexFunc(s, func(r rune) bool { return r >= 0x80 }) < 0 }

var (
	entityTag  = regexp.MustCompile(`^(?:W/)?"[\x21\x23-\x7e\x80-\xff]*"$`)
	entityTags = regexp.MustCompile(`^[ \t]*(?:(?:W/)?"[\x21\x23-\x5b\x5d-\x7e]*"[ \t]*(?:,[ \t]*|$))*$`)
	oneTag     = regexp.MustCompile(`"[^"]*"`)
)

// FuzzEntityTags: RFC 9110, sections 8.8.3, 8.8.3.2 and 13.1.2.
func FuzzEntityTags(f *testing.F) {
	f.Add(`"v1"`, `"v1"`)
	f.Add(`W/"v1"`, `"x", W/"v1", "a,b"`)
	f.Add(`"a\"`, `"a\", "b"`)
	f.Add(`"v1"`, "*")
	f.Add(`"v1`, `"v1`)
	f.Add("\"\xff\"", "\"\xff\"")
	f.Fuzz(func(t *testing.T, etag, field string) {
		valid := ValidETag(etag)
		if want := entityTag.MatchString(asLatin1(etag)) && len(strings.TrimPrefix(etag, "W/")) <= 1024; valid != want {
			t.Fatalf("%q is valid: %v, want %v", etag, valid, want)
		}
		if !valid {
			return
		}
		coded := CodedETag(etag, "br")
		weak := strings.HasPrefix(etag, "W/")
		if (coded == etag) != weak || len(etag) < 1000 && !ValidETag(coded) {
			t.Fatalf("%q in br is %q", etag, coded)
		}
		got := NotModified(http.Header{"If-None-Match": {field}}, etag, time.Time{})
		if strings.TrimSpace(field) == "*" && !got {
			t.Fatal("* does not match")
		}
		if !entityTags.MatchString(field) {
			return
		}
		want := false
		for _, tag := range oneTag.FindAllString(field, -1) {
			want = want || tag == strings.TrimPrefix(etag, "W/")
		}
		if got != want {
			t.Fatalf("If-None-Match %q of %q: %v, want %v", field, etag, got, want)
		}
	})
}

// asLatin1 returns a text of the bytes of s, as regular expressions match characters.
func asLatin1(s string) string {
	runes := make([]rune, len(s))
	for i := range len(s) {
		runes[i] = rune(s[i])
	}
	return string(runes)
}

// FuzzDate: RFC 9110, section 5.6.7. What is accepted, net/http accepts as the same instant.
func FuzzDate(f *testing.F) {
	for _, s := range []string{"Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994", "Sun, 06 Nov 1994 08:49:60 GMT", "sun, 06 nov 1994 08:49:37 gmt", "0", "Sat, 29 Feb 2025 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, ok := ParseDate(s)
		upper := s // net/http wants GMT in upper case; RFC 9111, section 4.2, any case
		if n := len(s) - len("GMT"); n > 0 && strings.EqualFold(s[n:], "GMT") {
			upper = s[:n] + "GMT"
		}
		want, err := http.ParseTime(upper)
		if ok && (err != nil || !got.Equal(want)) {
			t.Fatalf("%q is %s, net/http says %s, %v", s, got, want, err)
		}
		if !ok && err == nil && want.UTC().Format(http.TimeFormat) == s {
			t.Fatalf("%q is refused", s)
		}
		window := untilExpires(http.Header{"Expires": {s}, "Date": {"Sun, 06 Nov 1994 08:49:37 GMT"}}, time.Time{})
		if window > maxDelta || !ok && window != 0 {
			t.Fatalf("Expires %q gives %s", s, window)
		}
	})
}

// FuzzAge: RFC 9111, sections 1.2.2 and 5.1.
func FuzzAge(f *testing.F) {
	for _, s := range []string{"7200", "7200, 0", " 5 ", "-1", "1.5", "99999999999999999999", "+1", "", "0x10", "18700000000000000000A", "1\u2000"} {
		f.Add(s)
	}
	digits := regexp.MustCompile(`^[ \t]*([0-9]+)[ \t]*$`)
	f.Fuzz(func(t *testing.T, s string) {
		got := ageOf(http.Header{"Age": {s}})
		want := time.Duration(0)
		first, _, _ := strings.Cut(s, ",")
		if m := digits.FindStringSubmatch(first); m != nil {
			n, err := strconv.ParseUint(m[1], 10, 64)
			if err != nil {
				n = 1 << 31
			}
			want = time.Duration(min(n, 1<<31)) * time.Second
		}
		if got != want {
			t.Fatalf("Age %q is %s, want %s", s, got, want)
		}
	})
}

// FuzzJudge: whatever an origin answers, a verdict is within its bounds, and what must not be
// shared is not.
func FuzzJudge(f *testing.F) {
	f.Add(200, "public, max-age=60", "Vary: Accept\nSet-Cookie: a=b")
	f.Add(404, "s-maxage=1, stale-while-revalidate=99", "CDN-Cache-Control: max-age=5")
	f.Add(301, "", "Expires: 0\nAge: 9")
	f.Fuzz(func(t *testing.T, status int, control, fields string) {
		h := http.Header{"Cache-Control": {control}}
		for line := range strings.SplitSeq(fields, "\n") {
			name, value, _ := strings.Cut(line, ": ")
			h.Add(name, value)
		}
		v := Rules{Revalidate: time.Minute, Stale: time.Hour}.Judge(status, h)
		if v.Refused != "" || v.Failed {
			return
		}
		if v.Revalidate <= 0 || v.Revalidate > maxDelta || v.Stale < 0 || v.Stale > maxDelta {
			t.Fatalf("%d %v: fresh for %s, stale for %s", status, h, v.Revalidate, v.Stale)
		}
		d := ParseDirectives(h["Cache-Control"])
		_, targeted := ForSharedCache(h)
		if SetsCookie(h) || !targeted && (d.Has("private") || d.Has("no-store") || d.Malformed()) {
			t.Fatalf("%d %v is shared", status, h)
		}
	})
}

// FuzzUpstreamStatus: what is kept of the Cache-Status of other caches is a list, also with ours.
func FuzzUpstreamStatus(f *testing.F) {
	f.Add("cdn; hit; ttl=5", `"a, b"; fwd=miss`)
	f.Add("cdn; hit,", "")
	f.Add("(a b);q=1, ?1", "x;detail=:YQ==:")
	f.Fuzz(func(t *testing.T, one, two string) {
		got := UpstreamStatus([]string{one, two})
		if got == "" {
			return
		}
		members, err := httpsfv.UnmarshalList([]string{one, two})
		if err != nil || len(got) > maxUpstreamStatus {
			t.Fatalf("%q, %q: %d bytes, %v", one, two, len(got), err)
		}
		all, err := httpsfv.UnmarshalList([]string{Status{Hit: true}.After(got)})
		if err != nil || len(all) != len(members)+1 {
			t.Fatalf("%q, %q with ours has %d members, want %d, %v", one, two, len(all), len(members)+1, err)
		}
	})
}

// FuzzMembers: the members of a list are trimmed and not empty, and joined they have the same
// members.
func FuzzMembers(f *testing.F) {
	f.Add(`a, "b,c" ,, d="\",", e`)
	f.Add(`"`)
	f.Fuzz(func(t *testing.T, line string) {
		var members []string
		for member := range Members(line) {
			if member == "" || strings.TrimSpace(member) != member {
				t.Fatalf("%q has the member %q", line, member)
			}
			members = append(members, member)
		}
		if !balanced(line) {
			return
		}
		i := 0
		for member := range Members(strings.Join(members, ",")) {
			if i >= len(members) || member != members[i] {
				t.Fatalf("%q has the members %q, and joined, another: %q", line, members, member)
			}
			i++
		}
		if i != len(members) {
			t.Fatalf("%q has %d members, and joined, %d", line, len(members), i)
		}
	})
}
