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

// A Version is a generation of a page that can be looked at, compared and, if it
// is kept, made current again.
type Version struct {
	store.Entry
	// Current: it is what visitors get.
	Current bool
	// published orders versions by when they became current first: it is the
	// fence of that publish, which an entry loses when it is rolled back to.
	published int64
}

// Versions returns the generations of a page, the one published last first: those
// that are kept (see Route.History), and the current one, kept or not.
func (c *Cache) Versions(ctx context.Context, k store.Key) ([]Version, error) {
	pk, err := c.partition(k)
	if err != nil {
		return nil, err
	}
	kept, err := c.meta.Versions(ctx, pk)
	if err != nil {
		return nil, fmt.Errorf("reading the versions of %s: %w", k, err)
	}
	// Read afterwards, it is current now, whatever was published in between.
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

// withCurrent marks the current entry among the versions that are kept, or adds
// it.
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

// find returns the only version whose generation id begins with prefix. The error
// wraps ErrNoVersion.
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
		return Version{}, fmt.Errorf("%w: no generation is named %q", store.ErrNoVersion, prefix)
	}
	return Version{}, fmt.Errorf("%w: %q matches %d generations, such as %s and %s; give more characters",
		store.ErrNoVersion, prefix, len(found), found[0].GenerationID, found[1].GenerationID)
}

// current returns the current version. The error wraps ErrNoVersion.
func current(versions []Version) (Version, error) {
	i := slices.IndexFunc(versions, func(v Version) bool { return v.Current })
	if i < 0 {
		return Version{}, fmt.Errorf("%w: the page has no current generation", store.ErrNoVersion)
	}
	return versions[i], nil
}

// previous returns the version that was published last before the current one, or
// before the one that was withdrawn. Without a current one, all were before it. The
// error wraps ErrNoVersion.
func previous(versions []Version) (Version, error) {
	current := slices.IndexFunc(versions, func(v Version) bool { return v.Current })
	next := current + 1
	if next > 0 && versions[current].Withdrawn {
		for next < len(versions) && versions[next].BodyKey == versions[current].BodyKey {
			next++
		}
	}
	if next == len(versions) {
		return Version{}, fmt.Errorf("%w: no generation older than the current one is kept", store.ErrNoVersion)
	}
	return versions[next], nil
}

// checkBody says whether the body of a generation is there.
func (c *Cache) checkBody(ctx context.Context, e store.Entry) error {
	info, err := c.bodies.Stat(ctx, e.BodyKey)
	switch {
	case errors.Is(err, store.ErrNotFound), errors.Is(err, store.ErrInvalidKey):
		return fmt.Errorf("generation %s: %w: %w", e.GenerationID, ErrNoBody, err)
	case err != nil:
		return fmt.Errorf("looking for the body of generation %s: %w", e.GenerationID, err)
	case info.Length != e.Length && !e.Foreign:
		return fmt.Errorf("generation %s: %w: %s has %d bytes, %d were published", e.GenerationID, ErrNoBody, e.BodyKey, info.Length, e.Length)
	}
	return nil
}
