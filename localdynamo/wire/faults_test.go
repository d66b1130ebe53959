package wire_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/facetheory/isr/localdynamo/wire"
)

// batchOf returns the elements of a batch of n.
func batchOf(n int, format string) string {
	elements := make([]string, n)
	for i := range elements {
		elements[i] = fmt.Sprintf(format, i)
	}
	return strings.Join(elements, ",")
}

// TestFaults: a share of 1 concerns every request of its kind, and no other; a request that is
// refused is not applied.
func TestFaults(t *testing.T) {
	t.Parallel()
	requests := map[string]string{
		"PutItem":            `{"TableName":"things","Item":{"pk":{"S":"x"}}}`,
		"UpdateItem":         `{"TableName":"things","Key":{"pk":{"S":"x"}}}`,
		"DeleteItem":         `{"TableName":"things","Key":{"pk":{"S":"x"}}}`,
		"GetItem":            `{"TableName":"things","Key":{"pk":{"S":"x"}}}`,
		"Query":              `{"TableName":"things","KeyConditionExpression":"pk = :k","ExpressionAttributeValues":{":k":{"S":"x"}}}`,
		"Scan":               `{"TableName":"things"}`,
		"BatchGetItem":       `{"RequestItems":{"things":{"Keys":[{"pk":{"S":"x"}}]}}}`,
		"BatchWriteItem":     `{"RequestItems":{"things":[{"PutRequest":{"Item":{"pk":{"S":"x"}}}}]}}`,
		"TransactGetItems":   `{"TransactItems":[{"Get":{"TableName":"things","Key":{"pk":{"S":"x"}}}}]}`,
		"TransactWriteItems": `{"TransactItems":[{"Put":{"TableName":"things","Item":{"pk":{"S":"x"}}}}]}`,
		"DescribeTable":      `{"TableName":"things"}`,
	}
	writes := []string{"PutItem", "UpdateItem", "DeleteItem"}
	transactions := []string{"TransactGetItems", "TransactWriteItems"}
	batches := []string{"BatchGetItem", "BatchWriteItem"}
	for name, c := range map[string]struct {
		faults  wire.Faults
		refused map[string]string // code by operation
	}{
		"none":        {wire.Faults{}, nil},
		"throttle":    {wire.Faults{Throttle: 1}, codes("ProvisionedThroughputExceededException", slices.Concat(writes, transactions, batches, []string{"GetItem", "Query", "Scan"})...)},
		"conflict":    {wire.Faults{Conflict: 1}, union(codes("TransactionConflictException", writes...), codes("TransactionCanceledException", transactions...))},
		"unprocessed": {wire.Faults{Unprocessed: 1}, codes("ProvisionedThroughputExceededException", batches...)},
	} {
		h := newHandler(t, wire.Config{Intercept: c.faults.Interceptor(rand.Float64)})
		for _, operation := range slices.Sorted(maps.Keys(requests)) {
			status, text := ask(t, h, operation, requests[operation])
			code := c.refused[operation]
			if code == "" && status != http.StatusOK || code != "" && (status != http.StatusBadRequest || !strings.Contains(text, "#"+code+`"`)) {
				t.Errorf("%s: %s got %d %s, want %q", name, operation, status, text, code)
			}
		}
		if name == "conflict" {
			if _, text := ask(t, h, "TransactWriteItems", requests["TransactWriteItems"]); !strings.Contains(text, `"Code":"TransactionConflict"`) {
				t.Errorf("the transaction was canceled by %s", text)
			}
		}
		if name != "throttle" {
			continue
		}
		if _, text := ask(t, h, "DescribeTable", requests["DescribeTable"]); !strings.Contains(text, `"ItemCount":0`) {
			t.Errorf("a throttled write was applied: %s", text)
		}
	}
}

func codes(code string, operations ...string) map[string]string {
	all := make(map[string]string)
	for _, operation := range operations {
		all[operation] = code
	}
	return all
}

func union(all ...map[string]string) map[string]string {
	out := make(map[string]string)
	for _, m := range all {
		maps.Copy(out, m)
	}
	return out
}

// TestUnprocessed: what a batch returns as unprocessed was not processed, and the rest was.
// Sent again until nothing is unprocessed, all is.
func TestUnprocessed(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	h := newHandler(t, wire.Config{Intercept: wire.Faults{Unprocessed: 0.4}.Interceptor(random.Float64)})
	const n = 20
	pending := `{"things":[` + batchOf(n, `{"PutRequest":{"Item":{"pk":{"S":"%d"}}}}`) + `]}`
	for rounds := 0; pending != "{}"; rounds++ {
		before := strings.Count(pending, "PutRequest")
		status, text := ask(t, h, "BatchWriteItem", `{"RequestItems":`+pending+`}`)
		if status == http.StatusBadRequest && strings.Contains(text, "ProvisionedThroughputExceeded") {
			continue // nothing was processed
		}
		_, rest, ok := strings.Cut(text, `"UnprocessedItems":`)
		if status != http.StatusOK || !ok {
			t.Fatalf("got %d %s", status, text)
		}
		pending = strings.TrimSuffix(rest, "}")
		left := strings.Count(pending, "PutRequest")
		if rounds == 0 && (left == 0 || left == n) {
			t.Errorf("%d of %d puts were not processed", left, n)
		}
		if left > before {
			t.Fatalf("%d puts are left of %d", left, before)
		}
		if _, text := ask(t, h, "Scan", `{"TableName":"things","Select":"COUNT"}`); !strings.Contains(text, fmt.Sprintf(`"Count":%d`, n-left)) {
			t.Fatalf("with %d puts left the table has %s", left, text)
		}
	}
	_, text := ask(t, h, "BatchGetItem", `{"RequestItems":{"things":{"ConsistentRead":true,"Keys":[`+batchOf(n, `{"pk":{"S":"%d"}}`)+`]}}}`)
	if got := strings.Count(text, `"pk"`); got != n || !strings.Contains(text, `"ConsistentRead":true,"Keys":[{`) && !strings.Contains(text, `"Keys":[{`) {
		t.Errorf("the found and unprocessed keys are %d, want %d: %s", got, n, text)
	}
}
