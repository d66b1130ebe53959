package isr

import (
	"time"
)

// An AutoWindow makes the freshness window of each page follow how often its content
// changes, between two bounds. Each regeneration adjusts it (see [AutoWindow.Next]), and the
// page's row keeps it, so that all processes share it. A page starts at Min.
//
// A page whose content differs at every render, such as one that shows the time or a token,
// stays at Min.
type AutoWindow struct {
	// Min and Max bound the window. Min is at least one second, and Max at least Min. Both
	// zero: the windows are fixed.
	Min, Max time.Duration
}

// enabled reports whether the windows are adjusted.
func (w AutoWindow) enabled() bool { return w != AutoWindow{} }

func (w AutoWindow) validate() error {
	if w.enabled() && (w.Min < time.Second || w.Max < w.Min) {
		return configErrorf("Auto", "must have a Min of at least 1s, and a Max of at least Min (got %s and %s)", w.Min, w.Max)
	}
	return nil
}

// Next returns the window of a generation, given that of the generation it replaces, the time
// between the two, and whether the content changed. It is a pure function.
//
// An unchanged page gets a window of 1.2 times the time that it has not changed for, but at
// most four times the one before. A changed page gets a quarter of the one before, since
// changes come in bursts; unless it had so few visitors that the change says little: one
// change in eight windows or more leaves the window as it was. "go run -C bench ./window"
// compares the rule with fixed windows.
func (w AutoWindow) Next(window, since time.Duration, changed bool) time.Duration {
	next := max(window, min(since+since/5, 4*window))
	if changed {
		next = max(window/4, min(window, since/8))
	}
	return min(max(next, w.Min), w.Max).Truncate(time.Second)
}
