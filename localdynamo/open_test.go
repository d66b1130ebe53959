package localdynamo_test

import (
	"bytes"
	"errors"
	"flag"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	bolt "go.etcd.io/bbolt"

	"github.com/facetheory/isr/localdynamo"
)

// fileWithItems returns the bytes of a file with 300 items.
func fileWithItems(t *testing.T) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true})
	if err != nil {
		t.Fatal(err)
	}
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	for i := range 300 {
		put(t, db, item{"pk": str("p"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", i))})
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Cut unused space at the end, to keep the copies small.
	used := len(bytes.TrimRight(whole, "\x00"))
	return whole[:min(len(whole), (used/65536+1)*65536)]
}

// wantOpenError requires that opening a file with these contents fails with an
// error that wraps want and contains words, and does not change the file.
func wantOpenError(t *testing.T, name string, contents []byte, want error, words string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true})
	if err == nil {
		db.Close()
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), path) {
		t.Errorf("%s: got %v", name, err)
	}
	sameBytes(t, path, contents)
}

// TestFailedOpenReleasesTheFile: a file that cannot be opened, because bbolt panics on
// its damage, can be replaced and opened by the same process.
func TestFailedOpenReleasesTheFile(t *testing.T) {
	t.Parallel()
	whole := fileWithItems(t)
	path := filepath.Join(t.TempDir(), "db")
	failed := 0
	for page := 2 * os.Getpagesize(); page < len(whole); page += os.Getpagesize() {
		damaged := bytes.Clone(whole)
		for i := range 16 {
			damaged[page+i] = 0xff // its header
		}
		for _, contents := range [][]byte{damaged, whole} {
			file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) // the same file: a lock belongs to it, not to its name
			if err != nil {
				t.Fatal(err)
			}
			_, err = file.WriteAt(contents, 0)
			if err := errors.Join(err, file.Close()); err != nil {
				t.Fatal(err)
			}
			db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true, SweepInterval: -1})
			switch {
			case err == nil:
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			case &contents[0] == &whole[0]:
				t.Fatalf("page %d: after the damage was repaired: %v", page/os.Getpagesize(), err)
			default:
				failed++
			}
		}
	}
	if failed == 0 {
		t.Error("no damaged file was refused")
	}
}

func TestOpenRefusesForeignFiles(t *testing.T) {
	t.Parallel()
	whole := fileWithItems(t)
	wantOpenError(t, "empty", nil, localdynamo.ErrCorrupt, "header")
	wantOpenError(t, "text", []byte(strings.Repeat("hello ", 10_000)), localdynamo.ErrCorrupt, "header")
	wantOpenError(t, "half a header", whole[:5000], localdynamo.ErrCorrupt, "truncated")
	wantOpenError(t, "truncated", whole[:len(whole)/2], localdynamo.ErrCorrupt, "truncated")
	zeroed := bytes.Clone(whole)
	clear(zeroed[:8192])
	wantOpenError(t, "no header", zeroed, localdynamo.ErrCorrupt, "header")
	wantOpenError(t, "another program's", otherBolt(t, ""), localdynamo.ErrCorrupt, "written by another program")
	wantOpenError(t, "newer", otherBolt(t, "4"), localdynamo.ErrFormat, "format 4, this program supports up to 3")
	wantOpenError(t, "nonsense", otherBolt(t, "x"), localdynamo.ErrCorrupt, "format version")
}

