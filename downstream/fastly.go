package downstream

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// FastlyEndpoint is the API of Fastly.
const FastlyEndpoint = "https://api.fastly.com"

// Bounds of Fastly's purge API: keys of one batch purge, and the length of a key.
const (
	fastlyKeys      = 256
	fastlyKeyLength = 1024
)

// Fastly is a service of Fastly. Tags are surrogate keys, and pages are purged by URL.
// Prefixes, hosts and tenants purge the whole service, which is always a hard purge.
// Source: Fastly, API reference, "Purging".
type Fastly struct {
	service string
	api     *caller
}

// NewFastly returns a service. endpoint is usually [FastlyEndpoint]. The token needs the
// scopes purge_select and purge_all.
func NewFastly(service, endpoint string, token Token) *Fastly {
	return &Fastly{service: service, api: newCaller(endpoint, token, func(r *http.Request, token string) { r.Header.Set("Fastly-Key", token) })}
}

// Limits implements [Destination].
func (f *Fastly) Limits() Limits {
	return Limits{Targets: fastlyKeys, Debounce: 100 * time.Millisecond}
}

// Deliver implements [Destination].
func (f *Fastly) Deliver(ctx context.Context, b Batch) error {
	s := selectionOf(b.Targets)
	prefix := "/service/" + url.PathEscape(f.service)
	if s.all || len(s.prefixes) > 0 || len(s.hosts) > 0 || !allPrintable(s.tags, fastlyKeyLength, "") {
		_, err := f.api.post(ctx, prefix+"/purge_all", nil)
		return err
	}
	header := http.Header{"Accept": {"application/json"}}
	if !b.Hard {
		header.Set("Fastly-Soft-Purge", "1")
	}
	for keys := range slices.Chunk(s.tags, fastlyKeys) {
		h := header.Clone()
		h.Set("Surrogate-Key", strings.Join(keys, " "))
		if _, err := f.api.send(ctx, http.MethodPost, prefix+"/purge", "", h, nil); err != nil {
			return err
		}
	}
	for _, page := range s.pages {
		// The URL follows "/purge/" without a scheme and as it is.
		if _, err := f.api.send(ctx, http.MethodPost, "/purge/"+page.String(), "", header, nil); err != nil {
			return err
		}
	}
	return nil
}
