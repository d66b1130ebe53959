package isr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/breaker"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/store"
)

// A Purge ends the freshness of pages, on every node. Which pages a target covers is decided
// when they are requested, so that a purge costs the same whether it covers one page or a
// million: one transaction.
//
// It covers all generations whose rendering began before the purge was committed, also
// those that are published later. Their visitors get them as stale pages, within the stale
// window, while they are regenerated; after a hard purge, they are never served again. A
// purge takes precedence over a pin, which ends with the next generation.
type Purge struct {
	// Targets are what is purged, together or not at all: see [PurgeKey], [PurgeTag],
	// [PurgePrefix], [PurgeHost], [PurgeTenant] and [PurgeSite]. At most
	// [store.MaxPurgeTargets], of which a page counts twice if it may have variants (see
	// [PurgeKey]).
	Targets []store.PurgeTarget
	// Hard: what is purged is never served again, even if no new page can be rendered.
	Hard bool
	// Unpin allows a hard purge of pages, by their keys, that are pinned, or have pinned
	// variants. Without it such a purge is refused. Targets of other kinds cover pinned
	// pages in any case.
	Unpin bool
	// Confirm asks all nodes to report at once that they have applied the purge, for
	// [Cache.AwaitPurge]. It costs a write per node.
	Confirm bool
}

// PurgeKey is the target of one page, and of its variants if routes of the cache may have
// any (see [Route.Vary]) and the key names none. The page need not exist: a generation that
// is being rendered is covered, too.
func PurgeKey(k store.Key) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeKey, Tenant: k.Tenant, Value: k.Text}
}

// PurgeTag is the target of the pages with a tag, of a tenant or, if that is empty, of a
// site without tenants. Tags are compared byte for byte.
func PurgeTag(tenant, tag string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeTag, Tenant: tenant, Value: tag}
}

// PurgePrefix is the target of the pages whose cache keys begin with a text, such as
// "example.com/blog/".
func PurgePrefix(tenant, prefix string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgePrefix, Tenant: tenant, Value: prefix}
}

// PurgeHost is the target of the pages of a host, which is written as cache keys have it: in
// lower case, without a default port.
func PurgeHost(tenant, host string) store.PurgeTarget { return PurgePrefix(tenant, host+"/") }

// PurgeTenant is the target of all pages of a tenant.
func PurgeTenant(tenant string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeTenant, Tenant: tenant}
}

// PurgeSite is the target of all pages, of all tenants.
func PurgeSite() store.PurgeTarget { return store.PurgeTarget{Kind: store.PurgeSite} }

// Purge purges pages, and returns a receipt once that is committed: from then on this node
// serves nothing that is older, and the others follow within a poll of the log (see
// Config.Poll). A purge can be repeated safely.
//
// Errors wrap [store.ErrInvalidInput] or [store.ErrInvalidKey] for invalid targets, or too
// many of them, and [store.ErrPinned] for a hard purge of a pinned page; nothing was purged
// then. A page that is pinned during the purge is purged. Otherwise they are the store's own. If
// the error wraps [store.ErrUnknownOutcome], the purge may have been made.
func (c *Cache) Purge(ctx context.Context, p Purge) (store.Receipt, error) {
	receipt, err := c.purge(ctx, p)
	if err != nil {
		return store.Receipt{}, fmt.Errorf("purging: %w", err)
	}
	c.sections.forget() // the site may have been repaired
	c.log.Info("purged", "targets", describeTargets(p.Targets), "hard", p.Hard, "seq", receipt.Seq)
	return receipt, nil
}

func (c *Cache) purge(ctx context.Context, p Purge) (store.Receipt, error) {
	targets, err := c.purgeTargets(p.Targets)
	if err != nil {
		return store.Receipt{}, err
	}
	if p.Hard && !p.Unpin {
		if err := c.refusePinned(ctx, targets); err != nil {
			return store.Receipt{}, err
		}
	}
	return c.commitPurge(ctx, store.Purge{Targets: targets, Hard: p.Hard, Confirm: p.Confirm}, func(int64) {})
}

