//go:build unix

package localdynamo_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// Children of these tests are this test binary, told what to do by variables.
const (
	roleVariable = "LOCALDYNAMO_TEST_ROLE"
	pathVariable = "LOCALDYNAMO_TEST_PATH"
)

func TestMain(m *testing.M) {
	path := os.Getenv(pathVariable)
	switch os.Getenv(roleVariable) {
	case "":
		os.Exit(m.Run())
	case "writer":
		writeUntilKilled(path)
	case "holder":
		holdOpen(path)
	case "full":
		fillDisk(path)
	}
}

func child(t *testing.T, role, path string) (*exec.Cmd, *bufio.Scanner) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleVariable+"="+role, pathVariable+"="+path)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, bufio.NewScanner(out)
}

// writeUntilKilled writes pairs of items from many goroutines, each pair in
// one transaction, and says so after each was acknowledged.
func writeUntilKilled(path string) {
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var out sync.Mutex
	var group sync.WaitGroup
	run := os.Getpid()
	for w := range 16 {
		group.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d-%d-%d", run, w, i)
				pad := str(strings.Repeat("x", i%3000))
				_, err := db.TransactWriteItems(context.Background(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
					putting(item{"pk": str("left"), "sk": str(id), "pad": pad}, "attribute_not_exists(pk)"),
					putting(item{"pk": str("right"), "sk": str(id), "pad": pad}, "attribute_not_exists(pk)"),
				}})
				if err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				out.Lock()
				fmt.Println(id)
				out.Unlock()
			}
		})
	}
	group.Wait()
}

// TestCrash kills a process in the middle of its writes, several times, and
// looks for everything it had acknowledged.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	var acknowledged []string
	for _, lines := range []int{1, 100, 700} {
		cmd, out := child(t, "writer", path)
		for n := 0; out.Scan(); n++ {
			acknowledged = append(acknowledged, out.Text())
			if n == lines {
				if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
					t.Fatal(err)
				}
			}
		}
		_ = cmd.Wait() // it was killed
		checkAfterCrash(t, path, acknowledged)
	}
}

func checkAfterCrash(t *testing.T, path string, acknowledged []string) {
	t.Helper()
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Check(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, id := range acknowledged {
		if get(t, db, "left", id) == nil {
			t.Errorf("%s was acknowledged, and is lost", id)
		}
	}
	var at item
	for {
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, ExclusiveStartKey: at})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			pk, sk := it["pk"].(*types.AttributeValueMemberS).Value, it["sk"].(*types.AttributeValueMemberS).Value
			other := map[string]string{"left": "right", "right": "left"}[pk]
			if get(t, db, other, sk) == nil {
				t.Errorf("half of transaction %s", sk)
			}
		}
		if at = out.LastEvaluatedKey; at == nil {
			return
		}
	}
}

func holdOpen(path string) {
	if _, err := localdynamo.Open(path, localdynamo.Options{}); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("open")
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, os.Interrupt)
	<-stop
}

func TestSecondProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "db")
	cmd, out := child(t, "holder", path)
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

// fillDisk writes with a limit on the size of files, which is what a full
// disk looks like, lifts the limit and goes on.
func fillDisk(path string) {
	signal.Ignore(syscall.SIGXFSZ)
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	var before syscall.Rlimit
	_ = syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before)
	limit := before
	limit.Cur = 1 << 20
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit)
	write := func(i int) error {
		_, err := db.PutItem(context.Background(), &dynamodb.PutItemInput{
			TableName: things, Item: item{"pk": str("p"), "sk": str(strconv.Itoa(i)), "v": str(strings.Repeat("x", 100_000))},
		})
		return err
	}
	i := 0
	for ; i < 100; i++ {
		if err = write(i); err != nil {
			break
		}
	}
	fmt.Println("written", i, err)
	_ = syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before)
	fmt.Println("after", write(1000), db.Check(context.Background()), db.Close())
}

func TestFullDisk(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("limits on the size of files are set the Linux way")
	}
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{})
	if err != nil {
		t.Fatal(err)
	}
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	_, out := child(t, "full", path)
	var lines []string
	for out.Scan() {
		lines = append(lines, out.Text())
	}
	if len(lines) != 2 || !strings.Contains(lines[0], "file too large") || lines[1] != "after <nil> <nil> <nil>" {
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
