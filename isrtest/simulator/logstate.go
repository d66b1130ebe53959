package simulator

import (
	"context"
	"time"

	"github.com/facetheory/isr/store"
)

// A logEffect is the effect of one row of the log on a page.
type logEffect struct {
	seq   int64
	index int  // of the generation that became current; -1 for a purge
	hard  bool // a hard purge
	at    time.Time
}

// A logState is what a process knows of the log. The driver owns it.
type logState struct {
	begun  bool      // it has read changes
	cursor int64     // it has applied the log up to this sequence, as it reported
	reach  int64     // the last sequence that it has received
	asking int       // reads of the log in progress
	since  time.Time // when the latest read ended, or the process began
	heard  time.Time // when it may last have received a change; guarded by world.mu
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

// Sequence implements [store.MetaStore]. A process calls it first.
func (m *witness) Sequence(ctx context.Context) (store.Sequence, error) {
	w := m.life.w
	w.happened(event{kind: sequenceAsked, life: m.life, page: w.pages[0]})
	seq, err := m.MetaStore.Sequence(ctx)
	w.noteHeard(m.life)
	w.happened(event{kind: sequenceAnswered, life: m.life, page: w.pages[0], err: err})
	m.life.polled.Store(true)
	return seq, err
}

// noteHeard records that a process may receive changes. It is safe for concurrent use.
func (w *world) noteHeard(l *life) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.log.heard = time.Now()
}

// noteAsked: a process that reads the changes after a sequence has applied the log up to
// it. From then on it must not serve what was current before.
func (w *world) noteAsked(e event) {
	h := &e.life.log
	if h.begun && e.seq > h.reach {
		w.counts["log lost"]++
	}
	h.begun, h.reach = true, max(h.reach, e.seq)
	h.cursor = max(h.cursor, e.seq)
	h.asking++
}

// checkChanges: a strongly consistent read of the log returns the changes that existed when
// it began, unless rows were deleted.
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
		w.violate("a read of the log returns its changes", "%s got nothing after %d, and the log was at %d when it asked", e.life.name, e.seq, e.known)
	}
}

func (h *logState) answered(e event) {
	h.asking--
	h.since = e.at
}

// checkPolls: a process reads the log again within Config.Poll after the last read ended,
// whatever its result. This bounds the delay of a change to the interval plus the time of
// one response.
func (w *world) checkPolls() {
	if !w.pace.ordered() && !w.profile.prompt {
		return
	}
	for _, n := range w.nodes {
		if h := &n.life.log; h.asking == 0 && time.Since(h.since) > w.pace.poll()+w.pace.pollSlack {
			w.violate("a node reads the log at its interval", "%s has not read it for %v", n.life.name, time.Since(h.since))
		}
	}
}

// told returns what a process knows of a page from the log: the oldest generation that it
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
