package isrtest

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/store"
)

// purgeTags purges tags, and delivers the purge to destinations.
func (f *fleet) purgeTags(meta store.MetaStore, hard bool, destinations []string, tags ...string) int64 {
	f.t.Helper()
	p := store.Purge{Hard: hard, Destinations: destinations}
	for _, tag := range tags {
		p.Targets = append(p.Targets, store.PurgeTarget{Kind: store.PurgeTag, Value: tag})
	}
	r, err := meta.Purge(f.t.Context(), p)
	if err != nil {
		f.t.Fatalf("Purge(%v): %v", tags, err)
	}
	return r.Seq
}

// pending returns the pending jobs of a destination, as every node reads them.
func (f *fleet) pending(destination string) []store.Job {
	f.t.Helper()
	jobs, err := f.a.PendingJobs(f.t.Context(), destination, 100)
	if err != nil {
		f.t.Fatalf("PendingJobs(%s): %v", destination, err)
	}
	return jobs
}

// outbox returns the ids of all jobs, with "!" for failed ones.
func (f *fleet) outbox() []string {
	f.t.Helper()
	var ids []string
	for j, err := range f.b.Outbox(f.t.Context()) {
		if err != nil {
			f.t.Fatalf("Outbox: %v", err)
		}
		id := j.ID()
		if j.Failed {
			id += "!"
		}
		ids = append(ids, id)
	}
	return ids
}

// withoutTokens ignores what distinguishes jobs of one destination and sequence.
var withoutTokens = cmpopts.IgnoreFields(store.Job{}, "Token")

