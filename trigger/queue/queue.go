// Package queue consumes SQS queues: one of purges, and one of regenerations, to which servers send
// stale pages.
//
//	receive (long polls) ─► Handler.Execute ─► delete
//	                          │  ├ failed: kept invisible, tried again with exponential backoff
//	                          │  └ Later: visible again after a while
//	                          └ Refused: left to the redrive policy of the queue
//
// A message is deleted only after it is executed. While a store does not answer, the messages in
// hand are kept invisible, and no others are received: an outage neither loses messages nor moves
// them to the dead-letter queue. If the process ends, they become visible again after [Visibility].
//
// Messages of one group of a FIFO queue are executed in order. After one that fails, the others of
// its group that were received with it are left.
package queue

// The files:
//
//	queue.go                     the consumer
//	purges.go, regenerations.go  what it executes
//	message.go                   the format of regeneration requests
//	sender.go                    sends them
//	errors.go                    what to do about errors of SQS

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/facetheory/isr/internal/backoff"
)

// API is the part of *sqs.Client that a Consumer needs.
type API interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// Visibility is how long a received message is invisible to other consumers. It is extended at half
// of that, while the message is in hand.
const Visibility = 30 * time.Second

// DefaultConcurrency is how many messages a Consumer executes at once.
const DefaultConcurrency = 320

// Limits of a Consumer.
const (
	batchSize  = 10               // messages of one call, the limit of SQS
	pollTime   = 20 * time.Second // of a long poll, the limit of SQS
	callTime   = 10 * time.Second // of any other call
	submitTime = 20 * time.Second
	shortest   = 200 * time.Millisecond // between attempts
	longest    = Visibility
	maxRefused = 1024 // invalid messages that are remembered, so that each is logged once

	maxDeleteCalls   = 4
	maxDeleteWaiting = 10_000
)

// A Message is a received message.
type Message struct {
	ID       string // the same at each delivery
	Body     string
	Group    string // of a FIFO queue; else empty
	Receives int    // how often it was received, with this time; 0 if unknown
}

// A Handler executes messages. It must be safe for concurrent use.
type Handler interface {
	// Execute executes a message, and returns nil if it is to be deleted. A *[Refused] leaves it to
	// the redrive policy of the queue, a *[Later] makes it visible again after a while, and after
	// any other error the message is kept, and executed again with exponential backoff, until the
	// consumer stops. That does not end ctx: Execute must end by itself.
	Execute(ctx context.Context, m Message) error
}

// Refused is the error of a message that can never be executed.
type Refused struct{ Err error }

func (e *Refused) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Refused) Unwrap() error { return e.Err }

// Later is the error of a message that can be executed after a while, at most 12 hours.
type Later struct {
	After time.Duration
	Err   error
}

func (e *Later) Error() string { return e.Err.Error() }

// Unwrap returns the reason.
func (e *Later) Unwrap() error { return e.Err }

// Results of messages, for Config.Note.
const (
	ResultExecuted = "executed"
	ResultRefused  = "refused"
	ResultLater    = "later"
	ResultReturned = "returned" // the consumer has stopped
)

// Config configures a [Consumer].
type Config struct {
	// URL is the URL of the queue; see [ValidURL].
	URL string
	// Concurrency is how many messages are executed at once, and in hand. Zero means
	// DefaultConcurrency.
	Concurrency int
	// Note, if not nil, is told the result of each delivery. It must be safe for concurrent use.
	Note func(result string)
	// Logger receives errors. Nil means slog.Default().
	Logger *slog.Logger
}

// ValidURL returns an error unless s is the URL of a queue.
func ValidURL(s string) error {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || len(u.Path) < 2 || u.User != nil || u.RawQuery != "" {
		return fmt.Errorf("%q is not the URL of a queue; expected one such as https://sqs.eu-west-1.amazonaws.com/123456789012/purges", s)
	}
	return nil
}

// A Consumer executes the messages of a queue.
type Consumer struct {
	api     API
	handler Handler
	cfg     Config
	log     *slog.Logger
	deletes batcher[*string]
	failure atomic.Pointer[error] // of the last receive; nil after a success

	mu      sync.Mutex
	refused map[string]bool // guarded by mu; ids of invalid messages
}

// New returns a consumer. The API needs the permissions sqs:ReceiveMessage,
// sqs:DeleteMessage, sqs:ChangeMessageVisibility and sqs:GetQueueAttributes.
func New(api API, handler Handler, cfg Config) *Consumer {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	if cfg.Concurrency == 0 {
		cfg.Concurrency = DefaultConcurrency
	}
	if cfg.Note == nil {
		cfg.Note = func(string) {}
	}
	c := &Consumer{api: api, handler: handler, cfg: cfg, log: cfg.Logger.With("queue", cfg.URL), refused: make(map[string]bool)}
	c.deletes = batcher[*string]{call: c.delete, calls: maxDeleteCalls, most: maxDeleteWaiting}
	return c
}

