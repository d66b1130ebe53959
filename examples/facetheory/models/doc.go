// Package models defines the rows of FaceTheory's ISR cache: for each page a META row
// (its current generation) and a LOCK row (its regeneration lease), in one table. The
// definitions are verbatim from the reference documents. The tests of package
// tabletheory use them.
package models
