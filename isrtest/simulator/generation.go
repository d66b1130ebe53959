package simulator

import (
	"cmp"
	"fmt"
	"time"
)

// A generation is one state of a page's META, recorded after the step that wrote it.
type generation struct {
	*meta
	index   int
	step    int
	at      time.Time // true time
	content string    // of its body
	life    *life     // nil for another service
}

// current returns the state of META, nil if the row does not exist.
func (p *page) current() *generation {
	if len(p.history) == 0 || p.history[len(p.history)-1].meta == nil {
		return nil
	}
	return p.history[len(p.history)-1]
}

// inspect reads the table after a call was executed.
func (w *world) inspect(c *call) {
	w.noteSequence(c)
	if c.kind == reading && c.note != nil && !c.gone.Load() {
		if len(c.pks) == 1 {
			c.note.index.Store(int64(len(w.pageOf(c.pks[0]).history) - 1))
		}
	}
	if c.kind == reading {
		return
	}
	for _, pk := range c.pks {
		p := w.pageOf(pk)
		if p == nil {
			continue
		}
		if c.op == "delete "+w.rowName(p.pk, "LOCK") {
			w.checkRelease(p, c)
		}
		w.look(p, c)
	}
}

// look reads a page's rows and checks the changes. The call is nil for writes of other
// services.
func (w *world) look(p *page, c *call) {
	before := p.rows
	w.outside.do(func() { p.rows = w.readPartition(p.pk) })
	metaChanged := !same(before["META"], p.rows["META"])
	if c == nil {
		// Another service's attribute is no generation.
		if was, is := before.meta(), p.rows.meta(); is != nil && (was == nil || *was != *is) {
			w.noteGeneration(p, nil)
		}
		return
	}
	w.checkLock(p, c, before.lock(), p.rows.lock(), metaChanged)
	w.checkRequests(p, c, before, p.rows)
	if metaChanged {
		w.checkChange(p, c, before)
	}
	w.checkVersions(p, before, p.rows)
}

// checkChange checks a change of META by a node: a publish, a withdrawal, or an assertion
// of an earlier generation.
func (w *world) checkChange(p *page, c *call, before partition) {
	var earlier *generation
	is, was := p.rows.meta(), before.meta()
	if is != nil {
		earlier = cmp.Or(p.published(is.publication()), p.byID(is.generation))
	}
	g := w.noteGeneration(p, c.life)
	switch {
	case g.meta == nil:
		w.violate("META is never deleted", "%s deleted META of %s", c.life.name, p.path)
	case earlier != nil && is.renews(was):
		w.checkRenewal(p, c, before, g)
	case earlier != nil:
		w.checkAssertion(p, c, before, g, earlier)
	case g.withdrawn:
		w.checkWithdrawal(p, c, before, g)
	default:
		w.checkPublish(p, c, before, g)
	}
}

// noteGeneration appends the state of META to the history.
func (w *world) noteGeneration(p *page, by *life) *generation {
	g := &generation{meta: p.rows.meta(), index: len(p.history), step: w.step, at: time.Now(), life: by}
	if g.meta != nil && !g.withdrawn {
		if b, err := w.shelf.get(g.bodyKey); err == nil {
			g.content, _ = contentOf(b.content)
		} else if w.shelf.lost[g.bodyKey] {
			g.content = g.meta.content
		}
		w.log("  META of %s: %s, version %s, made at %+ds for %ds, sequence %d", p.path, g.content, w.versionName(g.version), w.seconds(g.generatedAt.Unix()), g.revalidate, g.purgeSeq)
	}
	p.history = append(p.history, g)
	return g
}

// renews reports whether a state of META is a renewal of the one before: the same generation, made at
// another time. A rollback to the generation that is current is a pin, and keeps the time.
func (m *meta) renews(was *meta) bool {
	return was != nil && m.ours && was.ours && !was.withdrawn && m.generation == was.generation && !m.generatedAt.Equal(was.generatedAt)
}

