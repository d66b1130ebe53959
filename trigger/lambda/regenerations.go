package lambda

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/aws/aws-lambda-go/events"

	"github.com/facetheory/isr/trigger/queue"
)

// Regenerations returns the handler of a queue of regenerations: it executes messages as a
// [queue.Consumer] does, each once. The event source mapping needs ReportBatchItemFailures: failed
// messages are delivered again, up to the redrive policy of the queue.
//
// In a FIFO queue, no message is begun after the first failure, and it is returned with all that
// follow it, as AWS demands (Lambda Developer Guide, "Handling errors for an SQS event source"):
// some of these may have been executed, and do nothing then.
//
// Logger receives one line for each message that failed. It is safe for concurrent use.
func Regenerations(handler queue.Handler, log *slog.Logger) func(context.Context, events.SQSEvent) events.SQSEventResponse {
	return func(ctx context.Context, e events.SQSEvent) events.SQSEventResponse {
		fifo := slices.ContainsFunc(e.Records, func(r events.SQSMessage) bool { return queue.IsFIFO(r.EventSourceARN) })
		failed := make([]bool, len(e.Records))
		var first atomic.Bool // a message of a FIFO queue has failed
		var each sync.WaitGroup
		lanes := queue.Lanes(len(e.Records), func(i int) string { return e.Records[i].Attributes["MessageGroupId"] })
		for _, lane := range lanes {
			each.Go(func() {
				for _, i := range lane {
					if failed[i] = first.Load() || !execute(ctx, handler, e.Records[i], log); failed[i] && fifo {
						first.Store(true)
					}
				}
			})
		}
		each.Wait()
		var indexes []int
		for i := range failed {
			if failed[i] || fifo && len(indexes) > 0 {
				indexes = append(indexes, i)
			}
		}
		return failures(e, indexes)
	}
}

// execute executes a message, and reports whether it is to be deleted.
func execute(ctx context.Context, handler queue.Handler, r events.SQSMessage, log *slog.Logger) bool {
	receives, _ := strconv.Atoi(r.Attributes["ApproximateReceiveCount"]) // 0 if unknown
	err := handler.Execute(ctx, queue.Message{ID: r.MessageId, Body: r.Body, Group: r.Attributes["MessageGroupId"], Receives: receives})
	var refused *queue.Refused
	return report(log, "SQS message", r.MessageId, errors.As(err, &refused), err) == nil
}
