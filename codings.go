package isr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/maypok86/otter/v2"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

// The codings of a body (gzip and others) are made once for all nodes, when a visitor first
// wants one, and off the path of visitors:
//
//	a hit  -> the page has the coding that the visitor prefers: it is written
//	       -> else: what it has is written, and the coder is asked
//	a load -> the coding that the visitor prefers is read beside the body
//	coder  -> reads the coding beside the body
//	       -> there is none: makes all codings of the route, and stores them beside the body
//
// Memory keeps the codings that were wanted. The coder works on few pages at once and encodes
// one at a time; what it has no time for is asked for again. If we crash, or the stored codings
// are lost or damaged, they are made again: nothing depends on them.

const (
	// maxCoding bounds the pages that wait for the coder, in number and bytes of their bodies.
	maxCoding      = 256
	maxCodingBytes = 32 << 20
	// coders is how many pages the coder works on at once; it encodes one of them.
	coders = 4
	// codingWait is how much longer than for its body a visitor waits for the stored coding of
	// a page that is loaded.
	codingWait = 50 * time.Millisecond
)

// codings returns the codings that pages of the route may have.
func (rt Route) codings() (has coding.Has) {
	if len(rt.Codings) == 0 {
		return coding.All()
	}
	for _, token := range rt.Codings {
		if c, ok := httpcache.ParseCoding(token); ok && c < httpcache.Identity {
			has[c] = true
		}
	}
	return has
}

// ViewRules returns what the route declares of its responses.
func (rt Route) viewRules() page.ViewRules {
	return page.ViewRules{
		Set: rt.SetHeader, Remove: rt.RemoveHeader, EarlyHints: rt.EarlyHints, Codings: rt.codings(),
		CacheControl: rt.Downstream.CacheControl, CDN: rt.Downstream.CDN, Surrogate: rt.Downstream.Surrogate,
	}
}

func (rt Route) validateCodings() error {
	for i, token := range rt.Codings {
		switch c, ok := httpcache.ParseCoding(token); {
		case !ok, c == httpcache.Identity && len(rt.Codings) > 1:
			return configErrorf("Codings", "must be some of br, zstd and gzip, or identity alone (got %q)", token)
		case slices.Contains(rt.Codings[:i], token):
			return configErrorf("Codings", "must not contain %q twice", token)
		}
	}
	return nil
}

// A coder makes and stores the codings of pages. Its methods are safe for concurrent use, and
// do nothing for a nil coder.
type coder struct {
	c *Cache
	// bodies is without the circuit breaker: whether codings can be read says nothing of
	// the bodies.
	bodies store.BodyStore

	encoding sync.Mutex // held while a page is encoded
	encoders sync.Pool  // of *coding.Encoder; there is one, or none after a pause

	mu      sync.Mutex
	queue   []codingJob // guarded by mu
	bytes   int         // guarded by mu: of the bodies in queue
	workers int         // guarded by mu
	closed  bool        // guarded by mu
}

// A codingJob is a page that lacks codings.
type codingJob struct {
	p      *page.Page
	as     *page.View
	wanted coding.Has
}

func newCoder(c *Cache, bodies store.BodyStore) *coder {
	return &coder{c: c, bodies: bodies, encoders: sync.Pool{New: func() any { return new(coding.Encoder) }}}
}

// want asks for a coding of a page.
func (d *coder) want(p *page.Page, as *page.View, wanted httpcache.Coding) {
	d.add(codingJob{p: p, as: as, wanted: coding.Only(wanted)})
}

// succeed asks for the codings that the page had before it was rendered again.
func (d *coder) succeed(p, old *page.Page, as *page.View) {
	if made, _, _ := old.KnownCodings(); p.Codable && made != (coding.Has{}) {
		d.add(codingJob{p: p, as: as, wanted: made.And(as.Codings)})
	}
}

