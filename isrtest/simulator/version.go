package simulator

import (
	"maps"
	"slices"
	"strings"
)

// checkVersions: a written version never changes, except for its expiry. The version that META
// names has none.
func (w *world) checkVersions(p *page, before, after partition) {
	const invariant = "a version never changes"
	for _, sk := range slices.Sorted(maps.Keys(before)) {
		if strings.HasPrefix(sk, "VER#") && after[sk] != nil && !same(content(before[sk]), content(after[sk])) {
			w.violate(invariant, "a version of %s changed", p.path)
		}
	}
	current := textOf(after["META"], "current_sk")
	if current == "" {
		return
	}
	version := after[current]
	switch {
	case version == nil:
		w.violate("META names an existing version", "the version of %s does not exist", p.path)
	case version["ttl"] != nil:
		w.violate("the current version does not expire", "the version of %s has a ttl", p.path)
	}
}

// content returns a version without the attributes that may change.
func content(row item) item {
	row = maps.Clone(row)
	delete(row, "ttl")
	return row
}

// checkKept: with history, a publish writes the version of its generation and sets the expiry of the
// one before.
func (w *world) checkKept(p *page, before partition, g *generation) {
	current := textOf(p.rows["META"], "current_sk")
	if w.route.History == 0 {
		if current != "" {
			w.violate("without history META names no version", "META of %s does", p.path)
		}
		return
	}
	const invariant = "with history a publish writes a version"
	if current != "VER#"+g.generation {
		w.violate(invariant, "META of %s does not name the version of %s", p.path, w.generationName(g))
		return
	}
	version := partition{"META": p.rows[current]}.meta()
	if version == nil || !version.ours || version.generation != g.generation || version.bodyKey != g.bodyKey ||
		version.sha256 != g.sha256 || !version.generatedAt.Equal(g.generatedAt) || version.etag != g.etag {
		w.violate(invariant, "the version of %s of %s differs from META", w.generationName(g), p.path)
	}
	w.checkSuperseded(p, before, current)
}

// checkSuperseded: the version that META named before has an expiry, if it still exists.
func (w *world) checkSuperseded(p *page, before partition, current string) {
	named := textOf(before["META"], "current_sk")
	if named != "" && named != current && p.rows[named] != nil && p.rows[named]["ttl"] == nil {
		w.violate("a superseded version expires", "the former version of %s has no ttl", p.path)
	}
}
