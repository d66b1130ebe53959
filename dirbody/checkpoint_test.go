package dirbody_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dirbody"
)

// While bodies of a journal cannot be synced, bodies are put all the same, a log line tells of it, and
// the checkpoint is retried until it succeeds.
func TestFailedCheckpointRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		bodies, log := openLogged(t, dir)
		put(t, bodies, pageKey(1, "g"), "content")
		put(t, bodies, pageKey(2, "g"), "content")
		repair := obstruct(t, dir, pageKey(1, "g"))
		time.Sleep(11 * time.Minute) // the journal is old
		if journals := glob(t, dir, ".tmp/journal-*"); len(journals) != 1 {
			t.Errorf("journals whose bodies are not on disk: %q, want 1", journals)
		}
		body := strings.Repeat("x", maxJournaled)
		for i := range 600 { // more than the second journal takes
			put(t, bodies, pageKey(3, fmt.Sprint(i)), body)
		}
		if journals := glob(t, dir, ".tmp/journal-*"); len(journals) != 2 {
			t.Errorf("journals while a checkpoint fails: %q, want 2", journals)
		}
		time.Sleep(time.Hour)
		if failed := strings.Count(log.String(), "level=ERROR"); failed != 1 || strings.Contains(log.String(), "after retries") {
			t.Errorf("the log has %d errors, want 1:\n%s", failed, log)
		}
		repair()
		time.Sleep(2 * time.Minute)
		if recovered := strings.Count(log.String(), "after retries"); recovered != 1 {
			t.Errorf("the log tells %d times of the recovery:\n%s", recovered, log)
		}
		put(t, bodies, pageKey(4, "g"), body)
		time.Sleep(11 * time.Minute)
		if journals := glob(t, dir, ".tmp/journal-*"); len(journals) > 0 {
			t.Errorf("journals after the recovery: %q", journals)
		}
		if got := read(t, bodies, pageKey(1, "g")); got != "content" {
			t.Errorf("read %q", got)
		}
	})
}

// A store that is closed while a checkpoint fails says so, and leaves the journal for the next.
func TestCloseAfterAFailedCheckpoint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		bodies, err := dirbody.Open(dir, dirbody.Options{Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		put(t, bodies, pageKey(1, "g"), "first")
		obstruct(t, dir, pageKey(1, "g"))
		time.Sleep(11 * time.Minute)
		put(t, bodies, pageKey(2, "g"), "second")
		if err := bodies.Close(); err == nil {
			t.Error("Close returned no error")
		}
		if journals := glob(t, dir, ".tmp/journal-*"); len(journals) != 1 {
			t.Errorf("journals after the Close: %q, want the journal of the first body", journals)
		}
		next := open(t, dir)
		for page, want := range map[int]string{1: "first", 2: "second"} {
			if got := read(t, next, pageKey(page, "g")); got != want {
				t.Errorf("page %d: %q, want %q", page, got, want)
			}
		}
	})
}

// The journal of a process that was killed is removed while another has the directory open: at the
// Open of a third.
func TestOpenAdoptsTheJournalOfAKilledProcess(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := open(t, dir)
	put(t, first, pageKey(1, "g"), "mine")
	own := glob(t, dir, ".tmp/journal-*")
	acknowledged := runUntil(t, dir, 40)
	if journals := glob(t, dir, ".tmp/journal-*"); len(own) != 1 || len(journals) != 2 {
		t.Fatalf("the journals are %q; of the first store, %q", journals, own)
	}
	second := open(t, dir)
	if journals := glob(t, dir, ".tmp/journal-*"); len(journals) != 1 || journals[0] != own[0] {
		t.Errorf("the journals are %q, want %q", journals, own)
	}
	for _, key := range acknowledged {
		if got := read(t, second, key); got != crashBody(key) {
			t.Errorf("the body %q is wrong: %d bytes", key, len(got))
		}
	}
}

