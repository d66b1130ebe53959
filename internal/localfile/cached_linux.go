package localfile

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// resolveCached is RESOLVE_CACHED of <linux/openat2.h>: fail with EAGAIN unless the whole path is in the
// kernel's memory. Kernels before 5.12 refuse it with EINVAL.
const resolveCached = 0x20

// ReadCached reads a file into a buffer that must be as long as the file at least, and returns its
// content, and when it was last modified. It does not wait for the disk, so that it needs no
// deadline. [ErrWait]: the file is not in the kernel's memory, or the system cannot tell; Read may
// succeed.
func (f *Folder) ReadCached(name string, buffer []byte) (content []byte, modified time.Time, err error) {
	r, _ := f.cached.Get().(*cachedRead)
	if r == nil {
		r = newCachedRead()
	}
	defer f.cached.Put(r)
	if strings.IndexByte(name, 0) >= 0 {
		return nil, time.Time{}, &fs.PathError{Op: "openat2", Path: name, Err: unix.EINVAL}
	}
	r.name, r.local = append(append(r.name[:0], name...), 0), f.local
	err = errors.Join(f.conn.Control(r.open), r.err)
	switch {
	case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINVAL), isUnknown(err):
		return nil, time.Time{}, ErrWait
	case err != nil:
		return nil, time.Time{}, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	defer func() { _, _ = r.call(unix.SYS_CLOSE, r.fd, 0, 0, 0, 0, 0) }() // read only
	return r.read(buffer)
}

// A cachedRead reads a file. It is used for one after the other, so that a read allocates nothing.
type cachedRead struct {
	open  func(root uintptr) // method openIn, bound once
	local bool               // see Folder

	name []byte // with a zero at its end
	fd   uintptr
	err  error
	how  unix.OpenHow
	info unix.Statx_t
	part unix.Iovec
}

func newCachedRead() *cachedRead {
	r := &cachedRead{how: unix.OpenHow{Flags: forReading | unix.O_CLOEXEC, Resolve: beneath | resolveCached}}
	r.open = r.openIn
	return r
}

func (r *cachedRead) openIn(root uintptr) {
	r.fd, r.err = r.call(unix.SYS_OPENAT2, root, uintptr(unsafe.Pointer(&r.name[0])), uintptr(unsafe.Pointer(&r.how)), unix.SizeofOpenHow, 0, 0)
}

// read reads the file that is open.
func (r *cachedRead) read(buffer []byte) (content []byte, modified time.Time, err error) {
	const mask = unix.STATX_TYPE | unix.STATX_SIZE | unix.STATX_MTIME
	none := r.name[len(r.name)-1:] // an empty path: the file itself
	if _, err := r.call(unix.SYS_STATX, r.fd, uintptr(unsafe.Pointer(&none[0])), unix.AT_EMPTY_PATH, mask, uintptr(unsafe.Pointer(&r.info)), 0); err != nil {
		return nil, time.Time{}, ErrWait
	}
	length, modified := r.info.Size, time.Unix(r.info.Mtime.Sec, int64(r.info.Mtime.Nsec))
	switch {
	case r.info.Mode&unix.S_IFMT != unix.S_IFREG:
		return nil, time.Time{}, fmt.Errorf("expected a regular file, found one of mode %o", r.info.Mode)
	case length > uint64(len(buffer)):
		return nil, time.Time{}, errTooLong(int64(length), int64(len(buffer))) //nolint:gosec // files are shorter than 2^63
	case length == 0:
		return buffer[:0], modified, nil
	}
	r.part.Base = &buffer[0]
	r.part.SetLen(int(length)) //nolint:gosec // at most the length of the buffer
	n, err := r.call(unix.SYS_PREADV2, r.fd, uintptr(unsafe.Pointer(&r.part)), 1, 0, 0, unix.RWF_NOWAIT)
	r.part.Base = nil
	if err != nil || uint64(n) < length { // a part of what was asked for: the rest is not in memory
		return nil, time.Time{}, ErrWait
	}
	return buffer[:length], modified, nil
}

// call makes a system call. On a local file system none of those above waits, so that Go's scheduler is
// not told of it: if the kernel interrupts a thread in a call that the scheduler knows of, it takes that
// thread for blocked, and starts another one. On a busy machine that is a tenth of a hit.
//
//go:uintptrescapes
func (r *cachedRead) call(number, a, b, c, d, e, f uintptr) (uintptr, error) {
	for {
		var n uintptr
		var err unix.Errno
		if r.local {
			n, _, err = unix.RawSyscall6(number, a, b, c, d, e, f)
		} else {
			n, _, err = unix.Syscall6(number, a, b, c, d, e, f)
		}
		switch err {
		case 0:
			return n, nil
		case unix.EINTR:
		default:
			return 0, err
		}
	}
}

// isLocal reports whether a folder is on a file system that has its metadata on a disk of this machine,
// or in memory, and not on a network or in another process.
func isLocal(folder int) bool {
	var info unix.Statfs_t
	if again(func() error { return unix.Fstatfs(folder, &info) }) != nil {
		return false
	}
	switch uint32(info.Type) { //nolint:gosec // magic numbers have 32 bits, with or without a sign
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC:
		return true
	}
	return false
}
