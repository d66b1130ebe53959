package isr

import (
	"fmt"
	"net/http"

	"github.com/facetheory/isr/internal/cachekey"
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
	// Parts are the parts of the request, and why each is in the key or not.
	Parts []Part
}

// A Part is a part of a request, as a route sees it.
type Part struct {
	// Kind is "method", "host", "path", "query", "header", "cookie" or "body".
	Kind string
	// Name is the name of a parameter, header or cookie; empty for the others.
	Name string
	// Use is what the route does with it.
	Use PartUse
	// Value is what the key has of it; empty unless Use is [PartInKey].
	Value string
	// Why says why, in a sentence without a full stop.
	Why string
}

// A PartUse is what a route does with a part of a request.
type PartUse string

// The uses.
const (
	PartInKey     PartUse = "key"       // it is part of the key
	PartIgnored   PartUse = "ignored"   // pages do not depend on it
	PartForwarded PartUse = "forwarded" // it is not in the key, and the render that the request starts carries it
	PartObeyed    PartUse = "obeyed"    // it is not in the key, and decides how the request is answered
	PartBypass    PartUse = "bypass"    // because of it the request bypasses the cache
	PartRefused   PartUse = "refused"   // because of it the request is refused
)

// Explain returns what the route makes of a request as a server receives it. An error means
// that the route is not valid, or that such a request is refused.
func (rt Route) Explain(r *http.Request) (Explanation, error) {
	if err := rt.Validate(); err != nil {
		return Explanation{}, err
	}
	keys := cachekey.New(rt.keyRules())
	key, bypass, err := keys.Key(r)
	if err != nil {
		return Explanation{}, fmt.Errorf("the request is refused: %w", err)
	}
	parts := partsOf(keys, r)
	if bypass != "" {
		return Explanation{Bypass: bypass, Parts: parts}, nil
	}
	render, err := keys.Request(r.Context(), key)
	if err != nil {
		return Explanation{}, err
	}
	return Explanation{Key: key, Render: render, Parts: parts}, nil
}

// partsOf explains the parts of a request.
func partsOf(keys *cachekey.Mapper, r *http.Request) (parts []Part) {
	for _, p := range keys.Parts(r) {
		parts = append(parts, Part{p.Kind, p.Name, PartUse(p.Use), p.Value, p.Why})
	}
	return parts
}
