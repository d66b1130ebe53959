//go:build linux || darwin

package leases

import (
	"context"
	"crypto/rand"
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/dynamostore"
	isrprocess "github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
)

// lasting is the time of a run in ./test; the longer, the more chances.
var lasting = flag.Duration("lasting", 10*time.Second, "how long the processes of TestLeases work")

// TestLeases: what processes on one table are told of leases, of what is current,
// and of requests with idempotency keys, is linearizable.
func TestLeases(t *testing.T) {
	for name, serve := range map[string]func(*testing.T) string{
		"DynamoDBLocal": func(t *testing.T) string {
			return isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")
		},
		"isr dynamodb": serveOurs,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := &fleet{t: t, endpoint: serve(t)}
			f.table = newTable(t, f.endpoint)
			f.run(*lasting)
			if t.Failed() {
				return
			}
			f.lookAround()
			f.judge()
		})
	}
}

// serveOurs starts isr dynamodb until the end of the test.
func serveOurs(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(isrprocess.RaceBinary(t, "../.."), "dynamodb", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	_, url := isrprocess.Serve(t, cmd, regexp.MustCompile(`msg="serving DynamoDB on (http://[^"]+)"`))
	return url
}

// newTable makes a table of its own for a test.
func newTable(t *testing.T, endpoint string) string {
	t.Helper()
	client, _ := newClient(endpoint)
	name := "leases-" + rand.Text()
	if err := dynamostore.CreateTable(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("delete the table: %v", err)
		}
	})
	return name
}
