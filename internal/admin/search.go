package admin

import (
	"cmp"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/store"
)

// A PageSearch selects pages.
type PageSearch struct {
	Text   string `json:"q,omitempty" doc:"Part of the key, in any case."`
	Tag    string `json:"tag,omitempty" doc:"Purge tag."`
	Route  string `json:"route,omitempty" doc:"Route of the page."`
	Tenant string `json:"tenant,omitempty" doc:"Tenant, on a site with tenants."`
	State  string `json:"state,omitempty" doc:"fresh, stale, expired, purged, withdrawn, missing, pinned, quarantined or failing."`
	Sort   string `json:"sort,omitempty" doc:"key (default), age, requests, render or size; with - in front the largest first."`
	Offset string `json:"offset,omitempty" doc:"How many pages to skip. Default: 0."`
	Limit  string `json:"limit,omitempty" doc:"How many pages to return, 1 to 200. Default: 50."`
}

// FoundPages are the result of a search.
type FoundPages struct {
	AsOf       time.Time      `json:"as_of,omitzero" doc:"When the pages were read from the store. Missing: not yet."`
	AgeSeconds int64          `json:"age_seconds" doc:"How long ago that was."`
	Refreshing bool           `json:"refreshing" doc:"They are being read again; search again in a second for newer ones."`
	Complete   bool           `json:"complete" doc:"All pages have been read. Otherwise there may be more."`
	Truncated  bool           `json:"truncated,omitempty" doc:"The store has more pages than are searched, 250,000."`
	Problem    string         `json:"problem,omitempty" doc:"Why the store could not be read last."`
	Total      int            `json:"total" doc:"Pages that were searched."`
	Matches    int            `json:"matches" doc:"Pages that were found."`
	Offset     int            `json:"offset" doc:"How many of them were skipped."`
	Limit      int            `json:"limit" doc:"How many are returned at most."`
	States     map[string]int `json:"states" doc:"Pages by state, for the search without its state."`
	Routes     map[string]int `json:"routes" doc:"Pages by route, for the search without its route; the first 200 routes."`
	Tenants    map[string]int `json:"tenants" doc:"Pages by tenant, for the search without its tenant; the first 200 tenants."`
	Pages      []FoundPage    `json:"pages" doc:"What was found."`
}