// Failure returns why messages cannot be received at present; nil if they can. It is safe for
// concurrent use.
func (c *Consumer) Failure() error {
	if err := c.failure.Load(); err != nil {
		return *err
	}
	return nil
}

// Run receives and executes messages until ctx is done, and returns once none is in hand.
func (c *Consumer) Run(ctx context.Context) {
	c.checkRedrive(ctx)
	var inHand sync.WaitGroup
	defer inHand.Wait()
	slots := newSlots(c.cfg.Concurrency)
	for failures := 0; ; {
		n := slots.take(ctx, batchSize)
		if n == 0 {
			return
		}
		messages, err := c.receive(ctx, n)
		switch {
		case ctx.Err() != nil:
			// Messages that were received now become visible again.
			return
		case err != nil:
			failures++
			c.failure.Store(&err)
			if failures == 1 {
				c.log.Error("failed to receive messages; trying again", "error", err)
			}
			if backoff.Wait(ctx, backoff.Exponential(shortest, longest, failures)) != nil {
				return
			}
		case failures > 0:
			c.log.Info("receiving messages again", "failures", failures)
			c.failure.Store(nil)
			failures = 0
		}
		slots.give(n - len(messages))
		if len(messages) > 0 {
			inHand.Go(func() { c.execute(ctx, messages, slots) })
		}
	}
}

// slots bound the messages in hand.
type slots chan struct{}

func newSlots(n int) slots { return make(slots, n) }

// take takes 1 to most slots: all that are free now, or the first that becomes free. It returns 0
// once ctx is done.
func (s slots) take(ctx context.Context, most int) (n int) {
	select {
	case s <- struct{}{}:
	case <-ctx.Done():
		return 0
	}
	for n = 1; n < most; n++ {
		select {
		case s <- struct{}{}:
		default:
			return n
		}
	}
	return n
}

func (s slots) give(n int) {
	for range n {
		<-s
	}
}

// checkRedrive warns of a queue that would deliver invalid messages until they expire.
func (c *Consumer) checkRedrive(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	out, err := c.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{
		QueueUrl: &c.cfg.URL, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameRedrivePolicy},
	})
	switch {
	case err != nil:
		c.log.Warn("failed to read the attributes of the queue", "error", advise(err))
	case out.Attributes[string(types.QueueAttributeNameRedrivePolicy)] == "":
		c.log.Warn("the queue has no redrive policy: invalid messages are delivered again and again until they expire; configure a dead-letter queue")
	}
}

func (c *Consumer) receive(ctx context.Context, most int) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTime+callTime)
	defer cancel()
	out, err := c.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &c.cfg.URL, MaxNumberOfMessages: int32(most),
		WaitTimeSeconds: int32(pollTime / time.Second), VisibilityTimeout: int32(Visibility / time.Second),
		MessageSystemAttributeNames: []types.MessageSystemAttributeName{
			types.MessageSystemAttributeNameMessageGroupId, types.MessageSystemAttributeNameApproximateReceiveCount,
		},
	})
	if err != nil {
		return nil, advise(err)
	}
	return out.Messages, nil
}

// messageOf returns a received message as handlers get it.
func messageOf(m types.Message) Message {
	receives, _ := strconv.Atoi(m.Attributes[string(types.MessageSystemAttributeNameApproximateReceiveCount)]) // 0 if unknown
	return Message{
		ID: aws.ToString(m.MessageId), Body: aws.ToString(m.Body), Receives: receives,
		Group: m.Attributes[string(types.MessageSystemAttributeNameMessageGroupId)],
	}
}

// execute executes the messages of one call. Each has a slot.
func (c *Consumer) execute(ctx context.Context, messages []types.Message, s slots) {
	b := newBatch(c, messages)
	extending, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	go b.keepInvisible(extending)
	var each sync.WaitGroup
	for _, lane := range Lanes(len(messages), func(i int) string { return messageOf(messages[i]).Group }) {
		each.Go(func() { c.inOrder(ctx, b, lane, s) })
	}
	each.Wait()
}

// Lanes returns the indexes of n messages that are executed one after the other: the messages of one
// group, in order. Messages without a group have a lane each.
func Lanes(n int, group func(int) string) (all [][]int) {
	byGroup := make(map[string]int)
	for i := range n {
		name := group(i)
		at, found := byGroup[name]
		if name == "" || !found {
			byGroup[name] = len(all)
			all = append(all, []int{i})
			continue
		}
		all[at] = append(all[at], i)
	}
	return all
}

// inOrder executes the messages of a lane, up to the first that is not executed. The others are
// left, and become visible with it.
func (c *Consumer) inOrder(ctx context.Context, b *batch, lane []int, s slots) {
	defer s.give(len(lane))
	for at, i := range lane {
		m := messageOf(b.messages[i])
		result, after := c.one(ctx, m)
		c.cfg.Note(result)
		if result == ResultExecuted {
			b.finish(i)
			continue
		}
		b.leave(lane[at:], after)
		return
	}
}

