package routing

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// A Pattern is a parsed pattern.
type Pattern struct {
	text     string
	method   string // empty: every method
	host     string // canonical; empty: every host
	segments []segment
	subtree  bool // it ends in a slash: the rest of the path is not named
}

// A segment is the part of a path between two slashes.
type segment struct {
	text string // what a literal matches, decoded; the name of a wildcard
	kind kind
}

type kind int

const (
	literal kind = iota
	one          // {name}: one segment
	rest         // {name...}: the rest of the path
	end          // {$}: the path ends with the slash before
)

// Parse parses a pattern. The error says what is wrong with it.
func Parse(text string) (p Pattern, err error) {
	if err := valid(text); err != nil {
		return Pattern{}, err
	}
	p.text = text
	place := text
	if method, after, found := strings.Cut(text, " "); found {
		p.method, place = method, strings.TrimLeft(after, " \t")
	}
	host, path, _ := strings.Cut(place, "/")
	if host != "" {
		var ok bool
		if p.host, ok = canonical.Host(host); !ok {
			return Pattern{}, fmt.Errorf("%q is not a host name; expected one like example.com", host)
		}
	}
	if path, p.subtree = strings.CutSuffix("/"+path, "/"); path == "" {
		return p, nil
	}
	for text := range strings.SplitSeq(path[1:], "/") {
		s, err := parseSegment(text)
		if err != nil {
			return Pattern{}, err
		}
		p.segments = append(p.segments, s)
	}
	return p, nil
}

func parseSegment(text string) (segment, error) {
	name, wild := strings.CutPrefix(text, "{")
	if !wild {
		decoded, err := url.PathUnescape(text)
		switch {
		case err != nil:
			return segment{}, fmt.Errorf("%q is badly encoded", text)
		case decoded == "." || decoded == ".." || decoded == "":
			return segment{}, fmt.Errorf("the segment %q is empty or a dot segment, and would never match; remove it", text)
		}
		return segment{text: decoded}, nil
	}
	name = strings.TrimSuffix(name, "}")
	if name == "$" {
		return segment{kind: end}, nil
	}
	if name, all := strings.CutSuffix(name, "..."); all {
		return segment{text: name, kind: rest}, nil
	}
	return segment{text: name, kind: one}, nil
}

// valid asks ServeMux whether a pattern is one.
func valid(text string) error { return register(http.NewServeMux(), text) }

// register adds a pattern to a mux, which panics if it is invalid or in conflict.
func register(mux *http.ServeMux, text string) (err error) {
	defer func() {
		if problem := recover(); problem != nil {
			err = fmt.Errorf("%s", reason(fmt.Sprint(problem)))
		}
	}()
	mux.HandleFunc(text, func(http.ResponseWriter, *http.Request) {})
	return nil
}

// reason removes what a panic of ServeMux says about our source.
func reason(text string) string {
	if _, after, found := strings.Cut(text, "):\n"); found { // a conflict names both places
		return after
	}
	if strings.HasPrefix(text, "parsing ") {
		if _, after, found := strings.Cut(text, "\": "); found {
			text = after
		}
	}
	return text
}

// String returns the pattern as it was written.
func (p Pattern) String() string { return p.text }

// Names returns the names of the wildcards, in order.
func (p Pattern) Names() []string {
	var names []string
	for _, s := range p.segments {
		if s.kind == one || s.kind == rest {
			names = append(names, s.text)
		}
	}
	return names
}

// Sample returns a request that matches the pattern, with a text for each wildcard. The host is empty for any.
func (p Pattern) Sample(text string) (method, host, path string) {
	var b strings.Builder
	for _, s := range p.segments {
		switch s.kind {
		case literal:
			b.WriteString("/" + url.PathEscape(s.text))
		case end:
			b.WriteString("/")
		default:
			b.WriteString("/" + text)
		}
	}
	if p.subtree {
		b.WriteString("/")
	}
	method = p.method
	if method == "" {
		method = http.MethodGet
	}
	return method, p.host, b.String()
}

// Wildcards returns what the wildcards of the pattern match in a path that it matches,
// decoded, by their names. The path is canonical (see [canonical.Path]).
func (p Pattern) Wildcards(path string) map[string]string {
	values := make(map[string]string)
	left := strings.TrimPrefix(path, "/")
	for _, s := range p.segments {
		text, after, _ := strings.Cut(left, "/")
		if s.kind == rest {
			text, after = left, ""
		}
		if s.kind == one || s.kind == rest {
			values[s.text] = decode(text)
		}
		left = after
	}
	return values
}

// decode returns a segment decoded. A segment of a canonical path is always correctly encoded.
func decode(text string) string {
	if !strings.Contains(text, "%") {
		return text // the common case, without a call
	}
	decoded, err := url.PathUnescape(text)
	if err != nil {
		return text
	}
	return decoded
}