// A FoundPage is a page that was found.
type FoundPage struct {
	Key         string    `json:"key,omitempty" doc:"Cache key of the page. Missing if no row has it."`
	Tenant      string    `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Partition   string    `json:"pk" doc:"The partition key of its rows."`
	State       string    `json:"state" doc:"fresh, stale, expired, purged, withdrawn or missing."`
	Pinned      bool      `json:"pinned" doc:"It does not age."`
	Quarantined bool      `json:"quarantined" doc:"A generation of it was rejected."`
	Failing     bool      `json:"failing" doc:"Its latest render failed."`
	Status      int       `json:"status,omitempty" doc:"HTTP status of the page."`
	GeneratedAt time.Time `json:"generated_at,omitzero" doc:"When its rendering began."`
	AgeSeconds  int64     `json:"age_seconds" doc:"Time since then."`
	FreshFor    int64     `json:"fresh_for_seconds" doc:"Time left in the freshness window; negative after it."`
	StaleFor    int64     `json:"stale_for_seconds" doc:"Time left in the stale window; negative after it."`
	PinnedUntil time.Time `json:"pinned_until,omitzero" doc:"Until when it is pinned. 9999-12-31T23:59:59Z: until it is unpinned."`
	Bytes       int64     `json:"body_bytes" doc:"Size of the body."`
	Route       string    `json:"route,omitempty" doc:"Route of the page."`
	Tags        []string  `json:"tags,omitempty" doc:"Purge tags."`
	LeaseOwner  string    `json:"lease_owner,omitempty" doc:"Name of the lease holder, when the page was read."`
	LeaseUntil  time.Time `json:"lease_until,omitzero" doc:"When the lease expires."`
	Requests    int64     `json:"requests" doc:"Requests of this server in the last 30 to 60 minutes, if it is among the 1,000 most requested; else 0."`
	RenderMS    float64   `json:"render_ms" doc:"Mean time of its renders by this server, likewise."`
}

// Bounds of searches.
const (
	defaultFound = 50
	maxFound     = 200
	maxRoutes    = 200
	maxTenants   = 200
)

// The states that are no state of the stored entry.
const (
	statePinned      = "pinned"
	stateQuarantined = "quarantined"
	stateFailing     = "failing"
)

func (a *API) searchPages() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/pages/search", name: "searchPages", limit: lookTime,
		summary: "Search the pages, in memory.",
		details: "Never waits for the store, which is read in the background while people search: every 15 seconds, or less often if that takes long. " +
			"The states are current, by the windows of the pages; purges count from the next time the store is read.",
	}, func(_ *http.Request, in PageSearch) (FoundPages, error) { return a.search(in) })
}

// A finder is a search in progress.
type finder struct {
	PageSearch
	now      int64
	activity map[store.Key]live.PageActivity
	failing  map[store.Key]bool
}

func (a *API) search(in PageSearch) (FoundPages, error) {
	offset, err := within("offset", in.Offset, 0, 0, maxIndexed)
	if err != nil {
		return FoundPages{}, err
	}
	limit, err := within("limit", in.Limit, defaultFound, 1, maxFound)
	if err != nil {
		return FoundPages{}, err
	}
	states := []string{"", store.Fresh.String(), store.Stale.String(), store.Expired.String(), store.Purged.String(), stateWithdrawn, store.Missing.String(), statePinned, stateQuarantined, stateFailing}
	if !slices.Contains(states, in.State) {
		return FoundPages{}, invalid("state must be one of %s (got %.40q)", strings.Join(states[1:], ", "), in.State)
	}
	in.Text = strings.ToLower(in.Text)
	f := a.finder(in)
	value, err := f.order()
	if err != nil {
		return FoundPages{}, err
	}
	shown, reading := a.index.search()
	found := FoundPages{
		AsOf: moment(shown.asOf), Refreshing: reading, Complete: shown.complete, Truncated: shown.truncated, Problem: shown.problem,
		Total: len(shown.pages), Offset: offset, Limit: limit, States: make(map[string]int), Routes: make(map[string]int), Tenants: make(map[string]int), Pages: []FoundPage{},
	}
	if !shown.asOf.IsZero() {
		found.AgeSeconds = int64(time.Since(shown.asOf) / time.Second)
	}
	matches := f.find(shown.pages, &found)
	found.Matches = len(matches)
	sortFound(matches, shown.pages, value, strings.HasPrefix(in.Sort, "-"))
	for _, i := range matches[min(offset, len(matches)):min(offset+limit, len(matches))] {
		found.Pages = append(found.Pages, a.found(f, &shown.pages[i]))
	}
	return found, nil
}

func (a *API) finder(in PageSearch) *finder {
	f := &finder{PageSearch: in, now: a.cfg.Now().Unix(), failing: make(map[store.Key]bool)}
	if a.cfg.Live != nil {
		f.activity = a.cfg.Live.Activity(time.Now())
		for _, p := range a.cfg.Live.Failing(time.Now()) {
			f.failing[store.Key{Tenant: p.Tenant, Text: p.Key}] = true
		}
	}
	return f
}

// order returns the value that pages are sorted by; nil for their keys.
func (f *finder) order() (func(*indexedPage) int64, error) {
	switch strings.TrimPrefix(f.Sort, "-") {
	case "", "key":
		return nil, nil
	case "age":
		return func(p *indexedPage) int64 { return -p.generated }, nil
	case "size":
		return func(p *indexedPage) int64 { return p.bytes }, nil
	case "requests":
		return func(p *indexedPage) int64 { return f.activity[p.key].Requests }, nil
	case "render":
		return func(p *indexedPage) int64 { return int64(f.activity[p.key].RenderMean * 1000) }, nil
	}
	return nil, invalid("sort must be key, age, requests, render or size, perhaps with - in front (got %.40q)", f.Sort)
}

// find returns the places of the pages that match, and counts states, routes and tenants.
func (f *finder) find(pages []indexedPage, found *FoundPages) []int32 {
	var matches []int32
	for i := range pages {
		p := &pages[i]
		if f.Text != "" && !strings.Contains(p.lower, f.Text) || f.Tag != "" && !slices.Contains(p.tags, f.Tag) {
			continue
		}
		state := p.stateAt(f.now)
		rightState, rightRoute := f.State == "" || f.is(p, state, f.State), f.Route == "" || p.route == f.Route
		if rightState && rightRoute {
			countWord(found.Tenants, p.key.Tenant, maxTenants)
		}
		if f.Tenant != "" && p.key.Tenant != f.Tenant {
			continue
		}
		if rightRoute {
			found.States[state]++
			for _, also := range []string{statePinned, stateQuarantined, stateFailing} {
				if f.is(p, state, also) {
					found.States[also]++
				}
			}
		}
		if rightState {
			countWord(found.Routes, p.route, maxRoutes)
		}
		if rightState && rightRoute {
			matches = append(matches, int32(i)) //nolint:gosec // at most maxIndexed
		}
	}
	return matches
}

// countWord counts a word, unless it is empty or a new one beyond the bound.
func countWord(counts map[string]int, word string, bound int) {
	if _, known := counts[word]; word != "" && (known || len(counts) < bound) {
		counts[word]++
	}
}

// is reports whether a page, whose entry has a state, is in one.
func (f *finder) is(p *indexedPage, state, wanted string) bool {
	switch wanted {
	case statePinned:
		return p.pinnedUntil > f.now
	case stateQuarantined:
		return p.quarantined
	case stateFailing:
		return f.fails(p)
	}
	return state == wanted
}

func (f *finder) fails(p *indexedPage) bool {
	return p.failures > 0 && p.leaseUntil > f.now || f.failing[p.key]
}

// sortFound sorts matches, which are given in the order of their keys, by a value, and by key where
// values are equal.
func sortFound(matches []int32, pages []indexedPage, value func(*indexedPage) int64, descending bool) {
	if value == nil {
		if descending {
			slices.Reverse(matches)
		}
		return
	}
	type sorted struct {
		value int64
		at    int32
	}
	all := make([]sorted, len(matches))
	for i, at := range matches {
		v := value(&pages[at])
		if descending {
			v = -v
		}
		all[i] = sorted{v, at}
	}
	slices.SortFunc(all, func(x, y sorted) int { return cmp.Or(cmp.Compare(x.value, y.value), cmp.Compare(x.at, y.at)) })
	for i := range all {
		matches[i] = all[i].at
	}
}

// found describes a page of the index.
func (a *API) found(f *finder, p *indexedPage) FoundPage {
	page := FoundPage{
		Key: p.key.Text, Tenant: p.key.Tenant, Partition: a.partitionOf(p), State: p.stateAt(f.now),
		Pinned: f.is(p, "", statePinned), Quarantined: p.quarantined, Failing: f.fails(p), Status: int(p.status), Bytes: p.bytes, Route: p.route, Tags: p.tags,
		Requests: f.activity[p.key].Requests, RenderMS: f.activity[p.key].RenderMean,
	}
	if p.generated > 0 {
		page.GeneratedAt, page.AgeSeconds = time.Unix(p.generated, 0).UTC(), f.now-p.generated
		page.FreshFor, page.StaleFor = p.freshUntil-f.now, p.staleUntil-f.now
	}
	if page.Pinned {
		page.PinnedUntil = time.Unix(p.pinnedUntil, 0).UTC()
	}
	if p.leaseUntil > f.now {
		page.LeaseOwner, page.LeaseUntil = p.owner, time.Unix(p.leaseUntil, 0).UTC()
	}
	return page
}