// one executes a message. It tries again until the message is executed, found to be of no use now,
// or ctx is done. after is when a message that is not executed becomes visible; negative: as it is.
func (c *Consumer) one(ctx context.Context, m Message) (result string, after time.Duration) {
	for failures := 0; ; {
		err := c.handler.Execute(context.WithoutCancel(ctx), m)
		var refused *Refused
		var later *Later
		switch {
		case err == nil:
			return ResultExecuted, 0
		case errors.As(err, &refused):
			c.refuse(m.ID, err)
			return ResultRefused, -1
		case errors.As(err, &later):
			c.log.Warn("message is left, to be executed later", "id", m.ID, "after", later.After.Round(time.Second), "deliveries", m.Receives, "error", err)
			return ResultLater, later.After
		case ctx.Err() != nil:
			return ResultReturned, 0
		}
		failures++
		if failures == 1 {
			c.log.Warn("failed to execute a message; trying again", "id", m.ID, "error", err)
		}
		if backoff.Wait(ctx, backoff.Exponential(shortest, longest, failures)) != nil {
			return ResultReturned, 0
		}
	}
}

// refuse leaves an invalid message to the redrive policy of the queue. It is logged at its
// first delivery.
func (c *Consumer) refuse(id string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refused[id] {
		return
	}
	if len(c.refused) >= maxRefused {
		clear(c.refused)
	}
	c.refused[id] = true
	c.log.Error("message cannot be executed and is left to the redrive policy of the queue", "id", id, "error", err)
}

// delete deletes executed messages. One that cannot be deleted is delivered again, and found to be
// executed.
func (c *Consumer) delete(ctx context.Context, handles []*string) []error {
	in := &sqs.DeleteMessageBatchInput{QueueUrl: &c.cfg.URL}
	for i, handle := range handles {
		in.Entries = append(in.Entries, types.DeleteMessageBatchRequestEntry{Id: entryID(i), ReceiptHandle: handle})
	}
	out, err := c.api.DeleteMessageBatch(ctx, in)
	switch {
	case err != nil:
		c.log.Warn("failed to delete executed messages; they will be delivered again", "messages", len(handles), "error", advise(err))
	case len(out.Failed) > 0:
		c.log.Warn("failed to delete executed messages; they will be delivered again", "messages", len(out.Failed),
			"error", aws.ToString(out.Failed[0].Message))
	}
	return make([]error, len(handles)) // that is all that can be done
}

// A batch is the messages of one call that are in hand.
type batch struct {
	c        *Consumer
	messages []types.Message

	mu     sync.Mutex // held during calls, so that the last one decides how long a message is invisible
	inHand []bool     // guarded by mu; by index
}

func newBatch(c *Consumer, messages []types.Message) *batch {
	b := &batch{c: c, messages: messages, inHand: make([]bool, len(messages))}
	for i := range b.inHand {
		b.inHand[i] = true
	}
	return b
}

// finish deletes an executed message, also if its consumer stops.
func (b *batch) finish(i int) {
	b.mu.Lock()
	b.inHand[i] = false
	b.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 2*callTime)
	defer cancel()
	if err := b.c.deletes.do(ctx, b.messages[i].ReceiptHandle); err != nil {
		b.c.log.Warn("failed to delete an executed message; it will be delivered again", "error", err)
	}
}

// leave makes messages visible again, after a while; not negative.
func (b *batch) leave(indexes []int, after time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, i := range indexes {
		b.inHand[i] = false
	}
	if after >= 0 {
		ctx, cancel := context.WithTimeout(context.Background(), callTime)
		defer cancel()
		b.change(ctx, indexes, after)
	}
}

// keepInvisible extends the invisibility of the messages in hand until ctx is done. If it fails,
// they are delivered again, perhaps to another consumer, which does no harm.
func (b *batch) keepInvisible(ctx context.Context) {
	for backoff.Wait(ctx, Visibility/2) == nil {
		b.extend(ctx)
	}
}

func (b *batch) extend(ctx context.Context) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var indexes []int
	for i, inHand := range b.inHand {
		if inHand {
			indexes = append(indexes, i)
		}
	}
	if len(indexes) > 0 && ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(ctx, callTime)
		defer cancel()
		b.change(ctx, indexes, Visibility)
	}
}

// change sets how long messages are invisible from now on. Callers hold mu.
func (b *batch) change(ctx context.Context, indexes []int, d time.Duration) {
	in := &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &b.c.cfg.URL}
	for _, i := range indexes {
		in.Entries = append(in.Entries, types.ChangeMessageVisibilityBatchRequestEntry{
			Id: entryID(i), ReceiptHandle: b.messages[i].ReceiptHandle, VisibilityTimeout: int32((d + time.Second - 1) / time.Second),
		})
	}
	if _, err := b.c.api.ChangeMessageVisibilityBatch(ctx, in); err != nil && ctx.Err() == nil {
		b.c.log.Warn("failed to set the visibility timeout of messages", "error", advise(err))
	}
}
