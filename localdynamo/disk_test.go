//go:build linux || darwin

package localdynamo_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

func holdOpen(path string) {
	mustOpen(path)
	fmt.Println("open")
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}

func TestFileIsLocked(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	cmd, out := child(t, "holder", "", path)
	if !out.Scan() {
		t.Fatal("the child process did not open the file")
	}
	_, err := localdynamo.Open(path, localdynamo.Options{})
	if !errors.Is(err, localdynamo.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrLocked with the path", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	openAt(t, path, localdynamo.Options{})
}

// limitFileSize limits the size of files that this process writes, to simulate a
// full disk. lift removes the limit.
func limitFileSize(bytes uint64) (lift func()) {
	signal.Ignore(syscall.SIGXFSZ)
	var before syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before); err != nil {
		fatal(err)
	}
	set := func(limit syscall.Rlimit) {
		if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
			fatal(err)
		}
	}
	set(syscall.Rlimit{Cur: bytes, Max: before.Max})
	return func() { set(before) }
}

// fillDisk writes until the disk is full, lifts the limit and writes again.
func fillDisk(path string) {
	db := mustOpen(path)
	lift := limitFileSize(1 << 20)
	write := func(i int) error {
		_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
			TableName: things, Item: item{"pk": str("p"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", 100_000))},
		})
		return err
	}
	i, err := 0, error(nil)
	for ; i < 100; i++ {
		if err = write(i); err != nil {
			break
		}
	}
	var definite interface{ Definite() bool }
	fmt.Println("written", i, "definite", errors.As(err, &definite) && definite.Definite(), err)
	lift()
	fmt.Println("after", write(1000), db.Check(context.Background()), db.Close())
}

func TestFullDisk(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, out := child(t, "fill-disk", "", path)
	var lines []string
	for out.Scan() {
		lines = append(lines, out.Text())
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "definite true") || !strings.HasSuffix(lines[0], "file too large; free space on that disk") || lines[1] != "after <nil> <nil> <nil>" {
		t.Fatalf("%q", lines)
	}
	n, err := strconv.Atoi(strings.Fields(lines[0])[1])
	if err != nil || n == 0 || n == 100 {
		t.Fatal(lines[0], err)
	}
	db = openAt(t, path, localdynamo.Options{})
	for i := range n {
		if get(t, db, "p", strconv.Itoa(i)) == nil {
			t.Errorf("acknowledged item %d is lost", i)
		}
	}
	if get(t, db, "p", strconv.Itoa(n)) != nil {
		t.Error("a failed write took effect")
	}
}

// openOnFullDisk opens a file when nothing can be written after its first page.
func openOnFullDisk(path string) {
	limitFileSize(4096)
	printOpenError(path)
}

// openUnprivileged opens a file as a user other than root, who is subject to file
// permissions.
func openUnprivileged(path string) {
	if os.Getuid() == 0 {
		const nobody = 65534
		if err := errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody)); err != nil {
			fatal(err)
		}
	}
	printOpenError(path)
}

func printOpenError(path string) {
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err == nil {
		err = db.Close()
	}
	fmt.Println("outcome:", err)
}

// openInChild runs a child process that opens path in the folder dir, and returns
// its output.
func openInChild(t *testing.T, role, dir, path string) string {
	t.Helper()
	_, out := child(t, role, dir, path)
	if !out.Scan() {
		t.Fatalf("the child process %q printed nothing", role)
	}
	return out.Text()
}

// TestReadOnly: opening a read-only folder or file is a clear error, and changes
// nothing.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) }) // so that TempDir can remove it
	// The path is relative, because only root may enter the parent folders.
	got := openInChild(t, "unprivileged", folder, "db")
	if !strings.Contains(got, "permission denied") || !strings.Contains(got, "must be writable") {
		t.Errorf("read-only folder: %s", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v (error %v)", entries, err)
	}

	contents := format1File(t)
	if err := os.WriteFile(filepath.Join(folder, "db"), contents, 0o444); err != nil {
		if !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		// Without root, the folder must be writable for a moment.
		err = errors.Join(os.Chmod(folder, 0o700), os.WriteFile(filepath.Join(folder, "db"), contents, 0o444), os.Chmod(folder, 0o555))
		if err != nil {
			t.Fatal(err)
		}
	}
	got = openInChild(t, "unprivileged", folder, "db")
	if !strings.Contains(got, "permission denied") || !strings.Contains(got, "must be writable") {
		t.Errorf("read-only file: %s", got)
	}
	sameBytes(t, filepath.Join(folder, "db"), contents)
}

// TestOpenOnFullDisk: on a full disk, Open leaves neither a partial new file nor a
// partially upgraded old one.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if got := openInChild(t, "full-disk", folder, "new"); !strings.Contains(got, "file too large") {
		t.Errorf("a new file: %s", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder has %v (error %v)", entries, err)
	}

	contents, path := format1File(t), filepath.Join(folder, "old")
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := openInChild(t, "full-disk", folder, "old"); !strings.Contains(got, "from format 1 to 3") || !strings.Contains(got, "file too large") {
		t.Errorf("a file of format 1: %s", got)
	}
	sameBytes(t, path, contents)
}
