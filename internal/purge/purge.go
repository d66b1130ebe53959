// Package purge ends the freshness of pages on all nodes, by their keys, tags, prefixes, tenants, or all of them.
//
// The problem: one purge may cover a page or a million. It must cost the same; it must hold at once on the node that made
// it, however late the others learn of it; it must reach the variants of a page, which have keys of their own; and it
// must not end a pin that an operator has set by accident.
//
// The model: a purge is one transaction, which writes a row for each target and one into the log. Which pages a target
// covers is decided when they are requested.
//
//	Complete: targets of pages ──► with their partition keys, and prefixes that cover their variants
//	Purge:    a hard purge ──► is one of the pages, or a listed variant, pinned? ──► refused
//	Commit:   one transaction ──► this node: the log, flights, marks ──► peers are told ──► pages are dropped
//
// Guarantees:
//   - Once Commit has returned, this node serves nothing that is older. It drops pages by their keys also if it returns an
//     error: the purge may have been made. If we crash before that, the node learns of it from the log.
//   - A purge of several targets is made as a whole, or not at all.
//   - What one call reads, because pages may be pinned or not stored, is bounded.
package purge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/store"
)

// A Table is the part of a metadata store that purges use.
type Table interface {
	// Purge and Nodes are as of [store.MetaStore].
	Purge(ctx context.Context, p store.Purge) (store.Receipt, error)
	Nodes(ctx context.Context) ([]store.Node, error)
}

// Options are what [Purges] use of their process. Functions are safe for concurrent use.
type Options struct {
	Table Table
	// Variants returns up to limit variants of a page that may be stored, and whether there are more.
	Variants func(ctx context.Context, page store.Key, limit int) (variants []store.Key, more bool, err error)
	// ReadEach calls use with the record of each page and its index, several at a time, until the first error.
	ReadEach func(ctx context.Context, pages []store.Key, use func(n int, rec store.Record) error) error
	// HasVariants reports whether a page may have variants.
	HasVariants func() bool
	Partition   func(store.Key) string

	// Committed, Learn, Mark and Tell make a purge of this process take effect, in this order: that the log has it, what
	// it means for a page and its flights, and for all others, and that peers must look. Drop makes this process read a
	// page again before it serves it.
	Committed func(seq int64)
	Learn     func(k store.Key, purges store.PurgeState)
	Mark      func(at time.Time, marks ...store.Mark)
	Tell      func(seq int64)
	Drop      func(pages ...store.Key)
	// Made tells the observer of a purge that this process has made.
	Made func(store.Purge)

	// IsSelf reports whether a node is this process, and Unreachable whether an error means that the table was not reached.
	IsSelf      func(store.Node) bool
	Unreachable func(error) bool
	Now         func() time.Time
	Jitter      func(time.Duration) time.Duration
	Log         *slog.Logger
}

// Purges are the purges of a process. All methods are safe for concurrent use.
type Purges struct{ o Options }

// New returns the purges of a process.
func New(o Options) *Purges { return &Purges{o} }

// Purge purges pages, and returns a receipt once that is committed. unpin: pages by their keys are purged even if the
// purge is hard and they are pinned. Errors wrap store.ErrInvalidInput or store.ErrInvalidKey for invalid targets, or
// too many of them, and store.ErrPinned; nothing was purged then. Otherwise they are the table's.
func (p *Purges) Purge(ctx context.Context, wanted store.Purge, unpin bool) (store.Receipt, error) {
	asked := wanted.Targets
	receipt, err := p.purge(ctx, wanted, unpin)
	if err != nil {
		return store.Receipt{}, fmt.Errorf("purging: %w", err)
	}
	p.o.Log.Info("purged", "targets", Describe(asked), "hard", wanted.Hard, "seq", receipt.Seq)
	return receipt, nil
}

func (p *Purges) purge(ctx context.Context, wanted store.Purge, unpin bool) (_ store.Receipt, err error) {
	if wanted.Targets, err = p.Complete(wanted.Targets); err != nil {
		return store.Receipt{}, err
	}
	if wanted.Hard && !unpin {
		if err := p.refusePinned(ctx, wanted.Targets); err != nil {
			return store.Receipt{}, err
		}
	}
	return p.Commit(ctx, wanted, func(int64) {})
}

