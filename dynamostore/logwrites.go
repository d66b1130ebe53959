package dynamostore

import (
	"slices"

	"github.com/facetheory/isr/store"
)

// A purgedRow is a PURGE or MARK# row as a purge updates it. Attributes that are not
// among the updated fields are left as they are.
type purgedRow struct {
	location

	Value   string  `theorydb:"attr:value,omitempty"` // of a mark
	Seq     count   `theorydb:"attr:seq"`
	HardSeq count   `theorydb:"attr:hard_seq"`
	At      instant `theorydb:"attr:at"`
	Expires horizon `theorydb:"ttl,attr:ttl"`
}

// A purgedItem is one row that a transaction purges, for all of its purges.
type purgedItem struct {
	item    itemKey
	targets []store.PurgeTarget // of the log; several texts may share a partition
	hard    bool
}

// A logWrites is what the changes of one transaction write beside their own actions.
type logWrites struct {
	store *Store
	seen  seenSequence // the transaction advances it
	now   int64        // in epoch seconds

	reload  []store.Key // the pages that nodes must read again
	purged  []purgedItem
	indexes map[itemKey]int // of purged
	confirm bool

	jobs map[string][]jobTarget // by destination
}

func (w *logWrites) next() int64 { return w.seen.Seq + 1 }

// purge adds a target of a purge. Targets of the same row are merged.
func (w *logWrites) purge(item itemKey, t store.PurgeTarget, hard bool) {
	i, known := w.indexes[item]
	if !known {
		if w.indexes == nil {
			w.indexes = make(map[itemKey]int)
		}
		i = len(w.purged)
		w.indexes[item], w.purged = i, append(w.purged, purgedItem{item: item})
	}
	p := &w.purged[i]
	p.hard = p.hard || hard
	if !slices.Contains(p.targets, t) {
		p.targets = append(p.targets, t)
	}
}

// lifetime returns how long the marks of the transaction are kept, in seconds: as long as
// the writer of the table demands that keeps them for longest. 0: there are none.
func (w *logWrites) lifetime() period {
	if len(w.purged) == 0 {
		return 0
	}
	return period(interval(max(w.seen.MarkLifetime, w.store.config.MarkLifetime)))
}

// purgeActions returns the updates of the purged rows.
func (w *logWrites) purgeActions() []action {
	actions := make([]action, len(w.purged))
	for i, p := range w.purged {
		row := &purgedRow{
			location: w.store.at(p.item.pk, p.item.sk),
			Seq:      count(w.next()), HardSeq: count(w.next()), At: instant(w.now),
			Expires: horizon(w.now + int64(w.lifetime()) + 1),
		}
		fields := []string{"Seq", "At", "Expires"}
		if t := p.targets[0]; t.Kind != store.PurgeKey {
			row.Value = markValue(t)
			fields = append(fields, "Value")
		}
		if p.hard {
			fields = append(fields, "HardSeq")
		}
		// No condition: seq only grows, because the transaction advances SEQ to it.
		actions[i] = update(onPurged, row, fields)
		actions[i].item = p.item
	}
	return actions
}

// logTargets returns the targets of the log row, in the order of the changes.
func (w *logWrites) logTargets() []logTarget {
	targets := []logTarget{}
	for _, k := range w.reload {
		targets = append(targets, reloadOf(k))
	}
	for _, p := range w.purged {
		for _, t := range p.targets {
			if t.Kind == store.PurgeKey {
				targets = append(targets, reloadOf(store.Key{Tenant: t.Tenant, Text: t.Value}))
				continue
			}
			mark := logTarget{Kind: string(t.Kind), Tenant: t.Tenant, Value: markValue(t), At: new(instant(w.now))}
			if p.hard {
				mark.HardSeq = count(w.next())
			}
			targets = append(targets, mark)
		}
	}
	if w.confirm {
		targets = append(targets, logTarget{Kind: kindConfirm})
	}
	return targets
}
