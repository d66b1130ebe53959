package dynamostore_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// purgedAt returns the sequences at which the log tells of a purge of a tag.
func (r *rig) purgedAt(t *testing.T, after int64, tag string) (seqs []int64) {
	t.Helper()
	for {
		_, changes, err := r.store.Changes(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if len(changes) == 0 {
			return seqs
		}
		for _, change := range changes {
			after = change.Seq
			if slices.ContainsFunc(change.Marks, func(m store.Mark) bool { return m.Target.Value == tag }) {
				seqs = append(seqs, change.Seq)
			}
		}
	}
}

// purgedTogether purges tags concurrently: one each, and one that all have in common.
func purgedTogether(ctx context.Context, s *dynamostore.Store, prefix string) (receipts [3]store.Receipt, errs [3]error) {
	var group sync.WaitGroup
	for i := range receipts {
		group.Go(func() {
			p := tagsOf(fmt.Sprint(prefix, i), prefix)
			p.Hard = i == 0
			receipts[i], errs[i] = s.Purge(ctx, p)
		})
	}
	group.Wait()
	return receipts, errs
}

// TestPurgeUnderFaults: under any faults a purge is committed once, and its receipt has the
// sequence of that commit.
func TestPurgeUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		for skip := range 3 { // SEQ, transactions
			from, prefix := r.sequence(t), fmt.Sprint(pk, "-", skip, "-")
			r.api.arm(append(make([]fault, skip), plan...), false, nil)
			receipts, errs := purgedTogether(t.Context(), r.faulty, prefix)
			r.api.deliver()
			for i, err := range errs {
				if err != nil {
					t.Errorf("purge %d: %v", i, err)
				}
				if got := r.purgedAt(t, from, fmt.Sprint(prefix, i)); !slices.Equal(got, []int64{receipts[i].Seq}) {
					t.Errorf("purge %d has the receipt %d, and is in the log at %v", i, receipts[i].Seq, got)
				}
			}
			state, err := r.store.Covering(t.Context(), store.Key{Text: "example.com/"}, []string{prefix})
			if newest := max(receipts[0].Seq, receipts[1].Seq, receipts[2].Seq); err != nil || state.Seq != newest || state.HardSeq != receipts[0].Seq && state.HardSeq != newest {
				t.Errorf("the mark of all is %+v, %v; the receipts %+v", state, err, receipts)
			}
		}
	})
}

// TestPurgeCancelled: a purge whose caller leaves is committed if and only if it returns a
// receipt.
func TestPurgeCancelled(t *testing.T) {
	t.Parallel()
	onCalls(t, 1, 4, fewPlans, func(t *testing.T, r *rig, pk string, plan []fault, leaves int) {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		from := r.sequence(t)
		r.api.arm(append([]fault{none}, plan...), false, func(n int) {
			if n == leaves {
				leave()
			}
		})
		receipt, err := r.faulty.Purge(ctx, tagsOf(pk))
		if errors.Is(err, store.ErrUnknownOutcome) {
			t.Errorf("Purge: %v, which is not so", err)
		}
		r.api.deliver()
		got := r.purgedAt(t, from, pk)
		if (err == nil) != slices.Equal(got, []int64{receipt.Seq}) || err != nil && len(got) != 0 {
			t.Errorf("Purge: %+v, %v, and it is in the log at %v", receipt, err, got)
		}
	})
}

// TestPurgeSettled: a purge whose reply was lost, and which cannot be repeated, is settled
// by the log: its receipt has the sequence that was committed, and one that was not
// committed never is.
func TestPurgeSettled(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, f := range []fault{lostReply, lastRequest} {
			r := newRig(t, db)
			for range 3 {
				if _, err := r.store.Purge(t.Context(), tagsOf("other")); err != nil {
					t.Fatal(err)
				}
			}
			r.api.arm([]fault{none, f, denied}, false, nil)
			receipt, err := r.faulty.Purge(t.Context(), tagsOf("news"))
			r.api.deliver()
			got := r.purgedAt(t, 0, "news")
			switch {
			case errors.Is(err, store.ErrUnknownOutcome):
				t.Errorf("%v: %v, want a definite outcome", f, err)
			case f == lostReply && (err != nil || receipt.Seq != 4 || !slices.Equal(got, []int64{4})):
				t.Errorf("%v: %+v, %v, in the log at %v", f, receipt, err, got)
			case f == lastRequest && (err == nil || len(got) != 0):
				t.Errorf("%v: %+v, %v, in the log at %v", f, receipt, err, got)
			}
		}
	})
}

// TestPurgeInOutage: without any reply the outcome is unknown, and a purge that commits
// later commits as a whole.
func TestPurgeInOutage(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for _, f := range []fault{lostRequest, lostReply, lastRequest} {
			r := newRig(t, db)
			r.faulty = newStore(t, r.api, r.raw.name, dynamostore.Config{
				Now: r.clock.Now, RetryDelay: time.Millisecond, SettleTimeout: settleInOutage,
			})
			r.api.arm([]fault{none, f}, true, nil)
			_, errs := purgedTogether(t.Context(), r.faulty, "all")
			r.api.deliver()
			for i, err := range errs {
				logged := len(r.purgedAt(t, 0, fmt.Sprint("all", i))) > 0
				if err == nil || logged && !errors.Is(err, store.ErrUnknownOutcome) {
					t.Errorf("%v: purge %d: %v, in the log: %t", f, i, err, logged)
				}
			}
			if !slices.ContainsFunc(errs[:], func(err error) bool { return errors.Is(err, store.ErrUnknownOutcome) }) {
				t.Errorf("%v: no outcome was unknown: %v", f, errs)
			}
		}
	})
}

