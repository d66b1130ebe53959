package envelope_test

import (
	"encoding/base64"
	"errors"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/facetheory/isr/tabletheory/envelope"
)

// masterLine returns a line of a key file.
func masterLine(id string, fill byte) string {
	return id + " " + base64.StdEncoding.EncodeToString([]byte(strings.Repeat(string(fill), 32))) + "\n"
}

func writeKeyFile(t *testing.T, text string) string {
	t.Helper()
	path := t.TempDir() + "/keys"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func openKeyFile(t *testing.T, path string) *envelope.KeyFile {
	t.Helper()
	keys, err := envelope.OpenKeyFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func mustOpen(t *testing.T, keys *envelope.KeyFile, sealed item) {
	t.Helper()
	stored := item{"secret": sealed["secret"]}
	if err := envelope.Open(t.Context(), keys, home(), stored, "secret"); err != nil {
		t.Error(err)
	}
}

func TestKeyFileIsCreated(t *testing.T) {
	t.Parallel()
	keys, path := newKeyFile(t)
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Fatalf("%v, %v; want a file of mode 0600", info, err)
	}
	sealed := seal(t, keys, str("x"))
	mustOpen(t, openKeyFile(t, path), sealed)
	onlyFile(t, path)
}

// onlyFile checks that the folder contains only the key file.
func onlyFile(t *testing.T, path string) {
	t.Helper()
	entries, err := os.ReadDir(strings.TrimSuffix(path, "/keys"))
	if err != nil || len(entries) != 1 {
		t.Errorf("%v, %v; want only the key file", entries, err)
	}
}

func TestKeyFileFormat(t *testing.T) {
	t.Parallel()
	old := writeKeyFile(t, masterLine("old", 'o'))
	sealed := seal(t, openKeyFile(t, old), str("x"))
	both := writeKeyFile(t, "# a comment\n\n  \t\n"+masterLine("new-1_A", 'n')+"# another\r\n"+strings.TrimSuffix(masterLine(" old", 'o'), "\n")+" ")
	mustOpen(t, openKeyFile(t, both), sealed)
	// The first key seals.
	byFirst := seal(t, openKeyFile(t, both), str("y"))
	mustOpen(t, openKeyFile(t, writeKeyFile(t, masterLine("new-1_A", 'n'))), byFirst)
}

func TestInvalidKeyFiles(t *testing.T) {
	t.Parallel()
	for about, test := range map[string]struct{ text, want string }{
		"empty":                {"", "no key in the file"},
		"comments only":        {"# x\n", "no key in the file"},
		"no key":               {"# x\nid\n", "line 2: expected an id"},
		"three fields":         {masterLine("a", 'a') + "b c d\n", "line 2: expected an id"},
		"an id with a slash":   {masterLine("a/b", 'a'), "line 1: expected an id"},
		"a long id":            {masterLine(strings.Repeat("a", 65), 'a'), "line 1: expected an id"},
		"invalid base64":       {"a " + strings.Repeat("!", 44) + "\n", "line 1: key a is not 32 bytes"},
		"a short key":          {"a c2hvcnQ=\n", "line 1: key a is not 32 bytes"},
		"a duplicate id":       {masterLine("a", 'a') + "#\n" + masterLine("a", 'b'), "line 3: same id as line 1"},
		"a long line":          {strings.Repeat("x", 70_000), "too long"},
		"more than a megabyte": {strings.Repeat("#\n", 1<<19+1), "at most 1048576"},
	} {
		_, err := envelope.OpenKeyFile(writeKeyFile(t, test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v; want …%s…", about, err, test.want)
		}
		if err != nil && strings.Contains(err.Error(), "c2hvcnQ") {
			t.Errorf("%s: the error reveals the key: %v", about, err)
		}
	}
}

func TestKeyFileMode(t *testing.T) {
	t.Parallel()
	for _, mode := range []os.FileMode{0o604, 0o640, 0o660, 0o666, 0o601} {
		path := writeKeyFile(t, masterLine("a", 'a'))
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := envelope.OpenKeyFile(path)
		if err == nil || !strings.Contains(err.Error(), "chmod 600 "+path) {
			t.Errorf("%v: %v; want an error with the chmod command", mode, err)
		}
	}
	if _, err := envelope.OpenKeyFile(t.TempDir()); err == nil || !strings.Contains(err.Error(), "not a regular file") {
		t.Errorf("a folder: %v", err)
	}
	if _, err := envelope.OpenKeyFile(t.TempDir() + "/none/keys"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v; want ErrNotExist", err)
	}
}

func TestRotate(t *testing.T) {
	t.Parallel()
	const comment = "# owner: me\n"
	path := writeKeyFile(t, comment+masterLine("first", '1')+"# the end\n")
	keys, other := openKeyFile(t, path), openKeyFile(t, path)
	byFirst := seal(t, keys, str("x"))
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	bySecond := seal(t, keys, str("y"))
	mustOpen(t, keys, byFirst)
	mustOpen(t, keys, bySecond)
	mustOpen(t, openKeyFile(t, path), byFirst)
	mustOpen(t, other, bySecond) // opened before the rotation; it reads the file again

	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(text), "\n")
	if len(lines) != 5 || lines[0] != comment || lines[2] != masterLine("first", '1') || lines[3] != "# the end\n" {
		t.Errorf("the file is\n%s\nwant the new key between the comment and the first key", text)
	}
	if info, err := os.Stat(path); err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v; want mode 0600", info, err)
	}
	onlyFile(t, path)
	// By now the second key also seals in other processes.
	withoutFirst := writeKeyFile(t, lines[1])
	mustOpen(t, openKeyFile(t, withoutFirst), bySecond)
	mustOpen(t, openKeyFile(t, withoutFirst), seal(t, other, str("z")))
}

