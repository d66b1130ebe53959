package isr

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// directives are those of a Cache-Control field, lower-case name to argument.
type directives map[string]string

// malformed stands among the directives of a field whose quotes are not balanced: it
// cannot be told what they hide. No directive has that name.
const malformed = `"`

// parseDirectives reads Cache-Control (RFC 9111, section 5.2) or a targeted
// field such as CDN-Cache-Control (RFC 9213), which is written alike. Of a
// directive given twice, the first counts.
func parseDirectives(lines []string) directives {
	d := make(directives)
	for _, line := range lines {
		if !balanced(line) {
			d[malformed] = ""
		}
		for part := range splitList(line) {
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

// splitList yields the members of a comma-separated field; a comma in quotes
// separates nothing.
func splitList(line string) func(yield func(string) bool) {
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

func (d directives) has(name string) bool {
	_, ok := d[name]
	return ok
}

// seconds is the interval a directive gives, clamped to the table's bounds. An
// argument that is no number counts as zero: stale at once (RFC 9111, 4.2.1).
func (d directives) seconds(name string) (time.Duration, bool) {
	value, ok := d[name]
	if !ok {
		return 0, false
	}
	n, err := strconv.ParseUint(value, 10, 64)
	if err != nil {
		// Digits without end are a very long time; anything else is nonsense.
		if strings.Trim(value, "0123456789") == "" && value != "" {
			return maxInterval, true
		}
		return 0, true
	}
	return time.Duration(min(n, uint64(maxInterval/time.Second))) * time.Second, true
}

// forSharedCache is what a response says to caches like this one: its
// CDN-Cache-Control if there is one (RFC 9213, section 2.2: the other fields
// are then ignored), its Cache-Control otherwise.
func forSharedCache(h http.Header) (d directives, targeted bool) {
	if lines := h["Cdn-Cache-Control"]; len(lines) > 0 {
		if d := parseDirectives(lines); len(d) > 0 {
			return d, true
		}
	}
	return parseDirectives(h["Cache-Control"]), false
}
