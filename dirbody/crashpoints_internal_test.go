package dirbody

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/internal/localfile/crashfs"
	"github.com/facetheory/isr/store"
)

// A site puts, reads and deletes bodies on a disk that crashes, and knows what must be there afterwards.
type site struct {
	t       *testing.T
	disk    *crashfs.Disk
	about   string            // what is tried, for messages
	bodies  map[string]string // all that were ever put
	promise map[string]bool   // true: its Put has returned nil, and it was not deleted; false: it was deleted long after its Put

	mu  sync.Mutex
	log strings.Builder // guarded by mu
}

// Write takes what the store logs.
func (s *site) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(p)
}

func (s *site) logged() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.String()
}

func newSite(t *testing.T, about string) *site {
	return &site{t: t, disk: crashfs.New(), about: about, bodies: make(map[string]string), promise: make(map[string]bool)}
}

func (s *site) open() (*Store, error) { return s.openAs(s.disk.Open()) }

// openAs opens the store as one of several processes.
func (s *site) openAs(process *crashfs.FS) (*Store, error) {
	return openIn(process, "disk", "boot", Options{Logger: slog.New(slog.NewTextHandler(s, nil))})
}

func (s *site) mustOpen() *Store {
	s.t.Helper()
	bodies, err := s.open()
	if err != nil {
		s.t.Fatalf("%s: %v\n%s", s.about, err, s.logged())
	}
	return bodies
}

func (s *site) put(in *Store, key, body string) error {
	_, lazy := store.CodedBody(key)
	if s.bodies[key] == "" {
		s.bodies[key] = body
	}
	err := in.Put(context.Background(), key, []byte(body))
	if err == nil && !lazy {
		s.promise[key] = true
	}
	return err
}

// delete deletes a body. It stays deleted if it was put long before, and there is no power failure.
func (s *site) delete(in *Store, key string, longBefore bool) {
	delete(s.promise, key)
	if in.Delete(context.Background(), key) == nil && longBefore {
		s.promise[key] = false
	}
}

func sitePage(page int) string { return fmt.Sprintf("bodies/%064x/g%d", page, page) }

// long returns a body of some bytes, no two of whose sectors are equal.
func long(n int) string { return numbers()[8*n%4096:][:n] }

var numbers = sync.OnceValue(func() string {
	var b strings.Builder
	for i := 0; b.Len() < maxJournaled+8192; i++ {
		fmt.Fprintf(&b, "%07d,", i)
	}
	return b.String()
})

// work uses a store, through two checkpoints, and closes it. It ignores errors: the disk may have crashed.
func (s *site) work(in *Store) {
	_ = s.put(in, sitePage(1), "first")
	_ = s.put(in, sitePage(2), long(3000))
	_ = s.put(in, "other/key", long(700))
	_ = s.put(in, sitePage(3), long(maxJournaled+1))
	_ = s.put(in, store.CodingsKey(sitePage(3)), long(600))
	time.Sleep(maxAge + time.Minute)
	s.delete(in, sitePage(1), true)
	_ = s.put(in, sitePage(4), long(2000))
	_ = s.put(in, sitePage(4), long(2000))
	if err := in.Put(context.Background(), sitePage(2), []byte("other")); err == nil {
		s.t.Errorf("%s: a body was replaced", s.about)
	}
	_ = s.put(in, sitePage(5), "fifth")
	s.delete(in, sitePage(5), false)
	time.Sleep(maxAge + time.Minute)
	_ = s.put(in, sitePage(6), long(5000))
	_ = s.put(in, sitePage(7), "")
}

// check verifies that all is there that must be, and that nothing has other content.
func (s *site) check(in *Store, killed bool) {
	s.t.Helper()
	for key, promise := range s.promise {
		body, err := in.ReadLocal(context.Background(), key, 1<<20)
		if promise && (err != nil || string(body) != s.bodies[key]) {
			s.t.Errorf("%s: %s was acknowledged, and has %d bytes of %d: %v\n%s", s.about, key, len(body), len(s.bodies[key]), err, s.logged())
		}
		if !promise && killed && !errors.Is(err, store.ErrNotFound) {
			s.t.Errorf("%s: %s was deleted, and has %d bytes: %v", s.about, key, len(body), err)
		}
	}
	for info, err := range in.List(context.Background(), "") {
		if err != nil {
			s.t.Errorf("%s: %v", s.about, err)
			return
		}
		if _, lazy := store.CodedBody(info.Key); lazy {
			continue // it may be damaged
		}
		if body, err := in.ReadLocal(context.Background(), info.Key, 1<<20); err != nil || string(body) != s.bodies[info.Key] {
			s.t.Errorf("%s: %s has %d bytes, which differ from the bytes of its Put: %v\n%s", s.about, info.Key, len(body), err, s.logged())
		}
	}
}

