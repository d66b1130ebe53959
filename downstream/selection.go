package downstream

import (
	"slices"
	"strings"

	"github.com/facetheory/isr/store"
)

// A selection is what a batch purges, in terms that downstream caches share. They know
// neither tenants nor variants: a page is purged for all tenants, with all its variants.
type selection struct {
	all      bool // everything; the other fields are then empty
	tags     []string
	pages    []address
	prefixes []address
	hosts    []string // all pages of these hosts
}

// An address is a host and the beginning of, or the whole, path and query. The path begins
// with a slash.
type address struct {
	host, path string
}

// String returns the address without a scheme.
func (a address) String() string { return a.host + a.path }

// url returns the public URL. The scheme is not part of a cache key: pages are expected at
// HTTPS.
func (a address) url() string { return "https://" + a.String() }

// selectionOf returns what targets select. Kinds of newer versions select everything.
func selectionOf(targets []store.PurgeTarget) selection {
	var s selection
	for _, t := range targets {
		switch t.Kind {
		case store.PurgeTag:
			s.tags = append(s.tags, t.Value)
		case store.PurgeKey:
			s.page(t.Value)
		case store.PurgePrefix:
			s.prefix(t.Value)
		default:
			return selection{all: true}
		}
		if s.all {
			return selection{all: true}
		}
	}
	for _, list := range []*[]address{&s.pages, &s.prefixes} {
		slices.SortFunc(*list, func(a, b address) int { return strings.Compare(a.String(), b.String()) })
		*list = slices.Compact(*list)
	}
	for _, list := range []*[]string{&s.tags, &s.hosts} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return s
}

// page adds the page of a cache key, without its variant.
func (s *selection) page(key string) {
	text, _, _ := strings.Cut(key, "#")
	host, path := splitAddress(text)
	s.pages = append(s.pages, address{host, "/" + strings.TrimPrefix(path, "/")})
}

// prefix adds the pages whose keys begin with a text.
func (s *selection) prefix(text string) {
	if strings.Contains(text, "#") {
		s.page(text) // variants of one page, which have its URL
		return
	}
	switch host, path := splitAddress(text); path {
	case "":
		s.all = true // the host is not complete
	case "/":
		s.hosts = append(s.hosts, host)
	default:
		s.prefixes = append(s.prefixes, address{host, path})
	}
}

// splitAddress splits a text before its first slash.
func splitAddress(text string) (host, path string) {
	if i := strings.IndexByte(text, '/'); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// printable reports whether a text is 1 to limit bytes of visible ASCII without the
// characters in except.
func printable(text string, limit int, except string) bool {
	return text != "" && len(text) <= limit && !strings.ContainsAny(text, except) &&
		!strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' })
}

// allPrintable reports whether printable is true of all texts.
func allPrintable(texts []string, limit int, except string) bool {
	return !slices.ContainsFunc(texts, func(text string) bool { return !printable(text, limit, except) })
}
