package admin

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/purgetarget"
	"github.com/facetheory/isr/store"
)

// A Purge is the input of a purge.
type Purge struct {
	Targets []PurgeTarget `json:"targets" doc:"1 to 90 targets, which are purged together or not."`
	Tenant  string        `json:"tenant,omitempty" doc:"Tenant of the URLs, tags, prefixes and hosts, on a site with tenants."`
	Mode    PurgeMode     `json:"mode,omitempty" doc:"soft (stale: served while the page is regenerated) or hard (never served again). Missing: soft."`
	Wait    bool          `json:"wait,omitempty" doc:"Respond when every live server has applied the purge, or after 10 seconds."`
	Unpin   bool          `json:"unpin,omitempty" doc:"Purge pinned pages hard too, and unpin them."`
	DryRun  bool          `json:"dry_run,omitempty" doc:"Count the stored pages that the targets cover, without purging them. Reads the whole table."`
}

// A PurgeMode is what a purge does to the pages that it covers.
type PurgeMode string

// The modes of a purge.
const (
	PurgeSoft PurgeMode = "soft" // stale: served within their stale windows while they are regenerated
	PurgeHard PurgeMode = "hard" // never served again
)

// Bounds of a purge.
const (
	// maxPurgeInput bounds the body of a purge request, in bytes: 90 of the longest URLs.
	maxPurgeInput = 512 << 10
	// awaitTime is how long a purge waits for the servers to apply it.
	awaitTime = 10 * time.Second
	// maxExamples is how many pages the result of a dry run names.
	maxExamples = 10
)

// target names the targets for the audit log.
func (in Purge) target() string {
	mode := in.Mode
	if mode == "" {
		mode = PurgeSoft
	}
	const most = 10
	var names []string
	for _, t := range in.Targets[:min(len(in.Targets), most)] {
		names = append(names, fmt.Sprintf("%.200s", nameOf(t, in.Tenant)))
	}
	text := string(mode) + ": " + strings.Join(names, ", ")
	if more := len(in.Targets) - most; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	if in.DryRun {
		text += " (dry run)"
	}
	return text
}

// nameOf describes a target, which may be invalid.
func nameOf(t PurgeTarget, tenant string) string {
	p, err := t.Parse(tenant)
	switch {
	case err != nil:
		return canonical.Shown(t.URL + t.Tag + t.Prefix + t.Host + t.Tenant)
	case t.Host != "": // a prefix, to the store
		p.Kind, p.Value = "host", strings.TrimSuffix(p.Value, "/")
	}
	return describeTarget(p)
}

// describeTarget names what a target selects: "tag product-7", "example.com/news".
func describeTarget(t store.PurgeTarget) string {
	switch t.Kind {
	case store.PurgeKey:
		return store.Key{Tenant: t.Tenant, Text: t.Value}.String()
	case store.PurgeSite:
		return "all pages"
	case store.PurgeTenant:
		return "tenant " + t.Tenant
	}
	return t.String()
}

// describeTargets names valid targets, without duplicates.
func describeTargets(targets []PurgeTarget, tenant string) (names []string) {
	seen := make(map[string]bool, len(targets))
	for _, t := range targets {
		if name := nameOf(t, tenant); !seen[name] {
			seen[name] = true
			names = append(names, name)
		}
	}
	return names
}

// The form of Fastly's API: POST with the tags in a header. A web page cannot send these
// headers to another site without a CORS preflight.
const (
	surrogateKey = "Surrogate-Key"
	softPurge    = "Fastly-Soft-Purge"
)

// fromHeader returns the purge that headers of Fastly's API describe. Fastly's purges are
// hard unless Fastly-Soft-Purge is 1. ok is false if there is no header Surrogate-Key.
func (Purge) fromHeader(h http.Header) (in Purge, ok bool, err error) {
	if len(h.Values(surrogateKey)) == 0 {
		return in, false, nil
	}
	in.Targets = tagTargets(h.Values(surrogateKey))
	in.Mode, err = headerMode(h)
	return in, true, err
}

