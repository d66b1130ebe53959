package downstream_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/downstream"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

// A cache is a destination in memory.
type cache struct {
	limits downstream.Limits
	// refuse returns the error of a delivery; nil accepts all. It is called with mu held.
	refuse func(b downstream.Batch) error

	mu       sync.Mutex
	batches  []downstream.Batch // accepted; guarded by mu
	attempts []time.Time        // guarded by mu
	busy     bool               // a delivery is under way; guarded by mu
	overlap  bool               // two deliveries were under way; guarded by mu
}

func newCache(refuse func(downstream.Batch) error) *cache {
	return &cache{limits: downstream.Limits{Targets: 100, Debounce: 100 * time.Millisecond}, refuse: refuse}
}

func (c *cache) Limits() downstream.Limits { return c.limits }

func (c *cache) Deliver(ctx context.Context, b downstream.Batch) error {
	c.mu.Lock()
	c.overlap, c.busy = c.overlap || c.busy, true
	c.attempts = append(c.attempts, time.Now())
	c.mu.Unlock()
	time.Sleep(50 * time.Millisecond) // the round trip
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if c.refuse != nil {
		if err := c.refuse(b); err != nil {
			return err
		}
	}
	c.batches = append(c.batches, b)
	return nil
}

// set replaces how deliveries are refused.
func (c *cache) set(refuse func(downstream.Batch) error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refuse = refuse
}

// tags returns the tags that were purged, sorted, and how many deliveries that took.
func (c *cache) tags() (tags []string, deliveries int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.batches {
		for _, t := range b.Targets {
			tags = append(tags, t.Value)
		}
	}
	slices.Sort(tags)
	return slices.Compact(tags), len(c.batches)
}

func (c *cache) tried() []time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.attempts)
}

// A fleet is a table and the processes on it, in a synctest bubble.
type fleet struct {
	t    *testing.T
	db   *localdynamo.DB
	meta *dynamostore.Store // of a process without a worker
	log  bytes.Buffer
	logs sync.Mutex
}

// Write collects the log of all workers.
func (f *fleet) Write(p []byte) (int, error) {
	f.logs.Lock()
	defer f.logs.Unlock()
	return f.log.Write(p)
}

// logged returns how many lines of the log contain a text.
func (f *fleet) logged(text string) int {
	f.logs.Lock()
	defer f.logs.Unlock()
	return strings.Count(f.log.String(), text)
}

// inFleet runs a test in virtual time.
func inFleet(t *testing.T, test func(t *testing.T, f *fleet)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		test(t, newFleet(t))
	})
}

// newFleet returns a fleet on a table of its own, which lives until the end of the test.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	db := localdynamo.OpenMemory(localdynamo.Options{})
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	if err := dynamostore.CreateTable(t.Context(), db, "isr"); err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, db: db}
	f.meta = f.process()
	return f
}

// process returns the store of a process.
func (f *fleet) process() *dynamostore.Store {
	f.t.Helper()
	s, err := dynamostore.New(f.db, "isr", dynamostore.Config{})
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

// worker starts the worker of a process that delivers to the destination cdn.
func (f *fleet) worker(s downstream.Store, d downstream.Destination, config downstream.Config) *downstream.Worker {
	f.t.Helper()
	config.Logger = slog.New(slog.NewTextHandler(f, nil))
	w, err := downstream.Start(s, map[string]downstream.Destination{"cdn": d}, config)
	if err != nil {
		f.t.Fatal(err)
	}
	return w
}

// purge purges tags, each by itself.
func (f *fleet) purge(tags ...string) {
	f.t.Helper()
	for _, tag := range tags {
		_, err := f.meta.Purge(f.t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: tag}}, Hard: true, Destinations: []string{"cdn"}})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// outbox returns the jobs.
func (f *fleet) outbox() []store.Job {
	f.t.Helper()
	var jobs []store.Job
	for j, err := range f.meta.Outbox(f.t.Context()) {
		if err != nil {
			f.t.Fatal(err)
		}
		jobs = append(jobs, j)
	}
	return jobs
}

// delivered checks that exactly these tags were purged and no job is left.
func (f *fleet) delivered(c *cache, want ...string) {
	f.t.Helper()
	if tags, _ := c.tags(); !slices.Equal(tags, slices.Sorted(slices.Values(want))) {
		f.t.Errorf("delivered %q, want %q", tags, want)
	}
	if jobs := f.outbox(); len(jobs) > 0 {
		f.t.Errorf("the outbox has %+v", jobs)
	}
}

