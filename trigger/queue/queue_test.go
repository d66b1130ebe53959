package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
	"github.com/facetheory/isr/trigger/queue"
)

// A fixture is a consumer on a real table.
type fixture struct {
	table *dynamostore.Store
	log   *testbed.Log

	mu     sync.Mutex
	purges []isr.Purge  // guarded by mu
	down   func() error // guarded by mu; the error of purges
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	return &fixture{table: testbed.Table(t), log: new(testbed.Log)}
}

// Purge purges in the table.
func (f *fixture) Purge(ctx context.Context, p isr.Purge) (store.Receipt, error) {
	f.mu.Lock()
	down := f.down
	f.mu.Unlock()
	if down != nil {
		if err := down(); err != nil {
			return store.Receipt{}, err
		}
	}
	receipt, err := f.table.Purge(ctx, store.Purge{Targets: p.Targets, Hard: p.Hard})
	f.mu.Lock()
	defer f.mu.Unlock()
	if err == nil {
		f.purges = append(f.purges, p)
	}
	return receipt, err
}

// NotStored knows of no page: the fixture has no cache.
func (*fixture) NotStored(context.Context, []store.PurgeTarget) ([]store.Key, error) { return nil, nil }

func (f *fixture) targets() (n, purges int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.purges {
		n += len(p.Targets)
	}
	return n, len(f.purges)
}

// run runs a consumer until the returned function is called. What templates select is purged hard.
func (f *fixture) run(t *testing.T, api queue.API, url string, templates ...trigger.Template) (stop func()) {
	t.Helper()
	cfg := queue.Config{URL: url, Logger: slog.New(slog.NewTextHandler(f.log, nil))}
	purges := trigger.NewDebouncer(f, f.table, trigger.Config{Window: 50 * time.Millisecond, Logger: cfg.Logger})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		queue.New(api, &queue.Purges{Debouncer: purges, Queue: url, Templates: templates, Hard: len(templates) > 0, Logger: cfg.Logger}, cfg).Run(ctx)
	}()
	return sync.OnceFunc(func() {
		cancel()
		<-done
		if err := purges.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
}

// quick is a queue whose messages become visible again after eight seconds, which a busy machine keeps to.
type quick struct{ *sqs.Client }

func (q quick) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, o ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	in.VisibilityTimeout, in.WaitTimeSeconds = 8, 1
	return q.Client.ReceiveMessage(ctx, in, o...)
}

func TestConsumerOnElasticMQ(t *testing.T) {
	endpoint := isrtest.Engine(t, "ISR_TEST_SQS", "ElasticMQ")
	client := sqs.New(sqs.Options{BaseEndpoint: &endpoint, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	create := func(name string, attributes map[string]string) string {
		out, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		return *out.QueueUrl
	}
	name := fmt.Sprint("purges-", time.Now().UnixNano())
	dead := create(name+"-dead", nil)
	url := create(name, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:elasticmq:000000000000:` + name + `-dead","maxReceiveCount":"2"}`})
	send := func(body string) {
		if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: &body}); err != nil {
			t.Fatal(err)
		}
	}
	left := func(url string) string {
		out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes["ApproximateNumberOfMessages"] + " visible, " + out.Attributes["ApproximateNumberOfMessagesNotVisible"] + " not"
	}
	until := func(what string, ok func() bool) {
		for !ok() {
			if ctx.Err() != nil {
				t.Fatalf("not in time: %s", what)
			}
			time.Sleep(50 * time.Millisecond)
		}
	}
	f := newFixture(t)
	for i := range 25 {
		send(fmt.Sprintf(`{"targets": [{"tag": "product-%d"}]}`, i))
	}
	send(`{"targets": [{"tags": "a"}]}`)
	stop := f.run(t, quick{client}, url)
	defer stop()
	until("all purged", func() bool { n, _ := f.targets(); return n == 25 })
	until("the invalid message in the dead-letter queue", func() bool { return left(dead) == "1 visible, 0 not" })
	until("the queue empty", func() bool { return left(url) == "0 visible, 0 not" })
	stop()
	if n, purges := f.targets(); n != 25 || purges > 10 {
		t.Errorf("%d targets in %d purges, want 25 in at most 10", n, purges)
	}
	if n := strings.Count(f.log.String(), "left to the redrive policy"); n != 1 || strings.Contains(f.log.String(), "has no redrive policy") {
		t.Errorf("logged the invalid message %d times, want once:\n%s", n, f.log)
	}
}

// A fake is a queue in memory, for virtual time: what a queue must do is that messages become
// visible again.
type fake struct {
	mu        sync.Mutex
	visibleAt map[string]time.Time // guarded by mu; by id
	bodies    map[string]string
	receives  map[string]int         // guarded by mu
	fail      error                  // guarded by mu; of ReceiveMessage
	groups    func(id string) string // of a FIFO queue; nil if it is not one
}

func newFake(bodies map[string]string) *fake {
	q := &fake{visibleAt: make(map[string]time.Time), bodies: bodies, receives: make(map[string]int)}
	for id := range bodies {
		q.visibleAt[id] = time.Now()
	}
	return q
}

func (q *fake) ReceiveMessage(ctx context.Context, in *sqs.ReceiveMessageInput, _ ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error) {
	out := new(sqs.ReceiveMessageOutput)
	for range in.WaitTimeSeconds {
		q.mu.Lock()
		err := q.fail
		for _, id := range slices.Sorted(maps.Keys(q.visibleAt)) {
			at := q.visibleAt[id]
			if err == nil && !at.After(time.Now()) && len(out.Messages) < int(in.MaxNumberOfMessages) {
				q.visibleAt[id] = time.Now().Add(time.Duration(in.VisibilityTimeout) * time.Second)
				q.receives[id]++
				m := types.Message{MessageId: aws.String(id), ReceiptHandle: aws.String(id), Body: aws.String(q.bodies[id])}
				if q.groups != nil {
					m.Attributes = map[string]string{"MessageGroupId": q.groups(id)}
				}
				out.Messages = append(out.Messages, m)
			}
		}
		q.mu.Unlock()
		if err != nil || len(out.Messages) > 0 {
			return out, err
		}
		select {
		case <-time.After(time.Second):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return out, nil
}

func (q *fake) DeleteMessageBatch(_ context.Context, in *sqs.DeleteMessageBatchInput, _ ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		delete(q.visibleAt, *e.ReceiptHandle)
	}
	return new(sqs.DeleteMessageBatchOutput), nil
}

func (q *fake) ChangeMessageVisibilityBatch(_ context.Context, in *sqs.ChangeMessageVisibilityBatchInput, _ ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, e := range in.Entries {
		if _, found := q.visibleAt[*e.ReceiptHandle]; found {
			q.visibleAt[*e.ReceiptHandle] = time.Now().Add(time.Duration(e.VisibilityTimeout) * time.Second)
		}
	}
	return new(sqs.ChangeMessageVisibilityBatchOutput), nil
}

func (q *fake) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return new(sqs.GetQueueAttributesOutput), nil
}

// state returns how many messages are left, and how often all of them were received.
func (q *fake) state() (left, receives int) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, n := range q.receives {
		receives += n
	}
	return len(q.visibleAt), receives
}

