package isr

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/facetheory/isr/store"
)

// A Version is a generation of a page that can be inspected, compared and, if it is kept,
// made current again.
type Version struct {
	store.Entry
	// Current: this is the entry that is served.
	Current bool
	// published orders versions by when they first became current: it is the fence of
	// that publish. A rollback gives the entry another one.
	published int64
}

// Versions returns the generations of a page that are kept (see Route.History), and the
// current one even if it is not kept, most recently published first.
func (c *Cache) Versions(ctx context.Context, k store.Key) ([]Version, error) {
	pk, err := c.partition(k)
	if err != nil {
		return nil, err
	}
	kept, err := c.meta.Versions(ctx, pk)
	if err != nil {
		return nil, fmt.Errorf("reading the versions of %s: %w", k, err)
	}
	// Read after the versions, so that it includes what was published in between.
	rec, _, err := c.read(ctx, k, pk)
	if err != nil {
		return nil, err
	}
	versions := make([]Version, 0, len(kept)+1)
	for _, e := range kept {
		versions = append(versions, Version{Entry: e, published: e.Version})
	}
	if rec.Entry != nil {
		versions = withCurrent(versions, *rec.Entry)
	}
	slices.SortFunc(versions, func(a, b Version) int {
		return cmp.Or(cmp.Compare(b.published, a.published), strings.Compare(b.GenerationID, a.GenerationID))
	})
	return versions, nil
}

// withCurrent marks the current entry among the kept versions, or adds it.
func withCurrent(versions []Version, e store.Entry) []Version {
	current := Version{Entry: e, Current: true, published: e.Version}
	if e.Foreign {
		current.published = math.MaxInt64 // it replaced all of ours
	} else if i := slices.IndexFunc(versions, func(v Version) bool { return v.GenerationID == e.GenerationID }); i >= 0 {
		current.published = versions[i].published
		versions[i] = current
		return versions
	}
	return append(versions, current)
}

// find returns the only version whose generation id starts with prefix. Errors wrap
// ErrNoVersion.
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

// indexOfCurrent returns the index of the current version, -1 if there is none.
func indexOfCurrent(versions []Version) int {
	return slices.IndexFunc(versions, func(v Version) bool { return v.Current })
}

// current returns the current version. Errors wrap ErrNoVersion.
func current(versions []Version) (Version, error) {
	i := indexOfCurrent(versions)
	if i < 0 {
		return Version{}, fmt.Errorf("%w: the page has no current generation", store.ErrNoVersion)
	}
	return versions[i], nil
}

// previous returns the newest version from before the current one, or from before the
// withdrawn one; without a current one, the newest version. Errors wrap ErrNoVersion.
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

// checkBody returns an error wrapping ErrNoBody unless the body of a generation exists.
func (c *Cache) checkBody(ctx context.Context, e store.Entry) error {
	info, err := c.bodies.Stat(ctx, e.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey):
		return fmt.Errorf("generation %s: %w: %w", e.GenerationID, ErrNoBody, err)
	case err != nil:
		return fmt.Errorf("checking the body of generation %s: %w", e.GenerationID, err)
	case info.Length != e.Length && !e.Foreign:
		return fmt.Errorf("generation %s: %w: %s has %d bytes, %d were published", e.GenerationID, ErrNoBody, e.BodyKey, info.Length, e.Length)
	}
	return nil
}
