package simulator

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// pollTime is how often nodes read the log.
const pollTime = 10 * time.Second

// assert rolls a page back, pins it or unpins it, through one node.
func (w *world) assert(l *life, p *page) {
	what, do := w.assertion(l, p)
	w.declare(l, p, what, do)
}

// revert rolls a page back soon after a hard purge by a mark, which the node may not have
// read.
func (w *world) revert(l *life) {
	w.reverts--
	p := pick(w.rng, w.pages)
	w.declare(l, p, "roll back", func(ctx context.Context) (store.Entry, error) { return l.cache.Rollback(ctx, p.key) })
}

// declare makes a rollback, a pin or an unpin.
func (w *world) declare(l *life, p *page, what string, do func(context.Context) (store.Entry, error)) {
	if w.pace.ordered() && !l.mayAssert(p) {
		return
	}
	p.declared = true
	w.visitors++
	v := &visitor{number: w.visitors, life: l, page: p}
	w.log("request to %s: %s %s", l.name, what, p.path)
	l.asking++
	l.pages[p].asserting++
	w.ended.Go(func() {
		ctx, cancel := w.aside()
		defer cancel()
		entry, err := do(ctx)
		w.noteReload(l, p)
		l.noteAnswered()
		w.happened(event{kind: asserted, life: l, page: p, entry: entry, visitor: v, err: err})
	})
}

// hasten makes one of several changes of the log that contend. Each is a step of its own
// and does not wait for the others.
func (w *world) hasten(l *life) {
	w.rush--
	switch w.rng.IntN(8) {
	case 0, 1:
		w.purge(pick(w.rng, w.pages))
		return
	case 2, 3:
		w.purgeBy(l)
		return
	}
	w.assert(l, pick(w.rng, w.pages))
}

func (w *world) assertion(l *life, p *page) (what string, do func(context.Context) (store.Entry, error)) {
	pin := w.pace.of(time.Duration(1+w.rng.IntN(120)) * time.Second)
	switch w.rng.IntN(6) {
	case 0, 5:
		return fmt.Sprintf("pin for %v", pin), func(ctx context.Context) (store.Entry, error) { return l.cache.Pin(ctx, p.key, pin) }
	case 1, 2:
		return "unpin", func(ctx context.Context) (store.Entry, error) { return l.cache.Unpin(ctx, p.key) }
	case 3:
		return fmt.Sprintf("roll back for %v", pin), func(ctx context.Context) (store.Entry, error) {
			return l.cache.Rollback(ctx, p.key, isr.PinFor(pin))
		}
	}
	return "roll back", func(ctx context.Context) (store.Entry, error) { return l.cache.Rollback(ctx, p.key) }
}

// checkAssertion checks a change of META that makes a known generation current: a
// rollback or a pin.
func (w *world) checkAssertion(p *page, c *call, before partition, g, earlier *generation) {
	w.counts["assertion"]++
	w.checkVersion(p, c, before, g)
	w.checkWhole(p, g)
	w.checkUnmixed(p, before, g)
	w.checkLogged(p, g)
	w.checkSuperseded(p, before, textOf(p.rows["META"], "current_sk"))
	if g.bodyKey != earlier.bodyKey || g.sha256 != earlier.sha256 || !g.generatedAt.Equal(earlier.generatedAt) || g.etag != earlier.etag {
		w.violate("a rollback restores a generation unchanged", "%s of %s is not what %s was", w.generationName(g), p.path, w.generationName(earlier))
	}
	if was, hard := earlier.purgeSeq, max(p.hardSeq, w.covering(p, earlier.tag).hard); was < hard && g.purgeSeq >= hard {
		w.violate("no rollback restores a purged generation", "%s of %s was purged at %d, and has sequence %d now", w.generationName(g), p.path, hard, g.purgeSeq)
	}
	if a, b := before.lock(), p.rows.lock(); (a == nil) != (b == nil) || a != nil && *a != *b {
		w.violate("a rollback does not change the lease", "LOCK of %s changed", p.path)
	}
	if w.isRendering(p) {
		w.counts["rollback during a render"]++
	}
}

// checkLogged: the start or end of a pin is logged in the same step.
func (w *world) checkLogged(p *page, g *generation) {
	seq, targets := w.readLog()
	if seq != w.seqBefore+1 {
		w.violate("a change of a pin advances the log by one", "the sequence went from %d to %d", w.seqBefore, seq)
		return
	}
	if len(targets) > 1 {
		w.counts["shared log row"]++
	}
	if slices.Contains(targets, p.key.Text) {
		p.told = append(p.told, logEffect{seq: seq, index: g.index, at: time.Now()})
		return
	}
	w.violate("a change of a pin is logged", "row %d of the log does not name %s", seq, p.path)
}

// checkAsserted: an acknowledged rollback is visible to its node from then on.
func (w *world) checkAsserted(e event) {
	e.life.asking--
	e.life.pages[e.page].asserting--
	w.log("%s: asserting %s: %s", e.life.name, e.page.path, summary(e.err))
	if errors.Is(e.err, store.ErrPurged) {
		w.counts["rollback refused for a purge"]++
	}
	if e.err != nil {
		return
	}
	for i := len(e.page.history) - 1; i >= 0; i-- {
		g := e.page.history[i]
		if g.meta != nil && g.bodyKey == e.entry.BodyKey && g.generation == e.entry.GenerationID && g.version == e.entry.Version {
			seen := e.life.pages[e.page]
			seen.served = max(seen.served, g.index)
			return
		}
	}
	w.violate("an acknowledged rollback is never lost", "%s acknowledged one of %s that META never was", e.life.name, e.page.path)
}

// checkPin: a pinned page is not replaced because of its age.
func (w *world) checkPin(p *page, c *call, before partition, g *generation) {
	was := before.meta()
	if g.pinned != 0 {
		w.violate("a pin ends with its generation", "%s of %s was published, and is pinned", w.generationName(g), p.path)
	}
	if was == nil || !was.ours || was.pinned <= w.clockOf(c) {
		return
	}
	w.checkLogged(p, g)
	if c.life.pages[p].unpin {
		w.counts["publish over a pin"]++
		return
	}
	if _, err := w.shelf.get(was.bodyKey); err != nil {
		w.counts["publish over a pin without its body"]++
		return
	}
	if purge := max(numberOf(p.rows["PURGE"], "seq"), w.covering(p, was.tag).seq); was.purgeSeq >= purge {
		w.violate("a pinned page is not replaced", "%s of %s replaced a generation that is pinned for %d s more", w.generationName(g), p.path, was.pinned-w.clockOf(c))
	}
}