// testOutbox: a purge writes a job for each destination, which is pending until it is
// finished.
func testOutbox(t *testing.T, f *fleet) {
	if jobs := f.pending("cdn"); len(jobs) > 0 {
		t.Errorf("jobs of an empty outbox: %+v", jobs)
	}
	f.purgeTags(f.a, true, nil, "news")
	if ids := f.outbox(); len(ids) > 0 {
		t.Errorf("a purge without destinations wrote %q", ids)
	}
	seq := f.purgeTags(f.a, true, []string{"cdn", "edge"}, "news", "sports")
	want := []store.Job{{
		Destination: "cdn", Seq: seq, CreatedAt: f.clock.Now().Truncate(time.Second),
		Targets: []store.JobTarget{
			{PurgeTarget: store.PurgeTarget{Kind: store.PurgeTag, Value: "news"}, Hard: true},
			{PurgeTarget: store.PurgeTarget{Kind: store.PurgeTag, Value: "sports"}, Hard: true},
		},
	}}
	jobs := f.pending("cdn")
	if d := cmp.Diff(want, jobs, cmpopts.EquateApproxTime(0), withoutTokens); d != "" {
		t.Errorf("PendingJobs (-want +got):\n%s", d)
	}
	if d := cmp.Diff([]string{fmt.Sprintf("cdn/%d", seq), fmt.Sprintf("edge/%d", seq)}, f.outbox()); d != "" {
		t.Errorf("Outbox (-want +got):\n%s", d)
	}
	for range 2 { // finishing a job again is no error
		if err := f.b.FinishJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff([]string{fmt.Sprintf("edge/%d", seq)}, f.outbox()); d != "" {
		t.Errorf("Outbox after FinishJobs (-want +got):\n%s", d)
	}
}

// targetsOfAllKinds returns a target of each kind.
func targetsOfAllKinds() []store.PurgeTarget {
	return []store.PurgeTarget{
		{Kind: store.PurgeKey, Tenant: "acme", Value: "example.com/news?page=2#rsc=1", PK: testPK},
		{Kind: store.PurgeTag, Tenant: "acme", Value: "ä b"},
		{Kind: store.PurgePrefix, Value: "example.com/"},
		{Kind: store.PurgeTenant, Tenant: "acme"},
		{Kind: store.PurgeSite},
	}
}

// testOutboxTargets: all kinds of targets, and how they were purged, reach the outbox.
func testOutboxTargets(t *testing.T, f *fleet) {
	targets := targetsOfAllKinds()
	if _, err := f.a.Purge(t.Context(), store.Purge{Targets: targets, Destinations: []string{"cdn"}}); err != nil {
		t.Fatal(err)
	}
	var want []store.JobTarget
	for _, target := range targets {
		target.PK = "" // downstream caches know no partitions
		want = append(want, store.JobTarget{PurgeTarget: target})
	}
	if d := cmp.Diff(want, f.pending("cdn")[0].Targets); d != "" {
		t.Errorf("targets (-want +got):\n%s", d)
	}
}

// enqueue writes the jobs of changes whose writers wrote none.
func (f *fleet) enqueue(meta store.MetaStore, destination string) {
	f.t.Helper()
	if err := meta.Enqueue(f.t.Context(), destination); err != nil {
		f.t.Fatalf("Enqueue(%s): %v", destination, err)
	}
}

// testOutboxEnqueue: a change whose writer wrote no job gets one, once for each destination,
// and a change whose writer did gets no other.
func testOutboxEnqueue(t *testing.T, f *fleet) {
	f.purgeTags(f.a, true, nil, "before")
	f.enqueue(f.a, "cdn")
	f.enqueue(f.a, "cdn")
	f.enqueue(f.a, "edge")
	if ids := f.outbox(); len(ids) > 0 {
		t.Errorf("changes before the first Enqueue are delivered: %q", ids)
	}
	own := f.purgeTags(f.a, false, []string{"cdn"}, "own")
	targets := targetsOfAllKinds()
	r, err := f.a.Purge(t.Context(), store.Purge{Targets: targets})
	if err != nil {
		t.Fatal(err)
	}
	hard := f.purgeTags(f.b, true, nil, "hard")
	f.enqueue(f.b, "cdn")
	f.enqueue(f.a, "cdn")
	at := f.clock.Now().Truncate(time.Second)
	foreign := store.Job{Destination: "cdn", Seq: r.Seq, CreatedAt: at}
	for _, target := range targets {
		target.PK = ""
		// The log does not record how a page was purged.
		foreign.Targets = append(foreign.Targets, store.JobTarget{PurgeTarget: target, Hard: target.Kind == store.PurgeKey})
	}
	tag := func(value string) store.PurgeTarget { return store.PurgeTarget{Kind: store.PurgeTag, Value: value} }
	jobs := f.pending("cdn")
	want := []store.Job{
		{Destination: "cdn", Seq: own, CreatedAt: at, Targets: []store.JobTarget{{PurgeTarget: tag("own")}}},
		foreign,
		{Destination: "cdn", Seq: hard, CreatedAt: at, Targets: []store.JobTarget{{PurgeTarget: tag("hard"), Hard: true}}},
	}
	byTarget := cmpopts.SortSlices(func(a, b store.JobTarget) bool { return a.Kind < b.Kind })
	if d := cmp.Diff(want, jobs, byTarget, withoutTokens); d != "" {
		t.Errorf("PendingJobs (-want +got):\n%s", d)
	}
	if err := f.a.FinishJobs(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	f.enqueue(f.b, "cdn")
	if jobs := f.pending("cdn"); len(jobs) > 0 {
		t.Errorf("delivered changes are enqueued again: %+v", jobs)
	}
	f.enqueue(f.a, "edge")
	if jobs := f.pending("edge"); len(jobs) != 3 {
		t.Errorf("edge has %d jobs, want one of each change", len(jobs))
	}
	if err := f.a.Enqueue(t.Context(), "CDN"); !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("Enqueue of a bad name: %v, want ErrInvalidInput", err)
	}
}

// testOutboxEnqueueMany: processes that enqueue a long part of the log at the same time
// enqueue each change once.
func testOutboxEnqueueMany(t *testing.T, f *fleet) {
	f.enqueue(f.a, "cdn")
	const changes = 210
	for i := range changes {
		f.purgeTags(f.a, false, nil, fmt.Sprint(i))
	}
	var group sync.WaitGroup
	for i := range 4 {
		group.Go(func() {
			if err := []store.MetaStore{f.a, f.b}[i%2].Enqueue(t.Context(), "cdn"); err != nil {
				t.Errorf("Enqueue: %v", err)
			}
		})
	}
	group.Wait()
	jobs, err := f.a.PendingJobs(t.Context(), "cdn", 2*changes)
	if err != nil || len(jobs) != changes {
		t.Fatalf("%d jobs, %v; want %d", len(jobs), err, changes)
	}
	for i, j := range jobs {
		if j.Targets[0].Value != fmt.Sprint(i) {
			t.Errorf("job %d purges %+v", i, j.Targets)
		}
	}
}

// testOutboxRefused: bad destinations are refused, and nothing is written.
func testOutboxRefused(t *testing.T, f *fleet) {
	f.publish(f.a, testPK, f.entry("1"))
	read := f.read(f.a, testPK)
	before, err := f.a.Sequence(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, names := range [][]string{{""}, {"CDN"}, {"a#b"}, {"1a"}, {strings.Repeat("a", 33)}, {"a", "b", "c", "d", "e", "f", "g", "h", "i"}} {
		_, err := f.a.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeSite}}, Destinations: names})
		_, pinned := f.a.Pin(t.Context(), read, store.Assertion{Key: store.Key{Text: "example.com/"}, At: f.clock.Now(), PinnedUntil: store.Forever(), Destinations: names})
		for _, err := range []error{err, pinned} {
			if !errors.Is(err, store.ErrInvalidInput) {
				t.Errorf("destinations %q: %v, want ErrInvalidInput", names, err)
			}
		}
	}
	after, err := f.a.Sequence(t.Context())
	if err != nil || before != after || len(f.outbox()) > 0 {
		t.Errorf("something was written: %+v, %v, outbox %q", after, err, f.outbox())
	}
}

