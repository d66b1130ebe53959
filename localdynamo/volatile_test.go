package localdynamo_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// half is a DB half of whose writes of single items are volatile.
type half struct {
	*localdynamo.DB
	writes atomic.Int64
}

func (h *half) next() interface {
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
} {
	if h.writes.Add(1)%2 == 0 {
		return h.Volatile()
	}
	return h.DB
}

func (h *half) PutItem(ctx context.Context, in *dynamodb.PutItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error) {
	return h.next().PutItem(ctx, in)
}

func (h *half) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error) {
	return h.next().UpdateItem(ctx, in)
}

func (h *half) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error) {
	return h.next().DeleteItem(ctx, in)
}

// valued is an item with a value.
func valued(pk, sk string, v int) item {
	it := key(pk, sk)
	it["v"] = number(v)
	return it
}

func putVolatile(t testing.TB, db *localdynamo.DB, it item) {
	t.Helper()
	if _, err := db.Volatile().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it}); err != nil {
		t.Fatal(err)
	}
}

func deleteVolatile(t testing.TB, db *localdynamo.DB, k item) {
	t.Helper()
	if _, err := db.Volatile().DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: k}); err != nil {
		t.Fatal(err)
	}
}

// crashed returns what a crash of the machine would leave of a file: what is on disk is in it.
func crashed(t *testing.T, path string) *localdynamo.DB {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(t.TempDir(), "left")
	if err := os.WriteFile(left, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return openAt(t, left, localdynamo.Options{SweepInterval: -1})
}

func volatileFile(t *testing.T) (*localdynamo.DB, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{SweepInterval: -1})
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	return db, path
}

// A crash loses volatile writes, but none that a durable write depends on.
func TestVolatileWritesAfterACrash(t *testing.T) {
	t.Parallel()
	db, path := volatileFile(t)
	put(t, db, valued("a", "kept", 1))
	put(t, db, valued("a", "deleted", 1))
	put(t, db, valued("a", "published", 1))
	for _, sk := range []string{"lost", "kept", "lease", "checked", "overwritten"} {
		putVolatile(t, db, valued("a", sk, 2))
	}
	deleteVolatile(t, db, key("a", "deleted"))

	// As a publish does: the lease ends in the transaction whose condition it is.
	held := aws.String("v = :two")
	two := item{":two": number(2)}
	_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: things, Item: valued("a", "published", 2)}},
		{Delete: &types.Delete{TableName: things, Key: key("a", "lease"), ConditionExpression: held, ExpressionAttributeValues: two}},
		{ConditionCheck: &types.ConditionCheck{TableName: things, Key: key("a", "checked"), ConditionExpression: held, ExpressionAttributeValues: two}},
		{Put: &types.Put{TableName: things, Item: valued("a", "overwritten", 3)}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	all := func(db *localdynamo.DB) map[string]int {
		found := map[string]int{}
		for _, it := range itemsOf(t, db, "a", true) {
			v, err := valueOf(it)
			if err != nil {
				t.Fatal(err)
			}
			found[it["sk"].(*types.AttributeValueMemberS).Value] = v
		}
		return found
	}
	now := map[string]int{"lost": 2, "kept": 2, "checked": 2, "overwritten": 3, "published": 2}
	equal(t, all(db), now)
	equal(t, all(crashed(t, path)), map[string]int{"kept": 1, "deleted": 1, "checked": 2, "overwritten": 3, "published": 2})
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	equal(t, all(crashed(t, path)), now)
}

func itemsOf(t *testing.T, db *localdynamo.DB, pk string, forward bool) []item {
	t.Helper()
	out, err := db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: things, KeyConditionExpression: aws.String("pk = :p"), ScanIndexForward: &forward,
		ExpressionAttributeValues: item{":p": str(pk)},
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.Items
}

// Reads of ranges see volatile writes in the order of their keys, in both directions.
func TestVolatileWritesInRanges(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	want := []string{"00", "02", "03", "04", "06", "07", "09"}
	for _, sk := range []string{"02", "04", "05", "06", "08"} {
		put(t, db, valued("a", sk, 1))
	}
	for _, sk := range []string{"00", "03", "04", "07", "09"} {
		putVolatile(t, db, valued("a", sk, 2))
	}
	for _, sk := range []string{"05", "08", "10"} {
		deleteVolatile(t, db, key("a", sk))
	}
	putVolatile(t, db, valued("b", "00", 2))
	check := func() {
		t.Helper()
		for _, forward := range []bool{true, false} {
			var got []string
			for _, it := range itemsOf(t, db, "a", forward) {
				sk := it["sk"].(*types.AttributeValueMemberS).Value
				if forward {
					got = append(got, sk)
				} else {
					got = append([]string{sk}, got...)
				}
			}
			equal(t, got, want)
		}
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, Limit: aws.Int32(3)})
		if err != nil || out.Count != 3 {
			t.Errorf("a page of a scan: %d items, %v", out.Count, err)
		}
	}
	check()
	if err := db.Check(t.Context()); err != nil { // which writes them
		t.Error(err)
	}
	check()
}

// Tables with an index, and more items than the overlay holds, are written to the file.
func TestVolatileWritesThatWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	createCrashTable(t, db)
	putVolatile(t, db, row{n: 1, group: "red"}.item(0, 1))
	equal(t, countGrouped(t, crashed(t, path)), 1)

	createTable(t, db, "plain", types.ScalarAttributeTypeS)
	const items = 5000
	for i := range items {
		if _, err := db.Volatile().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("plain"), Item: key("a", fmt.Sprint(i))}); err != nil {
			t.Fatal(err)
		}
	}
	count := func(db *localdynamo.DB) int {
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("plain")})
		if err != nil {
			t.Fatal(err)
		}
		return int(*out.Table.ItemCount)
	}
	if onDisk := count(crashed(t, path)); onDisk < 4096 || onDisk >= items {
		t.Errorf("%d of %d items are on disk, want those that do not fit into memory", onDisk, items)
	}
	if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("plain")}); err != nil {
		t.Fatal(err)
	}
	createTable(t, db, "plain", types.ScalarAttributeTypeS)
	equal(t, count(db), 0)
}
