package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// skQuarantine sorts behind the rows that Read reads.
const skQuarantine = "QUARANTINE"

// A quarantineRow has the attributes of a version, and why it is not current.
type quarantineRow struct {
	metaRow

	Tenant     string  `theorydb:"attr:tenant,omitempty"`
	Reason     string  `theorydb:"attr:reason,omitempty"`
	RejectedAt instant `theorydb:"attr:rejected_at"`
	Keep       count   `theorydb:"attr:keep,omitempty"`
}

// maxReason bounds the stored reason, in bytes.
const maxReason = 1024

// Quarantine implements [store.QuarantineStore]. It is a transaction, at four write units if
// the row has at most 1 KB.
func (s *Store) Quarantine(ctx context.Context, l store.Lease, q store.Quarantined) error {
	ctx = s.metered(ctx, "quarantine")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("quarantine: %w", err)
	}
	if err := s.putQuarantine(ctx, held, q); err != nil {
		return fmt.Errorf("quarantine a generation of %s: %w", held.pk, err)
	}
	return nil
}

func (s *Store) putQuarantine(ctx context.Context, l *lease, q store.Quarantined) error {
	e, err := normalize(q.Entry)
	if err == nil && e.Expires.IsZero() {
		err = fmt.Errorf("%w: a generation in quarantine must expire", store.ErrInvalidInput)
	}
	if err == nil {
		err = checkMoment("RejectedAt", q.RejectedAt)
	}
	if err != nil {
		return err
	}
	if l.ended() {
		return store.ErrLeaseLost
	}
	e.Version = 0
	r := &quarantineRow{
		metaRow: *newMetaRow(s.at(l.pk, skQuarantine), e), Tenant: q.Tenant,
		Reason:     strings.ToValidUTF8(q.Reason[:min(len(q.Reason), maxReason)], ""),
		RejectedAt: instant(floorSeconds(q.RejectedAt)), Keep: count(max(q.Keep, 0)),
	}
	lock, isOurs := &lockRow{location: s.at(l.pk, skLock)}, tabletheory.ConditionExpression(isHeld, l.heldAt(s.config.Now()))
	tx := s.newTransaction([]action{put(onQuarantine, r), require(onLock, lock, isOurs)})
	return s.execute(ctx, operation{bounded: true, send: tx.send, refused: func(_ context.Context, err error, _ progress) (bool, error) {
		if tx.refusal(err, 0).has(onLock) {
			return false, store.ErrLeaseLost
		}
		return false, err
	}})
}

// Quarantined implements [store.QuarantineStore].
func (s *Store) Quarantined(ctx context.Context, pk string) (store.Quarantined, error) {
	ctx = s.metered(ctx, "quarantined")
	if err := checkPartition(pk); err != nil {
		return store.Quarantined{}, err
	}
	found, err := s.readRow(ctx, true, pk, skQuarantine)
	if err == nil && found == nil {
		err = store.ErrNotQuarantined
	}
	var q store.Quarantined
	if err == nil {
		q, err = s.quarantined(ctx, found)
	}
	if err != nil {
		return store.Quarantined{}, fmt.Errorf("read the quarantine of %s: %w", pk, err)
	}
	return q, nil
}

// quarantined decodes a row. Errors wrap store.ErrNotQuarantined if it is malformed or has
// expired, and was not yet deleted by TTL.
func (s *Store) quarantined(ctx context.Context, found row) (store.Quarantined, error) {
	e, err := s.content(ctx, found)
	var r quarantineRow
	if err == nil {
		err = s.decode(ctx, found, &r)
	}
	switch {
	case isMalformed(err):
		return store.Quarantined{}, fmt.Errorf("%w: %w", store.ErrNotQuarantined, err)
	case err != nil:
		return store.Quarantined{}, err
	case e.Foreign, !e.Expires.After(s.config.Now()):
		return store.Quarantined{}, store.ErrNotQuarantined
	}
	return store.Quarantined{
		PK: r.PK, Tenant: r.Tenant, Entry: *e, Reason: r.Reason, RejectedAt: r.RejectedAt.time(), Keep: int(r.Keep),
	}, nil
}

// DropQuarantined implements [store.QuarantineStore]. It costs a write unit.
func (s *Store) DropQuarantined(ctx context.Context, pk, generation string) error {
	ctx = s.metered(ctx, "drop quarantined")
	if err := checkPartition(pk); err != nil {
		return err
	}
	err := s.execute(ctx, operation{
		bounded: true,
		send: func(ctx context.Context) error {
			return s.db.WithContext(ctx).Model(&contentRow{location: s.at(pk, skQuarantine)}).
				WithConditionExpression("isr.generation_id = :generation", map[string]any{":generation": generation}).
				Delete()
		},
		refused: func(context.Context, error, progress) (bool, error) { return false, nil }, // another generation, or none
	})
	if err != nil {
		return fmt.Errorf("delete the quarantined generation of %s: %w", pk, err)
	}
	return nil
}

// AllQuarantined implements [store.QuarantineStore]. It scans the whole table, with
// eventually consistent reads: a read unit for each 8 KB of all rows.
func (s *Store) AllQuarantined(ctx context.Context) iter.Seq2[store.Quarantined, error] {
	ctx = s.metered(ctx, "all quarantined")
	return func(yield func(store.Quarantined, error) bool) {
		for found, err := range s.scan(ctx, &dynamodb.ScanInput{
			FilterExpression:          aws.String("sk = :quarantine"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":quarantine": stringOf(skQuarantine)},
		}) {
			if err != nil {
				yield(store.Quarantined{}, fmt.Errorf("list the quarantine of the table %s: %w", s.table, err))
				return
			}
			q, err := s.quarantined(ctx, found)
			if errors.Is(err, store.ErrNotQuarantined) {
				continue
			}
			if !yield(q, err) || err != nil {
				return
			}
		}
	}
}
