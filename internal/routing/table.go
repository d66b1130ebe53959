package routing

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// A Table chooses one of several patterns. It is immutable and safe for concurrent use.
type Table struct {
	patterns []Pattern
	hosts    map[string]*methods // by canonical host
	any      *methods            // patterns without a host; nil if there are none
	// everything is the index of a pattern "/" that stands alone, or -1.
	everything int
}

// A ConflictError is the error of two patterns that match the same requests, of which
// neither is more specific.
type ConflictError struct {
	First, Second int // indexes of the patterns, in order
	Problem       string
}

func (e *ConflictError) Error() string { return e.Problem }

// New returns a table of patterns. Errors of invalid patterns name them; a conflict is a
// [*ConflictError].
func New(patterns []string) (*Table, error) {
	t := &Table{hosts: make(map[string]*methods), everything: -1}
	mux := http.NewServeMux()
	for i, text := range patterns {
		p, err := Parse(text)
		if err != nil {
			return nil, fmt.Errorf("pattern %q: %w", text, err)
		}
		if problem := register(mux, p.canonical()); problem != nil {
			return nil, t.conflict(p, i, problem)
		}
		t.patterns = append(t.patterns, p)
		t.add(p, i)
	}
	if len(patterns) == 1 && patterns[0] == "/" {
		t.everything = 0
	}
	return t, nil
}

// canonical returns the pattern with its canonical host, so that conflicts of hosts in
// different case are found. ServeMux takes a host with its port as it is.
func (p Pattern) canonical() string {
	place := p.text
	if p.method != "" {
		_, place, _ = strings.Cut(p.text, " ")
		place = strings.TrimLeft(place, " \t")
	}
	_, path, _ := strings.Cut(place, "/")
	return strings.TrimLeft(p.method+" "+p.host+"/"+path, " ")
}

// conflict finds the earlier pattern with which p is in conflict.
func (t *Table) conflict(p Pattern, at int, problem error) error {
	for i, earlier := range t.patterns {
		mux := http.NewServeMux()
		if register(mux, earlier.canonical()) == nil && register(mux, p.canonical()) != nil {
			return &ConflictError{First: i, Second: at, Problem: problem.Error()}
		}
	}
	return problem
}

// methods are the patterns of a host, by method; "" is every method.
type methods struct {
	trees map[string]*node
}

// A node is a place in the tree of the segments of patterns. An index is -1 for none.
type node struct {
	literals map[string]*node
	one      *node // {name}
	exact    int   // a pattern that ends here
	end      int   // one that ends here with a slash: {$}
	subtree  int   // one that goes on from here: "/" at the end, or {name...}
}

func newNode() *node { return &node{exact: -1, end: -1, subtree: -1} }

func (t *Table) add(p Pattern, index int) {
	group := &t.any
	if p.host != "" {
		of := t.hosts[p.host]
		group = &of
		defer func() { t.hosts[p.host] = *group }()
	}
	if *group == nil {
		*group = &methods{trees: make(map[string]*node)}
	}
	n := (*group).trees[p.method]
	if n == nil {
		n = newNode()
		(*group).trees[p.method] = n
	}
	for _, s := range p.segments {
		switch s.kind {
		case rest:
			n.subtree = index
			return
		case end:
			n.end = index
			return
		}
		n = n.child(s)
	}
	if p.subtree {
		n.subtree = index
	} else {
		n.exact = index
	}
}

// child returns the node of a literal or a wildcard below n, and makes it if needed.
func (n *node) child(s segment) *node {
	if s.kind == one {
		if n.one == nil {
			n.one = newNode()
		}
		return n.one
	}
	if n.literals == nil {
		n.literals = make(map[string]*node)
	}
	if n.literals[s.text] == nil {
		n.literals[s.text] = newNode()
	}
	return n.literals[s.text]
}

// match returns the index of the most specific pattern for what follows a slash, or -1.
// Each node is visited once at most.
func (n *node) match(path string) int {
	if path == "" { // after the slash
		if n.end >= 0 {
			return n.end
		}
		return n.subtree
	}
	text, after, more := strings.Cut(path, "/")
	text = decode(text)
	for _, next := range [...]*node{n.literals[text], n.one} {
		if next == nil || next == n.one && text == "" { // a wildcard matches no empty segment
			continue
		}
		switch {
		case more:
			if i := next.match(after); i >= 0 {
				return i
			}
		case next.exact >= 0:
			return next.exact
		case next.end >= 0: // "/account/{$}" and "/account/" match "/account"
			return next.end
		case next.subtree >= 0:
			return next.subtree
		}
	}
	return n.subtree
}

// find returns the index of the pattern of a method and path, or -1. ServeMux prefers a
// pattern with a method, and lets GET match HEAD.
func (m *methods) find(method, path string) int {
	if m == nil {
		return -1
	}
	if tree := m.trees[method]; tree != nil {
		if i := tree.match(path); i >= 0 {
			return i
		}
	}
	if method == http.MethodHead {
		if tree := m.trees[http.MethodGet]; tree != nil {
			if i := tree.match(path); i >= 0 {
				return i
			}
		}
	}
	if tree := m.trees[""]; tree != nil {
		return tree.match(path)
	}
	return -1
}

// Errors of [Table.Find].
var (
	// ErrNone: no pattern matches.
	ErrNone = errors.New("no route matches")
	// ErrAmbiguous: a server may read the path in several ways, which would lead to
	// different routes.
	ErrAmbiguous = errors.New("the path can be read in several ways, which lead to different routes")
	// ErrPath: the path does not begin with a slash or is badly encoded.
	ErrPath = errors.New("the path does not begin with '/' or is badly encoded")
)

// Pattern returns the pattern of an index.
func (t *Table) Pattern(index int) Pattern { return t.patterns[index] }

// Find returns the index of the pattern of a request. host is canonical (see
// [canonical.Host]); one with a port matches patterns with that port, and else the patterns of its
// name. path is as the client sent it, encoded. The path "*" of OPTIONS counts as "/".
// Errors are ErrNone, ErrAmbiguous and ErrPath.
func (t *Table) Find(method, host, path string) (int, error) {
	if t.everything >= 0 {
		return t.everything, nil
	}
	if path == "*" {
		path = "/"
	}
	path, ok := canonical.Path(path)
	if !ok {
		return -1, ErrPath
	}
	index := t.find(method, host, path)
	if !isClear(path) {
		for other := range readings(path) {
			if t.find(method, host, other) != index {
				return -1, ErrAmbiguous
			}
		}
	}
	if index < 0 {
		return -1, ErrNone
	}
	return index, nil
}

// FindRequest is Find for a request whose host is valid.
func (t *Table) FindRequest(r *http.Request) (int, error) {
	if t.everything >= 0 {
		return t.everything, nil
	}
	host := ""
	if len(t.hosts) > 0 {
		host, _ = canonical.Host(r.Host)
	}
	return t.Find(r.Method, host, r.URL.EscapedPath())
}

func (t *Table) find(method, host, path string) int {
	path = path[1:]
	if len(t.hosts) > 0 {
		if i := t.hosts[host].find(method, path); i >= 0 {
			return i
		}
		if name, ok := withoutPort(host); ok {
			if i := t.hosts[name].find(method, path); i >= 0 {
				return i
			}
		}
	}
	return t.any.find(method, path)
}

// withoutPort removes the port of a canonical host.
func withoutPort(host string) (name string, had bool) {
	i := strings.LastIndexByte(host, ':')
	if i < 0 || strings.HasSuffix(host, "]") {
		return host, false
	}
	return host[:i], true
}
