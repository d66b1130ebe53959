package isr

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/facetheory/isr/store"
)

// A Regeneration is what [Cache.Regenerate] came to.
type Regeneration struct {
	// Entry is what the regeneration published.
	store.Entry
	// Replayed: the request was carried out before, and this is what it published
	// then. Nothing was rendered now.
	Replayed bool
}

// A RegenerateOption adjusts [Cache.Regenerate].
type RegenerateOption func(*regeneration)

type regeneration struct {
	key       string // of the request
	named     bool
	inputs    any
	hasInputs bool
	unpin     bool
}

// WithIdempotencyKey names the request, with 1 to 256 bytes of printable ASCII
// without spaces, so that it is carried out once for its page however often it is
// made, by whatever node: whoever makes it again gets the result of the first
// time, for as long as Config.RequestLife says. A request that failed, or whose
// server died, may be made again.
func WithIdempotencyKey(key string) RegenerateOption {
	return func(r *regeneration) { r.key, r.named = key, true }
}

// WithInputs says which inputs the request depends on: any value that package
// encoding/json can write (see [store.HashInputs]). The same key with other inputs is
// refused. The default is an object of the tenant, the key and the route's name.
func WithInputs(v any) RegenerateOption {
	return func(r *regeneration) { r.inputs, r.hasInputs = v, true }
}

// WithUnpin has a pinned page regenerated, and unpinned.
func WithUnpin() RegenerateOption {
	return func(r *regeneration) { r.unpin = true }
}

// Regenerate renders a page now, whatever its freshness, and returns the entry
// that was published. The render begins after the call: one that is under way is
// awaited, not joined.
//
// The renderer is that of the route by which the stored page was rendered; for
// a page that is not stored, or whose entry names no route, that of the cache's only
// route. Errors: wrapping
// [ErrNoRenderer], if there is none; [ErrUnreachable], if no request has the key, for
// example because of a query parameter that the route does not declare; [store.ErrPinned], if the page is pinned, and not
// to be unpinned; [ErrUncacheable], with the reason, if the response must not be
// stored; [*store.HeldError], if another process is regenerating the page, or it is in
// back-off; [*budget.Error], if its budget does not allow the render; [store.ErrLeaseLost] or
// [store.ErrMoved], if another process was faster; [ErrClosed]; that of ctx, though the
// render goes on; else what the renderer or the store said.
//
// With an idempotency key also: [*store.RequestError], which wraps
// [store.ErrRequestInProgress], if another call is at it, which is not awaited;
// [store.ErrRequestMismatch], if the key was used for other inputs; and
// [store.ErrResultGone], with [store.ErrRequestCompleted], if what it published is not kept
// any more. [store.ErrInvalidKey]: it cannot be an idempotency key.
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
	if err := route.reachable(ctx, k); err != nil {
		return Regeneration{}, err
	}
	claim, err := c.claim(k, route, r)
	if err != nil {
		return Regeneration{}, err
	}
	e, err := c.renderNow(ctx, &search{route: route, key: k, force: true, unpin: r.unpin, claim: claim})
	var earlier *store.RequestError
	switch {
	case errors.As(err, &earlier) && errors.Is(err, store.ErrRequestCompleted):
		return c.replay(ctx, k, earlier)
	case err != nil:
		return Regeneration{}, err
	}
	return Regeneration{Entry: e}, nil
}

// reachable returns an error wrapping ErrUnreachable unless the request that a key
// stands for leads back to the key: otherwise what is rendered is served to nobody.
func (p *projector) reachable(ctx context.Context, k store.Key) error {
	r, err := p.request(ctx, k)
	if err != nil {
		return err
	}
	got, bypass, err := p.project(r)
	switch {
	case err != nil:
		return fmt.Errorf("%w: %w", ErrUnreachable, err)
	case bypass == bypassQuery && len(p.Query) == 0:
		return fmt.Errorf("%w: it has a query parameter, and none is declared to be part of the key", ErrUnreachable)
	case bypass == bypassQuery:
		return fmt.Errorf("%w: it has a query parameter that is not declared to be part of the key; expected only %s", ErrUnreachable, strings.Join(p.Query, ", "))
	case bypass != "":
		return fmt.Errorf("%w: requests for it pass through (%s)", ErrUnreachable, bypass)
	case got != k:
		return fmt.Errorf("%w: requests for it get %s", ErrUnreachable, got)
	}
	return nil
}

// renderNow waits until there is a flight of this very search, and for its end.
func (c *Cache) renderNow(ctx context.Context, wanted *search) (store.Entry, error) {
	for {
		// Nothing is held yet, and a request that was made before does not wait
		// for a flight or for a turn at the origin. It is asked again after each
		// flight, which may have been that of the same request.
		if err := c.madeBefore(ctx, wanted); err != nil {
			return store.Entry{}, err
		}
		s := search{route: wanted.route, key: wanted.key, force: true, unpin: wanted.unpin, claim: wanted.claim}
		f, leader := c.join(&s)
		if f == nil {
			return store.Entry{}, ErrClosed
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return store.Entry{}, context.Cause(ctx)
		}
		if !leader {
			continue
		}
		return f.outcome.result()
	}
}

// claim makes the claim of a request; nil if it has no idempotency key.
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

// madeBefore is a *RequestError if the search is for a request that was made
// before and is not to be carried out again. Between this and the acquisition of
// the lease another may make it: that decides.
func (c *Cache) madeBefore(ctx context.Context, s *search) error {
	if s.claim == nil {
		return nil
	}
	earlier, found, err := c.meta.RequestRecord(ctx, c.cfg.Partition(s.key), s.claim.Key)
	switch {
	case err != nil:
		return fmt.Errorf("looking for the request %q: %w", s.claim.Key, err)
	case !found:
		return nil
	}
	return earlier.CheckClaim(*s.claim, c.now())
}

// replay answers a request that was completed before with what it published.
func (c *Cache) replay(ctx context.Context, k store.Key, earlier *store.RequestError) (Regeneration, error) {
	versions, err := c.Versions(ctx, k)
	if err != nil {
		return Regeneration{}, err
	}
	// Unless it is there itself: an unchanged generation that has taken its place,
	// with the same body. Other services record that alone.
	r := earlier.Record
	i := slices.IndexFunc(versions, func(v Version) bool { return r.GenerationID != "" && v.GenerationID == r.GenerationID })
	if i < 0 {
		i = slices.IndexFunc(versions, func(v Version) bool { return v.BodyKey == r.BodyKey })
	}
	if i < 0 {
		return Regeneration{}, fmt.Errorf("%w; %w", earlier, store.ErrResultGone)
	}
	return Regeneration{Entry: versions[i].Entry, Replayed: true}, nil
}
