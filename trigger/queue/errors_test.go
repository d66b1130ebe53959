package queue_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/sqs"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/trigger/queue"
)

// warm sends a request, and returns the error.
func warm(t *testing.T, api queue.SendAPI, url string) error {
	t.Helper()
	return queue.NewSender(api, url, time.Now).Request(t.Context(), queue.Request{V: queue.Version, Key: "example.com/", Reason: "warm", Created: time.Now()})
}

// A denying is a queue that refuses all calls.
type denying struct{ err error }

func (d denying) SendMessageBatch(context.Context, *sqs.SendMessageBatchInput, ...func(*sqs.Options)) (*sqs.SendMessageBatchOutput, error) {
	return nil, d.err
}

// Errors of SQS say what to do, and keep what SQS says.
func TestErrorsSayWhatToDo(t *testing.T) {
	const url = "https://sqs.eu-west-1.amazonaws.com/123456789012/pages"
	for want, err := range map[string]error{
		"add the action to the role":       &smithy.GenericAPIError{Code: "AccessDenied", Message: "not authorized to perform: sqs:SendMessage"},
		"aws sts get-caller-identity":      &smithy.GenericAPIError{Code: "InvalidClientTokenId", Message: "the token is invalid"},
		"check the URL of the queue":       errors.New("dial tcp: no such host"),
		"api error Throttling: slow down":  &smithy.GenericAPIError{Code: "Throttling", Message: "slow down"},
		context.DeadlineExceeded.Error():   context.DeadlineExceeded,
		"not authorized to perform: sqs:S": &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "not authorized to perform: sqs:SendMessage"},
	} {
		got := warm(t, denying{err}, url)
		if got == nil || !strings.Contains(got.Error(), want) || !errors.Is(got, err) {
			t.Errorf("%v: %v; want %q", err, got, want)
		}
	}
}

func TestMissingQueueOnElasticMQ(t *testing.T) {
	endpoint := isrtest.Engine(t, "ISR_TEST_SQS", "ElasticMQ")
	client := sqs.New(sqs.Options{BaseEndpoint: aws.String(endpoint), Region: "us-east-1", Credentials: credentials.NewStaticCredentialsProvider("x", "x", "")})
	if err := warm(t, client, endpoint+"/000000000000/missing"); err == nil || !strings.Contains(err.Error(), "the queue does not exist; create it, or correct its URL: ") {
		t.Errorf("%v", err)
	}
}
