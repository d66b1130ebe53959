package admin

import (
	"context"
	"errors"
	"net/http"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A Comparison names the generations of a page to compare.
type Comparison struct {
	Target
	From string `json:"from,omitempty" doc:"Generation, or an unambiguous prefix of its id. Default: the one before the current."`
	To   string `json:"to,omitempty" doc:"The generation to compare it with. Default: the current one."`
}

// A Diff is what changed from one generation of a page to another.
type Diff struct {
	Key    string      `json:"key" doc:"The page's key."`
	From   Version     `json:"from"`
	To     Version     `json:"to"`
	Fields []FieldDiff `json:"fields" doc:"Attributes and header fields that differ, by name."`
	Body   string      `json:"body,omitempty" doc:"Unified diff of the bodies, if they are text of at most 1 MiB each. Missing if they are equal."`
	Note   string      `json:"note,omitempty" doc:"Remark on the bodies, such as why they are not compared."`
}

// A FieldDiff is an attribute, or a header field, that differs.
type FieldDiff struct {
	Name string `json:"name" doc:"For example status, or header content-type."`
	From string `json:"from" doc:"Empty if absent."`
	To   string `json:"to" doc:"Empty if absent."`
}

func (a *API) compareVersions() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/diff", name: "compareVersions", limit: lookTime,
		summary:  "Compare two generations of a page.",
		problems: []int{http.StatusNotFound},
	}, func(r *http.Request, in Comparison) (Diff, error) {
		k, err := in.key()
		if err != nil {
			return Diff{}, err
		}
		d, err := a.cache.Diff(r.Context(), k, in.From, in.To)
		if errors.Is(err, store.ErrNoVersion) {
			return Diff{}, errNoVersion(err)
		}
		if err != nil {
			return Diff{}, err
		}
		return a.diff(k, d), nil
	})
}

func (a *API) diff(k store.Key, d isr.Diff) Diff {
	answer := Diff{Key: k.String(), From: a.version(d.From), To: a.version(d.To), Fields: make([]FieldDiff, 0, len(d.Fields)), Body: d.Body, Note: d.Note}
	for _, f := range d.Fields {
		answer.Fields = append(answer.Fields, FieldDiff(f))
	}
	return answer
}

// String returns the comparison as text for a terminal, as isr.Diff does.
func (d Diff) String() string {
	whole := isr.Diff{From: d.From.named(), To: d.To.named(), Body: d.Body, Note: d.Note}
	for _, f := range d.Fields {
		whole.Fields = append(whole.Fields, isr.FieldDiff(f))
	}
	return whole.String()
}

// named returns a version with only the fields that identify it.
func (v Version) named() isr.Version {
	return isr.Version{Entry: store.Entry{GenerationID: v.Generation, GeneratedAt: v.GeneratedAt}}
}

// Diff compares two generations of a page.
func (c *Client) Diff(ctx context.Context, in Comparison) (Diff, error) {
	return ask[Diff](ctx, c, http.MethodGet, "/-/diff", in)
}
