package localdynamo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// TestCompact: the file shrinks, keeps what it has, and can be used while and after it is compacted.
func TestCompact(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	for i := range 600 {
		put(t, db, item{"pk": str("p"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", 4000))})
	}
	for i := range 500 {
		if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("p", strconv.Itoa(i))}); err != nil {
			t.Fatal(err)
		}
	}
	done, err := db.Compact(t.Context(), localdynamo.CompactOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if done.After > done.Before/3 || len(done.Discarded) > 0 {
		t.Errorf("compacted %+v", done)
	}
	put(t, db, item{"pk": str("p"), "sk": str("new")})
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	again := openAt(t, path, localdynamo.Options{SweepInterval: -1})
	out, err := again.Query(t.Context(), &dynamodb.QueryInput{
		TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")},
	})
	if err != nil || len(out.Items) != 101 {
		t.Errorf("%d items, %v; want 101", len(out.Items), err)
	}
}

// TestCompactUnderWrites compacts again and again while items and tables are written, deleted and read. No
// acknowledged write is lost, before and after the file is reopened, and no deleted item returns.
func TestCompactUnderWrites(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	const workers = 4
	var writing sync.WaitGroup
	newest := make([]int, workers) // each owned by a worker
	for worker := range workers {
		writing.Go(func() {
			for n := 1; ctx.Err() == nil; n++ {
				sk := fmt.Sprintf("%d/%d", worker, n%50)
				_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: item{"pk": str("p"), "sk": str(sk), "n": num(strconv.Itoa(n))}})
				if err == nil && n%50 == 0 {
					_, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("p", fmt.Sprintf("%d/%d", worker, 25))})
				}
				if err != nil {
					t.Errorf("write: %v", err)
					return
				}
				newest[worker] = n
				if got := get(t, db, "p", sk)["n"]; got == nil || got.(*types.AttributeValueMemberN).Value != strconv.Itoa(n) {
					t.Errorf("read %v after %d was written", got, n)
					return
				}
			}
		})
	}
	writing.Go(func() { // spaces that are dropped
		for n := 0; ctx.Err() == nil; n++ {
			name := fmt.Sprint("table-", n%3)
			createTable(t, db, name, types.ScalarAttributeTypeS)
			if _, err := db.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
				t.Errorf("delete a table: %v", err)
				return
			}
		}
	})
	for range 10 {
		if _, err := db.Compact(t.Context(), localdynamo.CompactOptions{}); err != nil {
			t.Errorf("Compact: %v", err)
		}
	}
	stop()
	writing.Wait()
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	db = openAt(t, path, localdynamo.Options{SweepInterval: -1})
	for worker, n := range newest {
		for ; n > newest[worker]-49 && n > 0; n-- {
			if n%50 == 25 && n <= newest[worker]/50*50 {
				continue // deleted since
			}
			if got := get(t, db, "p", fmt.Sprintf("%d/%d", worker, n%50))["n"]; got == nil || got.(*types.AttributeValueMemberN).Value != strconv.Itoa(n) {
				t.Errorf("item %d of worker %d is %v", n, worker, got)
			}
		}
	}
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v (%v)", entries, err)
	}
}

// TestCompactDiscards: damage ends a compaction, unless it is to be discarded. Then indexes agree with what is left.
func TestCompactDiscards(t *testing.T) {
	t.Parallel()
	db, err := openBytes(t, damagedFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.Compact(t.Context(), localdynamo.CompactOptions{})
	wantDamage(t, "Compact", err)
	done, err := db.Compact(t.Context(), localdynamo.CompactOptions{Discard: true})
	if err != nil || len(done.Discarded) != 1 {
		t.Fatalf("Compact: %+v, %v", done, err)
	}
	equal(t, done.Discarded[0].Key, key("p", "77"))
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things})
	if err != nil || len(out.Items) != 299 {
		t.Errorf("%d items, %v", len(out.Items), err)
	}
}

// TestCompactGivesChecksums: a file of an older format has a checksum for each value after it.
func TestCompactGivesChecksums(t *testing.T) {
	t.Parallel()
	db, err := openBytes(t, format1File(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Compact(t.Context(), localdynamo.CompactOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
	equal(t, get(t, db, "p", "7")["n"], num("7"))
}

// TestCloseDuringCompaction: Close ends a compaction, and leaves the file as it was.
func TestCloseDuringCompaction(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	for i := range 50 {
		put(t, db, item{"pk": str("p"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", 390_000))})
	}
	closed := make(chan error, 1)
	var once sync.Once
	_, err := db.Compact(t.Context(), localdynamo.CompactOptions{Progress: func(int64, int64) {
		once.Do(func() {
			go func() { closed <- db.Close() }()
			for { // until Close has begun
				if _, err := db.ListTables(t.Context(), nil); errors.Is(err, localdynamo.ErrClosed) {
					return
				}
			}
		})
	}})
	if !errors.Is(err, localdynamo.ErrClosed) {
		t.Errorf("Compact: %v", err)
	}
	if err := <-closed; err != nil {
		t.Errorf("Close: %v", err)
	}
	db = openAt(t, path, localdynamo.Options{SweepInterval: -1})
	if len(get(t, db, "p", "49")) != 3 {
		t.Error("an item is missing")
	}
}

// TestOpenRemovesUnfinishedCompactions: what a crash during a compaction has left beside the file is removed.
func TestOpenRemovesUnfinishedCompactions(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	path := filepath.Join(folder, "db")
	for _, name := range []string{"db.compact123", "other.compact123"} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte("half a file"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	equal(t, names, []string{"db", "other.compact123"})
}
