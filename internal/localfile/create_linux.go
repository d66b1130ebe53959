package localfile

import (
	"errors"
	"io"
	"os"
	"path"
	"strconv"

	"golang.org/x/sys/unix"
)

// IsMissing reports in one call that there is no file of that name. False proves nothing.
func (f *Folder) IsMissing(name string) bool {
	fd, err := f.open(name, unix.O_PATH)
	if err == nil {
		_ = unix.Close(fd) // nothing was written
	}
	return errors.Is(err, unix.ENOENT)
}

// Create writes a new file, which gets its name once it is complete (O_TMPFILE and linkat(2)): a
// crash of the process leaves the whole file or nothing. Unlike a temporary file that is renamed, it
// costs one entry of a folder, and a file system that keeps the files of a folder together, such as
// ext4, does not keep all in one place. The file is not synced. The folder of the file must exist.
//
// [ErrUnsupported]: the file system has no files without a name, which are optional, or the system
// lacks openat2(2), or /proc. After every error nothing was created.
func (f *Folder) Create(name string, content []byte, mode os.FileMode) error {
	folder, err := f.open(path.Dir(name), unix.O_PATH|unix.O_DIRECTORY)
	if isUnknown(err) {
		return errors.Join(ErrUnsupported, err)
	}
	if err != nil {
		return err
	}
	defer func() { _ = unix.Close(folder) }() // nothing was written to it
	var file int
	err = again(func() (err error) {
		file, err = unix.Openat(folder, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, uint32(mode.Perm()))
		return err
	})
	if err != nil {
		return unsupported("open", name, err, unix.EOPNOTSUPP, unix.EISDIR, unix.EINVAL)
	}
	if err = writeAll(file, content); err == nil {
		err = again(func() error { // the commit point
			return unix.Linkat(unix.AT_FDCWD, "/proc/self/fd/"+strconv.Itoa(file), folder, path.Base(name), unix.AT_SYMLINK_FOLLOW)
		})
		err = unsupported("linkat", name, err, unix.ENOENT, unix.EPERM, unix.EXDEV, unix.EINVAL, unix.EOPNOTSUPP)
	}
	// Only network file systems report failed writes here, and they have no files without a name.
	_ = unix.Close(file)
	return err
}

// unsupported adds ErrUnsupported to an error that is one of those given.
func unsupported(op, name string, err error, these ...error) error {
	if err == nil {
		return nil
	}
	err = &os.PathError{Op: op, Path: name, Err: err}
	for _, e := range these {
		if errors.Is(err, e) {
			return errors.Join(ErrUnsupported, err)
		}
	}
	return err
}

func writeAll(file int, content []byte) error {
	for len(content) > 0 {
		var n int
		err := again(func() (err error) { n, err = unix.Write(file, content); return err })
		if err == nil && n <= 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return os.NewSyscallError("write", err)
		}
		content = content[n:]
	}
	return nil
}
