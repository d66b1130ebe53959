package simulator

import (
	"strings"
	"time"
)

// staleBound is how long a process may serve from memory what others have rolled back or purged,
// unless its response reports a disconnection. By the specification: four poll intervals, and
// at least 2 s.
func (p pace) staleBound() time.Duration { return max(4*p.poll(), 2*time.Second) }

// checkBound: a page served from memory was not rolled back or purged longer ago than the bound, even
// if the process was frozen or disconnected, unless the response reports that.
func (w *world) checkBound(v *visitor, g *generation, how string) {
	stale := strings.HasSuffix(how, "detail=stale")
	switch {
	case !strings.Contains(how, "; hit"), !w.pace.ordered():
		return
	case strings.HasSuffix(how, "detail=cut-off"):
		w.counts["served cut off"]++
		return
	case !stale && !isFresh(how):
		return
	}
	if v.silent > w.pace.staleBound() {
		w.counts["hit after a long silence"]++
	}
	before := v.began.Add(-w.pace.staleBound())
	if w.tears != nil {
		before = before.Add(-w.pace.of(longestTear)) // reads may not have shown the change
	}
	for _, t := range v.page.told {
		switch {
		case !t.at.Before(before):
		case g.index < t.index:
			w.violate("the staleness of memory is bounded", "%s got %s, which generation %d had replaced %v before it asked",
				v.name, w.generationName(g), t.index, v.began.Sub(t.at))
		case v.page.renderedAt[g.content].After(t.at): // by a process that did not know of the purge yet
		case t.covers(g.tag) && g.ours && g.purgeSeq < t.seq && (t.hard || !stale):
			w.violate("the staleness of memory is bounded", "%s got %s of sequence %d, which was purged at %d, %v before it asked",
				v.name, w.generationName(g), g.purgeSeq, t.seq, v.began.Sub(t.at))
		}
	}
}
