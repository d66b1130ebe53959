package dynamostore

import (
	"context"
	"fmt"
	"slices"

	"github.com/facetheory/isr/store"
)

// Purge implements [store.PurgeStore]. It costs four write units for SEQ and the log, two
// for each target and each destination, more for long texts, and a read unit. Concurrent
// purges share a transaction, and the writes of the same target.
//
// A purge has no condition but that on SEQ, so it never fails because of other writers,
// and what it does is independent of what they have read:
//
//   - A publish whose rendering began before the purge committed has a lower PurgeSeq than
//     the mark, whichever of both is committed first: its generation is born purged.
//   - So has a rollback or a renewed pin that read SEQ before, even in the same
//     transaction: META gets the sequence that was read, and the purge the next one.
//   - A mark that a reader of the marks has missed has a higher sequence than the one
//     that it read first.
//   - Two purges of one target, of any processes, are ordered by SEQ. Neither reads the
//     row: a soft purge leaves hard_seq as it is, and each of them sets a higher sequence.
//
// ctx, and replies that are lost, are as for [Store.Rollback].
func (s *Store) Purge(ctx context.Context, p store.Purge) (store.Receipt, error) {
	ctx = s.metered(ctx, "purge")
	change, err := newPurge(p)
	if err != nil {
		return store.Receipt{}, fmt.Errorf("purge: %w", err)
	}
	receipt, err := s.log.commit(ctx, change, nil)
	if err != nil {
		return store.Receipt{}, fmt.Errorf("purge %s: %w", describeTargets(p.Targets), err)
	}
	return receipt, nil
}

// describeTargets names the first target, for errors.
func describeTargets(targets []store.PurgeTarget) string {
	text := shorten(targets[0].String())
	if len(targets) > 1 {
		text += fmt.Sprintf(" and %d more", len(targets)-1)
	}
	return text
}

// A purge is one call of Purge.
type purge struct {
	targets []store.PurgeTarget
	rows    []itemKey // of the targets
	hard    bool
	confirm bool
	deliver []string
}

var _ loggedChange = (*purge)(nil)

func newPurge(p store.Purge) (*purge, error) {
	if err := p.Validate(); err != nil {
		return nil, err
	}
	c := &purge{hard: p.Hard, confirm: p.Confirm, deliver: p.Destinations}
	for _, t := range p.Targets {
		if slices.Contains(c.targets, t) {
			continue
		}
		row := itemKey{pkPurgeLog, markKey(t)}
		if t.Kind == store.PurgeKey {
			if err := checkPartition(t.PK); err != nil {
				return nil, err
			}
			if t.PK == pkPurgeLog {
				return nil, fmt.Errorf("%w: %q is the partition of the purge log, not of a page", store.ErrInvalidKey, t.PK)
			}
			row = itemKey{t.PK, skPurge}
		}
		c.targets, c.rows = append(c.targets, t), append(c.rows, row)
	}
	return c, nil
}

func (p *purge) items() []itemKey { return p.rows }

// mergeable: purges of one target that share a transaction have the same sequence, so
// they share the write as well.
func (p *purge) mergeable() bool { return true }

func (p *purge) destinations() []string { return p.deliver }

func (p *purge) write(w *logWrites) []action {
	for i, t := range p.targets {
		w.purge(p.rows[i], t, p.hard)
	}
	w.confirm = w.confirm || p.confirm
	w.deliver(p.deliver, p.hard, p.targets...)
	return nil
}

// A purge has no condition that can fail.
func (p *purge) recognizes(refusal) bool { return false }
func (p *purge) judge(refusal) error     { return nil }