// A store that is open adopts journals in time. A body that was deleted since stays deleted, and no
// content is replaced, unless the machine has been started since.
func TestJournalsAreAdoptedInTime(t *testing.T) {
	for name, rebooted := range map[string]bool{"same boot": false, "earlier boot": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dir := t.TempDir()
				bodies, log := openLogged(t, dir)
				other := open(t, dir)
				put(t, other, pageKey(9, "g"), "alive")
				alive := glob(t, dir, ".tmp/journal-*")
				journal, content := journalOf(t, map[string]string{pageKey(1, "g"): "kept", pageKey(2, "g"): "deleted"})
				put(t, bodies, pageKey(1, "g"), "kept")
				time.Sleep(9 * time.Minute)               // the journals of this directory are replaced before the adoption
				known := !strings.HasSuffix(journal, ".") // when the machine was started
				if rebooted {
					journal = strings.Split(journal, ".")[0] + ".another-boot"
				}
				if err := os.WriteFile(filepath.Join(dir, ".tmp", journal), content, 0o600); err != nil {
					t.Fatal(err)
				}
				put(t, other, pageKey(9, "h"), "alive")
				time.Sleep(2 * time.Minute)
				if _, err := os.Stat(filepath.Join(dir, ".tmp", journal)); !os.IsNotExist(err) {
					t.Errorf("the journal is left: %v\n%s", err, log)
				}
				if got := read(t, bodies, pageKey(1, "g")); got != "kept" {
					t.Errorf("read %q", got)
				}
				_, err := os.Stat(pagePath(dir, pageKey(2, "g")))
				if restored := err == nil; restored != (rebooted || !known) {
					t.Errorf("the body that is missing was restored: %v", restored)
				}
				if len(alive) != 1 || strings.Contains(log.String(), filepath.Base(alive[0])) {
					t.Errorf("the journal of a store that is open, %q, was adopted:\n%s", alive, log)
				}
			})
		})
	}
}

// A body of another content is not replaced by the body of an adopted journal, if the journal of another process has
// it: two have put different bodies under one key, and one has lost.
func TestAdoptionReplacesNoContent(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies, _ := openLogged(t, dir)
	put(t, bodies, pageKey(1, "g"), "mine")
	journal, content := journalOf(t, map[string]string{pageKey(1, "g"): "theirs"})
	if strings.HasSuffix(journal, ".") {
		t.Log("the system does not tell when it was started: bodies are restored")
		return
	}
	if err := os.WriteFile(filepath.Join(dir, ".tmp", journal), content, 0o600); err != nil {
		t.Fatal(err)
	}
	second, log := openLogged(t, dir)
	if got := read(t, second, pageKey(1, "g")); got != "mine" {
		t.Errorf("read %q", got)
	}
	if _, err := os.Stat(filepath.Join(dir, ".tmp", journal)); !os.IsNotExist(err) || strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the journal: %v; the log:\n%s", err, log)
	}
}

// openLogged returns also what the store logs.
func openLogged(t *testing.T, dir string) (*dirbody.Store, fmt.Stringer) {
	t.Helper()
	log := new(syncBuffer)
	s, err := dirbody.Open(dir, dirbody.Options{Logger: slog.New(slog.NewTextHandler(log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s, log
}

// A syncBuffer is a buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func put(t *testing.T, s *dirbody.Store, key, body string) {
	t.Helper()
	if err := s.Put(t.Context(), key, []byte(body)); err != nil {
		t.Fatal(err)
	}
}

// obstruct makes it impossible to open, and so to sync, the file of a body, until repair is called.
func obstruct(t *testing.T, dir, key string) (repair func()) {
	t.Helper()
	file := pagePath(dir, key)
	if err := os.Rename(file, file+"-aside"); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Base(file), file); err != nil { // to itself: ELOOP
		t.Fatal(err)
	}
	return func() {
		if err := os.Rename(file+"-aside", file); err != nil {
			t.Fatal(err)
		}
	}
}

// journalOf returns the name and the content of the journal of a store with some bodies.
func journalOf(t *testing.T, bodies map[string]string) (name string, content []byte) {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir)
	for key, body := range bodies {
		put(t, s, key, body)
	}
	journals := glob(t, dir, ".tmp/journal-*")
	if len(journals) != 1 {
		t.Fatalf("the journals are %q", journals)
	}
	content, err := os.ReadFile(filepath.Join(dir, journals[0]))
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Base(journals[0]), content
}
