package spec_test

import (
	"errors"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

type leaseVector struct {
	Name      string `json:"name"`
	Now       int64  `json:"now_ms"`
	Duration  int64  `json:"lease_duration_ms"`
	Granted   int64  `json:"duration_seconds"`
	ExpiresAt int64  `json:"lease_expires_at"`
	TTL       int64  `json:"ttl"`
}

type backOffVector struct {
	Name           string `json:"name"`
	Now            int64  `json:"now_ms"`
	Pause          int64  `json:"pause_ms"`
	FailuresBefore int64  `json:"failures_before,omitempty"`
	ExpiresAt      int64  `json:"lease_expires_at"`
	TTL            int64  `json:"ttl"`
	Failures       int64  `json:"failures"`
}

type lockVector struct {
	Name string `json:"name"`
	Item item   `json:"item"`
	Now  int64  `json:"now_ms"`
	Held bool   `json:"held"`
	Lock *lock  `json:"lock"`
}

type requestVector struct {
	Name     string `json:"name"`
	Now      int64  `json:"now_ms"`
	Duration int64  `json:"lease_duration_ms"`
	Keep     int64  `json:"keep_seconds"`
	Until    int64  `json:"in_progress_until"`
	TTL      int64  `json:"ttl"`
}

type supersededVector struct {
	Name       string `json:"name"`
	Now        int64  `json:"now_ms"`
	Superseded int64  `json:"superseded_at,omitempty"`
	TTL        int64  `json:"ttl,omitempty"`
	VersionTTL int64  `json:"version_ttl"`
}

func TestLeaseArithmetic(t *testing.T) {
	type file struct {
		Leases     []leaseVector      `json:"leases"`
		BackOffs   []backOffVector    `json:"back_offs"`
		Locks      []lockVector       `json:"locks"`
		Requests   []requestVector    `json:"requests"`
		Superseded []supersededVector `json:"superseded"`
	}
	run(t, "lease-arithmetic.json", func(f *file) {
		for i := range f.Leases {
			f.Leases[i].answer(t)
		}
		for i := range f.BackOffs {
			f.BackOffs[i].answer(t)
		}
		for i := range f.Locks {
			f.Locks[i].answer(t)
		}
		for i := range f.Requests {
			f.Requests[i].answer(t)
		}
		for i := range f.Superseded {
			f.Superseded[i].answer(t)
		}
	})
}

// answer acquires the lease and refreshes it at the same instant, which must not
// change the row.
func (v *leaseVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, v.Now)
	l := tb.acquire(v.Duration, nil)
	lock := tb.get(partitionKey(), "LOCK")
	v.Granted = int64(l.Duration() / time.Second)
	v.ExpiresAt, v.TTL = tb.number(lock, "lease_expires_at"), tb.number(lock, "ttl")
	if err := tb.store.Refresh(tb.ctx(), l); err != nil {
		t.Errorf("%s: refresh: %v", v.Name, err)
	}
	refreshed := tb.get(partitionKey(), "LOCK")
	if at := tb.number(refreshed, "lease_expires_at"); at != v.ExpiresAt {
		t.Errorf("%s: lease_expires_at after the refresh: %d", v.Name, at)
	}
}

func (tb *table) acquire(durationMS int64, claim *store.Claim) store.Lease {
	tb.t.Helper()
	l, err := tb.store.Acquire(tb.ctx(), partitionKey(), milliseconds(durationMS), claim)
	if err != nil {
		tb.t.Fatal(err)
	}
	return l
}

func (v *backOffVector) answer(t *testing.T) {
	t.Helper()
	var before []item
	if v.FailuresBefore > 0 {
		before = append(before, item{
			"pk": text(partitionKey()), "sk": text("LOCK"),
			"lease_expires_at": number(1), "failures": number(v.FailuresBefore),
		})
	}
	tb := newTable(t, v.Now, before...)
	l := tb.acquire(30_000, nil)
	if err := tb.store.BackOff(tb.ctx(), l, milliseconds(v.Pause)); err != nil {
		t.Fatal(err)
	}
	lock := tb.get(partitionKey(), "LOCK")
	v.ExpiresAt, v.TTL, v.Failures = tb.number(lock, "lease_expires_at"), tb.number(lock, "ttl"), tb.number(lock, "failures")
}

func (v *lockVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, v.Now)
	if v.Item != nil {
		tb.put(v.Item)
	}
	rec := tb.read()
	if rec.Malformed != nil {
		t.Errorf("%s: %v", v.Name, rec.Malformed)
	}
	v.Lock = lockOf(rec.Lock)
	_, err := tb.store.Acquire(tb.ctx(), partitionKey(), 30*time.Second, nil)
	_, v.Held = errors.AsType[*store.HeldError](err)
	if err != nil && !v.Held {
		t.Errorf("%s: %v", v.Name, err)
	}
	// With a claim, Acquire reads the row first, and must come to the same decision.
	tb = newTable(t, v.Now)
	if v.Item != nil {
		tb.put(v.Item)
	}
	_, err = tb.store.Acquire(tb.ctx(), partitionKey(), 30*time.Second, &store.Claim{Key: "r", Hash: "h", Keep: time.Hour})
	if _, held := errors.AsType[*store.HeldError](err); held != v.Held || err != nil && !held {
		t.Errorf("%s: with a claim: %v", v.Name, err)
	}
}

func (v *requestVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, v.Now)
	tb.acquire(v.Duration, &store.Claim{Key: "r", Hash: "h", Keep: seconds(v.Keep)})
	row := tb.get(partitionKey(), "REQ#r")
	v.Until, v.TTL = tb.number(row, "in_progress_until"), tb.number(row, "ttl")
}

func (v *supersededVector) answer(t *testing.T) {
	t.Helper()
	tb := newTable(t, v.Now)
	for _, id := range []string{"g1", "g2"} {
		next := goodEntry()
		next.GenerationID, next.TTL = id, v.TTL
		how := store.PublishOptions{History: true, Superseded: vocabulary.Moment(v.Superseded)}
		if _, err := tb.store.Publish(tb.ctx(), tb.acquire(30_000, nil), tb.read(), next.ISR(), how); err != nil {
			t.Fatal(err)
		}
	}
	v.VersionTTL = tb.number(tb.get(partitionKey(), "VER#g1"), "ttl")
}

// goodEntry returns an entry that can be published.
func goodEntry() vocabulary.Entry {
	return vocabulary.Entry{
		BodyKey: "bodies/x/g1", GeneratedAt: 1_800_000_000, Revalidate: 60, GenerationID: "g1",
		Key: cacheKey, Status: 200, Length: 5,
	}
}
