package isr

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"time"
)

// read asks the store for the record of the key; again, if the page was reloaded
// meanwhile.
func (s *search) read(ctx context.Context) (rec Record, err error) {
	for again := true; again; again = s.c.reloads.crossed(s.key, s.latest) {
		s.latest.began = time.Now()
		rec, err = s.c.meta.Read(ctx, s.pk)
		s.latest.ended = time.Now()
		if err != nil {
			return Record{}, fmt.Errorf("reading %s: %w", s.key, err)
		}
	}
	if rec.Malformed != nil {
		s.c.log.Warn("a malformed row counts as missing", "key", s.key.String(), "pk", s.pk, "error", rec.Malformed)
	}
	if e := rec.Entry; e != nil && e.Foreign {
		// Another service's row says nothing of a stale window: the route does.
		foreign := *e
		foreign.Stale = s.route.projector.stale
		rec.Entry = &foreign
	}
	return rec, nil
}

// load makes a page of the record that was read last, with the body from memory where the same
// generation is there already, and keeps it in memory.
func (s *search) load(ctx context.Context, rec Record) (*page, error) {
	e := rec.Entry
	old := s.c.memory.get(s.key)
	var body []byte
	switch {
	case old != nil && sameEntry(&old.entry, e) && old.cover == rec.Cover:
		return old, nil
	case old != nil && !e.Foreign && old.entry.BodyKey == e.BodyKey && old.entry.SHA256 == e.SHA256:
		body = old.body // other services may write new content under an old key; we never do
	default:
		var err error
		if body, err = s.c.readBody(ctx, e); err != nil {
			if errors.Is(err, ErrNoBody) {
				s.c.log.Warn("an entry without its body counts as missing", "key", s.key.String(), "body", e.BodyKey, "error", err)
			}
			return nil, err
		}
	}
	p := newPage(s.key, *e, rec.Cover, s.latest, body)
	s.c.keep(p)
	return p, nil
}

// sameEntry says whether two readings are of one generation, unchanged.
func sameEntry(a, b *Entry) bool {
	return a.Version == b.Version && a.GenerationID == b.GenerationID && a.Foreign == b.Foreign &&
		a.BodyKey == b.BodyKey && a.GeneratedAt.Equal(b.GeneratedAt) && a.Revalidate == b.Revalidate && a.Stale == b.Stale && a.ETag == b.ETag
}

// readBody reads and checks the body of an entry. ErrNoBody: it is gone, or not
// what was published.
func (c *Cache) readBody(ctx context.Context, e *Entry) ([]byte, error) {
	rd, length, err := c.bodies.Open(ctx, e.BodyKey)
	switch {
	case errors.Is(err, ErrNotFound), errors.Is(err, ErrInvalidKey):
		return nil, fmt.Errorf("%w: %w", ErrNoBody, err)
	case err != nil:
		return nil, fmt.Errorf("opening the body %s: %w", e.BodyKey, err)
	}
	defer func() { _ = rd.Close() }() // read only
	if length > c.cfg.MaxBody {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are read", ErrNoBody, e.BodyKey, length, c.cfg.MaxBody)
	}
	if !e.Foreign && length != e.Length {
		return nil, fmt.Errorf("%w: %s has %d bytes, %d were published", ErrNoBody, e.BodyKey, length, e.Length)
	}
	body := make([]byte, length)
	if _, err := io.ReadFull(rd, body); err != nil {
		return nil, fmt.Errorf("reading the body %s: %w", e.BodyKey, err)
	}
	if sum := sha256.Sum256(body); !e.Foreign && hex.EncodeToString(sum[:]) != e.SHA256 {
		return nil, fmt.Errorf("%w: %s does not have the published content", ErrNoBody, e.BodyKey)
	}
	return body, nil
}
