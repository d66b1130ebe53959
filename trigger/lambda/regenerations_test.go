package lambda_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/facetheory/isr/trigger/lambda"
	"github.com/facetheory/isr/trigger/queue"
)

// A worker executes messages, and knows their order.
type worker struct {
	takes map[string]time.Duration
	fails map[string]bool

	mu       sync.Mutex
	executed []string // guarded by mu
}

func (w *worker) Execute(_ context.Context, m queue.Message) error {
	w.mu.Lock()
	w.executed = append(w.executed, m.ID)
	w.mu.Unlock()
	time.Sleep(w.takes[m.ID])
	if w.fails[m.ID] {
		return errors.New("the origin is down")
	}
	return nil
}

// batch returns an event with messages, whose first letter is their group.
func batch(arn string, ids ...string) (e events.SQSEvent) {
	for _, id := range ids {
		e.Records = append(e.Records, events.SQSMessage{MessageId: id, EventSourceARN: arn, Attributes: map[string]string{"MessageGroupId": id[:1]}})
	}
	return e
}

func (w *worker) run(t *testing.T, e events.SQSEvent) (failed []string) {
	t.Helper()
	for _, f := range lambda.Regenerations(w, slog.New(slog.DiscardHandler))(t.Context(), e).BatchItemFailures {
		failed = append(failed, f.ItemIdentifier)
	}
	return failed
}

// In a FIFO queue no message is begun after the first failure, and the first one that failed is
// returned with all that follow it: what AWS delivers again keeps its order. In another queue only
// those that failed are.
func TestOrderAfterAFailure(t *testing.T) {
	const fifo, plain = "arn:aws:sqs:eu-west-1:1:q.fifo", "arn:aws:sqs:eu-west-1:1:q"
	slow := map[string]time.Duration{"b1": time.Second} // it ends after the failure of another group
	for name, test := range map[string]struct {
		arn      string
		ids      []string
		fails    string
		executed []string // sorted
		returned []string
	}{
		"one group":                          {fifo, []string{"a1", "a2", "a3", "a4"}, "a2", []string{"a1", "a2"}, []string{"a2", "a3", "a4"}},
		"the last one":                       {fifo, []string{"a1", "a2"}, "a2", []string{"a1", "a2"}, []string{"a2"}},
		"none":                               {fifo, []string{"a1", "b1", "a2"}, "", []string{"a1", "a2", "b1"}, nil},
		"another group before":               {fifo, []string{"b1", "a1", "b2", "a2"}, "a1", []string{"a1", "b1"}, []string{"a1", "b2", "a2"}},
		"another group after, already begun": {fifo, []string{"a1", "b1", "a2", "b2"}, "a1", []string{"a1", "b1"}, []string{"a1", "b1", "a2", "b2"}},
		"without order":                      {plain, []string{"a1", "a2", "a3"}, "a2", []string{"a1", "a2", "a3"}, []string{"a2"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &worker{takes: slow, fails: map[string]bool{test.fails: true}}
				if test.fails == "a1" {
					// The slow message of the other group has begun when a1 fails.
					w.takes = map[string]time.Duration{"a1": 100 * time.Millisecond, "b1": time.Second}
				}
				returned := w.run(t, batch(test.arn, test.ids...))
				slices.Sort(w.executed)
				if !slices.Equal(w.executed, test.executed) || !slices.Equal(returned, test.returned) {
					t.Errorf("executed %q, returned %q; want %q and %q", w.executed, returned, test.executed, test.returned)
				}
			})
		})
	}
}
