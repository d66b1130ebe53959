// Package isrtest is the conformance suite for implementations of the stores in
// package store:
//
//	func TestMetaStore(t *testing.T) { isrtest.MetaStore(t, openTable) }
//	func TestBodyStore(t *testing.T) { isrtest.BodyStore(t, openFolder) }
//
// The suites use the interfaces only. The stored format and the handling of
// failed requests belong to each store's own tests.
//
//	MetaStore ─ views of one storage, one per node, on one clock
//	            a (node) ──┐
//	            b (node) ──┼──► the store under test
//	            …          ┘
//
// Time comes from a [Clock] that stands still until a test moves it, so a lease
// never expires because the machine is slow. Run the race tests with -race.
//
// [Engine] finds the real servers that ./test starts.
package isrtest
