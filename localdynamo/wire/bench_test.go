package wire_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/facetheory/isr/localdynamo/wire"
)

// The benchmarks call the handler with an in-memory engine, without net/http: they
// measure the cost of the protocol. The item has ten attributes and about 1 KB.

const benchAttributes = `"pk":{"S":"item"},"sk":{"S":"META"},"etag":{"S":"\"abcdef0123456789\""},"generated_at":{"N":"1700000000"},` +
	`"ttl":{"N":"1800000000"},"revalidate_seconds":{"N":"60"},"fresh":{"BOOL":true},"tags":{"SS":["a","b","c"]},` +
	`"s3_key":{"S":"pages/0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"},"headers":{"M":{"content-type":{"S":"text/html"},"body":{"S":"%s"}}}`

func benchItem() string { return fmt.Sprintf(benchAttributes, strings.Repeat("x", 700)) }

// discard is a ResponseWriter that records only the status.
type discard struct {
	header http.Header
	status int
	n      int
}

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) WriteHeader(status int)      { d.status = status }
func (d *discard) Write(p []byte) (int, error) { d.n += len(p); return len(p), nil }

func benchmark(b *testing.B, operation, body string) {
	h := newHandler(b, wire.Config{})
	if status, got := ask(b, h, "PutItem", `{"TableName":"things","Item":{`+benchItem()+`}}`); status != http.StatusOK {
		b.Fatal(got)
	}
	source := strings.NewReader(body)
	r := request(operation, source)
	r.ContentLength = int64(len(body))
	r.Body = io.NopCloser(source)
	w := &discard{header: make(http.Header)}
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		source.Reset(body)
		clear(w.header)
		h.ServeHTTP(w, r)
		if w.status != http.StatusOK {
			b.Fatal(ask(b, h, operation, body))
		}
	}
}

func BenchmarkGetItem(b *testing.B) {
	benchmark(b, "GetItem", `{"TableName":"things","Key":{"pk":{"S":"item"}}}`)
}

func BenchmarkPutItem(b *testing.B) {
	benchmark(b, "PutItem", `{"TableName":"things","Item":{`+benchItem()+`}}`)
}

func BenchmarkUpdateItem(b *testing.B) {
	benchmark(b, "UpdateItem", `{"TableName":"things","Key":{"pk":{"S":"item"}},"UpdateExpression":"SET generated_at = generated_at + :one",`+
		`"ConditionExpression":"attribute_exists(pk) AND generated_at > :one","ExpressionAttributeValues":{":one":{"N":"1"}}}`)
}

func BenchmarkTransactWriteItems(b *testing.B) {
	benchmark(b, "TransactWriteItems", `{"TransactItems":[{"Put":{"TableName":"things","Item":{`+benchItem()+`},"ConditionExpression":"attribute_exists(pk)"}},`+
		`{"Delete":{"TableName":"things","Key":{"pk":{"S":"lock"}}}}]}`)
}
