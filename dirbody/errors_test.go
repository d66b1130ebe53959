package dirbody

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/facetheory/isr/store"
)

// What the file system says is a missing file, a denial, or neither.
func TestContractOfErrors(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		syscall.ENOENT: store.ErrNotFound, syscall.EACCES: store.ErrDenied, syscall.EPERM: store.ErrDenied,
		syscall.EIO: nil, syscall.ESTALE: nil, syscall.ENOTDIR: nil, syscall.EMFILE: nil, syscall.ENOSPC: nil,
	} {
		err := contract(&fs.PathError{Op: "openat", Path: "x", Err: errno})
		for _, sentinel := range []error{store.ErrNotFound, store.ErrDenied} {
			if errors.Is(err, sentinel) != (want == sentinel) {
				t.Errorf("%v becomes %v", errno, err)
			}
		}
		if !errors.Is(err, errno) {
			t.Errorf("%v has lost its cause: %v", errno, err)
		}
	}
}
