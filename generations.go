package isr

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/store"
)

// A Version is a generation of a page that can be inspected, compared and, if it is kept,
// made current again.
type Version struct {
	store.Entry
	// Current: this is the entry that is served.
	Current bool
}

// Versions returns the generations of a page that are kept (see Route.History), and the
// current one even if it is not kept, most recently published first.
func (c *Cache) Versions(ctx context.Context, k store.Key) ([]Version, error) {
	found, err := c.operator.Versions(ctx, k)
	if err != nil {
		return nil, err
	}
	versions := make([]Version, len(found))
	for i, v := range found {
		versions[i] = Version(v)
	}
	return versions, nil
}

// A Diff describes the changes from one generation of a page to another.
type Diff struct {
	From, To Version
	// Fields are the attributes and header fields that differ, sorted by name.
	Fields []FieldDiff
	// Body is a unified diff of the bodies; empty if they are equal, or were not
	// compared.
	Body string
	// Note says why bodies were not compared, or how; usually empty.
	Note string
}

// A FieldDiff is an attribute, or a header field ("header content-type"), that differs. A
// side without it is empty.
type FieldDiff struct {
	Name, From, To string
}

// Diff compares two generations of a page: status, header fields, tags and windows, and the
// bodies, if both are text of at most 1 MiB. Long lines of markup are broken between tags.
// Each generation is named by its id or an unambiguous prefix of it; an empty from is the
// generation before the current one, an empty to is the current one.
//
// Errors wrap [store.ErrNoVersion] if a generation is not kept or its prefix is ambiguous;
// other errors are the stores' own.
func (c *Cache) Diff(ctx context.Context, k store.Key, from, to string) (Diff, error) {
	d, err := c.operator.Diff(ctx, k, from, to)
	return newDiff(d), err
}

// newDiff returns a diff as callers get it.
func newDiff(d generations.Diff) Diff {
	all := Diff{From: Version(d.From), To: Version(d.To), Body: d.Body, Note: d.Note}
	for _, f := range d.Fields {
		all.Fields = append(all.Fields, FieldDiff(f))
	}
	return all
}

// String formats the diff for a terminal. Control characters are replaced by U+FFFD.
func (d Diff) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from %s, %s\n", d.From.GenerationID, d.From.GeneratedAt.UTC().Format("2006-01-02 15:04:05"))
	fmt.Fprintf(&b, "to   %s, %s\n", d.To.GenerationID, d.To.GeneratedAt.UTC().Format("2006-01-02 15:04:05"))
	for _, f := range d.Fields {
		fmt.Fprintf(&b, "%s: %s -> %s\n", f.Name, cmp.Or(f.From, "(none)"), cmp.Or(f.To, "(none)"))
	}
	if d.Note != "" {
		fmt.Fprintf(&b, "(%s)\n", d.Note)
	}
	if d.Body != "" {
		b.WriteString("\n" + d.Body)
	}
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return unicode.ReplacementChar
		}
		return r
	}, b.String())
}

// Body returns a generation of a page with its body, without content coding: the one that an
// id or an unambiguous prefix of it names, the current one for an empty text. At most limit
// bytes of the body are read. Errors wrap [store.ErrNoVersion], [ErrNoBody] if the body is
// missing, damaged or larger, or are the stores' own.
func (c *Cache) Body(ctx context.Context, k store.Key, generation string, limit int64) (store.Entry, []byte, error) {
	return c.operator.Body(ctx, k, generation, limit)
}

// A RollbackOption adjusts [Cache.Rollback].
type RollbackOption func(*rollback)

type rollback struct {
	to  string
	pin time.Duration
}

// RollbackTo selects the generation, by its id or a unique prefix of it. The default is
// the version that was published last before the current one.
func RollbackTo(generation string) RollbackOption {
	return func(r *rollback) { r.to = generation }
}

// PinFor ends the pin after d, rounded up to whole seconds. Zero, the default, pins until
// [Cache.Unpin].
func PinFor(d time.Duration) RollbackOption {
	return func(r *rollback) { r.pin = d }
}

// Rollback makes an older generation of a page current again, and pins it. It
// returns the new current entry. Other nodes follow within a poll of the log (see
// Config.Poll).
//
// It waits for no lease: a regeneration in progress fails to publish, and its waiting
// requests get the restored generation. No regeneration starts while the pin lasts,
// unless a purge covers the page or its body is lost. A rollback always pins: otherwise
// a generation that has expired would be regenerated for the next visitor.
//
// A rollback to the current generation pins it. Errors wrap [store.ErrNoVersion] if there
// is no such version, or more than one; [ErrNoBody] if its body is missing or damaged;
// [store.ErrPurged] if it was purged hard; [store.ErrMoved] if other writers kept changing
// the page; or they are the store's own. If the error wraps [store.ErrUnknownOutcome],
// the rollback may have been made.
func (c *Cache) Rollback(ctx context.Context, k store.Key, opts ...RollbackOption) (store.Entry, error) {
	var r rollback
	for _, opt := range opts {
		opt(&r)
	}
	return c.operator.Rollback(ctx, k, r.to, r.pin)
}

