package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A Target names one page, by its URL or by its key.
type Target struct {
	URL    string `json:"url,omitempty" doc:"URL of the page, with the query parameters that are part of its key."`
	Key    string `json:"key,omitempty" doc:"Cache key of the page, as the list of pages has it; instead of url."`
	Tenant string `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
}

// TargetOf returns the target of a key.
func TargetOf(k store.Key) Target { return Target{Key: k.Text, Tenant: k.Tenant} }

func (t Target) key() (store.Key, error) {
	if (t.URL == "") == (t.Key == "") {
		return store.Key{}, invalid("give either url or key")
	}
	if t.URL != "" {
		return store.ParseAddress(t.Tenant, t.URL)
	}
	return store.ParseKey(t.Tenant, t.Key)
}

// target returns the key for the audit log; an invalid one is returned as received.
func (t Target) target() string {
	k, err := t.key()
	if err != nil {
		return t.URL + t.Key
	}
	return k.String()
}

// A Page is the stored state of one page.
type Page struct {
	Key       string `json:"key,omitempty" doc:"Cache key of the page. Missing if no row has it."`
	Partition string `json:"pk" doc:"The partition key of its rows."`
	State     string `json:"state" doc:"fresh, stale, expired, purged, withdrawn (by the origin) or missing."`

	Status      int         `json:"status,omitempty" doc:"HTTP status of the page. In lists, 200 for pages of other services."`
	GeneratedAt time.Time   `json:"generated_at,omitzero" doc:"When its rendering began."`
	AgeSeconds  int64       `json:"age_seconds" doc:"Time since then."`
	FreshFor    int64       `json:"fresh_for_seconds" doc:"Time left in the freshness window; negative after it."`
	StaleFor    int64       `json:"stale_for_seconds" doc:"Time left in the stale window; negative after it."`
	PinnedUntil time.Time   `json:"pinned_until,omitzero" doc:"Until when the page does not age, if it is pinned. 9999-12-31T23:59:59Z: until it is unpinned."`
	KeptUntil   time.Time   `json:"kept_until,omitzero" doc:"When the store may delete the page."`
	Generation  string      `json:"generation_id,omitempty" doc:"Id of the current generation."`
	ETag        string      `json:"etag,omitempty" doc:"Entity tag, with its quotes."`
	Body        string      `json:"body,omitempty" doc:"Key of the stored body."`
	BodyBytes   int64       `json:"body_bytes" doc:"Size of the body."`
	BodyProblem string      `json:"body_problem,omitempty" doc:"Why the body cannot be served. Not checked in lists."`
	Foreign     bool        `json:"written_by_another_service,omitempty" doc:"Another service wrote the page."`
	Route       string      `json:"route,omitempty" doc:"Route of the page: its pattern in the configuration of the server; without one, the name of the route that rendered it."`
	Tags        []string    `json:"tags,omitempty" doc:"Purge tags."`
	PurgeSeq    int64       `json:"purge_seq" doc:"Sequence of the log when its rendering began."`
	PurgedAt    int64       `json:"covering_seq,omitempty" doc:"Sequence of the newest purge of the page, its tags, a prefix, its tenant or everything. Greater than purge_seq: the page was rendered before."`
	HardAt      int64       `json:"covering_hard_seq,omitempty" doc:"Sequence of the newest hard one of these purges."`
	Header      http.Header `json:"header,omitempty" doc:"Header fields that are replayed. Not in lists."`

	LeaseOwner    string    `json:"lease_owner,omitempty" doc:"Name of the lease holder."`
	LeaseUntil    time.Time `json:"lease_until,omitzero" doc:"When the lease expires. Missing if it is free."`
	LeaseFailures int       `json:"lease_failures,omitempty" doc:"Consecutive failed regenerations."`

	Malformed string `json:"malformed,omitempty" doc:"Why the stored row cannot be used."`
}

// stateWithdrawn is the state of a page that its origin has withdrawn.
const stateWithdrawn = "withdrawn"

// lookTime bounds an operation that reads a page.
const lookTime = 30 * time.Second

func (a *API) showPage() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/page", name: "showPage", limit: lookTime,
		summary: "Show the stored state of a page.",
		details: "A page that is not stored has the state missing; it is not an error.",
	}, func(r *http.Request, t Target) (Page, error) {
		k, err := t.key()
		if err != nil {
			return Page{}, err
		}
		return a.page(r.Context(), k)
	})
}

func (a *API) page(ctx context.Context, k store.Key) (Page, error) {
	pk := a.cfg.Partition(k)
	rec, err := a.store.Read(ctx, pk)
	if err != nil {
		return Page{}, err
	}
	if rec.Entry == nil {
		p := a.describe(pk, rec)
		p.Key = k.String()
		return p, nil
	}
	covering, err := a.store.Covering(ctx, k, rec.Entry.Tags)
	if err != nil {
		return Page{}, err
	}
	rec.Purges = rec.Purges.Merge(covering)
	p := a.describe(pk, rec)
	p.Key = k.String()
	p.Header = rec.Entry.Header
	info, err := a.bodies.Stat(ctx, rec.Entry.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey):
		p.BodyProblem = err.Error()
	case err != nil:
		return Page{}, err
	case rec.Entry.Foreign:
		p.BodyBytes = info.Length
		status, header, err := httpcache.Presented(info.Presentation.Status, info.Presentation.ContentType, info.Presentation.ContentSecurityPolicy)
		if err != nil {
			p.BodyProblem = err.Error()
		} else {
			p.Status, p.Header = status, header
		}
	case info.Length != rec.Entry.Length:
		p.BodyProblem = fmt.Sprintf("it has %d bytes, expected %d as published", info.Length, rec.Entry.Length)
	}
	return p, nil
}

// describe returns the state of a page from its rows.
func (a *API) describe(pk string, rec store.Record) Page {
	now := a.cfg.Now()
	p := Page{Partition: pk, State: store.Freshness(rec.Entry, rec.Purges, now).String()}
	if rec.Malformed != nil {
		p.Malformed = rec.Malformed.Error()
	}
	if lock := rec.Lock; lock != nil && lock.HeldAt(now) {
		p.LeaseOwner, p.LeaseUntil, p.LeaseFailures = lock.Owner, lock.ExpiresAt.UTC(), lock.Failures
	}
	e := rec.Entry
	if e == nil {
		return p
	}
	if e.Withdrawn {
		p.State = stateWithdrawn
	}
	p.Key, p.Status, p.Generation, p.ETag = e.Key, e.Status, e.GenerationID, e.ETag
	p.GeneratedAt = e.GeneratedAt.UTC()
	p.PinnedUntil, p.KeptUntil = a.pin(e.PinnedUntil), moment(e.Expires)
	p.AgeSeconds = int64(e.Age(now) / time.Second)
	p.FreshFor = int64(e.FreshUntil().Sub(now) / time.Second)
	p.StaleFor = int64(e.StaleUntil().Sub(now) / time.Second)
	p.Body, p.BodyBytes, p.Foreign, p.Tags = e.BodyKey, e.Length, e.Foreign, e.Tags
	p.Route = a.routeOf(store.Key{Tenant: store.TenantOf(pk), Text: e.Key}, e)
	p.PurgeSeq, p.PurgedAt, p.HardAt = e.PurgeSeq, rec.Purges.Seq, rec.Purges.HardSeq
	return p
}

// routeOf returns the label of the route of a page at present, as metrics and logs have it; or,
// without one, the name of the route that rendered its entry.
func (a *API) routeOf(k store.Key, e *store.Entry) string {
	return cmp.Or(a.cache.RouteLabel(k), e.Route)
}

// Page returns the stored state of a page.
func (c *Client) Page(ctx context.Context, t Target) (Page, error) {
	return ask[Page](ctx, c, http.MethodGet, "/-/page", t)
}

// listTime bounds a list, which reads the whole table as fast as the client reads the
// response.
const listTime = time.Hour

func (a *API) listPages() operation {
	return streaming(operation{
		method: http.MethodGet, path: "/-/pages", name: "listPages", limit: listTime,
		summary: "List all pages that are stored or have a lease, in no particular order.",
		details: "Reads the whole table, which costs as much on DynamoDB. A list that ends with an error is incomplete.",
	}, func(r *http.Request, _ struct{}) iter.Seq2[Page, error] {
		return func(yield func(Page, error) bool) {
			marks, err := a.readMarks(r.Context())
			if err != nil {
				yield(Page{}, err)
				return
			}
			failing := a.cache.FailingKeys()
			for listed, err := range a.store.List(r.Context()) {
				if err != nil {
					yield(Page{}, err)
					return
				}
				if p, ok := a.listed(listed, marks, failing); ok && !yield(p, nil) {
					return
				}
			}
		}
	})
}

// Pages yields all pages in no particular order, and ends after the first error.
func (c *Client) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return askLines[Page](ctx, c, http.MethodGet, "/-/pages", struct{}{})
}
