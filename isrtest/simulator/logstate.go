package simulator

import (
	"context"
	"iter"
	"time"

	"github.com/facetheory/isr/store"
)

// A logEffect is the effect of one row of the log on a page.
type logEffect struct {
	seq   int64
	index int    // of the generation that became current; -1 for a purge
	hard  bool   // a hard purge
	tag   string // of the generations that a purge covers; empty: all
	at    time.Time
}

// A logState is what a process knows of the log. The driver owns it.
type logState struct {
	begun  bool      // it has read changes
	cursor int64     // it has applied the log up to this sequence, as it reported
	reach  int64     // the last sequence that it has received
	asking int       // reads of the log in progress
	since  time.Time // when the latest read ended, or the process began
	read   time.Time // when the latest successful read ended; zero before the first
	heard  time.Time // when it may last have received a change; guarded by world.mu
}

// Changes implements [store.MetaStore].
func (m *witness) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	w := m.life.w
	w.mu.Lock()
	known := w.readable
	w.mu.Unlock()
	m.life.applied.Store(max(m.life.applied.Load(), after))
	w.happened(event{kind: logAsked, life: m.life, page: w.pages[0], seq: after})
	seq, changes, err := m.MetaStore.Changes(ctx, after)
	w.noteHeard(m.life)
	w.happened(event{kind: logAnswered, life: m.life, page: w.pages[0], seq: after, known: known, changes: changes, err: err})
	return seq, changes, err
}

// Sequence implements [store.MetaStore]. A process calls it first.
func (m *witness) Sequence(ctx context.Context) (store.Sequence, error) {
	w := m.life.w
	w.happened(event{kind: sequenceAsked, life: m.life, page: w.pages[0]})
	seq, err := m.MetaStore.Sequence(ctx)
	w.noteHeard(m.life)
	w.happened(event{kind: sequenceAnswered, life: m.life, page: w.pages[0], err: err})
	if err != nil {
		m.life.begun.Store(true)
	}
	return seq, err
}

// Recent implements [store.MetaStore]. A process calls it between Sequence and Marks.
func (m *witness) Recent(ctx context.Context, upTo int64) ([]store.Change, error) {
	w := m.life.w
	w.happened(event{kind: sequenceAsked, life: m.life, page: w.pages[0]})
	changes, err := m.MetaStore.Recent(ctx, upTo)
	w.noteHeard(m.life)
	w.happened(event{kind: sequenceAnswered, life: m.life, page: w.pages[0], err: err})
	if err != nil {
		m.life.begun.Store(true)
	}
	return changes, err
}

// Marks implements [store.MetaStore]. A process reads them after Sequence, before any changes.
func (m *witness) Marks(ctx context.Context) iter.Seq2[store.Mark, error] {
	w := m.life.w
	return func(yield func(store.Mark, error) bool) {
		w.happened(event{kind: sequenceAsked, life: m.life, page: w.pages[0]})
		var last error
		for mark, err := range m.MetaStore.Marks(ctx) {
			last = err
			if !yield(mark, err) {
				break
			}
		}
		w.noteHeard(m.life)
		w.happened(event{kind: sequenceAnswered, life: m.life, page: w.pages[0], err: last})
		m.life.begun.Store(true)
	}
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
	h.read = later(h.read, e.at)
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
	// While a row is being committed, reads may not show it.
	torn := w.tears.tornSince("PURGE", logKey(e.seq+1), e.at.Add(-w.pace.callTimeout))
	if len(e.changes) == 0 && e.seq < e.known && !w.damaged && !torn {
		w.violate("a read of the log returns its changes", "%s got nothing after %d, and the log was at %d when it asked", e.life.name, e.seq, e.known)
	}
}

func (h *logState) answered(e event) {
	h.asking--
	h.since = later(h.since, e.at) // several events of one step are not in order
}

// checkPolls: a process reads the log again within Config.Poll after the last read ended,
// whatever its result. This bounds the delay of a change to the interval plus the time of
// one response.
func (w *world) checkPolls() {
	w.noteDelays() // the delays of the step, in real time, count before its missing reads
	if !w.pace.ordered() && !w.profile.prompt {
		return
	}
	for _, n := range w.nodes {
		if h := &n.life.log; h.asking == 0 && time.Since(h.since) > w.pace.poll()+w.pace.pollSlack {
			w.violate("a node reads the log at its interval", "%s has not read it for %v", n.life.name, time.Since(h.since))
		}
	}
}

// floor returns the oldest generation of a page that a process may serve, by what it knows
// from the log.
func (l *life) floor(p *page) int { return l.floorAt(p, l.log.cursor) }

// floorAt is floor for a process that has applied the log up to a sequence.
func (l *life) floorAt(p *page, seq int64) int {
	floor := -1
	for _, t := range p.told {
		if t.seq > seq {
			break
		}
		floor = max(floor, t.index)
	}
	return floor
}

// covers reports whether a purge in the log covers the generations with a tag.
func (t logEffect) covers(tag string) bool { return t.index < 0 && (t.tag == "" || t.tag == tag) }

// knownPurges returns the latest purge, and the latest hard one, of the generations with a tag
// that a visitor's process knew when the visitor came: from the log, which it has read up to
// the cursor, from the marks, which it reads when it starts, and by its own purges.
func (v *visitor) knownPurges(tag string) (seq, hardSeq int64) {
	note := func(purge int64, hard bool) {
		seq = max(seq, purge)
		if hard {
			hardSeq = max(hardSeq, purge)
		}
	}
	for _, t := range v.page.told {
		if t.seq <= v.cursor && t.covers(tag) {
			note(t.seq, t.hard)
		}
	}
	for _, own := range v.life.own[:v.own] {
		for _, t := range own.targets {
			if covers(t, v.page, tag) {
				note(own.seq, own.hard)
			}
		}
	}
	return seq, hardSeq
}
