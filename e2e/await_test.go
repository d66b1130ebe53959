package e2e

import (
	"testing"
	"time"
)

// patience is how long a test waits for what needs no time of its own, on a
// machine that is busy with other things.
const patience = 20 * time.Second

// await polls until done says so, and returns how long that took. It is the one
// place in which tests wait; it fails the test after the given time.
func await(t testing.TB, what string, within time.Duration, done func() bool) time.Duration {
	t.Helper()
	began := time.Now()
	for !done() {
		if time.Since(began) > within {
			t.Fatalf("waited %s in vain for %s", within, what)
		}
		time.Sleep(5 * time.Millisecond)
	}
	return time.Since(began)
}

// awaitClock waits until a moment has passed.
func awaitClock(t testing.TB, what string, at time.Time) {
	t.Helper()
	await(t, what, time.Until(at)+patience, func() bool { return time.Now().After(at) })
}
