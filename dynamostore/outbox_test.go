package dynamostore_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// purgeFor purges a tag and delivers that to cdn.
func (f *fixture) purgeFor(tag string) int64 {
	f.t.Helper()
	r, err := f.store.Purge(f.t.Context(), store.Purge{
		Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: tag}}, Hard: true, Destinations: []string{"cdn"},
	})
	if err != nil {
		f.t.Fatal(err)
	}
	return r.Seq
}

// TestJobRows: the stored attributes of a job.
func TestJobRows(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		now := num(seconds(f.clock.Now()))
		seq := f.purgeFor("news")
		sk := fmt.Sprintf("JOB#cdn#%020d", seq)
		target := &types.AttributeValueMemberM{Value: attrs{"kind": str("tag"), "value": str("news"), "hard": &types.AttributeValueMemberBOOL{Value: true}}}
		// The id is the transaction's, which the log row has too.
		id := f.raw.get("PURGE", fmt.Sprintf("LOG#%020d", seq))["id"]
		want := attrs{"pk": str("OUTBOX"), "sk": str(sk), "id": id, "targets": list(target), "created_at": now}
		if d := diff(want, f.raw.get("OUTBOX", sk)); d != "" {
			t.Errorf("JOB# (-want +got):\n%s", d)
		}
		jobs, err := f.store.PendingJobs(t.Context(), "cdn", 1)
		if err != nil {
			t.Fatal(err)
		}
		j := jobs[0]
		j.Attempts, j.Error, j.NextAt = 2, strings.Repeat("é", 1000), f.clock.Now().Add(time.Minute)
		if err := f.store.DelayJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		want["attempts"], want["error"], want["next_at"] = num("2"), str(strings.Repeat("é", 512)), num(seconds(f.clock.Now().Add(time.Minute+time.Second)))
		if d := diff(want, f.raw.get("OUTBOX", sk)); d != "" {
			t.Errorf("JOB# after DelayJob (-want +got):\n%s", d)
		}
		if jobs, err = f.store.PendingJobs(t.Context(), "cdn", 1); err != nil {
			t.Fatal(err)
		}
		j = jobs[0]
		j.FailedAt = f.clock.Now()
		if err := f.store.FailJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
		delete(want, "next_at")
		want["sk"], want["failed_at"] = str(strings.Replace(sk, "JOB", "FAILED", 1)), now
		want["ttl"] = num(seconds(f.clock.Now().Add(store.FailedJobLife + time.Second)))
		if d := diff(want, f.raw.get("OUTBOX", strings.Replace(sk, "JOB", "FAILED", 1))); d != "" {
			t.Errorf("FAILED# (-want +got):\n%s", d)
		}
		if row := f.raw.get("OUTBOX", sk); row != nil {
			t.Errorf("JOB# remains: %v", row)
		}
	})
}

// TestMalformedJobs: a job that cannot be read is delivered as a purge of everything, and
// rows that are not jobs are skipped.
func TestMalformedJobs(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		for i, row := range []attrs{
			{},
			{"targets": list(), "created_at": num("1")},
			{"targets": list(str("x")), "created_at": num("1")},
			{"targets": list(&types.AttributeValueMemberM{Value: attrs{"kind": str("tag")}}), "created_at": str("x")},
		} {
			f.raw.put("OUTBOX", fmt.Sprintf("JOB#cdn#%020d", i+1), row)
		}
		for _, sk := range []string{"X", "JOB#cdn#1", "JOB#cdn#x", "JOB#CDN#00000000000000000001"} {
			f.raw.put("OUTBOX", sk, attrs{})
		}
		jobs, err := f.store.PendingJobs(t.Context(), "cdn", 100)
		if err != nil || len(jobs) != 4 {
			t.Fatalf("PendingJobs: %d jobs, %v; want 4", len(jobs), err)
		}
		all := store.JobTarget{PurgeTarget: store.PurgeTarget{Kind: store.PurgeSite}, Hard: true}
		for _, j := range jobs {
			if j.Malformed == nil || !strings.Contains(j.Malformed.Error(), "JOB#cdn#") || len(j.Targets) != 1 || j.Targets[0] != all {
				t.Errorf("job %s: %+v, want everything and the reason", j.ID(), j)
			}
			j.FailedAt = f.clock.Now()
			if err := f.store.FailJob(t.Context(), j); err != nil {
				t.Errorf("FailJob: %v", err)
			}
		}
	})
}

