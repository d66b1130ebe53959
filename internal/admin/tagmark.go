package admin

import (
	"context"
	"net/http"
	"time"

	"github.com/facetheory/isr/store"
)

// A TagTarget names a tag.
type TagTarget struct {
	Tag    string `json:"tag" doc:"The tag."`
	Tenant string `json:"tenant,omitempty" doc:"Its tenant, on a site with tenants."`
}

// A TagMark is the newest purge of a tag.
type TagMark struct {
	Seq     int64     `json:"seq" doc:"Sequence of the newest purge of the tag; 0 if there was none, or not in the last 90 days."`
	HardSeq int64     `json:"hard_seq" doc:"Sequence of the newest hard purge; 0 if there was none."`
	At      time.Time `json:"at,omitzero" doc:"When the newest purge was made."`
	AgoMS   int64     `json:"ago_ms" doc:"How long ago that was by the clock of this server, in milliseconds, with a resolution of a second; 0 if there was none."`
}

func (a *API) showTagMark() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/purges/tag", name: "showTagMark", limit: lookTime,
		summary: "Show the newest purge of a tag.",
		details: "A purge of everything or of a tenant is not one of a tag. A program that must purge once for several of its processes, " +
			"such as for a deployment of a site, finds out by this whether another has. Reads the marks of all purges.",
	}, func(r *http.Request, in TagTarget) (TagMark, error) {
		t := store.PurgeTarget{Kind: store.PurgeTag, Tenant: in.Tenant, Value: in.Tag}
		if err := t.Validate(); err != nil {
			return TagMark{}, err
		}
		all, err := a.readMarks(r.Context())
		if err != nil {
			return TagMark{}, err
		}
		m, ok := all.marks[t]
		if !ok {
			return TagMark{}, nil
		}
		return TagMark{Seq: m.Seq, HardSeq: m.HardSeq, At: m.At.UTC(), AgoMS: max(0, a.cfg.Now().Sub(m.At).Milliseconds())}, nil
	})
}

// TagMark returns the newest purge of a tag, of a tenant or, if that is empty, of a site without
// tenants.
func (c *Client) TagMark(ctx context.Context, tenant, tag string) (TagMark, error) {
	return ask[TagMark](ctx, c, http.MethodGet, "/-/purges/tag", TagTarget{Tag: tag, Tenant: tenant})
}