// after waits for d of virtual time.
func after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestDelivery: a local purge is delivered at once, one of another process with the next
// poll.
func TestDelivery(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(nil)
		w := f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		after(time.Minute)
		f.purge("a", "b")
		w.Wake()
		after(200 * time.Millisecond) // debounce and round trip
		f.delivered(c, "a", "b")
		if _, n := c.tags(); n != 1 {
			t.Errorf("%d deliveries, want one", n)
		}
		f.purge("c")
		after(16 * time.Second) // one and a half idle polls
		f.delivered(c, "a", "b", "c")
		if names := w.Destinations(); !slices.Equal(names, []string{"cdn"}) {
			t.Errorf("destinations %q", names)
		}
	})
}

// TestDeliveryForOtherPrograms: a purge whose writer wrote no job is delivered once, by
// whichever process finds it, with the next poll.
func TestDeliveryForOtherPrograms(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(nil)
		for range 3 {
			w := f.worker(f.process(), c, downstream.Config{})
			defer w.Close()
		}
		after(time.Minute)
		for _, tag := range []string{"a", "b"} {
			if _, err := f.meta.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{{Kind: store.PurgeTag, Value: tag}}}); err != nil {
				t.Fatal(err)
			}
		}
		f.purge("c")
		after(16 * time.Second) // one and a half idle polls
		f.delivered(c, "a", "b", "c")
		_, before := c.tags()
		after(time.Hour)
		if _, n := c.tags(); n != before {
			t.Errorf("%d more deliveries", n-before)
		}
	})
}

// A job waits until other servers of the site have read of the purge.
func TestDelay(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(nil)
		var delay atomic.Int64
		w := f.worker(f.process(), c, downstream.Config{Delay: func() time.Duration { return time.Duration(delay.Load()) }})
		defer w.Close()
		after(time.Minute)
		delay.Store(int64(2 * time.Second)) // the fleet has grown
		f.purge("a")
		w.Wake()
		after(1900 * time.Millisecond)
		if tags, _ := c.tags(); len(tags) > 0 {
			t.Errorf("delivered %q too early", tags)
		}
		after(4 * time.Second) // rounding, and two polls
		f.delivered(c, "a")
	})
}

// TestJobsAreMerged: many purges are few deliveries, none above the limit.
func TestJobsAreMerged(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		var tags []string
		for i := range 1234 {
			tags = append(tags, fmt.Sprintf("tag-%04d", i))
		}
		f.purge(tags...)
		c := newCache(nil)
		w := f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		after(10 * time.Second)
		f.delivered(c, tags...)
		if _, n := c.tags(); n > 15 {
			t.Errorf("%d deliveries of %d purges, want about 13", n, len(tags))
		}
		for _, b := range c.batches {
			if len(b.Targets) > 100 {
				t.Errorf("a batch has %d targets, at most 100 are allowed", len(b.Targets))
			}
		}
	})
}

// TestOneProcessDelivers: workers of several processes do not deliver to one destination
// at the same time, and deliver nothing twice.
func TestOneProcessDelivers(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(nil)
		c.limits.Targets = 2
		var workers []*downstream.Worker
		for range 3 {
			workers = append(workers, f.worker(f.process(), c, downstream.Config{}))
		}
		var tags []string
		for i := range 30 {
			tag := fmt.Sprintf("tag-%02d", i)
			tags = append(tags, tag)
			f.purge(tag)
			for _, w := range workers {
				w.Wake()
			}
			after(30 * time.Millisecond)
		}
		after(time.Minute)
		for _, w := range workers {
			w.Close()
		}
		f.delivered(c, tags...)
		n := 0
		for _, b := range c.batches {
			n += len(b.Targets)
		}
		if c.overlap || n != len(tags) {
			t.Errorf("overlapping deliveries: %t; %d targets were delivered, want %d", c.overlap, n, len(tags))
		}
	})
}

