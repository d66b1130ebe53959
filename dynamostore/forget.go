package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

var _ gc.Forgetter = (*Store)(nil)

// Forget implements [gc.Forgetter]. It costs four write units, and one for each
// version. If the reply to the deletion is lost, the error may be ErrMoved although the
// entry was deleted.
func (s *Store) Forget(ctx context.Context, l store.Lease, read store.Record) error {
	ctx = s.metered(ctx, "forget")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("forget a page: %w", err)
	}
	f, err := fenceOf(read)
	if err == nil && f.pk != held.pk {
		err = fmt.Errorf("the record was not read from this partition")
	}
	if err == nil && f.meta != nil {
		err = s.deleteMeta(ctx, held, f)
	}
	// If we crash here, the versions of the deleted page stay until they expire.
	if err == nil {
		err = s.deleteVersions(ctx, held.pk)
	}
	if err != nil {
		return fmt.Errorf("forget %s: %w", held.pk, err)
	}
	return nil
}

// deleteMeta deletes META if it is still what was read and the lease is still held.
func (s *Store) deleteMeta(ctx context.Context, l *lease, f fence) error {
	meta, same := &metaRow{contentRow: contentRow{location: s.at(l.pk, skMeta)}}, f.condition()
	lock, isOurs := &lockRow{location: s.at(l.pk, skLock)}, tabletheory.ConditionExpression(isHeld, l.heldAt(s.config.Now()))
	tx := s.newTransaction([]action{remove(onMeta, meta, same), require(onLock, lock, isOurs)})
	return s.execute(ctx, operation{bounded: true, send: tx.send, refused: func(_ context.Context, err error, _ progress) (bool, error) {
		if why := tx.refusal(err, 0); why.has(onLock) {
			return false, store.ErrLeaseLost
		} else if why.has(onMeta) {
			return false, store.ErrMoved
		}
		return false, err
	}})
}

// deleteVersions deletes all version rows. A rollback to one of them was committed
// before its row was deleted, or is refused because it requires the row.
func (s *Store) deleteVersions(ctx context.Context, pk string) error {
	versions := s.withPrefix(pk, versionPrefix)
	versions.ProjectionExpression = aws.String("sk")
	rows, err := s.query(ctx, versions)
	if err != nil {
		return err
	}
	for _, found := range rows {
		version := &contentRow{location: s.at(pk, found.text(attrSK))}
		err := s.try(ctx, func(ctx context.Context) error { return s.db.WithContext(ctx).Model(version).Delete() })
		if err != nil {
			return err
		}
	}
	return nil
}
