package simulator_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/isrtest/simulator"
)

// A disposable engine deletes the tables that it created when the test ends.
type disposable struct {
	*dynamodb.Client
	t *testing.T
}

func (d *disposable) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, o ...options) (*dynamodb.CreateTableOutput, error) {
	testbed.DropTable(d.t, d.Client, aws.ToString(in.TableName))
	return d.Client.CreateTable(ctx, in, o...)
}

// newDisposable returns DynamoDB Local, which the tests share.
func newDisposable(t *testing.T) *disposable {
	t.Helper()
	return &disposable{t: t, Client: dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")),
		Credentials:  credentials.NewStaticCredentialsProvider("isrtest", "isrtest", ""),
		// Each world in real time keeps a connection.
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 }),
	})}
}

// TestSimulationOnDynamoDBLocal: all invariants hold on AWS's own engine, and its responses produce
// the same history as localdynamo's.
func TestSimulationOnDynamoDBLocal(t *testing.T) {
	engine := newDisposable(t)
	for seed := range uint64(20) {
		embedded := simulator.Run(t, simulator.Config{Seed: seed})
		r := simulator.Run(t, simulator.Config{Seed: seed, Engine: engine})
		if r.Violation != nil {
			t.Error(r.Violation)
		}
		// The order of partitions in a scan differs between engines.
		if r.Hash != embedded.Hash && r.Counts["collect"] == 0 {
			t.Errorf("seed %d: the history on DynamoDB Local differs from that on localdynamo: %s", seed, parting(embedded, r))
		}
	}
}
