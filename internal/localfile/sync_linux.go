package localfile

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// DataSync implements [FS].
func (f *Folder) DataSync(file File) error {
	fd := int(osFile(file).Fd())
	return os.NewSyscallError("fdatasync", again(func() error { return unix.Fdatasync(fd) }))
}

// SyncFileSystem implements [FS].
func (f *Folder) SyncFileSystem(file File) (ok bool, err error) {
	fd := int(osFile(file).Fd())
	err = again(func() error { return unix.Syncfs(fd) })
	if errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return true, os.NewSyscallError("syncfs", err)
}

// LstatIn implements [FS] with one call of the system.
func (f *Folder) LstatIn(folder File, name string) (FileInfo, error) {
	raw, err := osFile(folder).SyscallConn()
	if err != nil {
		return FileInfo{}, err
	}
	var info unix.Stat_t
	closed := raw.Control(func(fd uintptr) {
		err = again(func() error { return unix.Fstatat(int(fd), path.Base(name), &info, unix.AT_SYMLINK_NOFOLLOW) })
	})
	if err := errors.Join(closed, err); err != nil {
		return FileInfo{}, &fs.PathError{Op: "fstatat", Path: name, Err: err}
	}
	return FileInfo{Regular: info.Mode&unix.S_IFMT == unix.S_IFREG, Length: info.Size, Modified: time.Unix(info.Mtim.Unix())}, nil
}
