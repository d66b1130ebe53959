package model

import (
	"strings"
	"unicode"
)

// naming turns Go names into attribute names. A name is split into words at
// underscores, before an upper-case letter that does not follow another one, and
// before the last of several upper-case letters if a lower-case letter follows.
// Digits belong to the word before them: UserID is user and id, HTTPServer http
// and server, S3Key s3 and key, ETag e and tag.
type naming int

const (
	camelCase naming = iota // userId, httpServer, s3Key, pk
	snakeCase               // user_id, http_server, s3_key, pk
	numNamings
)

// namings maps the words of tags to namings.
var namings = map[string]naming{"camelCase": camelCase, "snake_case": snakeCase}

// attribute returns the attribute name of a Go name.
func (n naming) attribute(name string) string {
	var b strings.Builder
	for i, word := range words(name) {
		lower := strings.ToLower(word)
		switch {
		case i == 0:
		case n == snakeCase:
			b.WriteByte('_')
		default:
			first, rest := splitFirst(lower)
			lower = string(unicode.ToUpper(first)) + rest
		}
		b.WriteString(lower)
	}
	return b.String()
}

func splitFirst(s string) (rune, string) {
	runes := []rune(s)
	return runes[0], string(runes[1:])
}

// words splits a Go name into words.
func words(name string) []string {
	var found []string
	for part := range strings.SplitSeq(name, "_") {
		runes := []rune(part)
		start := 0
		for i := 1; i < len(runes); i++ {
			if unicode.IsUpper(runes[i]) && (!unicode.IsUpper(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1])) {
				found = append(found, string(runes[start:i]))
				start = i
			}
		}
		if start < len(runes) {
			found = append(found, string(runes[start:]))
		}
	}
	return found
}
