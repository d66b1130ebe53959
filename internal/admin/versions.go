package admin

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
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

// A Rollback is the input of a rollback.
type Rollback struct {
	Target
	To         string `json:"to,omitempty" doc:"Generation, or a unique prefix of its id. Missing: the one published last before the current one."`
	PinSeconds int64  `json:"pin_seconds,omitempty" doc:"Duration of the pin, in which the page does not age and is not regenerated. 0 or missing: until it is unpinned."`
}

func (a *API) rollBackPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/rollback", name: "rollBackPage", limit: lookTime,
		summary: "Make an older generation of a page current again, and pin it.",
		details: "All servers follow within one poll of the log. A regeneration in progress does not undo it. " +
			"A rollback to the current generation pins it.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, in Rollback) (Page, error) {
		k, pin, err := in.pinning(in.PinSeconds)
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.Rollback(r.Context(), k, isr.RollbackTo(in.To), isr.PinFor(pin))
		if errors.Is(err, store.ErrNoVersion) {
			return Page{}, errNoVersion(err)
		}
		return a.asserted(k, e, err)
	})
}

func errNoVersion(err error) *Error {
	return &Error{
		Status: http.StatusNotFound, Code: "no_version", Message: err.Error(),
		Hint: "isr versions shows the kept generations; isr serve --history N keeps older ones",
	}
}

// maxPin bounds the duration of a pin, as package isr does.
const maxPin = 10 * 365 * 24 * time.Hour

// pinning returns the page, and the validated duration of its pin.
func (t Target) pinning(pinSeconds int64) (store.Key, time.Duration, error) {
	k, err := t.key()
	if err != nil {
		return store.Key{}, 0, err
	}
	if pinSeconds < 0 || pinSeconds > int64(maxPin/time.Second) {
		return store.Key{}, 0, invalid("the duration of a pin must be between 1 and %d seconds, or 0 for no end (got %d)", int64(maxPin/time.Second), pinSeconds)
	}
	return k, time.Duration(pinSeconds) * time.Second, nil
}

// asserted returns the result of a rollback or pin.
func (a *API) asserted(k store.Key, e store.Entry, err error) (Page, error) {
	if err != nil {
		return Page{}, assertionError(err)
	}
	p := a.describe(a.cfg.Partition(k), store.Record{Entry: &e})
	p.Key, p.Header = k.String(), e.Header
	return p, nil
}

// assertionError maps an error of a rollback or pin to the response.
func assertionError(err error) error {
	switch {
	case errors.Is(err, isr.ErrNoBody):
		return conflict(err, "no_body", "choose another generation; isr versions shows the kept ones")
	case errors.Is(err, store.ErrPurged):
		return conflict(err, "purged", "hard-purged generations are never served again; choose a newer generation, or regenerate the page")
	case errors.Is(err, store.ErrUnknownOutcome):
		return &Error{
			Status: http.StatusBadGateway, Code: "unknown_outcome", Message: err.Error(),
			Hint: "it may have succeeded; check the current generation: isr versions",
		}
	case errors.Is(err, store.ErrMoved):
		return errOvertaken(err)
	}
	return err
}

func errOvertaken(err error) *Error {
	return &Error{
		Status: http.StatusConflict, Code: "overtaken", Message: err.Error(), RetryAfter: time.Second,
		Hint: "check the stored page, or retry",
	}
}

// Rollback makes an older generation of a page current again, and returns the page.
func (c *Client) Rollback(ctx context.Context, in Rollback) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/rollback", in)
}

// A Pin is the input of a pin.
type Pin struct {
	Target
	Seconds int64 `json:"seconds,omitempty" doc:"Duration of the pin. 0 or missing: until it is unpinned."`
}

func (a *API) pinPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/pin", name: "pinPage", limit: lookTime,
		summary:  "Pin the current generation of a page: it does not age and is not regenerated.",
		details:  "Replaces an earlier pin. A purge overrides a pin.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, in Pin) (Page, error) {
		k, d, err := in.pinning(in.Seconds)
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.Pin(r.Context(), k, d)
		return a.pinned(k, e, err)
	})
}

func (a *API) unpinPage() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/unpin", name: "unpinPage", limit: lookTime,
		summary:  "Unpin a page: its current generation ages again and is regenerated.",
		details:  "No effect, and no error, if the page is not pinned.",
		problems: []int{http.StatusNotFound, http.StatusConflict},
	}, func(r *http.Request, t Target) (Page, error) {
		k, err := t.key()
		if err != nil {
			return Page{}, err
		}
		e, err := a.cache.Unpin(r.Context(), k)
		return a.pinned(k, e, err)
	})
}

func (a *API) pinned(k store.Key, e store.Entry, err error) (Page, error) {
	if errors.Is(err, store.ErrNoVersion) {
		return Page{}, &Error{
			Status: http.StatusNotFound, Code: "no_version", Message: err.Error(),
			Hint: "only a page that isr has rendered can be pinned; render it first: isr regenerate",
		}
	}
	return a.asserted(k, e, err)
}

// Pin pins the current generation of a page, and returns the page.
func (c *Client) Pin(ctx context.Context, in Pin) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/pin", in)
}

// Unpin removes the pin of a page, and returns the page.
func (c *Client) Unpin(ctx context.Context, t Target) (Page, error) {
	return ask[Page](ctx, c, http.MethodPost, "/-/unpin", t)
}
