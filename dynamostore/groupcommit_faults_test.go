package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/store"
)

// together pins several pages concurrently, and returns the errors. Pins read marks
// before they are queued; unpins do not.
func (r *rig) together(t *testing.T, store *dynamostore.Store, pages int, until time.Time, pks func(page int) string) []error {
	t.Helper()
	errs := make([]error, pages)
	var group sync.WaitGroup
	for page := range pages {
		read := r.readPage(t, pks(page))
		a := pageAssertion(page)
		a.PinnedUntil = until
		group.Go(func() { _, errs[page] = store.Pin(t.Context(), read, a) })
	}
	group.Wait()
	return errs
}

// TestGroupUnderFaults: under any faults each change gets its actual outcome, and is
// in the log once if it was committed.
func TestGroupUnderFaults(t *testing.T) {
	t.Parallel()
	ran, shared := false, 0
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		ran = true
		const pages = 5
		pks := func(page int) string { return fmt.Sprintf("%s-%d", pk, page) }
		for page := range pages {
			l, read := begin(t, r.store, pks(page))
			if _, err := r.store.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		for skip := range 3 { // SEQ, transactions
			from := r.sequence(t)
			r.api.arm(append(make([]fault, skip), plan...), false, nil)
			for page, err := range r.together(t, r.faulty, pages, time.Time{}, pks) {
				if err != nil {
					t.Errorf("page %d: %v", page, err)
				}
			}
			for _, in := range r.api.sent {
				if len(in.TransactItems) > 3 { // META, SEQ, LOG
					shared++
				}
			}
			r.api.deliver()
			if n := r.logged(t, from); n != pages {
				t.Errorf("the log has %d changes, want %d", n, pages)
			}
		}
	})
	if ran && shared == 0 {
		t.Error("no two changes shared a transaction")
	}
}

// TestGroupInOutage: if there are no replies any longer, the members return an
// unknown outcome, and a transaction that commits later commits as a whole.
func TestGroupInOutage(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, f := range []fault{lostRequest, lostReply, lastRequest} {
			r := newRig(t, db)
			const pages = 4
			pks := func(page int) string { return fmt.Sprintf("CACHE#%d", page) }
			for page := range pages {
				l, read := begin(t, r.store, pks(page))
				if _, err := r.store.Publish(t.Context(), l, read, r.entry("g1"), store.PublishOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			r.faulty = newStore(t, r.api, r.raw.name, dynamostore.Config{
				Now: r.clock.Now, RetryDelay: time.Millisecond, SettleTimeout: settleInOutage,
			})
			r.api.arm([]fault{none, f}, true, nil)
			unknown := 0
			for page, err := range r.together(t, r.faulty, pages, time.Time{}, pks) {
				if err == nil {
					t.Errorf("%v: page %d: no error", f, page)
				}
				if errors.Is(err, store.ErrUnknownOutcome) {
					unknown++
				}
			}
			r.api.deliver()
			if n := r.logged(t, 0); n != 0 && n > unknown {
				t.Errorf("%v: the log has %d changes, but only %d outcomes were unknown", f, n, unknown)
			}
			if unknown == 0 {
				t.Errorf("%v: no outcome was unknown", f)
			}
		}
	})
}

// TestSettledNeverCommitsLater: a transaction without a reply, which could not be
// repeated, cannot commit after its change has returned that it was not committed.
func TestSettledNeverCommitsLater(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.keep("g1")
		r.keep("g2")
		r.api.arm(append(make([]fault, rollbackReads), lastRequest, denied), false, nil)
		_, err := r.faulty.Rollback(t.Context(), r.read(), "g1", r.assertion())
		if err == nil || errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Rollback: %v, want a definite error", err)
		}
		r.api.deliver()
		if got, _ := r.current(t, pk); got != "g2" || r.logged(t, 0) != 0 {
			t.Errorf("current is %q, and the log tells of %d changes", got, r.logged(t, 0))
		}
	})
}

