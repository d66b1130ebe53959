package gc

import (
	"cmp"
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// Compacted is the result of [CompactMarks].
type Compacted struct {
	Marks int // deleted, or to be deleted
	Kept  int
}

// CompactMarks deletes the purge marks that a newer mark of their tenant or of the site
// includes, unless dry is set. Which pages are covered does not change. It reads all marks
// twice, and keeps the marks of tenants and of the site in memory. It may run concurrently with
// any number of caches, purges and compactions: a mark that was purged again after that is
// not deleted, and a mark that includes another one only grows, or is included in turn.
//
// If we crash, the next compaction deletes the rest.
func CompactMarks(ctx context.Context, meta store.PurgeStore, dry bool) (Compacted, error) {
	var done Compacted
	err := compactMarks(ctx, meta, dry, &done)
	if err != nil {
		return done, fmt.Errorf("compacting purge marks: %w", err)
	}
	return done, nil
}

func compactMarks(ctx context.Context, meta store.PurgeStore, dry bool, done *Compacted) error {
	var site *store.Mark
	tenants := make(map[string]store.Mark)
	for m, err := range meta.Marks(ctx) {
		switch {
		case err != nil:
			return err
		case m.Target == store.PurgeTarget{Kind: store.PurgeSite}:
			site = &m
		case m.Target.Kind == store.PurgeTenant:
			tenants[m.Target.Tenant] = m
		}
	}
	deleting, each := errgroup.WithContext(ctx)
	deleting.SetLimit(concurrency)
	var failed error
	for m, err := range meta.Marks(each) {
		if failed = err; err != nil {
			break
		}
		ofTenant, ok := tenants[m.Target.Tenant]
		if !(site != nil && replaces(*site, m) || ok && replaces(ofTenant, m)) {
			done.Kept++
			continue
		}
		done.Marks++
		if !dry {
			deleting.Go(func() error { return meta.DeleteMark(each, m) })
		}
	}
	// If a deletion failed, that ended each, and the listing.
	return cmp.Or(deleting.Wait(), failed)
}

// replaces reports whether m includes another mark.
func replaces(m, o store.Mark) bool { return m.Target != o.Target && m.Includes(o) }
