package httpcache

import (
	"net/http"
	"net/textproto"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Directives maps the lower-case names of the directives of a Cache-Control field to their
// arguments.
type Directives map[string]string

// malformed is the key that marks a field with an unclosed quoted string, which may hide
// directives. It is not a valid name of a directive.
const malformed = `"`

// ParseDirectives parses Cache-Control (RFC 9111, section 5.2) or a targeted field such as
// CDN-Cache-Control (RFC 9213), which has the same syntax. The first of repeated directives
// counts.
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

// Members yields the members of a comma-separated field line. It does not split quoted
// strings.
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

// balanced reports whether every quoted string of a field line is closed.
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

// ForSharedCache returns the directives for a shared cache: CDN-Cache-Control if there is
// one, in which case Cache-Control is ignored (RFC 9213, section 2.2), and otherwise
// Cache-Control.
func ForSharedCache(h http.Header) (d Directives, targeted bool) {
	if lines := h["Cdn-Cache-Control"]; len(lines) > 0 {
		if d := ParseDirectives(lines); len(d) > 0 {
			return d, true
		}
	}
	return ParseDirectives(h["Cache-Control"]), false
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

// Tags returns the purge tags of a response, from Surrogate-Key and Cache-Tag, sorted and
// without duplicates.
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