// A slowAPI holds transactions until they are released.
type slowAPI struct {
	dynamostore.API

	gate chan struct{} // each transaction receives one value
}

func (s *slowAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	select {
	case <-s.gate:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	return s.API.TransactWriteItems(ctx, in)
}

// heldUp returns a crowd whose first store sends its transactions through a gate.
func heldUp(t *testing.T, pages int) (*crowd, *dynamostore.Store, chan struct{}) {
	c := newCrowd(t, 0)
	c.publish(pages)
	gate := make(chan struct{})
	return c, newStore(t, &slowAPI{API: c.table.db, gate: gate}, c.table.name, dynamostore.Config{}), gate
}

// start pins a page in the background, until ctx ends.
func (c *crowd) start(ctx context.Context, store *dynamostore.Store, page int) <-chan error {
	c.t.Helper()
	read, err := c.near.Read(c.t.Context(), crowdPK(page))
	if err != nil {
		c.t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		_, err := store.Pin(ctx, read, pageAssertion(page))
		done <- err
	}()
	synctest.Wait()
	return done
}

// TestCallerLeavesQueue: a queued change is dropped if its caller leaves. A sent
// change is committed, and its caller gets the outcome.
func TestCallerLeavesQueue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, store, gate := heldUp(t, 3)
		ctx, leave := context.WithCancel(t.Context())
		sent := c.start(ctx, store, 0)
		queued := c.start(ctx, store, 1)
		stays := c.start(t.Context(), store, 2)
		leave()
		synctest.Wait()
		select {
		case err := <-queued:
			if !errors.Is(err, context.Canceled) {
				t.Errorf("the one in the queue: %v", err)
			}
		default:
			t.Error("the one in the queue still waits")
		}
		close(gate)
		if err := <-sent; err != nil {
			t.Errorf("the one that was sent: %v", err)
		}
		if err := <-stays; err != nil {
			t.Errorf("the one that stayed: %v", err)
		}
		if read, err := c.near.Read(t.Context(), crowdPK(1)); err != nil || !read.Entry.PinnedUntil.IsZero() {
			t.Errorf("the page of the one that left: %+v, %v", read.Entry, err)
		}
	})
}

// TestQueueIsBounded: during an outage queued changes fail after SettleTimeout, and
// sent ones after SettleTimeout and the settlement. The committing goroutine ends, as
// synctest requires.
func TestQueueIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, meta, _ := heldUp(t, 4)
		began := time.Now()
		sent := c.start(t.Context(), meta, 0)
		var queued []<-chan error
		for page := range 3 {
			queued = append(queued, c.start(t.Context(), meta, page+1))
		}
		for _, done := range queued {
			if err := <-done; err == nil || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("in the queue: %v", err)
			}
		}
		if took := time.Since(began); took != 15*time.Second {
			t.Errorf("they waited for %v", took)
		}
		if err := <-sent; !errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("sent: %v, want ErrUnknownOutcome", err)
		}
		if took := time.Since(began); took != 30*time.Second {
			t.Errorf("it waited for %v", took)
		}
	})
}

// TestBadChangeInGroup: a change whose page has moved fails, and the others of its
// transaction are committed; so it is with two changes of one page.
func TestBadChangeInGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c, meta, gate := heldUp(t, 4)
		first := c.start(t.Context(), meta, 0)
		var waiting []<-chan error
		for _, page := range []int{1, 2, 3, 2} {
			waiting = append(waiting, c.start(t.Context(), meta, page))
		}
		c.pin(c.near, 1) // by another process
		close(gate)
		if err := <-first; err != nil {
			t.Errorf("the first change: %v", err)
		}
		for i, want := range []error{store.ErrMoved, nil, nil, store.ErrMoved} {
			if err := <-waiting[i]; !errors.Is(err, want) || want == nil && err != nil {
				t.Errorf("change %d: %v, want %v", i, err, want)
			}
		}
		// One of the other process, which refuses the first change, and one of the three
		// changes that are then sent together.
		if rows := c.wantLogged(4); rows != 2 {
			t.Errorf("the log has %d rows, want 2", rows)
		}
	})
}

