package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// Evict makes room on a disk that has a bound: it forgets whole pages, rows and
// bodies, until enough is free. Nothing is wrong with them; they are rendered again
// when they are asked for. It rests on the argument of [Collect]: a page is forgotten
// under its lease, so that nothing is being published of it; a body is deleted only
// if it was there before the lease was taken and no row names it afterwards. A page
// whose lease is held is in use, and left alone.

// A Forgetter is a store that can forget a page.
type Forgetter interface {
	store.MetaStore
	// Forget deletes the entry of a page, under its lease and only if it is still
	// what read saw (ErrMoved otherwise; ErrLeaseLost if the lease is gone), and then
	// its versions. The lease stays.
	Forget(ctx context.Context, l store.Lease, read store.Record) error
}

// EvictOptions adjust [Evict].
type EvictOptions struct {
	// Free is how much is to be freed at least, in bytes as [BodyFootprint] counts
	// them.
	Free int64
	// LastUse tells when a page, by its partition key, was used last, zero if that is
	// not known. Bodies tell it too: they were used when they were written, or when
	// their store says that they were modified. May be nil.
	LastUse func(pk string) time.Time
	// Report is called for every page that was forgotten, by one goroutine at a time.
	// It may be nil.
	Report func(Evicted)
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
}

// Evicted is a page that was forgotten.
type Evicted struct {
	PK    string
	Bytes int64 // that its bodies took
}

// bodyOverhead is what a body takes in a file system beside its content: the rest of
// its last block, on average, its folder, and its rows.
const bodyOverhead = 6 << 10

// BodyFootprint is what a body of n bytes is taken to need on a disk, with its folder
// and its page's rows.
func BodyFootprint(n int64) int64 { return n + bodyOverhead }

// maxConsidered bounds how many pages one eviction has in memory, about 50 MB. If
// there are more, it takes the oldest of that many, which the order of the scan picks
// as if at random.
const maxConsidered = 256 << 10

// Evict forgets pages, the least recently used first, until opts.Free bytes are free
// or nothing is left, and returns how many bytes were freed. Pages with older
// generations go after all others, and pinned ones last. It lists all bodies and scans
// the table once. Pages that are being regenerated are left alone.
func Evict(ctx context.Context, meta Forgetter, bodies store.BodyStore, opts EvictOptions) (freed int64, err error) {
	if opts.Now == nil {
		opts.Now = time.Now
	}
	e := &evictor{meta: meta, bodies: bodies, opts: opts}
	if err := e.run(ctx); err != nil {
		return e.freed, fmt.Errorf("making room: %w", err)
	}
	return e.freed, nil
}

type evictor struct {
	meta   Forgetter
	bodies store.BodyStore
	opts   EvictOptions

	mu    sync.Mutex
	freed int64 // guarded by mu
}

// An evictable is a page that may be forgotten.
type evictable struct {
	pk    string
	used  int64 // Unix nanoseconds
	bytes int64
	rank  int // when it goes: rankPlain, rankHistory, rankPinned
}

const (
	rankPlain   = iota
	rankHistory // it has older generations, or results of requests
	rankPinned
)

func (e *evictor) run(ctx context.Context) error {
	found, err := e.find(ctx)
	if err != nil {
		return err
	}
	for rank := rankPlain; rank <= rankPinned; rank++ {
		if err := e.forgetAll(ctx, found, rank); err != nil {
			return err
		}
	}
	return nil
}

// find returns the pages that have bodies, the least recently used first.
func (e *evictor) find(ctx context.Context) ([]*evictable, error) {
	byFolder := make(map[uint64]*evictable)
	for page, err := range e.meta.ReferencedBodies(ctx) {
		if err != nil {
			return nil, err
		}
		if len(page.Keys) == 0 {
			continue
		}
		p := &evictable{pk: page.PK}
		slices.Sort(page.Keys)
		if len(slices.Compact(page.Keys)) > 1 {
			p.rank = rankHistory
		}
		if e.opts.LastUse != nil {
			if at := e.opts.LastUse(page.PK); !at.IsZero() {
				p.used = at.UnixNano()
			}
		}
		byFolder[folderDigest(store.BodyPrefix(page.PK))] = p
		if len(byFolder) == maxConsidered {
			break
		}
	}
	for info, err := range e.bodies.List(ctx, store.BodyRoot) {
		if err != nil {
			return nil, err
		}
		if _, folder, ok := folderOfBody(info.Key); ok && byFolder[folder] != nil {
			p := byFolder[folder]
			p.bytes += BodyFootprint(info.Length)
			p.used = max(p.used, info.ModifiedAt.UnixNano())
		}
	}
	pages := make([]*evictable, 0, len(byFolder))
	for _, p := range byFolder {
		if p.bytes > 0 {
			pages = append(pages, p)
		}
	}
	slices.SortFunc(pages, func(a, b *evictable) int { return cmp.Compare(a.used, b.used) })
	return pages, nil
}

