package queue_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger/queue"
)

// The example of the specification is a request as it is sent.
func TestExampleOfTheSpecification(t *testing.T) {
	text, err := os.ReadFile("../../spec/regenerations.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(text), "```json\n")
	example, _, _ = strings.Cut(example, "\n")
	got, err := queue.ParseRequest([]byte(example))
	if err != nil {
		t.Fatal(err)
	}
	want := queue.NewRequest(isr.StalePage{Key: store.Key{Text: "example.com/news"}, Generation: "0001956f3a2b41d2-QX7", Fence: 7, Reason: "stale", Attempt: 1}, time.Date(2026, 11, 24, 6, 0, 0, 999, time.UTC))
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if sent, err := json.Marshal(want); err != nil || string(sent) != example {
		t.Errorf("sent as %s, %v", sent, err)
	}
}

// Any body is refused or parsed to a request that is sent as what parses to the same.
func FuzzRequest(f *testing.F) {
	f.Add([]byte(request("h/")))
	f.Add([]byte(`{"v":1,"key":"h/","tenant":"t","reason":"warm","force":true,"created":"2026-11-24T06:00:00Z"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		r, err := queue.ParseRequest(body)
		if err != nil {
			return
		}
		sent, err := json.Marshal(r)
		if err != nil {
			t.Skip() // a year that RFC 3339 does not have
		}
		if again, err := queue.ParseRequest(sent); len(sent) <= queue.MaxRequest && (err != nil || again.Key != r.Key || again.Attempt != r.Attempt) {
			t.Errorf("%s: %+v, %v", sent, again, err)
		}
	})
}
