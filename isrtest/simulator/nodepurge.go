package simulator

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A nodePurge is one call of isr.Cache.Purge.
type nodePurge struct {
	targets []store.PurgeTarget
	hard    bool
	pages   []*page // those that it names by their keys
	// witness is a tag of no page that only this purge names: its mark tells whether the purge
	// was made, whatever transaction it shared. Empty: the purge has none.
	witness string
	seq     int64 // the receipt; 0 before
}

// purgeBy purges through one process: pages by key, tag and prefix, a tenant or the site.
// Some callers give up.
func (w *world) purgeBy(l *life) {
	np := w.drawPurge()
	for _, p := range np.pages {
		if w.pace.ordered() && !l.mayAssert(p) {
			return
		}
	}
	for _, p := range np.pages {
		l.pages[p].asserting++
		p.declared = true
	}
	w.visitors++
	v := &visitor{number: w.visitors, life: l, page: w.pages[0]}
	unpin, leaves := w.rng.IntN(2) == 0, w.rng.IntN(6) == 0
	patience := w.pace.of(time.Duration(1+w.rng.IntN(8))*time.Second) + tick/2
	w.log("request to %s: purge %v, hard %t, unpin %t", l.name, np.targets, np.hard, unpin)
	l.asking++
	l.purging++
	w.notePurging()
	w.ended.Go(func() {
		ctx, cancel := w.aside()
		defer cancel()
		if leaves {
			ctx, cancel = context.WithTimeout(ctx, patience)
			defer cancel()
		}
		receipt, err := l.cache.Purge(ctx, isr.Purge{Targets: np.targets, Hard: np.hard, Unpin: unpin})
		np.seq = receipt.Seq
		w.happened(event{kind: purged, life: l, page: v.page, visitor: v, purge: np, err: err})
	})
}

// drawPurge draws the targets of a purge.
func (w *world) drawPurge() *nodePurge {
	np := &nodePurge{hard: w.rng.IntN(2) == 0}
	for range 1 + w.rng.IntN(2) {
		p := pick(w.rng, w.pages)
		switch w.rng.IntN(12) {
		case 0, 1, 2, 3:
			np.targets, np.pages = append(np.targets, isr.PurgeKey(p.key)), append(np.pages, p)
		case 4, 5, 6, 7:
			np.targets = append(np.targets, isr.PurgeTag("", pick(w.rng, tags())))
		case 8:
			np.targets = append(np.targets, isr.PurgeHost("", host))
		case 9:
			np.targets = append(np.targets, isr.PurgePrefix("", p.key.Text))
		case 10:
			np.targets = append(np.targets, isr.PurgeTenant("other")) // which has no pages
		default:
			np.targets = append(np.targets, isr.PurgeSite())
		}
	}
	if w.rng.IntN(4) > 0 {
		w.witnesses++
		np.witness = fmt.Sprint("witness", w.witnesses)
		np.targets = append(np.targets, isr.PurgeTag("", np.witness))
	}
	return np
}

// A markState is the state of a purge mark, as committed.
type markState struct {
	seq, hard, at int64
}

// covers reports whether a target selects the generations of a page with a tag. It follows the
// specification alone; the pages of a world have no tenant.
func covers(t store.PurgeTarget, p *page, tag string) bool {
	switch t.Kind {
	case store.PurgeSite:
		return true
	case store.PurgeKey:
		return t.Value == p.key.Text
	case store.PurgeTag:
		return t.Tenant == "" && t.Value == tag
	case store.PurgePrefix:
		return t.Tenant == "" && strings.HasPrefix(p.key.Text, t.Value)
	}
	return false
}

// covering returns the merged state of the marks that cover the generations of a page with a
// tag.
func (w *world) covering(p *page, tag string) (m markState) {
	for t, other := range w.marks {
		if covers(t, p, tag) {
			m.seq, m.hard, m.at = max(m.seq, other.seq), max(m.hard, other.hard), max(m.at, other.at)
		}
	}
	return m
}

