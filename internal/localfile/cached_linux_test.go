package localfile

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func folder(t *testing.T) (*Folder, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	f, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = f.Close(), root.Close() })
	return f, dir
}

// A read of what was just written finds it in memory, on file systems that can tell; never does it
// return anything but the file. It is the same for file systems of both kinds.
func TestReadCached(t *testing.T) {
	for _, local := range []bool{true, false} {
		f, dir := folder(t)
		f.local = local
		outside := filepath.Join(t.TempDir(), "outside")
		want := bytes.Repeat([]byte("0123456789"), 1000)
		if err := errors.Join(
			os.WriteFile(filepath.Join(dir, "file"), want, 0o600), os.WriteFile(filepath.Join(dir, "empty"), nil, 0o600),
			os.WriteFile(outside, want, 0o600), os.Symlink(outside, filepath.Join(dir, "link")),
			os.Mkdir(filepath.Join(dir, "folder"), 0o700), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600),
		); err != nil {
			t.Fatal(err)
		}
		buffer := make([]byte, len(want))
		for name, want := range map[string][]byte{"file": want, "empty": {}} {
			got, modified, err := f.ReadCached(name, buffer)
			info, _ := os.Stat(filepath.Join(dir, name))
			switch {
			case errors.Is(err, ErrWait):
				t.Logf("%s: %v", name, err)
			case err != nil || !bytes.Equal(got, want) || !modified.Equal(info.ModTime()):
				t.Errorf("%s: %d bytes, %v, %v", name, len(got), modified, err)
			}
		}
		for _, name := range []string{"missing", "folder", "link", "pipe", "../outside", "/etc/passwd", "file\x00", ""} {
			if got, _, err := f.ReadCached(name, buffer); err == nil {
				t.Errorf("%q: got %d bytes", name, len(got))
			}
		}
		if _, _, err := f.ReadCached("missing", buffer); !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, ErrWait) {
			t.Errorf("a missing file: %v", err)
		}
		if got, _, err := f.ReadCached("file", buffer[:len(want)-1]); err == nil {
			t.Errorf("a buffer that is too short: got %d bytes", len(got))
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
		if got, _, err := f.ReadCached("file", buffer); err == nil {
			t.Errorf("after Close: got %d bytes", len(got))
		}
	}
}
