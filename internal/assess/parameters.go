package assess

import (
	"cmp"
	"hash/maphash"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/internal/wellknown"
)

// Bounds of what is kept of query parameters.
const (
	maxParameters    = 1000 // names
	maxParameterName = 64   // bytes
	maxValues        = 1000 // different ones of a name
	maxKeyParameters = 16   // that a forecast has in its keys
	// keyShare is the share of the requests that must have a parameter before a forecast has it in its keys.
	keyShare = 0.001
)

// parameters counts the query parameters of requests for pages.
type parameters struct {
	seed     maphash.Seed
	byName   map[string]*parameter
	requests int64
}

type parameter struct {
	requests int64
	values   map[uint64]struct{} // hashes
}

func newParameters() *parameters {
	return &parameters{seed: maphash.MakeSeed(), byName: make(map[string]*parameter)}
}

func (p *parameters) add(e *logreader.Entry) {
	if e.Method != "GET" && e.Method != "HEAD" {
		return
	}
	p.requests++
	_, query, ok := strings.Cut(e.URI, "?")
	for ok && query != "" {
		var pair string
		pair, query, _ = strings.Cut(query, "&")
		name, value := splitPair(pair)
		if name == "" || len(name) > maxParameterName {
			continue
		}
		known := p.byName[name]
		if known == nil {
			if len(p.byName) >= maxParameters {
				continue
			}
			known = &parameter{values: make(map[uint64]struct{})}
			p.byName[strings.Clone(name)] = known
		}
		known.requests++
		if len(known.values) < maxValues {
			known.values[maphash.String(p.seed, value)] = struct{}{}
		}
	}
}

// frequent returns the names of the parameters on which pages may depend and that many requests have, the most
// frequent first.
func (p *parameters) frequent() []string {
	names := p.sorted(func(name string, known *parameter) bool {
		return wellknown.Parameter(name) == "" && float64(known.requests) >= max(keyShare*float64(p.requests), 2)
	})
	return names[:min(len(names), maxKeyParameters)]
}

// sorted returns the names that are wanted, the most frequent first.
func (p *parameters) sorted(wanted func(string, *parameter) bool) (names []string) {
	for _, name := range slices.Sorted(maps.Keys(p.byName)) {
		if wanted(name, p.byName[name]) {
			names = append(names, name)
		}
	}
	slices.SortStableFunc(names, func(a, b string) int { return cmp.Compare(p.byName[b].requests, p.byName[a].requests) })
	return names
}

// splitPair returns the name of a query parameter, unescaped if it can be, and its value as it is.
func splitPair(pair string) (name, value string) {
	name, value, _ = strings.Cut(pair, "=")
	if unescaped, err := url.QueryUnescape(name); err == nil {
		name = unescaped
	}
	return name, value
}