// commitPurge executes a purge whose targets are complete (see purgeTargets). committed is called
// with its sequence before it takes effect.
func (c *Cache) commitPurge(ctx context.Context, p store.Purge, committed func(seq int64)) (store.Receipt, error) {
	receipt, err := c.meta.Purge(ctx, p)
	if err == nil {
		committed(receipt.Seq)
		c.applyPurge(p.Targets, p.Hard, receipt.Seq)
		c.notePurge(p)
	}
	// Also on errors: the purge may have been made.
	for _, t := range p.Targets {
		if t.Kind == store.PurgeKey {
			c.node.Invalidate(store.Key{Tenant: t.Tenant, Text: t.Value})
		}
	}
	return receipt, err
}

// applyPurge makes this node's own purge take effect. If we crash before that, the node
// learns of it from the log, as the others do.
func (c *Cache) applyPurge(targets []store.PurgeTarget, hard bool, seq int64) {
	c.follower.Learn(seq)
	m := store.Mark{Seq: seq, At: c.now().Truncate(time.Second)}
	if hard {
		m.HardSeq = seq
	}
	var marks []store.Mark
	for _, t := range targets {
		if t.Kind == store.PurgeKey {
			k := store.Key{Tenant: t.Tenant, Text: t.Value}
			c.flights.Learn(k, m.State(m.At))
			c.unstored.Learn(k, m.State(m.At))
			continue
		}
		m.Target = t
		marks = append(marks, m)
	}
	c.node.Marks.Apply(m.At, marks...)
	c.peers.Tell(seq)
}