// TestEnqueueWithoutTheLog: if it is not known what changed, everything is purged, once, and
// the reason is logged.
func TestEnqueueWithoutTheLog(t *testing.T) {
	t.Parallel()
	row := func(targets ...types.AttributeValue) attrs { return attrs{"targets": list(targets...)} }
	tag := obj(attrs{"kind": str("tag"), "value": str("news"), "at": num("1")})
	for name, test := range map[string]struct {
		cursor attrs
		log    map[int]attrs // SEQ is 7
		reason string        // "" if nothing is to be delivered
	}{
		"rows without targets":      {attrs{"seq": num("5")}, map[int]attrs{6: row(), 7: row(obj(attrs{"kind": str("confirm")}))}, ""},
		"a row beyond SEQ":          {attrs{"seq": num("7")}, map[int]attrs{8: row(tag)}, ""},
		"all rows expired":          {attrs{"seq": num("5")}, nil, "rows of the log are missing"},
		"the first row expired":     {attrs{"seq": num("5")}, map[int]attrs{7: row(tag)}, "rows of the log are missing"},
		"only a row beyond SEQ":     {attrs{"seq": num("6")}, map[int]attrs{8: row(tag)}, "rows of the log are missing"},
		"a malformed row":           {attrs{"seq": num("6")}, map[int]attrs{7: {}}, "targets"},
		"an older log":              {attrs{"seq": num("9")}, nil, "the log is shorter than it was"},
		"a cursor of text":          {attrs{"seq": str("6")}, map[int]attrs{7: row(tag)}, "CURSOR#cdn"},
		"a cursor without a number": {attrs{}, map[int]attrs{7: row(tag)}, "CURSOR#cdn"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			onEngines(t, func(t *testing.T, db engine) {
				f := newFixture(t, db)
				var log bytes.Buffer
				f.store = newStore(t, db, f.raw.name, dynamostore.Config{Owner: "a", Now: f.clock.Now, Logger: slog.New(slog.NewTextHandler(&log, nil))})
				f.raw.put("PURGE", "SEQ", attrs{"seq": num("7")})
				f.raw.put("OUTBOX", "CURSOR#cdn", test.cursor)
				for seq, r := range test.log {
					f.raw.put("PURGE", fmt.Sprintf("LOG#%020d", seq), r)
				}
				for range 2 {
					if err := f.store.Enqueue(t.Context(), "cdn"); err != nil {
						t.Fatal(err)
					}
				}
				jobs, err := f.store.PendingJobs(t.Context(), "cdn", 10)
				if err != nil {
					t.Fatal(err)
				}
				all := []store.JobTarget{{PurgeTarget: store.PurgeTarget{Kind: store.PurgeSite}, Hard: true}}
				switch {
				case test.reason == "" && len(jobs) > 0:
					t.Errorf("jobs %+v, want none", jobs)
				case test.reason != "" && (len(jobs) != 1 || jobs[0].Seq != 7 || !slices.Equal(jobs[0].Targets, all)):
					t.Errorf("jobs %+v, want a purge of everything at 7", jobs)
				}
				if !strings.Contains(log.String(), test.reason) || strings.Count(log.String(), "is purged entirely") != len(jobs) {
					t.Errorf("the log has %q, want a line with %q", log.String(), test.reason)
				}
				if d := diff(attrs{"pk": str("OUTBOX"), "sk": str("CURSOR#cdn"), "seq": num("7")}, f.raw.get("OUTBOX", "CURSOR#cdn")); d != "" {
					t.Errorf("the cursor (-want +got):\n%s", d)
				}
			})
		})
	}
}

// TestDestinationsInTheLog: the log lists the destinations for which each change of a
// transaction has jobs, so that Enqueue writes the others.
func TestDestinationsInTheLog(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f := newFixture(t, db)
		var group sync.WaitGroup
		for i := range 20 {
			group.Go(func() {
				p := store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: fmt.Sprint(i)}}}
				if i%4 != 0 {
					p.Destinations = []string{"cdn"}
				}
				if i%3 == 0 {
					p.Destinations = append(p.Destinations, "edge")
				}
				if _, err := f.store.Purge(t.Context(), p); err != nil {
					t.Error(err)
				}
			})
		}
		for _, destination := range []string{"cdn", "edge"} {
			f.raw.put("OUTBOX", "CURSOR#"+destination, attrs{"seq": num("0")})
		}
		group.Wait()
		for _, destination := range []string{"cdn", "edge"} {
			if err := f.store.Enqueue(t.Context(), destination); err != nil {
				t.Fatal(err)
			}
			jobs, err := f.store.PendingJobs(t.Context(), destination, 100)
			if err != nil {
				t.Fatal(err)
			}
			var tags []string
			for _, j := range jobs {
				for _, target := range j.Targets {
					tags = append(tags, target.Value)
				}
			}
			slices.Sort(tags)
			if len(tags) != 20 || len(slices.Compact(tags)) != 20 {
				t.Errorf("%s: %d targets %q, want each of the 20 purges once", destination, len(tags), tags)
			}
		}
	})
}

