package localdynamo_test

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// These benchmarks sync every write to disk.

const benchItems = 20_000

func benchDB(b *testing.B) *localdynamo.DB {
	db := openAt(b, filepath.Join(b.TempDir(), "db"), localdynamo.Options{SweepInterval: -1})
	createTable(b, db, "things", types.ScalarAttributeTypeS)
	var group sync.WaitGroup
	for w := range 100 {
		group.Go(func() {
			for i := w; i < benchItems; i += 100 {
				if _, err := db.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: things, Item: benchItem(i)}); err != nil {
					b.Error(err)
				}
			}
		})
	}
	group.Wait()
	return db
}

// benchItem is about 1 KB, like the metadata row of a page.
func benchItem(i int) item {
	return item{
		"pk": str(fmt.Sprintf("CACHE#%064x", i*2654435761)), "sk": str("META"), "s3_key": str(strings.Repeat("k", 100)),
		"generated_at": num("1700000000"), "revalidate_seconds": num("60"), "etag": str(`"abcdef"`), "ttl": num("1800000000"),
		"isr": &types.AttributeValueMemberM{Value: item{"v": num(strconv.Itoa(i)), "headers": str(strings.Repeat("h", 600)), "status": num("200")}},
	}
}

func benchKey(i int) item {
	return item{"pk": str(fmt.Sprintf("CACHE#%064x", i%benchItems*2654435761)), "sk": str("META")}
}

func perWorkers(b *testing.B, op func(db *localdynamo.DB, i int) error) {
	for _, workers := range []int{1, 16} {
		b.Run(fmt.Sprintf("workers=%d", workers), func(b *testing.B) {
			db := benchDB(b)
			var next atomic.Int64
			b.ReportAllocs()
			b.ResetTimer()
			var group sync.WaitGroup
			for range workers {
				group.Go(func() {
					for i := next.Add(1); i <= int64(b.N); i = next.Add(1) {
						if err := op(db, int(i)*7919); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			group.Wait()
			b.StopTimer()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}

func BenchmarkGetItem(b *testing.B) {
	perWorkers(b, func(db *localdynamo.DB, i int) error {
		out, err := db.GetItem(b.Context(), &dynamodb.GetItemInput{TableName: things, Key: benchKey(i)})
		if err == nil && out.Item == nil {
			err = fmt.Errorf("item %d is missing", i)
		}
		return err
	})
}

func BenchmarkPutItem(b *testing.B) {
	perWorkers(b, func(db *localdynamo.DB, i int) error {
		_, err := db.PutItem(b.Context(), &dynamodb.PutItemInput{TableName: things, Item: benchItem(i % benchItems)})
		return err
	})
}

func BenchmarkUpdateItem(b *testing.B) {
	perWorkers(b, func(db *localdynamo.DB, i int) error {
		_, err := db.UpdateItem(b.Context(), &dynamodb.UpdateItemInput{
			TableName: things, Key: benchKey(i), UpdateExpression: aws.String("SET generated_at = generated_at + :one"),
			ConditionExpression: aws.String("attribute_exists(pk) AND generated_at > :one"), ExpressionAttributeValues: item{":one": num("1")},
		})
		return err
	})
}

func BenchmarkTransactWriteItems(b *testing.B) {
	perWorkers(b, func(db *localdynamo.DB, i int) error {
		lock := benchKey(i)
		lock["sk"] = str("LOCK")
		_, err := db.TransactWriteItems(b.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
			putting(benchItem(i%benchItems), "attribute_exists(pk)"),
			{Delete: &types.Delete{TableName: things, Key: lock}},
		}})
		return err
	})
}

func BenchmarkQuery100(b *testing.B) {
	db := openAt(b, filepath.Join(b.TempDir(), "db"), localdynamo.Options{NoSync: true, SweepInterval: -1})
	createTable(b, db, "things", types.ScalarAttributeTypeS)
	for i := range 100 {
		put(b, db, item{"pk": str("p"), "sk": str(fmt.Sprintf("%03d", i)), "v": str(strings.Repeat("x", 200)), "n": num("1")})
	}
	b.ReportAllocs()
	for b.Loop() {
		out, err := db.Query(b.Context(), &dynamodb.QueryInput{
			TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")},
		})
		if err != nil || len(out.Items) != 100 {
			b.Fatal(len(out.Items), err)
		}
	}
}