// keyOf returns the key of a target that is a page.
func keyOf(t store.PurgeTarget) store.Key { return store.Key{Tenant: t.Tenant, Text: t.Value} }

// pagesOf returns the keys of the targets that are pages.
func pagesOf(targets []store.PurgeTarget) (pages []store.Key) {
	for _, t := range targets {
		if t.Kind == store.PurgeKey {
			pages = append(pages, keyOf(t))
		}
	}
	return pages
}

// Commit executes a purge whose targets are complete (see Complete). committed is called
// with its sequence before it takes effect.
func (p *Purges) Commit(ctx context.Context, wanted store.Purge, committed func(seq int64)) (store.Receipt, error) {
	receipt, err := p.o.Table.Purge(ctx, wanted)
	if err == nil {
		committed(receipt.Seq)
		p.apply(wanted.Targets, wanted.Hard, receipt.Seq)
		p.o.Made(wanted)
	}
	// Also on errors: the purge may have been made.
	for _, t := range wanted.Targets {
		if t.Kind == store.PurgeKey {
			p.o.Drop(keyOf(t))
		}
	}
	return receipt, err
}

// apply makes this node's own purge take effect. If we crash before that, the node
// learns of it from the log, as the others do.
func (p *Purges) apply(targets []store.PurgeTarget, hard bool, seq int64) {
	p.o.Committed(seq)
	m := store.Mark{Seq: seq, At: p.o.Now().Truncate(time.Second)}
	if hard {
		m.HardSeq = seq
	}
	var marks []store.Mark
	for _, t := range targets {
		if t.Kind == store.PurgeKey {
			p.o.Learn(keyOf(t), m.State(m.At))
			continue
		}
		m.Target = t
		marks = append(marks, m)
	}
	p.o.Mark(m.At, marks...)
	p.o.Tell(seq)
}

// Complete checks targets, and completes targets of pages: by their partition keys, and
// by prefixes that cover their variants.
func (p *Purges) Complete(targets []store.PurgeTarget) ([]store.PurgeTarget, error) {
	variants := p.o.HasVariants()
	var all []store.PurgeTarget
	add := func(t store.PurgeTarget) {
		if !slices.Contains(all, t) {
			all = append(all, t)
		}
	}
	pages := 0
	for i, t := range targets {
		if i == store.MaxPurgeTargets {
			return nil, fmt.Errorf("%w: at most %d targets can be purged together (got %d); split them into several purges", store.ErrInvalidInput, store.MaxPurgeTargets, len(targets))
		}
		if err := t.Validate(); err != nil {
			return nil, err
		}
		if t.Kind != store.PurgeKey {
			add(t)
			continue
		}
		t.PK = p.o.Partition(keyOf(t))
		add(t)
		// A prefix that is too long for a key covers nothing.
		if of := (store.PurgeTarget{Kind: store.PurgePrefix, Tenant: t.Tenant, Value: t.Value + "#"}); variants && !strings.Contains(t.Value, "#") && of.Validate() == nil {
			add(of)
			pages++
		}
	}
	switch {
	case len(all) == 0:
		return nil, fmt.Errorf("%w: a purge needs a target", store.ErrInvalidInput)
	case len(all) > store.MaxPurgeTargets:
		of := fmt.Sprintf("%d pages", pages)
		if pages == 1 {
			of = "1 page"
		}
		return nil, fmt.Errorf("%w: %d targets, and the variants of %s, which count as well, are more than the %d that can be purged together; split them into several purges",
			store.ErrInvalidInput, len(all)-pages, of, store.MaxPurgeTargets)
	}
	return all, nil
}

// maxPinned bounds the pages that one purge reads because they may be pinned.
const maxPinned = 2000

// refusePinned returns an error that wraps [store.ErrPinned] if one of the pages, or of
// their variants, is pinned.
func (p *Purges) refusePinned(ctx context.Context, targets []store.PurgeTarget) error {
	pages, err := p.mayBePinned(ctx, targets)
	if err != nil {
		return err
	}
	return p.o.ReadEach(ctx, pages, func(n int, rec store.Record) error {
		if p.Pinned(rec) {
			return fmt.Errorf("%s: %w; unpin it, or ask for that with the purge", pages[n], generations.PinError(rec.Entry))
		}
		return nil
	})
}

