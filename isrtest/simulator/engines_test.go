package simulator_test

import (
	"context"
	"net/http"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/isrtest/simulator"
)

// A disposable engine deletes the tables that it created.
type disposable struct {
	*dynamodb.Client

	mu     sync.Mutex
	tables []string // guarded by mu
}

func (d *disposable) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, o ...options) (*dynamodb.CreateTableOutput, error) {
	d.mu.Lock()
	d.tables = append(d.tables, aws.ToString(in.TableName))
	d.mu.Unlock()
	return d.Client.CreateTable(ctx, in, o...)
}

// newDisposable returns DynamoDB Local, which the tests share.
func newDisposable(t *testing.T) *disposable {
	t.Helper()
	engine := &disposable{Client: dynamodb.New(dynamodb.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String(isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")),
		Credentials:  credentials.NewStaticCredentialsProvider("isrtest", "isrtest", ""),
		// Each world in real time keeps a connection.
		HTTPClient: awshttp.NewBuildableClient().WithTransportOptions(func(t *http.Transport) { t.MaxIdleConnsPerHost = 64 }),
	})}
	t.Cleanup(func() {
		for _, name := range engine.tables {
			if _, err := engine.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				t.Errorf("delete the table: %v", err)
			}
		}
	})
	return engine
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
