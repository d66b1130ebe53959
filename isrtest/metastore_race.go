package isrtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
)

// raceNodes and raceRounds bound the races: enough contenders to overlap, few
// enough for a slow engine.
const (
	raceNodes  = 6
	raceRounds = 12
)

// testRaceForLease: while the clock stands still no lease expires, so there are
// never two holders, and every publish of a holder succeeds.
func testRaceForLease(t *testing.T, f *fleet) {
	var holders, publishes atomic.Int64
	var group errgroup.Group
	for node := range raceNodes {
		meta := f.open(fmt.Sprintf("racer-%d", node), f.clock.Now)
		group.Go(func() error {
			for round := range raceRounds {
				l, err := f.contend(meta)
				if err != nil {
					return err
				}
				if n := holders.Add(1); n != 1 {
					return fmt.Errorf("%d holders, want 1", n)
				}
				record, err := meta.Read(t.Context(), testPK)
				if err != nil {
					return err
				}
				if err := meta.Refresh(t.Context(), l); err != nil {
					return err
				}
				holders.Add(-1) // before the lease goes
				if round%3 == 2 {
					if err := meta.Release(t.Context(), l); err != nil {
						return err
					}
					continue
				}
				id := fmt.Sprintf("%d-%d", node, round)
				if _, err := meta.Publish(t.Context(), l, record, entryAt(id, f.clock.Now()), store.PublishOptions{}); err != nil {
					return fmt.Errorf("publish of a holder: %w", err)
				}
				publishes.Add(1)
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	if want := int64(raceNodes * raceRounds * 2 / 3); publishes.Load() != want {
		t.Errorf("%d publishes, want %d", publishes.Load(), want)
	}
}

// contend retries Acquire until it holds the page's lease.
func (f *fleet) contend(meta store.MetaStore) (store.Lease, error) {
	for {
		l, err := meta.Acquire(f.t.Context(), testPK, testLease, nil)
		if _, held := errors.AsType[*store.HeldError](err); !held {
			return l, err
		}
	}
}

// A history is the acknowledged publishes of a race: generation ids by version.
type history struct {
	mu       sync.Mutex
	accepted map[int64]string // guarded by mu
}

// testRaceWithExpiry: leases expire during publishes, and the acknowledged
// publishes still form one chain, in which each replaced its predecessor.
func testRaceWithExpiry(t *testing.T, f *fleet) {
	first := f.publish(f.a, testPK, f.entry("first"))
	h := &history{accepted: map[int64]string{first.Version: "first"}}
	var group errgroup.Group
	for node := range raceNodes {
		store := f.open(fmt.Sprintf("racer-%d", node), f.clock.Now)
		group.Go(func() error {
			for round := range raceRounds {
				if err := f.overtake(store, h, fmt.Sprintf("%d-%d", node, round)); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	last := f.read(f.a, testPK).Entry
	for version := first.Version; version <= last.Version; version++ {
		if h.accepted[version] == "" {
			t.Errorf("version %d was skipped, or published without an acknowledgment", version)
		}
	}
	if got := int64(len(h.accepted)); got != last.Version-first.Version+1 {
		t.Errorf("%d publishes were acknowledged, but the version went from %d to %d", got, first.Version, last.Version)
	}
	if h.accepted[last.Version] != last.GenerationID {
		t.Errorf("current is %s, version %d was acknowledged to %s", last.GenerationID, last.Version, h.accepted[last.Version])
	}
}

// overtake makes one publish attempt, during which the lease may expire.
func (f *fleet) overtake(meta store.MetaStore, h *history, id string) error {
	l, err := meta.Acquire(f.t.Context(), testPK, testLease, nil)
	if _, held := errors.AsType[*store.HeldError](err); held {
		f.clock.Advance(testLease / 3) // waiting makes time pass
		return nil
	}
	if err != nil {
		return err
	}
	record, err := meta.Read(f.t.Context(), testPK)
	if err != nil {
		return err
	}
	f.clock.Advance(rand.N(testLease / 2))
	got, err := meta.Publish(f.t.Context(), l, record, entryAt(id, f.clock.Now()), store.PublishOptions{})
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case err == nil:
		if record.Entry == nil || got.Version <= record.Entry.Version {
			return fmt.Errorf("%s replaced %+v by version %d", id, record.Entry, got.Version)
		}
		if other, taken := h.accepted[got.Version]; taken {
			return fmt.Errorf("version %d was given to %s and to %s", got.Version, other, id)
		}
		h.accepted[got.Version] = id
		return nil
	case errors.Is(err, store.ErrLeaseLost), errors.Is(err, store.ErrMoved):
		return nil
	}
	return err
}

// testRaceOfReaders: readers see complete entries only, and never an older one
// after a newer one.
func testRaceOfReaders(t *testing.T, f *fleet) {
	f.publish(f.a, testPK, f.entry("0"))
	var done atomic.Bool
	var readers errgroup.Group
	for range 3 {
		store := f.open("reader", f.clock.Now)
		readers.Go(func() error {
			var last int64
			for !done.Load() {
				record, err := store.Read(t.Context(), testPK)
				if err != nil {
					return err
				}
				if err := checkWhole(record); err != nil {
					return err
				}
				if record.Entry.Version < last {
					return fmt.Errorf("version %d was read after %d", record.Entry.Version, last)
				}
				last = record.Entry.Version
			}
			return nil
		})
	}
	for i := range 3 * raceRounds {
		f.publish([]store.MetaStore{f.a, f.b}[i%2], testPK, f.entry(fmt.Sprint(i+1)))
		f.clock.Advance(time.Second)
	}
	done.Store(true)
	if err := readers.Wait(); err != nil {
		t.Error(err)
	}
}

// checkWhole checks that all parts of an entry belong to one generation.
func checkWhole(record store.Record) error {
	e := record.Entry
	if e == nil {
		return fmt.Errorf("no entry: %v", record.Malformed)
	}
	id := e.GenerationID
	if e.BodyKey != "bodies/5f1c/"+id || e.ETag != fmt.Sprintf("%q", id) || e.Header.Get("X-Generation") != id ||
		e.Length != int64(len(id)) || !slices.Equal(e.Tags, []string{"news", id}) {
		return fmt.Errorf("an entry of mixed generations: %+v", *e)
	}
	return nil
}
