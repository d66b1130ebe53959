package isr

import (
	"context"
	"strings"
	"time"

	"github.com/facetheory/isr/store"
)

// The variants of a page (see Route.Vary) are pages of their own, in partitions that cannot
// be found from its key. The page's own partition lists those that are stored, so that a
// purge of the page on behalf of a visitor, who must not write marks, reaches all of them:
//
//	variant: acquire LOCK -> list it, if it is not -> note the sequence -> render
//	         -> list it for as long as it is kept -> publish; or remove it from the list
//	purge:   list the variants -> read each: an entry, or a lease? -> purge their keys
//
// A variant that a purge does not find in the list was rendered after that, from a site
// that has the change. If we crash, a variant stays listed that is not stored, for a day.

// listVariant lists a variant until at least a time; zero is for ever. A key without a
// variant is not listed.
func (c *Cache) listVariant(ctx context.Context, k store.Key, until time.Time) error {
	page, isVariant := k.WithoutVariant()
	if !isVariant {
		return nil
	}
	return c.meta.AddVariant(ctx, c.cfg.Partition(page), k, until)
}

// listVariant lists the page, if it is a variant, for the time of its render. The entry
// that is to be replaced has been listed for as long as it is kept.
func (s *search) listVariant(ctx context.Context, rec store.Record) error {
	rendered := s.c.now().Add(s.c.cfg.RenderTimeout + storeTime)
	e := rec.Entry
	if e != nil && !e.Foreign && !e.Withdrawn && (e.Expires.IsZero() || e.Expires.After(rendered)) {
		return nil
	}
	err := s.c.listVariant(ctx, s.key, rendered)
	if err == nil && e == nil {
		s.listed = rendered
	}
	return err
}

// unlistVariant removes a variant from the list that was listed for its render only, so
// that requests for invented URLs leave no rows. The lease must be held: otherwise the next
// holder, who may have found the variant listed, would render it unlisted. If it fails, or
// we crash before, the variant stays listed for a day.
func (s *search) unlistVariant(ctx context.Context) {
	page, isVariant := s.key.WithoutVariant()
	if !isVariant || s.listed.IsZero() {
		return
	}
	if err := s.c.meta.RemoveVariant(ctx, s.c.cfg.Partition(page), s.key, s.listed); err != nil {
		s.c.complaints.log("failed to remove a variant that is not stored from the list of its page", "key", s.key.String(), "error", err)
	}
	s.listed = time.Time{}
}

// listedVariants returns up to limit variants of a page, which may be stored, and whether
// there are more: none if the page is a variant itself, or no route of this cache has any.
func (c *Cache) listedVariants(ctx context.Context, page store.Key, limit int) (variants []store.Key, more bool, err error) {
	if _, isVariant := page.WithoutVariant(); isVariant || !c.hasVariants() {
		return nil, false, nil
	}
	texts, more, err := c.meta.Variants(ctx, c.cfg.Partition(page), limit)
	for _, text := range texts {
		// Other writers of the table may have listed anything.
		if k := (store.Key{Tenant: page.Tenant, Text: text}); strings.HasPrefix(text, page.Text+"#") && store.ValidKey(k) == nil {
			variants = append(variants, k)
		}
	}
	return variants, more, err
}

func (t *watchedTable) AddVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	err := t.MetaStore.AddVariant(call, pk, k, until)
	t.answered(ctx, pk, err)
	return err
}

func (t *watchedTable) RemoveVariant(ctx context.Context, pk string, k store.Key, until time.Time) error {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	err := t.MetaStore.RemoveVariant(call, pk, k, until)
	t.answered(ctx, pk, err)
	return err
}

func (t *watchedTable) Variants(ctx context.Context, pk string, limit int) (texts []string, more bool, err error) {
	call, cancel := context.WithTimeout(ctx, tableTimeout)
	defer cancel()
	texts, more, err = t.MetaStore.Variants(call, pk, limit)
	t.answered(ctx, pk, err)
	return texts, more, err
}
