package simulator

import "time"

// checkRender: a page is rendered only when necessary, and by one process at a time. Exceptions
// are decided per rendering: a fault elsewhere does not excuse the others.
func (w *world) checkRender(rd *rendering) {
	seen := rd.life.pages[rd.page]
	seen.rendered = append(seen.rendered, rd)
	w.counts["render"]++
	rd.page.rendered[rd.content] = rd.seq
	rd.page.renderedAt[rd.content] = rd.began
	w.log("%s renders %s, render %d: %s", rd.life.name, rd.page.path, rd.number, rd.content)
	rd.lease = w.leaseOf(rd)
	w.checkCondition(rd)
	if w.profile.calm() && rd.lease == nil {
		w.violate("a render needs the lease", "%s renders %s without it", rd.life.name, rd.page.path)
	}
	switch {
	case !w.pace.ordered() && !w.profile.prompt:
	case rd.lease == nil && !w.pace.ordered(): // it may belong to a fill
	case rd.lease == nil:
		w.checkUnstored(rd, seen)
	default:
		w.checkDue(rd, seen)
		if w.holds(rd.lease) {
			w.checkAlone(rd)
		}
	}
}

// checkCondition: a process that knows of a purge of a page does not have it validated.
func (w *world) checkCondition(rd *rendering) {
	g := rd.page.current()
	if !rd.asked || g == nil || !g.ours {
		return
	}
	w.counts["conditional render"]++
	if purge := max(numberOf(rd.page.rows["PURGE"], "seq"), w.covering(rd.page, g.tag).seq); g.purgeSeq < purge && purge <= rd.knew {
		w.violate("a purged page is rendered without conditions", "%s asks for %s of sequence %d, which was purged at %d", rd.life.name, w.generationName(g), g.purgeSeq, purge)
	}
}

// repeats reports whether a rendering repeats the one before it under the same lease, whose answer, a
// 304, did not renew the page: within the time of a lease, and before anything was published under it.
func (w *world) repeats(rd *rendering, g *grant) bool {
	if rd.asked || g.published > 0 {
		return false
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	var before *rendering
	for _, other := range rd.life.pages[rd.page].rendered {
		if other != rd && other.lease == g {
			before = other
		}
	}
	return before != nil && !before.same.IsZero() && rd.began.Sub(before.same) < w.pace.lease()
}

// unreadTail is how long before it takes the lease a process may have failed to read the body.
const unreadTail = 10 * time.Second

// outageTail is how long after its last failure a process may still render without the store:
// until a probe succeeds, which begins at most 15 s later and takes at most 5 s.
const outageTail = 30 * time.Second

// checkUnstored: only a process whose store has failed renders without the lease, for the visitors
// that cannot wait, and once for all of them.
func (w *world) checkUnstored(rd *rendering, seen *view) {
	w.counts["render without the lease"]++
	failed := rd.life.lastFailure()
	if rd.life.thawed.After(failed) {
		failed = rd.life.thawed // its calls may have timed out before
	}
	if !rd.life.frozen && rd.began.Sub(failed) > outageTail && !w.replacesPurged(rd, seen) {
		w.violate("a render needs the lease", "%s renders %s without it, and no store has failed since %s", rd.life.name, rd.page.path, failed.Sub(w.began))
	}
	for _, before := range seen.rendered {
		if before != rd && before.lease == nil && !w.isOver(before) && w.mayHaveReloaded(rd.life, rd.page).Before(before.began) {
			w.violate("visitors that cannot wait for a store share a render", "%s renders %s twice at once without it", rd.life.name, rd.page.path)
		}
	}
}

// replacesPurged reports whether a render without the lease is for visitors who do not take the
// one before, because its process did not know yet of a purge that covers it.
func (w *world) replacesPurged(rd *rendering, seen *view) bool {
	for _, before := range seen.rendered {
		purged := max(numberOf(rd.page.rows["PURGE"], "seq"), w.covering(rd.page, tagOf(before.content)).seq)
		if before != rd && before.lease == nil && before.knew < purged {
			return true
		}
	}
	return false
}

// noteReload records that a process may read a page again, because it changed or read it. It is
// safe for concurrent use.
func (w *world) noteReload(l *life, p *page) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.pages[p].reloaded = time.Now()
}