// headerMode returns the mode of a purge that headers describe.
func headerMode(h http.Header) (PurgeMode, error) {
	switch soft := h.Values(softPurge); {
	case len(soft) == 0:
		return PurgeHard, nil
	case len(soft) == 1 && soft[0] == "1":
		return PurgeSoft, nil
	default:
		return "", invalid("header %s must be 1 (got %.40q)", softPurge, strings.Join(soft, ", "))
	}
}

// Purged is the result of a purge.
type Purged struct {
	Seq        int64       `json:"seq,omitempty" doc:"The receipt: the sequence of the purge. A request with the header ISR-Min-Seq and this number is not answered with anything older. Missing for a dry run."`
	Mode       PurgeMode   `json:"mode" doc:"soft or hard."`
	Targets    []string    `json:"targets" doc:"What was purged."`
	WriteUnits float64     `json:"write_units" doc:"DynamoDB write units that the purge consumed, its share if it shared a transaction. 0: unknown."`
	WithinMS   *int64      `json:"within_ms,omitempty" doc:"How often the servers read the log, in milliseconds: after that, and the duration of one read, the purge holds everywhere. 0: it holds now, because only this server uses the store. Missing for a dry run, and if no server runs here."`
	Waited     *Waited     `json:"waited,omitempty" doc:"With wait: which servers have applied the purge."`
	Warnings   []string    `json:"warnings,omitempty" doc:"Targets that no page can have, up to ten of them, and what to give instead. They were purged with the others."`
	NotStored  []string    `json:"not_stored,omitempty" doc:"Targets that are URLs of which no page was stored, up to ten of them: the purge has an effect only on renders that began before it."`
	DryRun     *WouldPurge `json:"dry_run,omitempty" doc:"For a dry run: the pages that would be purged."`
}

// Waited is which servers have applied a purge. That some have not is no failure of the
// purge, which is committed.
type Waited struct {
	Servers int           `json:"servers" doc:"Live servers."`
	TookMS  int64         `json:"took_ms" doc:"How long the request waited for them, in milliseconds."`
	Problem string        `json:"problem,omitempty" doc:"Why the servers are not known."`
	Missing []PurgeServer `json:"missing" doc:"Live servers that have not reported the purge as applied in time. Empty, without a problem: it holds everywhere."`
}

// A PurgeServer is a live server of the fleet.
type PurgeServer struct {
	ID      string    `json:"id" doc:"Identifies the process."`
	Name    string    `json:"name,omitempty" doc:"Its host and process."`
	Applied int64     `json:"applied" doc:"The sequence up to which it has reported the log as applied."`
	SeenAt  time.Time `json:"seen_at,omitzero" doc:"When it reported last."`
}

// WouldPurge are the stored pages that targets cover.
type WouldPurge struct {
	Pages    int      `json:"pages" doc:"Stored pages that the targets cover."`
	Stored   int      `json:"stored" doc:"All stored pages, which were read."`
	Examples []string `json:"examples" doc:"The keys of up to ten of them."`
}

func (a *API) purgePages() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/purge", name: "purgePages", limit: listTime, maxInput: maxPurgeInput,
		summary: "Purge pages by URL, tag, prefix, host or tenant, or all pages.",
		details: "One transaction, whatever the number of pages that are covered. Responds when it is committed; every server follows within one poll of the log. " +
			"A purge can be repeated safely. A hard purge of the URL of a pinned page is refused, unless unpin is set. " +
			"The form of Fastly's API is accepted too: no body, the tags in the header Surrogate-Key, and Fastly-Soft-Purge: 1 for a soft purge.",
		headers: map[string]string{
			surrogateKey: "Tags to purge, separated by spaces, instead of a body. The purge is hard unless Fastly-Soft-Purge is 1.",
			softPurge:    "1: purge the tags of Surrogate-Key softly.",
		},
		problems: []int{http.StatusConflict},
	}, func(r *http.Request, in Purge) (Purged, error) { return a.purge(r.Context(), in) })
}

