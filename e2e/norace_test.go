//go:build !race

package e2e

// raceDetector says whether the tests are built with the race detector; the
// binary then is too.
const raceDetector = false
