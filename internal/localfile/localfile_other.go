//go:build !linux

package localfile

import (
	"os"
	"time"
)

// Read returns the content of a file of at most limit bytes, and when it was last modified.
func (f *Folder) Read(name string, limit int64) (content []byte, modified time.Time, err error) {
	return f.readSlow(name, limit)
}

// ReadCached returns [ErrWait]: this system cannot tell whether a read waits for the disk.
func (f *Folder) ReadCached(string, []byte) (content []byte, modified time.Time, err error) {
	return nil, time.Time{}, ErrWait
}

// IsMissing reports in one call that there is no file of that name. False proves nothing.
func (f *Folder) IsMissing(string) bool { return false }

// Create returns [ErrUnsupported].
func (f *Folder) Create(string, []byte, os.FileMode) error { return ErrUnsupported }

func isLocal(int) bool { return false }

// DataSync implements [FS].
func (f *Folder) DataSync(file File) error { return file.Sync() }

// SyncFileSystem implements [FS].
func (f *Folder) SyncFileSystem(File) (ok bool, err error) { return false, nil }

// LstatIn implements [FS].
func (f *Folder) LstatIn(_ File, name string) (FileInfo, error) {
	info, err := f.root.Lstat(name)
	if err != nil {
		return FileInfo{}, err
	}
	return FileInfo{Regular: info.Mode().IsRegular(), Length: info.Size(), Modified: info.ModTime()}, nil
}