// purge executes a purge of validated or unvalidated input.
func (a *API) purge(ctx context.Context, in Purge) (Purged, error) {
	switch in.Mode {
	case "":
		in.Mode = PurgeSoft
	case PurgeSoft, PurgeHard:
	case "refresh":
		return Purged{}, invalid(`the mode refresh regenerates pages and has no receipt; use POST /-/refresh`)
	default:
		return Purged{}, invalid("mode must be soft or hard (got %.40q)", string(in.Mode))
	}
	if err := a.completePrefixes(&in.Targets); err != nil {
		return Purged{}, err
	}
	targets, err := parseTargets(in.Targets, in.Tenant)
	if err != nil {
		return Purged{}, err
	}
	out := Purged{Mode: in.Mode, Targets: describeTargets(in.Targets, in.Tenant), Warnings: a.unreachable(targets)}
	if in.DryRun {
		would, err := a.wouldPurge(ctx, targets)
		out.DryRun = &would
		return out, err
	}
	began := time.Now()
	commit, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	receipt, err := a.cache.Purge(commit, isr.Purge{Targets: targets, Hard: in.Mode == PurgeHard, Unpin: in.Unpin, Confirm: in.Wait})
	if err != nil {
		return Purged{}, purgeError(err)
	}
	out.Seq, out.WriteUnits = receipt.Seq, receipt.WriteUnits
	out.NotStored = a.notStored(commit, targets)
	if a.cfg.Cache != nil {
		within := a.cache.PollInterval().Milliseconds()
		out.WithinMS = &within
	}
	if in.Wait {
		out.Waited = a.awaitPurge(ctx, receipt, began)
	}
	return out, nil
}

// notStored names targets that are URLs of which no page is stored. The purge is committed: that
// it cannot be found out is no failure.
func (a *API) notStored(ctx context.Context, targets []store.PurgeTarget) (names []string) {
	missing, err := a.cache.NotStored(ctx, targets)
	if err != nil {
		a.log.Warn("a purge was made without finding out which pages were stored", "error", err)
	}
	for i, k := range missing {
		if i == maxExamples {
			return append(names, fmt.Sprintf("and %d more", len(missing)-i))
		}
		names = append(names, k.String())
	}
	return names
}

// wouldPurge counts the stored pages that targets cover.
func (a *API) wouldPurge(ctx context.Context, targets []store.PurgeTarget) (WouldPurge, error) {
	would := WouldPurge{Examples: []string{}}
	for listed, err := range a.store.List(ctx) {
		if err != nil {
			return would, err
		}
		e := listed.Record.Entry
		if e == nil || e.Withdrawn {
			continue
		}
		would.Stored++
		if !a.covered(targets, listed) {
			continue
		}
		if would.Pages++; len(would.Examples) < maxExamples {
			name := e.Key
			if name == "" {
				name = listed.PK
			}
			would.Examples = append(would.Examples, name)
		}
	}
	return would, nil
}

// covered reports whether one of the targets covers a page. A page of another service has
// no key and no tags: only its partition identifies it.
func (a *API) covered(targets []store.PurgeTarget, listed store.ListedPage) bool {
	k, tags := store.Key{Tenant: store.TenantOf(listed.PK), Text: listed.Record.Entry.Key}, listed.Record.Entry.Tags
	for _, t := range targets {
		if t.Covers(k, tags) {
			return true
		}
		if t.Kind != store.PurgeKey || t.Tenant != k.Tenant {
			continue
		}
		page := store.Key{Tenant: t.Tenant, Text: t.Value}
		if strings.HasPrefix(k.Text, t.Value+"#") || a.cfg.Partition(page) == listed.PK {
			return true // a variant of the page, or the page itself
		}
	}
	return false
}

// purgeError maps an error of [isr.Cache.Purge] to the response.
func purgeError(err error) error {
	switch {
	case errors.Is(err, store.ErrPinned):
		return conflict(err, "pinned", "nothing was purged; leave the page out, unpin it (isr unpin), purge softly, or purge and unpin: isr purge --hard --unpin")
	case errors.Is(err, store.ErrUnknownOutcome):
		return &Error{
			Status: http.StatusBadGateway, Code: "unknown_outcome", Message: err.Error(),
			Hint: "the purge may have been made; repeat it, which is harmless",
		}
	}
	return err
}

// Purge purges pages, and returns the receipt.
func (c *Client) Purge(ctx context.Context, in Purge) (Purged, error) {
	return ask[Purged](ctx, c, http.MethodPost, "/-/purge", in)
}

