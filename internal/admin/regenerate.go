package admin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

// regenerateTime bounds the wait for a render, which may first wait for one in progress. The
// render continues after it.
const regenerateTime = 2 * time.Minute

// A Regenerate is the input of a regeneration.
type Regenerate struct {
	Target
	Unpin bool `json:"unpin,omitempty" doc:"Render the page even if it is pinned, and unpin it."`

	UnlessFresh bool `json:"unless_fresh,omitempty" doc:"Render nothing if the stored page is fresh."`

	Run string `json:"run,omitempty" doc:"Name of the run over many pages that the request belongs to, at most 300 bytes: the audit has one entry for all of them, instead of one for each page, and the log has their lines at level debug, after the first."`

	// IdempotencyKey makes the request idempotent: repetitions with the same key are not
	// executed again. 1 to 256 bytes of printable ASCII without spaces. Empty: every
	// request is executed.
	IdempotencyKey string `json:"-"`
}

// A Regenerated is the result of a regeneration.
type Regenerated struct {
	Page
	Replayed bool `json:"replayed,omitempty" doc:"The request was already executed, and this is its earlier result. Nothing was rendered now."`
	Fresh    bool `json:"was_fresh,omitempty" doc:"With unless_fresh: the stored page was fresh, and nothing was rendered."`
}

// maxRun bounds the name of a run, in bytes.
const maxRun = 300

// run returns the run that the request belongs to, for the audit log. A longer name is refused.
func (in Regenerate) run() string { return in.Run[:min(len(in.Run), maxRun)] }

// idempotencyKey is the name of the header.
const idempotencyKey = "Idempotency-Key"

// header returns the inputs that are sent as headers.
func (in Regenerate) header() http.Header {
	if in.IdempotencyKey == "" {
		return nil
	}
	return http.Header{idempotencyKey: {in.IdempotencyKey}}
}

// named sets the idempotency key from the headers of a request. Quotes around it (a string
// of RFC 9651) are removed.
func (in Regenerate) named(h http.Header) (Regenerate, error) {
	keys := h.Values(idempotencyKey)
	switch len(keys) {
	case 0:
		return in, nil
	case 1:
	default:
		return in, invalid("header %s is repeated", idempotencyKey)
	}
	in.IdempotencyKey = keys[0]
	if n := len(keys[0]); n >= 2 && keys[0][0] == '"' && keys[0][n-1] == '"' {
		in.IdempotencyKey = keys[0][1 : n-1]
	}
	if err := store.ValidRequestKey(in.IdempotencyKey); err != nil {
		return in, invalid("header %s: %v", idempotencyKey, err)
	}
	return in, nil
}

// options returns the options for isr.Cache.Regenerate.
func (in Regenerate) options(k store.Key) []isr.RegenerateOption {
	var options []isr.RegenerateOption
	if in.Unpin {
		options = append(options, isr.WithUnpin())
	}
	if in.UnlessFresh {
		options = append(options, isr.WithUnlessFresh())
	}
	if in.IdempotencyKey != "" {
		// All inputs that affect the result. A page named by its URL has the same inputs
		// as one named by its key.
		inputs := map[string]any{"tenant": k.Tenant, "key": k.Text, "unpin": in.Unpin}
		if in.UnlessFresh {
			inputs["unless_fresh"] = true
		}
		options = append(options, isr.WithIdempotencyKey(in.IdempotencyKey), isr.WithInputs(inputs))
	}
	return options
}

func (a *API) regeneratePage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/regenerate", name: "regeneratePage", limit: regenerateTime,
		summary: "Regenerate a page now, even if it is fresh.",
		details: "Responds when the page is published. The render starts after the request: it waits for a render in progress instead of joining it.",
		headers: map[string]string{
			idempotencyKey: "1 to 256 bytes of printable ASCII without spaces. Repeated requests with the same key are not executed again and return the earlier result.",
		},
		problems: []int{http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity},
	}, func(r *http.Request, in Regenerate) (Regenerated, error) {
		k, err := in.key()
		if err != nil {
			return Regenerated{}, err
		}
		if in, err = in.named(r.Header); err != nil {
			return Regenerated{}, err
		}
		if len(in.Run) > maxRun {
			return Regenerated{}, invalid("run has %d bytes, at most %d are allowed", len(in.Run), maxRun)
		}
		if a.cfg.Cache == nil {
			return Regenerated{}, errNoRenderer()
		}
		if err := a.served(k); err != nil {
			return Regenerated{}, err
		}
		made, err := a.cache.Regenerate(r.Context(), k, in.options(k)...)
		if err != nil {
			return Regenerated{}, a.regenerateError(err)
		}
		p := a.describe(a.cfg.Partition(k), store.Record{Entry: &made.Entry})
		p.Key, p.Header = k.String(), made.Header
		return Regenerated{Page: p, Replayed: made.Replayed, Fresh: made.Fresh}, nil
	})
}