// Pin keeps the current entry of a page fresh for d, rounded up to whole seconds: it does
// not expire and is not regenerated. Zero means until [Cache.Unpin]. An earlier pin is
// replaced. A purge takes precedence over a pin. Errors are Rollback's;
// [store.ErrNoVersion]: there is no entry, or another service wrote it.
func (c *Cache) Pin(ctx context.Context, k store.Key, d time.Duration) (store.Entry, error) {
	return c.operator.Pin(ctx, k, d)
}

// Unpin ends the pin of the current entry, which then expires like any other. If its
// windows ended during the pin, it is served while renders fail, until one
// succeeds. It is no error if the entry is not pinned: every node then drops its copy,
// which may have been read while it was. Errors are Pin's, except ErrPurged.
func (c *Cache) Unpin(ctx context.Context, k store.Key) (store.Entry, error) {
	return c.operator.Unpin(ctx, k)
}

// Quarantined returns the generation of a page that was rejected last. It is kept for a week.
// Errors wrap [store.ErrNotQuarantined] if there is none, or are the store's own.
func (c *Cache) Quarantined(ctx context.Context, k store.Key) (store.Quarantined, error) {
	return c.operator.Quarantined(ctx, k)
}

// QuarantinedBody is Body for the generation of a page that is in quarantine. Errors wrap
// [store.ErrNotQuarantined] if there is none.
func (c *Cache) QuarantinedBody(ctx context.Context, k store.Key, limit int64) (store.Entry, []byte, error) {
	return c.operator.QuarantinedBody(ctx, k, limit)
}

// DiffQuarantined compares the current generation of a page with the one in quarantine, as
// Diff does. Errors are Quarantined's, and wrap [store.ErrNoVersion] if the page has no
// current generation.
func (c *Cache) DiffQuarantined(ctx context.Context, k store.Key) (Diff, error) {
	d, err := c.operator.DiffQuarantined(ctx, k)
	return newDiff(d), err
}

// AcceptQuarantined publishes the generation of a page that is in quarantine, and returns the
// new current entry. generation is its id, or a prefix of it; empty: whichever is there. It is
// as old as its render, so that it may be regenerated at once; what is rendered then is
// compared with it. Other nodes follow within a poll of the log.
//
// Errors wrap [store.ErrNotQuarantined]: there is no such generation; [store.ErrMoved]: a newer
// one was published since it was rendered; [store.ErrPurged]: it was purged hard;
// [store.ErrPinned]; [ErrNoBody]; or they are a [*store.HeldError] while the page is being
// regenerated, or the store's own.
func (c *Cache) AcceptQuarantined(ctx context.Context, k store.Key, generation string) (store.Entry, error) {
	return c.operator.Accept(ctx, k, generation)
}

// DropQuarantined deletes the generation of a page that is in quarantine. It is no error if
// there is none.
func (c *Cache) DropQuarantined(ctx context.Context, k store.Key) error {
	return c.operator.DropQuarantined(ctx, k)
}

// ErrRejected: the generation is suspicious by the rules of its route (see [Reject]).
var ErrRejected = fill.ErrRejected

// newOperator returns what the cache does for operators.
func newOperator(c *Cache) *generations.Operator {
	return generations.New(generations.Options{
		Table: c.meta, Bodies: c.bodies,
		Read: func(ctx context.Context, k store.Key, pk string) (store.Record, error) {
			rec, _, err := c.node.Read(ctx, k, pk)
			return rec, err
		},
		ReadBody: c.reader.ReadStored, MaxBody: c.cfg.MaxBody,
		ListVariant: c.variants.Add,
		Drop:        func(k store.Key) { c.node.Invalidate(k) },
		Moved:       func() { c.peers.Tell(c.follower.Committed() + 1) }, // at least
		Accepted: func(k store.Key) {
			c.node.Negative.Forget(k)
			c.node.Unpublished.Forget(k)
		},
		Hold:      func(k store.Key) func(lost bool) { return c.engine.Hold(k, "", nil) },
		Partition: c.cfg.Partition, Now: c.now, Lease: c.cfg.Lease, Retention: c.cfg.Retention, Log: c.log,
	})
}
