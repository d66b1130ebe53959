package changelog

import (
	"testing"
	"time"
)

// The monotonic clock stops while the machine sleeps, and times with a monotonic reading are
// compared by that alone: a moment has the wall clock without one.
func TestMomentsHaveTheWallClock(t *testing.T) {
	m := New(t.Context(), Options{Now: time.Now}).moment()
	if m.wall != m.wall.Round(0) {
		t.Errorf("the wall clock of a moment has a monotonic reading: %v", m.wall)
	}
	if d := m.before(time.Now().Round(0).Add(time.Hour)); d < time.Hour {
		t.Errorf("a machine that slept for an hour counts as away for %v", d)
	}
	if d := m.before(time.Now().Add(-time.Hour)); d < 0 {
		t.Errorf("a wall clock that was set back makes the moment one to come: %v", d)
	}
}
