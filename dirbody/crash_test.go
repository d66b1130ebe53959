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
	"path/filepath"
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
// no body is partial, and no temporary file is left. In every other round the machine has
// lost its power too, and with it what was not synced.
func TestKilledWriter(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	total := 0
	for round := range 6 {
		acknowledged := runUntil(t, dir, 5+20*round)
		if round%2 == 1 {
			tear(t, dir, acknowledged)
		}
		store, err := dirbody.Open(dir, dirbody.Options{})
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

// maxJournaled is the length up to which bodies of pages are in the journal.
const maxJournaled = 64 << 10

// tear does to a folder what a power failure may do: the files of bodies that are in the
// journal only are missing, empty, or have other content, and the journal ends with a part of a
// record.
func tear(t *testing.T, dir string, keys []string) {
	t.Helper()
	torn := 0
	for i, key := range keys {
		file := pagePath(dir, key)
		if !isJournaled(key) {
			continue
		}
		var err error
		switch i % 4 {
		case 0:
			err = os.Remove(file)
		case 1:
			err = os.Truncate(file, 0)
		case 2:
			err = os.WriteFile(file, make([]byte, len(crashBody(key))), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		torn++
	}
	journals := glob(t, dir, ".tmp/journal-*")
	if torn == 0 || len(journals) != 1 {
		t.Fatalf("tore %d files; the journals are %q", torn, journals)
	}
	f, err := os.OpenFile(filepath.Join(dir, journals[0]), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("half of a record"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// pagePath returns the file of the body of a page; empty for other keys.
func pagePath(dir, key string) string {
	element := strings.Split(key, "/")
	if len(element) != 3 || len(element[1]) != 64 {
		return ""
	}
	return filepath.Join(dir, "bodies", element[1][:3], element[1][3:]+"."+element[2]+".body")
}

// isJournaled reports whether the body of a key is in the journal.
func isJournaled(key string) bool {
	return pagePath("", key) != "" && len(crashBody(key)) <= maxJournaled
}

// runUntil starts a writer, kills it once it has acknowledged count bodies, one of them in the journal, and
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
	inJournal, killed := false, false
	for lines := bufio.NewReader(out); ; {
		line, err := lines.ReadString('\n')
		if err == io.EOF {
			break // an incomplete line acknowledges nothing
		}
		if err != nil {
			t.Fatal(err)
		}
		key := strings.TrimSuffix(line, "\n")
		keys = append(keys, key)
		inJournal = inJournal || isJournaled(key)
		if len(keys) >= count && inJournal && !killed {
			killed = true
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
	store, err := dirbody.Open(dir, dirbody.Options{})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	for worker := range 4 {
		go func() {
			for i := 0; ; i++ {
				key := fmt.Sprintf("bodies/%d/%d-%d-%d", i%3, os.Getpid(), worker, i)
				if worker%2 == 0 {
					key = fmt.Sprintf("bodies/%x%063x/%d-%d-%d", i%16, i%300, os.Getpid(), worker, i)
				}
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
