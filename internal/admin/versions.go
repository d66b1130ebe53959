package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/facetheory/isr"
)

// Versions are the generations of a page that can be rolled back to, and the
// current one.
type Versions struct {
	Key       string    `json:"key" doc:"The page's key."`
	Partition string    `json:"pk" doc:"The partition key of its rows."`
	Versions  []Version `json:"versions" doc:"The last published first. Empty if the page is not stored."`
}

// A Version is one generation of a page.
type Version struct {
	Generation  string    `json:"generation_id,omitempty" doc:"Id of the generation. Missing if another service wrote the page."`
	Current     bool      `json:"current" doc:"Whether it is the current generation."`
	GeneratedAt time.Time `json:"generated_at" doc:"When its rendering began."`
	Status      int       `json:"status,omitempty" doc:"HTTP status of the page."`
	ETag        string    `json:"etag,omitempty" doc:"Entity tag, with its quotes."`
	Body        string    `json:"body" doc:"Key of the stored body. Generations with the same content share one."`
	BodyBytes   int64     `json:"body_bytes" doc:"Size of the body."`
	SHA256      string    `json:"sha256,omitempty" doc:"Hex digest of the body."`
	Route       string    `json:"route,omitempty" doc:"Name of the route that rendered it."`
	Tags        []string  `json:"tags,omitempty" doc:"Purge tags."`
	PinnedUntil time.Time `json:"pinned_until,omitzero" doc:"Until when it does not age, if it is pinned. 9999-12-31T23:59:59Z: until it is unpinned."`
	KeptUntil   time.Time `json:"kept_until,omitzero" doc:"When the store may delete it. Missing if never."`
}

func (a *API) listVersions() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/versions", name: "listVersions", limit: lookTime,
		summary: "List the current and the kept generations of a page.",
		details: "Servers started with --history N keep older generations.",
	}, func(r *http.Request, t Target) (Versions, error) {
		k, err := t.key()
		if err != nil {
			return Versions{}, err
		}
		kept, err := a.cache.Versions(r.Context(), k)
		if err != nil {
			return Versions{}, err
		}
		all := Versions{Key: k.String(), Partition: a.cfg.Partition(k), Versions: make([]Version, 0, len(kept))}
		for _, v := range kept {
			all.Versions = append(all.Versions, a.version(v))
		}
		return all, nil
	})
}

func (a *API) version(v isr.Version) Version {
	return Version{
		Generation: v.GenerationID, Current: v.Current, GeneratedAt: v.GeneratedAt.UTC(), Status: v.Status, ETag: v.ETag,
		Body: v.BodyKey, BodyBytes: v.Length, SHA256: v.SHA256, Route: v.Route, Tags: v.Tags,
		PinnedUntil: a.pin(v.PinnedUntil), KeptUntil: moment(v.Expires),
	}
}

// pin returns the end of a pin in force, zero if there is none.
func (a *API) pin(until time.Time) time.Time {
	if !until.After(a.cfg.Now()) {
		return time.Time{}
	}
	return until.UTC()
}

// moment returns a time in UTC; zero stays zero.
func moment(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.UTC()
}

// Versions returns the current and the kept generations of a page.
func (c *Client) Versions(ctx context.Context, t Target) (Versions, error) {
	return ask[Versions](ctx, c, http.MethodGet, "/-/versions", t)
}
