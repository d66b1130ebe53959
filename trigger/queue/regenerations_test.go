package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
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
	"github.com/facetheory/isr/trigger/queue"
)

// A renderSite counts its renders, each of which takes a while.
type renderSite struct {
	renders atomic.Int64
	delay   time.Duration
	fails   atomic.Bool
}

func (s *renderSite) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	n := s.renders.Add(1)
	select {
	case <-time.After(s.delay):
	case <-r.Context().Done():
	}
	if s.fails.Load() {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
	fmt.Fprintf(w, "rendered %d", n)
}

// A crew is workers on one table.
type crew struct {
	table *dynamostore.Store
	site  *renderSite
	log   *testbed.Log
}

func newCrew(t *testing.T) *crew {
	t.Helper()
	return &crew{table: testbed.Table(t), site: &renderSite{delay: 100 * time.Millisecond}, log: new(testbed.Log)}
}

func (c *crew) logger() *slog.Logger { return slog.New(slog.NewTextHandler(c.log, nil)) }

// cache returns the cache of a worker.
func (c *crew) cache(t *testing.T) *isr.Cache {
	t.Helper()
	cache := testbed.Cache(t, c.table, isr.Config{Memory: -1, Logger: c.logger()})
	cache.Handler(isr.Route{Name: "site"}, c.site)
	return cache
}

func (c *crew) handler(cache queue.Regenerator) *queue.Regenerations {
	return &queue.Regenerations{Cache: cache, Now: time.Now, Logger: c.logger(), Serves: func(k store.Key) error {
		if strings.HasPrefix(k.Text, "other.") {
			return errors.New("the host is not served")
		}
		return nil
	}}
}

// work runs a worker until the returned function is called.
func (c *crew) work(t *testing.T, api queue.API, url string) (stop func()) {
	t.Helper()
	consumer := queue.New(api, c.handler(c.cache(t)), queue.Config{URL: url, Concurrency: 16, Logger: c.logger()})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		consumer.Run(ctx)
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		<-done
	})
	t.Cleanup(stop)
	return stop
}

func request(key string) string { return fmt.Sprintf(`{"v":1,"key":%q,"reason":"stale"}`, key) }

// Duplicates, whatever their order and number, are one render, and a message that was executed does
// nothing when it is delivered again, even if its page is stale by then.
func TestDuplicateRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, bodies := newCrew(t), make(map[string]string)
		for i := range 20 {
			bodies[fmt.Sprint("m", i)] = request(fmt.Sprint("h/", i%2))
		}
		q := newFake(bodies)
		for range 2 {
			c.work(t, q, "https://sqs/1/q")
		}
		time.Sleep(time.Minute)
		if left, _ := q.state(); left != 0 || c.site.renders.Load() != 2 {
			t.Fatalf("%d messages left, %d renders; want 0 and 2", left, c.site.renders.Load())
		}
		time.Sleep(5 * time.Minute) // both pages are stale
		handler := c.handler(c.cache(t))
		var rendered []string
		for i := range 4 {
			id := fmt.Sprint("late", i/2)
			if err := handler.Execute(t.Context(), queue.Message{ID: id, Body: request("h/0")}); err != nil {
				t.Error(err)
			}
			if i%2 == 0 {
				time.Sleep(61 * time.Second)
				rendered = append(rendered, id)
			}
		}
		if n := c.site.renders.Load(); n != int64(2+len(rendered)) {
			t.Errorf("%d renders, want one for each of %v", n-2, rendered)
		}
	})
}

// Messages that can never be executed are left to the redrive policy.
func TestRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCrew(t)
		handler := c.handler(c.cache(t))
		for body, want := range map[string]string{
			"":                                       "EOF",
			"{":                                      "EOF",
			"[]":                                     "cannot unmarshal",
			`{"v":1,"key":"h/","reason":"stale"} {}`: "more follows",
			`{"v":2,"key":"h/","reason":"stale"}`:    "its version is 2, expected 1",
			`{"v":1,"key":"","reason":"stale"}`:      "key",
			`{"v":1,"key":"h/"}`:                     "unknown reason",
			`{"v":1,"key":"h/","reason":"stale","tenant":"a b"}`:                     "tenant",
			`{"v":1,"key":"h/","reason":"stale","attempt":-1}`:                       "negative",
			`{"v":1,"key":"h/?undeclared=1","reason":"stale"}`:                       "no visitor can reach",
			`{"v":1,"key":"other.example/","reason":"stale"}`:                        "not served",
			`{"v":1,"key":"h/` + strings.Repeat("x", 20_000) + `","reason":"stale"}`: "bytes; at most",
			"{\"v\":1,\"key\":\"h/\xff\",\"reason\":\"stale\"}":                      "UTF-8",
		} {
			err := handler.Execute(t.Context(), queue.Message{ID: "1", Body: body})
			var refused *queue.Refused
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
				t.Errorf("%.60s: %v, want it refused: %s", body, err, want)
			}
		}
	})
}

// A page that fails is left until its back-off ends, and rendered when its origin is well again.
func TestFailingPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, q := newCrew(t), newFake(map[string]string{"1": request("h/"), "2": request("h/other")})
		c.site.fails.Store(true)
		c.work(t, q, "https://sqs/1/q")
		time.Sleep(2 * time.Minute)
		left, receives := q.state()
		if left != 2 || receives < 6 || receives > 60 {
			t.Errorf("%d messages left after %d receives", left, receives)
		}
		if renders := c.site.renders.Load(); renders > int64(receives) {
			t.Errorf("%d renders for %d receives: the back-off was not respected", renders, receives)
		}
		c.site.fails.Store(false)
		time.Sleep(5 * time.Minute)
		if left, _ := q.state(); left != 0 {
			t.Errorf("%d messages left", left)
		}
	})
}

