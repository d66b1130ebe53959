package fill

import (
	"context"
	"time"

	"github.com/facetheory/isr/store"
)

// listVariant lists the page, if it is a variant, for the time of its render. The entry
// that is to be replaced has been listed for as long as it is kept.
func (s *Fill) listVariant(ctx context.Context, rec store.Record) error {
	rendered := s.e.Now().Add(s.e.RenderTimeout + storeTime)
	e := rec.Entry
	if e != nil && !e.Foreign && !e.Withdrawn && (e.Expires.IsZero() || e.Expires.After(rendered)) {
		return nil
	}
	err := s.e.Variants.Add(ctx, s.Key, rendered)
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
	if s.listed.IsZero() {
		return
	}
	if err := s.e.Variants.Remove(ctx, s.Key, s.listed); err != nil {
		s.e.Complaints.Log("failed to remove a variant that is not stored from the list of its page", "key", s.Key.String(), "error", err)
	}
	s.listed = time.Time{}
}

// admitVariant decides, under the lease and once the variant is listed, whether a variant that
// was learned is rendered. It is refused if the page has too many others that may be served or
// are being rendered.
func (s *Fill) admitVariant(ctx context.Context, rec store.Record) (refused bool, err error) {
	kept, refused, err := s.otherVariants(ctx, rec)
	if refused {
		base, _ := s.Key.WithoutVariant()
		s.e.Variants.Refuse(s.Key, kept)
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
	return s.e.Variants.Others(ctx, s.Key, s.Policy.MaxVariants, func(k store.Key) bool { return len(s.Policy.Keys.Learned(k)) > 0 })
}
