package httpcache

import (
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/dunglas/httpsfv"
)

// Directives maps the lower-case names of the directives of a Cache-Control field to their
// arguments.
type Directives map[string]string

// malformed is the key that marks a field with quotes that its grammar does not allow: they may
// hide directives. It is not a valid name of a directive.
const malformed = `"`

// ParseDirectives parses Cache-Control (RFC 9111, section 5.2). The first of repeated
// directives counts.
func ParseDirectives(lines []string) Directives {
	d := make(Directives)
	for _, line := range lines {
		if !wellQuoted(line) {
			d[malformed] = ""
		}
		for part := range Members(line) {
			name, value, _ := strings.Cut(part, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if _, again := d[name]; name == "" || name == malformed || again {
				continue
			}
			d[name] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return d
}

// Members yields the members of a comma-separated field line. It does not split quoted
// strings.
func Members(line string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start := 0
		for i := 0; i <= len(line); i++ {
			switch {
			case i == len(line) || line[i] == ',':
				if member := strings.TrimSpace(line[start:i]); member != "" && !yield(member) {
					return
				}
				start = i + 1
			case line[i] == '"':
				n, _ := quotedLength(line[i:])
				i += n - 1
			}
		}
	}
}

// quotedLength returns the length of the quoted string that text begins with (RFC 9110, section 5.6.4), with its
// quotes. If it is not closed, it is all of text.
func quotedLength(text string) (n int, closed bool) {
	for i := 1; i < len(text); i++ {
		switch text[i] {
		case '"':
			return i + 1, true
		case '\\':
			i++
		}
	}
	return len(text), false
}

// wellQuoted reports whether each quoted string of a field line is the whole argument of a
// directive (RFC 9111, section 5.2), and closed. A quote elsewhere, such as in a=b"c, no-store, d"e, is
// part of no quoted string: what follows it may be a directive for one reader and not for another.
func wellQuoted(line string) bool {
	argued := false // the directive has had a quoted string
	for i := 0; i < len(line); i++ {
		switch c := line[i]; {
		case c == ' ', c == '\t':
		case c == ',':
			argued = false
		case argued:
			return false
		case c == '"':
			n, closed := quotedLength(line[i:])
			if !closed || !strings.HasSuffix(strings.TrimRight(line[:i], " \t"), "=") {
				return false
			}
			argued, i = true, i+n-1
		}
	}
	return true
}

// balanced reports whether every quoted string of a field line is closed.
func balanced(line string) bool {
	for i := 0; i < len(line); i++ {
		if line[i] == '"' {
			n, closed := quotedLength(line[i:])
			if !closed {
				return false
			}
			i += n - 1
		}
	}
	return true
}

// Malformed reports whether the field has quotes where its grammar does not allow them.
func (d Directives) Malformed() bool { return d.Has(malformed) }

// Has reports whether the field has a directive. The name is in lower case.
func (d Directives) Has(name string) bool {
	_, ok := d[name]
	return ok
}

// forbidsStale reports whether a shared cache must not serve the response once it is stale (RFC
// 9111, sections 5.2.2.2 and 5.2.2.8).
func (d Directives) forbidsStale() bool { return d.Has("must-revalidate") || d.Has("proxy-revalidate") }

// maxDelta bounds every interval: longer ones count as ten years, far beyond the life of
// any stored page.
const maxDelta = 10 * 365 * 24 * time.Hour

// Seconds returns the interval that a directive states, at most ten years, and whether the
// field has the directive. An argument that is not a number counts as zero, which means
// stale (RFC 9111, section 4.2.1).
func (d Directives) Seconds(name string) (time.Duration, bool) {
	value, ok := d[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		// Too many digits are a very long time; anything else is invalid.
		if strings.Trim(value, "0123456789") == "" && value != "" {
			return maxDelta, true
		}
		return 0, true
	}
	return time.Duration(min(n, uint64(maxDelta/time.Second))) * time.Second, true
}

// ForSharedCache returns the directives for a shared cache, and whether they are of a targeted field:
// see [Governing].
func ForSharedCache(h http.Header) (d Directives, targeted bool) {
	d, field := Governing(h)
	return d, field != "Cache-Control"
}

// Governing returns the directives for a shared cache, and the field that has them. The others are then
// ignored (RFC 9213, section 2.2). The field is CDN-Cache-Control, unless it is empty or cannot be parsed;
// else Surrogate-Control, if it states how long this cache may keep the response, or that it must not; and
// else Cache-Control. A response with an invalid CDN-Cache-Control and none of the other two is malformed:
// the route's own window must not apply to a response that may have forbidden it.
func Governing(h http.Header) (d Directives, field string) {
	d, err := parseTargeted(h["Cdn-Cache-Control"])
	if len(d) > 0 {
		return d, "CDN-Cache-Control"
	}
	if d := parseSurrogate(h["Surrogate-Control"]); d.Has("max-age") || d.Has("no-store") || d.Malformed() {
		return d, "Surrogate-Control"
	}
	d = ParseDirectives(h["Cache-Control"])
	if err != nil && len(d) == 0 {
		d[malformed] = ""
	}
	return d, "Cache-Control"
}

// parseSurrogate parses Surrogate-Control (the W3C note "Edge Architecture Specification", section 2.2).
// Directives for another cache, which they name after a semicolon, are ignored. In max-age=N+M, M is how long
// the response may be served after its freshness, while it is rendered again or cannot be.
func parseSurrogate(lines []string) Directives {
	var own, all []string
	for _, line := range lines {
		for member := range Members(line) {
			end := strings.LastIndexByte(member, ';')
			switch {
			case end <= strings.LastIndexByte(member, '"'): // for all caches
				all = append(all, member)
			case strings.EqualFold(strings.TrimSpace(member[end+1:]), "isr"):
				own = append(own, member[:end])
			}
		}
	}
	d := ParseDirectives(append(own, all...)) // the first of repeated directives counts
	if !balanced(strings.Join(lines, ", ")) { // a semicolon may be part of a quoted string
		d[malformed] = ""
	}
	window, stale, extended := strings.Cut(d["max-age"], "+")
	if !extended {
		return d
	}
	d["max-age"] = strings.TrimSpace(window)
	for _, name := range []string{"stale-while-revalidate", "stale-if-error"} {
		if !d.Has(name) {
			d[name] = strings.TrimSpace(stale)
		}
	}
	return d
}

// parseTargeted parses a targeted field (RFC 9213, section 2.1), which is a dictionary of
// structured values (RFC 9651, section 3.2). Unlike in Cache-Control, the last of repeated
// directives counts, and one that is false is absent.
func parseTargeted(lines []string) (Directives, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	dictionary, err := httpsfv.UnmarshalDictionary(lines)
	if err != nil {
		return nil, err
	}
	d := make(Directives)
	for _, name := range dictionary.Names() {
		member, _ := dictionary.Get(name)
		item, _ := member.(httpsfv.Item)
		switch value := item.Value.(type) {
		case bool:
			if value {
				d[name] = ""
			}
		case int64:
			d[name] = strconv.FormatInt(value, 10)
		default: // of no directive that has an interval, where it is invalid
			d[name] = ""
		}
	}
	return d, nil
}

// HasMember reports whether a list field has a member, given in the canonical form of header
// names. Case does not matter.
func HasMember(lines []string, token string) bool {
	for _, line := range lines {
		for member := range Members(line) {
			if textproto.CanonicalMIMEHeaderKey(member) == token {
				return true
			}
		}
	}
	return false
}
