package localfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// An FS is the files below a folder, by the calls that stores make of them. Names are relative paths with slashes;
// none leads outside the folder. The methods do what the methods of [os.Root] do, except as their comments note. It is
// safe for concurrent use.
//
// A [Folder] is the only one in production. Package crashfs has one for tests, which loses what was not synced.
type FS interface {
	OpenFile(name string, flag int, perm fs.FileMode) (File, error)
	Mkdir(name string, perm fs.FileMode) error
	MkdirAll(name string, perm fs.FileMode) error
	Link(from, to string) error
	Rename(from, to string) error
	Remove(name string) error
	RemoveAll(name string) error
	Lstat(name string) (fs.FileInfo, error)
	// Chtimes sets when a file was last modified.
	Chtimes(name string, modified time.Time) error
	// ReadDir returns the entries of a folder by name.
	ReadDir(name string) ([]fs.DirEntry, error)
	// LstatIn describes a file of an open folder, whose name is its path below the FS. It is cheaper than Lstat.
	LstatIn(folder File, name string) (FileInfo, error)

	// Lock takes a lock on an open file (flock(2)), shared or exclusive. ErrLocked: another descriptor has it,
	// and wait is false. It is released when the file is closed, or the process ends.
	Lock(f File, shared, wait bool) error
	// DataSync makes the content of a file durable, and its length.
	DataSync(f File) error
	// SyncFileSystem makes all durable that was written to the file system of an open file. It reports
	// whether the system can do that. Linux reports failed writes since version 5.8, each to all
	// descriptors that were open when it failed.
	SyncFileSystem(f File) (ok bool, err error)

	// Create, Read, ReadCached and IsMissing do what the methods of [Folder] do.
	Create(name string, content []byte, mode fs.FileMode) error
	Read(name string, limit int64) (content []byte, modified time.Time, err error)
	ReadCached(name string, buffer []byte) (content []byte, modified time.Time, err error)
	IsMissing(name string) bool

	Close() error
}

// A File is an open file or folder. The files of a [Folder] are of the type [*os.File].
type File interface {
	io.Reader
	io.ReaderAt
	io.Writer
	io.WriterAt
	io.Closer
	Stat() (fs.FileInfo, error)
	Readdirnames(n int) ([]string, error)
	// Sync makes the content of a file durable, or the names in a folder.
	Sync() error
}

// A FileInfo is what [FS.LstatIn] returns of a file.
type FileInfo struct {
	Regular  bool
	Length   int64
	Modified time.Time
}

// ErrLocked: another process, or another descriptor of this one, has locked the file.
var ErrLocked = errors.New("the file is locked")

var (
	_ FS   = (*Folder)(nil)
	_ File = (*os.File)(nil)
)

// OpenFile implements [FS].
func (f *Folder) OpenFile(name string, flag int, perm fs.FileMode) (File, error) {
	file, err := f.root.OpenFile(name, flag, perm)
	if err != nil {
		return nil, err
	}
	return file, nil
}

// Mkdir implements [FS].
func (f *Folder) Mkdir(name string, perm fs.FileMode) error { return f.root.Mkdir(name, perm) }

// MkdirAll implements [FS].
func (f *Folder) MkdirAll(name string, perm fs.FileMode) error { return f.root.MkdirAll(name, perm) }

// Link implements [FS].
func (f *Folder) Link(from, to string) error { return f.root.Link(from, to) }

// Rename implements [FS].
func (f *Folder) Rename(from, to string) error { return f.root.Rename(from, to) }

// Remove implements [FS].
func (f *Folder) Remove(name string) error { return f.root.Remove(name) }

// RemoveAll implements [FS].
func (f *Folder) RemoveAll(name string) error { return f.root.RemoveAll(name) }

// Lstat implements [FS].
func (f *Folder) Lstat(name string) (fs.FileInfo, error) { return f.root.Lstat(name) }

// Chtimes implements [FS].
func (f *Folder) Chtimes(name string, modified time.Time) error {
	return f.root.Chtimes(name, time.Time{}, modified)
}

// ReadDir implements [FS].
func (f *Folder) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(f.root.FS(), name) }

// Lock implements [FS].
func (f *Folder) Lock(file File, shared, wait bool) error {
	how := syscall.LOCK_EX
	if shared {
		how = syscall.LOCK_SH
	}
	if !wait {
		how |= syscall.LOCK_NB
	}
	opened := osFile(file)
	for {
		err := syscall.Flock(int(opened.Fd()), how)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, syscall.EWOULDBLOCK):
			return ErrLocked
		case !errors.Is(err, syscall.EINTR):
			return fmt.Errorf("locking %s: %w", opened.Name(), err)
		}
	}
}

// osFile returns a file that a Folder has opened.
func osFile(f File) *os.File { return f.(*os.File) } //nolint:forcetypeassert // see File
