//go:build !linux

package dirbody

// bootID returns "": on this system the start of the machine has no identifier.
func bootID() string { return "" }