// restart opens the store after a crash, uses it, closes it, and has a power failure: what was restored must be on
// disk when its journal is not.
func (s *site) restart(killed bool) {
	s.t.Helper()
	in := s.mustOpen()
	s.check(in, killed)
	if err := s.put(in, sitePage(9999), long(900)); err != nil {
		s.t.Errorf("%s: after the restart: %v", s.about, err)
	}
	if err := in.Close(); err != nil {
		s.t.Errorf("%s: %v", s.about, err)
	}
	s.disk.PowerFailure(crashfs.LoseAll, 0)
	in = s.mustOpen()
	s.check(in, false)
	if err := in.Close(); err != nil {
		s.t.Errorf("%s: %v", s.about, err)
	}
	if strings.Contains(s.logged(), "kept a damaged journal") && !strings.Contains(s.about, "LoseSome") {
		s.t.Errorf("%s: a journal is damaged:\n%s", s.about, s.logged())
	}
}

// A crashKind is how the processes end, and what is lost.
type crashKind struct {
	name string
	end  func(*crashfs.Disk)
}

func crashKinds() []crashKind {
	kinds := []crashKind{
		{"Kill", (*crashfs.Disk).Kill},
		{"LoseAll", func(d *crashfs.Disk) { d.PowerFailure(crashfs.LoseAll, 0) }},
		{"LoseNone", func(d *crashfs.Disk) { d.PowerFailure(crashfs.LoseNone, 0) }},
	}
	for seed := range uint64(3) {
		kinds = append(kinds, crashKind{fmt.Sprintf("LoseSome %d", seed), func(d *crashfs.Disk) { d.PowerFailure(crashfs.LoseSome, seed) }})
	}
	return kinds
}

// callsOf returns how many calls a run makes that change something.
func callsOf(t *testing.T, unnamed bool) (calls, syncs int) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "without a crash")
		s.disk.NoUnnamed = !unnamed
		in := s.mustOpen()
		s.work(in)
		s.check(in, true)
		if err := in.Close(); err != nil {
			t.Error(err)
		}
		if missing := len(s.promise); missing != 7 || strings.Contains(s.logged(), "level=ERROR") {
			t.Errorf("%d promises\n%s", missing, s.logged())
		}
		calls, syncs = s.disk.Calls(), s.disk.Syncs()
	})
	return calls, syncs
}