// TestOutboxUnderFaults: under any faults a purge and its job are committed together,
// once, and a finished job is gone.
func TestOutboxUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		pending := func() []store.Job {
			jobs, err := r.store.PendingJobs(t.Context(), "cdn", 100)
			if err != nil {
				t.Fatal(err)
			}
			return jobs
		}
		r.api.arm(append([]fault{none}, plan...), false, nil) // SEQ, the transaction
		_, err := r.faulty.Purge(t.Context(), store.Purge{
			Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: pk}}, Destinations: []string{"cdn"},
		})
		if err != nil {
			t.Fatal(err)
		}
		r.api.deliver()
		jobs := pending()
		if len(jobs) != 1 || jobs[0].Targets[0].Value != pk {
			t.Fatalf("the outbox has %+v, want the job", jobs)
		}
		j := jobs[0]
		j.Attempts, j.Error, j.NextAt, j.FailedAt = 1, "no", r.clock.Now(), r.clock.Now()
		for _, step := range []struct {
			name string
			do   func() error
			want int // pending
		}{
			{"PendingJobs", func() error { _, err := r.faulty.PendingJobs(t.Context(), "cdn", 10); return err }, 1},
			{"DelayJob", func() error { return r.faulty.DelayJob(t.Context(), j) }, 1},
			{"FailJob", func() error { return r.faulty.FailJob(t.Context(), j) }, 0},
			{"RetryJob", func() error { return r.faulty.RetryJob(t.Context(), "cdn", j.Seq) }, 1},
			{"FinishJobs", func() error { return r.faulty.FinishJobs(t.Context(), jobs) }, 0},
		} {
			r.api.arm(plan, false, nil)
			if err := step.do(); err != nil {
				t.Errorf("%s: %v", step.name, err)
			}
			// What is still on its way must not bring a job back.
			r.api.deliver()
			if got := pending(); len(got) != step.want {
				t.Errorf("after %s: %d jobs are pending, want %d", step.name, len(got), step.want)
			}
		}
	})
}

// TestEnqueueUnderFaults: under any faults a change is enqueued once.
func TestEnqueueUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		if err := r.store.Enqueue(t.Context(), "cdn"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: pk}}}); err != nil {
			t.Fatal(err)
		}
		r.api.arm(append([]fault{none, none, none}, plan...), false, nil) // the cursor, SEQ, LOG, the transaction
		if err := r.faulty.Enqueue(t.Context(), "cdn"); err != nil {
			t.Fatal(err)
		}
		for delivered := range 2 { // what is still on its way must not bring a job back
			jobs, err := r.store.PendingJobs(t.Context(), "cdn", 100)
			switch {
			case err != nil:
				t.Fatal(err)
			case delivered == 0 && (len(jobs) != 1 || jobs[0].Targets[0].Value != pk):
				t.Fatalf("the outbox has %+v, want the job", jobs)
			case delivered == 1 && len(jobs) > 0:
				t.Fatalf("a finished job is back: %+v", jobs)
			}
			if err := r.store.FinishJobs(t.Context(), jobs); err != nil {
				t.Fatal(err)
			}
			r.api.deliver()
			if err := r.store.Enqueue(t.Context(), "cdn"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestFinishManyJobs: more jobs than are deleted at a time, in spite of failures of some of
// the deletes.
func TestFinishManyJobs(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		for i := range 60 {
			r.raw.put("OUTBOX", fmt.Sprintf("JOB#cdn#%020d", i+1), attrs{"targets": list(), "created_at": num("1")})
		}
		jobs, err := r.store.PendingJobs(t.Context(), "cdn", 59)
		if err != nil || len(jobs) != 59 {
			t.Fatalf("PendingJobs: %d jobs, %v; want 59", len(jobs), err)
		}
		r.api.arm([]fault{none, lostRequest, throttled, lostReply, serverError}, false, nil)
		if err := r.faulty.FinishJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		if jobs, err := r.store.PendingJobs(t.Context(), "cdn", 100); err != nil || len(jobs) != 1 || jobs[0].Seq != 60 {
			t.Errorf("PendingJobs: %+v, %v; want the last one", jobs, err)
		}
	})
}

// TestUnitsOfOutbox: what a delivered purge costs beyond the purge.
func TestUnitsOfOutbox(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		f, b := metered(t, db)
		f.purgeFor("a")
		if d := diff(reported(db, map[string]units{"purge": {Read: 1, Write: 8}}), b.take()); d != "" {
			t.Errorf("a purge with a job (-want +got):\n%s", d)
		}
		jobs, err := f.store.PendingJobs(t.Context(), "cdn", 10)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.store.FinishJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
		if d := diff(reported(db, map[string]units{"outbox": {Read: 1, Write: 1}}), b.take()); d != "" {
			t.Errorf("a delivery (-want +got):\n%s", d)
		}
	})
}