// otherBolt returns a bbolt file with another format version; "" stands for a file
// of another program.
func otherBolt(t *testing.T, format string) []byte {
	t.Helper()
	path := filepath.Join(t.TempDir(), "other")
	db, err := bolt.Open(path, 0o600, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = db.Update(func(tx *bolt.Tx) error {
		name := "localdynamo"
		if format == "" {
			name = "users"
		}
		b, err := tx.CreateBucket([]byte(name))
		if err != nil {
			return err
		}
		return b.Put([]byte("format"), []byte(format))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		t.Fatal(err)
	}
	contents, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return contents
}

// TestOpenTruncatedFile truncates a file at many lengths. Either Open fails, or
// nothing in use was cut off.
func TestOpenTruncatedFile(t *testing.T) {
	t.Parallel()
	whole := fileWithItems(t)
	random := rand.New(rand.NewPCG(3, 4))
	opened := 0
	for i := range 60 {
		n := random.IntN(len(whole) + 1)
		if i%2 == 0 {
			n &^= 4095
		}
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, whole[:n], 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true, SweepInterval: -1})
		if err != nil {
			if !errors.Is(err, localdynamo.ErrCorrupt) {
				t.Errorf("%d of %d bytes: %v", n, len(whole), err)
			}
			continue
		}
		opened++
		if err := db.Check(t.Context()); err != nil {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
		for i := range 300 {
			equal(t, get(t, db, "p", strconv.Itoa(i)), item{"pk": str("p"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", i))})
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d of 60 truncated files could be opened", opened)
}

var damages = flag.Int("damages", 80, "number of damaged files that TestOpenDamagedFile opens")

// TestOpenDamagedFile overwrites parts of a file, from a single bit to 64 bytes.
// The result must be an error or a working file, never a crash of the process.
// Check cannot detect changes to an item that leave the file well formed. Reading
// a damaged file must not change it.
func TestOpenDamagedFile(t *testing.T) {
	t.Parallel()
	whole := fileWithItems(t)
	random := rand.New(rand.NewPCG(1, 2))
	refused, faulty := 0, 0
	for range *damages {
		damaged := bytes.Clone(whole)
		at, n := random.IntN(len(damaged)-64), 1+random.IntN(64)
		if random.IntN(2) == 0 { // the first pages, which refer to the others
			at = random.IntN(10 * 4096)
		}
		for i := range n {
			damaged[at+i] = byte(random.Uint32())
		}
		if n < 16 {
			copy(damaged[at:at+n], whole[at:])
			damaged[at] ^= 1 << (n % 8)
		}
		path := filepath.Join(t.TempDir(), "db")
		if err := os.WriteFile(path, damaged, 0o600); err != nil {
			t.Fatal(err)
		}
		db, err := localdynamo.Open(path, localdynamo.Options{NoSync: true, SweepInterval: -1})
		if err != nil {
			if !errors.Is(err, localdynamo.ErrCorrupt) && !errors.Is(err, localdynamo.ErrFormat) {
				t.Errorf("at %d: %v", at, err)
			}
			refused++
			sameBytes(t, path, damaged)
			continue
		}
		if err := db.Check(t.Context()); err != nil {
			if !errors.Is(err, localdynamo.ErrCorrupt) {
				t.Errorf("at %d: %v", at, err)
			}
			faulty++
		}
		readDamaged(t, db)
		sameBytes(t, path, damaged)
		writeDamaged(t, db)
		_ = db.Close()
	}
	t.Logf("%d damaged files: Open refused %d, Check found faults in %d", *damages, refused, faulty)
}

func sameBytes(t *testing.T, path string, want []byte) {
	t.Helper()
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("file %s was modified", path)
	}
}

// checkDamageError fails the test on an error that a damaged file does not
// explain.
func checkDamageError(t *testing.T, err error) {
	t.Helper()
	var noTable *types.ResourceNotFoundException // if the table's definition was damaged
	if err != nil && !errors.Is(err, localdynamo.ErrCorrupt) && !errors.As(err, &noTable) {
		t.Errorf("got %v, want ErrCorrupt or a ResourceNotFoundException", err)
	}
}

func readDamaged(t *testing.T, db *localdynamo.DB) {
	t.Helper()
	for i := range 300 {
		_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", strconv.Itoa(i))})
		checkDamageError(t, err)
	}
	for _, reverse := range []bool{false, true} {
		_, err := db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: things, KeyConditionExpression: aws.String("pk = :p"),
			ExpressionAttributeValues: item{":p": str("p")}, ScanIndexForward: &reverse,
		})
		checkDamageError(t, err)
	}
}

func writeDamaged(t *testing.T, db *localdynamo.DB) {
	t.Helper()
	for i := 0; i < 300; i += 10 {
		k := key("p", strconv.Itoa(i))
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: k})
		checkDamageError(t, err)
		k["sk"] = str(strconv.Itoa(i + 1))
		_, err = db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: things, Key: k})
		checkDamageError(t, err)
	}
}

func TestOpenInUnsuitableFolder(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	_, err := localdynamo.Open(filepath.Join(folder, "missing", "db"), localdynamo.Options{})
	if !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), "create the folder") {
		t.Errorf("missing folder: %v", err)
	}
	if _, err = localdynamo.Open(folder, localdynamo.Options{}); !errors.Is(err, localdynamo.ErrCorrupt) {
		t.Errorf("a folder instead of a file: %v", err)
	}
}

func TestOpenCreatesOneFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	openAt(t, filepath.Join(folder, "db"), localdynamo.Options{})
	entries, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	if len(entries) != 1 {
		t.Errorf("the folder has %v, want one file", entries)
	}
}
