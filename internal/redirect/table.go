package redirect

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/routing"
)

// A Rule redirects the requests that match it.
type Rule struct {
	// From is a pattern of routes, like "GET example.com/blog/{slug}"; of an exact rule, a path, or a host and a path.
	From string
	// To is a path, or a URL with http or https, with the wildcards of From.
	To     string
	Status int  // 301, 302, 307 or 308
	Drop   bool // the query of the request is not added to the target
	// Place says where the rule is written, for errors and explanations.
	Place string
}

// A Redirect is the answer to a request.
type Redirect struct {
	Status   int
	Location string
	Place    string // of the rule
}

// A Table has the rules of a site. It is immutable and safe for concurrent use. A nil Table redirects nothing.
type Table struct {
	exact    map[string]*rule // by host, which may be empty, and path, both canonical
	hosts    bool             // an exact rule has a host
	patterns *routing.Table   // nil if there are none
	rules    []*rule          // by index of patterns
}

type rule struct {
	target
	pattern routing.Pattern
	status  int
	drop    bool
	place   string
}

// A RuleError is an error of a rule.
type RuleError struct {
	Index   int  // in the list that New got
	Exact   bool // the list of exact rules
	Place   string
	Problem string
}

func (e *RuleError) Error() string { return e.Place + ": " + e.Problem }

// maxErrors bounds the errors that New reports.
const maxErrors = 50

// New returns the table of rules with patterns, and of exact rules. serves reports whether a host is this site's: a
// redirect to another one is no loop. The error joins the [*RuleError] of all rules, at most 50.
func New(patterns, exact []Rule, serves func(host string) bool) (*Table, error) {
	b := &builder{serves: serves, t: &Table{exact: make(map[string]*rule, len(exact))}, index: make(map[*rule]int, len(patterns))}
	b.addPatterns(patterns)
	for i, r := range exact {
		b.addExact(i, r)
	}
	if len(b.errs) == 0 {
		b.findLoops()
	}
	return b.t, errors.Join(b.errs...)
}

// A builder makes a table.
type builder struct {
	t      *Table
	serves func(host string) bool
	index  map[*rule]int // in its list
	errs   []error
}

func (b *builder) fail(index int, exact bool, place, format string, args ...any) {
	if len(b.errs) < maxErrors {
		b.errs = append(b.errs, &RuleError{index, exact, place, fmt.Sprintf(format, args...)})
	}
}

func (b *builder) addPatterns(all []Rule) {
	var texts []string
	var kept []int
	for i, in := range all {
		p, err := routing.Parse(in.From)
		if err != nil {
			b.fail(i, false, in.Place, "%q: %v", in.From, err)
			continue
		}
		to, err := parseTarget(in.To, p)
		if err != nil {
			b.fail(i, false, in.Place, "%q %v", in.To, err)
			continue
		}
		r := &rule{to, p, in.Status, in.Drop, in.Place}
		b.t.rules, texts, kept = append(b.t.rules, r), append(texts, in.From), append(kept, i)
		b.index[r] = i
	}
	if len(texts) == 0 {
		return
	}
	var err error
	if b.t.patterns, err = routing.New(texts); err != nil {
		at, first := 0, 0
		var conflict *routing.ConflictError
		if errors.As(err, &conflict) {
			at, first = kept[conflict.Second], kept[conflict.First]
		}
		b.fail(at, false, all[at].Place, "conflicts with %s, since neither is more specific; make one of them so: %v", all[first].Place, err)
	}
}

func (b *builder) addExact(i int, in Rule) {
	host, path, err := exactAddress(in.From)
	if err != nil {
		b.fail(i, true, in.Place, "%q %v", in.From, err)
		return
	}
	to, err := parseTarget(in.To, routing.Pattern{})
	if err != nil {
		b.fail(i, true, in.Place, "%q %v", in.To, err)
		return
	}
	key := host + path
	if first := b.t.exact[key]; first != nil {
		b.fail(i, true, in.Place, "%s is redirected by %s already; remove one of them", in.From, first.place)
		return
	}
	r := &rule{target: to, status: in.Status, drop: in.Drop, place: in.Place}
	b.index[r] = i
	b.t.exact[key] = r
	b.t.hosts = b.t.hosts || host != ""
}

