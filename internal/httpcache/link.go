package httpcache

import (
	"slices"
	"strings"
)

// Bounds of [EarlyHints].
const (
	maxHints     = 32
	maxHintBytes = 4 << 10
)

// EarlyHints returns the links of a Link field (RFC 8288), given by its lines, that a client can
// use before the response has come (RFC 8297): those whose relation is preload, preconnect,
// dns-prefetch or modulepreload. They are unchanged, in the order of the field; nil if there are none. Links that
// have the wrong syntax are left out, and so are those beyond 32, or that would make the
// result longer than 4 KiB.
func EarlyHints(lines []string) []string {
	var hints []string
	left := maxHintBytes
	for _, line := range lines {
		for link := range links(line) {
			if len(hints) == maxHints {
				return hints
			}
			if len(link) <= left && slices.ContainsFunc(relations(link), isHint) {
				hints = append(hints, link)
				left -= len(link)
			}
		}
	}
	return hints
}

func isHint(relation string) bool {
	switch strings.ToLower(relation) {
	case "preload", "preconnect", "dns-prefetch", "modulepreload":
		return true
	}
	return false
}

// links yields the members of a line of a Link field. Unlike [Members] it does not split the
// targets in angle brackets, which may have commas and quotes.
func links(line string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		start, target, quoted := 0, false, false
		for i := 0; i <= len(line); i++ {
			switch {
			case i == len(line) || line[i] == ',' && !target && !quoted:
				if link := trimOWS(line[start:i]); link != "" && !yield(link) {
					return
				}
				start = i + 1
			case target:
				target = line[i] != '>'
			case line[i] == '"':
				quoted = !quoted
			case line[i] == '\\' && quoted:
				i++
			case line[i] == '<' && !quoted:
				target = trimOWS(line[start:i]) == ""
			}
		}
	}
}

// relations returns the relation types of a link: the types of its first rel (RFC 8288, section
// 3.3). There are none if it has the wrong syntax.
func relations(link string) []string {
	target, rest, closed := strings.Cut(link, ">")
	if !closed || !strings.HasPrefix(target, "<") {
		return nil
	}
	var types []string
	for rest = trimOWS(rest); rest != ""; rest = trimOWS(rest) {
		if rest[0] != ';' {
			return nil
		}
		rest = trimOWS(rest[1:])
		end := strings.IndexAny(rest, "=;")
		if end < 0 {
			end = len(rest)
		}
		name, value, ok := trimOWS(rest[:end]), "", true
		if rest = rest[end:]; strings.HasPrefix(rest, "=") {
			value, rest, ok = cutParameter(trimOWS(rest[1:]))
			ok = ok && name != ""
		}
		if !ok || name != "" && !IsToken(name) {
			return nil
		}
		if types == nil && strings.EqualFold(name, "rel") {
			types = append([]string{}, strings.Fields(value)...) // not nil: a second rel does not count
		}
	}
	return types
}

// cutParameter separates the value of a parameter, a token or a quoted string, from what
// follows it. ok is false if the quoted string is not closed.
func cutParameter(s string) (value, rest string, ok bool) {
	if !strings.HasPrefix(s, `"`) {
		end := strings.IndexByte(s, ';')
		if end < 0 {
			end = len(s)
		}
		return trimOWS(s[:end]), s[end:], true
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == '"':
			return b.String(), s[i+1:], true
		case s[i] == '\\' && i+1 < len(s):
			i++
		}
		b.WriteByte(s[i])
	}
	return "", "", false
}
