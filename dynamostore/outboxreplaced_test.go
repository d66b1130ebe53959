package dynamostore_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// replaceJob lets Enqueue replace the pending job of the newest change, "news": how it does
// so is one of its two ways. It returns the job that was read before, and the targets of the
// job that replaced it.
func (f *fixture) replaceJob(how string) (before store.Job, want []store.JobTarget) {
	f.t.Helper()
	tag := func(value string) store.JobTarget {
		return store.JobTarget{PurgeTarget: store.PurgeTarget{Kind: store.PurgeTag, Value: value}, Hard: true}
	}
	switch how {
	case "everything":
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("50")})
		f.raw.put("OUTBOX", "CURSOR#cdn", attrs{"seq": num("5")}) // the rows up to 50 have expired
		f.purgeFor("news")
		want = []store.JobTarget{{PurgeTarget: store.PurgeTarget{Kind: store.PurgeSite}, Hard: true}}
	case "more targets":
		// The transaction had another change, whose writer knew no destination.
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("50")})
		f.raw.put("OUTBOX", "CURSOR#cdn", attrs{"seq": num("50")})
		f.purgeFor("news")
		mark := func(value string) attrs {
			return attrs{"kind": str("tag"), "value": str(value), "at": num("1"), "hard_seq": num("51")}
		}
		f.raw.put("PURGE", fmt.Sprintf("LOG#%020d", 51), attrs{"targets": list(obj(mark("news")), obj(mark("sports")))})
		want = []store.JobTarget{tag("news"), tag("sports")}
	}
	jobs, err := f.store.PendingJobs(f.t.Context(), "cdn", 10)
	if err != nil || len(jobs) != 1 || jobs[0].Seq != 51 || !slices.Equal(jobs[0].Targets, []store.JobTarget{tag("news")}) {
		f.t.Fatalf("PendingJobs: %+v, %v; want the job of news", jobs, err)
	}
	return jobs[0], want
}

// TestReplacedJob: a process that has read a job before Enqueue replaced it, and ends,
// delays or fails it afterwards, leaves the new one as it is: its targets are not delivered.
func TestReplacedJob(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, how := range []string{"everything", "more targets"} {
			for _, written := range []string{"with a token", "by an older version", "with a damaged token"} {
				f := newFixture(t, db)
				_, _ = f.replaceJob(how)
				row := f.raw.get("OUTBOX", fmt.Sprintf("JOB#cdn#%020d", 51))
				switch written {
				case "by an older version":
					delete(row, "id")
				case "with a damaged token":
					row["id"] = num("7")
				}
				for name, end := range map[string]func(*dynamostore.Store, store.Job) error{
					"FinishJobs": func(s *dynamostore.Store, j store.Job) error { return s.FinishJobs(t.Context(), []store.Job{j}) },
					"DelayJob":   func(s *dynamostore.Store, j store.Job) error { return s.DelayJob(t.Context(), j) },
					"FailJob":    func(s *dynamostore.Store, j store.Job) error { return s.FailJob(t.Context(), j) },
				} {
					t.Run(how+"/"+written+"/"+name, func(t *testing.T) {
						f := newFixture(t, db)
						_, want := f.replaceJob(how)
						f.raw.put("OUTBOX", fmt.Sprintf("JOB#cdn#%020d", 51), row)
						before, err := f.store.PendingJobs(t.Context(), "cdn", 10)
						if err != nil || len(before) != 1 {
							t.Fatalf("%+v, %v", before, err)
						}
						if err := f.store.Enqueue(t.Context(), "cdn"); err != nil {
							t.Fatal(err)
						}
						old := before[0]
						old.Attempts, old.Error, old.NextAt, old.FailedAt = 3, "it is down", f.clock.Now().Add(time.Hour), f.clock.Now()
						if err := end(f.store, old); err != nil {
							t.Fatal(err)
						}
						left := f.jobs()
						if len(left) != 1 || left[0].Failed || left[0].Attempts != 0 || !slices.Equal(left[0].Targets, want) {
							t.Fatalf("the outbox has %+v, want the pending job with %+v", left, want)
						}
						// Who reads the new one can end it.
						if err := f.store.FinishJobs(t.Context(), left); err != nil || len(f.jobs()) > 0 {
							t.Errorf("FinishJobs of the new job: %v; the outbox has %+v", err, f.jobs())
						}
					})
				}
			}
		}
	})
}

// jobs returns all jobs.
func (f *fixture) jobs() []store.Job {
	f.t.Helper()
	var all []store.Job
	for j, err := range f.store.Outbox(f.t.Context()) {
		if err != nil {
			f.t.Fatal(err)
		}
		all = append(all, j)
	}
	return all
}

// TestJobsWithoutToken: jobs of older versions, and those whose token is damaged, can be
// delayed, failed, retried and finished.
func TestJobsWithoutToken(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for name, row := range map[string]attrs{"no token": {}, "an empty token": {"id": str("")}, "a number": {"id": num("7")}} {
			f := newFixture(t, db)
			row["targets"] = list(obj(attrs{"kind": str("tag"), "value": str("news")}))
			row["created_at"] = num("1")
			f.raw.put("OUTBOX", fmt.Sprintf("JOB#cdn#%020d", 1), row)
			j := f.jobs()[0]
			j.Attempts, j.Error, j.NextAt, j.FailedAt = 3, "it is down", f.clock.Now(), f.clock.Now()
			if err := f.store.DelayJob(t.Context(), j); err != nil || f.jobs()[0].Attempts != 3 {
				t.Fatalf("%s: after DelayJob: %+v, %v", name, f.jobs(), err)
			}
			if err := f.store.FailJob(t.Context(), j); err != nil || !f.jobs()[0].Failed {
				t.Fatalf("%s: after FailJob: %+v, %v", name, f.jobs(), err)
			}
			if err := f.store.RetryJob(t.Context(), "cdn", 1); err != nil || f.jobs()[0].Failed {
				t.Fatalf("%s: after RetryJob: %+v, %v", name, f.jobs(), err)
			}
			if err := f.store.FinishJobs(t.Context(), f.jobs()); err != nil || len(f.jobs()) > 0 {
				t.Errorf("%s: after FinishJobs: %+v, %v", name, f.jobs(), err)
			}
		}
	})
}

