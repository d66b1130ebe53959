package isr_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

var collectPages = flag.Int("collect-pages", 20_000, "how many pages BenchmarkCollect has")

// countingTable counts the reads of a table.
type countingTable struct {
	*localdynamo.DB
	queries, scans atomic.Int64
}

func (c *countingTable) Query(ctx context.Context, in *dynamodb.QueryInput, o ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	c.queries.Add(1)
	return c.DB.Query(ctx, in, o...)
}

func (c *countingTable) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error) {
	c.scans.Add(1)
	return c.DB.Scan(ctx, in, o...)
}

// listedBodies generates bodies without content as they are listed: one per page that a
// row refers to, and for every tenth page also garbage.
type listedBodies struct {
	store.BodyStore
	pages   int
	deleted sync.Map
}

func benchPK(i int) string {
	return store.HashedPartition(store.Key{Text: fmt.Sprint("example.com/", i)})
}

func benchFolder(i int) string {
	sum := sha256.Sum256([]byte(benchPK(i)))
	return "bodies/" + hex.EncodeToString(sum[:]) + "/"
}

func benchBodies(i int) []string {
	folder := benchFolder(i)
	bodies := []string{folder + "20261121T183412.767908Z-bvwjmuat2f7ecwuu4gkv6skqqw"}
	if i%10 == 0 {
		bodies = append(bodies, folder+"20261120T183412.767908Z-aaaajmuat2f7ecwuu4gkv6skqq")
	}
	return bodies
}

func (l *listedBodies) List(_ context.Context, prefix string) iter.Seq2[store.BodyInfo, error] {
	return func(yield func(store.BodyInfo, error) bool) {
		list := func(i int) bool {
			for _, key := range benchBodies(i) {
				if _, gone := l.deleted.Load(key); !gone && !yield(store.BodyInfo{Key: key, Length: 1, ModifiedAt: time.Unix(1e9, 0)}, nil) {
					return false
				}
			}
			return true
		}
		if i, ok := benchPages(l.pages)[prefix]; ok {
			list(i)
			return
		}
		for i := range l.pages {
			if !list(i) {
				return
			}
		}
	}
}

// benchPages are the pages by folder, which a bucket would find by its index.
var benchPages = sync.OnceValue(func() func(int) map[string]int {
	pages := make(map[string]int)
	return func(n int) map[string]int {
		for i := len(pages); i < n; i++ {
			pages[benchFolder(i)] = i
		}
		return pages
	}
})()

func (l *listedBodies) Delete(_ context.Context, key string) error {
	l.deleted.Store(key, true)
	return nil
}

// BenchmarkCollect collects the garbage of many pages, a tenth of which have some.
func BenchmarkCollect(b *testing.B) {
	tb := newTable(b)
	for first := 0; first < *collectPages; first += 25 {
		var writes []types.WriteRequest
		for i := first; i < first+25; i++ {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: map[string]types.AttributeValue{
				"pk":     &types.AttributeValueMemberS{Value: benchPK(i)},
				"sk":     &types.AttributeValueMemberS{Value: "META"},
				"s3_key": &types.AttributeValueMemberS{Value: benchBodies(i)[0]},
				"isr":    &types.AttributeValueMemberS{Value: string(make([]byte, 700))},
			}}})
		}
		if _, err := tb.db.BatchWriteItem(b.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{tableName: writes}}); err != nil {
			b.Fatal(err)
		}
	}
	counted := &countingTable{DB: tb.db}
	store, err := dynamostore.New(counted, tableName, dynamostore.Config{})
	if err != nil {
		b.Fatal(err)
	}
	benchPages(*collectPages)
	for b.Loop() {
		peak := measurePeak()
		done, err := gc.Collect(b.Context(), store, &listedBodies{pages: *collectPages}, gc.CollectOptions{})
		b.ReportMetric(float64(peak())/(1<<20), "peak-MiB")
		if err != nil || done.Bodies != (*collectPages+9)/10 {
			b.Fatalf("%+v, %v", done, err)
		}
		b.ReportMetric(float64(counted.queries.Swap(0))/float64(*collectPages), "queries/page")
		b.ReportMetric(float64(counted.scans.Swap(0)), "scan-requests")
	}
}

// measurePeak returns a function that returns the largest growth of the heap.
func measurePeak() func() uint64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	before := m.HeapAlloc
	quit, peak := make(chan struct{}), make(chan uint64)
	go func() {
		var most uint64
		for {
			runtime.GC() // what is live, not what is waiting to be collected
			runtime.ReadMemStats(&m)
			if m.HeapAlloc > before {
				most = max(most, m.HeapAlloc-before)
			}
			select {
			case <-quit:
				peak <- most
				return
			case <-time.After(20 * time.Millisecond):
			}
		}
	}()
	return func() uint64 { close(quit); return <-peak }
}