// missing is how much is still to be freed.
func (e *evictor) missing() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Free - e.freed
}

// forgetAll forgets the pages of a rank in their order, until enough is free. Those that
// turn out to be pinned are left for their own rank.
func (e *evictor) forgetAll(ctx context.Context, pages []*evictable, rank int) error {
	var due []*evictable
	for _, p := range pages {
		if p.rank == rank {
			due = append(due, p)
		}
	}
	for len(due) > 0 && e.missing() > 0 {
		// No more at once than are needed if all of them can be forgotten.
		n, bytes := 0, int64(0)
		for n < len(due) && bytes < e.missing() {
			bytes += due[n].bytes
			n++
		}
		if err := e.forgetBatch(ctx, due[:n], rank); err != nil {
			return err
		}
		due = due[n:]
	}
	return nil
}

// forgetBatch forgets pages, several at once. The first error ends it.
func (e *evictor) forgetBatch(ctx context.Context, pages []*evictable, rank int) error {
	working, each := errgroup.WithContext(ctx)
	working.SetLimit(lookers)
	for _, p := range pages {
		if each.Err() != nil {
			break
		}
		working.Go(func() error {
			if err := e.forget(each, p, rank); err != nil {
				return fmt.Errorf("partition %s: %w", p.pk, err)
			}
			return nil
		})
	}
	if err := working.Wait(); err != nil {
		return err
	}
	return context.Cause(ctx)
}

// forget forgets one page. That somebody else is at work on it, or was faster, is no
// error.
func (e *evictor) forget(ctx context.Context, p *evictable, rank int) error {
	// Listed before the lease is taken: what is written under another lease from now
	// on is not on the list.
	var listed []store.BodyInfo
	for info, err := range e.bodies.List(ctx, store.BodyPrefix(p.pk)) {
		if err != nil {
			return err
		}
		listed = append(listed, info)
	}
	// The deletions end with the lease. Whoever ends the eviction waits for the pages
	// that are being forgotten: a lease whose answer is not awaited has to be settled.
	held, cancel := context.WithTimeout(context.WithoutCancel(ctx), store.DefaultLease)
	defer cancel()
	lease, err := e.meta.Acquire(held, p.pk, store.DefaultLease, nil)
	if errors.As(err, new(*store.HeldError)) {
		return nil
	}
	if err != nil {
		return err
	}
	err = e.leased(held, lease, p, rank, listed)
	if errors.Is(err, store.ErrMoved) || errors.Is(err, store.ErrLeaseLost) || held.Err() != nil {
		err = nil
	}
	settle, cancelSettle := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancelSettle()
	return errors.Join(err, e.meta.Release(settle, lease))
}

func (e *evictor) leased(ctx context.Context, lease store.Lease, p *evictable, rank int, listed []store.BodyInfo) error {
	rec, err := e.meta.Read(ctx, p.pk)
	if err != nil {
		return err
	}
	if rec.Entry != nil && rec.Entry.PinnedUntil.After(e.opts.Now()) && rank < rankPinned {
		p.rank = rankPinned
		return nil
	}
	if err := e.meta.Forget(ctx, lease, rec); err != nil {
		return err
	}
	names, err := e.meta.BodyKeys(ctx, p.pk)
	if err != nil {
		return err
	}
	freed := int64(0)
	for _, info := range listed {
		if isNamed(info, names) { // by a rollback that came first, or the result of a request
			continue
		}
		if err := e.bodies.Delete(ctx, info.Key); err != nil {
			return err
		}
		freed += BodyFootprint(info.Length)
	}
	e.account(Evicted{PK: p.pk, Bytes: freed})
	return nil
}

func (e *evictor) account(page Evicted) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.freed += page.Bytes
	if e.opts.Report != nil {
		e.opts.Report(page)
	}
}
