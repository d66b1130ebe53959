package caddy

import (
	"fmt"
	"time"

	"github.com/caddyserver/caddy/v2"

	"github.com/facetheory/isr"
)

// Route declares which pages there are, and how long they may be used, as [isr.Route] does: its fields
// are documented there.
type Route struct {
	// Name binds stored pages to this site, for regenerations. Empty means "caddy".
	Name         string         `json:"name,omitempty"`
	Revalidate   caddy.Duration `json:"revalidate,omitempty"`
	Stale        caddy.Duration `json:"stale,omitempty"`
	StaleIfError caddy.Duration `json:"stale_if_error,omitempty"`
	EarlyRefresh float64        `json:"early_refresh,omitempty"`
	// RenderTimeout bounds the handlers behind this one, for a page.
	RenderTimeout caddy.Duration `json:"render_timeout,omitempty"`
	// MaxBody is the size of the largest body that is stored, in bytes.
	MaxBody       int64    `json:"max_body,omitempty"`
	Query         []string `json:"query,omitempty"`
	IgnoreQuery   []string `json:"ignore_query,omitempty"`
	IgnoreCookies []string `json:"ignore_cookies,omitempty"`
	Vary          []string `json:"vary,omitempty"`
	Codings       []string `json:"codings,omitempty"`
}

// route returns the route of the cache.
func (r Route) route() (isr.Route, error) {
	rt := isr.Route{
		Name: r.Name, Revalidate: time.Duration(r.Revalidate), Stale: time.Duration(r.Stale), StaleIfError: time.Duration(r.StaleIfError), EarlyRefresh: r.EarlyRefresh,
		RenderTimeout: time.Duration(r.RenderTimeout), MaxBody: r.MaxBody, Query: r.Query, IgnoreQuery: r.IgnoreQuery, IgnoreCookies: r.IgnoreCookies, Vary: r.Vary, Codings: r.Codings,
	}
	if rt.Name == "" {
		rt.Name = "caddy"
	}
	if err := rt.Validate(); err != nil {
		return rt, fmt.Errorf("isr: %w", err)
	}
	return rt, nil
}
