package localdynamo_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/internal/localfile/crashfs"
	"github.com/facetheory/isr/localdynamo"
)

func itoa(n int) string { return strconv.Itoa(n) }

// A replay carries the calls of a traced process out on a disk that loses what was not synced.
type replay struct {
	disk         *crashfs.Disk
	fs           *crashfs.FS
	files        map[int]localfile.File
	acknowledged int
}

// maxLength is how much of a file is replayed, in bytes. bbolt allocates files in steps of 16 MiB; the rest is unused.
const maxLength = 512 << 10

// newReplay returns a disk that has what is in a folder.
func newReplay(t *testing.T, files map[string][]byte) *replay {
	t.Helper()
	disk := crashfs.New()
	r := &replay{disk: disk, fs: disk.Open(), files: make(map[int]localfile.File)}
	for name, content := range files {
		f := r.open(t, name)
		if _, err := f.WriteAt(content, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := r.fs.SyncFileSystem(f); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

func (r *replay) open(t *testing.T, name string) localfile.File {
	t.Helper()
	flag := os.O_RDWR | os.O_CREATE
	if name == "." {
		flag = os.O_RDONLY
	}
	f, err := r.fs.OpenFile(name, flag, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// call carries out a call.
func (r *replay) call(t *testing.T, c tracedCall) {
	t.Helper()
	var err error
	switch f := r.files[c.opened]; c.op {
	case "open":
		r.files[c.opened] = r.open(t, c.name)
	case "write":
		if c.at+int64(len(c.data)) > maxLength {
			t.Fatalf("a write at %d", c.at)
		}
		_, err = f.WriteAt(c.data, c.at)
	case "grow":
		if length := min(c.at, maxLength); int64(len(r.disk.Files()[c.name])) < length {
			_, err = f.WriteAt([]byte{0}, length-1)
		}
	case "sync":
		err = f.Sync()
	case "link":
		err = r.fs.Link(c.name, c.to)
	case "rename":
		err = r.fs.Rename(c.name, c.to)
	case "remove":
		err = r.fs.Remove(c.name)
	case "print":
		r.acknowledged++
	}
	if err != nil {
		t.Fatalf("%s %s: %v", c.op, c.name, err)
	}
}

// afterPowerFailure carries out the first calls, and returns a folder with what a power failure then leaves.
func afterPowerFailure(t *testing.T, before map[string][]byte, calls []tracedCall, loss crashfs.Loss) (dir string, acknowledged int) {
	t.Helper()
	r := newReplay(t, before)
	for _, c := range calls {
		r.call(t, c)
	}
	r.disk.PowerFailure(loss, uint64(len(calls)))
	dir = t.TempDir()
	for name, content := range r.disk.Files() {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir, r.acknowledged
}

var losses = map[string]crashfs.Loss{"all": crashfs.LoseAll, "some": crashfs.LoseSome, "none": crashfs.LoseNone}

// TestPowerFailureAtEveryCall records what a writing process does to its file, and has a power failure after each
// call, which loses all, a part, or nothing of what was not synced. Every acknowledged step is there afterwards; the
// one step that was not acknowledged is there completely or not at all.
func TestPowerFailureAtEveryCall(t *testing.T) {
	t.Parallel()
	const seed = "power failure"
	path := filepath.Join(t.TempDir(), "db")
	db, err := localdynamo.Open(path, localdynamo.Options{SweepInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	createCrashTable(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := map[string][]byte{"db": content[:min(len(content), maxLength)]}
	calls := traced(t, "traced", path, seedVariable+"="+seed)
	counts := make(map[string]int)
	for _, c := range calls {
		counts[c.op]++
	}
	if counts["print"] != tracedSteps || counts["write"] < tracedSteps || counts["sync"] < tracedSteps/2 {
		t.Fatalf("the calls are %v", counts)
	}
	for n := range len(calls) + 1 {
		for name, loss := range losses {
			dir, acknowledged := afterPowerFailure(t, before, calls[:n], loss)
			db, err := localdynamo.Open(filepath.Join(dir, "db"), localdynamo.Options{SweepInterval: -1, NoSync: true})
			if err == nil {
				err = db.Check(t.Context())
			}
			if err != nil {
				t.Fatalf("after %d of %d calls, %s lost: %v", n, len(calls), name, err)
			}
			recoverWorker(t, db, seed, 0, acknowledged, rows{})
			if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
				t.Error(err)
			}
			if t.Failed() {
				t.Fatalf("after %d of %d calls, %s lost, with %d steps acknowledged", n, len(calls), name, acknowledged)
			}
		}
	}
}

// A power failure while a file is created leaves no file, or one that can be opened; after Open has returned, always
// the file.
func TestPowerFailureDuringCreation(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	calls := traced(t, "traced", path)
	for n := range len(calls) + 1 {
		for name, loss := range losses {
			about := fmt.Sprintf("after %d of %d calls, %s lost", n, len(calls), name)
			dir, _ := afterPowerFailure(t, nil, calls[:n], loss)
			if _, err := os.Stat(filepath.Join(dir, "db")); err != nil && n == len(calls) {
				t.Errorf("%s: %v", about, err)
			}
			db, err := localdynamo.Open(filepath.Join(dir, "db"), localdynamo.Options{SweepInterval: -1, NoSync: true})
			if err != nil {
				t.Fatalf("%s: %v", about, err)
			}
			createCrashTable(t, db)
			if err := errors.Join(db.Close(), os.RemoveAll(dir)); err != nil {
				t.Errorf("%s: %v", about, err)
			}
		}
	}
}
