//go:build linux || darwin

package leases

import (
	"crypto/rand"
	"flag"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/facetheory/isr/dynamostore"
	isrprocess "github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
)

// duration is the duration of a run in ./test. A longer run explores more interleavings.
var duration = flag.Duration("lasting", 10*time.Second, "how long the processes of TestLeases work")

// histories is how many are made, at most, if no order of their calls is found in time.
const histories = 3

// TestLeases checks that the answers of concurrent processes on one table, about leases,
// current generations and request records, are linearizable.
func TestLeases(t *testing.T) {
	for name, serve := range map[string]func(*testing.T) string{
		"DynamoDBLocal": func(t *testing.T) string {
			return isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")
		},
		"isr dynamodb": serveDynamoDB,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			endpoint := serve(t)
			for range histories {
				f := &fleet{t: t, endpoint: endpoint, table: newTable(t, endpoint)}
				f.run(*duration)
				if t.Failed() {
					return
				}
				f.readAll()
				if f.check() {
					return
				}
			}
			t.Errorf("%d histories were not decided", histories)
		})
	}
}

// serveDynamoDB starts isr dynamodb and stops it at the end of the test.
func serveDynamoDB(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(isrprocess.RaceBinary(t, "../.."), "dynamodb", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "data"))
	cmd.Env = []string{"GORACE=atexit_sleep_ms=0"}
	_, url := isrprocess.Serve(t, cmd, regexp.MustCompile(`msg="serving DynamoDB on (http://[^"]+)"`))
	return url
}

// newTable creates a table for the test and deletes it at the end.
func newTable(t *testing.T, endpoint string) string {
	t.Helper()
	client, _ := newClient(endpoint)
	name := "leases-" + rand.Text()
	testbed.DropTable(t, client, name)
	if err := dynamostore.CreateTable(t.Context(), client, name); err != nil {
		t.Fatal(err)
	}
	return name
}
