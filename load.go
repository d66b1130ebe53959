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

// read asks the store for the record of a key, and says when that was. From here on
// this process serves nobody what it knows to be purged.
func (c *Cache) read(ctx context.Context, k Key, pk string) (Record, reading, error) {
	at := reading{began: time.Now()}
	rec, err := c.meta.Read(ctx, pk)
	at.ended = time.Now()
	if err != nil {
		return Record{}, at, fmt.Errorf("reading %s: %w", k, err)
	}
	// Those who put a page into memory look for what was learnt afterwards: either
	// they see this, or this sees their page.
	c.flights.learn(k, rec.Cover)
	if p := c.memory.get(k); p != nil && Freshness(&p.entry, p.cover.Merge(rec.Cover), c.now()) == Purged {
		c.reload(k)
	}
	return rec, at, nil
}

// read is that of the cache, made again if the page was reloaded meanwhile.
func (s *search) read(ctx context.Context) (rec Record, err error) {
	for again := true; again; again = s.c.reloads.crossed(s.key, s.latest) {
		if rec, s.latest, err = s.c.read(ctx, s.key, s.pk); err != nil {
			return Record{}, err
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
	rec.Cover = s.f.known(rec.Cover)
	s.f.found(rec)
	return rec, nil
}

// keep puts a page that was just read, or published, into memory. If it is not
// clear whether others were served a newer one, or will be served an older one, the
// page is reloaded: nobody who comes after them goes back. ErrPurged: it is not to
// be served, since it was purged meanwhile.
func (s *search) keep(p *page) error {
	clear := s.c.memory.put(p)
	known := s.f.known(p.cover)
	if !clear || known.Seq > p.cover.Seq {
		s.c.reload(p.key)
	}
	if Freshness(&p.entry, known, s.c.now()) == Purged {
		return ErrPurged
	}
	return nil
}

// load makes a page of the record that was read last, with the body from memory where
// the same generation is there already, and keeps it in memory. ErrPurged: it was
// purged meanwhile.
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
	return p, s.keep(p)
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
