package simulator

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// An event is an observation of a node's goroutine. The driver processes it before its
// next step, so that the world is as it was at the time.
type event struct {
	kind  eventKind
	life  *life
	page  *page
	err   error
	at    time.Time
	since time.Time // leaseLost, published: when the process made the call

	render   *rendering  // renderBegan
	entry    store.Entry // of a publish or regeneration, or what was asserted
	visitor  *visitor    // who made the request
	body     string      // bodyWanted: its key
	replayed bool        // demanded: the result was recorded before
	token    string      // leaseLost, published, acquired: of the lease that the process assumed, or requested
	seq      int64       // logAsked, logAnswered: of the last known change
	known    int64       // logAnswered: the log's sequence when the read began
	changes  []store.Change
	purge    *nodePurge // purged
	post     *post      // posted
}

type eventKind int

const (
	logAnswered eventKind = iota
	sequenceAnswered
	logAsked
	sequenceAsked
	renderBegan
	acquired
	published
	leaseLost
	regenerated
	demanded
	asserted
	collected
	purged
	posted
	bodyWanted
	bodyOpened
	answered
)

// happened records an event, unless its process is dead.
func (w *world) happened(e event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !e.life.isDead() {
		e.at = time.Now()
		w.events = append(w.events, e)
	}
}

// digestEvents processes the new events, in an order that does not depend on the order of
// goroutines.
func (w *world) digestEvents() {
	w.noteDelays()
	w.mu.Lock()
	events := w.events
	w.events = nil
	w.mu.Unlock()
	number := func(e event) int {
		switch {
		case e.visitor != nil:
			return e.visitor.number
		case e.render != nil:
			return e.render.number
		}
		return 0
	}
	slices.SortFunc(events, func(a, b event) int {
		return cmp.Or(cmp.Compare(a.life.name, b.life.name), cmp.Compare(a.kind, b.kind), cmp.Compare(a.page.path, b.page.path), cmp.Compare(number(a), number(b)))
	})
	for _, e := range events {
		switch e.kind {
		case logAnswered:
			w.checkChanges(e)
		case sequenceAnswered:
			e.life.log.answered(e)
		case logAsked:
			w.noteAsked(e)
		case sequenceAsked:
			e.life.log.asking++
		case acquired:
			w.checkAcquired(e)
		case renderBegan:
			w.checkRender(e.render)
		case published:
			w.checkAnswerToPublish(e)
		case leaseLost:
			w.checkLost(e)
		case regenerated:
			w.checkRegenerated(e)
		case demanded:
			w.checkDemanded(e)
		case asserted:
			w.checkAsserted(e)
		case collected:
			w.noteCollected(e)
		case purged:
			w.checkPurged(e)
		case posted:
			w.checkPosted(e)
		case bodyWanted:
			w.checkWanted(e)
		case bodyOpened:
			e.life.opening[e.body]--
		case answered:
			w.checkAnswer(e.visitor, e.at)
		}
	}
}

// checkAnswerToPublish: an acknowledged publish is, or was, in META; a publish that was
// reported as failed is not there, and never will be.
func (w *world) checkAnswerToPublish(e event) {
	made := publicationOf(e.entry.GenerationID, e.entry.GeneratedAt)
	p, found := e.page, e.page.published(made)
	w.log("%s: publishing %s: %s", e.life.name, p.path, summary(e.err))
	switch {
	case e.err == nil && found == nil:
		w.violate("an acknowledged publish is never lost", "%s published %s with success, and META never was that", e.life.name, p.path)
	case e.err == nil && (found.version != e.entry.Version || found.bodyKey != e.entry.BodyKey):
		w.violate("an acknowledged publish is never lost", "%s published version %d of %s with success, and META had version %d", e.life.name, e.entry.Version, p.path, found.version)
	case e.err == nil:
		e.life.pages[p].kept = ""
		if g := w.grants[e.token]; g != nil {
			g.acked = true
		}
	case errors.Is(e.err, store.ErrUnknownOutcome):
	case found != nil:
		w.violate("answers are definite", "%s was told that its publish of %s failed (%v), but it committed", e.life.name, p.path, e.err)
	default:
		p.never[made] = true
	}
	if errors.Is(e.err, store.ErrLeaseLost) {
		w.checkLost(e)
	}
}

// checkLost: a lease is reported as lost only if it is. That is certain if LOCK has not
// changed since the process made the call.
func (w *world) checkLost(e event) {
	l := e.page.rows.lock()
	if l == nil || l.token != e.token || e.page.lockMoved.After(e.since) {
		return
	}
	if left := l.expires - e.at.Add(e.life.node.skew).Unix(); left > 0 {
		w.violate("a lease is reported lost only if it is", "%s was told so of %s, which it holds for %d s more", e.life.name, w.trace.name("lease", l.token), left)
	}
}
