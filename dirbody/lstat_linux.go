package dirbody

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"
)

// lstatIn describes a file of an open folder with one call of the system; name is its path below
// the root, as in the other methods.
func (s *Store) lstatIn(folder *os.File, name string) (fileInfo, error) {
	raw, err := folder.SyscallConn()
	if err != nil {
		return fileInfo{}, err
	}
	var info unix.Stat_t
	closed := raw.Control(func(fd uintptr) {
		for {
			err = unix.Fstatat(int(fd), path.Base(name), &info, unix.AT_SYMLINK_NOFOLLOW)
			if !errors.Is(err, unix.EINTR) {
				return
			}
		}
	})
	if err := errors.Join(closed, err); err != nil {
		return fileInfo{}, &fs.PathError{Op: "fstatat", Path: name, Err: err}
	}
	return fileInfo{regular: info.Mode&unix.S_IFMT == unix.S_IFREG, length: info.Size, modified: time.Unix(info.Mtim.Unix())}, nil
}
