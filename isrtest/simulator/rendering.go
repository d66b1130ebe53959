package simulator

import "time"

// checkRender: a page is rendered only when it has to be, and by one process at a
// time. What excuses a process is decided per rendering: a fault elsewhere does not
// keep the others from being judged.
func (w *world) checkRender(rd *rendering) {
	seen := rd.life.pages[rd.page]
	seen.rendered = append(seen.rendered, rd)
	w.counts["render"]++
	w.log("%s renders %s, the %d. time: %s", rd.life.name, rd.page.path, rd.number, rd.content)
	rd.lease = w.leaseOf(rd.life, rd.page)
	if rd.lease != nil && rd.life.lastFailure().After(rd.lease.at.Add(-outageTail)) {
		rd.lease = nil // it may be for visitors who cannot wait for the store, and needs none
	}
	if w.profile.calm() && rd.lease == nil {
		w.violate("who renders has the lease", "%s renders %s without", rd.life.name, rd.page.path)
	}
	if rd.lease == nil || !w.pace.ordered() && !w.profile.prompt {
		return
	}
	w.checkDue(rd, seen)
	w.checkAlone(rd)
}

// outageTail is how long after its last failure a process may still do without the
// store: until a probe has been answered, which begins 15 s later at most and takes
// 5 s at most.
const outageTail = 30 * time.Second

// checkDue: META is read again under the lease, so that a page which another process
// has published before the lease was taken is not rendered once more.
func (w *world) checkDue(rd *rendering, seen *view) {
	g := rd.page.current()
	if g == nil || g.step >= rd.lease.step || seen.forcing || rd.life.lastFailure().After(rd.lease.at) {
		return
	}
	if _, err := w.shelf.get(g.bodyKey); err != nil {
		return
	}
	if left := w.freshFor(rd.page, g, rd.began.Add(rd.life.node.skew)); left > 0 {
		w.violate("there is one render per expiry", "%s renders %s, of which %s is fresh for %d s, and was there before the lease was taken",
			rd.life.name, rd.page.path, w.generationName(g), left)
	}
	w.counts["judged due"]++
}

// checkAlone: the holder of a lease gives its rendering up by its own clock before
// anybody else can take the lease, unless the other's clock is ahead of its own, or
// it was frozen.
func (w *world) checkAlone(rd *rendering) {
	for _, n := range w.nodes {
		for _, before := range n.life.pages[rd.page].rendered {
			if before == rd || before.lease == nil || w.isOver(before) || before.lease == rd.lease ||
				rd.life.node.skew > n.skew || n.life.frozen || n.life.thawed.After(before.lease.at) {
				continue
			}
			w.violate("there is one render at a time", "%s renders %s, and so does %s", rd.life.name, rd.page.path, n.life.name)
		}
	}
	w.counts["judged alone"]++
}

// leaseOf is the lease that a process took last for a page, nil if it has none.
func (w *world) leaseOf(l *life, p *page) *grant {
	held := p.rows.lock()
	if held == nil || w.holderOf(held) != l {
		return nil
	}
	return w.grants[held.token]
}

// freshFor is for how many more seconds a generation is fresh by a clock, or at most
// zero.
func (w *world) freshFor(p *page, g *generation, now time.Time) int64 {
	if g.withdrawn {
		return 0
	}
	purge := p.rows["PURGE"]
	if seq := numberOf(purge, "seq"); g.ours && seq > g.purgeSeq || !g.ours && seq > 0 && g.generatedAt <= numberOf(purge, "at")+60 {
		return 0
	}
	left := g.pinned - now.Unix()
	if g.generatedAt <= now.Unix()+120 {
		left = max(left, g.generatedAt+g.revalidate-now.Unix())
	}
	return left
}

func (w *world) isOver(rd *rendering) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return rd.over
}

// isRendering says that a process renders a page.
func (w *world) isRendering(p *page) bool {
	for _, n := range w.nodes {
		for _, rd := range n.life.pages[p].rendered {
			if !w.isOver(rd) {
				return true
			}
		}
	}
	return false
}