// mayHaveReloaded returns when a process last received a reason to read a page again and to retire
// its flights.
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
	for _, c := range l.pages[p].posts {
		since := c.changed
		if !since.IsZero() && l.thawed.After(since) {
			since = l.thawed // until then it was not under way
		}
		if !since.IsZero() && time.Since(since) < followTime+purgeTime {
			return time.Now() // its purge may be under way, and retires flights also if it fails
		}
	}
	return at
}

// checkDue: META is read again under the lease, so a page that another process published before
// the lease was taken is not rendered again.
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
	if w.tears.tornSince(rd.page.pk, "META", rd.lease.at) {
		return // it may have read META of before the publish, which refuses its own
	}
	if rd.lease.at.Sub(rd.life.lastUnread()) < unreadTail {
		return // a body that exists and repeatedly cannot be read counts as missing
	}
	if left := w.freshFor(rd.page, g, rd.began.Add(rd.life.node.skew)); left > 0 {
		w.violate("there is one render per expiry", "%s renders %s, of which %s is fresh for %v, and was published before the lease was taken",
			rd.life.name, rd.page.path, w.generationName(g), left)
	}
	w.counts["judged due"]++
}

// checkAlone: the holder of a lease abandons its render, by its own clock, before another process
// can take the lease, unless that process's clock is ahead of its own or it was frozen.
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

// leaseOf returns the lease under which a page is rendered, nil if there is none. A fill renders at
// the instant at which it has read the page, or then SEQ, or the body of a page that is purged
// during the read, or, if it does not follow the log, the marks that cover the page, and no other
// render of its process begins in that step. A lease that the process has released, or that ended with
// a publish, is none. In real time, which has no such instant, it is the process's lease, unless a
// store has failed.
func (w *world) leaseOf(rd *rendering) *grant {
	g := rd.life.pages[rd.page].lease
	switch {
	case g == nil, w.repeats(rd, g):
	case rd.life.hasReleased(g), g.published > 0 && !w.holds(g):
		return nil
	case w.pace.ordered() && !rd.life.sequenceRead().Equal(rd.began) && !w.lastReadAt(rd.life, rd.page).Equal(rd.began) && !rd.life.bodyOpened().Equal(rd.began) && !(w.holds(g) && rd.life.markRead().Equal(rd.began)):
		return nil
	case !w.pace.ordered() && (!w.holds(g) || rd.life.lastFailure().After(g.at.Add(-outageTail))):
		return nil
	}
	return g
}

// holds reports whether a lease is on LOCK.
func (w *world) holds(g *grant) bool {
	held := g.page.rows.lock()
	return held != nil && held.token == g.token
}

// freshFor returns for how much longer a generation is fresh by a clock; zero or less if it is not.
func (w *world) freshFor(p *page, g *generation, now time.Time) time.Duration {
	if g.withdrawn {
		return 0
	}
	purge := p.rows["PURGE"]
	if seq := numberOf(purge, "seq"); g.ours && seq > g.purgeSeq || !g.ours && seq > 0 && g.generatedAt.Unix() <= numberOf(purge, "at")+60 {
		return 0
	}
	marked := w.covering(p, g.tag)
	if g.ours && marked.seq > g.purgeSeq || !g.ours && marked.seq > 0 && g.generatedAt.Unix() <= marked.at+60 {
		return 0
	}
	left := time.Unix(g.pinned, 0).Sub(now)
	if g.generatedAt.Sub(now) <= 120*time.Second {
		left = max(left, g.freshUntil().Sub(now))
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

// isRendering reports whether a process renders a page.
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
