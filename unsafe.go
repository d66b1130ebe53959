package isr

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/invalidate"
	"github.com/facetheory/isr/internal/purge"
	"github.com/facetheory/isr/store"
)

// A request with an unsafe method (POST, PUT, DELETE, …) that succeeds may have changed its
// page: the stored copies of its URI must not be used any more (RFC 9111, section 4.4), nor
// the copies of Location and Content-Location if they are of the same host. They are purged, as
// [Route.UnsafeRequests] declares, before the visitor gets the answer, so that the page that the
// visitor sees next has the change; or later, if visitors send many such requests (see
// package invalidate).
//
// Visitors can send them for invented URLs too. What they can make grow is bounded by what is
// stored: the purge is of the keys of those variants of the page that have an entry or a
// lease, one PURGE row each (see package fill). It writes no mark, which every process would
// keep in memory, except for a page with more listed variants than one purge may name,
// which gets one for all of them. A page without an entry gets no row.
//
// A pinned page or variant is left as it is: only an operator ends a pin.

// An UnsafePurge says what a successful request with an unsafe method does to the stored copies
// of the page that it changes.
type UnsafePurge int

const (
	// UnsafeHard purges them hard: they are never served again, as RFC 9111, section 4.4,
	// demands. It is the zero value.
	UnsafeHard UnsafePurge = iota
	// UnsafeSoft makes them stale: they are served within their stale window while the page is
	// rendered, and if that fails. A visitor may see the page without his change.
	UnsafeSoft
	// UnsafeIgnore leaves them as they are.
	UnsafeIgnore
)

func (u UnsafePurge) String() string {
	switch u {
	case UnsafeHard:
		return "hard"
	case UnsafeSoft:
		return "soft"
	case UnsafeIgnore:
		return "ignore"
	}
	return fmt.Sprintf("UnsafePurge(%d)", int(u))
}

func (u UnsafePurge) valid() bool { return u >= UnsafeHard && u <= UnsafeIgnore }

// isSafe reports whether a method only reads (RFC 9110, section 9.2.1, and the IANA
// registry of methods). An unknown one may change the page.
func isSafe(method string) bool {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, "PROPFIND", "QUERY", "REPORT", "SEARCH":
		return true
	}
	return false
}

// An unsafeRequest is what remains to be known of a request when its answer arrives.
type unsafeRequest struct {
	h             *handler
	ctx           context.Context //nolint:containedctx // of the request
	header        http.Header     // as it arrived
	client        netip.Prefix    // not valid if clients are not distinguished
	host          string
	uri           url.URL // absolute
	invalidatable bool    // the host can have stored pages
}

func (h *handler) unsafeRequest(r *http.Request) *unsafeRequest {
	u := &unsafeRequest{h: h, ctx: r.Context(), header: r.Header.Clone()}
	if clients := h.clients(r); len(clients) > 0 {
		u.client = clients[0]
	}
	u.host, u.invalidatable = canonical.Host(r.Host)
	u.uri = url.URL{Scheme: "http", Host: r.Host, Path: r.URL.Path, RawPath: r.URL.RawPath, RawQuery: r.URL.RawQuery}
	return u
}

// answered invalidates what a successful answer has changed, and waits for that, for at most
// Config.StoreTimeout.
func (u *unsafeRequest) answered(status int, header http.Header) {
	if status < 200 || status >= 400 || !u.invalidatable {
		return
	}
	var pending []<-chan struct{}
	for _, changed := range u.pages(header) {
		if done := u.h.c.invalidations.Add(changed, u.client); done != nil {
			pending = append(pending, done)
		}
	}
	timer := time.NewTimer(u.h.c.cfg.StoreTimeout)
	defer timer.Stop()
	for _, done := range pending {
		select {
		case <-done:
		case <-timer.C:
			return
		case <-u.ctx.Done():
			return
		}
	}
}

