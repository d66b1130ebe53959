package isr

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/store"
)

// A Regeneration is the result of [Cache.Regenerate].
type Regeneration struct {
	// Entry is the published entry.
	store.Entry
	// Replayed: the request was executed before, and this is the entry that it
	// published then. Nothing was rendered now.
	Replayed bool
	// Fresh: the page was fresh, and this is its entry. Nothing was rendered (see
	// WithUnlessFresh).
	Fresh bool
}

// A RegenerateOption adjusts [Cache.Regenerate].
type RegenerateOption func(*regeneration)

type regeneration struct {
	key       string // of the request
	named     bool
	inputs    any
	hasInputs bool
	unpin     bool
	reload    bool
	unless    *fill.FreshVersion
}

// WithIdempotencyKey names the request, with 1 to 256 bytes of printable ASCII without
// spaces. A request is executed once per page, however often and by whatever node it is
// repeated: repetitions get the result of the first execution, for Config.RequestLife. A
// request that failed, or whose server crashed, is executed again.
func WithIdempotencyKey(key string) RegenerateOption {
	return func(r *regeneration) { r.key, r.named = key, true }
}

// WithInputs sets the inputs that the request depends on: any value that encoding/json
// can marshal (see [store.HashInputs]). The same idempotency key with other inputs is
// refused. The default is an object of the tenant, the key and the route's name.
func WithInputs(v any) RegenerateOption {
	return func(r *regeneration) { r.inputs, r.hasInputs = v, true }
}

// WithUnpin also regenerates a pinned page, and unpins it.
func WithUnpin() RegenerateOption {
	return func(r *regeneration) { r.unpin = true }
}

// WithUnlessFresh renders nothing if the page is fresh. What its origin can validate is validated.
// With an idempotency key, a page that turns out to be fresh under the lease completes the request.
// One that is fresh at once needs no lease, and leaves no record: a repetition of the request looks
// at the page again, and renders it if it has become stale.
func WithUnlessFresh() RegenerateOption { return WithUnlessFreshExcept("", 0) }

// WithUnlessFreshExcept is [WithUnlessFresh], but renders the page if it is fresh and still has
// this generation and version ([StalePage.Fence]): it was about to expire. An empty generation means
// that there is no page. A page that was renewed since keeps its generation, but not its version.
func WithUnlessFreshExcept(generation string, version int64) RegenerateOption {
	return func(r *regeneration) { r.unless = &fill.FreshVersion{Generation: generation, Version: version} }
}

// WithReload tells all nodes to drop their copies, so that they serve the new generation
// within a poll of the log, and not only when the old one expires. It costs four more write
// units.
func WithReload() RegenerateOption {
	return func(r *regeneration) { r.reload = true }
}

// Regenerate renders a page now, whatever its freshness, and returns the entry that was
// published. The render starts after the call: one that is in progress is awaited, not
// joined.
//
// The route that rendered the stored page renders it; if no entry names a
// route, the cache's only route does.
//
// Errors:
//   - [ErrNoRenderer]: there is no such route.
//   - [ErrUnreachable]: no request has the key, for example because of a query parameter
//     that the route does not declare.
//   - [store.ErrPinned]: the page is pinned, and WithUnpin was not given.
//   - [ErrUncacheable], with the reason: the response must not be stored.
//   - [*store.HeldError]: another process is regenerating the page, or it is in back-off.
//   - [*budget.Error]: the origin's budget does not allow the render.
//   - [store.ErrLeaseLost] or [store.ErrMoved]: another process was faster.
//   - [ErrClosed].
//   - The error of ctx; the render goes on.
//   - Errors of the renderer and of the stores.
//
// With an idempotency key also:
//   - [*store.RequestError], which wraps [store.ErrRequestInProgress]: another call is
//     executing the request, and is not awaited.
//   - The same, wrapping [store.ErrRequestMismatch]: the key was used for other inputs.
//   - [store.ErrResultGone] and [store.ErrRequestCompleted]: the request was executed, and
//     its result is no longer kept.
//   - [store.ErrInvalidKey]: this cannot be an idempotency key.
func (c *Cache) Regenerate(ctx context.Context, k store.Key, opts ...RegenerateOption) (Regeneration, error) {
	var r regeneration
	for _, opt := range opts {
		opt(&r)
	}
	e, err := c.regenerate(ctx, k, r)
	if err != nil {
		return Regeneration{}, fmt.Errorf("regenerating %s: %w", k, err)
	}
	return e, nil
}

func (c *Cache) regenerate(ctx context.Context, k store.Key, r regeneration) (Regeneration, error) {
	route, err := c.routeOf(ctx, k)
	if err != nil {
		return Regeneration{}, err
	}
	if err := route.keys.Reachable(ctx, k); err != nil {
		return Regeneration{}, err
	}
	claim, err := c.claim(k, route, r)
	if err != nil {
		return Regeneration{}, err
	}
	e, fresh, err := c.renderNow(ctx, fill.Request{Policy: route.fills, Key: k, Force: true, Unpin: r.unpin, Reload: r.reload, Unless: r.unless, Claim: claim})
	var earlier *store.RequestError
	switch {
	case errors.As(err, &earlier) && errors.Is(err, store.ErrRequestCompleted):
		return c.replay(ctx, k, earlier)
	case err != nil:
		return Regeneration{}, err
	}
	return Regeneration{Entry: e, Fresh: fresh}, nil
}

