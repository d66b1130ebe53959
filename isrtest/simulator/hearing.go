package simulator

import (
	"context"
	"time"

	"github.com/facetheory/isr/store"
)

// A telling is what a row of the log says of a page.
type telling struct {
	seq   int64
	index int  // of the generation that is current since; -1 for a purge
	hard  bool // a hard purge
	at    time.Time
}

// A hearing is what a process knows of the log. The driver owns it.
type hearing struct {
	begun  bool      // it has asked for changes
	cursor int64     // it has done what the log says up to there, by its own word
	reach  int64     // how far the rows go that it was given
	asking int       // reads of the log that are under way
	since  time.Time // when the latest one ended, or the process began
	heard  time.Time // when it heard of something; guarded by world.mu
}

// Changes implements [store.MetaStore].
func (m *witness) Changes(ctx context.Context, after int64) ([]store.Change, error) {
	w := m.life.w
	w.mu.Lock()
	known := w.seq
	w.mu.Unlock()
	w.happened(event{kind: logAsked, life: m.life, page: w.pages[0], seq: after})
	changes, err := m.MetaStore.Changes(ctx, after)
	w.noteHeard(m.life)
	w.happened(event{kind: logAnswered, life: m.life, page: w.pages[0], seq: after, known: known, changes: changes, err: err})
	return changes, err
}

// Sequence implements [store.MetaStore]. A process asks for it first of all.
func (m *witness) Sequence(ctx context.Context) (store.Sequence, error) {
	w := m.life.w
	w.happened(event{kind: sequenceAsked, life: m.life, page: w.pages[0]})
	seq, err := m.MetaStore.Sequence(ctx)
	w.noteHeard(m.life)
	w.happened(event{kind: sequenceAnswered, life: m.life, page: w.pages[0], err: err})
	m.life.polled.Store(true)
	return seq, err
}

// noteHeard notes that a process may hear of changes. It is safe for concurrent use.
func (w *world) noteHeard(l *life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.log.heard = time.Now()
}

// noteAsked: a process that asks for the changes after a sequence has done what the
// log says up to there. From now on it has no excuse for what was before.
func (w *world) noteAsked(e event) {
	h := &e.life.log
	if h.begun && e.seq > h.reach {
		w.counts["log lost"]++
	}
	h.begun, h.reach = true, max(h.reach, e.seq)
	h.cursor = max(h.cursor, e.seq)
	h.asking++
}

// checkChanges: a strong read of the log tells what was there when it was asked,
// unless somebody has deleted rows.
func (w *world) checkChanges(e event) {
	h := &e.life.log
	h.answered(e)
	if e.err != nil {
		return
	}
	w.counts["poll"]++
	for _, change := range e.changes {
		switch {
		case change.Malformed != nil:
			w.counts["log row malformed"]++
		case change.Seq == h.reach+1:
			h.reach = change.Seq
		case change.Seq > h.reach+1:
			w.counts["log gap"]++
		}
	}
	if len(e.changes) == 0 && e.seq < e.known && !w.damaged {
		w.violate("a node hears what the log says", "%s was told of nothing after %d, and the log had %d when it asked", e.life.name, e.seq, e.known)
	}
}

func (h *hearing) answered(e event) {
	h.asking--
	h.since = e.at
}

// checkPolls: a process reads the log again within Config.Poll after it has last
// done so, whatever came of that. With the check of what it does then, this is the
// bound on how late a change is heard of: the interval, and the time of an answer.
func (w *world) checkPolls() {
	if !w.pace.ordered() && !w.profile.prompt {
		return
	}
	for _, n := range w.nodes {
		if h := &n.life.log; h.asking == 0 && time.Since(h.since) > w.pace.poll()+w.pace.pollSlack {
			w.violate("a node reads the log at its interval", "%s has not for %v", n.life.name, time.Since(h.since))
		}
	}
}

// told is what a process knows of a page by the log: the oldest generation that it
// may serve, and the sequences of the latest purges.
func (l *life) told(p *page) (floor int, seq, hardSeq int64) {
	floor = -1
	for _, t := range p.told {
		if t.seq > l.log.cursor {
			break
		}
		floor = max(floor, t.index)
		if t.index < 0 {
			seq = t.seq
		}
		if t.hard {
			hardSeq = t.seq
		}
	}
	return floor, seq, hardSeq
}
