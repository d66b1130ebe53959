// Package isrtest checks implementations of the stores that package isr stands
// on, so that every one of them keeps the same promises:
//
//	func TestMetaStore(t *testing.T) { isrtest.MetaStore(t, openTable) }
//	func TestBodyStore(t *testing.T) { isrtest.BodyStore(t, openFolder) }
//
// The suites use the interfaces alone. What a store writes, and what becomes of
// it when its calls fail, is for the store's own tests.
//
//	MetaStore ─ views of one storage, each with a name, on one clock
//	            a (node) ──┐
//	            b (node) ──┼──► the store under test
//	            …          ┘
//
// Time is a [Clock] that stands still until a test moves it: a lease expires when
// the test says so and never because the machine is slow. The tests that let
// many goroutines race are meant to be run with -race.
//
// [Engine] finds the real servers that ./test starts.
package isrtest
