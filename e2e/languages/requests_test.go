package languages

import (
	"encoding/json"
	"testing"

	"github.com/facetheory/isr/internal/vocabulary"
)

// The inputs of one request in three equivalent spellings, and the inputs of another.
var (
	sameInputs = []json.RawMessage{
		json.RawMessage(`{"path": "/größe", "tenant": "acme", "knobs": {"ttl": 60, "ratio": 1.5e1, "on": [true, null]}}`),
		json.RawMessage(`{"knobs":{"on":[true,null],"ratio":15,"ttl":6e1},"tenant":"acme","path":"/gr\u00f6\u00dfe"}`),
		json.RawMessage(`{"tenant":"\u0061cme","path":"/größe","knobs":{"ttl":60.0,"on":[true,null],"ratio":15.0}}`),
	}
	otherInputs = json.RawMessage(`{"tenant":"acme","path":"/other"}`)
)

// A request that one language starts is in progress for all, and refused by all for other
// inputs. All return its result. A failed request may be retried by any.
func requests(t *testing.T, c *crew) {
	for i, w := range c.workers {
		key := "site.test/requested-of/" + w.language
		claimed := func(n int) *claim { return &claim{Key: "order-1", Inputs: sameInputs[n%len(sameInputs)]} }
		held := w.acquire(t, key, claimed(i))
		c.inProgress(t, key, "order-1", held.ExpiresAt, claimed)
		c.set(t, pk(key), "REQ#order-1", "in_progress_until", number("1"))
		w.does(t, command{Do: "refresh", Key: key}) // refreshes the lease and the request record
		c.inProgress(t, key, "order-1", c.agree(t, key).Lock.ExpiresAt, claimed)
		next := generation("result-of-"+w.language, 600)
		ask[vocabulary.Entry](t, w, command{Do: "publish", Key: key, Entry: next, History: true})
		c.completed(t, key, *next, claimed)

		second := func(n int) *claim { return &claim{Key: "order-2", Inputs: sameInputs[n%len(sameInputs)]} }
		w.acquire(t, key, second(i))
		const failure = "the origin said no: größer als erlaubt"
		w.does(t, command{Do: "end_request", Key: key, Failure: failure})
		w.does(t, command{Do: "release", Key: key})
		if r := c.agreeOnRequest(t, key, "order-2"); r.Status != "FAILED" || r.Failure != failure || r.Until != 0 {
			t.Errorf("failed request record of %s: got %+v", w.language, r)
		}
		again := c.after(i, 1)
		again.acquire(t, key, second(i+1))
		w.does(t, command{Do: "end_request", Key: key, Failure: "of an attempt that was taken over"})
		result := generation("second-result-of-"+w.language, 600)
		ask[vocabulary.Entry](t, again, command{Do: "publish", Key: key, Entry: result})
		c.completed(t, key, *result, second)
	}
}

// inProgress expects all to find the request started, for every spelling of its inputs.
func (c *crew) inProgress(t *testing.T, key, name string, until int64, claimed func(int) *claim) {
	t.Helper()
	r := c.agreeOnRequest(t, key, name)
	if r.Status != "STARTED" || r.Until != until {
		t.Errorf("request record: got %+v, want STARTED until %d", r, until)
	}
	for n, w := range c.workers {
		got := w.refuses(t, "RequestInProgress", command{Do: "acquire", Key: key, LeaseMS: longLease, Claim: claimed(n)})
		if got.Until != until {
			t.Errorf("%s: in progress until %d, want %d", w.language, got.Until, until)
		}
		c.mismatched(t, w, key, name)
	}
}

// completed expects all to find the request completed by this generation.
func (c *crew) completed(t *testing.T, key string, by vocabulary.Entry, claimed func(int) *claim) {
	t.Helper()
	name := claimed(0).Key
	r := c.agreeOnRequest(t, key, name)
	if r.Status != "COMPLETED" || r.BodyKey != by.BodyKey || r.GenerationID != by.GenerationID || r.Until != 0 {
		t.Errorf("request record: got %+v, want COMPLETED by %s", r, by.GenerationID)
	}
	for n, w := range c.workers {
		got := w.refuses(t, "RequestCompleted", command{Do: "acquire", Key: key, LeaseMS: longLease, Claim: claimed(n)})
		if got.BodyKey != by.BodyKey || got.GenerationID != by.GenerationID {
			t.Errorf("%s: got the result %s of %s, want %s of %s", w.language, got.BodyKey, got.GenerationID, by.BodyKey, by.GenerationID)
		}
		c.mismatched(t, w, key, name)
	}
}

// mismatched expects the request to be refused for other inputs.
func (c *crew) mismatched(t *testing.T, w *worker, key, name string) {
	t.Helper()
	w.refuses(t, "RequestMismatch", command{Do: "acquire", Key: key, LeaseMS: longLease, Claim: &claim{Key: name, Inputs: otherInputs}})
}

// agreeOnRequest expects all to read the same request record, and returns it.
func (c *crew) agreeOnRequest(t *testing.T, key, name string) request {
	t.Helper()
	first := ask[*request](t, c.workers[0], command{Do: "request", Key: key, Request: name})
	if first == nil {
		t.Fatalf("no record of request %s of %s", name, key)
	}
	for _, w := range c.workers[1:] {
		if diff := diffOf(first, ask[*request](t, w, command{Do: "request", Key: key, Request: name})); diff != "" {
			t.Errorf("request record read by %s (-) and %s (+):\n%s", c.workers[0].language, w.language, diff)
		}
	}
	return *first
}
