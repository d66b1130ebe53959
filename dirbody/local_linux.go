package dirbody

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// readFile reads a file of at most limit bytes, and returns when it was last modified. openat2(2)
// opens it in one call, and does not leave the root, as [os.Root] does with one call per folder;
// kernels before 5.6 and some containers do not have it.
func (s *Store) readFile(name string, limit int64) (body []byte, modified time.Time, err error) {
	fd, err := s.openFast(name)
	if errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) || errors.Is(err, unix.EAGAIN) {
		return s.readSlow(name, limit)
	}
	if err != nil {
		return nil, time.Time{}, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	defer func() { _ = unix.Close(fd) }() // read only
	var info unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &info) }); err != nil {
		return nil, time.Time{}, &fs.PathError{Op: "fstat", Path: name, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return nil, time.Time{}, fmt.Errorf("expected a regular file, found one of mode %o", info.Mode)
	}
	if info.Size > limit {
		return nil, time.Time{}, errTooLong(info.Size, limit)
	}
	body = make([]byte, info.Size)
	for n := 0; n < len(body); {
		var got int
		err := again(func() (err error) { got, err = unix.Pread(fd, body[n:], int64(n)); return err })
		if err == nil && got <= 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, time.Time{}, &fs.PathError{Op: "pread", Path: name, Err: err}
		}
		n += got
	}
	return body, time.Unix(info.Mtim.Unix()), nil
}

// openFast opens a file below the root. O_NONBLOCK is for named pipes, which would block.
func (s *Store) openFast(name string) (fd int, err error) {
	how := unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	// Control keeps the descriptor of the folder from being closed, and used again, meanwhile.
	closed := s.folder.Control(func(root uintptr) {
		err = again(func() (err error) { fd, err = unix.Openat2(int(root), name, &how); return err })
	})
	return fd, errors.Join(closed, err)
}

// again repeats a call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
