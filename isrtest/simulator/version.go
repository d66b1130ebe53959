package simulator

import (
	"maps"
	"slices"
	"strings"
)

// checkVersions: a version, once written, is changed by nobody, but for when it
// may be collected; the one that META names has no such time.
func (w *world) checkVersions(p *page, before, after partition) {
	const invariant = "a version never changes"
	for _, sk := range slices.Sorted(maps.Keys(before)) {
		if strings.HasPrefix(sk, "VER#") && after[sk] != nil && !same(content(before[sk]), content(after[sk])) {
			w.violate(invariant, "a version of %s did", p.path)
		}
	}
	current := textOf(after["META"], "current_sk")
	if current == "" {
		return
	}
	version := after[current]
	switch {
	case version == nil:
		w.violate("META names a version that is there", "that of %s is not", p.path)
	case version["ttl"] != nil:
		w.violate("the current version is not collected", "that of %s has a ttl", p.path)
	}
}

// content is a version without what may change.
func content(row item) item {
	row = maps.Clone(row)
	delete(row, "ttl")
	return row
}

// checkKept: with history, a publish writes the version of what it publishes, and
// the one before may be collected some day.
func (w *world) checkKept(p *page, before partition, g *generation) {
	current := textOf(p.rows["META"], "current_sk")
	if w.route.History == 0 {
		if current != "" {
			w.violate("without history META names no version", "that of %s does", p.path)
		}
		return
	}
	const invariant = "with history a publish writes a version"
	if current != "VER#"+g.generation {
		w.violate(invariant, "META of %s does not name that of %s", p.path, w.generationName(g))
		return
	}
	version := partition{"META": p.rows[current]}.meta()
	if version == nil || !version.ours || version.generation != g.generation || version.bodyKey != g.bodyKey ||
		version.sha256 != g.sha256 || version.generatedAt != g.generatedAt || version.etag != g.etag {
		w.violate(invariant, "that of %s of %s is not what META says", w.generationName(g), p.path)
	}
	w.checkSuperseded(p, before, current)
}

// checkSuperseded: the version that META named before may be collected some day,
// if it is kept still.
func (w *world) checkSuperseded(p *page, before partition, current string) {
	named := textOf(before["META"], "current_sk")
	if named != "" && named != current && p.rows[named] != nil && p.rows[named]["ttl"] == nil {
		w.violate("a superseded version may be collected", "that of %s has no ttl", p.path)
	}
}
