// Package queue purges what the messages of an SQS queue ask for.
//
//	receive (long polls) ─► ParseEvent ─► Debouncer.Submit ─► delete
//	                          │             └ failed: kept invisible, tried again with backoff
//	                          └ invalid: left to the redrive policy of the queue
//
// A message is deleted only after its purge is committed. While the store does not answer,
// the messages in hand are kept invisible, and no others are received: an outage neither
// loses messages nor moves them to the dead-letter queue. If the process ends, they become
// visible again after [Visibility].
package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/trigger"
)

// API is the part of *sqs.Client that a Consumer needs.
type API interface {
	ReceiveMessage(context.Context, *sqs.ReceiveMessageInput, ...func(*sqs.Options)) (*sqs.ReceiveMessageOutput, error)
	DeleteMessageBatch(context.Context, *sqs.DeleteMessageBatchInput, ...func(*sqs.Options)) (*sqs.DeleteMessageBatchOutput, error)
	ChangeMessageVisibilityBatch(context.Context, *sqs.ChangeMessageVisibilityBatchInput, ...func(*sqs.Options)) (*sqs.ChangeMessageVisibilityBatchOutput, error)
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
}

// Visibility is how long a received message is invisible to other consumers. It is extended
// while the message is in hand.
const Visibility = 30 * time.Second

// Limits of a Consumer.
const (
	batchSize  = 10               // messages of one call, the limit of SQS
	maxBatches = 32               // in hand
	pollTime   = 20 * time.Second // of a long poll, the limit of SQS
	callTime   = 10 * time.Second // of any other call
	submitTime = 20 * time.Second
	shortest   = 200 * time.Millisecond // between attempts
	longest    = Visibility
	maxRefused = 1024 // invalid messages that are remembered, so that each is logged once
)

// Config configures a [Consumer].
type Config struct {
	// URL is that of the queue; see [ValidURL].
	URL string
	// Templates make targets of events; see [trigger.ParseEvent]. None: the queue has purge
	// requests.
	Templates []trigger.Template
	// Hard is the mode of purges by templates, as in isr.Purge. Purge requests have their
	// own.
	Hard bool
	// Logger receives errors and one line for each message. Nil means slog.Default().
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
	api    API
	purges *trigger.Debouncer
	cfg    Config
	log    *slog.Logger

	mu      sync.Mutex
	refused map[string]bool // guarded by mu; ids of invalid messages
}

// New returns a consumer. The API needs the permissions sqs:ReceiveMessage,
// sqs:DeleteMessage, sqs:ChangeMessageVisibility and sqs:GetQueueAttributes.
func New(api API, purges *trigger.Debouncer, cfg Config) *Consumer {
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return &Consumer{api: api, purges: purges, cfg: cfg, log: cfg.Logger.With("queue", cfg.URL), refused: make(map[string]bool)}
}

// Run receives and executes messages until ctx is done, and returns once none is in hand.
// Callers close the Debouncer after it.
func (c *Consumer) Run(ctx context.Context) {
	c.checkRedrive(ctx)
	var inHand sync.WaitGroup
	defer inHand.Wait()
	slots := make(chan struct{}, maxBatches)
	for failures := 0; ; {
		select {
		case slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		messages, err := c.receive(ctx)
		switch {
		case ctx.Err() != nil:
			// Messages that were received now become visible again.
			return
		case err != nil:
			failures++
			if failures == 1 {
				c.log.Error("failed to receive messages; trying again", "error", err)
			}
			if backoff.Wait(ctx, backoff.Exponential(shortest, longest, failures)) != nil {
				return
			}
		case failures > 0:
			c.log.Info("receiving messages again", "failures", failures)
			failures = 0
		}
		if len(messages) == 0 {
			<-slots
			continue
		}
		inHand.Go(func() {
			defer func() { <-slots }()
			c.execute(ctx, messages)
		})
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
		c.log.Warn("failed to read the attributes of the queue", "error", err)
	case out.Attributes[string(types.QueueAttributeNameRedrivePolicy)] == "":
		c.log.Warn("the queue has no redrive policy: invalid messages are delivered again and again until they expire; configure a dead-letter queue")
	}
}

func (c *Consumer) receive(ctx context.Context) ([]types.Message, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTime+callTime)
	defer cancel()
	out, err := c.api.ReceiveMessage(ctx, &sqs.ReceiveMessageInput{
		QueueUrl: &c.cfg.URL, MaxNumberOfMessages: batchSize,
		WaitTimeSeconds: int32(pollTime / time.Second), VisibilityTimeout: int32(Visibility / time.Second),
	})
	if err != nil {
		return nil, err
	}
	return out.Messages, nil
}