// TestPurgeDuringWrites: a hard purge before any call of a rollback, a renewed pin or a
// publish either refuses it, or covers its result.
func TestPurgeDuringWrites(t *testing.T) {
	t.Parallel()
	db := localDynamo(t)
	for name, write := range map[string]func(*rig) (store.Entry, error){
		"rollback": func(r *rig) (store.Entry, error) {
			return r.faulty.Rollback(t.Context(), r.read(), "g1", r.assertion())
		},
		"renewed pin": func(r *rig) (store.Entry, error) {
			return r.faulty.RenewPin(t.Context(), r.read(), r.assertion().Key, r.clock.Now())
		},
		"publish": func(r *rig) (store.Entry, error) {
			l := r.acquire()
			read := r.read()
			next := r.entry("g3")
			next.PurgeSeq = r.sequence(t)
			return r.faulty.Publish(t.Context(), l, read, next, store.PublishOptions{History: true})
		},
	} {
		for _, target := range []store.PurgeTarget{
			{Kind: store.PurgeKey, Tenant: "t1", Value: "example.com/", PK: pk},
			{Kind: store.PurgeTag, Tenant: "t1", Value: "news"},
			{Kind: store.PurgeSite},
		} {
			for call := 1; ; call++ {
				r := newRig(t, db)
				for _, id := range []string{"g1", "g2"} {
					next := r.entry(id)
					next.PurgeSeq, next.PinnedUntil = 0, time.Time{}
					if id == "g2" && name == "renewed pin" {
						next.PinnedUntil = store.Forever()
					}
					l := r.acquire()
					if _, err := r.store.Publish(t.Context(), l, r.read(), next, store.PublishOptions{History: true}); err != nil {
						t.Fatal(err)
					}
				}
				var receipt store.Receipt
				r.api.arm(nil, false, func(n int) {
					if n == call {
						var err error
						if receipt, err = r.store.Purge(t.Context(), store.Purge{Targets: []store.PurgeTarget{target}, Hard: true}); err != nil {
							t.Error(err)
						}
					}
				})
				got, err := write(r)
				if receipt.Seq == 0 {
					break // there are fewer calls
				}
				refused := errors.Is(err, store.ErrPurged)
				if err != nil && !refused || err == nil && got.PurgeSeq >= receipt.Seq {
					t.Errorf("%s, purge of the %s before call %d: the sequence %d of %d, %v", name, target, call, got.PurgeSeq, receipt.Seq, err)
				}
			}
		}
	}
}

// TestThrottledMark: a mark that is throttled delays the purges of it, which are committed
// in the end, and no others.
func TestThrottledMark(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const busy = 5 * time.Second
		c := newCrowd(t, 0)
		if _, err := c.near.Purge(t.Context(), tagsOf("tag-0")); err != nil {
			t.Fatal(err)
		}
		api := &contestedAPI{API: c.table.db, attribute: "sk", value: c.onlyMark(), code: "ThrottlingError", until: time.Now().Add(busy)}
		s := newStore(t, api, c.table.name, dynamostore.Config{})
		began := time.Now()
		took := make([]time.Duration, 20)
		var group sync.WaitGroup
		for i := range took {
			group.Go(func() {
				if _, err := s.Purge(t.Context(), tagsOf(fmt.Sprintf("tag-%d", i/2))); err != nil {
					t.Errorf("purge %d: %v", i, err)
				}
				took[i] = time.Since(began)
			})
		}
		group.Wait()
		for i, d := range took {
			if throttled := i/2 == 0; throttled && (d < busy || d > busy+2*time.Second) || !throttled && d > time.Second {
				t.Errorf("purge %d took %v", i, d)
			}
		}
	})
}

// onlyMark returns the sort key of the only mark.
func (c *crowd) onlyMark() string {
	c.t.Helper()
	out, err := c.table.db.Scan(c.t.Context(), &dynamodb.ScanInput{
		TableName: &c.table.name, FilterExpression: aws.String("begins_with(sk, :mark)"),
		ExpressionAttributeValues: attrs{":mark": str("MARK#")},
	})
	if err != nil || len(out.Items) != 1 {
		c.t.Fatalf("%d marks, %v", len(out.Items), err)
	}
	return out.Items[0]["sk"].(*types.AttributeValueMemberS).Value
}

// TestBuildUnderFaults: a build is deployed once, and all processes get its sequence.
func TestBuildUnderFaults(t *testing.T) {
	t.Parallel()
	onFewPlans(t, func(t *testing.T, r *rig, pk string, plan []fault) {
		for skip := range 3 { // BUILD, SEQ, the transaction
			id, from := fmt.Sprint(pk, skip), r.sequence(t)
			r.api.arm(append(make([]fault, skip), plan...), false, nil)
			seq, err := r.faulty.Build(t.Context(), id)
			r.api.deliver()
			again, err2 := r.store.Build(t.Context(), id)
			if err != nil || err2 != nil || seq != again || seq <= from {
				t.Errorf("Build: %d, %v, then %d, %v; before it the sequence was %d", seq, err, again, err2, from)
			}
		}
	})
}
