// Package gc deletes stored bodies and pages: garbage, to which no row refers any more
// ([Collect]), and the least recently used pages of a disk of bounded size ([Evict]). Both
// run concurrently with caches, on any process: they take the lease of a page before they
// delete any of its bodies, as a regeneration does. It also deletes purge marks that newer
// ones include ([CompactMarks]), and renews permanent pins ([RenewPins]).
package gc
