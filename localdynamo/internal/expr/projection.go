package expr

import (
	"maps"
	"slices"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Projection is a set of document paths that do not overlap.
type Projection struct {
	root  *branch
	names []string // the names of root, sorted
}

// branch is a node in the tree of a projection's or an update's paths. It branches by
// name or by index, never by both.
type branch struct {
	first   path // the first path through this node, for messages
	leaf    bool // a path ends here
	names   map[string]*branch
	indexes map[int]*branch
	order   []int // the keys of indexes, sorted; set by sort
}

// Projection binds a projection expression. A nil text returns a nil Projection.
func (s *Scope) Projection(text *string) (*Projection, error) {
	if text == nil {
		return nil, nil
	}
	b, err := s.bind(KindProjection, *text)
	if err != nil {
		return nil, err
	}
	root := &branch{}
	for _, p := range b.paths {
		if err := b.insert(root, p); err != nil {
			return nil, err
		}
	}
	return newProjection(root), nil
}

// newProjection returns the projection of a complete tree.
func newProjection(root *branch) *Projection {
	root.sort()
	return &Projection{root: root, names: slices.Sorted(maps.Keys(root.names))}
}

// sort sets order, here and below.
func (n *branch) sort() {
	n.order = slices.Sorted(maps.Keys(n.indexes))
	for _, next := range n.names {
		next.sort()
	}
	for _, next := range n.indexes {
		next.sort()
	}
}

// Roots returns the top-level attributes that p selects, wholly or in part, sorted.
func (p *Projection) Roots() []string {
	if p == nil {
		return nil
	}
	return p.names
}

// insert validates a path and adds it to the tree. Two paths overlap if one is a prefix
// of the other, and conflict if one has a map where the other has a list.
func (b *binding) insert(root *branch, p path) error {
	if err := b.checkPath(p); err != nil {
		return err
	}
	at := root
	for i, s := range p {
		if at.leaf {
			return b.pathError("overlap", at.first, p)
		}
		next, ok := at.step(s, b)
		if !ok {
			return b.pathError("conflict", at.first, p)
		}
		if next.first == nil {
			next.first = p
		} else if i == len(p)-1 {
			return b.pathError("overlap", next.first, p)
		}
		at = next
	}
	at.leaf = true
	return nil
}

func (b *binding) pathError(how string, one, two path) error {
	return b.errorf("Two document paths %s with each other; must remove or rewrite one of these paths; path one: %s, path two: %s", how, b.formatPath(one), b.formatPath(two))
}

// step returns the branch that s leads to, creating it if it is missing. ok is false
// if n branches the other way.
func (n *branch) step(s step, b *binding) (next *branch, ok bool) {
	if s.kind == stepIndex {
		if n.names != nil {
			return nil, false
		}
		return child(&n.indexes, s.index), true
	}
	if n.indexes != nil {
		return nil, false
	}
	return child(&n.names, b.name(s)), true
}

func child[K comparable](m *map[K]*branch, key K) *branch {
	if *m == nil {
		*m = make(map[K]*branch)
	}
	next := (*m)[key]
	if next == nil {
		next = &branch{}
		(*m)[key] = next
	}
	return next
}

// Apply returns the selected parts of a document: maps keep the selected members, lists
// the selected elements without gaps. The result shares values with the document.
func (p *Projection) Apply(d Document) map[string]types.AttributeValue {
	out := make(map[string]types.AttributeValue)
	d.Select(p.names, func(name string, v types.AttributeValue) {
		if v := p.root.names[name].prune(v); v != nil {
			out[name] = v
		}
	})
	return out
}

func (n *branch) prune(v types.AttributeValue) types.AttributeValue {
	if n.leaf {
		return v
	}
	switch v := v.(type) {
	case *types.AttributeValueMemberM:
		if kept := n.pruneMap(v.Value); len(kept) > 0 {
			return &types.AttributeValueMemberM{Value: kept}
		}
	case *types.AttributeValueMemberL:
		var kept []types.AttributeValue
		for _, i := range n.order {
			if i >= len(v.Value) {
				break
			}
			if e := n.indexes[i].prune(v.Value[i]); e != nil {
				kept = append(kept, e)
			}
		}
		if len(kept) > 0 {
			return &types.AttributeValueMemberL{Value: kept}
		}
	}
	return nil
}

// pruneMap walks the smaller of the map and the branch.
func (n *branch) pruneMap(m map[string]types.AttributeValue) map[string]types.AttributeValue {
	kept := make(map[string]types.AttributeValue)
	keep := func(name string) {
		next, v := n.names[name], m[name]
		if next == nil || v == nil {
			return
		}
		if e := next.prune(v); e != nil {
			kept[name] = e
		}
	}
	if len(m) < len(n.names) {
		for name := range m {
			keep(name)
		}
		return kept
	}
	for name := range n.names {
		keep(name)
	}
	return kept
}
