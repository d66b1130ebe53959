package languages

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// longLease is a lease duration that does not expire during a test.
const longLease = int64(10 * time.Minute / time.Millisecond)

// bodyOf returns the body of a generation.
func bodyOf(id string) string { return fmt.Sprintf("<!doctype html><p>%s</p>\n", id) }

// generation returns an entry generated now with a freshness window of fresh seconds. The id
// must be unique within its page.
func generation(id string, fresh int64) *vocabulary.Entry {
	body := bodyOf(id)
	sum := sha256.Sum256([]byte(body))
	now := time.Now().Unix()
	return &vocabulary.Entry{
		BodyKey: "bodies/languages/" + id, GeneratedAt: now, GeneratedMS: now*1000 + 123, Revalidate: fresh, Stale: 3600,
		ETag: `"` + id + `"`, GenerationID: id, Key: "site.test/" + id, Status: http.StatusOK,
		Header: map[string][]vocabulary.HeaderValue{"content-type": {"text/html; charset=utf-8"}, "x-many": {"one", "two, três"}},
		SHA256: hex.EncodeToString(sum[:]), Length: int64(len(body)), Tags: []string{"news", "größe"},
	}
}

// at moves a generation to where isr serve looks it up.
func at(key string, e *vocabulary.Entry) *vocabulary.Entry {
	sum := sha256.Sum256([]byte(store.HashedPartition(store.Key{Text: key})))
	e.Key, e.BodyKey = key, "bodies/"+hex.EncodeToString(sum[:])+"/"+e.GenerationID
	return e
}

// acquire acquires the lease of a page for longer than the test.
func (w *worker) acquire(t *testing.T, key string, claimed *claim) lease {
	t.Helper()
	return ask[lease](t, w, command{Do: "acquire", Key: key, LeaseMS: longLease, Claim: claimed})
}

// regenerate publishes a generation under a lease, without history.
func (w *worker) regenerate(t *testing.T, key string, next *vocabulary.Entry) vocabulary.Entry {
	t.Helper()
	w.acquire(t, key, nil)
	return ask[vocabulary.Entry](t, w, command{Do: "publish", Key: key, Entry: next})
}

// keepVersion publishes a generation under a lease, with history.
func (w *worker) keepVersion(t *testing.T, key string, next *vocabulary.Entry) vocabulary.Entry {
	t.Helper()
	w.acquire(t, key, nil)
	return ask[vocabulary.Entry](t, w, command{Do: "publish", Key: key, Entry: next, History: true})
}

// agree expects all workers to read the same page, and returns it.
func (c *crew) agree(t *testing.T, key string) page {
	t.Helper()
	first := ask[page](t, c.workers[0], command{Do: "read", Key: key})
	for _, w := range c.workers[1:] {
		if diff := diffOf(first, ask[page](t, w, command{Do: "read", Key: key})); diff != "" {
			t.Errorf("%s: page read by %s (-) and %s (+):\n%s", key, c.workers[0].language, w.language, diff)
		}
	}
	return first
}

// diffOf compares answers. An omitted list equals an empty one.
func diffOf(want, got any) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.EquateComparable(netip.AddrPort{}))
}

// expectCurrent expects all workers to read this entry in this state, whichever language wrote
// it.
func (c *crew) expectCurrent(t *testing.T, key string, want vocabulary.Entry, state string) {
	t.Helper()
	p := c.agree(t, key)
	if p.Entry == nil {
		t.Errorf("%s: no entry (malformed: %+v), want %+v", key, p.Malformed, want)
		return
	}
	if diff := diffOf(want, *p.Entry); diff != "" || p.State != state {
		t.Errorf("%s: state %s, want %s; (-want +got):\n%s", key, p.State, state, diff)
	}
}
