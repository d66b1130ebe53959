//go:build !race

package process

// Race says whether the tests are built with the race detector; the binary then
// should be too.
const Race = false
