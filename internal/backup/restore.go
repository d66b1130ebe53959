package backup

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sync/semaphore"

	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/localfile"
	"github.com/facetheory/isr/localdynamo"
)

// Limits of what is restored at once: many small bodies share a sync.
const (
	restoring      = 64
	restoringBytes = 64 << 20
)

// Restore makes the folder, or the file, at path of a backup. It must not exist, or be an empty folder. If the
// error is not nil, nothing is at path. A crash leaves a folder beside it whose name begins with
// ".isr-restore-", which can be deleted.
func Restore(ctx context.Context, from io.Reader, path string, progress Progress) (found Summary, err error) {
	path = filepath.Clean(path)
	if err := checkTarget(path); err != nil {
		return Summary{}, err
	}
	temp, err := os.MkdirTemp(filepath.Dir(path), ".isr-restore-")
	if err != nil {
		return Summary{}, fmt.Errorf("restore beside %s: %w", path, err)
	}
	defer os.RemoveAll(temp)
	to := &target{ctx: ctx, dir: temp, weight: semaphore.NewWeighted(restoringBytes)}
	to.tasks.SetLimit(restoring)
	found, err = read(ctx, from, to, progress)
	if err = errors.Join(err, to.close()); err != nil {
		return Summary{}, fmt.Errorf("restore %s: %w", path, err)
	}
	if err := verifyTable(ctx, temp, found.Folder.Format > 0); err != nil {
		return Summary{}, fmt.Errorf("restore %s: the table in the backup is damaged; use another one: %w", path, err)
	}
	// If we crash before this, nothing is at path; after it, all is.
	if err := to.name(path, found.Folder.Format > 0); err != nil {
		return Summary{}, fmt.Errorf("restore %s: %w", path, err)
	}
	return found, nil
}

// checkTarget refuses a path at which something is.
func checkTarget(path string) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return err
	case !info.IsDir():
		return fmt.Errorf("%s exists; move it away, or give another path", path)
	}
	entries, err := os.ReadDir(path)
	if err == nil && len(entries) > 0 {
		err = fmt.Errorf("%s is not empty; stop its server and move it away, or give another folder", path)
	}
	return err
}

// A target is what is being restored.
type target struct {
	ctx    context.Context
	dir    string
	bodies *dirbody.Store // nil: none yet
	tasks  errgroup.Group
	weight *semaphore.Weighted
}

func (t *target) begin(m Manifest) (err error) {
	if m.Bodies {
		t.bodies, err = dirbody.Open(embedded.BodiesDir(t.dir), dirbody.Options{})
	}
	return err
}

func (t *target) table(content io.Reader) error {
	f, err := os.OpenFile(embedded.EngineFile(t.dir), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, content)
	return errors.Join(err, f.Sync(), f.Close())
}

func (t *target) body(key string, content io.Reader, size int64) error {
	if t.bodies == nil {
		return fmt.Errorf("%w: a body in the backup of a file", ErrDamaged)
	}
	weight := min(size, restoringBytes)
	if err := t.weight.Acquire(t.ctx, weight); err != nil {
		return err
	}
	body, err := io.ReadAll(content)
	if err != nil {
		t.weight.Release(weight)
		return err
	}
	t.tasks.Go(func() error {
		defer t.weight.Release(weight)
		return t.bodies.Put(t.ctx, key, body)
	})
	return nil
}

// close waits until all is on disk.
func (t *target) close() error {
	err := t.tasks.Wait()
	if t.bodies != nil {
		err = errors.Join(err, t.bodies.Close())
	}
	return err
}

// verifyTable checks the table of a folder, which also upgrades it.
func verifyTable(ctx context.Context, dir string, folder bool) error {
	open := embedded.OpenEngine
	if !folder {
		open = func(dir string) (*localdynamo.DB, error) {
			return localdynamo.Open(embedded.EngineFile(dir), localdynamo.Options{SweepInterval: -1})
		}
	}
	db, err := open(dir)
	if err != nil {
		return err
	}
	return errors.Join(db.Check(ctx), db.Close())
}

// name gives what was restored its name.
func (t *target) name(path string, folder bool) error {
	if err := localfile.SyncFolder(t.dir); err != nil {
		return err
	}
	from := t.dir
	if folder {
		_ = os.Remove(path) // an empty folder; if it is not empty any more, Rename fails
	} else {
		from = embedded.EngineFile(t.dir)
	}
	if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s exists", path), err)
	}
	if err := os.Rename(from, path); err != nil {
		return err
	}
	return localfile.SyncFolder(filepath.Dir(path))
}
