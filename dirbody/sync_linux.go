package dirbody

import (
	"errors"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// bootID identifies the time since the machine was started (random(4)); empty if it is unknown.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	trimmed := strings.TrimSpace(string(id))
	if err != nil || len(trimmed) > 64 || strings.Trim(trimmed, "0123456789abcdef-") != "" {
		return ""
	}
	return trimmed
}

// dataSync syncs the content of a file, and its length.
func dataSync(f *os.File) error {
	for {
		if err := unix.Fdatasync(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}

// syncFileSystem makes all durable that was written to the file system of an open file. It
// reports whether the system can do that. Linux reports failed writes since version 5.8.
func syncFileSystem(f *os.File) (ok bool, err error) {
	for {
		if err = unix.Syncfs(int(f.Fd())); !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if errors.Is(err, unix.ENOSYS) {
		return false, nil
	}
	return true, os.NewSyscallError("syncfs", err)
}
