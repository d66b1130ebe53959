package expr

import (
	"maps"
	"slices"
)

// Roots returns the top-level attributes that p selects, wholly or in part, sorted.
func (p *Projection) Roots() []string {
	if p == nil {
		return nil
	}
	return slices.Sorted(maps.Keys(p.root.names))
}

// Roots returns the top-level attributes that c reads, sorted.
func (c *Condition) Roots() []string {
	if c == nil {
		return nil
	}
	found := map[string]struct{}{}
	c.roots(c.cond, found)
	return slices.Sorted(maps.Keys(found))
}

func (b *binding) roots(c *cond, found map[string]struct{}) {
	for _, child := range c.children {
		b.roots(child, found)
	}
	for _, arg := range c.args {
		for arg.kind == operandSize {
			arg = arg.args[0]
		}
		if arg.kind == operandPath {
			found[b.name(arg.path[0])] = struct{}{}
		}
	}
}