// add queues a job, unless there is no room.
func (d *coder) add(j codingJob) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.queue) == maxCoding || d.bytes+len(j.p.Body()) > maxCodingBytes {
		return
	}
	d.queue, d.bytes = append(d.queue, j), d.bytes+len(j.p.Body())
	if d.workers < coders {
		d.workers++
		d.c.activity.begin()
		d.c.background.Go(d.work)
	}
}

// next returns the next job; ok is false if there is none, and the worker must end.
func (d *coder) next() (j codingJob, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed || len(d.queue) == 0 {
		d.queue, d.bytes = nil, 0
		d.workers--
		return codingJob{}, false
	}
	j, d.queue = d.queue[0], d.queue[1:]
	d.bytes -= len(j.p.Body())
	return j, true
}

// shut prevents further work. What is queued is dropped.
func (d *coder) shut() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
}

func (d *coder) work() {
	defer d.c.activity.end()
	for {
		j, ok := d.next()
		if !ok {
			return
		}
		d.run(j)
	}
}

// run provides the wanted codings of a page.
func (d *coder) run(j codingJob) {
	p := j.p
	made, none, absent := p.KnownCodings()
	if j.wanted = j.wanted.Without(made).Without(none); j.wanted == (coding.Has{}) {
		return
	}
	if !p.Stored {
		d.make(j, j.wanted)
		return
	}
	if !absent {
		switch err := d.readAll(j); {
		case err == nil:
			return
		case errors.Is(err, coding.ErrDamaged), errors.Is(err, store.ErrInvalidKey):
			d.c.complaints.Log("stored codings of a page are not usable; this process makes its own", "key", p.Key.String(), "error", err)
			d.make(j, j.wanted)
			return
		case !isAbsent(err):
			d.c.complaints.Log("failed to read the codings of a page; it is sent without", "key", p.Key.String(), "error", err)
			return
		}
	}
	d.put(p, d.make(j, j.as.Codings))
}

// isAbsent reports whether an error says that there are no codings beside a body, as far as
// this process may know.
func isAbsent(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDenied)
}

// readAll reads the wanted codings from beside the body.
func (d *coder) readAll(j codingJob) error {
	for c := range httpcache.Identity {
		if !j.wanted[c] {
			continue
		}
		has, coded, err := d.read(d.c.ctx, &j.p.Entry, func(coding.Has) httpcache.Coding { return c })
		if err != nil {
			return err
		}
		var set coding.Set
		set[c] = coded
		d.attach(j.p, coding.All().Without(has), set)
	}
	return nil
}