// mayBePinned returns the pages of targets, and their variants that are listed.
func (p *Purges) mayBePinned(ctx context.Context, targets []store.PurgeTarget) (pages []store.Key, err error) {
	pages = pagesOf(targets)
	for _, page := range slices.Clone(pages) {
		variants, more, err := p.o.Variants(ctx, page, max(maxPinned-len(pages), 1))
		if err != nil {
			return nil, err
		}
		pages = append(pages, variants...)
		if more || len(pages) > maxPinned {
			return nil, fmt.Errorf("%w: with its variants %s is more than the %d pages that can be checked for pins; purge it softly, by the prefix %s#, or ask for unpinning",
				store.ErrInvalidInput, page, maxPinned, page.Text)
		}
	}
	return pages, nil
}

// NotStored returns the pages among the targets of a purge that have no stored generation and no
// variant with one, and are not being rendered. A purge of such a page is valid, but its sender
// may have meant another one. It reads each page, and the list of its variants if routes of the
// cache may have any. Errors are the store's own.
func (p *Purges) NotStored(ctx context.Context, targets []store.PurgeTarget) ([]store.Key, error) {
	pages := pagesOf(targets)
	stored := make([]bool, len(pages))
	err := p.o.ReadEach(ctx, pages, func(n int, rec store.Record) (err error) {
		if stored[n] = p.isStored(rec); !stored[n] {
			stored[n], err = p.hasStoredVariant(ctx, pages[n])
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("finding out which pages are stored: %w", err)
	}
	var missing []store.Key
	for n, k := range pages {
		if !stored[n] {
			missing = append(missing, k)
		}
	}
	return missing, nil
}

// hasStoredVariant reports whether one of the first variants of a page is stored, or whether there
// are more than that.
func (p *Purges) hasStoredVariant(ctx context.Context, page store.Key) (bool, error) {
	const most = 32
	variants, more, err := p.o.Variants(ctx, page, most)
	if err != nil || more {
		return more, err
	}
	var stored atomic.Bool
	err = p.o.ReadEach(ctx, variants, func(_ int, rec store.Record) error {
		if p.isStored(rec) {
			stored.Store(true)
		}
		return nil
	})
	return stored.Load(), err
}

// isStored reports whether a page has a generation that visitors may get, or is being rendered.
func (p *Purges) isStored(rec store.Record) bool {
	return rec.Entry != nil && !rec.Entry.Withdrawn || rec.LeasedAt(p.o.Now())
}

// Pinned reports whether a page is pinned and no purge has ended that: an operator has
// decided what visitors get.
func (p *Purges) Pinned(rec store.Record) bool {
	e := rec.Entry
	return e != nil && !e.Withdrawn && e.PinnedUntil.After(p.o.Now()) && !e.CoveredBy(rec.Purges)
}

// Describe names the first few targets, for the log.
func Describe(targets []store.PurgeTarget) string {
	const most = 5
	var names []string
	for _, t := range targets[:min(len(targets), most)] {
		names = append(names, t.String())
	}
	if more := len(targets) - most; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return strings.Join(names, ", ")
}

// Pauses between reads of the nodes in [Purges.Await].
const (
	firstAwait = 20 * time.Millisecond
	maxAwait   = time.Second
)

// Await waits until all live nodes have applied a purge, and returns them. If ctx ends first, it returns its error, and
// as missing the nodes that have not, or have not said so.
func (p *Purges) Await(ctx context.Context, r store.Receipt) (live, missing []store.Node, err error) {
	for round := 0; ; round++ {
		nodes, err := p.o.Table.Nodes(ctx)
		if err == nil {
			live, missing = nodes, slices.DeleteFunc(slices.Clone(nodes), func(n store.Node) bool {
				return n.Applied >= r.Seq || p.o.IsSelf(n) // this one has, before Purge returned
			})
			if len(missing) == 0 {
				return live, nil, nil
			}
		} else if ctx.Err() == nil && !p.o.Unreachable(err) {
			return nil, nil, fmt.Errorf("listing the nodes: %w", err)
		}
		if late := backoff.Wait(ctx, p.o.Jitter(backoff.Exponential(firstAwait, maxAwait, round))); late != nil {
			return live, missing, errors.Join(late, err)
		}
	}
}
