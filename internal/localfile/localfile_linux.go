package localfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	"golang.org/x/sys/unix"
)

// Read returns the content of a file of at most limit bytes, and when it was last modified.
// openat2(2) opens it in one call, and does not leave the folder, as [os.Root] does with one call
// per folder; kernels before 5.6 and some containers do not have it.
func (f *Folder) Read(name string, limit int64) (content []byte, modified time.Time, err error) {
	fd, err := f.open(name, forReading)
	if isUnknown(err) || errors.Is(err, unix.EAGAIN) {
		return f.readSlow(name, limit)
	}
	if err != nil {
		return nil, time.Time{}, err
	}
	defer func() { _ = unix.Close(fd) }() // read only
	length, modified, err := stat(fd, name)
	if err != nil {
		return nil, time.Time{}, err
	}
	if length > limit {
		return nil, time.Time{}, errTooLong(length, limit)
	}
	content = make([]byte, length)
	for n := 0; n < len(content); {
		var got int
		err := again(func() (err error) { got, err = unix.Pread(fd, content[n:], int64(n)); return err })
		if err == nil && got <= 0 {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return nil, time.Time{}, &fs.PathError{Op: "pread", Path: name, Err: err}
		}
		n += got
	}
	return content, modified, nil
}

// forReading are the flags of files that are read. O_NONBLOCK is for named pipes, which would block.
const forReading = unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOCTTY

// beneath are the rules by which paths are resolved.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// open opens a file, or a folder.
func (f *Folder) open(name string, flags uint64) (fd int, err error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Resolve: beneath}
	// Control keeps the descriptor of the folder from being closed, and used again, during the call.
	closed := f.conn.Control(func(root uintptr) {
		err = again(func() (err error) { fd, err = unix.Openat2(int(root), name, &how); return err })
	})
	if err = errors.Join(closed, err); err != nil {
		return 0, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	return fd, nil
}

// isUnknown reports whether an error means that the system does not have a call, or does not allow
// it, as some containers do.
func isUnknown(err error) bool { return errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EPERM) }

// stat returns the length of an open regular file, and when it was last modified.
func stat(fd int, name string) (length int64, modified time.Time, err error) {
	var info unix.Stat_t
	if err := again(func() error { return unix.Fstat(fd, &info) }); err != nil {
		return 0, time.Time{}, &fs.PathError{Op: "fstat", Path: name, Err: err}
	}
	if info.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, time.Time{}, fmt.Errorf("expected a regular file, found one of mode %o", info.Mode)
	}
	return info.Size, time.Unix(info.Mtim.Unix()), nil
}

// again repeats a call that a signal has interrupted.
func again(call func() error) error {
	for {
		if err := call(); !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}
