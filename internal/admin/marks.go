package admin

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// marks are the purge marks of a store, by what they cover: the marks of a page are looked
// up, and not searched for, so that a list of many pages with many marks is fast.
type marks struct {
	marks map[store.PurgeTarget]store.Mark
	// lengths are the distinct lengths of the prefixes.
	lengths []int
	// others are of kinds that a newer version has written.
	others   []store.Mark
	lifetime time.Duration // how long marks are kept
}

// readMarks reads all marks.
func (a *API) readMarks(ctx context.Context) (marks, error) {
	sequence, err := a.store.Sequence(ctx)
	if err != nil {
		return marks{}, err
	}
	ms := marks{marks: make(map[store.PurgeTarget]store.Mark), lifetime: sequence.MarkLifetime}
	lengths := make(map[int]bool)
	for m, err := range a.store.Marks(ctx) {
		if err != nil {
			return marks{}, err
		}
		switch m.Target.Kind {
		case store.PurgePrefix:
			lengths[len(m.Target.Value)] = true
			fallthrough
		case store.PurgeTag, store.PurgeTenant, store.PurgeSite:
			ms.marks[m.Target] = m
		default:
			ms.others = append(ms.others, m)
		}
	}
	ms.lengths = slices.Sorted(maps.Keys(lengths))
	return ms, nil
}

// covering returns the merged state of the marks that cover a page with these tags.
func (ms marks) covering(k store.Key, tags []string, now time.Time) store.PurgeState {
	p := store.PurgeState{MarkLifetime: ms.lifetime}
	merge := func(t store.PurgeTarget) {
		if m, ok := ms.marks[t]; ok {
			p = p.Merge(m.State(now))
		}
	}
	merge(store.PurgeTarget{Kind: store.PurgeSite})
	merge(store.PurgeTarget{Kind: store.PurgeTenant, Tenant: k.Tenant})
	for _, tag := range tags {
		merge(store.PurgeTarget{Kind: store.PurgeTag, Tenant: k.Tenant, Value: tag})
	}
	for _, n := range ms.lengths {
		if n > len(k.Text) {
			break
		}
		merge(store.PurgeTarget{Kind: store.PurgePrefix, Tenant: k.Tenant, Value: k.Text[:n]})
	}
	for _, m := range ms.others {
		if m.Target.Covers(k, tags) {
			p = p.Merge(m.State(now))
		}
	}
	return p
}
