//go:build !linux

package dirbody

import "os"

// bootID identifies the time since the machine was started; empty if it is unknown, as here.
func bootID() string { return "" }

// dataSync syncs the content of a file, and its length.
func dataSync(f *os.File) error { return f.Sync() }

// syncFileSystem makes all durable that was written to the file system of an open file. It
// reports whether the system can do that.
func syncFileSystem(*os.File) (ok bool, err error) { return false, nil }
