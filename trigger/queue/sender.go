package queue

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/facetheory/isr"
)

// SendAPI is the part of *sqs.Client that a Sender needs.
type SendAPI interface {
	SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error)
}

// Limits of a Sender.
const (
	maxSendCalls   = 4    // at once
	maxSendWaiting = 4096 // messages
)

// A Sender sends regeneration requests to an SQS queue. Requests that are made concurrently share
// calls. In a FIFO queue, requests for the same page are in one group, and equal ones within five
// minutes are one message. It is safe for concurrent use.
type Sender struct {
	api     SendAPI
	url     string
	now     func() time.Time
	batches batcher[Request]
}

var _ isr.Queue = (*Sender)(nil)

// NewSender returns a sender. The API needs the permission sqs:SendMessage. now is the wall clock.
func NewSender(api SendAPI, url string, now func() time.Time) *Sender {
	s := &Sender{api: api, url: url, now: now}
	s.batches = batcher[Request]{call: s.call, calls: maxSendCalls, most: maxSendWaiting}
	return s
}

// Send implements [isr.Queue].
func (s *Sender) Send(ctx context.Context, p isr.StalePage) error {
	return s.Request(ctx, NewRequest(p, s.now()))
}

// Request sends a request. It returns nil once the queue has it; errors of requests that the queue
// would never take wrap [ErrRequest].
func (s *Sender) Request(ctx context.Context, r Request) error {
	if err := r.validate(); err != nil {
		return err
	}
	return s.batches.do(ctx, r)
}

// call sends up to ten requests.
func (s *Sender) call(ctx context.Context, requests []Request) []error {
	in := &sqs.SendMessageBatchInput{QueueUrl: &s.url}
	for i, r := range requests {
		body, err := json.Marshal(r)
		if err != nil {
			return allFailed(len(requests), err)
		}
		e := types.SendMessageBatchRequestEntry{Id: entryID(i), MessageBody: aws.String(string(body))}
		if IsFIFO(s.url) {
			e.MessageGroupId, e.MessageDeduplicationId = aws.String(r.group()), aws.String(r.name())
		}
		in.Entries = append(in.Entries, e)
	}
	out, err := s.api.SendMessageBatch(ctx, in)
	if err != nil {
		return allFailed(len(requests), advise(err))
	}
	errs := make([]error, len(requests))
	for _, f := range out.Failed {
		if i, ok := entryIndex(f.Id, len(errs)); ok {
			errs[i] = fmt.Errorf("the queue refused the message: %s: %.200s", aws.ToString(f.Code), aws.ToString(f.Message))
		}
	}
	return errs
}

// entryID names a message within one call.
func entryID(i int) *string { return aws.String("m" + strconv.Itoa(i)) }

// entryIndex returns the index of a message among n, by its entryID.
func entryIndex(id *string, n int) (int, bool) {
	text := aws.ToString(id)
	if len(text) < 2 {
		return 0, false
	}
	i, err := strconv.Atoi(text[1:])
	return i, err == nil && i >= 0 && i < n
}
