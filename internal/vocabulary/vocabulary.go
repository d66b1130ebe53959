// Package vocabulary is for tests: it says what a store told in the words that all
// languages have for it, those of spec/README.md.
//
//	store.Entry ──► names of the rows, epoch seconds ──► spec/vectors
//	error ──────► LeaseHeld, Moved, …              ──► workers of e2e/languages
//
// A member that is absent in JSON is none, zero, empty or false. All functions are
// safe for concurrent use.
package vocabulary

import "time"

// Moment is when an epoch second begins, in UTC; the zero time for 0, which stands for
// none.
func Moment(second int64) time.Time {
	if second == 0 {
		return time.Time{}
	}
	return time.Unix(second, 0).UTC()
}

// SecondOf is the epoch second that t lies in; 0 for the zero time.
func SecondOf(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}
