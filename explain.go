package isr

import (
	"fmt"
	"net/http"

	"github.com/facetheory/isr/store"
)

// An Explanation is what a route makes of a request.
type Explanation struct {
	// Bypass is the reason for which the request bypasses the cache, as the detail of
	// Cache-Status: "method", "cookie", "query", … Empty: it does not.
	Bypass string
	// Key is the key of its page; zero for a request that bypasses the cache.
	Key store.Key
	// Render is the request that the renderer of the page gets, without the headers of
	// Forward; nil for a request that bypasses the cache.
	Render *http.Request
}

// Explain returns what the route makes of a request as a server receives it. An error means
// that the route is not valid, or that such a request is refused.
func (rt Route) Explain(r *http.Request) (Explanation, error) {
	if err := rt.Validate(); err != nil {
		return Explanation{}, err
	}
	p := newProjector(rt)
	key, bypass, err := p.project(r)
	if err != nil {
		return Explanation{}, fmt.Errorf("the request is refused: %w", err)
	}
	if bypass != "" {
		return Explanation{Bypass: bypass}, nil
	}
	render, err := p.request(r.Context(), key)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{Key: key, Render: render}, nil
}
