// Package lambda has handlers of Lambda functions: it purges what events of AWS select (the records
// of a DynamoDB stream, S3 event notifications, and the messages of an SQS queue), and regenerates
// the pages of a queue.
//
// A function answers once its purges are committed, and nothing runs after its answer. What
// failed is reported, record by record where Lambda allows it, and delivered again.
package lambda

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"

	"github.com/aws/aws-lambda-go/events"
	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/trigger"
)

// Config configures a [Handler].
type Config struct {
	// Templates make targets of records; see the methods of Handler.
	Templates []trigger.Template
	// Hard is the mode of purges by templates (see isr.Purge).
	Hard bool
	// Logger receives one line for each record that failed. Nil means slog.Default().
	Logger *slog.Logger
}

// A Handler has the handlers of Lambda functions. It is safe for concurrent use.
type Handler struct {
	purges *trigger.Debouncer
	cfg    Config
}

// concurrency bounds the records of one event that are executed at the same time.
const concurrency = 256

// New returns a handler. The records of an event share purges, so the window of the Debouncer
// may be short, such as 10 ms: an invocation is billed while it waits.
func New(purges *trigger.Debouncer, cfg Config) *Handler {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Handler{purges: purges, cfg: cfg}
}

// DynamoDB handles the records of a stream. The payload of a record is
//
//	{"eventName": "MODIFY", "table": ARN of the stream, "keys": {...}, "new": {...}, "old": {...}}
//
// where attributes are plain JSON: {payload.new.sku}. "new" and "old" are missing if the
// stream does not have them. Records for which the templates have no value fail, too: exclude
// them by the filter of the event source mapping.
//
// The event source mapping needs ReportBatchItemFailures. Lambda then delivers all records
// from the first failed one again, and those that were executed do nothing.
func (h *Handler) DynamoDB(ctx context.Context, e events.DynamoDBEvent) (events.DynamoDBEventResponse, error) {
	failed := h.each(len(e.Records), func(i int) error {
		r := e.Records[i]
		payload := map[string]any{"eventName": r.EventName, "table": r.EventSourceArn}
		for name, image := range map[string]map[string]events.DynamoDBAttributeValue{"keys": r.Change.Keys, "new": r.Change.NewImage, "old": r.Change.OldImage} {
			if image != nil {
				payload[name] = plainMap(image)
			}
		}
		targets, err := trigger.Expand(h.cfg.Templates, payload)
		if err == nil {
			_, err = h.purges.Submit(ctx, trigger.Message{Source: "dynamodb", ID: r.EventID, Targets: targets, Hard: h.cfg.Hard})
		}
		return h.report("DynamoDB record", r.EventID, err)
	})
	var out events.DynamoDBEventResponse
	for _, i := range failed {
		out.BatchItemFailures = append(out.BatchItemFailures, events.DynamoDBBatchItemFailure{ItemIdentifier: e.Records[i].Change.SequenceNumber})
	}
	return out, nil
}

// S3 handles an event notification. The payload of a record is the record, in which
// s3.object.key is decoded. An error makes Lambda deliver the event again.
func (h *Handler) S3(ctx context.Context, e events.S3Event) error {
	text, err := json.Marshal(e)
	if err != nil {
		return fmt.Errorf("S3 event: %w", err)
	}
	m, err := trigger.ParseEvent(text, h.cfg.Templates)
	if err == nil && len(m.Targets) > 0 {
		m.Source, m.Hard = "s3", h.cfg.Hard
		for _, r := range e.Records {
			// A sequencer is unique among the events of one object.
			m.ID += fmt.Sprintf("%q %q %s %s ", r.S3.Bucket.Name, r.S3.Object.Key, r.EventName, r.S3.Object.Sequencer)
		}
		_, err = h.purges.Submit(ctx, m)
	}
	return h.report("S3 event", m.ID, err)
}

// SQS handles the messages of a queue, as package queue does; see [trigger.ParseEvent]. The
// event source mapping needs ReportBatchItemFailures.
func (h *Handler) SQS(ctx context.Context, e events.SQSEvent) (events.SQSEventResponse, error) {
	failed := h.each(len(e.Records), func(i int) error {
		r := e.Records[i]
		m, err := trigger.ParseEvent([]byte(r.Body), h.cfg.Templates)
		if err == nil && len(m.Targets) > 0 {
			m.Source, m.Hard = "queue "+r.EventSourceARN, m.Hard || h.cfg.Hard
			if m.ID == "" {
				m.ID = r.MessageId
			}
			_, err = h.purges.Submit(ctx, m)
		}
		return h.report("SQS message", r.MessageId, err)
	})
	return failures(e, failed), nil
}

// failures returns the response that has Lambda deliver some messages again.
func failures(e events.SQSEvent, indexes []int) (out events.SQSEventResponse) {
	for _, i := range indexes {
		out.BatchItemFailures = append(out.BatchItemFailures, events.SQSBatchItemFailure{ItemIdentifier: e.Records[i].MessageId})
	}
	return out
}

// each calls f for n records, some of them concurrently, and returns the indexes of those that
// failed, in order.
func (h *Handler) each(n int, f func(int) error) (failed []int) {
	errs := make([]error, n)
	var g errgroup.Group
	g.SetLimit(concurrency)
	for i := range n {
		g.Go(func() error {
			errs[i] = f(i)
			return nil
		})
	}
	_ = g.Wait()
	for i, err := range errs {
		if err != nil {
			failed = append(failed, i)
		}
	}
	return failed
}

// report logs why a record failed.
func (h *Handler) report(kind, id string, err error) error {
	return report(h.cfg.Logger, kind, id, trigger.Permanent(err), err)
}

func report(log *slog.Logger, kind, id string, permanent bool, err error) error {
	if err == nil {
		return nil
	}
	log.Error(kind+" not executed", "id", id, "permanent", permanent, "error", err)
	return fmt.Errorf("%s: %w", kind, err)
}

func plainMap(attributes map[string]events.DynamoDBAttributeValue) map[string]any {
	values := make(map[string]any, len(attributes))
	for name, av := range attributes {
		values[name] = plain(av)
	}
	return values
}

// plain returns an attribute as encoding/json would decode it. Binary values and sets of them
// are null: they are no text.
func plain(av events.DynamoDBAttributeValue) any {
	switch av.DataType() {
	case events.DataTypeString:
		return av.String()
	case events.DataTypeNumber:
		return json.Number(av.Number())
	case events.DataTypeBoolean:
		return av.Boolean()
	case events.DataTypeMap:
		return plainMap(av.Map())
	case events.DataTypeList:
		values := make([]any, 0, len(av.List()))
		for _, element := range av.List() {
			values = append(values, plain(element))
		}
		return values
	case events.DataTypeStringSet:
		return texts(av.StringSet(), func(s string) any { return s })
	case events.DataTypeNumberSet:
		return texts(av.NumberSet(), func(s string) any { return json.Number(s) })
	}
	return nil
}

func texts(set []string, value func(string) any) []any {
	values := make([]any, 0, len(set))
	for _, s := range set {
		values = append(values, value(s))
	}
	return values
}
