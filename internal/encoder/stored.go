package encoder

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// Stored is what was found beside a body: the coding that a visitor prefers, and which there are.
type Stored struct {
	c     httpcache.Coding
	has   coding.Has
	coded []byte
	err   error
}

// MaxStored bounds the stored codings of a body of n bytes: each is shorter.
func MaxStored(n int64) int64 { return int64(httpcache.Identity)*n + 4<<10 }

// Choose returns the coding that a visitor prefers of the stored codings of an entry's body, which were
// read as a whole. Its content aliases all.
func Choose(all []byte, e *store.Entry, as *page.View, accept httpcache.Accept) (Stored, error) {
	got := Stored{c: httpcache.Identity}
	got.has, got.coded, got.err = coding.Read(bytes.NewReader(all), int64(len(all)), e.Length, e.SHA256, got.preferred(as, accept))
	return got, got.err
}

// preferred returns a function that chooses the coding that a visitor prefers, and records it.
func (got *Stored) preferred(as *page.View, accept httpcache.Accept) func(coding.Has) httpcache.Coding {
	return func(has coding.Has) httpcache.Coding {
		got.c = accept.Prefer(as.Codings.And(has))
		return got.c
	}
}

// HasContent reports whether a coding was found that the visitor prefers to the plain body.
func (got *Stored) HasContent() bool { return got.coded != nil }

// AddTo adds what was found beside its body to a page that is not in memory yet.
func (got *Stored) AddTo(p *page.Page) {
	switch {
	case got.err == nil:
		p.SetCoding(coding.All().Without(got.has), got.c, got.coded)
	case isAbsent(got.err):
		p.SetCodings(coding.Has{}, true)
	}
}

// Prefetch begins to read the coding that a visitor prefers from beside the body of an entry,
// while the body is read. The result adds it to the page, if it is there in time.
func (en *Encoder) Prefetch(ctx context.Context, e *store.Entry, as *page.View, accept httpcache.Accept) (add func(*page.Page)) {
	if e.Foreign || accept.Prefer(as.Codings) == httpcache.Identity || !coding.Useful(e.Header.Get("Content-Type"), e.Length) {
		return func(*page.Page) {}
	}
	results := make(chan Stored, 1)
	go func() { results <- en.stored(ctx, e, as, accept) }()
	return func(p *page.Page) {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		select {
		case got := <-results:
			got.AddTo(p)
		case <-timer.C: // a hit asks for it
		}
	}
}

// AddStored adds the coding that a visitor prefers to a page that is not in memory yet, from
// beside its body.
func (en *Encoder) AddStored(ctx context.Context, p *page.Page, as *page.View, accept httpcache.Accept) {
	_, none, _ := p.KnownCodings()
	if accept.Prefer(as.Codings.Without(none)) != httpcache.Identity {
		got := en.stored(ctx, &p.Entry, as, accept)
		got.AddTo(p)
	}
}

// Describe adds the codings beside the body of a detached page, without their content, so that the
// response to HEAD, or a 304, has the same header as the response to GET.
func (en *Encoder) Describe(ctx context.Context, p *page.Page, as *page.View, accept httpcache.Accept) {
	if !p.Codable || accept.Prefer(as.Codings) == httpcache.Identity {
		return
	}
	if _, _, absent := p.KnownCodings(); absent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	rd, size, err := store.OpenRange(ctx, en.o.Bodies, store.CodingsKey(p.Entry.BodyKey), 0, coding.HeadLength)
	if err != nil {
		return // GET gets none either, or none in time
	}
	defer func() { _ = rd.Close() }() // read only
	lengths, err := coding.ReadLengths(rd, size, p.Entry.Length)
	if err != nil {
		return
	}
	p.DescribeCodings(lengths)
}

// stored reads the coding that a visitor prefers of the codings beside the body of an entry.
func (en *Encoder) stored(ctx context.Context, e *store.Entry, as *page.View, accept httpcache.Accept) Stored {
	got := Stored{c: httpcache.Identity}
	got.has, got.coded, got.err = en.read(ctx, e, got.preferred(as, accept))
	return got
}

// read reads a coding from beside the body of an entry.
func (en *Encoder) read(ctx context.Context, e *store.Entry, choose func(coding.Has) httpcache.Coding) (coding.Has, []byte, error) {
	if en.o.Local != nil {
		if all, err := en.o.Local.ReadLocal(ctx, store.CodingsKey(e.BodyKey), MaxStored(e.Length)); err == nil {
			return coding.Read(bytes.NewReader(all), int64(len(all)), e.Length, e.SHA256, choose)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, guard.BodyTime(e.Length))
	defer cancel()
	rd, length, err := en.o.Bodies.Open(ctx, store.CodingsKey(e.BodyKey))
	if err != nil {
		return coding.Has{}, nil, fmt.Errorf("opening the codings of %s: %w", e.BodyKey, err)
	}
	defer func() { _ = rd.Close() }() // read only
	has, coded, err := coding.Read(rd, length, e.Length, e.SHA256, choose)
	if err != nil {
		return coding.Has{}, nil, fmt.Errorf("reading the codings of %s: %w", e.BodyKey, err)
	}
	return has, coded, nil
}
