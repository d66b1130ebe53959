package generations

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/store"
)

// Expiry is when the table may delete an entry: a day after the latest of its stale window, its pin and the
// retention; zero, which is never, if it is pinned for ever. A negative answer is not retained beyond its windows.
func Expiry(e store.Entry, now time.Time, retention time.Duration) time.Time {
	if !e.PinnedUntil.Before(store.Forever()) {
		return time.Time{}
	}
	if e.Status >= http.StatusBadRequest {
		retention = 0
	}
	t := now.Add(retention)
	if e.StaleUntil().After(t) {
		t = e.StaleUntil()
	}
	if e.PinnedUntil.After(t) {
		t = e.PinnedUntil
	}
	return t.Add(24 * time.Hour).Truncate(time.Second)
}

// SameContent reports whether two generations look the same to visitors.
func SameContent(a, b *store.Entry) bool {
	return !a.Foreign && a.SHA256 == b.SHA256 && a.Length == b.Length && a.Status == b.Status && a.ETag == b.ETag &&
		slices.Equal(a.Tags, b.Tags) && maps.EqualFunc(lasting(a.Header), lasting(b.Header), slices.Equal)
}

// lasting returns the header fields of an entry without those that differ in every generation.
func lasting(h http.Header) http.Header {
	if h["Date"] == nil && h["Cache-Status"] == nil {
		return h
	}
	h = maps.Clone(h)
	delete(h, "Date")
	delete(h, "Cache-Status")
	return h
}

// CheckBody returns an error wrapping bodies.ErrMissing unless the body of a generation exists.
func CheckBody(ctx context.Context, all store.BodyStore, g *store.Entry) error {
	info, err := all.Stat(ctx, g.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey):
		return fmt.Errorf("generation %s: %w: %w", g.GenerationID, bodies.ErrMissing, err)
	case err != nil:
		return fmt.Errorf("checking the body of generation %s: %w", g.GenerationID, err)
	case info.Length != g.Length && !g.Foreign:
		return fmt.Errorf("generation %s: %w: %s has %d bytes, %d were published", g.GenerationID, bodies.ErrMissing, g.BodyKey, info.Length, g.Length)
	}
	return nil
}

// PinError returns an error that wraps [store.ErrPinned], and says until when an entry is pinned.
func PinError(e *store.Entry) error {
	if !e.PinnedUntil.Before(store.Forever()) {
		return fmt.Errorf("%w (until it is unpinned)", store.ErrPinned)
	}
	return fmt.Errorf("%w (until %s)", store.ErrPinned, e.PinnedUntil.UTC().Format(time.RFC3339))
}
