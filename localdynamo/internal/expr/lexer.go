package expr

import (
	"unicode/utf8"
)

// tokenKind is the kind of a token. The lexer returns keywords as identifiers.
type tokenKind uint8

const (
	tokenEOF tokenKind = iota
	tokenIdentifier
	tokenName   // #name
	tokenValue  // :value
	tokenNumber // a list index
	tokenSymbol // ( ) [ ] . , = <> < <= > >= + -
	tokenUnknown
)

// token is the part [at, end) of the expression's text.
type token struct {
	kind tokenKind
	text string
	at   int
}

func (t token) end() int { return t.at + len(t.text) }

// lex splits an expression into tokens and appends tokenEOF. It never fails: an
// invalid character becomes a tokenUnknown, which no grammar rule accepts.
func lex(text string) []token {
	tokens := make([]token, 0, len(text)/3+2)
	for at := 0; at < len(text); {
		if isSpace(text[at]) {
			at++
			continue
		}
		kind, n := scan(text[at:])
		tokens = append(tokens, token{kind: kind, text: text[at : at+n], at: at})
		at += n
	}
	return append(tokens, token{kind: tokenEOF, at: len(text)})
}

// scan returns the kind and length of the first token of s.
func scan(s string) (tokenKind, int) {
	switch c := s[0]; {
	case isLetter(c):
		return tokenIdentifier, 1 + wordLen(s[1:])
	case c == '#' || c == ':':
		n := wordLen(s[1:])
		if n == 0 {
			return tokenUnknown, 1
		}
		if c == '#' {
			return tokenName, 1 + n
		}
		return tokenValue, 1 + n
	case c == '0':
		return tokenNumber, 1
	case isDigit(c):
		n := 1
		for n < len(s) && isDigit(s[n]) {
			n++
		}
		return tokenNumber, n
	case len(s) > 1 && (s[:2] == "<>" || s[:2] == "<=" || s[:2] == ">="):
		return tokenSymbol, 2
	}
	switch s[0] {
	case '(', ')', '[', ']', '.', ',', '=', '<', '>', '+', '-':
		return tokenSymbol, 1
	}
	_, n := utf8.DecodeRuneInString(s)
	return tokenUnknown, n
}

func wordLen(s string) int {
	n := 0
	for n < len(s) && (isLetter(s[n]) || isDigit(s[n]) || s[n] == '_') {
		n++
	}
	return n
}

func isSpace(c byte) bool  { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }
func isDigit(c byte) bool  { return c >= '0' && c <= '9' }
func isLetter(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