// awaitPurge waits until all live servers have applied a purge, which began at a time.
func (a *API) awaitPurge(ctx context.Context, receipt store.Receipt, began time.Time) *Waited {
	ctx, cancel := context.WithTimeout(ctx, awaitTime)
	defer cancel()
	live, missing, err := a.cache.AwaitPurge(ctx, receipt)
	w := &Waited{Servers: len(live), TookMS: time.Since(began).Milliseconds(), Missing: []PurgeServer{}}
	for _, n := range missing {
		w.Missing = append(w.Missing, PurgeServer{ID: n.ID, Name: n.Name, Applied: n.Applied, SeenAt: moment(n.SeenAt)})
	}
	if err != nil && len(missing) == 0 {
		w.Problem = err.Error()
	}
	return w
}

// A PurgeTarget selects pages to purge. Exactly one of its fields is set.
type PurgeTarget = purgetarget.PurgeTarget

// completePrefixes adds the host to prefixes that are only paths, if the site has one host.
func (a *API) completePrefixes(targets *[]PurgeTarget) error {
	if a.cfg.Hosts == nil {
		return nil
	}
	hosts := a.cfg.Hosts()
	var complete []PurgeTarget
	for _, t := range *targets {
		only := hosts.Only()
		switch {
		case !strings.HasPrefix(t.Prefix, "/"):
			complete = append(complete, t)
		case len(only) == 0:
			return invalid("the prefix %.100q has no host, and this server serves more than one (%.200s); give the prefix with each host, like example.com%.100s", t.Prefix, hosts, t.Prefix)
		default:
			path := t.Prefix
			for _, host := range only {
				t.Prefix = host + path
				complete = append(complete, t)
			}
		}
	}
	*targets = complete
	return nil
}

// parseTargets parses the targets of one purge, without duplicates.
func parseTargets(targets []PurgeTarget, tenant string) ([]store.PurgeTarget, error) {
	if len(targets) == 0 {
		return nil, invalid("targets is empty; expected 1 to %d targets, such as {\"tag\": \"product-7\"}", store.MaxPurgeTargets)
	}
	if len(targets) > store.MaxPurgeTargets {
		return nil, errTooManyTargets(len(targets))
	}
	parsed := make([]store.PurgeTarget, 0, len(targets))
	seen := make(map[store.PurgeTarget]bool, len(targets))
	for i, t := range targets {
		p, err := t.Parse(tenant)
		if err != nil && len(targets) > 1 {
			err = fmt.Errorf("target %d: %w", i+1, err)
		}
		if err != nil {
			return nil, err
		}
		if !seen[p] {
			seen[p] = true
			parsed = append(parsed, p)
		}
	}
	return parsed, nil
}

// maxWarnings bounds the warnings of a purge.
const maxWarnings = 10

// unreachable describes those targets that are URLs which no page can have, because this
// server does not serve the host, or no route makes that key of a request.
func (a *API) unreachable(targets []store.PurgeTarget) (warnings []string) {
	for _, t := range targets {
		if t.Kind != store.PurgeKey || a.cfg.Cache == nil {
			continue // what other servers serve is not known
		}
		warning := a.unreachablePage(store.Key{Tenant: t.Tenant, Text: t.Value})
		if warning == "" {
			continue
		}
		if len(warnings) == maxWarnings {
			return append(warnings, "and others")
		}
		warnings = append(warnings, warning)
	}
	return warnings
}

func (a *API) unreachablePage(k store.Key) string {
	var refused *Error
	if errors.As(a.served(k), &refused) {
		return shortened(refused.Message)
	}
	instead, err := a.cache.Reachable(k)
	if err == nil {
		return ""
	}
	text := fmt.Sprintf("%.200s: %v", k, err)
	if instead != (store.Key{}) {
		text += fmt.Sprintf("; to purge the page that visitors get give %.200s", instead)
	}
	return shortened(text)
}

// shortened bounds a warning, which may name a long key several times.
func shortened(text string) string { return fmt.Sprintf("%.1000s", text) }

func errTooManyTargets(n int) *Error {
	return &Error{
		Status: 400, Code: "too_many_targets",
		Message: fmt.Sprintf("%d targets are more than one purge can have, which is %d", n, store.MaxPurgeTargets),
		Hint:    "split them into several requests, or purge a tag or a prefix that covers them",
	}
}
