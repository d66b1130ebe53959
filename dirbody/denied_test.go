//go:build linux

package dirbody_test

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/facetheory/isr/store"
)

// A file that may not be read is denied, not missing.
func TestDenied(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	bodies := open(t, dir)
	if err := bodies.Put(t.Context(), "bodies/page/1", []byte("x")); err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(dir, "bodies")
	if err := os.Chmod(folder, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Chmod(folder, 0o700); err != nil {
			t.Error(err)
		}
	})
	unprivileged(t, func() {
		_, _, openErr := bodies.Open(t.Context(), "bodies/page/1")
		_, statErr := bodies.Stat(t.Context(), "bodies/page/2")
		for call, err := range map[string]error{"Open": openErr, "Stat": statErr, "Delete": bodies.Delete(t.Context(), "bodies/page/1")} {
			if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrNotFound) {
				t.Errorf("%s: %v, want ErrDenied", call, err)
			}
		}
	})
}

// unprivileged runs f as a user that file permissions apply to: a thread of root takes
// another user's id and ends with its goroutine.
func unprivileged(t *testing.T, f func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread is not reused
		var err error
		if os.Geteuid() == 0 {
			const nobody = 65534
			if _, _, errno := syscall.RawSyscall(syscall.SYS_SETFSUID, nobody, 0, 0); int(errno) != 0 {
				err = errno
			}
		}
		if err == nil {
			f()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
