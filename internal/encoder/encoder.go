package encoder

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/coding"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/store"
)

const (
	// maxQueue bounds the pages that wait to be encoded, in number and bytes of their bodies.
	maxQueue      = 256
	maxQueueBytes = 32 << 20
	// maxWorkers is how many pages are worked on at once; one of them is encoded.
	maxWorkers = 4
	// patience is how much longer than for its body a visitor waits for the stored coding of
	// a page that is loaded.
	patience = 50 * time.Millisecond
)

// Options are what an Encoder needs. Only Local may be nil.
type Options struct {
	// Bodies has the bodies, without a circuit breaker: whether codings can be read is no sign of
	// whether bodies can.
	Bodies store.BodyStore
	// Local reads from a local disk; nil if the store has none.
	Local store.LocalReader
	// Full reports whether nothing more is to be stored.
	Full func() bool
	// Reweigh is called after codings were added to a page, which may be in memory and now weighs more.
	Reweigh func(*page.Page)
	// Go runs a worker. Begin and End are called when it begins and ends to work.
	Go         func(worker func())
	Begin, End func()
	// Complain logs an error about a single page; it may suppress lines.
	Complain func(msg string, args ...any)
}

// An Encoder makes and stores the codings of pages. Its methods are safe for concurrent use.
type Encoder struct {
	o   Options
	ctx context.Context // of the work in the background

	encoding sync.Mutex // held while a page is encoded
	encoders sync.Pool  // of *coding.Encoder; there is one, or none after a pause

	mu      sync.Mutex
	queue   []job // guarded by mu
	bytes   int   // guarded by mu: of the bodies in queue
	workers int   // guarded by mu
	closed  bool  // guarded by mu
}

// A job is a page that lacks codings.
type job struct {
	p      *page.Page
	as     *page.View
	wanted coding.Has
}

// New returns an Encoder whose work is cancelled when ctx is done.
func New(ctx context.Context, o Options) *Encoder {
	return &Encoder{ctx: ctx, o: o, encoders: sync.Pool{New: func() any { return new(coding.Encoder) }}}
}

// Want asks for a coding of a page.
func (en *Encoder) Want(p *page.Page, as *page.View, wanted httpcache.Coding) {
	en.add(job{p: p, as: as, wanted: coding.Only(wanted)})
}

// Succeed asks for the codings that a page had before it was rendered again, as old.
func (en *Encoder) Succeed(p, old *page.Page, as *page.View) {
	if made, _, _ := old.KnownCodings(); p.Codable && made != (coding.Has{}) {
		en.add(job{p: p, as: as, wanted: made.And(as.Codings)})
	}
}

// Shut prevents further work. Queued pages are dropped.
func (en *Encoder) Shut() {
	en.mu.Lock()
	defer en.mu.Unlock()
	en.closed = true
}

// add queues a job, unless there is no room.
func (en *Encoder) add(j job) {
	en.mu.Lock()
	defer en.mu.Unlock()
	if en.closed || len(en.queue) == maxQueue || en.bytes+len(j.p.Body()) > maxQueueBytes {
		return
	}
	en.queue, en.bytes = append(en.queue, j), en.bytes+len(j.p.Body())
	if en.workers < maxWorkers {
		en.workers++
		en.o.Begin()
		en.o.Go(en.work)
	}
}

// next returns the next job; ok is false if there is none, and the worker must end.
func (en *Encoder) next() (j job, ok bool) {
	en.mu.Lock()
	defer en.mu.Unlock()
	if en.closed || len(en.queue) == 0 {
		en.queue, en.bytes = nil, 0
		en.workers--
		return job{}, false
	}
	j, en.queue = en.queue[0], en.queue[1:]
	en.bytes -= len(j.p.Body())
	return j, true
}

func (en *Encoder) work() {
	defer en.o.End()
	for {
		j, ok := en.next()
		if !ok {
			return
		}
		en.run(j)
	}
}

// run provides the wanted codings of a page.
func (en *Encoder) run(j job) {
	p := j.p
	made, none, absent := p.KnownCodings()
	if j.wanted = j.wanted.Without(made).Without(none); j.wanted == (coding.Has{}) {
		return
	}
	if !p.Stored {
		en.make(j, j.wanted)
		return
	}
	if !absent {
		switch err := en.readAll(j); {
		case err == nil:
			return
		case errors.Is(err, coding.ErrDamaged), errors.Is(err, store.ErrInvalidKey):
			en.o.Complain("stored codings of a page are not usable; this process makes its own", "key", p.Key.String(), "error", err)
			en.make(j, j.wanted)
			return
		case !isAbsent(err):
			en.o.Complain("failed to read the codings of a page; it is sent without", "key", p.Key.String(), "error", err)
			return
		}
	}
	en.put(p, en.make(j, j.as.Codings))
}

// isAbsent reports whether an error says that there are no codings beside a body, as far as
// this process may know.
func isAbsent(err error) bool {
	return errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrDenied)
}

// readAll reads the wanted codings from beside the body.
func (en *Encoder) readAll(j job) error {
	for c := range httpcache.Identity {
		if !j.wanted[c] {
			continue
		}
		has, coded, err := en.read(en.ctx, &j.p.Entry, func(coding.Has) httpcache.Coding { return c })
		if err != nil {
			return err
		}
		var set coding.Set
		set[c] = coded
		en.attach(j.p, coding.All().Without(has), set)
	}
	return nil
}

// make makes codings of a page, and keeps the wanted ones in memory.
func (en *Encoder) make(j job, all coding.Has) coding.Set {
	en.encoding.Lock()
	defer en.encoding.Unlock()
	encoder := en.encoders.Get().(*coding.Encoder)
	defer en.encoders.Put(encoder)
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
	en.attach(j.p, none, wanted)
	return set
}

// put stores codings beside the body. Another node may have been faster.
func (en *Encoder) put(p *page.Page, set coding.Set) {
	if en.o.Full() {
		return
	}
	ctx, cancel := context.WithTimeout(en.ctx, guard.BodyTime(p.Entry.Length))
	defer cancel()
	err := en.o.Bodies.Put(ctx, store.CodingsKey(p.Entry.BodyKey), set.Marshal(p.Entry.SHA256))
	switch {
	case err == nil || errors.Is(err, store.ErrExists):
		p.CodingsStored()
	case en.ctx.Err() == nil:
		en.o.Complain("failed to store the codings of a page; other nodes make them again", "key", p.Key.String(), "error", err)
	}
}

// attach adds codings to a page in memory.
func (en *Encoder) attach(p *page.Page, none coding.Has, set coding.Set) {
	p.AddCodings(none, set)
	en.o.Reweigh(p)
}