func TestUnknownMasterKey(t *testing.T) {
	t.Parallel()
	sealed := seal(t, openKeyFile(t, writeKeyFile(t, masterLine("lost", '1'))), str("x"))
	path := writeKeyFile(t, masterLine("another", '1'))
	err := envelope.Open(t.Context(), openKeyFile(t, path), home(), sealed, "secret")
	if !errors.Is(err, envelope.ErrUnknownKey) || !strings.Contains(err.Error(), "sealed by key lost, which is not in "+path) {
		t.Errorf("%v; want ErrUnknownKey with the names of key and file", err)
	}
	keys := openKeyFile(t, path)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if err := envelope.Open(t.Context(), keys, home(), sealed, "secret"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without a file: %v; want ErrNotExist", err)
	}
	// Another key with the same id.
	forged := openKeyFile(t, writeKeyFile(t, masterLine("lost", '2')))
	if err := envelope.Open(t.Context(), forged, home(), sealed, "secret"); !errors.Is(err, envelope.ErrTampered) {
		t.Errorf("another key with the same id: %v; want ErrTampered", err)
	}
}

// TestRotateWhileLocked: Rotate fails and changes nothing while another process rotates,
// or after an interrupted rotation.
func TestRotateWhileLocked(t *testing.T) {
	t.Parallel()
	keys, path := newKeyFile(t)
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+".new", nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.Rotate(); !errors.Is(err, os.ErrExist) || !strings.Contains(err.Error(), path+".new remains, delete it") {
		t.Errorf("%v; want an error with the file to delete", err)
	}
	if after, err := os.ReadFile(path); err != nil || string(after) != string(before) {
		t.Errorf("the file changed: %s, %v", after, err)
	}
	if _, err := os.Stat(path + ".new"); err != nil {
		t.Errorf("the lock file of the other process: %v", err)
	}
}

// TestRotateInvalidFile: Rotate leaves an invalid file unchanged and releases its lock.
func TestRotateInvalidFile(t *testing.T) {
	t.Parallel()
	path := writeKeyFile(t, masterLine("a", 'a'))
	keys := openKeyFile(t, path)
	if err := os.WriteFile(path, []byte("damaged\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := keys.Rotate(); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("%v; want an error about line 1", err)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "damaged\n" {
		t.Errorf("the file is %q, %v", text, err)
	}
	onlyFile(t, path)
}

func TestRotateThroughSymlink(t *testing.T) {
	t.Parallel()
	path, link := writeKeyFile(t, masterLine("a", 'a')), t.TempDir()+"/link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	keys := openKeyFile(t, link)
	if err := keys.Rotate(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, openKeyFile(t, path), seal(t, keys, str("x")))
}

// TestConcurrentProcesses: processes that create the file concurrently use the same key,
// and concurrent rotations lose no key.
func TestConcurrentProcesses(t *testing.T) {
	t.Parallel()
	path := t.TempDir() + "/keys"
	var wg sync.WaitGroup
	var mu sync.Mutex
	var all []item
	for range 8 {
		wg.Go(func() {
			keys, err := envelope.OpenKeyFile(path)
			if err != nil {
				t.Error(err)
				return
			}
			first := seal(t, keys, str("x"))
			if err := keys.Rotate(); err != nil && !errors.Is(err, os.ErrExist) {
				t.Error(err)
			}
			second := seal(t, keys, str("y"))
			mu.Lock()
			defer mu.Unlock()
			all = append(all, first, second)
		})
	}
	wg.Wait()
	keys := openKeyFile(t, path)
	for _, sealed := range all {
		mustOpen(t, keys, sealed)
	}
	onlyFile(t, path)
}
