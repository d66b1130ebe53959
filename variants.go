package isr

import (
	"context"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// listVariant lists a variant until at least a time; zero is for ever. A key without a
// variant is not listed.
func (e *engine) listVariant(ctx context.Context, k store.Key, until time.Time) error {
	page, isVariant := k.WithoutVariant()
	if !isVariant {
		return nil
	}
	return e.Meta.AddVariant(ctx, e.Partition(page), k, until)
}

// listVariant lists the page, if it is a variant, for the time of its render. The entry
// that is to be replaced has been listed for as long as it is kept.
func (s *fill) listVariant(ctx context.Context, rec store.Record) error {
	rendered := s.e.Now().Add(s.e.RenderTimeout + storeTime)
	e := rec.Entry
	if e != nil && !e.Foreign && !e.Withdrawn && (e.Expires.IsZero() || e.Expires.After(rendered)) {
		return nil
	}
	err := s.e.listVariant(ctx, s.key, rendered)
	if err == nil && e == nil {
		s.listed = rendered
	}
	return err
}

// unlistVariant removes a variant from the list that was listed for its render only, so
// that requests for invented URLs leave no rows. The lease must be held: otherwise the next
// holder, who may have found the variant listed, would render it unlisted. If it fails, or
// we crash before, the variant stays listed for a day.
func (s *fill) unlistVariant(ctx context.Context) {
	page, isVariant := s.key.WithoutVariant()
	if !isVariant || s.listed.IsZero() {
		return
	}
	if err := s.e.Meta.RemoveVariant(ctx, s.e.Partition(page), s.key, s.listed); err != nil {
		s.e.Complaints.Log("failed to remove a variant that is not stored from the list of its page", "key", s.key.String(), "error", err)
	}
	s.listed = time.Time{}
}

// listedVariants returns up to limit variants of a page, which may be stored, and whether
// there are more: none if the page is a variant itself, or no route of this cache has any.
func (e *engine) listedVariants(ctx context.Context, page store.Key, limit int) (variants []store.Key, more bool, err error) {
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

// readAll returns the records of pages.
func (e *engine) readAll(ctx context.Context, pages []store.Key) ([]store.Record, error) {
	records := make([]store.Record, len(pages))
	err := e.readEach(ctx, pages, func(n int, rec store.Record) error {
		records[n] = rec
		return nil
	})
	return records, err
}

// readEach calls use with the record of each page and its index, several at a time. It ends
// with the first error.
func (e *engine) readEach(ctx context.Context, pages []store.Key, use func(n int, rec store.Record) error) error {
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