// TestFailingDestination: deliveries are repeated with growing pauses until they succeed.
// The failure is visible, and logged when it begins and when it ends.
func TestFailingDestination(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(func(downstream.Batch) error { return errors.New("connection refused") })
		w := f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		f.purge("a", "b")
		w.Wake()
		after(10 * time.Minute)
		if n := len(c.tried()); n < 8 || n > 40 {
			t.Errorf("%d attempts in ten minutes, want exponential backoff", n)
		}
		failures := w.Failures()
		if len(failures) != 1 || failures[0].Destination != "cdn" || !strings.Contains(failures[0].Err.Error(), "connection refused") || time.Since(failures[0].Since) < 9*time.Minute {
			t.Errorf("failures %+v", failures)
		}
		for _, j := range f.outbox() {
			if j.Attempts == 0 && j.Error != "" || j.Failed {
				t.Errorf("job %+v, want it delayed", j)
			}
		}
		f.purge("c")
		c.set(nil)
		after(time.Minute) // at most one and a half of the longest pause of a destination
		f.delivered(c, "a", "b", "c")
		if failures := w.Failures(); len(failures) > 0 {
			t.Errorf("failures %+v after a success", failures)
		}
		if begin, end := f.logged("deliveries of purges fail"), f.logged("delivered again"); begin != 1 || end != 1 {
			t.Errorf("logged the begin %d times and the end %d times, want once", begin, end)
		}
	})
}

// TestRateLimit: all processes respect the Retry-After of a destination, and being limited
// does not count as a failed attempt.
func TestRateLimit(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(func(downstream.Batch) error {
			return &downstream.RetryError{After: 40 * time.Second, Busy: true, Err: errors.New("429")}
		})
		var workers []*downstream.Worker
		for range 3 {
			w := f.worker(f.process(), c, downstream.Config{})
			defer w.Close()
			workers = append(workers, w)
		}
		f.purge("a")
		for range 300 {
			for _, w := range workers {
				w.Wake()
			}
			after(time.Second)
		}
		tried := c.tried()
		for i := 1; i < len(tried); i++ {
			if pause := tried[i].Sub(tried[i-1]); pause < 40*time.Second {
				t.Errorf("a pause of %s, want 40 s", pause)
			}
		}
		if len(tried) < 5 {
			t.Errorf("%d attempts in five minutes", len(tried))
		}
		if jobs := f.outbox(); len(jobs) != 1 || jobs[0].Attempts != 0 || jobs[0].Failed {
			t.Errorf("the outbox has %+v", jobs)
		}
	})
}

// refusing returns an error for batches with a tag.
func refusing(tag string, err error) func(downstream.Batch) error {
	return func(b downstream.Batch) error {
		if slices.ContainsFunc(b.Targets, func(t store.PurgeTarget) bool { return t.Value == tag }) {
			return err
		}
		return nil
	}
}

// TestPermanentError: a job that the destination rejects is failed at once; those that
// were merged with it are delivered.
func TestPermanentError(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(refusing("bad", &downstream.PermanentError{Err: errors.New("invalid tag")}))
		f.purge("a", "bad", "b")
		w := f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		after(5 * time.Second)
		if tags, _ := c.tags(); !slices.Equal(tags, []string{"a", "b"}) {
			t.Errorf("delivered %q, want a and b", tags)
		}
		jobs := f.outbox()
		if len(jobs) != 1 || !jobs[0].Failed || jobs[0].Error != "invalid tag" || jobs[0].Attempts != 1 || jobs[0].FailedAt.IsZero() {
			t.Fatalf("the outbox has %+v, want the failed job", jobs)
		}
		if f.logged("invalid tag") != 1 || f.logged(jobs[0].ID()) != 1 {
			t.Errorf("the failed job is not in the log once: %s", &f.log)
		}
		// An operator retries it once the destination accepts it.
		c.set(nil)
		if err := f.meta.RetryJob(t.Context(), "cdn", jobs[0].Seq); err != nil {
			t.Fatal(err)
		}
		w.Wake()
		after(time.Second)
		f.delivered(c, "a", "b", "bad")
	})
}

// TestPoison: a job that fails again and again does not keep others from being delivered
// soon, and is failed in the end.
func TestPoison(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(refusing("bad", errors.New("500")))
		f.purge("a", "bad", "b")
		w := f.worker(f.process(), c, downstream.Config{Attempts: 10})
		defer w.Close()
		want := []string{"a", "b"}
		after(2 * time.Minute) // the first batch failed as a whole
		for i := range 10 {
			tag := fmt.Sprintf("later-%d", i)
			want = append(want, tag)
			f.purge(tag)
			w.Wake()
			after(50 * time.Second) // a pause of the destination
			if tags, _ := c.tags(); !slices.Equal(tags, slices.Sorted(slices.Values(want))) {
				t.Fatalf("delivered %q, want %q", tags, want)
			}
		}
		after(time.Hour)
		jobs := f.outbox()
		if len(jobs) != 1 || !jobs[0].Failed || jobs[0].Attempts != 10 || !strings.Contains(jobs[0].Error, "after 10 attempts: 500") {
			t.Errorf("the outbox has %+v, want the failed job", jobs)
		}
	})
}

