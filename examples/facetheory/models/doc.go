// Package models has the rows of FaceTheory's ISR cache as the reference
// documents define them: what was generated (META), and who is regenerating
// (LOCK), of each page in one table. The definitions are those of the
// documents, to the letter; package tabletheory's tests use them.
package models
