package trigger_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
)

func TestBurstBecomesOnePurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{})
		var results []<-chan result
		for i := range 10 {
			results = append(results, f.submit(t, message(fmt.Sprint("m", i), tag("all"), tag(fmt.Sprint("product-", i%3)))))
			time.Sleep(100 * time.Millisecond) // virtual: within the window of 500 ms
		}
		for i, r := range results {
			got := <-r
			if got.err != nil || got.Receipt.Seq != 1 || got.Duplicate {
				t.Errorf("message %d: got %+v, want the receipt 1", i, got)
			}
		}
		purges := f.purger.made()
		if len(purges) != 1 || len(purges[0].Targets) != 4 || purges[0].Hard {
			t.Errorf("got the purges %v, want one soft purge of 4 targets", purges)
		}
	})
}

func TestBatchWaitsForWindowAndAtMostMaxWait(t *testing.T) {
	for _, test := range []struct {
		name  string
		every time.Duration
		count int
		want  time.Duration // of the first message
	}{
		{"one message", 0, 1, 500 * time.Millisecond},
		{"steady messages", 400 * time.Millisecond, 8, 2 * time.Second},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, trigger.Config{})
				first := f.submit(t, message("", tag("a")))
				for range test.count - 1 {
					time.Sleep(test.every)
					f.submit(t, message("", tag("a")))
				}
				if got := <-first; got.err != nil || got.after != test.want {
					t.Errorf("got %v after %v, want success after %v", got.err, got.after, test.want)
				}
			})
		})
	}
}

// Content that changes after a purge has begun needs another purge.
func TestMessageDuringCommitGetsAnotherPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{Window: time.Second})
		var second <-chan result
		f.purger.failWith(func(isr.Purge) error {
			if second == nil {
				second = f.submit(t, message("2", tag("a")))
				time.Sleep(10 * time.Millisecond)
			}
			return nil
		})
		if got := <-f.submit(t, message("1", tag("a"))); got.Receipt.Seq != 1 {
			t.Errorf("got %+v, want the receipt 1", got)
		}
		if got := <-second; got.err != nil || got.Receipt.Seq != 2 || got.Duplicate {
			t.Errorf("got %+v, want the receipt 2", got)
		}
	})
}

func TestFullBatchIsPurgedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{Window: time.Hour, MaxWait: time.Hour})
		var many []store.PurgeTarget
		for i := range store.MaxPurgeTargets - 1 {
			many = append(many, tag(fmt.Sprint("t", i)))
		}
		first := f.submit(t, message("1", many...))
		synctest.Wait()
		second := f.submit(t, message("2", tag("x"), tag("y"))) // does not fit
		if got := <-first; got.err != nil || got.Receipt.Seq != 1 {
			t.Errorf("got %+v, want the receipt 1", got)
		}
		third := f.submit(t, message("3", many[:store.MaxPurgeTargets-2]...)) // fits exactly
		for _, r := range []<-chan result{second, third} {
			if got := <-r; got.err != nil || got.Receipt.Seq != 2 {
				t.Errorf("got %+v, want the receipt 2", got)
			}
		}
	})
}

func TestSoftAndHardAreSeparatePurges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{})
		hard := message("h", tag("a"))
		hard.Hard = true
		a, b := f.submit(t, hard), f.submit(t, message("s", tag("b")))
		if r := <-a; r.err != nil {
			t.Error(r.err)
		}
		if r := <-b; r.err != nil {
			t.Error(r.err)
		}
		byMode := map[bool]string{}
		for _, p := range f.purger.made() {
			byMode[p.Hard] += fmt.Sprint(p.Targets)
		}
		if byMode[true] != "[tag a]" || byMode[false] != "[tag b]" {
			t.Errorf("got %v, want a hard purge of a and a soft one of b", byMode)
		}
	})
}

func TestFailedPurgeFailsItsMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{})
		down := errors.New("the store does not answer")
		f.purger.failWith(func(isr.Purge) error { return down })
		a, b := f.submit(t, message("1", tag("a"))), f.submit(t, message("2", tag("b")))
		for _, r := range []<-chan result{a, b} {
			if got := <-r; !errors.Is(got.err, down) {
				t.Errorf("got %v, want %v", got.err, down)
			}
		}
		f.purger.failWith(nil)
		if got := <-f.submit(t, message("1", tag("a"))); got.err != nil || got.Duplicate || got.Receipt.Seq != 1 {
			t.Errorf("next delivery: got %+v, want that it is purged", got)
		}
	})
}

