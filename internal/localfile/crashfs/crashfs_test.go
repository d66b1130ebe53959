package crashfs_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/internal/localfile/crashfs"
)

// create writes a new file, and syncs its content or its name, or both.
func create(t *testing.T, files localfile.FS, name, content string, syncs, syncsName bool) localfile.File {
	t.Helper()
	f, err := files.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		_, err = f.Write([]byte(content))
	}
	if err == nil && syncs {
		err = f.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
	if syncsName {
		syncName(t, files)
	}
	return f
}

func syncName(t *testing.T, files localfile.FS) {
	t.Helper()
	root, err := files.OpenFile(".", os.O_RDONLY, 0)
	if err == nil {
		err = root.Sync()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// What was not synced is lost: names and contents on their own.
func TestPowerFailure(t *testing.T) {
	t.Parallel()
	disk := crashfs.New()
	files := disk.Open()
	create(t, files, "both", "content", true, true)
	create(t, files, "content", "content", true, false)
	create(t, files, "name", "content", false, true) // it syncs the name of the one before, too
	create(t, files, "neither", "content", false, false)
	disk.PowerFailure(crashfs.LoseAll, 0)
	got := disk.Files()
	if len(got) != 3 || string(got["both"]) != "content" || string(got["content"]) != "content" || string(got["name"]) != "" {
		t.Errorf("after the power failure: %q", got)
	}
	if _, err := files.Lstat("both"); !errors.Is(err, crashfs.ErrCrashed) {
		t.Errorf("a process that has ended: %v", err)
	}
}

// Writes are torn at sectors, and nowhere else.
func TestTornWrites(t *testing.T) {
	t.Parallel()
	old, young := strings.Repeat("o", 8*crashfs.Sector), strings.Repeat("y", 8*crashfs.Sector)
	torn := 0
	for seed := range uint64(20) {
		disk := crashfs.New()
		f := create(t, disk.Open(), "file", old, true, true)
		if _, err := f.WriteAt([]byte(young), 0); err != nil {
			t.Fatal(err)
		}
		disk.PowerFailure(crashfs.LoseSome, seed)
		got := disk.Files()["file"]
		for at := 0; at < len(got); at += crashfs.Sector {
			if sector := string(got[at : at+crashfs.Sector]); sector != old[:crashfs.Sector] && sector != young[:crashfs.Sector] {
				t.Errorf("seed %d: the sector at %d is torn", seed, at)
			}
		}
		if n := bytes.Count(got, []byte("y")); n > 0 && n < len(young) {
			torn++
		}
	}
	if torn == 0 {
		t.Error("no write was torn")
	}
}

// A sync that fails reports it once, and what it was to write is never written unless it changes again.
func TestFailedSync(t *testing.T) {
	t.Parallel()
	disk := crashfs.New()
	files := disk.Open()
	f := create(t, files, "file", "content", false, true)
	disk.FailSync(1)
	if err := f.Sync(); !errors.Is(err, syscall.EIO) {
		t.Errorf("the first sync: %v", err)
	}
	if err := f.Sync(); err != nil {
		t.Errorf("the second sync: %v", err)
	}
	if got := string(disk.Files()["file"]); got != "content" {
		t.Errorf("in memory: %q", got)
	}
	disk.PowerFailure(crashfs.LoseNone, 0)
	if got := string(disk.Files()["file"]); got != "" {
		t.Errorf("after the power failure: %q", got)
	}
}

// Failed writing by the system is reported to each descriptor that was open, and to a later one unless it was
// reported, or forgotten (errseq_t).
func TestFailedWriteback(t *testing.T) {
	t.Parallel()
	for name, reported := range map[string]bool{"reported": true, "not reported": false} {
		disk := crashfs.New()
		files := disk.Open()
		held := create(t, files, "held", "", false, true)
		create(t, files, "file", "content", false, true)
		disk.FailWriteback()
		if reported && disk.SyncElsewhere() == nil {
			t.Errorf("%s: another program learned of nothing", name)
		}
		disk.Evict()
		late, err := files.OpenFile("file", os.O_RDONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := late.Sync(); err != nil {
			t.Errorf("%s: a file that was evicted: %v", name, err)
		}
		if _, err := files.SyncFileSystem(late); (err == nil) != reported {
			t.Errorf("%s: by a later descriptor: %v", name, err)
		}
		for _, want := range []error{syscall.EIO, nil} {
			if _, err := files.SyncFileSystem(held); !errors.Is(err, want) {
				t.Errorf("%s: by the descriptor that was open: %v, want %v", name, err, want)
			}
		}
	}
}

// Without a crash it does what a folder does, in random calls.
func TestLikeAFolder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(100) {
		root, err := os.OpenRoot(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		folder, err := localfile.Open(root)
		if err != nil {
			t.Fatal(err)
		}
		got, want := outcomes(crashfs.New().Open(), seed), outcomes(folder, seed)
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d, call %d: %s, want %s, after\n%s", seed, i, got[i], want[i], strings.Join(want[:i], "\n"))
			}
		}
		if err := folder.Close(); err != nil {
			t.Error(err)
		}
	}
}

// outcomes makes random calls, and describes what each does.
func outcomes(files localfile.FS, seed uint64) (did []string) {
	random := rand.New(rand.NewPCG(seed, 1))
	name := func() string { return []string{"a", "b", "a/c", "a/d", "b/c", "e"}[random.IntN(6)] }
	for range 60 {
		from, to, at := name(), name(), random.IntN(3000)
		text, err := "", error(nil)
		op := []string{"mkdir", "mkdirall", "link", "rename", "remove", "removeall", "write", "append", "read", "list", "stat"}[random.IntN(11)]
		switch op {
		case "mkdir":
			err = files.Mkdir(from, 0o700)
		case "mkdirall":
			err = files.MkdirAll(from, 0o700)
		case "link":
			if info, statErr := files.Lstat(from); statErr == nil && info.IsDir() {
				continue // systems differ in the error
			}
			err = files.Link(from, to)
		case "rename":
			if info, statErr := files.Lstat(from); from == to || statErr == nil && info.IsDir() {
				continue // not modelled
			}
			err = files.Rename(from, to)
		case "remove":
			err = files.Remove(from)
		case "removeall":
			err = files.RemoveAll(from)
		case "write", "append":
			err = write(files, from, op == "append", at)
		case "read":
			var content []byte
			content, _, err = files.Read(from, 1<<20)
			text = fmt.Sprint(len(content), bytes.Count(content, []byte("x")))
		case "list":
			var entries []fs.DirEntry
			entries, err = files.ReadDir(from)
			for _, entry := range entries {
				text += entry.Name() + " "
			}
		case "stat":
			var info fs.FileInfo
			if info, err = files.Lstat(from); err == nil && !info.IsDir() {
				text = fmt.Sprint(info.Size())
			}
		}
		did = append(did, fmt.Sprintf("%s %s %s %d: %s %v", op, from, to, at, text, kindOf(err)))
	}
	return did
}

func write(files localfile.FS, name string, appends bool, at int) error {
	flag := os.O_RDWR | os.O_CREATE
	if appends {
		flag |= os.O_APPEND
	}
	f, err := files.OpenFile(name, flag, 0o600)
	if err != nil {
		return err
	}
	if appends {
		_, err = f.Write([]byte(strings.Repeat("x", at)))
	} else {
		_, err = f.WriteAt([]byte("x"), int64(at))
	}
	return errors.Join(err, f.Close())
}

// kindOf returns what a store tells of an error.
func kindOf(err error) string {
	for _, kind := range []error{fs.ErrNotExist, fs.ErrExist} {
		if errors.Is(err, kind) {
			return kind.Error()
		}
	}
	if err != nil {
		return "failed"
	}
	return ""
}