// purgeTargets checks targets, and completes targets of pages: by their partition keys, and
// by prefixes that cover their variants.
func (c *Cache) purgeTargets(targets []store.PurgeTarget) ([]store.PurgeTarget, error) {
	variants := c.hasVariants()
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
		t.PK = c.cfg.Partition(store.Key{Tenant: t.Tenant, Text: t.Value})
		add(t)
		// A prefix that is too long for a key covers nothing.
		if of := PurgePrefix(t.Tenant, t.Value+"#"); variants && !strings.Contains(t.Value, "#") && of.Validate() == nil {
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
func (c *Cache) refusePinned(ctx context.Context, targets []store.PurgeTarget) error {
	pages, err := c.mayBePinned(ctx, targets)
	if err != nil {
		return err
	}
	return c.engine.ReadEach(ctx, pages, func(n int, rec store.Record) error {
		if c.isPinned(rec) {
			return fmt.Errorf("%s: %w; unpin it, or ask for that with the purge", pages[n], generations.PinError(rec.Entry))
		}
		return nil
	})
}

// mayBePinned returns the pages of targets, and their variants that are listed.
func (c *Cache) mayBePinned(ctx context.Context, targets []store.PurgeTarget) (pages []store.Key, err error) {
	for _, t := range targets {
		if t.Kind == store.PurgeKey {
			pages = append(pages, store.Key{Tenant: t.Tenant, Text: t.Value})
		}
	}
	for _, page := range slices.Clone(pages) {
		variants, more, err := c.engine.ListedVariants(ctx, page, max(maxPinned-len(pages), 1))
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
func (c *Cache) NotStored(ctx context.Context, targets []store.PurgeTarget) ([]store.Key, error) {
	var pages []store.Key
	for _, t := range targets {
		if t.Kind == store.PurgeKey {
			pages = append(pages, store.Key{Tenant: t.Tenant, Text: t.Value})
		}
	}
	stored := make([]bool, len(pages))
	err := c.engine.ReadEach(ctx, pages, func(n int, rec store.Record) (err error) {
		if stored[n] = c.isStored(rec); !stored[n] {
			stored[n], err = c.hasStoredVariant(ctx, pages[n])
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
func (c *Cache) hasStoredVariant(ctx context.Context, page store.Key) (bool, error) {
	const most = 32
	variants, more, err := c.engine.ListedVariants(ctx, page, most)
	if err != nil || more {
		return more, err
	}
	records, err := c.engine.ReadAll(ctx, variants)
	return slices.ContainsFunc(records, c.isStored), err
}

// isStored reports whether a page has a generation that visitors may get, or is being rendered.
func (c *Cache) isStored(rec store.Record) bool {
	return rec.Entry != nil && !rec.Entry.Withdrawn || fill.BeingRendered(rec, c.now())
}

// isPinned reports whether a page is pinned and no purge has ended that: an operator has
// decided what visitors get.
func (c *Cache) isPinned(rec store.Record) bool {
	e := rec.Entry
	return e != nil && !e.Withdrawn && e.PinnedUntil.After(c.now()) && !e.CoveredBy(rec.Purges)
}

// describeTargets names the first few targets, for the log.
func describeTargets(targets []store.PurgeTarget) string {
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

// Pauses between reads of the nodes in [Cache.AwaitPurge].
const (
	firstAwait = 20 * time.Millisecond
	maxAwait   = time.Second
)

// AwaitPurge waits until all live nodes have applied a purge, and returns them. If ctx ends
// first, it returns its error, and as missing the nodes that have not, or have not said so.
// Nodes are the processes that announce themselves (see Config.Node); others, such as
// clients in other languages, are not awaited. A node that stopped without a word counts as
// live for up to a minute.
func (c *Cache) AwaitPurge(ctx context.Context, r store.Receipt) (live, missing []store.Node, err error) {
	for round := 0; ; round++ {
		nodes, err := c.meta.Nodes(ctx)
		if err == nil {
			live, missing = nodes, slices.DeleteFunc(slices.Clone(nodes), func(n store.Node) bool {
				return n.Applied >= r.Seq || c.presence.Is(n) // this one has, before Purge returned
			})
			if len(missing) == 0 {
				return live, nil, nil
			}
		} else if ctx.Err() == nil && !c.stores.Unreachable(err) {
			return nil, nil, fmt.Errorf("listing the nodes: %w", err)
		}
		if late := backoff.Wait(ctx, c.jitter(backoff.Exponential(firstAwait, maxAwait, round))); late != nil {
			return live, missing, errors.Join(late, err)
		}
	}
}

// hasVariants reports whether a page may have variants, as far as this process knows: one
// without routes knows nothing.
func (c *Cache) hasVariants() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.hadVariants || c.hasVariantsLocked()
}

// hasVariantsLocked is hasVariants for the present routes.
func (c *Cache) hasVariantsLocked() bool {
	return len(c.bound) == 0 || slices.ContainsFunc(c.bound, func(b *boundRoute) bool { return b.VaryAuto || len(b.Vary)+len(b.KeyClasses) > 0 })
}

// readBuild finds the sequence at which this process's build of the site was deployed (see
// Config.Build). Older builds keep serving the pages of newer ones.
func (c *Cache) readBuild(ctx context.Context) error {
	if c.cfg.Build == "" || c.node.Build() > 0 {
		return nil
	}
	seq, err := c.meta.Build(ctx, c.cfg.Build)
	if err != nil {
		return fmt.Errorf("reading the sequence of the build %q: %w", c.cfg.Build, err)
	}
	c.node.SetBuild(seq)
	return nil
}

// awaitBuild calls readBuild until it succeeds, for a cache that does not follow the log.
// Fills wait for the first call, so that no page of an older build is served as fresh.
func (c *Cache) awaitBuild(ctx context.Context) {
	for round := 0; ; round++ {
		err := c.readBuild(ctx)
		if round == 0 {
			c.follower.Skip()
		}
		if err == nil {
			return
		}
		if round == 0 {
			c.log.Error("the pages of older builds count as fresh until the build can be read", "error", err)
		}
		if backoff.Wait(ctx, c.jitter(backoff.Exponential(breaker.FirstProbe, breaker.MaxProbe, round))) != nil {
			return
		}
	}
}
