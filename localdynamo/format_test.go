package localdynamo_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	bolt "go.etcd.io/bbolt"

	"github.com/facetheory/isr/localdynamo"
)

// format1File returns a file written by the last version with format 1, at epoch
// second 1760000000. It holds the table things with 40 items, TTL enabled, and two
// items written in a transaction with the token "token"; and an empty table.
func format1File(t *testing.T) []byte {
	t.Helper()
	packed, err := os.Open("testdata/format1.db.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer packed.Close()
	r, err := gzip.NewReader(packed)
	if err != nil {
		t.Fatal(err)
	}
	contents, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// formatOf reads the format version of a file with bbolt.
func formatOf(t *testing.T, path string) string {
	t.Helper()
	file, err := bolt.Open(path, 0o600, &bolt.Options{ReadOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	format := ""
	err = file.View(func(tx *bolt.Tx) error {
		format = string(tx.Bucket([]byte("localdynamo")).Get([]byte("format")))
		return nil
	})
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	return format
}

// TestUpgradeFromFormat1 opens a file of format 1, which upgrades it to format 3
// without loss.
func TestUpgradeFromFormat1(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, format1File(t), 0o600); err != nil {
		t.Fatal(err)
	}
	equal(t, formatOf(t, path), "1")
	soon := func() time.Time { return time.Unix(1_760_000_060, 0) }
	for range 2 { // with the upgrade, and after it
		db, err := localdynamo.Open(path, localdynamo.Options{Now: soon, SweepInterval: -1})
		if err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(db.Check(t.Context()), db.Close()); err != nil {
			t.Fatal(err)
		}
		equal(t, formatOf(t, path), "3")
	}
	db := openAt(t, path, localdynamo.Options{Now: soon, SweepInterval: -1})
	for i := range 40 {
		equal(t, get(t, db, "p", strconv.Itoa(i))["n"], num(strconv.Itoa(i)))
	}
	checkUpgraded(t, db)
}

// checkUpgraded checks what the file holds besides items: a request token, TTL
// and table IDs.
func checkUpgraded(t *testing.T, db *localdynamo.DB) {
	t.Helper()
	_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{
		ClientRequestToken: aws.String("token"),
		TransactItems: []types.TransactWriteItem{
			putting(item{"pk": str("pair"), "sk": str("left")}, "attribute_not_exists(pk)"),
			putting(item{"pk": str("pair"), "sk": str("right")}, "attribute_not_exists(pk)"),
		},
	})
	if err != nil {
		t.Errorf("retry with the stored token: %v", err)
	}
	createTable(t, db, "third", types.ScalarAttributeTypeS)
	for _, name := range []string{"third", "numbered"} {
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: &name})
		if err != nil || len(out.Items) != 0 {
			t.Errorf("table %s has %d items (error %v)", name, len(out.Items), err)
		}
	}
	equal(t, sweep(t, db), 40)
}

// TestDamagedFormat1IsNotUpgraded: a damaged file of format 1 stays unchanged.
func TestDamagedFormat1IsNotUpgraded(t *testing.T) {
	t.Parallel()
	// In the file, a bucket's name precedes the number of its first page.
	right := regexp.MustCompile(`(?s)items/1.{8}`)
	wrong := []byte("items/1\xfe\xfe\xfe\xfe\xfe\xfe\xfe\xfe")
	whole := format1File(t)
	damaged := right.ReplaceAllLiteral(whole, wrong)
	if bytes.Equal(damaged, whole) {
		t.Fatal("the bucket of the items was not found in the file")
	}
	wantOpenError(t, "a wrong page number", damaged, localdynamo.ErrCorrupt, "damaged")
}
