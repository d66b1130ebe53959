//go:build !linux

package dirbody

// bootID identifies the time since the machine was started; empty if it is unknown, as here.
func bootID() string { return "" }