// Messages of a FIFO group are executed in order, up to the first that fails.
func TestGroupsStopAtTheFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newFake(map[string]string{"a1": "bad", "a2": "a", "a3": "a", "b1": "b", "b2": "b", "c1": "c"})
		q.groups = func(id string) string { return id[:1] }
		var mu sync.Mutex
		var executed []string
		handler := handlerFunc(func(_ context.Context, m queue.Message) error {
			mu.Lock()
			defer mu.Unlock()
			executed = append(executed, m.ID)
			if m.Body == "bad" {
				return &queue.Later{After: 10 * time.Minute, Err: errors.New("not now")}
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		go queue.New(q, handler, queue.Config{URL: "https://sqs/1/q.fifo", Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		time.Sleep(time.Minute)
		cancel()
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		if left, _ := q.state(); left != 3 || len(executed) != 4 {
			t.Errorf("%d messages left, executed %v; want that a1 holds up a2 and a3", left, executed)
		}
	})
}

type handlerFunc func(context.Context, queue.Message) error

func (f handlerFunc) Execute(ctx context.Context, m queue.Message) error { return f(ctx, m) }

// A message whose execution takes long stays invisible.
func TestHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, q := newCrew(t), newFake(map[string]string{"1": request("h/")})
		c.site.delay = 28 * time.Second
		stop := c.work(t, q, "https://sqs/1/q")
		time.Sleep(10 * time.Second)
		go stop() // it finishes what it has
		time.Sleep(time.Minute)
		if left, receives := q.state(); left != 0 || receives != 1 || c.site.renders.Load() != 1 {
			t.Errorf("%d left, %d receives, %d renders", left, receives, c.site.renders.Load())
		}
	})
}

// No more messages are received than can be executed.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		bodies := make(map[string]string)
		for i := range 100 {
			bodies[fmt.Sprint(i)] = "x"
		}
		q := newFake(bodies)
		var now, most atomic.Int64
		handler := handlerFunc(func(context.Context, queue.Message) error {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			time.Sleep(time.Minute)
			now.Add(-1)
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go queue.New(q, handler, queue.Config{URL: "https://sqs/1/q", Concurrency: 7, Logger: slog.New(slog.DiscardHandler)}).Run(ctx)
		time.Sleep(30 * time.Second)
		if _, receives := q.state(); receives != 7 {
			t.Errorf("%d messages in hand, want 7", receives)
		}
		time.Sleep(20 * time.Minute)
		if left, receives := q.state(); left != 0 || receives != 100 || most.Load() != 7 {
			t.Errorf("%d left, %d receives, %d at once", left, receives, most.Load())
		}
	})
}

// On a real FIFO queue: requests that are equal are one message, other attempts are not held up by
// them, and poison ends in the dead-letter queue.
func TestRegenerationsOnElasticMQ(t *testing.T) {
	endpoint := isrtest.Engine(t, "ISR_TEST_SQS", "ElasticMQ")
	client := sqs.New(sqs.Options{BaseEndpoint: &endpoint, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute) // the machine may be busy
	defer cancel()
	name := fmt.Sprint("regenerations-", time.Now().UnixNano())
	create := func(name string, attributes map[string]string) string {
		attributes["FifoQueue"] = "true"
		out, err := client.CreateQueue(ctx, &sqs.CreateQueueInput{QueueName: aws.String(name + ".fifo"), Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		return *out.QueueUrl
	}
	dead := create(name+"-dead", map[string]string{})
	url := create(name, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:elasticmq:000000000000:` + name + `-dead.fifo","maxReceiveCount":"2"}`})
	left := func(url string) string {
		out, err := client.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
		if err != nil {
			t.Fatal(err)
		}
		return out.Attributes["ApproximateNumberOfMessages"] + "+" + out.Attributes["ApproximateNumberOfMessagesNotVisible"]
	}
	sender := queue.NewSender(client, url, time.Now)
	var sending sync.WaitGroup
	for i := range 40 {
		sending.Go(func() {
			p := isr.StalePage{Key: store.Key{Text: fmt.Sprint("h/", i%10)}, Generation: "g1", Reason: "stale", Attempt: 1 + i/30}
			if err := sender.Send(ctx, p); err != nil {
				t.Error(err)
			}
		})
	}
	sending.Wait()
	if got := left(url); got != "20+0" {
		t.Errorf("the queue has %s messages, want 20: ten pages, two attempts", got)
	}
	if _, err := client.SendMessage(ctx, &sqs.SendMessageInput{QueueUrl: &url, MessageBody: aws.String("poison"), MessageGroupId: aws.String("isr-0"), MessageDeduplicationId: aws.String("p")}); err != nil {
		t.Fatal(err)
	}
	c := newCrew(t)
	for range 2 {
		c.work(t, quick{client}, url)
	}
	for left(url) != "0+0" || left(dead) != "1+0" {
		if ctx.Err() != nil {
			t.Fatalf("left: %s, dead: %s\n%s", left(url), left(dead), c.log)
		}
		time.Sleep(50 * time.Millisecond)
	}
	if n := c.site.renders.Load(); n != 10 {
		t.Errorf("%d renders of 10 pages", n)
	}
}
