package isr

import (
	"context"
	"fmt"
	"slices"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/breaker"
	"github.com/facetheory/isr/internal/purge"
	"github.com/facetheory/isr/internal/variants"
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
	receipt, err := c.purges.Purge(ctx, store.Purge{Targets: p.Targets, Hard: p.Hard, Confirm: p.Confirm}, p.Unpin)
	if err == nil {
		c.sections.Forget() // the site may have been repaired
	}
	return receipt, err
}

// NotStored returns the pages among the targets of a purge that have no stored generation and no
// variant with one, and are not being rendered. A purge of such a page is valid, but its sender
// may have meant another one. It reads each page, and the list of its variants if routes of the
// cache may have any. Errors are the store's own.
func (c *Cache) NotStored(ctx context.Context, targets []store.PurgeTarget) ([]store.Key, error) {
	return c.purges.NotStored(ctx, targets)
}

// AwaitPurge waits until all live nodes have applied a purge, and returns them. If ctx ends
// first, it returns its error, and as missing the nodes that have not, or have not said so.
// Nodes are the processes that announce themselves (see Config.Node); others, such as
// clients in other languages, are not awaited. A node that stopped without a word counts as
// live for up to a minute.
func (c *Cache) AwaitPurge(ctx context.Context, r store.Receipt) (live, missing []store.Node, err error) {
	return c.purges.Await(ctx, r)
}

// newPurges returns the purges of a cache.
func newPurges(c *Cache) *purge.Purges {
	return purge.New(purge.Options{
		Table: c.meta, Variants: c.variants.Of, ReadEach: c.node.ReadEach, HasVariants: c.hasVariants, Partition: c.cfg.Partition,
		Committed: c.follower.Learn,
		Learn:     c.learn, Mark: c.node.Marks.Apply, Tell: c.peers.Tell, Drop: c.node.Invalidate, Made: c.notePurge,
		IsSelf: func(n store.Node) bool { return c.presence.Is(n) }, Unreachable: c.stores.Unreachable,
		Now: c.now, Jitter: c.jitter, Log: c.log,
	})
}

// learn tells all flights of a page of its purges.
func (c *Cache) learn(k store.Key, purges store.PurgeState) {
	c.flights.Learn(k, purges)
	c.unpublished.Learn(k, purges)
}

// newVariants returns the list of the variants of pages.
func newVariants(c *Cache) *variants.List {
	return variants.New(variants.Options{Table: c.meta, Records: c.node.ReadAll, Partition: c.cfg.Partition, Has: c.hasVariants, Now: c.now})
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