// TestOutage: after a long outage all jobs are delivered soon, merged.
func TestOutage(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(func(downstream.Batch) error { return errors.New("down") })
		w := f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		var tags []string
		for i := range 300 {
			tags = append(tags, fmt.Sprintf("tag-%03d", i))
			f.purge(tags[i])
			after(10 * time.Second)
		}
		c.set(nil)
		after(time.Minute)
		f.delivered(c, tags...)
		if _, n := c.tags(); n > 20 {
			t.Errorf("%d deliveries of %d jobs", n, len(tags))
		}
	})
}

// A forgetful store loses the first deletion of delivered jobs, as a crash would.
type forgetful struct {
	*dynamostore.Store
	once sync.Once
}

func (s *forgetful) FinishJobs(ctx context.Context, jobs []store.Job) (err error) {
	s.once.Do(func() { err = errors.New("crashed") })
	if err != nil {
		return err
	}
	return s.Store.FinishJobs(ctx, jobs)
}

// TestDeliveredAgain: a delivery whose jobs were not deleted is repeated under the same id.
func TestDeliveredAgain(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		c := newCache(nil)
		f.purge("a", "b")
		w := f.worker(&forgetful{Store: f.process()}, c, downstream.Config{})
		defer w.Close()
		after(10 * time.Second)
		f.delivered(c, "a", "b")
		if len(c.batches) != 2 || c.batches[0].ID != c.batches[1].ID || len(c.batches[0].ID) > 64 || c.batches[0].ID == "" {
			t.Errorf("batches %+v, want two with one id", c.batches)
		}
	})
}

// TestBatchOfAnotherTable: a batch of the first purge of a table has another id than a batch of
// the first purge of another one, which may be its restored copy or a new data folder, also
// if an older version of isr wrote the jobs: a cache that recognizes repetitions by the id
// must not take one for the other.
func TestBatchOfAnotherTable(t *testing.T) {
	inFleet(t, func(t *testing.T, _ *fleet) {
		tests := []struct {
			name  string
			later time.Duration // than the table before
			older bool          // the version of isr
			fleet *fleet
		}{{name: "a table"}, {name: "at the same time"}, {name: "older version", later: time.Hour, older: true}, {name: "later", later: time.Hour, older: true}}
		for i, test := range tests {
			time.Sleep(test.later)
			f := newFleet(t)
			f.purge("a")
			if test.older {
				f.withoutTokens()
			}
			tests[i].fleet = f
		}
		seen := make(map[string]string)
		for _, test := range tests {
			c := newCache(nil)
			w := test.fleet.worker(test.fleet.process(), c, downstream.Config{})
			after(time.Second)
			w.Close()
			test.fleet.delivered(c, "a")
			id := c.batches[0].ID
			if other, ok := seen[id]; ok {
				t.Errorf("%s: the id of the batch is also the id of %q", test.name, other)
			}
			seen[id] = test.name
		}
	})
}

// withoutTokens makes the jobs as an older version of isr wrote them.
func (f *fleet) withoutTokens() {
	f.t.Helper()
	for _, j := range f.outbox() {
		_, err := f.db.UpdateItem(f.t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("isr"),
			Key: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: "OUTBOX"},
				"sk": &types.AttributeValueMemberS{Value: fmt.Sprintf("JOB#%s#%020d", j.Destination, j.Seq)},
			},
			UpdateExpression: aws.String("REMOVE id"),
		})
		if err != nil {
			f.t.Fatal(err)
		}
	}
}

// TestMalformedJobIsDelivered: a job that cannot be read is delivered, although its age is not
// known: later than what this process has just read, and at once.
func TestMalformedJobIsDelivered(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		_, err := f.db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("isr"), Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: "OUTBOX"},
			"sk": &types.AttributeValueMemberS{Value: fmt.Sprintf("JOB#cdn#%020d", 1)},
		}})
		if err != nil {
			t.Fatal(err)
		}
		c := newCache(nil)
		w := f.worker(f.process(), c, downstream.Config{Delay: func() time.Duration { return 5 * time.Second }})
		defer w.Close()
		after(time.Minute)
		f.delivered(c, "") // the target of everything has no value
	})
}

// TestCrash: the jobs of a process that has crashed during a delivery are delivered by
// another one once its lease has expired.
func TestCrash(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.purge("a")
		// The crashed process holds the lease and does nothing more.
		if _, err := f.process().Acquire(t.Context(), store.OutboxPartition("cdn"), 5*time.Second, nil); err != nil {
			t.Fatal(err)
		}
		c := newCache(nil)
		w := f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		after(4 * time.Second)
		if tags, _ := c.tags(); len(tags) > 0 {
			t.Fatal("delivered in spite of the lease")
		}
		after(6 * time.Second)
		f.delivered(c, "a")
	})
}

