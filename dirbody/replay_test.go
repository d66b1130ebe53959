package dirbody_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/dirbody"
)

// A damaged record of a journal costs its own body alone, after a power failure and after a process was killed.
// The log says where the damage is, and the journal is kept aside.
func TestReplaySkipsDamage(t *testing.T) {
	t.Parallel()
	for name, another := range map[string]bool{"no other store": false, "another store is open": true} {
		dir := t.TempDir()
		if another {
			open(t, dir)
		}
		bodies := make(map[string]string)
		for page := range 6 {
			bodies[pageKey(page, "g")] = strings.Repeat(fmt.Sprint(page), 20)
		}
		journal, content := journalOf(t, bodies)
		journal = strings.Split(journal, ".")[0] + ".another-boot"
		content[40] ^= 4 // in the key of the first record
		writeJournal(t, dir, journal, content)
		s, log := openLogged(t, dir)
		if got := len(list(t, s, "")); got != 5 {
			t.Errorf("%s: %d of 6 bodies were restored, want 5", name, got)
		}
		for _, key := range list(t, s, "") {
			if got := read(t, s, key); got != bodies[key] {
				t.Errorf("%s: %s is %q", name, key, got)
			}
		}
		length := 4 + 2 + 4 + len(pageKey(0, "g")) + 20
		for _, want := range []string{journal, "offset=0", fmt.Sprintf("bytes=%d", length), "level=WARN"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("%s: the log does not have %q:\n%s", name, want, log)
			}
		}
		if kept := glob(t, dir, ".tmp/damaged-"+journal); len(kept) != 1 {
			t.Errorf("%s: kept aside: %q", name, kept)
		}
		if left := glob(t, dir, ".tmp/"+journal); len(left) != 0 {
			t.Errorf("%s: the journal is left: %q", name, left)
		}
	}
}

func writeJournal(t *testing.T, dir, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Join(dir, ".tmp"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".tmp", name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// The newest damaged journals are kept, and an Open leaves them.
func TestDamagedJournalsAreBounded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	_, content := journalOf(t, map[string]string{pageKey(1, "g"): "content"})
	content[len(content)-1] ^= 1
	for i := range 7 {
		name := fmt.Sprintf("journal-%d.boot", i)
		writeJournal(t, dir, name, content)
		at := time.Now().Add(time.Duration(i-100) * time.Minute)
		if err := os.Chtimes(filepath.Join(dir, ".tmp", name), time.Time{}, at); err != nil {
			t.Fatal(err)
		}
		s, err := dirbody.Open(dir, dirbody.Options{Logger: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = s.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	kept := strings.Join(glob(t, dir, ".tmp/damaged-*"), " ")
	if want := ".tmp/damaged-journal-3.boot .tmp/damaged-journal-4.boot .tmp/damaged-journal-5.boot .tmp/damaged-journal-6.boot"; kept != want {
		t.Errorf("kept %s, want %s", kept, want)
	}
}

// A body of a killed process that was damaged since is written again from the journal, with the time of the
// journal, while another store is open. What was deleted stays so.
func TestAdoptionRepairsDamage(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, dir)
	bodies := map[string]string{pageKey(1, "g"): "one", pageKey(2, "g"): "two", pageKey(3, "g"): "three"}
	journal, content := journalOf(t, bodies)
	if strings.HasSuffix(journal, ".") {
		t.Log("the system does not tell when it was started: bodies are restored")
	}
	writeJournal(t, dir, journal, content)
	written := time.Now().Add(-5 * time.Minute).Truncate(time.Second)
	if err := os.Chtimes(filepath.Join(dir, ".tmp", journal), time.Time{}, written); err != nil {
		t.Fatal(err)
	}
	for key, damaged := range map[string]string{pageKey(1, "g"): "damaged", pageKey(2, "g"): ""} {
		if err := os.MkdirAll(filepath.Dir(pagePath(dir, key)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(pagePath(dir, key), []byte(damaged), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	second, log := openLogged(t, dir)
	if left := glob(t, dir, ".tmp/journal-*"); len(left) > 0 {
		t.Errorf("the journal was not adopted: %q\n%s", left, log)
	}
	for key, want := range map[string]string{pageKey(1, "g"): "one", pageKey(2, "g"): "two"} {
		if got := read(t, second, key); got != want {
			t.Errorf("%s is %q, want %q", key, got, want)
		}
		if info, err := second.Stat(t.Context(), key); err != nil || !info.ModifiedAt.Equal(written) {
			t.Errorf("%s is of %v, want %v: %v", key, info.ModifiedAt, written, err)
		}
	}
	if _, err := os.Stat(pagePath(dir, pageKey(3, "g"))); !os.IsNotExist(err) && !strings.HasSuffix(journal, ".") {
		t.Errorf("a body that was deleted exists again: %v", err)
	}
}

// A checkpoint that is retried does not fail for ever because the journal, or a body, was damaged since.
func TestRetriedCheckpointSurvivesDamage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := t.TempDir()
		s, log := openLogged(t, dir)
		for page := range 3 {
			put(t, s, pageKey(page, "g"), "content")
		}
		repair := obstruct(t, dir, pageKey(0, "g"))
		time.Sleep(11 * time.Minute)
		journals := glob(t, dir, ".tmp/journal-*")
		if len(journals) != 1 {
			t.Fatalf("the journals are %q", journals)
		}
		flip(t, filepath.Join(dir, journals[0]), 30)
		if err := os.WriteFile(pagePath(dir, pageKey(1, "g")), []byte("damaged"), 0o600); err != nil {
			t.Fatal(err)
		}
		repair()
		time.Sleep(2 * time.Minute)
		if left := glob(t, dir, ".tmp/journal-*"); len(left) > 0 {
			t.Errorf("the journal is left: %q\n%s", left, log)
		}
		if kept := glob(t, dir, ".tmp/damaged-*"); len(kept) != 1 || !strings.Contains(log.String(), "offset=0") {
			t.Errorf("kept aside: %q\n%s", kept, log)
		}
		for page := range 3 {
			if got := read(t, s, pageKey(page, "g")); got != "content" {
				t.Errorf("page %d is %q", page, got)
			}
		}
	})
}

func flip(t *testing.T, file string, at int64) {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	content[at] ^= 1
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
}
