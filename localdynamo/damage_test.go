package localdynamo_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// textOf is the attribute v of the item i of fileWithItems.
func textOf(i int) string { return strings.Repeat("x", i) }

// openBytes opens a file with these contents.
func openBytes(t *testing.T, contents []byte) (*localdynamo.DB, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	return localdynamo.Open(path, localdynamo.Options{NoSync: true, SweepInterval: -1})
}

// TestFlippedBits flips single bits in the file, except in its two meta pages, of which one may be torn by a
// crash. Each read returns what was written, or an error: neither another value, nor none, nor fewer items.
func TestFlippedBits(t *testing.T) {
	t.Parallel()
	whole := fileWithItems(t)
	random := rand.New(rand.NewPCG(5, 6))
	refused, failed, right := 0, 0, 0
	for range 2 * *damages {
		at := 2*os.Getpagesize() + random.IntN(len(bytes.TrimRight(whole, "\x00"))-2*os.Getpagesize())
		bit := byte(1) << random.IntN(8)
		damaged := bytes.Clone(whole)
		damaged[at] ^= bit
		db, err := openBytes(t, damaged)
		if err != nil {
			refused++
			continue
		}
		if n := readFlipped(t, db, at, bit); n > 0 {
			failed++
		} else {
			right++
		}
		_ = db.Close()
	}
	t.Logf("of %d flipped bits, Open refused %d, reads failed after %d and were right after %d", 2**damages, refused, failed, right)
}

// readFlipped reads all items in several ways, and returns how many reads failed.
func readFlipped(t *testing.T, db *localdynamo.DB, at int, bit byte) (failed int) {
	t.Helper()
	check := func(err error) bool {
		checkDamageError(t, err)
		if err != nil {
			failed++
		}
		return err == nil
	}
	for i := range 300 {
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", strconv.Itoa(i))})
		if check(err) {
			if v, ok := out.Item["v"].(*types.AttributeValueMemberS); !ok || v.Value != textOf(i) {
				t.Errorf("bit %x at %d: item %d is %v", bit, at, i, out.Item)
			}
		}
	}
	for _, reverse := range []bool{false, true} {
		out, err := db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: things, KeyConditionExpression: aws.String("pk = :p"),
			ExpressionAttributeValues: item{":p": str("p")}, ScanIndexForward: &reverse,
		})
		if check(err) && len(out.Items) != 300 {
			t.Errorf("bit %x at %d: Query returned %d items", bit, at, len(out.Items))
		}
	}
	if check(db.Check(t.Context())) && failed > 0 {
		t.Errorf("bit %x at %d: Check found nothing, but %d reads failed", bit, at, failed)
	}
	return failed
}

// damagedFile returns a file with 300 items, of which the item "77" is damaged, and its index entry is not.
func damagedFile(t *testing.T) []byte {
	t.Helper()
	whole := fileWithItems(t)
	damaged := bytes.Clone(whole)
	at := bytes.Index(damaged, []byte(textOf(77)+"\x05")) // the next leaf element or attribute is not x
	if at < 0 {
		at = bytes.Index(damaged, []byte("\x01vSM"+textOf(77)))
	}
	if at < 0 {
		t.Fatal("item 77 was not found in the file")
	}
	damaged[at+10] ^= 1
	return damaged
}

// TestDamagedItem: the error names table, key and remedy; callers can tell it; the rest of the table goes on;
// and the item can be replaced.
func TestDamagedItem(t *testing.T) {
	t.Parallel()
	db, err := openBytes(t, damagedFile(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	k := key("p", "77")
	_, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: k})
	wantDamage(t, "GetItem", err)
	_, err = db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: things, Key: k, UpdateExpression: aws.String("SET a = :a"), ExpressionAttributeValues: item{":a": str("a")},
	})
	wantDamage(t, "UpdateItem", err)
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: k, ConditionExpression: aws.String("attribute_not_exists(pk)")})
	wantDamage(t, "PutItem with a condition", err)
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things})
	wantDamage(t, "Scan", err)
	wantDamage(t, "Check", db.Check(t.Context()))
	equal(t, get(t, db, "p", "78")["v"], str(textOf(78)))
	put(t, db, item{"pk": str("p"), "sk": str("new")}) // other writes go on

	replacement := item{"pk": str("p"), "sk": str("77"), "v": str("again")}
	for _, want := range []bool{true, false} { // the second finds an intact item
		replaced, err := db.Replace(t.Context(), "things", k, replacement)
		if err != nil || replaced != want {
			t.Fatalf("Replace: %v, %v; want %v", replaced, err, want)
		}
	}
	equal(t, get(t, db, "p", "77")["v"], str("again"))
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

func wantDamage(t *testing.T, what string, err error) {
	t.Helper()
	damage, ok := errors.AsType[*localdynamo.DamageError](err)
	if !ok || !errors.Is(err, localdynamo.ErrDamaged) || !errors.Is(err, localdynamo.ErrCorrupt) {
		t.Errorf("%s: got %v, want a DamageError", what, err)
		return
	}
	equal(t, damage.Table, "things")
	equal(t, damage.Key, key("p", "77"))
	for _, part := range []string{"things", `sk="77"`, "isr restore"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%s: the error %q does not name %s", what, err, part)
		}
	}
}

// TestReplaceDamagedItem: a put or a deletion without a condition replaces a damaged item.
func TestReplaceDamagedItem(t *testing.T) {
	t.Parallel()
	for name, replace := range map[string]func(*localdynamo.DB) error{
		"put": func(db *localdynamo.DB) error {
			_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: key("p", "77")})
			return err
		},
		"delete": func(db *localdynamo.DB) error {
			_, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("p", "77")})
			return err
		},
		"volatile": func(db *localdynamo.DB) error {
			_, err := db.Volatile().DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: key("p", "77")})
			return err
		},
	} {
		db, err := openBytes(t, damagedFile(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := replace(db); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUpgradedByUse: the items of an older file have no checksums until they are written; then damage to
// them is found.
func TestUpgradedByUse(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, format1File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	soon := localdynamo.Options{NoSync: true, SweepInterval: -1, Now: func() time.Time { return time.Unix(1_760_000_060, 0) }}
	db, err := localdynamo.Open(path, soon)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, get(t, db, "p", "7")["n"], num("7"))
	put(t, db, item{"pk": str("p"), "sk": str("7"), "n": num("7"), "text": str("written by format 3")})
	if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range contents { // a page that is free now may hold a copy
		if bytes.HasPrefix(contents[at:], []byte("written by format 3")) {
			contents[at] ^= 1
		}
	}
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	if db, err = localdynamo.Open(path, soon); err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err = db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", "7")}); !errors.Is(err, localdynamo.ErrDamaged) {
		t.Errorf("a damaged item: %v", err)
	}
	equal(t, get(t, db, "p", "8")["n"], num("8"))
}
