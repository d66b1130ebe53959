package admin

import (
	"context"
	"iter"
	"net/http"
	"time"

	"github.com/facetheory/isr/store"
)

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
				if rec := listed.Record; rec.Entry == nil && rec.Lock == nil && rec.Malformed == nil && rec.Purges.Seq > 0 {
					continue // a purge of a page that is not stored
				}
				if e := listed.Record.Entry; e != nil {
					k := store.Key{Tenant: store.TenantOf(listed.PK), Text: e.Key}
					listed.Record.Purges = listed.Record.Purges.Merge(marks.covering(k, e.Tags, a.cfg.Now()))
				}
				p := a.describe(listed.PK, listed.Record)
				if k, ok := failing[listed.PK]; ok && p.Key == "" {
					p.Key = k.String() // its back-off row has no key
				}
				if !yield(p, nil) {
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