// testOutboxFull: a purge with the most targets and destinations is one transaction.
func testOutboxFull(t *testing.T, f *fleet) {
	var tags, names []string
	for i := range store.MaxPurgeTargets {
		tags = append(tags, fmt.Sprintf("tag-%d", i))
	}
	for i := range store.MaxDestinations {
		names = append(names, fmt.Sprintf("cdn-%d", i))
	}
	f.purgeTags(f.a, false, names, tags...)
	for _, name := range names {
		if jobs := f.pending(name); len(jobs) != 1 || len(jobs[0].Targets) != len(tags) {
			t.Errorf("%s: %d jobs, want one with %d targets", name, len(jobs), len(tags))
		}
	}
}

// testOutboxOfAssertions: a rollback, a pin, an unpin, and a publish that ends a pin or
// asks for a reload are delivered as hard purges of the page; other publishes are not.
func testOutboxOfAssertions(t *testing.T, f *fleet) {
	key, cdn := store.Key{Tenant: "acme", Text: "example.com/a"}, []string{"cdn"}
	publish := func(id string, how store.PublishOptions) {
		t.Helper()
		l := f.acquire(f.a, testPK)
		if _, err := f.a.Publish(t.Context(), l, f.read(f.a, testPK), f.entry(id), how); err != nil {
			t.Fatal(err)
		}
	}
	assertion := store.Assertion{Key: key, At: f.clock.Now(), PinnedUntil: store.Forever(), Destinations: cdn}
	publish("1", store.PublishOptions{History: true, Key: key, Destinations: cdn})
	publish("2", store.PublishOptions{History: true, Key: key, Destinations: cdn})
	if ids := f.outbox(); len(ids) > 0 {
		t.Fatalf("publishes wrote %q", ids)
	}
	for name, do := range map[string]func() error{
		"Rollback": func() error {
			_, err := f.a.Rollback(t.Context(), f.read(f.a, testPK), "1", assertion)
			return err
		},
		"Pin": func() error { _, err := f.a.Pin(t.Context(), f.read(f.a, testPK), assertion); return err },
		"Unpin": func() error {
			unpin := assertion
			unpin.PinnedUntil = time.Time{}
			_, err := f.a.Pin(t.Context(), f.read(f.a, testPK), unpin)
			return err
		},
		"Reload": func() error {
			publish("r", store.PublishOptions{Unpin: true, Reload: true, Key: key, Destinations: cdn})
			return nil
		},
	} {
		if err := do(); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		jobs := f.pending("cdn")
		want := store.JobTarget{PurgeTarget: store.PurgeTarget{Kind: store.PurgeKey, Tenant: "acme", Value: "example.com/a"}, Hard: true}
		if len(jobs) != 1 || len(jobs[0].Targets) != 1 || jobs[0].Targets[0] != want {
			t.Errorf("%s wrote %+v, want a job with %+v", name, jobs, want)
		}
		if err := f.a.FinishJobs(t.Context(), jobs); err != nil {
			t.Fatal(err)
		}
	}
}

