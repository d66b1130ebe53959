package generations

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Options are what an [Operator] uses of its process. Functions are safe for concurrent use.
type Options struct {
	Table  store.MetaStore
	Bodies store.BodyStore
	// Read reads the record of a page, with the marks that cover it.
	Read func(ctx context.Context, k store.Key, pk string) (store.Record, error)
	// ReadBody reads a body from the store, of at most MaxBody bytes. Errors wrap bodies.ErrMissing and
	// bodies.ErrTooLarge.
	ReadBody func(ctx context.Context, e *store.Entry) ([]byte, error)
	MaxBody  int64
	// ListVariant lists a page that is a variant, until at least a time; zero is for ever.
	ListVariant func(ctx context.Context, k store.Key, until time.Time) error
	// Drop makes this process read a page again before it serves it. Moved, which is called before that,
	// says that the log has a change of it; Accepted, that it has a new generation.
	Drop     func(k store.Key)
	Moved    func()
	Accepted func(k store.Key)
	// Hold records that a lease was acquired, and returns what records its end.
	Hold func(k store.Key) (release func(lost bool))

	Partition func(store.Key) string
	Now       func() time.Time
	// Lease is how long a lease lasts, and Retention how long an entry is kept beyond its windows.
	Lease, Retention time.Duration
	Log              *slog.Logger
}

// An Operator is what one process does for operators. All methods are safe for concurrent use. Errors wrap
// store.ErrInvalidKey for a key that no page can have.
type Operator struct{ o Options }

// New returns the operator of a process.
func New(o Options) *Operator { return &Operator{o} }

// partition returns the partition key of an operator's key.
func (op *Operator) partition(k store.Key) (string, error) {
	if err := store.ValidKey(k); err != nil {
		return "", err
	}
	return op.o.Partition(k), nil
}

// A Version is a generation of a page that is kept, or current.
type Version struct {
	store.Entry
	Current bool // it is served
}

// A dated version is a version with the fence of the publish that made it current first. A rollback gives its entry
// another one.
type dated struct {
	Version
	published int64
}

// Versions returns the generations of a page that are kept, and the current one even if it is not, most recently
// published first.
func (op *Operator) Versions(ctx context.Context, k store.Key) ([]Version, error) {
	pk, err := op.partition(k)
	if err != nil {
		return nil, err
	}
	kept, err := op.o.Table.Versions(ctx, pk)
	if err != nil {
		return nil, fmt.Errorf("reading the versions of %s: %w", k, err)
	}
	// Read after the versions, so that it includes what was published in between.
	rec, err := op.o.Read(ctx, k, pk)
	if err != nil {
		return nil, err
	}
	all := make([]dated, 0, len(kept)+1)
	for _, e := range kept {
		all = append(all, dated{Version{Entry: e}, e.Version})
	}
	if rec.Entry != nil {
		all = withCurrent(all, *rec.Entry)
	}
	slices.SortFunc(all, func(a, b dated) int {
		return cmp.Or(cmp.Compare(b.published, a.published), strings.Compare(b.GenerationID, a.GenerationID))
	})
	versions := make([]Version, len(all))
	for i, v := range all {
		versions[i] = v.Version
	}
	return versions, nil
}

// withCurrent marks the current entry among the kept versions, or adds it.
func withCurrent(versions []dated, e store.Entry) []dated {
	current := dated{Version{Entry: e, Current: true}, e.Version}
	if e.Foreign {
		current.published = math.MaxInt64 // it replaced all of ours
	} else if i := slices.IndexFunc(versions, func(v dated) bool { return v.GenerationID == e.GenerationID }); i >= 0 {
		current.published = versions[i].published
		versions[i] = current
		return versions
	}
	return append(versions, current)
}

// Result returns the entry that a request has published, as its record says. ok is false if the generation is no
// longer kept.
func (op *Operator) Result(ctx context.Context, k store.Key, r store.RequestRecord) (e store.Entry, ok bool, err error) {
	versions, err := op.Versions(ctx, k)
	if err != nil {
		return store.Entry{}, false, err
	}
	// If the generation is gone, an unchanged one with the same body may have replaced it. Other services record the
	// body alone.
	i := slices.IndexFunc(versions, func(v Version) bool { return r.GenerationID != "" && v.GenerationID == r.GenerationID })
	if i < 0 {
		i = slices.IndexFunc(versions, func(v Version) bool { return v.BodyKey == r.BodyKey })
	}
	if i < 0 {
		return store.Entry{}, false, nil
	}
	return versions[i].Entry, true, nil
}

