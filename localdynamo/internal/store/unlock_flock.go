//go:build !windows && !solaris && !aix

package store

import (
	"os"
	"syscall"
)

// unlock releases the lock that bbolt holds on the file. If the file is closed already,
// it does nothing.
func unlock(file *os.File) {
	connection, err := file.SyscallConn()
	if err != nil {
		return
	}
	_ = connection.Control(func(fd uintptr) { _ = syscall.Flock(int(fd), syscall.LOCK_UN) })
}
