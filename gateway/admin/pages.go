package admin

import (
	"context"
	"iter"
	"net/http"
	"time"
)

// listTime bounds a list, which reads the whole table, page by page, as fast as the
// client takes them.
const listTime = time.Hour

func (a *API) listPages() operation {
	return streaming(operation{
		method: http.MethodGet, path: "/-/pages", name: "listPages", limit: listTime,
		summary: "All pages, in no given order.",
		details: "Reads the whole table, and on DynamoDB costs as much. A list that ends with an error is not whole.",
	}, func(r *http.Request, _ struct{}) iter.Seq2[Page, error] {
		return func(yield func(Page, error) bool) {
			failing := a.cache.FailingKeys()
			for listed, err := range a.store.List(r.Context()) {
				if err != nil {
					yield(Page{}, err)
					return
				}
				p := a.describe(listed.PK, listed.Record)
				if k, ok := failing[listed.PK]; ok && p.Key == "" {
					p.Key = k.String() // its back-off does not name it
				}
				if !yield(p, nil) {
					return
				}
			}
		}
	})
}

// Pages yields all pages in no given order, and ends after the first error.
func (c *Client) Pages(ctx context.Context) iter.Seq2[Page, error] {
	return askLines[Page](ctx, c, http.MethodGet, "/-/pages", struct{}{})
}
