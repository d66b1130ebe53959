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
		t.Fatal("the other process did not open the file")
	}
	_, err := localdynamo.Open(path, localdynamo.Options{})
	if !errors.Is(err, localdynamo.ErrLocked) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v", err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	openAt(t, path, localdynamo.Options{})
}

// limitFiles limits the size of files that this process writes, which is what
// a full disk looks like to it, and returns how to lift the limit.
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

// fillDisk writes until there is no room, gets room and goes on.
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
	_, out := child(t, "full", "", path)
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
			t.Errorf("%d is lost", i)
		}
	}
	if get(t, db, "p", strconv.Itoa(n)) != nil {
		t.Error("a write that failed took place")
	}
}

// openWithoutRoom opens where nothing can be written behind the first page.
func openOnFullDisk(path string) {
	limitFileSize(4096)
	printOpenError(path)
}

// openAsStranger opens as a user who is not root, to whom permissions apply.
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

// outcome runs a child that tries to open path in the folder dir.
func openInChild(t *testing.T, role, dir, path string) string {
	t.Helper()
	_, out := child(t, role, dir, path)
	if !out.Scan() {
		t.Fatalf("no outcome of %s", role)
	}
	return out.Text()
}

// TestReadOnly: a folder or a file that may not be written to is a clear
// error, and stays as it is.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if err := os.Chmod(folder, 0o555); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Chmod(folder, 0o700) }) // so that it can be removed
	// The path is relative, because the folders above belong to root alone.
	got := openInChild(t, "stranger", folder, "db")
	if !strings.Contains(got, "permission denied") || !strings.Contains(got, "must be writable") {
		t.Errorf("read-only folder: %s", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder now has %v (error %v)", entries, err)
	}

	contents := format1File(t)
	if err := os.WriteFile(filepath.Join(folder, "db"), contents, 0o444); err != nil {
		if !errors.Is(err, os.ErrPermission) {
			t.Fatal(err)
		}
		// Not root: the folder must be opened for a moment.
		err = errors.Join(os.Chmod(folder, 0o700), os.WriteFile(filepath.Join(folder, "db"), contents, 0o444), os.Chmod(folder, 0o555))
		if err != nil {
			t.Fatal(err)
		}
	}
	got = openInChild(t, "stranger", folder, "db")
	if !strings.Contains(got, "permission denied") || !strings.Contains(got, "must be writable") {
		t.Errorf("read-only file: %s", got)
	}
	sameBytes(t, filepath.Join(folder, "db"), contents)
}

// TestNoRoom: where there is no room, neither is a new file half made nor an
// old one half raised.
func TestOpenOnFullDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if got := openInChild(t, "cramped", folder, "new"); !strings.Contains(got, "file too large") {
		t.Errorf("a new file: %s", got)
	}
	entries, err := os.ReadDir(folder)
	if err != nil || len(entries) != 0 {
		t.Errorf("the folder now has %v (error %v)", entries, err)
	}

	contents, path := format1File(t), filepath.Join(folder, "old")
	if err := os.WriteFile(path, contents, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := openInChild(t, "cramped", folder, "old"); !strings.Contains(got, "from format 1 to 2") || !strings.Contains(got, "file too large") {
		t.Errorf("a file of format 1: %s", got)
	}
	sameBytes(t, path, contents)
}
