package gc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// Evict makes room on a disk of bounded size by forgetting whole pages, rows and bodies.
// The pages are valid; they are rendered again on demand.
//
// Which pages go first:
//
//	unproven   one generation, and no use ten minutes or more after it was rendered
//	proven     all others: visitors come back to them
//	pinned
//
// and of each the least recently used first. The time of use alone would let anyone who invents URLs
// displace the site: their pages are the newest. They are requested once, and prove nothing. A
// change proves no more than a use does: a page that has changed once does not outlive one that is
// requested every hour and never changes.
//
// It is safe for the reason given for [Collect]: a page is forgotten under its lease, so that no
// publish of it is in progress, and a body is deleted only if it existed before the lease was taken
// and no row refers to it afterwards. A page whose lease is held is in use, and is skipped.

// A Forgetter is the part of a metadata store that [Evict] uses.
type Forgetter interface {
	Store
	store.Reader
	// Forget deletes the entry of a page and then its versions, under its lease and only
	// if the entry is still what read saw (ErrMoved otherwise; ErrLeaseLost if the lease
	// is lost). The lease stays held.
	Forget(ctx context.Context, l store.Lease, read store.Record) error
}

// EvictOptions are the options of [Evict].
type EvictOptions struct {
	// Free is the least number of bytes to free, as [BodyFootprint] counts them.
	Free int64
	// LastUse returns when a page, by its partition key, was last used; zero if unknown.
	// The modification times of its bodies count as uses too. May be nil.
	LastUse func(pk string) time.Time
	// Report is called for every page that was forgotten, by one goroutine at a time. Nil
	// means no reports.
	Report func(Evicted)
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
}

// Evicted is a page that was forgotten.
type Evicted struct {
	PK    string
	Bytes int64 // footprint of its bodies
}

// bodyOverhead is what a body takes on disk in addition to its content: the rest of its
// last block, on average, and of the last blocks of its codings, and its rows.
const bodyOverhead = 6 << 10

// BodyFootprint is the estimated size on disk of a body of n bytes, with the rows of its page.
func BodyFootprint(n int64) int64 { return n + bodyOverhead }

// maxConsidered is how many pages one eviction keeps in memory, about 50 MB. If there are
// more, it evicts the oldest of a sample of this size: the scan order is as good as random.
const maxConsidered = 256 << 10

// concurrency is how many pages are forgotten at once, and how many marks are deleted.
const concurrency = 16

// provenAfter is how long after its render a use of a page proves that visitors come back to it: not
// sooner than stores of bodies record uses.
const provenAfter = 10 * time.Minute

// Evict forgets pages until opts.Free bytes are free or no page is left, and returns how many bytes
// were freed. Pages with one generation that were not used ten minutes or more after its render, such
// as pages of invented URLs, are evicted first, and pinned pages last; among equals the least
// recently used first. It lists all bodies and scans the table once. It skips pages that are being
// regenerated.
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
	pk         string
	born, used int64 // Unix nanoseconds: of its oldest generation, and of its last use
	bytes      int64
	rank       int // the order of eviction: rankUnproven, rankProven, rankPinned
}

const (
	rankUnproven = iota
	rankProven
	rankPinned
)

// see records that the page has a body, written or last used at a time.
func (p *evictable) see(key string, at time.Time) {
	generated := at
	if t, ok := generatedAt(key); ok {
		generated = t
	}
	if _, isCodings := store.CodedBody(key); !isCodings { // codings are written at any time
		p.born = min(p.born, generated.UnixNano())
	}
	p.used = max(p.used, at.UnixNano(), generated.UnixNano())
}

// generatedAt returns when the generation of a body was rendered, which its key says (see
// spec/schema.md).
func generatedAt(key string) (time.Time, bool) {
	name, _, _ := strings.Cut(key[strings.LastIndexByte(key, '/')+1:], "-")
	t, err := time.Parse("20060102T150405.000000Z", name)
	return t, err == nil
}

func (e *evictor) run(ctx context.Context) error {
	found, err := e.find(ctx)
	if err != nil {
		return err
	}
	for rank := rankUnproven; rank <= rankPinned; rank++ {
		if err := e.forgetAll(ctx, found, rank); err != nil {
			return err
		}
	}
	return nil
}

// find returns the pages that have bodies, least recently used first.
func (e *evictor) find(ctx context.Context) ([]*evictable, error) {
	byFolder := make(map[uint64]*evictable)
	for page, err := range e.meta.ReferencedBodies(ctx) {
		if err != nil {
			return nil, err
		}
		if len(page.Keys) == 0 {
			continue
		}
		p := &evictable{pk: page.PK, born: math.MaxInt64}
		slices.Sort(page.Keys)
		if len(slices.Compact(page.Keys)) > 1 { // older generations, or results of requests
			p.rank = rankProven
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
			p.see(info.Key, info.ModifiedAt)
		}
	}
	pages := make([]*evictable, 0, len(byFolder))
	for _, p := range byFolder {
		if p.bytes == 0 {
			continue
		}
		if p.used-p.born >= int64(provenAfter) {
			p.rank = rankProven
		}
		pages = append(pages, p)
	}
	slices.SortFunc(pages, func(a, b *evictable) int { return cmp.Compare(a.used, b.used) })
	return pages, nil
}

// missing returns how many bytes are still to be freed.
func (e *evictor) missing() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.opts.Free - e.freed
}

// forgetAll forgets the pages of a rank in order, until enough is free. Pages that turn out
// to be pinned are left for rankPinned.
func (e *evictor) forgetAll(ctx context.Context, pages []*evictable, rank int) error {
	var due []*evictable
	for _, p := range pages {
		if p.rank == rank {
			due = append(due, p)
		}
	}
	for len(due) > 0 && e.missing() > 0 {
		// As many as are needed if each of them can be forgotten.
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
	working.SetLimit(concurrency)
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

// forget forgets one page. It returns nil if another process holds the lease or has
// changed the page.
func (e *evictor) forget(ctx context.Context, p *evictable, rank int) error {
	// List before taking the lease: bodies that are written under a later lease are not on
	// the list.
	var listed []store.BodyInfo
	for info, err := range e.bodies.List(ctx, store.BodyPrefix(p.pk)) {
		if err != nil {
			return err
		}
		listed = append(listed, info)
	}
	// The deletions end with the lease, not with ctx: Evict waits for the pages that are
	// being forgotten, because an abandoned acquisition would have to be settled.
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
	keys, err := e.meta.BodyKeys(ctx, p.pk)
	if err != nil {
		return err
	}
	freed := int64(0)
	for _, info := range listed {
		if isReferenced(info, keys) { // by a rollback that came first, or the result of a request
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