// read reads a coding from beside the body of an entry.
func (d *coder) read(ctx context.Context, e *store.Entry, choose func(coding.Has) httpcache.Coding) (coding.Has, []byte, error) {
	if local := d.c.local; local != nil {
		if all, err := local.ReadLocal(ctx, store.CodingsKey(e.BodyKey), maxCodings(e.Length)); err == nil {
			return coding.Read(bytes.NewReader(all), int64(len(all)), e.Length, e.SHA256, choose)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, guard.BodyTime(e.Length))
	defer cancel()
	rd, length, err := d.bodies.Open(ctx, store.CodingsKey(e.BodyKey))
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

// describe adds the codings beside the body of a detached page, without their content, so that the
// response to HEAD, or a 304, has the header of GET's.
func (d *coder) describe(ctx context.Context, p *page.Page, as *page.View, accept httpcache.Accept) {
	if d == nil || !p.Codable || accept.Prefer(as.Codings) == httpcache.Identity {
		return
	}
	if _, _, absent := p.KnownCodings(); absent {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, codingWait)
	defer cancel()
	rd, size, err := store.OpenRange(ctx, d.bodies, store.CodingsKey(p.Entry.BodyKey), 0, coding.HeadLength)
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

// maxCodings bounds the stored codings of a body of n bytes: each is shorter.
func maxCodings(n int64) int64 { return int64(httpcache.Identity)*n + 4<<10 }

// make makes codings of a page, and keeps the wanted ones in memory.
func (d *coder) make(j codingJob, all coding.Has) coding.Set {
	d.encoding.Lock()
	defer d.encoding.Unlock()
	encoder := d.encoders.Get().(*coding.Encoder)
	defer d.encoders.Put(encoder)
	var set, wanted coding.Set
	var none coding.Has
	for c := range httpcache.Identity {
		if all[c] {
			set[c] = encoder.Encode(c, j.p.Body())
			none[c] = set[c] == nil
		}
		if j.wanted[c] {
			wanted[c] = set[c]
		}
	}
	d.attach(j.p, none, wanted)
	return set
}

// put stores codings beside the body. Another node may have been faster.
func (d *coder) put(p *page.Page, set coding.Set) {
	if d.c.full() {
		return
	}
	ctx, cancel := context.WithTimeout(d.c.ctx, guard.BodyTime(p.Entry.Length))
	defer cancel()
	err := d.bodies.Put(ctx, store.CodingsKey(p.Entry.BodyKey), set.Marshal(p.Entry.SHA256))
	switch {
	case err == nil || errors.Is(err, store.ErrExists):
		p.CodingsStored()
	case d.c.ctx.Err() == nil:
		d.c.complaints.Log("failed to store the codings of a page; other nodes make them again", "key", p.Key.String(), "error", err)
	}
}

// attach adds codings to a page in memory.
func (d *coder) attach(p *page.Page, none coding.Has, set coding.Set) {
	p.AddCodings(none, set)
	reweigh(d.c.memory.pages, p)
	reweigh(d.c.unpublished.byKey, p)
	d.c.negative.reweigh(p)
}

// reweigh accounts for the weight of a page that has changed, if it is still there.
func reweigh(pages *otter.Cache[store.Key, *page.Page], p *page.Page) {
	if pages == nil {
		return
	}
	pages.Compute(p.Key, func(old *page.Page, found bool) (*page.Page, otter.ComputeOp) {
		if !found || old != p {
			return old, otter.CancelOp
		}
		return p, otter.WriteOp
	})
}

// prefetch begins to read the coding that a visitor prefers from beside the body of an entry,
// while the body is read. The result adds it to the page, if it is there in time.
func (d *coder) prefetch(ctx context.Context, e *store.Entry, as *page.View, accept httpcache.Accept) (add func(*page.Page)) {
	if e.Foreign || accept.Prefer(as.Codings) == httpcache.Identity || !coding.Useful(e.Header.Get("Content-Type"), e.Length) {
		return func(*page.Page) {}
	}
	results := make(chan storedCoding, 1)
	go func() { results <- d.stored(ctx, e, as, accept) }()
	return func(p *page.Page) {
		timer := time.NewTimer(codingWait)
		defer timer.Stop()
		select {
		case got := <-results:
			got.addTo(p)
		case <-timer.C: // a hit asks the coder
		}
	}
}

// addStored adds the coding that a visitor prefers to a page that is not in memory yet, from
// beside its body.
func (d *coder) addStored(ctx context.Context, p *page.Page, as *page.View, accept httpcache.Accept) {
	_, none, _ := p.KnownCodings()
	if d != nil && accept.Prefer(as.Codings.Without(none)) != httpcache.Identity {
		d.stored(ctx, &p.Entry, as, accept).addTo(p)
	}
}

// A storedCoding is what was found beside a body.
type storedCoding struct {
	c     httpcache.Coding
	has   coding.Has
	coded []byte
	err   error
}

// stored reads the coding that a visitor prefers of those beside the body of an entry.
func (d *coder) stored(ctx context.Context, e *store.Entry, as *page.View, accept httpcache.Accept) storedCoding {
	got := storedCoding{c: httpcache.Identity}
	got.has, got.coded, got.err = d.read(ctx, e, func(has coding.Has) httpcache.Coding {
		got.c = accept.Prefer(as.Codings.And(has))
		return got.c
	})
	return got
}

// addTo adds what was found beside its body to a page that is not in memory yet.
func (got storedCoding) addTo(p *page.Page) {
	switch {
	case got.err == nil:
		p.SetCoding(coding.All().Without(got.has), got.c, got.coded)
	case isAbsent(got.err):
		p.SetCodings(coding.Has{}, true)
	}
}
