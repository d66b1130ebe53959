package canonical

import (
	"strings"
	"unicode"
)

// Shown returns the beginning of a text that a caller has given as a URL, for messages and
// logs: at most 100 bytes, and without the user information (RFC 3986, section 3.2.1), which
// may be a password.
func Shown(text string) string {
	const most = 100
	scheme, rest, found := strings.Cut(text, "://")
	if !found {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	authority := rest
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		authority = rest[:end]
	}
	if at := strings.LastIndexByte(authority, '@'); at >= 0 {
		rest = rest[at+1:]
	}
	if text = scheme + rest; len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "..."
	}
	return text
}

// Printable replaces what is no printable character, for terminals: texts of strangers may be made to change what one
// shows.
func Printable(text string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return unicode.ReplacementChar
		}
		return r
	}, text)
}