// Reachable returns an error wrapping [ErrUnreachable] if no request maps to a key, by any
// route of this cache, for example because of a query parameter that none declares: no page
// can have it, and purges of it have no effect. instead is then the key without such
// parameters, if requests map to that; otherwise it is zero. A cache without routes returns
// no error.
func (c *Cache) Reachable(k store.Key) (instead store.Key, err error) {
	c.mu.Lock()
	routes := slices.Clone(c.bound)
	c.mu.Unlock()
	for _, route := range routes {
		refused := route.keys.Reachable(c.ctx, k)
		if refused == nil {
			return store.Key{}, nil
		}
		if declared := route.keys.Declared(k); err == nil || instead == (store.Key{}) {
			err = refused
			if declared != k && route.keys.Reachable(c.ctx, declared) == nil {
				instead = declared
			}
		}
	}
	if err != nil && !errors.Is(err, ErrUnreachable) {
		err = fmt.Errorf("%w: %w", ErrUnreachable, err)
	}
	return instead, err
}

// renderNow starts a flight of a fill for this request, after those in progress, and waits for its
// end. fresh: nothing was rendered.
func (c *Cache) renderNow(ctx context.Context, wanted fill.Request) (e store.Entry, fresh bool, err error) {
	for {
		// Checked before anything is acquired, so that a repeated request waits
		// neither for a flight nor for a turn at the origin; and again after each
		// flight, which may have executed the same request.
		if err := c.madeBefore(ctx, &wanted); err != nil {
			return store.Entry{}, false, err
		}
		if e, fresh, err := c.freshUnless(ctx, &wanted); err != nil || fresh {
			return e, fresh, err
		}
		wanted.Cause = ctx
		f, leader := c.engine.Join(fill.NewFill(wanted, nil))
		if f == nil {
			return store.Entry{}, false, ErrClosed
		}
		select {
		case <-f.Done():
		case <-ctx.Done():
			return store.Entry{}, false, context.Cause(ctx)
		}
		if !leader {
			continue
		}
		_, fresh := f.Outcome.(fill.StoredPage)
		e, err := f.Outcome.Result()
		return e, fresh, err
	}
}

// freshUnless returns the entry of a page that need not be rendered, without its body.
func (c *Cache) freshUnless(ctx context.Context, s *fill.Request) (e store.Entry, fresh bool, err error) {
	if s.Unless == nil {
		return store.Entry{}, false, nil
	}
	rec, _, err := c.node.Read(ctx, s.Key, c.cfg.Partition(s.Key))
	if err != nil {
		return store.Entry{}, false, err
	}
	if store.Freshness(rec.Entry, rec.Purges, c.now()) != store.Fresh || s.Wanted(rec) {
		return store.Entry{}, false, nil
	}
	return *rec.Entry, true, nil
}

// claim returns the claim of a request; nil if it has no idempotency key.
func (c *Cache) claim(k store.Key, route *boundRoute, r regeneration) (*store.Claim, error) {
	if !r.named {
		return nil, nil
	}
	if err := store.ValidRequestKey(r.key); err != nil {
		return nil, err
	}
	if !r.hasInputs {
		r.inputs = map[string]string{"tenant": k.Tenant, "key": k.Text, "route": route.Name}
	}
	hash, err := store.HashInputs(r.inputs)
	if err != nil {
		return nil, err
	}
	return &store.Claim{Key: r.key, Hash: hash, Keep: c.cfg.RequestLife}, nil
}

// madeBefore returns a *RequestError if it is for a request that must not be
// executed again. Another process may make the request between this check and the
// acquisition of the lease, which decides.
func (c *Cache) madeBefore(ctx context.Context, s *fill.Request) error {
	if s.Claim == nil {
		return nil
	}
	earlier, found, err := c.meta.RequestRecord(ctx, c.cfg.Partition(s.Key), s.Claim.Key)
	switch {
	case err != nil:
		return fmt.Errorf("reading the record of request %q: %w", s.Claim.Key, err)
	case !found:
		return nil
	}
	return earlier.CheckClaim(*s.Claim, c.now())
}

// replay returns the result of a request that was completed before.
func (c *Cache) replay(ctx context.Context, k store.Key, earlier *store.RequestError) (Regeneration, error) {
	e, kept, err := c.operator.Result(ctx, k, earlier.Record)
	switch {
	case err != nil:
		return Regeneration{}, err
	case !kept:
		return Regeneration{}, fmt.Errorf("%w; %w", earlier, store.ErrResultGone)
	}
	return Regeneration{Entry: e, Replayed: true}, nil
}
