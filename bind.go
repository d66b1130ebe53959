package isr

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

// A Binding is a route with its renderer.
type Binding struct {
	Route    Route
	Renderer http.Handler
}

// Bind replaces all routes of the cache at once, as when a configuration is reloaded, and
// returns their handlers in the same order. Stored pages stay, also in memory, and belong to
// the routes that find chooses from now on: it returns the index of the route of a page, or
// -1, and must be safe for concurrent use. Names of routes need not be unique.
//
// Refusals and failures that were remembered under the old routes are forgotten. Requests in
// flight, and handlers that were returned before, go on by their routes.
//
// The error joins a *[ConfigError] for each invalid field; nothing has changed then.
func (c *Cache) Bind(bindings []Binding, find func(store.Key) int) ([]http.Handler, error) {
	var errs []error
	for _, b := range bindings {
		if err := b.Route.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("route %q: %w", b.Route.Name, err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	handlers, bound := make([]http.Handler, len(bindings)), make([]*boundRoute, len(bindings))
	for i, b := range bindings {
		bound[i] = c.bind(b.Route, b.Renderer)
		handlers[i] = &handler{c: c, route: bound[i]}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// Pages of variants stay stored under routes without variants, and may be reached
	// again after the next change.
	c.hadVariants = c.hadVariants || len(c.bound) > 0 && c.hasVariantsLocked()
	c.routes, c.bound = nil, bound
	c.find = func(k store.Key) *boundRoute {
		if i := find(k); i >= 0 {
			return bound[i]
		}
		return nil
	}
	c.negative.floor.raise(time.Now())
	return handlers, nil
}

// bind returns a route with its renderer, and what the cache decides for it.
func (c *Cache) bind(rt Route, h http.Handler) *boundRoute {
	b := &boundRoute{
		projector: newProjector(rt), renderer: h, budget: rt.Budget,
		renderTimeout: cmp.Or(rt.RenderTimeout, c.cfg.RenderTimeout),
		wait:          rt.Wait,
		maxBody:       c.cfg.MaxBody,
	}
	if b.budget == nil {
		b.budget = budget.Unlimited()
	}
	switch {
	case rt.Wait == 0 && rt.RenderTimeout > 0:
		b.wait = rt.RenderTimeout + 2*c.cfg.Lease
	case rt.Wait == 0:
		b.wait = c.cfg.Wait
	}
	if rt.MaxBody > 0 {
		b.maxBody = min(rt.MaxBody, b.maxBody)
	}
	return b
}