// exactAddress returns the host, which may be empty, and the path of an exact rule, in canonical form.
func exactAddress(text string) (host, path string, err error) {
	for _, scheme := range []string{"http://", "https://"} {
		text = strings.TrimPrefix(text, scheme)
	}
	switch {
	case strings.ContainsAny(text, "?#"):
		return "", "", errors.New("has a query or a fragment; give the path alone: the query of a request does not select a redirect")
	case strings.ContainsAny(text, "{}"):
		return "", "", errors.New("has a wildcard; write it as a rule of redirects")
	}
	name, rest, found := strings.Cut(text, "/")
	if !found {
		return "", "", errors.New("is not an address; expected a path like /old, or a host and a path")
	}
	if name != "" {
		var ok bool
		if host, ok = canonical.Host(name); !ok {
			return "", "", fmt.Errorf("has the host %q, which is not a host name", name)
		}
	}
	path, ok := canonical.Path("/" + rest)
	if !ok {
		return "", "", errors.New("has a path that is badly encoded")
	}
	return host, path, nil
}

// Find returns the redirect of a request; ok is false if there is none.
func (t *Table) Find(r *http.Request) (to Redirect, ok bool) {
	found, path := t.find(r)
	if found == nil {
		return Redirect{}, false
	}
	query := r.URL.RawQuery
	if found.drop {
		query = ""
	}
	return Redirect{found.status, found.expand(found.values(path), query), found.place}, true
}

// Has reports whether a request is redirected. It does not allocate, unless the path is not canonical.
func (t *Table) Has(r *http.Request) bool {
	found, _ := t.find(r)
	return found != nil
}

func (r *rule) values(path string) map[string]string {
	if len(r.pattern.Names()) == 0 {
		return nil
	}
	return r.pattern.Wildcards(path)
}

// find returns the rule of a request, and the canonical path; nil if there is none.
func (t *Table) find(r *http.Request) (*rule, string) {
	if t == nil {
		return nil, ""
	}
	host := ""
	if t.hosts || t.patterns != nil {
		host, _ = canonical.Host(r.Host)
	}
	return t.look(r.Method, host, r.URL.EscapedPath())
}

// look is find for a canonical host. A host with a port matches rules with that port, and else those of its name.
func (t *Table) look(method, host, path string) (*rule, string) {
	path, ok := canonical.Path(path)
	if !ok || !strings.HasPrefix(path, "/") {
		return nil, ""
	}
	if len(t.exact) > 0 {
		if r := t.lookExact(host, path); r != nil {
			return r, path
		}
	}
	if t.patterns == nil {
		return nil, ""
	}
	index, err := t.patterns.Find(method, host, path)
	if err != nil {
		return nil, ""
	}
	return t.rules[index], path
}

func (t *Table) lookExact(host, path string) *rule {
	if t.hosts {
		var room [256]byte
		name := host
		if i := strings.LastIndexByte(host, ':'); i >= 0 && !strings.HasSuffix(host, "]") {
			name = host[:i]
		}
		if r := t.exact[string(append(append(room[:0], host...), path...))]; r != nil {
			return r
		}
		if r := t.exact[string(append(append(room[:0], name...), path...))]; r != nil {
			return r
		}
	}
	return t.exact[path]
}

// maxChain bounds how many redirects are followed to find a loop.
const maxChain = 32

// sample stands for the values of wildcards when loops are looked for.
const sample = "isr-sample"

// findLoops reports rules that lead back to an address that they have redirected.
func (b *builder) findLoops() {
	for _, r := range b.t.rules {
		method, host, path := r.pattern.Sample(sample)
		b.follow(r, method, host, path)
	}
	for _, key := range slices.Sorted(maps.Keys(b.t.exact)) {
		slash := strings.IndexByte(key, '/')
		b.follow(b.t.exact[key], http.MethodGet, key[:slash], key[slash:])
	}
}

// follow follows the redirects of an address, from the rule r on.
func (b *builder) follow(first *rule, method, host, path string) {
	r, at := first, path
	var way []string
	for range maxChain {
		way = append(way, host+at)
		location := r.expand(r.values(at), "")
		if r.origin != "" {
			if host = r.host; !b.serves(host) {
				return
			}
		}
		location = strings.TrimPrefix(location, r.origin)
		location, _, _ = strings.Cut(location, "#")
		location, _, _ = strings.Cut(location, "?")
		next, nextPath := b.t.look(method, host, location)
		if next == nil {
			return
		}
		if next == first || slices.Contains(way, host+nextPath) {
			b.fail(b.index[first], first.pattern.String() == "", first.place, "leads back to itself: %s; a browser would never arrive", strings.Join(append(way, host+nextPath), " -> "))
			return
		}
		r, at = next, nextPath
	}
	b.fail(b.index[first], first.pattern.String() == "", first.place, "leads through more than %s redirects; let it lead to its end", strconv.Itoa(maxChain))
}
