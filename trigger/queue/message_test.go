package queue_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/sqs"

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

// sentIDs are the de-duplication ids of the messages that were sent.
type sentIDs []string

func (s *sentIDs) SendMessageBatch(_ context.Context, in *sqs.SendMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	for _, e := range in.Entries {
		*s = append(*s, *e.MessageDeduplicationId)
	}
	return &sqs.SendMessageBatchOutput{}, nil
}

// In a FIFO queue, requests that differ in what they ask for are different messages: one of them
// must not hold up the others for five minutes, such as the message of a page which was purged since.
// Those that ask for the same are one message, whenever and for whatever reason.
func TestNamesOfRequests(t *testing.T) {
	page := isr.StalePage{Key: store.Key{Tenant: "t", Text: "h/"}, Generation: "g", Fence: 2, PurgeSeq: 3, Failures: 4, Attempt: 5, Reason: "stale"}
	var got sentIDs
	now := time.Unix(1_800_000_000, 0)
	s := queue.NewSender(&got, "https://sqs/1/q.fifo", func() time.Time { return now })
	send := func(change func(*isr.StalePage)) string {
		t.Helper()
		p := page
		change(&p)
		if err := s.Send(t.Context(), p); err != nil {
			t.Fatal(err)
		}
		return got[len(got)-1]
	}
	seen := map[string]string{send(func(*isr.StalePage) {}): "the page"}
	for name, change := range map[string]func(*isr.StalePage){
		"tenant":     func(p *isr.StalePage) { p.Key.Tenant = "u" },
		"key":        func(p *isr.StalePage) { p.Key.Text = "h/2" },
		"generation": func(p *isr.StalePage) { p.Generation = "h" },
		"fence":      func(p *isr.StalePage) { p.Fence++ },
		"purge":      func(p *isr.StalePage) { p.PurgeSeq += 7 },
		"failures":   func(p *isr.StalePage) { p.Failures += 70 },
		"attempt":    func(p *isr.StalePage) { p.Attempt += 700 },
	} {
		id := send(change)
		if other, ok := seen[id]; ok {
			t.Errorf("with another %s the request is the same message as with %s", name, other)
		}
		seen[id] = name
	}
	now = now.Add(time.Minute)
	if id := send(func(p *isr.StalePage) { p.Reason = "purge" }); seen[id] != "the page" {
		t.Error("a minute later, for another reason, the same request is another message")
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
