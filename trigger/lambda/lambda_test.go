package lambda_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-lambda-go/events"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
	"github.com/facetheory/isr/trigger/lambda"
)

// A fixture is a function on a real cache.
type fixture struct {
	*lambda.Handler
	cache *isr.Cache
	log   bytes.Buffer

	mu     sync.Mutex
	purges []isr.Purge // guarded by mu
	down   error       // guarded by mu
}

func newFixture(t *testing.T, texts ...string) *fixture {
	t.Helper()
	table := testbed.Table(t)
	f := &fixture{cache: testbed.Cache(t, table, isr.Config{Memory: -1, Poll: -1})}
	log := slog.New(slog.NewTextHandler(&f.log, nil))
	purges := trigger.NewDebouncer(f, table, trigger.Config{Window: 10 * time.Millisecond, Logger: log})
	cfg := lambda.Config{Logger: log}
	for _, text := range texts {
		template, err := trigger.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Templates = append(cfg.Templates, template)
	}
	f.Handler = lambda.New(purges, cfg)
	t.Cleanup(func() {
		if err := purges.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return f
}

// Purge purges in the cache.
func (f *fixture) Purge(ctx context.Context, p isr.Purge) (store.Receipt, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down != nil {
		return store.Receipt{}, f.down
	}
	f.purges = append(f.purges, p)
	return f.cache.Purge(ctx, p)
}

// NotStored asks the cache.
func (f *fixture) NotStored(ctx context.Context, targets []store.PurgeTarget) ([]store.Key, error) {
	return f.cache.NotStored(ctx, targets)
}

// targets returns what was purged, in order.
func (f *fixture) targets() (all []string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.purges {
		for _, t := range p.Targets {
			all = append(all, t.String())
		}
	}
	slices.Sort(all)
	return all
}

// recorded reads an event as Lambda delivers it.
func recorded[E any](t *testing.T, path string) (e E) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

// response returns the answer as Lambda reads it.
func response(t *testing.T, v any, err error) string {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Records that arrive together are one purge.
func TestDynamoDB(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t, "tag:product-{payload.keys.id}", "tag:{payload.new.sku}")
		event := recorded[events.DynamoDBEvent](t, "testdata/dynamodb.json")
		want := `{"batchItemFailures":[{"itemIdentifier":"13021700000000001596893680"}]}`
		for delivery := range 2 {
			out, err := f.DynamoDB(t.Context(), event)
			if got := response(t, out, err); got != want {
				t.Errorf("delivery %d: got %s, want %s", delivery, got, want)
			}
			if got := strings.Join(f.targets(), ", "); got != "tag S-101, tag S-103, tag product-101, tag product-103" || len(f.purges) != 1 {
				t.Errorf("delivery %d: purged %s in %d purges", delivery, got, len(f.purges))
			}
		}
		if log := f.log.String(); !strings.Contains(log, `{payload.new.sku}`) || !strings.Contains(log, "permanent=true") {
			t.Errorf("logged %s, want the missing path", log)
		}
	})
}

func TestAttributesOfDynamoDB(t *testing.T) {
	event := recorded[events.DynamoDBEvent](t, "testdata/dynamodb.json")
	event.Records = event.Records[:1]
	for template, want := range map[string]string{
		"tag:{payload.eventName}-{payload.new.live}":              "tag INSERT-true",
		"host:{payload.new.shop.host}":                            "prefix example.com/",
		"tag:{payload.new.shop.tags.1}{payload.new.shop.sizes.1}": "tag b8.5",
		"tag:{payload.new.shop.list.0}{payload.new.shop.list.1}":  "tag x3",
		"tag:{payload.table}":                                     "tag arn:aws:dynamodb:us-west-2:111122223333:table/shop/stream/2026-11-17T00:11:03.000",
		"tag:{payload.new.raw}":                                   "",
		"tag:{payload.new.none}":                                  "",
		"tag:{payload.old.sku}":                                   "",
	} {
		f := newFixture(t, template)
		out, err := f.DynamoDB(t.Context(), event)
		if err != nil || strings.Join(f.targets(), ", ") != want || (want == "") != (len(out.BatchItemFailures) == 1) {
			t.Errorf("%s: got %v, %v, purged %v, want %q", template, out, err, f.targets(), want)
		}
	}
}

func TestS3(t *testing.T) {
	f := newFixture(t, "url:https://example.com/{payload.s3.object.key}")
	event := recorded[events.S3Event](t, "../testdata/s3-put.json")
	for range 2 {
		if err := f.S3(t.Context(), event); err != nil {
			t.Fatal(err)
		}
	}
	if got := fmt.Sprint(f.targets()); got != "[key example.com/images/b.jpg key example.com/images/red%20shoes+1.jpg]" {
		t.Errorf("purged %s", got)
	}
	event.Records[0].S3.Object.Sequencer = "0055AED6DCD90281FF" // another event of the same object
	if err := f.S3(t.Context(), event); err != nil || len(f.purges) != 2 {
		t.Errorf("got %v, %d purges, want 2", err, len(f.purges))
	}
	if err := newFixture(t, "tag:{payload.detail}").S3(t.Context(), event); !trigger.Permanent(err) {
		t.Errorf("got %v, want that the path is missing", err)
	}
}

func TestSQS(t *testing.T) {
	f := newFixture(t)
	event := events.SQSEvent{Records: []events.SQSMessage{
		{MessageId: "1", Body: `{"targets": [{"tag": "a"}]}`, EventSourceARN: "arn:aws:sqs:us-east-1:1:q"},
		{MessageId: "2", Body: `purge!`, EventSourceARN: "arn:aws:sqs:us-east-1:1:q"},
		{MessageId: "3", Body: `{"targets": [{"tag": "b"}]}`, EventSourceARN: "arn:aws:sqs:us-east-1:1:q"},
	}}
	f.down = errors.New("the store does not answer")
	out, err := f.SQS(t.Context(), event)
	if got := response(t, out, err); got != `{"batchItemFailures":[{"itemIdentifier":"1"},{"itemIdentifier":"2"},{"itemIdentifier":"3"}]}` {
		t.Errorf("outage: got %s", got)
	}
	f.down = nil
	out, err = f.SQS(t.Context(), event)
	if got := response(t, out, err); got != `{"batchItemFailures":[{"itemIdentifier":"2"}]}` || fmt.Sprint(f.targets()) != "[tag a tag b]" {
		t.Errorf("got %s, purged %v", got, f.targets())
	}
}
