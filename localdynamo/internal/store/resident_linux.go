package store

import "syscall"

// giveBack removes the mapping of a file, of size bytes from address on, from the memory of this process. The next access to a
// part maps it again. bbolt writes by calls and never through the mapping: nothing is lost.
func giveBack(address uintptr, size int64) {
	_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, address, uintptr(size), syscall.MADV_DONTNEED) // it remains mapped
}