// A message that cannot be executed must not fail those that share its batch.
func TestPinnedPageFailsOnlyItsMessage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{})
		f.purger.failWith(func(p isr.Purge) error {
			for _, target := range p.Targets {
				if target.Value == "pinned" {
					return store.ErrPinned
				}
			}
			return nil
		})
		pinned, other := f.submit(t, message("1", tag("pinned"))), f.submit(t, message("2", tag("other")))
		if got := <-pinned; !errors.Is(got.err, store.ErrPinned) || !trigger.Permanent(got.err) {
			t.Errorf("got %v, want ErrPinned", got.err)
		}
		if got := <-other; got.err != nil || got.Receipt.Seq != 1 {
			t.Errorf("got %+v, want success", got)
		}
	})
}

func TestRepeatedMessageIsExecutedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{Keep: time.Hour})
		m := message("delivery-1", tag("a"))
		first, twin := f.submit(t, m), f.submit(t, m)
		a, b := <-first, <-twin
		if a.err != nil || b.err != nil || a.Duplicate == b.Duplicate || a.Receipt.Seq != 1 || b.Receipt.Seq != 1 {
			t.Errorf("concurrent deliveries: got %+v and %+v, want receipt 1 and one duplicate", a, b)
		}
		if got := <-f.submit(t, m); got.err != nil || !got.Duplicate {
			t.Errorf("later delivery: got %+v, want a duplicate", got)
		}
		// Another process on the same table.
		other := trigger.NewDebouncer(f.purger, f.table, trigger.Config{})
		defer func() { _ = other.Close(t.Context()) }()
		if got, err := other.Submit(t.Context(), m); err != nil || !got.Duplicate {
			t.Errorf("in another process: got %+v, %v, want a duplicate", got, err)
		}
		if n := len(f.purger.made()); n != 1 {
			t.Errorf("got %d purges, want 1", n)
		}
		time.Sleep(2 * time.Hour)
		if got := <-f.submit(t, m); got.err != nil || got.Duplicate {
			t.Errorf("after Keep: got %+v, want a purge", got)
		}
	})
}

func TestWhatMakesMessagesDifferent(t *testing.T) {
	m := message("1", tag("a"))
	source, id, targets, mode, anonymous := m, m, m, m, m
	source.Source, id.ID, targets.Targets, mode.Hard, anonymous.ID = "other", "2", []store.PurgeTarget{tag("b")}, true, ""
	for name, different := range map[string]trigger.Message{"source": source, "id": id, "targets": targets, "mode": mode, "no id": anonymous} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, trigger.Config{})
				<-f.submit(t, m)
				if name == "no id" {
					<-f.submit(t, different)
				}
				if got := <-f.submit(t, different); got.err != nil || got.Duplicate {
					t.Errorf("got %+v, want that it is purged", got)
				}
			})
		})
	}
}

func TestMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{MaxWaiting: 3})
		var waiting []<-chan result
		for i := range 3 {
			waiting = append(waiting, f.submit(t, message("", tag(fmt.Sprint(i)))))
		}
		synctest.Wait()
		if got := <-f.submit(t, message("", tag("x"))); !errors.Is(got.err, trigger.ErrBusy) || trigger.Permanent(got.err) {
			t.Errorf("got %v, want ErrBusy", got.err)
		}
		for _, r := range waiting {
			if got := <-r; got.err != nil {
				t.Error(got.err)
			}
		}
		if got := <-f.submit(t, message("", tag("x"))); got.err != nil {
			t.Errorf("after the batch: got %v, want success", got.err)
		}
	})
}

func TestTargetsOfWaitingMessagesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{MaxWaiting: 1 << 20})
		busy := make(chan struct{})
		f.purger.failWith(func(isr.Purge) error { <-busy; return nil }) // the store hangs
		refused := make(chan error, 1000)
		for range 1000 { // 98 targets of 1 KiB each
			var targets []store.PurgeTarget
			for i := range store.MaxPurgeTargets {
				targets = append(targets, tag(fmt.Sprintf("%01000d", i)))
			}
			go func() {
				_, err := f.Submit(t.Context(), message("", targets...))
				refused <- err
			}()
		}
		synctest.Wait()
		got := 0
		for len(refused) > 0 {
			if err := <-refused; !errors.Is(err, trigger.ErrBusy) {
				t.Fatalf("got %v, want ErrBusy", err)
			}
			got++
		}
		if accepted := 1000 - got; accepted < 50 || accepted > 180 {
			t.Errorf("%d messages of 98 kB wait, want about 16 MiB", accepted)
		}
		close(busy)
	})
}

func TestInvalidMessagesAreRefused(t *testing.T) {
	f := newFixture(t, trigger.Config{})
	many := make([]store.PurgeTarget, 99)
	for i := range many {
		many[i] = tag(fmt.Sprint(i))
	}
	for name, test := range map[string]struct {
		m    trigger.Message
		want string
	}{
		"no targets":  {message("1"), "the message has no targets"},
		"99 targets":  {message("1", many...), fmt.Sprintf("the message has 99 targets, where a page counts twice; at most %d", store.MaxPurgeTargets)},
		"empty tag":   {message("1", tag("")), "a tag must not be empty"},
		"unknown":     {message("1", store.PurgeTarget{Kind: "moon"}), `unknown kind of purge target "moon"`},
		"tenant name": {message("1", store.PurgeTarget{Kind: store.PurgeTag, Value: "a", Tenant: "a b"}), "tenant"},
	} {
		_, err := f.Submit(t.Context(), test.m)
		if !trigger.Permanent(err) || !strings.Contains(fmt.Sprint(err), test.want) {
			t.Errorf("%s: got %v, want a permanent error with %q", name, err, test.want)
		}
	}
}

// A page counts twice, and the texts of a purge are bounded: a batch that a cache or a store
// would refuse is two batches.
func TestBatchesAreAcceptedByStore(t *testing.T) {
	for name, target := range map[string]func(i int) store.PurgeTarget{
		"pages": func(i int) store.PurgeTarget {
			return store.PurgeTarget{Kind: store.PurgeKey, Value: fmt.Sprintf("example.com/%d", i)}
		},
		"long prefixes": func(i int) store.PurgeTarget {
			return store.PurgeTarget{Kind: store.PurgePrefix, Value: fmt.Sprintf("example.com/%04000d", i)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := newFixture(t, trigger.Config{})
				var results []<-chan result
				for i := range 90 {
					results = append(results, f.submit(t, message("", target(i))))
				}
				for _, r := range results {
					if got := <-r; got.err != nil {
						t.Fatal(got.err)
					}
				}
				purges := f.purger.made()
				if len(purges) != 2 {
					t.Errorf("got %d purges, want 2", len(purges))
				}
				for _, p := range purges {
					if err := (store.Purge{Targets: p.Targets}).Validate(); err != nil || name == "pages" && len(p.Targets) > store.MaxPurgeTargets/2 {
						t.Errorf("a purge of %d targets: %v", len(p.Targets), err)
					}
				}
			})
		})
	}
}

func TestCloseCommitsWhatWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{Window: time.Hour, MaxWait: time.Hour})
		waiting := f.submit(t, message("1", tag("a")))
		synctest.Wait()
		if err := f.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got := <-waiting; got.err != nil || got.Receipt.Seq != 1 {
			t.Errorf("got %+v, want the receipt 1", got)
		}
		if _, err := f.Submit(t.Context(), message("2", tag("a"))); !errors.Is(err, trigger.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}

func TestCloseIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{})
		busy := make(chan struct{})
		f.purger.failWith(func(isr.Purge) error { <-busy; return nil })
		f.submit(t, message("1", tag("a")))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := f.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time is over", err)
		}
		close(busy)
	})
}

// The purge of a caller that went away is committed all the same.
func TestCallerMayLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, trigger.Config{})
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := f.Submit(ctx, message("1", tag("a"))); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want that the time is over", err)
		}
		time.Sleep(time.Second)
		if n := len(f.purger.made()); n != 1 {
			t.Errorf("got %d purges, want 1", n)
		}
	})
}
