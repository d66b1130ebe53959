package isrtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// raceBodyLength is large enough that readers would see part of a body that is
// written in place.
const raceBodyLength = 256 << 10

// testConcurrentDifferentPuts: writers race for one key while readers read it.
// One writer wins and the others get ErrExists. Readers see either nothing or the
// winner's complete body.
func testConcurrentDifferentPuts(t *testing.T, store store.BodyStore) {
	for round := range 8 {
		raceForKey(t, store, fmt.Sprintf("bodies/race/%d", round))
	}
}

func raceForKey(t *testing.T, bodies store.BodyStore, key string) {
	t.Helper()
	const writers, readers = 8, 3
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var reading errgroup.Group
	for range readers {
		reading.Go(func() error { return watchKey(ctx, t.Context(), bodies, key) })
	}

	results := make([]error, writers)
	var writing errgroup.Group
	for i := range writers {
		writing.Go(func() error {
			results[i] = bodies.Put(t.Context(), key, raceBody(i))
			return nil
		})
	}
	_ = writing.Wait() // the errors are in results
	stop()
	if err := reading.Wait(); err != nil {
		t.Error(err)
	}

	winner := -1
	for i, err := range results {
		switch {
		case err == nil && winner < 0:
			winner = i
		case err == nil:
			t.Errorf("%q: the Puts of both %d and %d were acknowledged", key, winner, i)
		case !errors.Is(err, store.ErrExists):
			t.Errorf("%q: the Put of %d: %v, want ErrExists", key, i, err)
		}
	}
	if winner < 0 {
		t.Fatalf("%q: no Put was acknowledged: %v", key, results)
	}
	mustHold(t, bodies, key, raceBody(winner))
}

// watchKey reads a key until ctx ends. The reads use another context, so that
// the end of ctx does not fail them.
func watchKey(ctx, read context.Context, bodies store.BodyStore, key string) error {
	var first []byte
	for ctx.Err() == nil {
		body, err := readBody(read, bodies, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if first != nil {
				return fmt.Errorf("%q disappeared after it was read", key)
			}
			continue
		case err != nil:
			return err
		case len(body) != raceBodyLength || bytes.Count(body, body[:1]) != raceBodyLength:
			return fmt.Errorf("%q was read incomplete: %d bytes", key, len(body))
		case first != nil && !bytes.Equal(first, body):
			return fmt.Errorf("%q changed", key)
		}
		first = body
	}
	return nil
}

func raceBody(writer int) []byte {
	return bytes.Repeat([]byte{byte('a' + writer)}, raceBodyLength)
}

// testConcurrentSamePuts: a retry runs concurrently with the first attempt.
func testConcurrentSamePuts(t *testing.T, store store.BodyStore) {
	body := randomBody(raceBodyLength)
	for round := range 4 {
		key := fmt.Sprintf("bodies/same/%d", round)
		group, ctx := errgroup.WithContext(t.Context())
		for range 8 {
			group.Go(func() error { return store.Put(ctx, key, body) })
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
		mustHold(t, store, key, body)
	}
}

// testConcurrentPutsAndDeletes: every listing includes the bodies that stay while
// others in the same folder are put and deleted.
func testConcurrentPutsAndDeletes(t *testing.T, store store.BodyStore) {
	stays := []string{"bodies/shared/0/stays", "bodies/shared/1/stays"}
	for _, key := range stays {
		mustPut(t, store, key, []byte(key))
	}
	group, ctx := errgroup.WithContext(t.Context())
	for worker := range 6 {
		group.Go(func() error {
			for i := range 25 {
				if err := comeAndGo(ctx, store, fmt.Sprintf("bodies/shared/%d/%d", i%2, worker)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	group.Go(func() error {
		for range 10 {
			seen := map[string]bool{}
			for info, err := range store.List(ctx, "bodies/") {
				if err != nil {
					return fmt.Errorf("listing: %w", err)
				}
				seen[info.Key] = true
			}
			for _, key := range stays {
				if !seen[key] {
					return fmt.Errorf("the listing omits %q, which was not deleted", key)
				}
			}
		}
		return nil
	})
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	mustList(t, store, "", stays)
}

func comeAndGo(ctx context.Context, bodies store.BodyStore, key string) error {
	if err := bodies.Put(ctx, key, []byte(key)); err != nil {
		return fmt.Errorf("putting %q: %w", key, err)
	}
	body, err := readBody(ctx, bodies, key)
	if err != nil {
		return fmt.Errorf("an acknowledged body: %w", err)
	}
	if string(body) != key {
		return fmt.Errorf("%q holds %.40q", key, body)
	}
	if err := bodies.Delete(ctx, key); err != nil {
		return fmt.Errorf("deleting %q: %w", key, err)
	}
	if _, err := bodies.Stat(ctx, key); !errors.Is(err, store.ErrNotFound) {
		return fmt.Errorf("stat after deleting %q: %w", key, err)
	}
	return nil
}