// execute executes the messages of one call, and deletes those that were. They are
// invisible meanwhile.
func (c *Consumer) execute(ctx context.Context, messages []types.Message) {
	extending, stop := context.WithCancel(ctx)
	var helpers sync.WaitGroup
	helpers.Go(func() { c.keepInvisible(extending, messages) })
	executed := make([]bool, len(messages))
	var each sync.WaitGroup
	for i, m := range messages {
		each.Go(func() { executed[i] = c.one(ctx, m) })
	}
	each.Wait()
	stop()
	helpers.Wait() // an extension after the deletion would be an error
	var done []types.DeleteMessageBatchRequestEntry
	for i, m := range messages {
		if executed[i] {
			done = append(done, types.DeleteMessageBatchRequestEntry{Id: entryID(i), ReceiptHandle: m.ReceiptHandle})
		}
	}
	c.delete(ctx, done)
}

// entryID names a message within one call.
func entryID(i int) *string { return aws.String(fmt.Sprint("m", i)) }

// keepInvisible extends the invisibility of messages until ctx is done. If it fails, they are
// delivered again, perhaps to another consumer, which does no harm.
func (c *Consumer) keepInvisible(ctx context.Context, messages []types.Message) {
	for backoff.Wait(ctx, Visibility/3) == nil {
		var entries []types.ChangeMessageVisibilityBatchRequestEntry
		for i, m := range messages {
			entries = append(entries, types.ChangeMessageVisibilityBatchRequestEntry{
				Id: entryID(i), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: int32(Visibility / time.Second),
			})
		}
		call, cancel := context.WithTimeout(ctx, callTime)
		_, err := c.api.ChangeMessageVisibilityBatch(call, &sqs.ChangeMessageVisibilityBatchInput{QueueUrl: &c.cfg.URL, Entries: entries})
		cancel()
		if err != nil && ctx.Err() == nil {
			c.log.Warn("failed to extend the visibility timeout of messages", "error", err)
		}
	}
}

// one executes a message and reports whether it may be deleted. It tries again until the
// message is executed, found to be invalid, or ctx is done.
func (c *Consumer) one(ctx context.Context, received types.Message) (executed bool) {
	id := aws.ToString(received.MessageId)
	m, err := trigger.ParseEvent([]byte(aws.ToString(received.Body)), c.cfg.Templates)
	if err != nil {
		c.refuse(id, err)
		return false
	}
	if len(m.Targets) == 0 {
		return true
	}
	m.Source, m.Hard = "queue "+c.cfg.URL, m.Hard || c.cfg.Hard
	if m.ID == "" {
		m.ID = id
	}
	for failures := 0; ; {
		outcome, err := c.submit(ctx, m)
		switch {
		case err == nil:
			c.log.Info("purged by message", "id", id, "receipt", outcome.Receipt.Seq, "duplicate", outcome.Duplicate, "targets", len(m.Targets))
			return true
		case trigger.Permanent(err):
			c.refuse(id, err)
			return false
		case ctx.Err() != nil, errors.Is(err, trigger.ErrClosed):
			return false
		}
		failures++
		if failures == 1 {
			c.log.Warn("failed to execute a message; trying again", "id", id, "error", err)
		}
		if backoff.Wait(ctx, backoff.Exponential(shortest, longest, failures)) != nil {
			return false
		}
	}
}

// submit is Submit of a message, which is also waited for if ctx is done, so that it need not
// be delivered again.
func (c *Consumer) submit(ctx context.Context, m trigger.Message) (trigger.Outcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), submitTime)
	defer cancel()
	return c.purges.Submit(ctx, m)
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

// delete deletes executed messages, also if ctx is done. One that cannot be deleted is
// delivered again, and found to be executed.
func (c *Consumer) delete(ctx context.Context, entries []types.DeleteMessageBatchRequestEntry) {
	if len(entries) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTime)
	defer cancel()
	out, err := c.api.DeleteMessageBatch(ctx, &sqs.DeleteMessageBatchInput{QueueUrl: &c.cfg.URL, Entries: entries})
	switch {
	case err != nil:
		c.log.Warn("failed to delete executed messages; they will be delivered again", "messages", len(entries), "error", err)
	case len(out.Failed) > 0:
		c.log.Warn("failed to delete executed messages; they will be delivered again", "messages", len(out.Failed),
			"error", aws.ToString(out.Failed[0].Message))
	}
}