// testOutboxFailures: a job is delayed, failed, retried and dropped.
func testOutboxFailures(t *testing.T, f *fleet) {
	seq := f.purgeTags(f.a, true, []string{"cdn"}, "news")
	id := fmt.Sprintf("cdn/%d", seq)
	job := f.pending("cdn")[0]
	delayed := job
	delayed.Attempts, delayed.Error, delayed.NextAt = 3, "it is down", f.clock.Now().Truncate(time.Second).Add(time.Minute)
	if err := f.a.DelayJob(t.Context(), delayed); err != nil {
		t.Fatal(err)
	}
	same := func(what string, want store.Job) {
		t.Helper()
		var got store.Job
		for j, err := range f.a.Outbox(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = j
		}
		if d := cmp.Diff(want, got, cmpopts.EquateApproxTime(0)); d != "" {
			t.Errorf("after %s (-want +got):\n%s", what, d)
		}
	}
	same("DelayJob", delayed)
	failed := delayed
	failed.Attempts, failed.Error, failed.Failed, failed.FailedAt, failed.NextAt = 4, "rejected", true, f.clock.Now().Truncate(time.Second), time.Time{}
	for range 2 { // failing a job again changes nothing
		if err := f.a.FailJob(t.Context(), failed); err != nil {
			t.Fatal(err)
		}
		same("FailJob", failed)
	}
	if jobs := f.pending("cdn"); len(jobs) > 0 {
		t.Errorf("a failed job is pending: %+v", jobs)
	}
	if err := f.a.DelayJob(t.Context(), delayed); err != nil || len(f.outbox()) != 1 {
		t.Errorf("DelayJob of a failed job: %v, outbox %q", err, f.outbox())
	}
	if err := f.a.RetryJob(t.Context(), "cdn", seq); err != nil {
		t.Fatal(err)
	}
	same("RetryJob", job)
	if err := f.a.DropJob(t.Context(), "cdn", seq); err != nil || len(f.outbox()) > 0 {
		t.Errorf("DropJob: %v, outbox %q", err, f.outbox())
	}
	for name, err := range map[string]error{
		"RetryJob": f.a.RetryJob(t.Context(), "cdn", seq), "DropJob": f.a.DropJob(t.Context(), "cdn", seq),
	} {
		if !errors.Is(err, store.ErrNoJob) || !strings.Contains(err.Error(), id) {
			t.Errorf("%s of a job that is gone: %v, want ErrNoJob of %s", name, err, id)
		}
	}
	// A worker that has lost its lease records the failure of a job that is gone.
	for name, err := range map[string]error{"DelayJob": f.a.DelayJob(t.Context(), delayed), "FailJob": f.a.FailJob(t.Context(), failed)} {
		if err != nil || len(f.outbox()) > 0 {
			t.Errorf("%s of a job that is gone: %v, outbox %q", name, err, f.outbox())
		}
	}
}

// testOutboxRetryPending: an operator makes a delayed job due at once.
func testOutboxRetryPending(t *testing.T, f *fleet) {
	seq := f.purgeTags(f.a, true, []string{"cdn"}, "news")
	job := f.pending("cdn")[0]
	job.Attempts, job.Error, job.NextAt = 3, "it is down", f.clock.Now().Add(time.Hour)
	if err := f.a.DelayJob(t.Context(), job); err != nil {
		t.Fatal(err)
	}
	if err := f.b.RetryJob(t.Context(), "cdn", seq); err != nil {
		t.Fatal(err)
	}
	f.clock.Advance(time.Second)
	if got := f.pending("cdn")[0]; got.Attempts != 0 || got.Error != "" || got.NextAt.After(f.clock.Now()) {
		t.Errorf("after RetryJob: %+v, want it due at once", got)
	}
}

// testOutboxOrder: pending jobs come oldest first, and failed jobs and jobs of other
// destinations do not use up the limit.
func testOutboxOrder(t *testing.T, f *fleet) {
	var seqs []int64
	for i := range 12 {
		seqs = append(seqs, f.purgeTags(f.a, false, []string{"cdn", "cdn-2"}, fmt.Sprint(i)))
	}
	for _, j := range f.pending("cdn")[:3] {
		j.FailedAt = f.clock.Now()
		if err := f.a.FailJob(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	jobs, err := f.b.PendingJobs(t.Context(), "cdn", 4)
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, j := range jobs {
		got = append(got, j.Seq)
	}
	if d := cmp.Diff(seqs[3:7], got); d != "" {
		t.Errorf("PendingJobs (-want +got):\n%s", d)
	}
}

// testRaceOfDeliveries: concurrent purges, which share transactions, lose no target.
func testRaceOfDeliveries(t *testing.T, f *fleet) {
	const purges = 40
	var group sync.WaitGroup
	for i := range purges {
		meta := []store.MetaStore{f.a, f.b}[i%2]
		group.Go(func() {
			_, err := meta.Purge(t.Context(), store.Purge{
				Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: "all"}, {Kind: store.PurgeTag, Value: fmt.Sprint(i)}},
				Hard:    i%4 == 0, Destinations: []string{"cdn"},
			})
			if err != nil {
				t.Errorf("Purge: %v", err)
			}
		})
	}
	group.Wait()
	hard := make(map[string]bool)
	jobs := f.pending("cdn")
	for _, j := range jobs {
		for _, target := range j.Targets {
			hard[target.Value] = hard[target.Value] || target.Hard
		}
	}
	for i := range purges {
		if got, ok := hard[fmt.Sprint(i)]; !ok || got != (i%4 == 0) {
			t.Errorf("target %d: delivered %t, hard %t", i, ok, got)
		}
	}
	if !hard["all"] {
		t.Error("a hard purge of a target that was also purged softly is not delivered as such")
	}
}
