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

// crashDir is the environment variable that makes a child process write to a folder
// until it is killed.
const crashDir = "DIRBODY_TEST_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		putUntilKilled(dir)
	}
	os.Exit(m.Run())
}

// TestKilledWriter kills a process that puts bodies. Every acknowledged body is whole,
// no body is partial, and no temporary file is left.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
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
				t.Errorf("round %d: the acknowledged body %q is wrong: %d bytes", round, key, len(got))
			}
		}
		keys := list(t, store, "")
		for _, key := range keys {
			if got := read(t, store, key); got != crashBody(key) {
				t.Errorf("round %d: the body %q is partial: %d bytes", round, key, len(got))
			}
		}
		total += len(acknowledged)
		if len(keys) < total {
			t.Errorf("round %d: %d bodies are listed, %d were acknowledged", round, len(keys), total)
		}
		if left := glob(t, dir, ".tmp/*"); len(left) != 1 {
			t.Errorf("round %d: left over besides the lock: %q", round, left)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// runUntil starts a writer, kills it once it has acknowledged count bodies, and
// returns all keys that it acknowledged.
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
			break // an incomplete line acknowledges nothing
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
	_ = command.Wait() // the error is that the process was killed
	if len(keys) < count {
		t.Fatalf("the writer ended after %d bodies", len(keys))
	}
	return keys
}

// putUntilKilled puts new bodies from several goroutines and writes each key to
// standard output once its Put has returned.
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
				_, _ = os.Stdout.WriteString(key + "\n") // one write, so that lines do not interleave
			}
		}()
	}
	select {}
}

// crashBody returns the content of a key: up to 192 KiB, unique to the key.
func crashBody(key string) string {
	sum := sha256.Sum256([]byte(key))
	return string(bytes.Repeat(sum[:], 1+int(sum[0])*24))
}
