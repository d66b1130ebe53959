package isr

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/store"
)

// Bounds of the tags of one page. They are part of its rows, and each is looked up among
// the purge marks.
const (
	maxTags     = 128 // as in Next.js
	maxTagBytes = 16 << 10
)

// withTags adds the tags of the route and of the response to the verdict on a response
// that may be stored. A response with invalid or too many tags is refused: without one of
// its tags, a purge would miss the page.
func withTags(v httpcache.Verdict, h http.Header, ofRoute []string) httpcache.Verdict {
	if v.Refused == httpcache.RefusedTooLarge && validTagsOf(h) != nil {
		v = httpcache.Verdict{Withdraws: v.Withdraws} // the tags are the reason, and are named
	}
	if v.Refused != "" || v.Failed {
		return v
	}
	tags, err := httpcache.Tags(h)
	if err == nil && len(ofRoute) > 0 {
		tags = append(tags, ofRoute...)
		slices.Sort(tags)
		tags = slices.Compact(tags)
	}
	if err == nil {
		err = validTags(tags)
	}
	if err != nil {
		return httpcache.Verdict{Refused: httpcache.RefusedTags, Cause: err, Withdraws: v.Withdraws}
	}
	v.Tags = tags
	return v
}

// validTagsOf checks the tags of a response alone.
func validTagsOf(h http.Header) error {
	tags, err := httpcache.Tags(h)
	if err == nil {
		err = validTags(tags)
	}
	return err
}

func validTags(tags []string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("the page has %d tags, at most %d are allowed", len(tags), maxTags)
	}
	bytes := 0
	for _, tag := range tags {
		if err := store.ValidTag(tag); err != nil {
			return err
		}
		bytes += len(tag)
	}
	if bytes > maxTagBytes {
		return fmt.Errorf("the tags of the page have %d bytes in all, at most %d are allowed", bytes, maxTagBytes)
	}
	return nil
}

// Bounds of [PathTags].
const (
	maxTagTemplates = 32
	maxTagTemplate  = 256
)

// PathTags returns a function for [Route.Tags] that makes the tags of a page from its path.
// pattern is that of the route, in the syntax of [http.ServeMux], and templates are tags in
// which "{name}" stands for what the pattern's wildcard of that name matches: with the
// pattern "GET /blog/{slug}" and the template "post-{slug}", the page /blog/hello has the tag
// "post-hello". There are 1 to 32 templates of 1 to 256 bytes each.
//
// Values are percent-decoded once, and not changed otherwise: /blog/caf%C3%A9 has the tag
// "post-café", /blog/a%2Fb has "post-a/b", and letters keep their case. Purges name the
// decoded tag. A path whose tag is not valid (see [store.ValidTag]: longer than 1,024 bytes,
// not UTF-8, or with control characters) is not stored, with detail=tags.
//
// The error names a template that is invalid or uses a wildcard that the pattern does not
// have. The function is safe for concurrent use.
func PathTags(pattern string, templates ...string) (func(*http.Request) []string, error) {
	p, err := routing.Parse(pattern)
	if err != nil {
		return nil, fmt.Errorf("isr: the pattern %q: %w", pattern, err)
	}
	if n := len(templates); n == 0 || n > maxTagTemplates {
		return nil, fmt.Errorf("isr: there must be 1 to %d templates of tags (got %d)", maxTagTemplates, n)
	}
	var parsed []tagTemplate
	for _, text := range templates {
		t, err := parseTagTemplate(text, p.Names())
		if err != nil {
			return nil, fmt.Errorf("isr: the tag %.300q: %w", text, err)
		}
		parsed = append(parsed, t)
	}
	return func(r *http.Request) []string {
		values := p.Wildcards(r.URL.EscapedPath())
		tags := make([]string, 0, len(parsed))
		for _, t := range parsed {
			tags = append(tags, t.tag(values))
		}
		return tags
	}, nil
}

// A tagTemplate alternates between texts and names of wildcards, beginning with a text.
type tagTemplate []string

func parseTagTemplate(text string, wildcards []string) (tagTemplate, error) {
	if err := store.ValidTag(text); err != nil {
		return nil, err
	}
	if len(text) > maxTagTemplate {
		return nil, fmt.Errorf("it has %d bytes, at most %d are allowed", len(text), maxTagTemplate)
	}
	var t tagTemplate
	for rest := text; ; {
		literal, after, found := strings.Cut(rest, "{")
		if strings.Contains(literal, "}") {
			return nil, fmt.Errorf("the brace '}' has no '{' before it")
		}
		t = append(t, literal)
		if !found {
			return t, nil
		}
		name, after, closed := strings.Cut(after, "}")
		switch {
		case !closed:
			return nil, fmt.Errorf("the brace '{' is not closed")
		case !slices.Contains(wildcards, name):
			return nil, fmt.Errorf("the pattern has no wildcard {%s}; it has %s", name, wildcardList(wildcards))
		}
		t, rest = append(t, name), after
	}
}

func wildcardList(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return "{" + strings.Join(names, "}, {") + "}"
}

func (t tagTemplate) tag(values map[string]string) string {
	var b strings.Builder
	for i, part := range t {
		if i%2 == 1 {
			part = values[part]
		}
		b.WriteString(part)
	}
	return b.String()
}
