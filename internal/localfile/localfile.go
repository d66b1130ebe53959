// Package localfile has the files below a folder, see [FS]. It reads and creates whole files in as few calls of the
// system as it takes. Like [os.Root] it never leaves the folder, not even through symbolic links.
package localfile

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"syscall"
	"time"
)

// A Folder is the [FS] of a folder. It is safe for concurrent use.
type Folder struct {
	root   *os.Root
	opened *os.File        // the folder
	conn   syscall.RawConn // of opened
	local  bool            // opening a file that is in the kernel's memory waits for no one
	cached sync.Pool       // of *cachedRead
}

// ErrWait: a file cannot be read without waiting for the disk, as far as the system can tell.
var ErrWait = errors.New("the file is not in the memory of the system")

// ErrUnsupported: the system, or the file system, cannot create a file without a name.
var ErrUnsupported = errors.New("files without a name are not supported")

// Open opens the folder of a root, which belongs to it from now on, also if it fails. The caller must close it.
func Open(root *os.Root) (*Folder, error) {
	opened, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	f := &Folder{root: root, opened: opened}
	if f.conn, err = opened.SyscallConn(); err == nil {
		err = f.conn.Control(func(fd uintptr) { f.local = isLocal(int(fd)) })
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close closes the folder and its root. Files that are open stay open.
func (f *Folder) Close() error { return errors.Join(f.opened.Close(), f.root.Close()) }

// readSlow is Read by the root.
func (f *Folder) readSlow(name string, limit int64) (content []byte, modified time.Time, err error) {
	file, err := f.root.Open(name)
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = file.Close() }() // read only
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, time.Time{}, err
	case !info.Mode().IsRegular():
		return nil, time.Time{}, fmt.Errorf("expected a regular file, found %s", info.Mode().Type())
	case info.Size() > limit:
		return nil, time.Time{}, errTooLong(info.Size(), limit)
	}
	content = make([]byte, info.Size())
	_, err = io.ReadFull(file, content)
	return content, info.ModTime(), err
}

func errTooLong(length, limit int64) error {
	return fmt.Errorf("it has %d bytes, at most %d were expected", length, limit)
}

// SyncFolder makes the names in a folder durable.
func SyncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
