package e2e

import (
	"testing"
	"time"
)

// patience is how long a test waits, on a busy machine, for something that takes no time
// by itself.
const patience = 5 * time.Minute

// await polls until done returns true and returns how long that took. It fails the test after
// the timeout. Tests wait nowhere else.
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

// awaitClock waits until a time has passed.
func awaitClock(t testing.TB, what string, at time.Time) {
	t.Helper()
	await(t, what, time.Until(at)+patience, func() bool { return time.Now().After(at) })
}
