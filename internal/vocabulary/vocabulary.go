// Package vocabulary is for tests. It converts results of a store to the names that all
// languages share, the words of spec/README.md.
//
//	store.Entry ──► names of the rows, epoch seconds ──► spec/vectors
//	error ──────► LeaseHeld, Moved, …              ──► workers of e2e/languages
//
// A member that is absent in JSON is zero, empty or false. All functions are
// safe for concurrent use.
package vocabulary

import "time"

// Moment converts an epoch second to a time in UTC; 0, which means no time, to the zero
// time.
func Moment(second int64) time.Time {
	if second == 0 {
		return time.Time{}
	}
	return time.Unix(second, 0).UTC()
}

// SecondOf converts t to epoch seconds, rounded down; the zero time to 0.
func SecondOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
