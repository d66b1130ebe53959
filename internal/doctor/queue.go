package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/aws-sdk-go-v2/service/sqs/types"
)

// QueueAPI is the part of SQS that [Queue] uses. *sqs.Client implements it.
type QueueAPI interface {
	GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error)
	GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error)
}

var _ QueueAPI = (*sqs.Client)(nil)

// What is suspicious of a queue.
const (
	manyMessages  = 10_000        // that wait
	fewReceives   = 3             // before a message is moved to the dead-letter queue
	shortLifetime = 4 * time.Hour // of messages: shorter than an outage can be
)

// Queue examines a queue of SQS by its URL: its settings, its backlog and its dead-letter queue. It
// neither sends nor receives messages.
func Queue(api QueueAPI, url, purpose string) Check {
	return Check{Name: "queue", Run: func(ctx context.Context) []Finding {
		q := queueCheck{api: api, name: fmt.Sprintf("queue %s (%s)", url[strings.LastIndexByte(url, '/')+1:], purpose)}
		attributes, err := q.attributes(ctx, url)
		if err != nil {
			q.fault(url, err)
			return q.found
		}
		q.backlog(attributes)
		q.lifetime(attributes)
		q.deadLetters(ctx, attributes)
		if len(q.found) == 0 {
			kind := "standard"
			if strings.HasSuffix(url, ".fifo") {
				kind = "FIFO"
			}
			q.add(OK, fmt.Sprintf("%s, %s messages wait, visibility timeout %s s, with a dead-letter queue", kind,
				attributes[types.QueueAttributeNameApproximateNumberOfMessages], attributes[types.QueueAttributeNameVisibilityTimeout]), "")
		}
		return q.found
	}}
}

type queueCheck struct {
	api   QueueAPI
	name  string
	found []Finding
}

func (q *queueCheck) add(s Severity, what, do string, evidence ...string) {
	q.found = append(q.found, Finding{Severity: s, What: q.name + ": " + what, Evidence: evidence, Do: do})
}

func (q *queueCheck) attributes(ctx context.Context, url string) (map[types.QueueAttributeName]string, error) {
	out, err := q.api.GetQueueAttributes(ctx, &sqs.GetQueueAttributesInput{QueueUrl: &url, AttributeNames: []types.QueueAttributeName{types.QueueAttributeNameAll}})
	if err != nil {
		return nil, err
	}
	named := make(map[types.QueueAttributeName]string, len(out.Attributes))
	for name, value := range out.Attributes {
		named[types.QueueAttributeName(name)] = value
	}
	return named, nil
}

// fault reports that the queue could not be asked.
func (q *queueCheck) fault(url string, err error) {
	var missing *types.QueueDoesNotExist
	switch denied, ok := deniedAction(err); {
	case ok:
		f := denied.finding(q.name)
		f.Severity = Warning
		q.found = append(q.found, f)
	case errors.As(err, &missing):
		q.add(Fault, "it does not exist", "create it, or correct its URL: "+url)
	default:
		q.add(Fault, "it cannot be asked", "check the URL "+url+", the network, and the AWS configuration: aws sts get-caller-identity", err.Error())
	}
}

func (q *queueCheck) backlog(a map[types.QueueAttributeName]string) {
	if n, _ := strconv.Atoi(a[types.QueueAttributeNameApproximateNumberOfMessages]); n > manyMessages {
		q.add(Warning, fmt.Sprintf("%d messages wait", n), "see whether its consumers run and what they log; start more of them, or raise their --concurrency")
	}
}

func (q *queueCheck) lifetime(a map[types.QueueAttributeName]string) {
	if s, err := strconv.Atoi(a[types.QueueAttributeNameMessageRetentionPeriod]); err == nil && time.Duration(s)*time.Second < shortLifetime {
		q.add(Warning, fmt.Sprintf("messages expire after %s, and are then lost", time.Duration(s)*time.Second), "set MessageRetentionPeriod to more than an outage may last, such as 345600 (four days)")
	}
}

// deadLetters examines what becomes of messages that cannot be executed.
func (q *queueCheck) deadLetters(ctx context.Context, a map[types.QueueAttributeName]string) {
	var policy struct {
		Target   string      `json:"deadLetterTargetArn"`
		Receives json.Number `json:"maxReceiveCount"` // a number, or a text
	}
	text := a[types.QueueAttributeNameRedrivePolicy]
	if err := json.Unmarshal([]byte(text), &policy); text == "" || err != nil || policy.Target == "" {
		q.add(Warning, "it has no redrive policy: messages that cannot be executed are delivered again and again until they expire", "configure a dead-letter queue: RedrivePolicy with deadLetterTargetArn and maxReceiveCount")
		return
	}
	if n, err := policy.Receives.Int64(); err == nil && n < fewReceives {
		q.add(Warning, fmt.Sprintf("messages are moved to the dead-letter queue after %d deliveries, as may happen in a short outage", n), "set maxReceiveCount to 5 or more")
	}
	dead := policy.Target[strings.LastIndexByte(policy.Target, ':')+1:]
	out, err := q.api.GetQueueUrl(ctx, &sqs.GetQueueUrlInput{QueueName: &dead})
	if err != nil {
		return // of another account, or not permitted
	}
	waiting, err := q.attributes(ctx, aws.ToString(out.QueueUrl))
	if n, _ := strconv.Atoi(waiting[types.QueueAttributeNameApproximateNumberOfMessages]); err == nil && n > 0 {
		q.add(Warning, fmt.Sprintf("%d messages are in its dead-letter queue %s", n, dead), "read why in the log of the consumers, correct that, and move the messages back: aws sqs start-message-move-task --source-arn "+policy.Target)
	}
}
