// Package variants keeps the list of the variants of each page, and bounds how many a page has.
//
// The problem: the variants of a page (see isr.Route.Vary) are pages of their own, in partitions that cannot be found
// from its key. A purge of the page on behalf of a visitor, who must not write marks, has to reach all of them. And
// visitors can make up variants, of which each would become a row and a body.
//
// The model: the partition of the page itself lists those that are stored.
//
//	variant: acquire LOCK -> list it, if it is not -> note the sequence -> render
//	         -> list it for as long as it is kept -> publish; or remove it from the list
//	purge:   list the variants -> read each: an entry, or a lease? -> purge their keys
//
// Guarantees:
//   - A variant that a purge does not find in the list was rendered after that, from a site that has the change.
//   - Of several processes that list one variant each at the same time, the last one to read the list sees all others:
//     a page never has more than its bound that were learned.
//   - If we crash, a variant stays listed that is not stored, for a day.
//   - A page that had too many costs the store nothing for half a minute; the pages that are known for that are
//     bounded.
package variants

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// Options are what a [List] uses of its process. Functions are safe for concurrent use.
type Options struct {
	Table store.VariantStore
	// Records reads the records of pages, in their order.
	Records   func(ctx context.Context, pages []store.Key) ([]store.Record, error)
	Partition func(store.Key) string
	// Has reports whether a page may have variants: nothing is listed otherwise.
	Has func() bool
	Now func() time.Time
}

// A List has the variants of all pages. All methods are safe for concurrent use.
type List struct {
	o       Options
	crowded crowdedPages
}

// New returns the list of a table.
func New(o Options) *List { return &List{o: o} }

// Add lists a variant until at least a time; zero is for ever. A key without a variant is not listed.
func (l *List) Add(ctx context.Context, k store.Key, until time.Time) error {
	page, isVariant := k.WithoutVariant()
	if !isVariant {
		return nil
	}
	return l.o.Table.AddVariant(ctx, l.o.Partition(page), k, until)
}

// Remove removes a variant from the list that was listed until a time, unless it was listed for longer since. A key
// without a variant is ignored.
func (l *List) Remove(ctx context.Context, k store.Key, until time.Time) error {
	page, isVariant := k.WithoutVariant()
	if !isVariant {
		return nil
	}
	return l.o.Table.RemoveVariant(ctx, l.o.Partition(page), k, until)
}

// Of returns up to limit variants of a page, which may be stored, and whether there are more: none if the page is a
// variant itself, or no page has any.
func (l *List) Of(ctx context.Context, page store.Key, limit int) (variants []store.Key, more bool, err error) {
	if _, isVariant := page.WithoutVariant(); isVariant || !l.o.Has() {
		return nil, false, nil
	}
	texts, more, err := l.o.Table.Variants(ctx, l.o.Partition(page), limit)
	for _, text := range texts {
		// Other writers of the table may have listed anything.
		if k := (store.Key{Tenant: page.Tenant, Text: text}); strings.HasPrefix(text, page.Text+"#") && store.ValidKey(k) == nil {
			variants = append(variants, k)
		}
	}
	return variants, more, err
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

// Others returns the other variants of the page of a variant that may be served, or are being rendered, and whether
// they are most or more. Only those count for which counts is true. kept is not complete if few are listed.
func (l *List) Others(ctx context.Context, k store.Key, most int, counts func(store.Key) bool) (kept []store.Key, tooMany bool, err error) {
	page, _ := k.WithoutVariant()
	listed, more, err := l.Of(ctx, page, listedPerVariant*most)
	if err != nil {
		return nil, false, err
	}
	listed = slices.DeleteFunc(listed, func(other store.Key) bool { return other == k || !counts(other) })
	if len(listed) < most && !more {
		return nil, false, nil
	}
	records, err := l.o.Records(ctx, listed)
	if err != nil {
		return nil, false, err
	}
	now := l.o.Now()
	for i, rec := range records {
		if state := store.Freshness(rec.Entry, rec.Purges, now); state == store.Fresh || state == store.Stale || rec.LeasedAt(now) {
			kept = append(kept, listed[i])
		}
	}
	return kept, len(kept) >= most || more, nil
}

// Refuse makes Refuses true for further variants of the page of a variant, for half a minute. kept are those that it has.
func (l *List) Refuse(k store.Key, kept []store.Key) {
	page, _ := k.WithoutVariant()
	l.crowded.note(page, kept, time.Now())
}

// Refuses reports whether the page of a key had too many variants a moment ago, of which k is none.
func (l *List) Refuses(k store.Key) bool {
	page, _ := k.WithoutVariant()
	return l.crowded.excludes(page, k, time.Now())
}

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

func (c *crowdedPages) note(page store.Key, kept []store.Key, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byPage == nil {
		c.byPage = make(map[store.Key]crowdedPage)
	}
	if len(c.byPage) >= maxCrowded {
		clear(c.byPage) // the store decides again
	}
	c.byPage[page] = crowdedPage{now.Add(crowdedFor), kept}
}

// excludes reports whether a page has too many variants, of which k is none.
func (c *crowdedPages) excludes(page, k store.Key, now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	found, full := c.byPage[page]
	if full && !now.Before(found.until) {
		delete(c.byPage, page)
		full = false
	}
	return full && !slices.Contains(found.kept, k)
}
