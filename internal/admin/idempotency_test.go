package admin_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/admin"
)

// named sends a regenerate request with idempotency keys.
func (f *fixture) named(body string, keys ...string) answer {
	f.t.Helper()
	req, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.open.URL+"/-/regenerate", strings.NewReader(body))
	if err != nil {
		f.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for _, key := range keys {
		req.Header.Add("Idempotency-Key", key)
	}
	return f.send(req)
}

func (f *fixture) regenerated(a answer) (r admin.Regenerated) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(a.text), &r); err != nil || a.status != http.StatusOK {
		f.t.Fatalf("%d %s: %v", a.status, a.text, err)
	}
	return r
}

func TestRequestWithIdempotencyKeyIsExecutedOnce(t *testing.T) {
	f := newFixture(t)
	renders := 0
	f.render = func(w http.ResponseWriter, _ *http.Request) {
		renders++
		page(w, fmt.Sprintf("render %d", renders))
	}
	const body = `{"key":"example.com/"}`
	first := f.regenerated(f.named(body, "order-42"))
	if first.Replayed {
		t.Error("the first request is a replay")
	}
	// The same page by its URL, and the key in quotes: it is the same request.
	for _, again := range []answer{f.named(body, "order-42"), f.named(`{"url":"http://example.com/"}`, `"order-42"`)} {
		if r := f.regenerated(again); !r.Replayed || r.Generation != first.Generation {
			t.Errorf("again: %+v; want %s, replayed", r, first.Generation)
		}
	}
	if r := f.regenerated(f.named(body, "order-43")); r.Replayed || r.Generation == first.Generation {
		t.Errorf("another request: %+v", r)
	}
	if r := f.regenerated(f.named(body, "order-42")); !r.Replayed || r.Generation != first.Generation {
		t.Errorf("the first, though another is current: %+v; want %s, replayed", r, first.Generation)
	}
	in := admin.Regenerate{Target: target("example.com/"), IdempotencyKey: "order-42"}
	if r, err := f.client().Regenerate(t.Context(), in); err != nil || !r.Replayed {
		t.Errorf("by the client: %+v, %v", r, err)
	}
	for range 3 { // it is kept no longer
		f.regenerated(f.named(body))
	}
	if a := f.named(body, "order-42"); a.status != 410 || a.code != "result_gone" {
		t.Errorf("the result is gone: %d %s", a.status, a.text)
	}
}

func TestIdempotencyKeyWithOtherInputsIsRefused(t *testing.T) {
	f := newFixture(t)
	f.regenerated(f.named(`{"key":"example.com/"}`, "order-42"))
	if a := f.named(`{"key":"example.com/","unpin":true}`, "order-42"); a.status != 422 || a.code != "key_reused" {
		t.Errorf("%d %s", a.status, a.text)
	}
	for _, keys := range [][]string{{""}, {"two words"}, {strings.Repeat("k", 257)}, {"a", "b"}, {`""`}} {
		if a := f.named(`{"key":"example.com/"}`, keys...); a.status != 400 || a.code != "invalid_request" || !strings.Contains(a.text, "Idempotency-Key") {
			t.Errorf("%q: %d %s", keys, a.status, a.text)
		}
	}
}

func TestFailedRequestWithIdempotencyKeyIsExecutedAgain(t *testing.T) {
	f := newFixture(t)
	f.render = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) }
	if a := f.named(`{"key":"example.com/"}`, "order-42"); a.code != "regeneration_failed" {
		t.Fatalf("%d %s", a.status, a.text)
	}
	if _, err := f.client().ReleaseLease(t.Context(), target("example.com/")); err != nil { // the back-off
		t.Fatal(err)
	}
	f.render = func(w http.ResponseWriter, _ *http.Request) { page(w, "well again") }
	if r := f.regenerated(f.named(`{"key":"example.com/"}`, "order-42")); r.Replayed {
		t.Errorf("%+v; want that it is carried out", r)
	}
}

// A request that another server is executing is not executed twice.
func TestRequestWithIdempotencyKeyInProgress(t *testing.T) {
	f := newFixture(t)
	const body = `{"key":"example.com/","unpin":false}`
	inputs := map[string]any{"tenant": "", "key": "example.com/", "unpin": false}
	err := f.holding("example.com/", func() {
		a := f.named(body, "order-42")
		if a.status != 409 || a.code != "in_progress" || a.header.Get("Retry-After") != "5" {
			t.Errorf("%d %s", a.status, a.text)
		}
	}, isr.WithIdempotencyKey("order-42"), isr.WithInputs(inputs))
	if err != nil {
		t.Errorf("the leader: %v", err)
	}
	if r := f.regenerated(f.named(body, "order-42")); !r.Replayed {
		t.Errorf("afterwards: %+v; want what the other has published", r)
	}
}

func TestIdempotencyKeyIsInTheDocument(t *testing.T) {
	f := newFixture(t)
	parameters, _ := at(f.doc, "paths", "/-/regenerate", "post", "parameters").([]any)
	if len(parameters) != 1 || at(parameters[0], "name") != "Idempotency-Key" || at(parameters[0], "in") != "header" {
		t.Errorf("the parameters of POST /-/regenerate are %v", parameters)
	}
}
