package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// Only one of all processes runs the import.
func ExampleLeaseManager() {
	db := localdynamo.OpenMemory(localdynamo.Options{})
	defer db.Close()
	ctx := context.Background()
	if err := dynamostore.CreateTable(ctx, db, "jobs"); err != nil {
		log.Fatal(err)
	}
	leases, err := dynamostore.NewLeaseManager(db, "jobs", dynamostore.Config{Owner: "node-a"})
	if err != nil {
		log.Fatal(err)
	}
	err = leases.Run(ctx, "nightly import", time.Minute, func(ctx context.Context) error {
		fmt.Println("importing")
		again := leases.Run(ctx, "nightly import", time.Minute, func(context.Context) error { return nil })
		if held, ok := errors.AsType[*store.HeldError](again); ok {
			fmt.Println("held by", held.Lock.Owner)
		}
		return nil
	})
	fmt.Println(err)
	// Output:
	// importing
	// held by node-a
	// <nil>
}

func newLeases(t *testing.T, db engine, table string, config dynamostore.Config) *dynamostore.LeaseManager {
	t.Helper()
	config.RetryDelay = time.Millisecond
	leases, err := dynamostore.NewLeaseManager(db, table, config)
	if err != nil {
		t.Fatal(err)
	}
	return leases
}

// TestLeaseManager: the leases of jobs behave like the leases of pages, and are not pages.
func TestLeaseManager(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		a := newLeases(t, db, f.raw.name, dynamostore.Config{Owner: "node-a", Now: f.clock.Now})
		b := newLeases(t, db, f.raw.name, dynamostore.Config{Owner: "node-b", Now: f.clock.Now})
		l, err := a.Acquire(t.Context(), pk, 30*time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Acquire(t.Context(), pk, 30*time.Second); !isHeld(err) {
			t.Errorf("Acquire by another: %v, want a HeldError", err)
		}
		f.acquire() // of the page of that name
		f.clock.Advance(20 * time.Second)
		if err := a.Refresh(t.Context(), l); err != nil {
			t.Errorf("Refresh: %v", err)
		}
		if err := b.Refresh(t.Context(), l); !errors.Is(err, store.ErrForeignLease) {
			t.Errorf("Refresh by another: %v, want ErrForeignLease", err)
		}
		var listed []string
		for page, err := range f.store.List(t.Context()) {
			listed = append(listed, page.PK, fmt.Sprint(err))
		}
		for page, err := range f.store.ReferencedBodies(t.Context()) {
			listed = append(listed, page.PK, fmt.Sprint(err))
		}
		if d := diff([]string{pk, "<nil>", pk, "<nil>"}, listed); d != "" {
			t.Errorf("the pages are (-want +got):\n%s", d)
		}
		if err := a.Release(t.Context(), l); err != nil {
			t.Errorf("Release: %v", err)
		}
		if _, err := b.Acquire(t.Context(), pk, time.Second); err != nil {
			t.Errorf("Acquire after the release: %v", err)
		}
		for _, key := range []string{"", "\xff", strings.Repeat("x", 1025)} {
			if _, err := a.Acquire(t.Context(), key, time.Second); !errors.Is(err, store.ErrInvalidKey) {
				t.Errorf("Acquire of %.10q: %v, want ErrInvalidKey", key, err)
			}
		}
		if _, err := a.Acquire(t.Context(), strings.Repeat("x", 1024), time.Second); err != nil {
			t.Errorf("Acquire of a long key: %v", err)
		}
	})
}

// inBubble runs a test on an in-memory table in a synctest bubble.
func inBubble(t *testing.T, test func(t *testing.T, db *localdynamo.DB)) {
	synctest.Test(t, func(t *testing.T) {
		db := localdynamo.OpenMemory(localdynamo.Options{SweepInterval: -1})
		defer func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
		}()
		if err := dynamostore.CreateTable(t.Context(), db, "jobs"); err != nil {
			t.Fatal(err)
		}
		test(t, db)
	})
}

// TestRunKeepsLease: no other process runs a job while it runs, however long it
// takes. Afterwards any process can run it at once.
func TestRunKeepsLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *localdynamo.DB) {
		leases := newLeases(t, db, "jobs", dynamostore.Config{})
		var running atomic.Bool
		job := func(ctx context.Context) error {
			if !running.CompareAndSwap(false, true) {
				t.Error("the job runs twice")
			}
			defer running.Store(false)
			select {
			case <-ctx.Done():
				t.Errorf("the job was cancelled: %v", context.Cause(ctx))
			case <-time.After(10 * time.Minute):
			}
			return errReset
		}
		done := make(chan error)
		go func() { done <- leases.Run(t.Context(), "import", 30*time.Second, job) }()
		for range 9 {
			time.Sleep(time.Minute)
			if err := leases.Run(t.Context(), "import", 30*time.Second, job); !isHeld(err) {
				t.Errorf("Run by another: %v, want a HeldError", err)
			}
		}
		if err := <-done; !errors.Is(err, errReset) || errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Run: %v, want the job's error alone", err)
		}
		if err := leases.Run(t.Context(), "import", time.Second, func(context.Context) error { return nil }); err != nil {
			t.Errorf("Run afterwards: %v", err)
		}
	})
}

// TestRunLosesLease: the job and its caller learn of a lost lease, independently of
// the job's result.
func TestRunLosesLease(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *localdynamo.DB) {
		leases := newLeases(t, db, "jobs", dynamostore.Config{})
		for _, says := range []error{nil, errReset} {
			err := leases.Run(t.Context(), "import", 30*time.Second, func(ctx context.Context) error {
				rawTable{t: t, db: db, name: "jobs"}.set("JOB#import", "LOCK", nil)
				<-ctx.Done()
				if !errors.Is(context.Cause(ctx), store.ErrLeaseLost) {
					t.Errorf("the job's context ended for %v, want ErrLeaseLost", context.Cause(ctx))
				}
				return says
			})
			if !errors.Is(err, store.ErrLeaseLost) || says != nil && !errors.Is(err, says) {
				t.Errorf("Run: %v, want ErrLeaseLost, and %v", err, says)
			}
		}
	})
}

// TestRunEnds: a lease is released if its job panics or its caller leaves.
func TestRunEnds(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, db *localdynamo.DB) {
		leases := newLeases(t, db, "jobs", dynamostore.Config{})
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic of a job was swallowed")
				}
			}()
			_ = leases.Run(t.Context(), "import", time.Hour, func(context.Context) error { panic("job") })
		}()
		ctx, leave := context.WithCancel(t.Context())
		err := leases.Run(ctx, "import", time.Hour, func(ctx context.Context) error {
			leave()
			<-ctx.Done()
			return ctx.Err()
		})
		if !errors.Is(err, context.Canceled) || errors.Is(err, store.ErrLeaseLost) {
			t.Errorf("Run: %v, want Canceled alone", err)
		}
		if err := leases.Run(t.Context(), "import", time.Hour, func(context.Context) error { return nil }); err != nil {
			t.Errorf("Run afterwards: %v", err)
		}
		if _, err := dynamostore.NewLeaseManager(nil, "jobs", dynamostore.Config{}); err == nil {
			t.Error("NewLeaseManager without a client: no error")
		}
	})
}
