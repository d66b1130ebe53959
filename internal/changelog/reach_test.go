package changelog

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// A sequenceStore is a log without pages.
type sequenceStore struct {
	seq   atomic.Int64
	reads atomic.Int64
	fails atomic.Bool
}

func (s *sequenceStore) Sequence(context.Context) (store.Sequence, error) {
	s.reads.Add(1)
	return store.Sequence{Seq: s.seq.Load()}, nil
}

func (s *sequenceStore) Changes(_ context.Context, after int64) (end store.Sequence, changes []store.Change, err error) {
	s.reads.Add(1)
	if s.fails.Load() {
		return end, nil, errors.New("throttled")
	}
	end.Seq = s.seq.Load()
	for seq := after + 1; seq <= end.Seq; seq++ {
		changes = append(changes, store.Change{Seq: seq})
	}
	return end, changes, nil
}

func (s *sequenceStore) Recent(context.Context, int64) ([]store.Change, error) { return nil, nil }

// A caller that must not get anything older than a sequence waits for one poll at most, which
// all callers share; a sequence that does not exist is found out by it.
func TestReach(t *testing.T) {
	for _, poll := range []time.Duration{5 * time.Minute, -1} {
		t.Run(poll.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := new(sequenceStore)
				process, end := context.WithCancelCause(t.Context())
				f := New(process, Options{
					Log: log, Poll: poll, LogLife: time.Hour,
					Apply: func(store.Change) {}, Applied: func(store.Change, bool, int64) {},
					Reset:  func(context.Context, []store.Change, int64) error { return nil },
					Polled: func(time.Duration, error) {},
					Now:    time.Now, Below: rand.Uint64N, Logger: slog.New(slog.DiscardHandler),
				})
				if poll < 0 {
					f.Skip()
				} else {
					go f.Run(process)
				}
				<-f.Begun()
				time.Sleep(time.Second)
				log.seq.Store(3)
				began, reads := time.Now(), log.reads.Load()
				results := make(chan error)
				for range 50 {
					go func() { results <- f.Reach(t.Context(), 3) }()
				}
				for range 50 {
					if err := <-results; err != nil {
						t.Error(err)
					}
				}
				if took := time.Since(began); took > time.Second {
					t.Errorf("reached after %v", took)
				}
				if n := log.reads.Load() - reads; poll > 0 && n > 6 {
					t.Errorf("%d reads for 50 callers", n)
				}
				if err := f.Reach(t.Context(), 2); err != nil {
					t.Errorf("an older sequence: %v", err)
				}
				if err := f.Reach(t.Context(), 4); !errors.Is(err, ErrAhead) {
					t.Errorf("a sequence that does not exist: %v", err)
				}
				log.fails.Store(poll > 0)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				if err := f.Reach(ctx, 4); poll > 0 && !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("while the log cannot be read: %v", err)
				}
				ended := errors.New("the process ends")
				end(ended)
				if err := f.Hear(t.Context(), 4); poll > 0 && !errors.Is(err, ended) {
					t.Errorf("while the process ends: %v", err)
				}
			})
		})
	}
}