// served returns an error for a page whose host the gateway does not serve.
func (a *API) served(k store.Key) error {
	if a.cfg.Hosts == nil {
		return nil
	}
	host := k.Text
	if end := strings.IndexAny(host, "/?#"); end >= 0 {
		host = host[:end]
	}
	hosts := a.cfg.Hosts()
	if hosts.Serve(host) {
		return nil
	}
	return &Error{
		Status: http.StatusUnprocessableEntity, Code: "unreachable",
		Message: fmt.Sprintf("no visitor can reach %s: the host %s is not served; expected one of %s", k, host, hosts),
		Hint:    "give the URL that visitors use, with the port if it is neither 80 nor 443; or serve the host: " + hosts.Advice(host),
	}
}

func errNoRenderer() *Error {
	return noServer("no_renderer", "no server is running here to render the page")
}

// regenerateError maps an error of [isr.Cache.Regenerate] to the response.
func (a *API) regenerateError(err error) error {
	var held *store.HeldError
	var spared *budget.Error
	var earlier *store.RequestError
	switch {
	case errors.As(err, &earlier):
		return a.requestError(err, earlier)
	case errors.As(err, &held):
		e := &Error{
			Status: http.StatusConflict, Code: "held", Message: err.Error(), RetryAfter: a.until(held.Lock.ExpiresAt),
			Hint: "another server is rendering the page; isr lease shows which",
		}
		if held.Lock.IsBackOff() {
			e.Code, e.Hint = "back_off", "wait, or end the back-off: isr lease --release"
		}
		return e
	case errors.As(err, &spared):
		return &Error{
			Status: http.StatusServiceUnavailable, Code: "origin_spared", Message: err.Error(),
			RetryAfter: max(spared.RetryAfter, time.Second), Hint: "the stored page is unchanged",
		}
	case errors.Is(err, isr.ErrUncacheable):
		return &Error{
			Status: http.StatusUnprocessableEntity, Code: "uncacheable", Message: err.Error(),
			Hint: "every request for the page goes to the origin; see docs/caching.md",
		}
	case errors.Is(err, isr.ErrUnreachable):
		return &Error{
			Status: http.StatusUnprocessableEntity, Code: "unreachable", Message: err.Error(),
			Hint: "give the URL that visitors use; or declare the parameter: isr serve --query NAME",
		}
	case errors.Is(err, isr.ErrNoRenderer):
		return conflict(err, "no_renderer", "use a server that has the route")
	case errors.Is(err, store.ErrPinned):
		return conflict(err, "pinned", "unpin it: isr unpin; or unpin and regenerate it: isr regenerate --unpin")
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		return errOvertaken(err)
	case errors.Is(err, store.ErrInvalidKey), errors.Is(err, isr.ErrClosed), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return err
	}
	return &Error{
		Status: http.StatusBadGateway, Code: "regeneration_failed", Message: err.Error(),
		Hint: "the stored page is unchanged; see the log of the server",
	}
}

// soon is the longest Retry-After for a request in progress.
const soon = 5 * time.Second

// requestError maps the state of an earlier request with the same idempotency key.
func (a *API) requestError(err error, earlier *store.RequestError) *Error {
	e := &Error{Message: err.Error()}
	switch {
	case errors.Is(err, store.ErrRequestInProgress):
		// Most renders end long before their deadline.
		e.Status, e.Code, e.RetryAfter = http.StatusConflict, "in_progress", min(a.until(earlier.Record.InProgressUntil), soon)
		e.Hint = "retry for the result; if the executing server crashed, a retry takes over once its lease has expired"
	case errors.Is(err, store.ErrRequestMismatch):
		e.Status, e.Code, e.Hint = http.StatusUnprocessableEntity, "key_reused", "the inputs are the page and unpin; use another key for other inputs"
	default: // ErrResultGone
		e.Status, e.Code = http.StatusGone, "result_gone"
		e.Hint = "the request was executed, but its result has been replaced since; isr serve --history N keeps older generations"
	}
	return e
}

// Regenerate regenerates a page now, and returns it when it is published.
func (c *Client) Regenerate(ctx context.Context, in Regenerate) (Regenerated, error) {
	return ask[Regenerated](ctx, c, http.MethodPost, "/-/regenerate", in)
}

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