// find returns the only version whose generation id starts with prefix. Errors wrap store.ErrNoVersion.
func find(versions []Version, prefix string) (Version, error) {
	var found []Version
	for _, v := range versions {
		switch {
		case prefix == "" || v.GenerationID == "":
		case v.GenerationID == prefix:
			return v, nil
		case strings.HasPrefix(v.GenerationID, prefix):
			found = append(found, v)
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return Version{}, fmt.Errorf("generation %q: %w", prefix, store.ErrNoVersion)
	}
	return Version{}, fmt.Errorf("%w: %q matches %d generations, such as %s and %s; give more characters",
		store.ErrNoVersion, prefix, len(found), found[0].GenerationID, found[1].GenerationID)
}

// findOr is find, or what otherwise returns if the prefix is empty.
func findOr(versions []Version, prefix string, otherwise func([]Version) (Version, error)) (Version, error) {
	if prefix == "" {
		return otherwise(versions)
	}
	return find(versions, prefix)
}

// indexOfCurrent returns the index of the current version, -1 if there is none.
func indexOfCurrent(versions []Version) int {
	return slices.IndexFunc(versions, func(v Version) bool { return v.Current })
}

// current returns the current version. Errors wrap store.ErrNoVersion.
func current(versions []Version) (Version, error) {
	i := indexOfCurrent(versions)
	if i < 0 {
		return Version{}, fmt.Errorf("%w: the page has no current generation", store.ErrNoVersion)
	}
	return versions[i], nil
}

// previous returns the newest version from before the current one, or from before the withdrawn one; if there is no
// current one, the newest version. Errors wrap store.ErrNoVersion.
func previous(versions []Version) (Version, error) {
	at := indexOfCurrent(versions)
	next := at + 1
	if at >= 0 && versions[at].Withdrawn {
		for next < len(versions) && versions[next].BodyKey == versions[at].BodyKey {
			next++
		}
	}
	if next == len(versions) {
		return Version{}, fmt.Errorf("%w: no generation older than the current one is kept", store.ErrNoVersion)
	}
	return versions[next], nil
}

// Body returns a generation of a page with its body, without content coding: the one that an id or an unambiguous
// prefix of it names, the current one if that is empty. At most limit bytes of the body are read. Errors wrap
// store.ErrNoVersion, and bodies.ErrMissing if the body is missing, damaged or larger.
func (op *Operator) Body(ctx context.Context, k store.Key, generation string, limit int64) (store.Entry, []byte, error) {
	versions, err := op.Versions(ctx, k)
	if err != nil {
		return store.Entry{}, nil, err
	}
	v, err := findOr(versions, generation, current)
	if err != nil {
		return store.Entry{}, nil, fmt.Errorf("reading a generation of %s: %w", k, err)
	}
	body, err := op.plainBody(ctx, &v.Entry, limit)
	return v.Entry, body, err
}

// plainBody returns the body of an entry without content coding.
func (op *Operator) plainBody(ctx context.Context, e *store.Entry, limit int64) ([]byte, error) {
	if e.Length > limit {
		return nil, fmt.Errorf("%w that can be shown: %s has %d bytes, at most %d are read", bodies.ErrMissing, e.BodyKey, e.Length, limit)
	}
	body, err := op.o.ReadBody(ctx, e)
	if errors.Is(err, bodies.ErrTooLarge) {
		return nil, fmt.Errorf("%w that can be shown: %w", bodies.ErrMissing, err)
	}
	if lines := e.Header["Content-Encoding"]; err == nil && httpcache.Decodable(lines) {
		body, err = httpcache.Decode(lines, body, limit)
		if err != nil {
			return nil, fmt.Errorf("%w that can be shown: %w", bodies.ErrMissing, err)
		}
	}
	return body, err
}
