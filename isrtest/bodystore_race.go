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

// raceBodyLength is large enough that a body that is written in place, and not
// at once, is seen in part.
const raceBodyLength = 256 << 10

// testConcurrentDifferentPuts lets writers race for one key while readers read
// it: one writer wins, the others are told so, and nobody sees anything but
// nothing or the winner's whole body.
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
	_ = writing.Wait() // the results tell
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

// watchKey reads a key until ctx ends. The reads themselves run under
// another context, so that the end does not look like a fault.
func watchKey(ctx, read context.Context, bodies store.BodyStore, key string) error {
	var first []byte
	for ctx.Err() == nil {
		body, err := readBody(read, bodies, key)
		switch {
		case errors.Is(err, store.ErrNotFound):
			if first != nil {
				return fmt.Errorf("%q was seen and is gone", key)
			}
			continue
		case err != nil:
			return err
		case len(body) != raceBodyLength || bytes.Count(body, body[:1]) != raceBodyLength:
			return fmt.Errorf("%q was seen in part: %d bytes", key, len(body))
		case first != nil && !bytes.Equal(first, body):
			return fmt.Errorf("%q has changed", key)
		}
		first = body
	}
	return nil
}

func raceBody(writer int) []byte {
	return bytes.Repeat([]byte{byte('a' + writer)}, raceBodyLength)
}

// testConcurrentSamePuts is a retry that overtakes the first attempt.
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

// testConcurrentPutsAndDeletes lets neighbours come and go beside bodies that
// stay, and that every listing meanwhile has.
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
					return fmt.Errorf("%q, which stays, is not listed", key)
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
		return fmt.Errorf("%q was deleted, and Stat says %w", key, err)
	}
	return nil
}
