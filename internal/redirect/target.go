package redirect

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/routing"
)

// A target is where a rule leads.
type target struct {
	// origin is the scheme and the host, like "https://example.com"; empty for the host of the request.
	origin string
	host   string // of origin, in canonical form
	path   routing.Template
	query  routing.Template // nil if there is none
	// fragment begins with "#"; empty if there is none.
	fragment string
}

// maxTarget bounds the text of a target, in bytes.
const maxTarget = 4 << 10

// parseTarget parses the target of a rule with a pattern.
func parseTarget(text string, p routing.Pattern) (t target, err error) {
	if len(text) > maxTarget {
		return t, fmt.Errorf("has %d bytes; at most %d are allowed", len(text), maxTarget)
	}
	for i := range len(text) {
		if c := text[i]; c <= ' ' || c >= 0x7f || strings.IndexByte("\"<>\\^`|", c) >= 0 {
			return t, fmt.Errorf("has the character %q; percent-encode it", rune(c))
		}
	}
	rest, fragment, has := strings.Cut(text, "#")
	if has {
		t.fragment = "#" + fragment
	}
	rest, query, hasQuery := strings.Cut(rest, "?")
	if rest, err = t.cutOrigin(rest); err != nil {
		return t, err
	}
	if t.path, err = p.Template(rest); err != nil {
		return t, err
	}
	if hasQuery {
		t.query, err = p.Template(query)
	}
	if strings.ContainsAny(t.fragment, "{}") {
		err = errors.New("has a wildcard in its fragment; only path and query may have them")
	}
	return t, err
}

// cutOrigin returns the path of a target, and keeps what is before it.
func (t *target) cutOrigin(text string) (path string, err error) {
	if strings.HasPrefix(text, "/") {
		if strings.HasPrefix(text, "//") {
			return "", errors.New("begins with //, which browsers read as a host; write https://HOST/PATH for another host, or a single slash")
		}
		return text, nil
	}
	scheme, rest, found := strings.Cut(text, "://")
	if !found || scheme != "http" && scheme != "https" {
		return "", errors.New("is neither a path like /new nor a URL like https://example.com/new")
	}
	host, path, _ := strings.Cut(rest, "/")
	canon, ok := canonical.Host(host)
	if !ok || strings.ContainsAny(host, "@{}") {
		return "", fmt.Errorf("%q is not a host name; expected one like example.com, without wildcards: a visitor must not choose the host", host)
	}
	t.origin, t.host = scheme+"://"+host, canon
	return "/" + path, nil
}

// expand returns the URL of the target for the values of the wildcards. query is added to that of the target.
func (t *target) expand(values map[string]string, query string) string {
	var b strings.Builder
	b.WriteString(t.origin)
	path := expand(t.path, values, escapeRest)
	if t.origin == "" && strings.HasPrefix(path, "//") {
		b.WriteString("/.") // "//" would begin a host (see gateway.pathReference)
	}
	b.WriteString(path)
	sep := byte('?')
	if t.query != nil {
		b.WriteByte(sep)
		b.WriteString(expand(t.query, values, url.QueryEscape))
		sep = '&'
	}
	if query != "" {
		b.WriteByte(sep)
		b.WriteString(canonical.EscapeInvalid(query))
	}
	b.WriteString(t.fragment)
	return b.String()
}

func expand(t routing.Template, values map[string]string, escape func(string) string) string {
	var b strings.Builder
	for i, part := range t {
		if i%2 == 1 {
			part = escape(values[part])
		}
		b.WriteString(part)
	}
	return b.String()
}

// escapeRest encodes the segments of a path.
func escapeRest(path string) string {
	segments := strings.Split(path, "/")
	for i, s := range segments {
		segments[i] = url.PathEscape(s)
	}
	return strings.Join(segments, "/")
}
