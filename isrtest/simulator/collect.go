package simulator

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/gc"
)

// collect starts a garbage collection on a node. Its clock is far ahead, so that every
// body is old enough: references alone must protect the bodies in use.
func (w *world) collect(l *life) {
	w.visitors++
	v := &visitor{number: w.visitors, life: l, page: w.pages[0]}
	collect := gc.Collect
	if w.bug.Collect != nil {
		collect = w.bug.Collect
	}
	w.log("request to %s: collect garbage", l.name)
	l.asking++
	l.collecting++
	w.ended.Go(func() {
		ctx, cancel := w.aside()
		defer cancel()
		got, err := collect(ctx, l.meta, l.bodies, gc.CollectOptions{
			Grace: time.Hour, Now: func() time.Time { return l.node.now().Add(2 * time.Hour) },
		})
		v.name = fmt.Sprintf("%d bodies, %d pages were busy", got.Bodies, got.Busy)
		w.happened(event{kind: collected, life: l, page: v.page, visitor: v, err: err})
	})
}

func (w *world) noteCollected(e event) {
	e.life.asking--
	e.life.collecting--
	w.log("%s: collecting garbage: %s: %s", e.life.name, e.visitor.name, summary(e.err))
	w.counts["collected"]++
}

// checkNamed: every body that a version or a request record names exists.
func (w *world) checkNamed(p *page) {
	for _, sk := range slices.Sorted(maps.Keys(p.rows)) {
		var key string
		switch {
		case strings.HasPrefix(sk, "VER#"):
			key = textOf(p.rows[sk], "s3_key")
		case strings.HasPrefix(sk, "REQ#"):
			key = textOf(p.rows[sk], "result_s3_key")
		}
		if _, err := w.shelf.get(key); key != "" && err != nil && !w.shelf.lost[key] {
			w.violate("a body is kept as long as a row names it", "the body of %s does not exist", w.rowName(p.pk, sk))
		}
	}
}