// checkRenewal: a renewal is a publish that keeps the generation, its body and its version. No purge
// that covered the state before is lost.
func (w *world) checkRenewal(p *page, c *call, before partition, g *generation) {
	w.counts["renewal"]++
	was := before.meta()
	w.checkRight(p, c, before.lock())
	w.checkVersion(p, c, before, g)
	w.checkReplaced(p, c, g)
	w.checkUnmixed(p, before, g)
	w.checkWhole(p, g)
	w.checkPin(p, c, before, g)
	w.checkDone(p, before, g)
	const invariant = "a renewal keeps the generation"
	if g.bodyKey != was.bodyKey || g.sha256 != was.sha256 || g.length != was.length || g.etag != was.etag || g.tag != was.tag ||
		!same(item{"": before["META"]["current_sk"]}, item{"": p.rows["META"]["current_sk"]}) {
		w.violate(invariant, "%s of %s was renewed and is another content", w.generationName(g), p.path)
	}
	if purge := max(numberOf(p.rows["PURGE"], "seq"), w.covering(p, was.tag).seq); was.purgeSeq < purge && purge <= g.purgeSeq {
		w.violate("no renewal undoes a purge", "%s of %s was purged at %d, and has sequence %d now", w.generationName(g), p.path, purge, g.purgeSeq)
	}
	if p.never[g.publication()] {
		w.violate("answers are definite", "%s of %s was renewed after that had been reported as failed", w.generationName(g), p.path)
	}
}

// checkPublish checks all that a publish promises.
func (w *world) checkPublish(p *page, c *call, before partition, g *generation) {
	w.counts["publish"]++
	for _, n := range w.nodes {
		if n.life.collecting > 0 {
			w.counts["publish during a collection"]++
			break
		}
	}
	w.checkRight(p, c, before.lock())
	w.checkVersion(p, c, before, g)
	w.checkReplaced(p, c, g)
	w.checkUnmixed(p, before, g)
	w.checkWhole(p, g)
	w.checkKept(p, before, g)
	w.checkPin(p, c, before, g)
	w.checkDone(p, before, g)
	if p.never[g.publication()] {
		w.violate("answers are definite", "%s of %s was published after its publish had been reported as failed", w.generationName(g), p.path)
	}
}

// checkWithdrawal: only the holder of the lease withdraws what it has read, and the change
// is logged. From then on the earlier generations are not served (see told).
func (w *world) checkWithdrawal(p *page, c *call, before partition, g *generation) {
	w.counts["withdrawal"]++
	w.checkRight(p, c, before.lock())
	w.checkVersion(p, c, before, g)
	w.checkPin(p, c, before, g)
	w.checkLogged(p, g)
	w.checkSuperseded(p, before, "")
	const invariant = "a withdrawn page is not served"
	was := before.meta()
	switch {
	case was == nil || was.withdrawn:
		w.violate(invariant, "%s withdrew %s, which had no entry", c.life.name, p.path)
	case !g.ours || g.bodyKey != was.bodyKey:
		w.violate(invariant, "%s is withdrawn, and has another body", p.path)
	case g.revalidate != 0 || g.stale != 0 || g.pinned != 0 || textOf(p.rows["META"], "current_sk") != "":
		w.violate(invariant, "%s is withdrawn, and may be served", p.path)
	case p.never[g.publication()]:
		w.violate("answers are definite", "%s was withdrawn after the withdrawal had been reported as failed", p.path)
	}
}

// checkRight: the publisher holds the lease, publishes once, and releases it.
func (w *world) checkRight(p *page, c *call, held *lock) {
	const invariant = "only the holder of the lease publishes"
	if held == nil {
		w.violate(invariant, "%s published %s, without a lease", c.life.name, p.path)
		return
	}
	g := w.grants[held.token]
	in := w.intentOf(p)
	switch {
	case g == nil, g.pause, g.life != c.life, in == nil, in.token != held.token:
		w.violate(invariant, "%s published %s, and %s held the lease", c.life.name, p.path, w.holderName(held))
		return
	case held.expires <= w.earliestOf(c):
		w.violate("no publish after the lease expired", "%s sent the publish of %s %d s late by its own clock", c.life.name, p.path, w.clockOf(c)-held.expires)
	case p.rows.lock() != nil:
		w.violate("a publish releases the lease", "LOCK of %s still exists", p.path)
	}
	if g.published++; g.published > 1 {
		w.violate("at most one publish per lease", "%s published %s %d times under %s", c.life.name, p.path, g.published, w.trace.name("lease", g.token))
	}
}

// checkVersion: each of isr's writes increments the fence by one. After another service
// replaced the row, it restarts at the time of the writer's clock. No value occurs
// twice.
func (w *world) checkVersion(p *page, c *call, before partition, g *generation) {
	if other := p.versions[g.version]; other != "" {
		w.violate("no version is used twice", "version %d of %s belonged to another generation", g.version, p.path)
	}
	p.versions[g.version] = g.generation
	const invariant = "isr.v never decreases"
	if was := numberOf(mapOf(before["META"], "isr"), "v"); was > 0 {
		if g.version != was+1 {
			w.violate(invariant, "%s of %s has version %s after %s", w.generationName(g), p.path, w.versionName(g.version), w.versionName(was))
		}
	} else if now := w.clockOf(c); g.version/1000 > now {
		w.violate(invariant, "%s of %s starts with version %s, later than its writer's time, %d s", w.generationName(g), p.path, w.versionName(g.version), now)
	}
}

