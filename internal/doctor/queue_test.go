package doctor_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/internal/doctor"
	"github.com/facetheory/isr/isrtest"
)

// On a real server of SQS: each setting that loses messages, or hides them, is found.
func TestQueuesOnElasticMQ(t *testing.T) {
	t.Parallel()
	endpoint := isrtest.Engine(t, "ISR_TEST_SQS", "ElasticMQ")
	options := sqs.Options{BaseEndpoint: &endpoint, Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")}
	client, base := sqs.New(options), fmt.Sprint("doctor-", time.Now().UnixNano())
	create := func(name string, attributes map[string]string) string {
		t.Helper()
		out, err := client.CreateQueue(t.Context(), &sqs.CreateQueueInput{QueueName: aws.String(base + name), Attributes: attributes})
		if err != nil {
			t.Fatal(err)
		}
		return *out.QueueUrl
	}
	dead := create("-dead", nil)
	redrive := func(receives int) string {
		return fmt.Sprintf(`{"deadLetterTargetArn":"arn:aws:sqs:elasticmq:000000000000:%s-dead","maxReceiveCount":"%d"}`, base, receives)
	}
	sound := create("-sound", map[string]string{"RedrivePolicy": redrive(5)})
	mustFind(t, doctor.OK, doctor.Queue(client, sound, "regenerations"), "queue "+base+"-sound (regenerations)", "standard, 0 messages wait", "visibility timeout 30 s")
	mustFind(t, doctor.Warning, doctor.Queue(client, dead, "purges"), "no redrive policy", "configure a dead-letter queue")
	mustFind(t, doctor.Warning, doctor.Queue(client, create("-eager", map[string]string{"RedrivePolicy": redrive(1)}), "purges"), "after 1 deliveries", "maxReceiveCount")
	if _, err := client.SendMessage(t.Context(), &sqs.SendMessageInput{QueueUrl: &dead, MessageBody: aws.String("poison")}); err != nil {
		t.Fatal(err)
	}
	mustFind(t, doctor.Warning, doctor.Queue(client, sound, "purges"), "1 messages are in its dead-letter queue", "start-message-move-task")
	mustFind(t, doctor.Fault, doctor.Queue(client, sound+"x", "purges"), "it does not exist", sound+"x")
	options.BaseEndpoint, options.RetryMaxAttempts = aws.String(closed(t)), 1
	mustFind(t, doctor.Fault, doctor.Queue(sqs.New(options), sound, "purges"), "it cannot be asked", "get-caller-identity")
}

// A queueServer answers with attributes, or an error.
type queueServer struct {
	attributes map[string]string
	err        error
}

func (q queueServer) GetQueueAttributes(context.Context, *sqs.GetQueueAttributesInput, ...func(*sqs.Options)) (*sqs.GetQueueAttributesOutput, error) {
	return &sqs.GetQueueAttributesOutput{Attributes: q.attributes}, q.err
}

func (q queueServer) GetQueueUrl(context.Context, *sqs.GetQueueUrlInput, ...func(*sqs.Options)) (*sqs.GetQueueUrlOutput, error) {
	return nil, &smithy.GenericAPIError{Code: "AccessDenied"}
}

// What no local server has: a backlog, short lives, denials.
func TestQueueAttributes(t *testing.T) {
	t.Parallel()
	const url = "https://sqs.eu-west-1.amazonaws.com/123456789012/pages.fifo"
	policy := `{"deadLetterTargetArn":"arn:aws:sqs:eu-west-1:123456789012:dead.fifo","maxReceiveCount":5}`
	for _, test := range map[string]struct {
		server   queueServer
		severity doctor.Severity
		want     string
	}{
		"sound":        {queueServer{attributes: map[string]string{"RedrivePolicy": policy, "ApproximateNumberOfMessages": "3", "MessageRetentionPeriod": "345600"}}, doctor.OK, "FIFO, 3 messages wait"},
		"backlog":      {queueServer{attributes: map[string]string{"RedrivePolicy": policy, "ApproximateNumberOfMessages": "20000"}}, doctor.Warning, "20000 messages wait"},
		"short lives":  {queueServer{attributes: map[string]string{"RedrivePolicy": policy, "MessageRetentionPeriod": "60"}}, doctor.Warning, "expire after 1m0s"},
		"wrong policy": {queueServer{attributes: map[string]string{"RedrivePolicy": "{"}}, doctor.Warning, "no redrive policy"},
		"denied": {
			queueServer{err: &smithy.GenericAPIError{Code: "AccessDenied", Message: "User: arn is not authorized to perform: sqs:GetQueueAttributes on resource: arn"}},
			doctor.Warning, `add "sqs:GetQueueAttributes"`,
		},
	} {
		mustFind(t, test.severity, doctor.Queue(test.server, url, "regenerations"), test.want)
	}
}