// pages returns the pages of the URIs that an answer invalidates, each once.
func (u *unsafeRequest) pages(header http.Header) []invalidate.Change {
	uris := []*url.URL{&u.uri}
	for _, name := range []string{"Location", "Content-Location"} {
		if text := header.Get(name); text != "" && len(text) <= store.MaxKeyLength {
			if ref, err := url.Parse(text); err == nil {
				uris = append(uris, u.uri.ResolveReference(ref))
			}
		}
	}
	pages := make([]invalidate.Change, 0, len(uris))
	for _, uri := range uris {
		// Keys have no scheme: http and https share their pages.
		if host, ok := canonical.Host(uri.Host); !ok || host != u.host || uri.Scheme != "http" && uri.Scheme != "https" {
			continue
		}
		if uri.Path == "" {
			uri.Path = "/"
		}
		if changed, ok := u.page(uri); ok && !slices.ContainsFunc(pages, func(other invalidate.Change) bool { return other.Page == changed.Page }) {
			pages = append(pages, changed)
		}
	}
	return pages
}

// page returns the page of a URI, by the route of its GET requests, which may differ from
// this request's route.
func (u *unsafeRequest) page(uri *url.URL) (changed invalidate.Change, ok bool) {
	path := url.URL{Path: uri.Path, RawPath: uri.RawPath}
	k, bypass, err := u.h.route.keys.KeyOf("", u.host, &path, "")
	if err != nil || bypass != "" {
		return changed, false
	}
	route, bound := u.h.c.routeAt(k)
	switch {
	case !bound:
		route = u.h.route
	case route == nil:
		return changed, false
	}
	if route.UnsafeRequests == UnsafeIgnore {
		return changed, false
	}
	changed.Hard, changed.RenderTime = route.UnsafeRequests == UnsafeHard, route.fills.Renders.Median(0)
	tenant, _, err := route.keys.Tenant(u.header)
	if err != nil {
		return changed, false
	}
	changed.Page, bypass, err = route.keys.KeyOf(tenant, u.host, uri, "")
	if err != nil || bypass != "" {
		return changed, false
	}
	changed.Variant, bypass, err = route.keys.KeyOf(tenant, u.host, uri, route.keys.Variant(u.header))
	if err != nil || bypass != "" { // the key is too long
		changed.Variant = changed.Page
	}
	return changed, true
}

// newInvalidations returns the purges of a cache that unsafe requests cause.
func newInvalidations(c *Cache) *invalidate.Purges {
	return invalidate.New(c.ctx, invalidate.Options{
		Variants: c.variants.Of,
		Records:  c.node.ReadAll,
		Pinned:   c.purges.Pinned,
		Target: func(k store.Key) store.PurgeTarget {
			t := PurgeKey(k)
			t.PK = c.cfg.Partition(k)
			return t
		},
		Targets: func(k store.Key) ([]store.PurgeTarget, error) {
			return c.purges.Complete([]store.PurgeTarget{PurgeKey(k)})
		},
		Commit: c.purgePosted,
		Drop:   c.node.Invalidate,
		Down: func() error {
			if c.stores.Down() != nil {
				return guard.ErrSlow
			}
			return nil
		},
		Begin: c.activity.Begin, End: c.activity.End,
		Complain: c.complaints.Log,
		Freezes:  c.cfg.Freezes, Now: c.now, Random: c.cfg.Random,
	})
}

// purgePosted executes a purge after unsafe requests. Flights learn of it before it takes effect.
func (c *Cache) purgePosted(ctx context.Context, p store.Purge) (store.Receipt, error) {
	receipt, err := c.purges.Commit(ctx, p, func(seq int64) {
		for _, t := range p.Targets {
			k := store.Key{Tenant: t.Tenant, Text: t.Value}
			c.flights.Posted(k, seq)
			c.unpublished.Posted(k, seq)
		}
	})
	if err == nil {
		c.log.Info("purged after an unsafe request", "targets", purge.Describe(p.Targets), "hard", p.Hard, "seq", receipt.Seq)
	}
	return receipt, err
}
