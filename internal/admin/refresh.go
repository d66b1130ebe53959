package admin

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Refresh is the input of a refresh.
type Refresh struct {
	Targets []PurgeTarget `json:"targets" doc:"1 to 90 targets, as of POST /-/purge."`
	Tenant  string        `json:"tenant,omitempty" doc:"Tenant of the URLs, tags, prefixes and hosts, on a site with tenants."`
	Unpin   bool          `json:"unpin,omitempty" doc:"Regenerate pinned pages too, and unpin them."`
}

// target names the targets for the audit log.
func (in Refresh) target() string {
	text := Purge{Targets: in.Targets, Tenant: in.Tenant, Mode: "refresh"}.target()
	return strings.TrimPrefix(text, "refresh: ")
}

// A Refreshed is one line of the response: a page, or the sum in the last line.
type Refreshed struct {
	Key        string        `json:"key,omitempty" doc:"Cache key of a page."`
	Generation string        `json:"generation_id,omitempty" doc:"Its new generation. Missing if it failed."`
	Error      *Error        `json:"failed,omitempty" doc:"Why it was not regenerated. Its old generation is still there."`
	Sum        *RefreshedSum `json:"sum,omitempty" doc:"Result of the refresh, only in the last line."`
}

// RefreshedSum is the result of a refresh.
type RefreshedSum struct {
	Pages  int `json:"pages" doc:"Pages that were regenerated."`
	Failed int `json:"failed" doc:"Pages that were not."`
	Stored int `json:"stored" doc:"Stored pages that were read: all of them, or, if all targets are URLs, their pages and variants."`

	Warnings []string `json:"warnings,omitempty" doc:"Targets that no page can have, up to ten of them, and what to give instead."`
}

// maxFailedRefreshes is how many consecutive pages may fail before a refresh ends.
const maxFailedRefreshes = 10

func (a *API) refreshPages() operation {
	return streaming(operation{
		method: http.MethodPost, path: "/-/refresh", name: "refreshPages", limit: listTime, maxInput: maxPurgeInput,
		summary: "Regenerate the stored pages that targets cover, one after another.",
		details: "Visitors get each old page until its new one is published; all servers then follow within one poll of the log. Nothing is purged. " +
			"Reads the whole table, unless all targets are URLs. It ends after an hour, if the client disconnects, and when ten pages in a row have failed. A response without a sum is incomplete.",
		problems: []int{http.StatusConflict},
	}, func(r *http.Request, in Refresh) iter.Seq2[Refreshed, error] {
		return func(yield func(Refreshed, error) bool) {
			if err := a.refresh(r.Context(), in, func(line Refreshed) bool { return yield(line, nil) }); err != nil {
				yield(Refreshed{}, err)
			}
		}
	})
}

// refresh regenerates pages and reports each, until report returns false, because the client
// has disconnected.
func (a *API) refresh(ctx context.Context, in Refresh, report func(Refreshed) bool) error {
	if err := a.completePrefixes(&in.Targets); err != nil {
		return err
	}
	targets, err := parseTargets(in.Targets, in.Tenant)
	if err != nil {
		return err
	}
	if a.cfg.Cache == nil {
		return errNoRenderer()
	}
	sum := RefreshedSum{Warnings: a.unreachable(targets)}
	inARow := 0
	for listed, err := range a.candidates(ctx, targets) {
		if err != nil {
			return err
		}
		e := listed.Record.Entry
		if e == nil || e.Withdrawn {
			continue
		}
		if sum.Stored++; e.Key == "" || !a.covered(targets, listed) {
			continue // a page of another service without a key cannot be rendered
		}
		line := a.refreshPage(ctx, store.Key{Tenant: store.TenantOf(listed.PK), Text: e.Key}, in.Unpin)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if inARow++; line.Error == nil {
			inARow = 0
			sum.Pages++
		} else {
			sum.Failed++
		}
		if !report(line) {
			return nil
		}
		if inARow == maxFailedRefreshes {
			return &Error{
				Status: http.StatusBadGateway, Code: "refresh_failed",
				Message: fmt.Sprintf("%d pages in a row could not be regenerated (%d were); the last: %s", inARow, sum.Pages, line.Error.Message),
				Hint:    "the stored pages are unchanged; repair the site and repeat the request, or purge the pages softly",
			}
		}
	}
	report(Refreshed{Sum: &sum})
	return nil
}

// maxRefreshedVariants bounds the variants of a page that a refresh of its URL regenerates.
const maxRefreshedVariants = 10_000

// candidates yields the pages that targets may cover, stored or not: if all are URLs, their
// pages and the variants that are listed, else the whole table.
func (a *API) candidates(ctx context.Context, targets []store.PurgeTarget) iter.Seq2[store.ListedPage, error] {
	if slices.ContainsFunc(targets, func(t store.PurgeTarget) bool { return t.Kind != store.PurgeKey }) {
		return a.store.List(ctx)
	}
	return func(yield func(store.ListedPage, error) bool) {
		seen := make(map[string]bool)
		for _, t := range targets {
			k := store.Key{Tenant: t.Tenant, Text: t.Value}
			texts, more, err := a.store.Variants(ctx, a.cfg.Partition(k), maxRefreshedVariants)
			if more {
				err = invalid("%.200s has more than %d variants; give the prefix %.200s, which reads the whole table", k, maxRefreshedVariants, t.Value)
			}
			if err != nil {
				yield(store.ListedPage{}, err)
				return
			}
			for _, text := range append([]string{t.Value}, texts...) {
				pk := a.cfg.Partition(store.Key{Tenant: t.Tenant, Text: text})
				if seen[pk] {
					continue
				}
				seen[pk] = true
				rec, err := a.store.Read(ctx, pk)
				if !yield(store.ListedPage{PK: pk, Record: rec}, err) || err != nil {
					return
				}
			}
		}
	}
}

// refreshPage regenerates one page.
func (a *API) refreshPage(ctx context.Context, k store.Key, unpin bool) Refreshed {
	line := Refreshed{Key: k.String()}
	err := a.served(k)
	if err == nil {
		options := []isr.RegenerateOption{isr.WithReload()}
		if unpin {
			options = append(options, isr.WithUnpin())
		}
		var made isr.Regeneration
		if made, err = a.cache.Regenerate(ctx, k, options...); err == nil {
			line.Generation = made.GenerationID
			return line
		}
		err = a.regenerateError(err)
	}
	line.Error = describe(err)
	if line.Error.Code == "pinned" {
		line.Error.Hint = "unpin it: isr unpin; or unpin and regenerate it: isr purge --refresh --unpin"
	}
	return line
}

// Refresh regenerates the stored pages that targets cover, and yields them and then the sum.
func (c *Client) Refresh(ctx context.Context, in Refresh) iter.Seq2[Refreshed, error] {
	return askLines[Refreshed](ctx, c, http.MethodPost, "/-/refresh", in)
}