// checkReplaced: a generation replaces what was current when its render began, and carries
// the sequence of that time.
func (w *world) checkReplaced(p *page, c *call, g *generation) {
	rd := c.life.pages[p].renderingOf(g.content)
	if rd == nil {
		w.violate("what is published was rendered", "%s published %s without having rendered it", c.life.name, p.path)
		return
	}
	if g.index > 0 {
		if last := p.history[g.index-1]; last.step >= rd.step {
			w.violate("no generation is lost", "%s of %s, whose rendering began in step %d, replaced %s of step %d", w.generationName(g), p.path, rd.step, w.generationName(last), last.step)
		}
	}
	if began := rd.began.Add(c.life.node.skew); g.generatedAt.After(began) {
		w.violate("generated_at is when rendering began", "%s of %s states a time %v later", w.generationName(g), p.path, g.generatedAt.Sub(began))
	}
	if g.purgeSeq > rd.seq {
		w.violate("a purge during a render is not lost", "%s of %s has sequence %d, and its rendering began at %d", w.generationName(g), p.path, g.purgeSeq, rd.seq)
	}
	// A render without the lease, for visitors that could not wait for the store, may become
	// the first generation, with the sequence of its time.
	unstored := g.index == 0 && rd.lease == nil
	if unstored {
		w.counts["publish of a render without the lease"]++
	}
	if in := w.intentOf(p); in != nil && g.purgeSeq < in.seq && !unstored {
		w.violate("the sequence is not older than META", "%s of %s has sequence %d, and its process knew %d when it had read META", w.generationName(g), p.path, g.purgeSeq, in.seq)
	}
}

// renderingOf returns the latest rendering of a content; nil if there is none.
func (v *view) renderingOf(content string) *rendering {
	for i := len(v.rendered) - 1; i >= 0; i-- {
		if v.rendered[i].content == content {
			return v.rendered[i]
		}
	}
	return nil
}

// intentOf returns the intent of the process that published the current META; nil if
// there is none.
func (w *world) intentOf(p *page) *intent {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.intents[p.rows.meta().publication()]
}

// checkUnmixed: all of META belongs to one generation, except other services' attributes,
// which are unchanged.
func (w *world) checkUnmixed(p *page, before partition, g *generation) {
	const invariant = "META is of one generation"
	switch {
	case !g.ours:
		w.violate(invariant, "the map isr of %s does not describe its content", p.path)
	case g.content != g.meta.content || g.etag != etagOf(g.content):
		w.violate(invariant, "META of %s has the body %s, the header of %s and the etag %s", p.path, g.content, g.meta.content, g.etag)
	}
	for _, name := range externalAttributes() {
		if was := before["META"][name]; !same(item{name: was}, item{name: p.rows["META"][name]}) {
			w.violate("attributes of other services survive", "%s of %s", name, p.path)
		}
	}
}

// generationName names a generation in the trace.
func (w *world) generationName(g *generation) string {
	if g.meta == nil {
		return "nothing"
	}
	return fmt.Sprintf("generation %d (%s)", g.index, g.content)
}

// versionName writes a version that derives from a time relative to the beginning.
func (w *world) versionName(v int64) string {
	if ms := v - w.began.UnixMilli(); v > 1e9 {
		return fmt.Sprintf("%+d ms", ms)
	}
	return fmt.Sprint(v)
}

// find returns the newest generation with a content, nil if META never had it.
func (p *page) find(content string) *generation {
	for i := len(p.history) - 1; i >= 0; i-- {
		if g := p.history[i]; g.meta != nil && g.content == content {
			return g
		}
	}
	return nil
}

// published returns the first state of META that a publication made; nil if there is none.
func (p *page) published(publication string) *generation {
	for _, g := range p.history {
		if g.meta != nil && g.ours && g.publication() == publication {
			return g
		}
	}
	return nil
}

// byID returns the generation that a node published under an id.
func (p *page) byID(id string) *generation {
	for _, g := range p.history {
		if g.meta != nil && g.ours && g.generation == id {
			return g
		}
	}
	return nil
}