// A stuck destination does not answer.
type stuck struct{}

func (stuck) Limits() downstream.Limits { return downstream.Limits{Targets: 1} }
func (stuck) Deliver(ctx context.Context, _ downstream.Batch) error {
	<-ctx.Done()
	return ctx.Err()
}

// TestClose: Close ends a delivery that hangs, and gives up the lease, so that another
// process can deliver at once.
func TestClose(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.purge("a")
		w := f.worker(f.process(), stuck{}, downstream.Config{})
		after(3 * time.Second)
		began := time.Now()
		w.Close()
		if d := time.Since(began); d > time.Second {
			t.Errorf("Close took %s", d)
		}
		c := newCache(nil)
		w = f.worker(f.process(), c, downstream.Config{})
		defer w.Close()
		after(time.Second)
		f.delivered(c, "a")
	})
}

// TestHang: a destination that does not answer is a failure, and is tried again.
func TestHang(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.purge("a")
		w := f.worker(f.process(), stuck{}, downstream.Config{})
		defer w.Close()
		after(2 * time.Minute)
		if jobs := f.outbox(); len(jobs) != 1 || jobs[0].Attempts == 0 || !strings.Contains(jobs[0].Error, "deadline") {
			t.Errorf("the outbox has %+v, want a failed attempt", jobs)
		}
		if len(w.Failures()) != 1 {
			t.Error("the failure is not visible")
		}
	})
}

// TestStoreFails: an outbox that cannot be read is a failure, and no delivery is lost.
func TestStoreFails(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		f.purge("a")
		c, s := newCache(nil), &unreadable{Store: f.process(), down: true}
		w := f.worker(s, c, downstream.Config{})
		defer w.Close()
		after(time.Minute)
		if failures := w.Failures(); len(failures) != 1 || !strings.Contains(failures[0].Err.Error(), "the outbox cannot be used") {
			t.Errorf("failures %+v", failures)
		}
		s.set(false)
		after(20 * time.Second)
		f.delivered(c, "a")
	})
}

// An unreadable store does not answer reads of the outbox while it is down.
type unreadable struct {
	*dynamostore.Store
	mu   sync.Mutex
	down bool
}

func (s *unreadable) set(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

func (s *unreadable) PendingJobs(ctx context.Context, destination string, limit int) ([]store.Job, error) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		return nil, errors.New("connection refused")
	}
	return s.Store.PendingJobs(ctx, destination, limit)
}

// TestMerging: soft and hard targets, and purges of everything, in one delivery.
func TestMerging(t *testing.T) {
	inFleet(t, func(t *testing.T, f *fleet) {
		purge := func(hard bool, targets ...store.PurgeTarget) {
			t.Helper()
			if _, err := f.meta.Purge(t.Context(), store.Purge{Targets: targets, Hard: hard, Destinations: []string{"cdn"}}); err != nil {
				t.Fatal(err)
			}
		}
		site := store.PurgeTarget{Kind: store.PurgeSite}
		for _, test := range []struct {
			do   func()
			want string
		}{
			{func() { purge(false, tag("a"), tag("b")); purge(true, tag("b")) }, "hard: [tag b]; soft: [tag a]; "},
			{func() { purge(true, tag("a")); purge(false, tag("a")) }, "hard: [tag a]; "},
			{func() { purge(true, tag("a")); purge(false, site); purge(false, tag("b")) }, "hard: [tag a]; soft: [site]; "},
			{func() { purge(false, tag("a")); purge(true, site); purge(true, tag("b")) }, "hard: [site]; "},
		} {
			c := newCache(nil)
			test.do()
			w := f.worker(f.process(), c, downstream.Config{})
			after(time.Second)
			w.Close()
			got := ""
			for _, b := range c.batches {
				got += map[bool]string{true: "hard", false: "soft"}[b.Hard] + fmt.Sprintf(": %v; ", b.Targets)
			}
			if got != test.want {
				t.Errorf("delivered %q, want %q", got, test.want)
			}
		}
	})
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	_, err := downstream.Start(nil, map[string]downstream.Destination{"Bad Name": stuck{}}, downstream.Config{})
	if !errors.Is(err, store.ErrInvalidInput) {
		t.Errorf("Start: %v, want ErrInvalidInput", err)
	}
}
