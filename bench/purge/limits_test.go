package main

import (
	"context"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

const (
	tableName = "isr"
	// DynamoDB's limits of one partition, in units per second (Developer Guide,
	// "Partitions and data distribution").
	partitionReads  = 3000
	partitionWrites = 1000
	// Typical latencies of calls within a region; transactions take twice as long.
	latency = 4 * time.Millisecond
)

// A limitedTable is a table on the embedded engine that throttles as DynamoDB does, without
// its burst capacity, and delays each call by its latency.
type limitedTable struct {
	engine *localdynamo.DB
	bodies store.BodyStore

	mu         sync.Mutex
	began      time.Time
	partitions map[string]*partitionLimits
	commits    int                 // transactions on the log
	acked      map[int64]time.Time // by sequence: when a purge was acknowledged first
	took       []time.Duration     // of purges
	units      float64             // of purges
	seen       map[int][]sighting  // by node, in order
}

// A sighting is when a node has read a row of the log.
type sighting struct {
	seq int64
	at  time.Time
}

type partitionLimits struct {
	read, write      bucket
	calls, throttled int
}

// A bucket holds the units of one second.
type bucket struct {
	left         float64
	at           time.Time
	sum, busiest float64
	second       int64
	inSecond     float64
}

// take reports whether there are units left, and consumes some. Like DynamoDB it learns the
// size of a call by executing it.
func (b *bucket) take(units, perSecond float64) bool {
	now := time.Now()
	b.left = min(perSecond, b.left+perSecond*now.Sub(b.at).Seconds())
	b.at = now
	if units > 0 && b.left <= 0 {
		return false
	}
	b.left -= units
	b.sum += units
	if s := now.Unix(); s != b.second {
		b.second, b.inSecond = s, 0
	}
	b.inSecond += units
	b.busiest = max(b.busiest, b.inSecond)
	return true
}

// reset forgets what was consumed before.
func (l *limitedTable) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.began, l.commits = time.Now(), 0
	clear(l.partitions)
}

func (l *limitedTable) acknowledged(seq int64, took time.Duration, units float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if _, ok := l.acked[seq]; !ok {
		l.acked[seq] = time.Now()
	}
	l.took = append(l.took, took)
	l.units += units
}

// take consumes units of a partition, or returns an error as DynamoDB does.
func (l *limitedTable) take(partition string, read, write float64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if strings.HasPrefix(partition, "CACHE#") {
		partition = "pages"
	}
	p := l.partitions[partition]
	if p == nil {
		full := time.Now().Add(-time.Second)
		p = &partitionLimits{read: bucket{at: full}, write: bucket{at: full}}
		l.partitions[partition] = p
	}
	p.calls++
	if !p.read.take(read, partitionReads) || !p.write.take(write, partitionWrites) {
		p.throttled++
		return &types.ProvisionedThroughputExceededException{Message: aws.String("Throughput exceeds the current capacity of the partition")}
	}
	return nil
}

// delay waits for as long as half a call takes.
func delay(factor float64) {
	time.Sleep(time.Duration(factor * float64(latency) * (0.5 + rand.ExpFloat64()/2) / 2))
}

// A nodeAPI is DynamoDB as one node calls it.
type nodeAPI struct {
	*localdynamo.DB
	table *limitedTable
	node  int
}

func partitionOf(key map[string]types.AttributeValue) string {
	pk, _ := key["pk"].(*types.AttributeValueMemberS)
	return pk.Value
}

func (a nodeAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error) {
	delay(1)
	if err := a.table.take(partitionOf(in.Key), 1, 0); err != nil {
		return nil, err
	}
	out, err := a.DB.GetItem(ctx, in)
	delay(1)
	return out, err
}

func (a nodeAPI) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	delay(1)
	if err := a.table.take(partitionOf(in.Item), 0, 1); err != nil {
		return nil, err
	}
	out, err := a.DB.PutItem(ctx, in)
	delay(1)
	return out, err
}

func (a nodeAPI) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	delay(1)
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := a.DB.Query(ctx, in)
	if err != nil {
		return nil, err
	}
	pk, _ := in.ExpressionAttributeValues[":pk"].(*types.AttributeValueMemberS)
	if err := a.table.take(pk.Value, *out.ConsumedCapacity.CapacityUnits, 0); err != nil {
		return nil, err
	}
	delay(1)
	a.table.saw(a.node, out.Items)
	return out, nil
}

func (a nodeAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, _ ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error) {
	delay(2)
	estimate := 2 * float64(len(in.TransactItems))
	if a.table.take("PURGE", 0, estimate) != nil {
		reasons := make([]types.CancellationReason, len(in.TransactItems))
		for i := range reasons {
			reasons[i].Code = aws.String("ThrottlingError")
		}
		return nil, &types.TransactionCanceledException{Message: aws.String("Transaction cancelled"), CancellationReasons: reasons}
	}
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	out, err := a.DB.TransactWriteItems(ctx, in)
	if err == nil {
		a.table.committed(*out.ConsumedCapacity[0].CapacityUnits - estimate)
	}
	delay(2)
	return out, err
}

// committed counts a transaction on the log, and what it consumed beyond the estimate:
// items of more than 1 KB.
func (l *limitedTable) committed(more float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.commits++
	p := l.partitions["PURGE"]
	p.write.left -= more
	p.write.sum += more
	p.write.inSecond += more
}

// saw records the rows of the log that a node has read.
func (l *limitedTable) saw(node int, rows []map[string]types.AttributeValue) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, row := range rows {
		sk, _ := row["sk"].(*types.AttributeValueMemberS)
		digits, isLog := strings.CutPrefix(sk.Value, "LOG#")
		if !isLog {
			return
		}
		if seq, err := strconv.ParseInt(digits, 10, 64); err == nil {
			l.seen[node] = append(l.seen[node], sighting{seq, time.Now()})
		}
	}
}
