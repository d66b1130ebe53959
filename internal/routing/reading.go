package routing

import (
	"iter"
	"strings"
)

// isClear reports whether all servers read a canonical path alike, as far as routes are
// concerned: it has no empty or dot segments, no parameters (;), and no encoded slash,
// backslash, semicolon or percent sign.
func isClear(path string) bool {
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case ';':
			return false
		case '/':
			if startsUnclear(path[i+1:]) {
				return false
			}
		case '%':
			switch path[i+1 : i+3] { // canonical: two upper-case digits follow
			case "2F", "5C", "3B", "25":
				return false
			}
		}
	}
	return true
}

// startsUnclear reports whether a segment is empty, though it is not the last, or may be a
// dot segment.
func startsUnclear(segment string) bool {
	segment, dots := strings.CutPrefix(segment, ".")
	if !dots {
		return segment != "" && segment[0] == '/'
	}
	return segment == "" || segment[0] == '/' || segment[0] == '.'
}

// What servers do with paths, as bits.
const (
	decoding    = 1 << iota // %2F and %5C are slashes, %3B is a semicolon
	stripping               // parameters are no part of a segment, as in servlets
	merging                 // several slashes count as one
	resolving               // dot segments are removed
	allReadings = 1<<iota - 1
)

// readings yields the paths that servers may make of a canonical path: one for each combination
// of the changes above.
func readings(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for how := 1; how <= allReadings; how++ {
			if !yield(read(path, how)) {
				return
			}
		}
	}
}

func read(path string, how int) string {
	if how&decoding != 0 {
		// Twice, as a proxy and the server behind it may.
		path = strings.NewReplacer("%252F", "/", "%255C", "/", "%253B", ";", "%252E", ".", "%2F", "/", "%5C", "/", "%3B", ";").Replace(path)
	}
	segments := strings.Split(path[1:], "/")
	kept := segments[:0]
	for i, s := range segments {
		last := i == len(segments)-1
		if how&stripping != 0 {
			s, _, _ = strings.Cut(s, ";")
		}
		switch {
		case how&merging != 0 && s == "" && !last:
		case how&resolving != 0 && (s == "." || s == ".."):
			if s == ".." && len(kept) > 0 {
				kept = kept[:len(kept)-1]
			}
			if last {
				kept = append(kept, "") // RFC 3986, section 5.2.4: a slash remains
			}
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}
