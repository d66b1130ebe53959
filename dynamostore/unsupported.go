package dynamostore

import (
	"context"
	"errors"
	"iter"

	"github.com/facetheory/isr"
)

// What the store does not have yet; the next commits replace it.

var errStub = errors.New("not there yet")

func (s *Store) BreakLease(context.Context, isr.Record) error { return errStub }
func (s *Store) Partitions(context.Context) iter.Seq2[string, error] {
	return func(yield func(string, error) bool) { yield("", errStub) }
}
func (s *Store) BodyKeys(context.Context, string) ([]string, error) { return nil, errStub }