// TestTooLargeChangeInGroup: a change that makes DynamoDB reject the whole
// transaction fails alone.
func TestTooLargeChangeInGroup(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		pks := func(page int) string { return fmt.Sprintf("CACHE#%d", page) }
		for page := range 4 {
			l, read := begin(t, r.store, pks(page))
			next := r.entry("g1")
			next.PinnedUntil = time.Time{}
			_, err := r.store.Publish(t.Context(), l, read, next, store.PublishOptions{})
			for size := 409_600; page == 2 && (size == 409_600 || err != nil); size -= 4 {
				// Of the maximum item size, so that a pin does not fit.
				next.Header = http.Header{"X-Large": {strings.Repeat("x", size)}}
				l, read := begin(t, r.store, pks(page))
				if _, err = r.store.Publish(t.Context(), l, read, next, store.PublishOptions{}); err != nil {
					if err := r.store.Release(t.Context(), l); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		gate := make(chan struct{})
		meta := newStore(t, &slowAPI{API: db, gate: gate}, r.raw.name, dynamostore.Config{Now: r.clock.Now})
		go func() {
			time.Sleep(100 * time.Millisecond) // so that most of them share a transaction
			close(gate)
		}()
		for page, err := range r.together(t, meta, 4, store.Forever(), pks) {
			if (err != nil) != (page == 2) {
				t.Errorf("page %d: %v", page, err)
			}
		}
		if n := r.logged(t, 0); n != 3 {
			t.Errorf("the log tells of %d changes, want 3", n)
		}
	})
}

// A contestedAPI makes transactions that update items with a key fail for a while.
type contestedAPI struct {
	dynamostore.API

	attribute, value string // of the key
	code             string // of the cancellation
	until            time.Time
}

func (c *contestedAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	reasons, contested := make([]types.CancellationReason, len(in.TransactItems)), false
	for i, item := range in.TransactItems {
		reasons[i].Code = aws.String("None")
		if item.Update != nil && item.Update.Key[c.attribute].(*types.AttributeValueMemberS).Value == c.value {
			reasons[i].Code, contested = aws.String(c.code), true
		}
	}
	if contested && time.Now().Before(c.until) {
		return nil, &types.TransactionCanceledException{CancellationReasons: reasons}
	}
	return c.API.TransactWriteItems(ctx, in)
}

// TestContestedChangeInGroup: a change of a hot page does not delay the changes of
// other pages, and is committed in the end. Conflicts on SEQ delay all.
func TestContestedChangeInGroup(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const busy = 5 * time.Second
		c := newCrowd(t, 0)
		c.publish(20)
		api := &contestedAPI{API: c.table.db, attribute: "pk", value: crowdPK(3), code: "TransactionConflict", until: time.Now().Add(busy)}
		store := newStore(t, api, c.table.name, dynamostore.Config{})
		began := time.Now()
		took := make([]time.Duration, 20)
		var group sync.WaitGroup
		for page := range 20 {
			group.Go(func() {
				c.pin(store, page)
				took[page] = time.Since(began)
			})
		}
		group.Wait()
		c.wantLogged(20)
		for page, d := range took {
			if page == 3 && (d < busy || d > busy+2*time.Second) || page != 3 && d > time.Second {
				t.Errorf("page %d took %v", page, d)
			}
		}
		api.value, api.until = "PURGE", time.Now().Add(busy)
		began = time.Now()
		read, err := c.near.Read(t.Context(), crowdPK(0))
		if err == nil {
			_, err = store.Pin(t.Context(), read, pageAssertion(0))
		}
		if d := time.Since(began); err != nil || d < busy {
			t.Errorf("with conflicts on SEQ: %v after %v", err, d)
		}
	})
}

