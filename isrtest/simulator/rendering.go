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
	rd.lease = w.leaseOf(rd)
	if w.profile.calm() && rd.lease == nil {
		w.violate("who renders has the lease", "%s renders %s without", rd.life.name, rd.page.path)
	}
	switch {
	case !w.pace.ordered() && !w.profile.prompt:
	case rd.lease == nil && !w.pace.ordered(): // it may be that of a search, or not
	case rd.lease == nil:
		w.checkUnstored(rd, seen)
	default:
		w.checkDue(rd, seen)
		if w.holds(rd.lease) {
			w.checkAlone(rd)
		}
	}
}

// outageTail is how long after its last failure a process may still do without the
// store: until a probe has been answered, which begins 15 s later at most and takes
// 5 s at most.
const outageTail = 30 * time.Second

// checkUnstored: only a process that a store has failed renders without the lease, for
// the visitors who cannot wait, and once for all of them.
func (w *world) checkUnstored(rd *rendering, seen *view) {
	w.counts["render without the lease"]++
	failed := rd.life.lastFailure()
	if rd.life.thawed.After(failed) {
		failed = rd.life.thawed // its calls may have run out of time before
	}
	if !rd.life.frozen && rd.began.Sub(failed) > outageTail {
		w.violate("who renders has the lease", "%s renders %s without, and no store has failed it since %s", rd.life.name, rd.page.path, failed.Sub(w.began))
	}
	for _, before := range seen.rendered {
		if before != rd && before.lease == nil && !w.isOver(before) && w.mayHaveReloaded(rd.life, rd.page).Before(before.began) {
			w.violate("those who cannot wait for a store share a render", "%s renders %s twice at once without it", rd.life.name, rd.page.path)
		}
	}
}

// noteReload notes that a process may read a page again, having changed or read it. It
// is safe for concurrent use.
func (w *world) noteReload(l *life, p *page) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.pages[p].reloaded = time.Now()
}

// mayHaveReloaded is when a process heard something last for which it reads a page
// again, and lets nobody wait for what is under way.
func (w *world) mayHaveReloaded(l *life, p *page) time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	at := l.log.heard
	if read := l.pages[p].readAt; read.After(at) {
		at = read
	}
	if reloaded := l.pages[p].reloaded; reloaded.After(at) {
		at = reloaded
	}
	return at
}

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
	if w.isWithdrawn(rd) {
		return
	}
	if left := w.freshFor(rd.page, g, rd.began.Add(rd.life.node.skew)); left > 0 {
		w.violate("there is one render per expiry", "%s renders %s, of which %s is fresh for %d s, and was there before the lease was taken",
			rd.life.name, rd.page.path, w.generationName(g), left)
	}
	w.counts["judged due"]++
}

// checkAlone: the holder of a lease gives its rendering up by its own clock before
// anybody else can take the lease, unless that was one whose clock is ahead of its own,
// or it was frozen.
func (w *world) checkAlone(rd *rendering) {
	for _, n := range w.nodes {
		for _, before := range n.life.pages[rd.page].rendered {
			if before == rd || before.lease == nil || w.isOver(before) || before.lease == rd.lease ||
				before.lease.early || n.life.frozen || n.life.thawed.After(before.lease.at) {
				continue
			}
			w.violate("there is one render at a time", "%s renders %s, and so does %s", rd.life.name, rd.page.path, n.life.name)
		}
	}
	w.counts["judged alone"]++
}

// leaseOf is the lease under which a page is rendered, nil if there is none. A search
// renders in the very moment in which it has read SEQ, and no other rendering of its
// process begins in the step of that answer. In real time, which has no such moment,
// it is the lease that the process has, unless a store has failed it.
func (w *world) leaseOf(rd *rendering) *grant {
	g := rd.life.pages[rd.page].lease
	switch {
	case g == nil:
	case w.pace.ordered() && !rd.life.sequenceRead().Equal(rd.began):
		return nil
	case !w.pace.ordered() && (!w.holds(g) || rd.life.lastFailure().After(g.at.Add(-outageTail))):
		return nil
	}
	return g
}

// holds says that a lease is on LOCK.
func (w *world) holds(g *grant) bool {
	held := g.page.rows.lock()
	return held != nil && held.token == g.token
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

func (w *world) isWithdrawn(rd *rendering) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return rd.life.pages[rd.page].withdrawn
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
