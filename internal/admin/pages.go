package admin

import (
	"context"
	"iter"
	"net/http"
	"time"
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