// TestExpiredTokenAfterFreeze: a transaction whose reply was lost is not repeated if
// the machine slept for longer than DynamoDB remembers its token. Its outcome is read
// from the log.
func TestExpiredTokenAfterFreeze(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, f := range []fault{lostRequest, lostReply} {
			r := newRig(t, db)
			r.publish(r.entry("g1"))
			tokens := make(map[string]int)
			r.api.arm([]fault{none, f}, false, func(n int) {
				if n == 2 {
					r.clock.Advance(9 * time.Minute)
				}
			})
			_, err := r.faulty.Pin(t.Context(), r.read(), r.assertion()) // unpins: no marks
			if (err == nil) != (f == lostReply) || errors.Is(err, store.ErrUnknownOutcome) {
				t.Errorf("%v: %v", f, err)
			}
			for _, in := range r.api.sent {
				if tokens[*in.ClientRequestToken]++; tokens[*in.ClientRequestToken] > 1 {
					t.Errorf("%v: a request was repeated after the freeze", f)
				}
			}
			r.api.deliver()
			if n := r.logged(t, 0); (n == 1) != (err == nil) {
				t.Errorf("%v: %v, and the log tells of %d changes", f, err, n)
			}
		}
	})
}

// TestPublishOverPinUnderFaults: a publish that ends a pin succeeds, and is in the
// log once.
func TestPublishOverPinUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		how := store.PublishOptions{Unpin: true, Key: r.assertion().Key}
		for i, id := range []string{"g3", "g4"} {
			how.History = i == 1
			a := r.assertion()
			a.PinnedUntil = store.Forever()
			if _, err := r.store.Pin(t.Context(), r.readPage(t, pk), a); err != nil {
				t.Fatal(err)
			}
			from := r.sequence(t)
			l, read := begin(t, r.faulty, pk)
			r.api.arm(append([]fault{none}, plan...), false, nil) // SEQ, then the transaction
			if _, err := r.faulty.Publish(t.Context(), l, read, r.entry(id), how); err != nil {
				t.Errorf("Publish %s: %v", id, err)
			}
			r.api.deliver()
			if got, _ := r.current(t, pk); got != id {
				t.Errorf("current is %q, want %s", got, id)
			}
			if n := r.logged(t, from); n != 1 {
				t.Errorf("the log tells of %d changes, want 1", n)
			}
		}
	})
}

// TestPublishOverPinContended: other changes of the log cost a publish over a pin
// another attempt, which reads SEQ after the pause.
func TestPublishOverPinContended(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		r := newRig(t, db)
		r.publish(r.entry("g1"))
		a := r.assertion()
		a.PinnedUntil = store.Forever()
		if _, err := r.store.Pin(t.Context(), r.read(), a); err != nil {
			t.Fatal(err)
		}
		l, read := begin(t, r.store, "CACHE#other")
		if _, err := r.store.Publish(t.Context(), l, read, r.entry("o1"), store.PublishOptions{}); err != nil {
			t.Fatal(err)
		}
		l, read = begin(t, r.faulty, pk)
		r.api.arm(nil, false, func(n int) {
			if n == 2 || n == 4 { // transactions
				if _, err := r.store.Pin(t.Context(), r.readPage(t, "CACHE#other"), r.assertion()); err != nil {
					t.Error(err)
				}
			}
		})
		if _, err := r.faulty.Publish(t.Context(), l, read, r.entry("g2"), store.PublishOptions{Unpin: true, Key: a.Key}); err != nil || len(r.api.sent) != 3 {
			t.Errorf("Publish: %v, after %d requests; want 3", err, len(r.api.sent))
		}
		if n := r.logged(t, 0); n != 4 {
			t.Errorf("the log tells of %d changes, want 4", n)
		}
	})
}
