package simulator

// noteKept records that a process has a page in memory: it was served, fresh, at the instant
// of the request, and every call of a store takes time. (A stale page, or one that is being
// regenerated, may come from a flight instead of memory.)
func (w *world) noteKept(v *visitor, content string) {
	w.counts["served from memory"]++
	seen := v.life.pages[v.page]
	seen.kept = ""
	for _, g := range v.page.history {
		switch {
		case g.meta == nil || g.content != content:
		case !g.ours || seen.kept != "" && seen.kept != g.bodyKey:
			seen.kept = "" // either of them may be
			return
		default:
			seen.kept = g.bodyKey
		}
	}
}

// keptPage returns a page that is known to be in a process's memory; nil if there is none.
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

// checkWanted: bodies are immutable and memory has room for all, so a process does not fetch
// a body again that it has in memory.
func (w *world) checkWanted(e event) {
	again := e.life.opening[e.body] > 0 // perhaps, after a failure
	e.life.opening[e.body]++
	for _, p := range w.pages {
		seen := e.life.pages[p]
		if seen.kept == e.body && !again {
			w.violate("a body in memory is not fetched again", "%s fetches a body of %s again", e.life.name, p.path)
		}
		if w.hasHad(p, e.body) {
			seen.kept = "" // it will be replaced
		}
	}
}

// hasHad reports whether META of a page has named a body.
func (w *world) hasHad(p *page, key string) bool {
	for _, g := range p.history {
		if g.meta != nil && g.bodyKey == key {
			return true
		}
	}
	return false
}
