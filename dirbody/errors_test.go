package dirbody

import (
	"errors"
	"io/fs"
	"syscall"
	"testing"

	"github.com/facetheory/isr/store"
)

// contract classifies the file system's errors as missing, denied, or neither.
func TestContractOfErrors(t *testing.T) {
	t.Parallel()
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
			t.Errorf("contract(%v) does not wrap it: %v", errno, err)
		}
	}
}