// In an outage of the store, messages stay in hand: they are neither lost nor moved to the
// dead-letter queue because they were received too often.
func TestOutageOfStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFixture(t), newFake(map[string]string{"1": `{"targets": [{"tag": "a"}]}`, "2": `{"targets": [{"tag": "b"}], "mode": "hard"}`})
		f.down = func() error { return errors.New("the store does not answer") }
		stop := f.run(t, q, "https://sqs/1/q")
		defer stop()
		time.Sleep(10 * time.Minute)
		if left, receives := q.state(); left != 2 || receives != 2 {
			t.Errorf("during the outage: %d messages left, %d receives; want 2 and 2", left, receives)
		}
		f.mu.Lock()
		f.down = nil
		f.mu.Unlock()
		time.Sleep(time.Minute)
		if left, receives := q.state(); left != 0 || receives != 2 {
			t.Errorf("after the outage: %d messages left, %d receives; want 0 and 2", left, receives)
		}
		if n, purges := f.targets(); n != 2 || purges != 2 {
			t.Errorf("%d targets in %d purges, want 2 in 2", n, purges)
		}
		if n := strings.Count(f.log.String(), "failed to execute a message"); n != 2 {
			t.Errorf("logged %d failures, want one per message", n)
		}
	})
}

// A message in hand when the consumer stops is executed and deleted, or left.
func TestStopWithMessagesInHand(t *testing.T) {
	for _, down := range []error{nil, errors.New("the store does not answer")} {
		synctest.Test(t, func(t *testing.T) {
			f, q := newFixture(t), newFake(map[string]string{"1": `{"targets": [{"tag": "a"}]}`})
			f.down = func() error { return down }
			stop := f.run(t, q, "https://sqs/1/q")
			time.Sleep(10 * time.Millisecond) // within the debounce window
			stop()
			want := 0
			if down != nil {
				want = 1
			}
			if left, _ := q.state(); left != want {
				t.Errorf("store %v: %d messages left, want %d", down, left, want)
			}
		})
	}
}

func TestInvalidMessagesAreLeftAndLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFixture(t)
		q := newFake(map[string]string{"bad": `{"targets": [{"page": "/"}]}`, "empty": `{"targets": []}`})
		stop := f.run(t, q, "https://sqs/1/q")
		time.Sleep(5 * time.Minute)
		stop()
		if left, receives := q.state(); left != 1 || receives < 5 {
			t.Errorf("%d messages left, %d receives; want that the invalid one is left", left, receives)
		}
		log := f.log.String()
		if n := strings.Count(log, "left to the redrive policy"); n != 1 || !strings.Contains(log, "unknown field") || !strings.Contains(log, "has no redrive policy") {
			t.Errorf("logged the message %d times, want once, and a warning of the missing policy:\n%s", n, log)
		}
	})
}

func TestOutageOfQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, q := newFixture(t), newFake(map[string]string{"1": `{"sku": "S1"}`})
		q.fail = errors.New("the queue does not answer")
		template, err := trigger.ParseTemplate("tag:{payload.sku}")
		if err != nil {
			t.Fatal(err)
		}
		stop := f.run(t, q, "https://sqs/1/q", template)
		defer stop()
		time.Sleep(time.Hour)
		q.mu.Lock()
		q.fail = nil
		q.mu.Unlock()
		time.Sleep(time.Minute)
		stop()
		if n, _ := f.targets(); n != 1 || !f.purges[0].Hard {
			t.Errorf("got the purges %v, want a hard one", f.purges)
		}
		if log := f.log.String(); strings.Count(log, "failed to receive") != 1 || !strings.Contains(log, "receiving messages again") {
			t.Errorf("logged %s, want the beginning and the end", log)
		}
	})
}

func TestValidURL(t *testing.T) {
	for _, url := range []string{"", "purges", "https://sqs", "https://sqs/", "ftp://sqs/1/q", "https://a:b@sqs/1/q", "https://sqs/1/q?x"} {
		if err := queue.ValidURL(url); err == nil {
			t.Errorf("%q was accepted", url)
		}
	}
	if err := queue.ValidURL("https://sqs.eu-west-1.amazonaws.com/123456789012/purges"); err != nil {
		t.Error(err)
	}
}