// tell records a committed purge of a target: its mark, and what the log says of the pages.
func (w *world) tell(t store.PurgeTarget, hard bool, seq, at int64) {
	if t.Kind != store.PurgeKey {
		m := w.marks[t]
		m.seq, m.at = seq, at
		if hard {
			m.hard = seq
		}
		w.marks[t] = m
	}
	if hard && w.profile.assertions > 3 && (t.Kind != store.PurgeKey || w.tears != nil) {
		w.reverts = 2
	}
	for _, p := range w.pages {
		e := logEffect{seq: seq, index: -1, hard: hard, at: time.Now()}
		if t.Kind == store.PurgeTag {
			e.tag = t.Value
		}
		if !covers(t, p, e.tag) {
			continue
		}
		if t.Kind == store.PurgeKey && hard {
			p.hardSeq = seq
		}
		p.told = append(p.told, e)
		if w.isRendering(p) {
			w.counts["purge during a render"]++
		}
	}
}

// purgedRow returns the target of a PURGE or MARK# row, and its hard_seq before.
func (w *world) purgedRow(pk, sk string, row item) (t store.PurgeTarget, hardBefore int64) {
	if p := w.pageOf(pk); p != nil {
		return isr.PurgeKey(p.key), p.hardSeq
	}
	value := textOf(row, "value")
	parts := strings.Split(sk, "#")
	if len(parts) != 4 || parts[3] != digest([]byte(value)) {
		w.violate("a mark is found by its value", "the row %s has the value %q", sk, value)
		return t, 0
	}
	t = store.PurgeTarget{Kind: store.PurgeKind(parts[2]), Tenant: parts[1], Value: value}
	switch t.Kind {
	case store.PurgeTenant, store.PurgeSite:
		t.Value = ""
	}
	return t, w.marks[t].hard
}

// notePurges checks the purges of a transaction that has advanced the log: each row has the
// sequence of the transaction, a soft purge leaves hard_seq as it was, and the log names all.
func (w *world) notePurges(c *call, seq int64) {
	const invariant = "a purge is one step"
	witnesses := 0
	targets := w.readTargets(seq)
	for _, key := range c.purges {
		row := w.readRow(key[0], key[1])
		t, hardBefore := w.purgedRow(key[0], key[1], row)
		hard := numberOf(row, "hard_seq") == seq
		switch {
		case numberOf(row, "seq") != seq:
			w.violate(invariant, "the purge of %s has the sequence %d, and the log %d", t, numberOf(row, "seq"), seq)
		case !hard && numberOf(row, "hard_seq") != hardBefore:
			w.violate("a soft purge keeps the hard one", "the hard sequence of %s was %d, and is %d", t, hardBefore, numberOf(row, "hard_seq"))
		case !isLogged(targets, t, hard, seq):
			w.violate("a purge is logged", "row %d of the log does not have the purge of %s, hard %t", seq, t, hard)
		}
		if w.unmade[t.Value] {
			w.violate("answers are definite", "the purge of %s was made after it had been reported as failed", t.Value)
		}
		if strings.HasPrefix(t.Value, "witness") {
			witnesses++
		}
		w.noteKeptPurged(t, hard)
		w.tell(t, hard, seq, numberOf(row, "at"))
	}
	w.countPurges(c, witnesses)
}

// countPurges counts what a purge met.
func (w *world) countPurges(c *call, witnesses int) {
	if len(c.purges) == 0 {
		return
	}
	w.counts["purge by a node"]++
	if witnesses > 1 {
		w.counts["purges share a transaction"]++
	}
	if c.errand == asserting {
		w.counts["purge shares a transaction with a rollback"]++
	}
	for _, p := range w.pages {
		if w.isRendering(p) {
			w.counts["purge by a node during a render"]++
			return
		}
	}
}

// noteKeptPurged counts hard purges by marks of pages in memory.
func (w *world) noteKeptPurged(t store.PurgeTarget, hard bool) {
	if !hard || t.Kind == store.PurgeKey {
		return
	}
	for _, p := range w.pages {
		g := p.current()
		for _, n := range w.nodes {
			if g != nil && n.life.pages[p].kept == g.bodyKey && covers(t, p, g.tag) {
				w.counts["hard purge by mark of a page in memory"]++
			}
		}
	}
}

