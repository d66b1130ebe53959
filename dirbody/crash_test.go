package dirbody_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/facetheory/isr/dirbody"
)

// crashDir names, in the environment, the folder that a child process writes to
// until it is killed.
const crashDir = "DIRBODY_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		putUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// TestKilledWriter kills a process that is putting bodies. Every body that it
// reported as put is whole, no body is there in part, and nothing is left over.
func TestKilledWriter(t *testing.T) {
	dir := t.TempDir()
	total := 0
	for round := range 6 {
		acknowledged := runUntil(t, dir, 5+20*round)
		store, err := dirbody.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range acknowledged {
			if got := read(t, store, key); got != crashBody(key) {
				t.Errorf("round %d: the acknowledged body %q has %d bytes, or others than were put", round, key, len(got))
			}
		}
		keys := list(t, store, "")
		for _, key := range keys {
			if got := read(t, store, key); got != crashBody(key) {
				t.Errorf("round %d: the body %q is there in part: %d bytes", round, key, len(got))
			}
		}
		total += len(acknowledged)
		if len(keys) < total {
			t.Errorf("round %d: %d bodies are listed, %d were acknowledged", round, len(keys), total)
		}
		if left := glob(t, dir, ".tmp/*"); len(left) != 1 {
			t.Errorf("round %d: left over beside the lock: %q", round, left)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntil starts a writer, kills it once it has acknowledged count bodies, and
// returns all that it acknowledged.
func runUntil(t *testing.T, dir string, count int) []string {
	t.Helper()
	command := exec.Command(os.Args[0])
	command.Env = append(os.Environ(), crashDir+"="+dir)
	command.Stderr = os.Stderr
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break // a line that the kill cut off acknowledges nothing
		}
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, strings.TrimSuffix(line, "\n"))
		if len(keys) == count {
			if err := command.Process.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	_ = command.Wait() // it says that the process was killed
	if len(keys) < count {
		t.Fatalf("the writer ended after %d bodies", len(keys))
	}
	return keys
}

// putUntilKilled puts ever new bodies from several goroutines at once, and
// writes each key to standard output when its Put has returned.
func putUntilKilled(dir string) {
	store, err := dirbody.Open(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for worker := range 4 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("bodies/%d/%d-%d-%d", i%3, os.Getpid(), worker, i)
				if err := store.Put(context.Background(), key, []byte(crashBody(key))); err != nil {
					fmt.Fprintln(os.Stderr, err)
					os.Exit(1)
				}
				_, _ = os.Stdout.WriteString(key + "\n") // one write, so lines do not mix
			}
		}()
	}
	select {}
}

// crashBody is the content of a key: up to 192 KiB that only this key has.
func crashBody(key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(bytes.Repeat(sum[:], 1+int(sum[0])*24))
}