// TestEveryCrashPoint crashes a store at every call that changes something, by a kill and by power failures that lose
// all, nothing and a part of what was not synced. Every acknowledged body is there afterwards, with its content; no
// body has any other; what was deleted stays so, where Delete promises it.
func TestEveryCrashPoint(t *testing.T) {
	t.Parallel()
	for _, unnamed := range []bool{true, false} {
		calls, _ := callsOf(t, unnamed)
		if calls < 80 {
			t.Fatalf("%d calls", calls)
		}
		for at := 1; at <= calls; at++ {
			for _, kind := range crashKinds() {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, fmt.Sprintf("%s at call %d of %d, with unnamed files %v", kind.name, at, calls, unnamed))
					s.disk.NoUnnamed = !unnamed
					s.disk.CrashAt(at)
					if in, err := s.open(); err == nil {
						s.work(in)
						_ = in.Close()
					}
					kind.end(s.disk)
					s.restart(kind.name == "Kill")
				})
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestEveryCrashPointOfRecovery crashes a store while it recovers from a crash.
func TestEveryCrashPointOfRecovery(t *testing.T) {
	t.Parallel()
	for _, first := range crashKinds() {
		more := true
		for at := 1; more; at++ {
			for _, second := range crashKinds() {
				synctest.Test(t, func(t *testing.T) {
					s := newSite(t, fmt.Sprintf("%s, then %s at call %d of the recovery", first.name, second.name, at))
					in := s.mustOpen()
					s.work(in)
					s.disk.CrashAt(1)
					_ = in.Close()
					first.end(s.disk)
					s.disk.CrashAt(at)
					before := s.disk.Calls()
					in, err := s.open()
					if more = err != nil || s.disk.Calls()-before >= at; err == nil {
						_ = in.Close()
					}
					second.end(s.disk)
					s.restart(first.name == "Kill" && second.name == "Kill")
				})
			}
			if t.Failed() {
				return
			}
		}
	}
}

// TestEveryCrashPointOfAdoption kills one of two processes, and crashes the other one while it adopts the journal.
// Without that crash, what the killed process has deleted stays so.
func TestEveryCrashPointOfAdoption(t *testing.T) {
	t.Parallel()
	more := true
	for at := 0; more && !t.Failed(); at++ {
		for _, kind := range crashKinds() {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, fmt.Sprintf("%s at call %d of the adoption", kind.name, at))
				first := s.mustOpen()
				process := s.disk.Open()
				second, err := s.openAs(process)
				if err != nil {
					t.Fatal(err)
				}
				_ = s.put(first, sitePage(0), "of the first process")
				s.work(second)
				s.delete(second, sitePage(7), true) // it stays deleted: the machine is not restarted
				process.Kill()
				_ = second.Close()
				time.Sleep(time.Until(time.Now().Truncate(maxAge).Add(maxAge)) - time.Second) // before the next adoption
				before := s.disk.Calls()
				s.disk.CrashAt(at)
				time.Sleep(maxAge / 2)
				if at == 0 {
					s.check(first, true)
					if calls := s.disk.Calls() - before; calls < 8 || !strings.Contains(s.logged(), "adopted the journal") {
						t.Errorf("the journal was not adopted, with %d calls:\n%s", calls, s.logged())
					}
				}
				more = at == 0 || s.disk.Calls()-before >= at
				_ = first.Close()
				delete(s.promise, sitePage(7))
				kind.end(s.disk)
				s.restart(kind.name == "Kill")
			})
		}
	}
}

// TestEveryCrashPointOfABatch crashes while the records of several Puts are written and synced together. Acknowledged
// bodies are there afterwards; of the others, each is there as a whole or not at all.
func TestEveryCrashPointOfABatch(t *testing.T) {
	t.Parallel()
	more := true
	for at := 1; more && !t.Failed(); at++ {
		for _, kind := range crashKinds() {
			s := newSite(t, fmt.Sprintf("%s at call %d of two batches", kind.name, at))
			reached, release := make(chan struct{}), make(chan struct{})
			var opened atomic.Bool
			s.disk.Before = func(op, _ string) {
				if op == "write" && opened.CompareAndSwap(true, false) {
					close(reached)
					<-release // the first batch is written while the second one takes records
				}
			}
			in := s.mustOpen()
			opened.Store(true)
			acknowledged := make(chan string, 6)
			var puts sync.WaitGroup
			start := func(page int) {
				key, body := sitePage(page), long(300*page+20)
				s.bodies[key] = body
				puts.Go(func() {
					if in.Put(context.Background(), key, []byte(body)) == nil {
						acknowledged <- key
					}
				})
			}
			start(0)
			<-reached
			for page := 1; page < 6; page++ {
				start(page)
			}
			for joined := 0; joined < 5; runtime.Gosched() {
				in.journal.mu.Lock()
				if in.journal.batch != nil {
					joined = len(in.journal.batch.files)
				}
				in.journal.mu.Unlock()
			}
			before := s.disk.Calls()
			s.disk.CrashAt(at)
			close(release)
			puts.Wait()
			more = s.disk.Calls()-before >= at
			_ = in.Close()
			close(acknowledged)
			for key := range acknowledged {
				s.promise[key] = true
			}
			kind.end(s.disk)
			s.restart(kind.name == "Kill")
		}
	}
}

// TestEverySyncFails has each sync of a run fail once. The system then takes what it could not write for written.
// What was acknowledged nevertheless survives a power failure, with and without a Close.
func TestEverySyncFails(t *testing.T) {
	t.Parallel()
	_, syncs := callsOf(t, true)
	for at := 1; at <= syncs; at++ {
		for _, closes := range []bool{true, false} {
			synctest.Test(t, func(t *testing.T) {
				s := newSite(t, fmt.Sprintf("sync %d of %d fails, with Close %v", at, syncs, closes))
				s.disk.FailSync(at)
				if in, err := s.open(); err == nil {
					s.work(in)
					if closes {
						_ = in.Close()
					} else {
						s.disk.CrashAt(1)
						_ = in.Close()
					}
				}
				s.disk.PowerFailure(crashfs.LoseAll, 0)
				s.restart(false)
			})
		}
		if t.Failed() {
			return
		}
	}
}

