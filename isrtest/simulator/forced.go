package simulator

import (
	"context"
	"errors"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// asideKey marks calls of a forced regeneration, which belong to no visitor's flight.
type asideKey struct{}

// aside returns the context of a caller that waits as long as necessary.
func (w *world) aside() (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithValue(context.Background(), asideKey{}, true), w.pace.patience)
}

func isAside(ctx context.Context) bool { return ctx.Value(asideKey{}) != nil }

// regenerate forces a process to render a page.
func (w *world) regenerate(l *life, p *page) {
	if !w.mayForce(l, p) {
		return
	}
	l.pages[p].force()
	w.visitors++
	v := &visitor{number: w.visitors, life: l, page: p}
	var options []isr.RegenerateOption
	unpin := w.profile.assertions > 0 && w.rng.IntN(2) == 0
	if unpin {
		options = append(options, isr.WithUnpin())
		l.pages[p].unpin = true
	}
	w.log("request to %s: regenerate %s, unpin %t", l.name, p.path, unpin)
	l.asking++
	w.ended.Go(func() {
		ctx, cancel := w.aside()
		defer cancel()
		entry, err := l.cache.Regenerate(ctx, p.key, options...)
		w.happened(event{kind: regenerated, life: l, page: p, entry: entry.Entry, visitor: v, err: err})
	})
}

// checkRegenerated: an acknowledged generation is visible to its node from then on.
func (w *world) checkRegenerated(e event) {
	seen := e.life.pages[e.page]
	seen.forcing, seen.unpin = false, false
	e.life.asking--
	w.log("%s: regenerating %s: %s", e.life.name, e.page.path, summary(e.err))
	if e.err != nil {
		if errors.Is(e.err, store.ErrForeignLease) {
			w.violate("leases are the store's own", "%s: %v", e.life.name, e.err)
		}
		return
	}
	g := e.page.byID(e.entry.GenerationID)
	if g == nil {
		w.violate("an acknowledged publish is never lost", "%s regenerated %s with success, and META never was that", e.life.name, e.page.path)
		return
	}
	seen.served = max(seen.served, g.index)
}
