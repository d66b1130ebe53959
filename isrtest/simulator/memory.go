package simulator

// noteKept notes that a process has a page in memory: it was served, fresh, in the
// moment in which it was asked for, and every call of a store takes time. (A stale one, and
// one that is being regenerated, may be what a flight was offered, and not in memory.)
func (w *world) noteKept(v *visitor, content string) {
	w.counts["served from memory"]++
	seen := v.life.pages[v.page]
	seen.kept = ""
	for _, g := range v.page.history {
		switch {
		case g.meta == nil || g.content != content:
		case !g.ours || seen.kept != "" && seen.kept != g.bodyKey:
			seen.kept = "" // nobody can tell which
			return
		default:
			seen.kept = g.bodyKey
		}
	}
}

// keptPage is a page that is in the memory of a process, if one is known.
func (w *world) keptPage() *page {
	for _, p := range w.pages {
		for _, n := range w.nodes {
			if n.life.pages[p].kept != "" {
				return p
			}
		}
	}
	return pick(w.rng, w.pages)
}

// checkWanted: bodies are immutable, and memory has room for all: what a process has
// there it does not fetch again, whatever is said of the page.
func (w *world) checkWanted(e event) {
	again := e.life.opening[e.body] > 0 // perhaps, after a failure
	e.life.opening[e.body]++
	for _, p := range w.pages {
		seen := e.life.pages[p]
		if seen.kept == e.body && !again {
			w.violate("a body in memory is not fetched again", "%s fetches one of %s", e.life.name, p.path)
		}
		if w.hasHad(p, e.body) {
			seen.kept = "" // it will be replaced
		}
	}
}

// hasHad says that META of a page has named a body.
func (w *world) hasHad(p *page, key string) bool {
	for _, g := range p.history {
		if g.meta != nil && g.bodyKey == key {
			return true
		}
	}
	return false
}