// The system fails to write bodies by itself, reports that to another program, and forgets it. The checkpoint learns
// of it, and writes them again.
func TestCheckpointLearnsOfFailedWriteback(t *testing.T) {
	for _, n := range []int{3, maxSyncedSingly + 1} {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, fmt.Sprintf("%d bodies", n))
			in := s.mustOpen()
			for page := range n {
				if err := s.put(in, sitePage(page), long(1000+page)); err != nil {
					t.Fatal(err)
				}
			}
			s.disk.FailWriteback()
			if s.disk.SyncElsewhere() == nil {
				t.Fatal("the failure was not reported")
			}
			s.disk.Evict()
			time.Sleep(maxAge + 5*time.Minute)
			if !strings.Contains(s.logged(), "after retries") {
				t.Errorf("%s: the checkpoint was not repeated:\n%s", s.about, s.logged())
			}
			s.failAfterCheckpoint(in, sitePage(n))
		})
	}
}

// failAfterCheckpoint puts a body after a checkpoint, so that the removal of its journal is on disk, and then the power
// fails.
func (s *site) failAfterCheckpoint(in *Store, key string) {
	s.t.Helper()
	if err := s.put(in, key, "next"); err != nil {
		s.t.Fatal(err)
	}
	s.disk.CrashAt(1)
	_ = in.Close()
	s.disk.PowerFailure(crashfs.LoseAll, 0)
	s.restart(false)
}

// A checkpoint begins while a Put has written its journal and not yet its file. The body survives.
func TestCheckpointWaitsForPlacing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a slow Put")
		release, slow := make(chan struct{}), fileName(sitePage(1))
		s.disk.Before = func(op, name string) {
			if op == "create" && name == slow {
				<-release
			}
		}
		in := s.mustOpen()
		done := make(chan error)
		go func() { done <- s.put(in, sitePage(1), "slow") }()
		time.Sleep(maxAge + time.Minute)
		close(release)
		if err := <-done; err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		s.failAfterCheckpoint(in, sitePage(2))
	})
}

// A journal takes no further records once a sync of it has failed, not even while an earlier checkpoint fails.
func TestBrokenJournalIsNotReused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSite(t, "a broken journal")
		s.disk.FailSyncs = func(name string) bool { return name == fileName(sitePage(1)) }
		in := s.mustOpen()
		_ = s.put(in, sitePage(1), "first")
		_ = s.put(in, sitePage(2), "second")
		time.Sleep(maxAge + time.Minute) // the checkpoint of the first journal fails
		_ = s.put(in, sitePage(3), "third")
		s.disk.FailSync(1) // of the second journal
		for page := 4; page < 8; page++ {
			if err := s.put(in, sitePage(page), long(3000+page)); err != nil {
				t.Error(err)
			}
		}
		if in.journal.checkpoint == nil || in.journal.segment == nil || !in.journal.segment.broken {
			t.Error("no journal is broken, or no checkpoint fails")
		}
		s.disk.CrashAt(1)
		_ = in.Close()
		s.disk.PowerFailure(crashfs.LoseAll, 0)
		s.disk.FailSyncs = nil
		s.restart(false)
	})
}

// Restored bodies are of the time of their journal: [gc.Evict] evicts the oldest first.
func TestRestoredBodiesKeepTheirTime(t *testing.T) {
	for _, kind := range crashKinds()[:2] {
		synctest.Test(t, func(t *testing.T) {
			s := newSite(t, kind.name)
			in := s.mustOpen()
			began := time.Now()
			_ = s.put(in, sitePage(1), "first")
			time.Sleep(time.Minute)
			_ = s.put(in, sitePage(2), "second")
			ended := time.Now()
			s.disk.CrashAt(1)
			_ = in.Close()
			kind.end(s.disk)
			time.Sleep(time.Hour)
			in = s.mustOpen()
			for page := 1; page <= 2; page++ {
				info, err := in.Stat(t.Context(), sitePage(page))
				if err != nil || info.ModifiedAt.Before(began) || info.ModifiedAt.After(ended) {
					t.Errorf("%s: page %d is of %v, not between %v and %v: %v", kind.name, page, info.ModifiedAt, began, ended, err)
				}
			}
			if err := in.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}
