package isr

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// DefaultMaxVariants is the default of [Route.MaxVariants].
const DefaultMaxVariants = 16

// maxMaxVariants bounds [Route.MaxVariants]: the variants are read to be counted.
const maxMaxVariants = 256

const (
	// listedPerVariant is how many variants of a page may be listed for each that may be
	// served at the same time: unused ones stay listed for a while.
	listedPerVariant = 4
	// crowdedFor is how long a process admits no new variant of a page that had too many.
	crowdedFor = 30 * time.Second
	// maxCrowded bounds the pages that a process knows to have too many.
	maxCrowded = 4096
)

// admitVariant decides, under the lease and once the variant is listed, whether a variant that
// was learned is rendered. It is refused if the page has too many others that may be served or
// are being rendered. Of several processes that list one variant each at the same time, the
// last one to read the list sees all others: there are never more than the bound.
func (s *fill) admitVariant(ctx context.Context, rec store.Record) (refused bool, err error) {
	kept, refused, err := s.otherVariants(ctx, rec)
	if refused {
		base, _ := s.key.WithoutVariant()
		s.e.crowded.note(base, kept, time.Now())
		s.e.Complaints.Log("a page has too many variants by the headers that its Vary names; requests for others pass through", "key", base.String(), "variants", len(kept))
	}
	return refused, err
}

// otherVariants reports whether the page has too many other variants, and which.
func (s *fill) otherVariants(ctx context.Context, rec store.Record) (kept []store.Key, tooMany bool, err error) {
	if len(s.policy.keys.Learned(s.key)) == 0 {
		return nil, false, nil
	}
	if state := store.Freshness(rec.Entry, rec.Purges, s.e.Now()); state == store.Fresh || state == store.Stale {
		return nil, false, nil
	}
	base, _ := s.key.WithoutVariant()
	most := s.policy.maxVariants
	listed, more, err := s.e.listedVariants(ctx, base, listedPerVariant*most)
	if err != nil {
		return nil, false, err
	}
	listed = slices.DeleteFunc(listed, func(k store.Key) bool { return k == s.key || len(s.policy.keys.Learned(k)) == 0 })
	if len(listed) < most && !more {
		return nil, false, nil
	}
	records, err := s.e.readAll(ctx, listed)
	if err != nil {
		return nil, false, err
	}
	now := s.e.Now()
	for i, rec := range records {
		if state := store.Freshness(rec.Entry, rec.Purges, now); state == store.Fresh || state == store.Stale || beingRendered(rec, now) {
			kept = append(kept, listed[i])
		}
	}
	return kept, len(kept) >= most || more, nil
}

// beingRendered reports whether a process holds the lease of a page.
func beingRendered(rec store.Record, now time.Time) bool {
	return isLease(rec.Lock) && rec.Lock.HeldAt(now)
}

// maxReads bounds the concurrent reads of [Cache.readEach].
const maxReads = 8

// crowdedPages are the pages that had too many variants a moment ago, with those that they
// have. With them, visitors who invent values cost the store nothing. All methods are safe
// for concurrent use.
type crowdedPages struct {
	mu     sync.Mutex
	byPage map[store.Key]crowdedPage // guarded by mu
}

type crowdedPage struct {
	until time.Time
	kept  []store.Key
}

func (f *crowdedPages) note(page store.Key, kept []store.Key, now time.Time) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byPage == nil {
		f.byPage = make(map[store.Key]crowdedPage)
	}
	if len(f.byPage) >= maxCrowded {
		clear(f.byPage) // the store decides again
	}
	f.byPage[page] = crowdedPage{now.Add(crowdedFor), kept}
}

// excludes reports whether a page has too many variants, of which k is none.
func (f *crowdedPages) excludes(page, k store.Key, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, full := f.byPage[page]
	if full && !now.Before(found.until) {
		delete(f.byPage, page)
		full = false
	}
	return full && !slices.Contains(found.kept, k)
}
