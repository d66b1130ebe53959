package dynamostore

import (
	"context"

	"github.com/facetheory/isr/store"
)

// purgeRow is the purge of a page.
type purgeRow struct {
	location

	Seq     count   `theorydb:"attr:seq"`
	HardSeq count   `theorydb:"attr:hard_seq"`
	At      instant `theorydb:"attr:at"`
}

// sequenceRow is the SEQ row: the state of the purge log.
type sequenceRow struct {
	location

	Seq          count  `theorydb:"attr:seq"`
	MarkLifetime period `theorydb:"attr:mark_lifetime"`
}

var (
	requiredOfPurge    = []required{{attrSeq, expectedCount}, {attrAt, expectedInstant}}
	requiredOfSequence = []required{{attrSeq, expectedCount}}
)

// readPurge reads the purge of a page with a strongly consistent read; zero if there
// is none.
func (s *Store) readPurge(ctx context.Context, pk string) (store.PurgeState, error) {
	rows, err := s.readSerializable(ctx, pk, skPurge)
	if err != nil || rows[skPurge] == nil {
		return store.PurgeState{}, err
	}
	return s.purgeState(ctx, rows[skPurge])
}

// purgeState decodes a PURGE row. A malformed row is a *[MalformedError], not an
// absent purge, because no purge may be lost.
func (s *Store) purgeState(ctx context.Context, found row) (store.PurgeState, error) {
	if err := found.check("", found, requiredOfPurge); err != nil {
		return store.PurgeState{}, err
	}
	var r purgeRow
	if err := s.decode(ctx, found, &r); err != nil {
		return store.PurgeState{}, err
	}
	return store.PurgeState{Seq: int64(r.Seq), HardSeq: int64(r.HardSeq), At: r.At.time()}, nil
}

// sequence decodes the SEQ row. A malformed row is a *[MalformedError].
func (s *Store) sequence(ctx context.Context, found row) (store.Sequence, error) {
	if err := found.check("", found, requiredOfSequence); err != nil {
		return store.Sequence{}, err
	}
	var r sequenceRow
	if err := s.decode(ctx, found, &r); err != nil {
		return store.Sequence{}, err
	}
	return store.Sequence{Seq: int64(r.Seq), MarkLifetime: r.MarkLifetime.duration()}, nil
}
