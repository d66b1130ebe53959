package fill

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// The variants of a page (see isr.Route.Vary) are pages of their own, in partitions that cannot
// be found from its key. The page's own partition lists those that are stored, so that a
// purge of the page on behalf of a visitor, who must not write marks, reaches all of them:
//
//	variant: acquire LOCK -> list it, if it is not -> note the sequence -> render
//	         -> list it for as long as it is kept -> publish; or remove it from the list
//	purge:   list the variants -> read each: an entry, or a lease? -> purge their keys
//
// A variant that a purge does not find in the list was rendered after that, from a site
// that has the change. If we crash, a variant stays listed that is not stored, for a day.

// ListVariant lists a variant until at least a time; zero is for ever. A key without a
// variant is not listed.
func (e *Engine) ListVariant(ctx context.Context, k store.Key, until time.Time) error {
	page, isVariant := k.WithoutVariant()
	if !isVariant {
		return nil
	}
	return e.Meta.AddVariant(ctx, e.Partition(page), k, until)
}

// listVariant lists the page, if it is a variant, for the time of its render. The entry
// that is to be replaced has been listed for as long as it is kept.
func (s *Fill) listVariant(ctx context.Context, rec store.Record) error {
	rendered := s.e.Now().Add(s.e.RenderTimeout + storeTime)
	e := rec.Entry
	if e != nil && !e.Foreign && !e.Withdrawn && (e.Expires.IsZero() || e.Expires.After(rendered)) {
		return nil
	}
	err := s.e.ListVariant(ctx, s.Key, rendered)
	if err == nil && e == nil {
		s.listed = rendered
	}
	return err
}

// unlistVariant removes a variant from the list that was listed for its render only, so
// that requests for invented URLs leave no rows. The lease must be held: otherwise the next
// holder, who may have found the variant listed, would render it unlisted. If it fails, or
// we crash before, the variant stays listed for a day.
func (s *Fill) unlistVariant(ctx context.Context) {
	page, isVariant := s.Key.WithoutVariant()
	if !isVariant || s.listed.IsZero() {
		return
	}
	if err := s.e.Meta.RemoveVariant(ctx, s.e.Partition(page), s.Key, s.listed); err != nil {
		s.e.Complaints.Log("failed to remove a variant that is not stored from the list of its page", "key", s.Key.String(), "error", err)
	}
	s.listed = time.Time{}
}

// ListedVariants returns up to limit variants of a page, which may be stored, and whether
// there are more: none if the page is a variant itself, or no route of this cache has any.
func (e *Engine) ListedVariants(ctx context.Context, page store.Key, limit int) (variants []store.Key, more bool, err error) {
	if _, isVariant := page.WithoutVariant(); isVariant || !e.HasVariants() {
		return nil, false, nil
	}
	texts, more, err := e.Meta.Variants(ctx, e.Partition(page), limit)
	for _, text := range texts {
		// Other writers of the table may have listed anything.
		if k := (store.Key{Tenant: page.Tenant, Text: text}); strings.HasPrefix(text, page.Text+"#") && store.ValidKey(k) == nil {
			variants = append(variants, k)
		}
	}
	return variants, more, err
}

// ReadAll returns the records of pages.
func (e *Engine) ReadAll(ctx context.Context, pages []store.Key) ([]store.Record, error) {
	records := make([]store.Record, len(pages))
	err := e.ReadEach(ctx, pages, func(n int, rec store.Record) error {
		records[n] = rec
		return nil
	})
	return records, err
}

// ReadEach calls use with the record of each page and its index, several at a time. It ends
// with the first error.
func (e *Engine) ReadEach(ctx context.Context, pages []store.Key, use func(n int, rec store.Record) error) error {
	reads, ctx := errgroup.WithContext(ctx)
	reads.SetLimit(maxReads)
	for n, k := range pages {
		reads.Go(func() error {
			rec, _, err := e.Node.Read(ctx, k, e.Partition(k))
			if err != nil {
				return err
			}
			return use(n, rec)
		})
	}
	return reads.Wait()
}

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
func (s *Fill) admitVariant(ctx context.Context, rec store.Record) (refused bool, err error) {
	kept, refused, err := s.otherVariants(ctx, rec)
	if refused {
		base, _ := s.Key.WithoutVariant()
		s.e.Crowded.note(base, kept, time.Now())
		s.e.Complaints.Log("a page has too many variants by the headers that its Vary names; requests for others pass through", "key", base.String(), "variants", len(kept))
	}
	return refused, err
}

// otherVariants reports whether the page has too many other variants, and which.
func (s *Fill) otherVariants(ctx context.Context, rec store.Record) (kept []store.Key, tooMany bool, err error) {
	if len(s.Policy.Keys.Learned(s.Key)) == 0 {
		return nil, false, nil
	}
	if state := store.Freshness(rec.Entry, rec.Purges, s.e.Now()); state == store.Fresh || state == store.Stale {
		return nil, false, nil
	}
	base, _ := s.Key.WithoutVariant()
	most := s.Policy.MaxVariants
	listed, more, err := s.e.ListedVariants(ctx, base, listedPerVariant*most)
	if err != nil {
		return nil, false, err
	}
	listed = slices.DeleteFunc(listed, func(k store.Key) bool { return k == s.Key || len(s.Policy.Keys.Learned(k)) == 0 })
	if len(listed) < most && !more {
		return nil, false, nil
	}
	records, err := s.e.ReadAll(ctx, listed)
	if err != nil {
		return nil, false, err
	}
	now := s.e.Now()
	for i, rec := range records {
		if state := store.Freshness(rec.Entry, rec.Purges, now); state == store.Fresh || state == store.Stale || BeingRendered(rec, now) {
			kept = append(kept, listed[i])
		}
	}
	return kept, len(kept) >= most || more, nil
}

// BeingRendered reports whether a process holds the lease of a page.
func BeingRendered(rec store.Record, now time.Time) bool {
	return isLease(rec.Lock) && rec.Lock.HeldAt(now)
}

// maxReads bounds the concurrent reads of [Engine.ReadEach].
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

// Excludes reports whether a page has too many variants, of which k is none.
func (f *crowdedPages) Excludes(page, k store.Key, now time.Time) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	found, full := f.byPage[page]
	if full && !now.Before(found.until) {
		delete(f.byPage, page)
		full = false
	}
	return full && !slices.Contains(found.kept, k)
}