// isLogged reports whether a log row has a purge.
func isLogged(targets []item, t store.PurgeTarget, hard bool, seq int64) bool {
	for _, m := range targets {
		switch {
		case t.Kind == store.PurgeKey:
			if textOf(m, "kind") == "reload" && textOf(m, "key") == t.Value {
				return true
			}
		case textOf(m, "kind") != string(t.Kind) || textOf(m, "tenant") != t.Tenant || (numberOf(m, "hard_seq") == seq) != hard:
		case t.Value == "" || textOf(m, "value") == t.Value:
			return true
		}
	}
	return false
}

// checkPurged: an acknowledged purge was committed at the sequence of its receipt; one that was
// reported as failed was not made, and never will be.
func (w *world) checkPurged(e event) {
	l, np := e.life, e.purge
	l.asking--
	l.purging--
	w.notePurging()
	for _, p := range np.pages {
		l.pages[p].asserting--
	}
	w.log("%s: purging: %s, sequence %d", l.name, summary(e.err), np.seq)
	made := w.marks[isr.PurgeTag("", np.witness)].seq
	switch {
	case e.err == nil:
		w.counts["purge acknowledged"]++
		l.own = append(l.own, np)
		w.receipts = append(w.receipts, np)
		w.checkReceipt(np)
	case errors.Is(e.err, store.ErrUnknownOutcome):
		w.counts["purge of unknown outcome"]++
	case np.witness == "":
	case made > 0:
		w.violate("answers are definite", "%s was told that its purge of %s failed (%v), but it was committed at %d", l.name, np.witness, e.err, made)
	default:
		w.counts["purge reported as failed"]++
		w.unmade[np.witness] = true
	}
}

// checkReceipt: a purge with a receipt was committed with all of its targets.
func (w *world) checkReceipt(np *nodePurge) {
	const invariant = "an acknowledged purge is never lost"
	for _, t := range np.targets {
		var seq, hard int64
		if t.Kind != store.PurgeKey {
			seq, hard = w.marks[t].seq, w.marks[t].hard
		}
		for _, p := range np.pages {
			if t.Kind == store.PurgeKey && covers(t, p, "") {
				row := w.readRow(p.pk, "PURGE")
				seq, hard = numberOf(row, "seq"), numberOf(row, "hard_seq")
			}
		}
		if seq < np.seq || np.hard && hard < np.seq || np.seq > w.seq || np.seq == 0 {
			w.violate(invariant, "the purge of %s was acknowledged at %d, hard %t, and is at %d, hard at %d, of %d", t, np.seq, np.hard, seq, hard, w.seq)
		}
	}
	if made := w.marks[isr.PurgeTag("", np.witness)].seq; np.witness != "" && made != np.seq {
		w.violate(invariant, "the purge of %s was acknowledged at %d, and committed at %d", np.witness, np.seq, made)
	}
}

// checkPurges: at the end, all marks are as they were committed. One that a mark of the site
// includes may have been deleted.
func (w *world) checkPurges() {
	var rows partition
	w.outside.do(func() { rows = w.readPartition("PURGE") })
	site := w.marks[isr.PurgeSite()]
	for t, m := range w.marks {
		value := t.Value
		switch t.Kind {
		case store.PurgeTenant:
			value = t.Tenant
		case store.PurgeSite:
			value = "*"
		}
		row := rows["MARK#"+t.Tenant+"#"+string(t.Kind)+"#"+digest([]byte(value))]
		switch {
		case row == nil && t.Kind != store.PurgeSite && site.seq >= m.seq && site.hard >= m.hard:
			w.counts["mark collected"]++
		case numberOf(row, "seq") != m.seq || numberOf(row, "hard_seq") != m.hard:
			w.violate("a mark is never lost", "the mark of %s was %d, hard %d, and is %d, hard %d", t, m.seq, m.hard, numberOf(row, "seq"), numberOf(row, "hard_seq"))
		}
	}
	for _, np := range w.receipts {
		w.checkReceipt(np)
	}
}
