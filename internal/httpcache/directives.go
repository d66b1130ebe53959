package httpcache

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Directives are those of a Cache-Control field, lower-case name to argument.
type Directives map[string]string

// malformed stands among the directives of a field whose quotes are not balanced: it
// cannot be told what they hide. No directive has that name.
const malformed = `"`

// ParseDirectives reads Cache-Control (RFC 9111, section 5.2) or a targeted
// field such as CDN-Cache-Control (RFC 9213), which is written alike. Of a
// directive given twice, the first counts.
func ParseDirectives(lines []string) Directives {
	d := make(Directives)
	for _, line := range lines {
		if !balanced(line) {
			d[malformed] = ""
		}
		for part := range Members(line) {
			name, value, _ := strings.Cut(part, "=")
			name = strings.ToLower(strings.TrimSpace(name))
			if _, again := d[name]; name == "" || again {
				continue
			}
			d[name] = strings.Trim(strings.TrimSpace(value), `"`)
		}
	}
	return d
}

// Members yields the members of a comma-separated field; a comma in quotes
// separates nothing.
func Members(line string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, quoted := 0, false
		for i := 0; i <= len(line); i++ {
			switch {
			case i == len(line) || line[i] == ',' && !quoted:
				if member := strings.TrimSpace(line[start:i]); member != "" && !yield(member) {
					return
				}
				start = i + 1
			case line[i] == '"':
				quoted = !quoted
			case line[i] == '\\' && quoted:
				i++
			}
		}
	}
}

// balanced says that each quoted string of a field is closed.
func balanced(line string) bool {
	quoted := false
	for i := 0; i < len(line); i++ {
		switch {
		case line[i] == '"':
			quoted = !quoted
		case line[i] == '\\' && quoted:
			i++
		}
	}
	return !quoted
}

// Malformed reports whether a quoted string of the field is not closed.
func (d Directives) Malformed() bool { return d.Has(malformed) }

// Has reports whether the field has a directive. The name is in lower case.
func (d Directives) Has(name string) bool {
	_, ok := d[name]
	return ok
}

// maxDelta bounds every interval: longer ones count as ten years, far beyond the life of
// any stored page.
const maxDelta = 10 * 365 * 24 * time.Hour

// Seconds is the interval a directive gives, clamped to the table's bounds. An
// argument that is no number counts as zero: stale at once (RFC 9111, 4.2.1).
func (d Directives) Seconds(name string) (time.Duration, bool) {
	value, ok := d[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		// Digits without end are a very long time; anything else is nonsense.
		if strings.Trim(value, "0123456789") == "" && value != "" {
			return maxDelta, true
		}
		return 0, true
	}
	return time.Duration(min(n, uint64(maxDelta/time.Second))) * time.Second, true
}

// ForSharedCache is what a response says to caches like this one: its
// CDN-Cache-Control if there is one (RFC 9213, section 2.2: the other fields
// are then ignored), its Cache-Control otherwise.
func ForSharedCache(h http.Header) (d Directives, targeted bool) {
	if lines := h["Cdn-Cache-Control"]; len(lines) > 0 {
		if d := ParseDirectives(lines); len(d) > 0 {
			return d, true
		}
	}
	return ParseDirectives(h["Cache-Control"]), false
}

// HasMember says whether a list field has a member, in any case of letters.
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

// Tags are the purge tags that a response names, without repetition.
func Tags(h http.Header) []string {
	var tags []string
	for _, line := range h["Surrogate-Key"] {
		tags = append(tags, strings.Fields(line)...)
	}
	for _, line := range h["Cache-Tag"] {
		tags = slices.AppendSeq(tags, Members(line))
	}
	slices.Sort(tags)
	return slices.Compact(tags)
}