// TestRetryBesideEnqueue: a failed job that an operator retries while Enqueue writes the job of
// everything in its place does not replace it, and one that is dropped does not take it along.
func TestRetryBesideEnqueue(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for name, do := range map[string]func(r *rig) error{
			"RetryJob": func(r *rig) error { return r.faulty.RetryJob(t.Context(), "cdn", 51) },
			"DropJob":  func(r *rig) error { return r.faulty.DropJob(t.Context(), "cdn", 51) },
		} {
			for call := 1; call <= 3; call++ { // two reads and a write
				r := newRig(t, db)
				old, want := r.replaceJob("everything")
				old.Error, old.FailedAt = "rejected", r.clock.Now()
				if err := r.store.FailJob(t.Context(), old); err != nil {
					t.Fatal(err)
				}
				r.api.arm(nil, false, func(n int) {
					if n != call {
						return
					}
					if err := r.store.Enqueue(t.Context(), "cdn"); err != nil {
						t.Error(err)
					}
				})
				if err := do(r); err != nil {
					t.Fatal(err)
				}
				jobs, err := r.store.PendingJobs(t.Context(), "cdn", 10)
				dropped := name == "DropJob" && call == 1 // the job that the operator names has been replaced already
				switch {
				case err != nil:
					t.Fatal(err)
				case dropped && len(jobs) == 0:
				case len(jobs) != 1 || !slices.Equal(jobs[0].Targets, want):
					t.Errorf("%s, Enqueue before call %d: %+v are pending, want the purge of everything", name, call, jobs)
				}
			}
		}
	})
}

// TestCursorNeverMovesBack: a process that has read the log, and writes its jobs after
// others have enqueued and delivered more of it, changes nothing.
func TestCursorNeverMovesBack(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, first := range []bool{false, true} { // whether there was a cursor
			r := newRig(t, db)
			purge := func(tag string) {
				t.Helper()
				p := store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: tag}}}
				if _, err := r.store.Purge(t.Context(), p); err != nil {
					t.Fatal(err)
				}
			}
			enqueue := func() {
				t.Helper()
				if err := r.store.Enqueue(t.Context(), "cdn"); err != nil {
					t.Fatal(err)
				}
			}
			if !first {
				enqueue()
			}
			purge("a")
			calls := 4 // the cursor, SEQ, the log, the transaction
			if first {
				calls = 3 // without the log
			}
			overtaken := false
			r.api.arm(nil, false, func(n int) {
				if n != calls {
					return
				}
				overtaken = true
				enqueue()
				purge("b")
				enqueue()
				jobs, err := r.store.PendingJobs(t.Context(), "cdn", 10)
				if err == nil {
					err = r.store.FinishJobs(t.Context(), jobs)
				}
				if err != nil {
					t.Error(err)
				}
			})
			if err := r.faulty.Enqueue(t.Context(), "cdn"); err != nil || !overtaken {
				t.Fatalf("Enqueue: %v, overtaken %t", err, overtaken)
			}
			if d := diff(attrs{"pk": str("OUTBOX"), "sk": str("CURSOR#cdn"), "seq": num("2")}, r.raw.get("OUTBOX", "CURSOR#cdn")); d != "" {
				t.Errorf("the cursor (-want +got):\n%s", d)
			}
			if jobs := r.jobs(); len(jobs) > 0 {
				t.Errorf("delivered changes are enqueued again: %+v", jobs)
			}
		}
	})
}

// TestSoftAndHardInOneJob: a target that one transaction purges softly and hard is delivered
// hard, in any order.
func TestSoftAndHardInOneJob(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		soft := func(tag string) attrs { return attrs{"kind": str("tag"), "value": str(tag), "at": num("1")} }
		hard := func(tag string) attrs {
			return attrs{"kind": str("tag"), "value": str(tag), "at": num("1"), "hard_seq": num("1")}
		}
		f.raw.put("OUTBOX", "CURSOR#cdn", attrs{"seq": num("0")})
		f.raw.put("PURGE", "SEQ", attrs{"seq": num("1")})
		f.raw.put("PURGE", fmt.Sprintf("LOG#%020d", 1), attrs{"targets": list(
			obj(soft("a")), obj(hard("a")), obj(hard("b")), obj(soft("b")), obj(soft("c")), obj(soft("c")),
		)})
		if err := f.store.Enqueue(t.Context(), "cdn"); err != nil {
			t.Fatal(err)
		}
		var want []store.JobTarget
		for _, tag := range []string{"a", "b", "c"} {
			want = append(want, store.JobTarget{PurgeTarget: store.PurgeTarget{Kind: store.PurgeTag, Value: tag}, Hard: tag != "c"})
		}
		if jobs := f.jobs(); len(jobs) != 1 || !slices.Equal(jobs[0].Targets, want) {
			t.Errorf("jobs %+v, want one with %+v", jobs, want)
		}
	})
}
