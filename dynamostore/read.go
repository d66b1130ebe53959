package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// Read implements [store.MetaStore]. It costs one strongly consistent Query of
// three small rows, and one GetItem if META points to a version row that has the
// content.
func (s *Store) Read(ctx context.Context, pk string) (store.Record, error) {
	ctx = s.metered(ctx, "read")
	if err := checkPartition(pk); err != nil {
		return store.Record{}, err
	}
	rows, err := s.readRows(ctx, pk)
	if err != nil {
		return store.Record{}, fmt.Errorf("read %s: %w", pk, err)
	}
	record, err := s.record(ctx, pk, rows)
	if err != nil {
		return store.Record{}, fmt.Errorf("read %s: %w", pk, err)
	}
	return record, nil
}

// ReadSerializable implements [store.MetaStore]. It costs two read units for each of three
// rows, and what Read costs for a version row.
func (s *Store) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	ctx = s.metered(ctx, "read serializable")
	if err := checkPartition(pk); err != nil {
		return store.Record{}, err
	}
	rows, err := s.readSerializable(ctx, pk, skLock, skMeta, skPurge)
	if err != nil {
		return store.Record{}, fmt.Errorf("read %s in a transaction: %w", pk, err)
	}
	record, err := s.record(ctx, pk, rows)
	if err != nil {
		return store.Record{}, fmt.Errorf("read %s: %w", pk, err)
	}
	return record, nil
}

// readRows reads LOCK, META and PURGE. It reads past rows of other services that sort
// between them, on further result pages if necessary.
func (s *Store) readRows(ctx context.Context, pk string) (map[string]row, error) {
	found, err := s.query(ctx, s.between(pk, skLock, skPurge))
	rows := make(map[string]row, len(found))
	for _, item := range found {
		rows[item.text(attrSK)] = item
	}
	return rows, err
}

// between returns the strongly consistent query of the rows of a partition from one sort
// key to another, both included.
func (s *Store) between(pk, first, last string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:              &s.table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :last"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": stringOf(pk), ":first": stringOf(first), ":last": stringOf(last),
		},
	}
}

// withPrefix returns the strongly consistent query of the rows of a partition whose sort
// keys begin with a prefix.
func (s *Store) withPrefix(pk, prefix string) *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		TableName:              &s.table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk AND begins_with(sk, :prefix)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": stringOf(pk), ":prefix": stringOf(prefix),
		},
	}
}

// query returns the rows of all result pages. It takes ownership of the input.
func (s *Store) query(ctx context.Context, input *dynamodb.QueryInput) ([]row, error) {
	var rows []row
	for found, err := range s.pages(ctx, input) {
		if err != nil {
			return nil, err
		}
		rows = append(rows, found)
	}
	return rows, nil
}

// pages yields the rows of all result pages, and ends after the first error. It takes
// ownership of the input.
func (s *Store) pages(ctx context.Context, input *dynamodb.QueryInput) iter.Seq2[row, error] {
	return paged(func() ([]map[string]types.AttributeValue, bool, error) {
		page, err := s.queryOnce(ctx, input)
		if err != nil {
			return nil, false, err
		}
		input.ExclusiveStartKey = page.LastEvaluatedKey
		return page.Items, len(page.LastEvaluatedKey) > 0, nil
	})
}

// paged yields the rows of result pages, each of which next reads, and ends after the last
// page or the first error.
func paged(next func() (items []map[string]types.AttributeValue, more bool, err error)) iter.Seq2[row, error] {
	return func(yield func(row, error) bool) {
		for more := true; more; {
			var items []map[string]types.AttributeValue
			var err error
			if items, more, err = next(); err != nil {
				yield(nil, err)
				return
			}
			for _, item := range items {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// queryOnce reads one result page.
func (s *Store) queryOnce(ctx context.Context, input *dynamodb.QueryInput) (page *dynamodb.QueryOutput, err error) {
	err = s.try(ctx, func(ctx context.Context) (err error) {
		page, err = s.api.Query(ctx, input)
		return err
	})
	return page, err
}

// readRow reads one row with a strongly consistent read; nil if there is none. For
// bounded see [operation].
func (s *Store) readRow(ctx context.Context, bounded bool, pk, sk string) (row, error) {
	var out *dynamodb.GetItemOutput
	err := s.execute(ctx, operation{bounded: bounded, send: func(ctx context.Context) (err error) {
		out, err = s.api.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.table, ConsistentRead: aws.Bool(true),
			Key: map[string]types.AttributeValue{attrPK: stringOf(pk), attrSK: stringOf(sk)},
		})
		return err
	}})
	if err != nil {
		return nil, err
	}
	if len(out.Item) == 0 {
		return nil, nil
	}
	return out.Item, nil
}

// record returns the record of a page from its rows. A malformed row is reported in the
// record; an error is of reading the version row that META points to.
func (s *Store) record(ctx context.Context, pk string, rows map[string]row) (store.Record, error) {
	meta := rows[skMeta]
	record := store.Record{Fence: newFence(pk, meta, rows[skLock])}
	err := s.fill(ctx, &record, rows)
	if malformed, ok := errors.AsType[*MalformedError](err); ok {
		record.Malformed = malformed
		return record, nil
	}
	return record, err
}

func (s *Store) fill(ctx context.Context, record *store.Record, rows map[string]row) (err error) {
	if found, ok := rows[skLock]; ok {
		var r lockRow
		if err := s.decode(ctx, found, &r); err != nil {
			return err
		}
		record.Lock = new(r.lock())
	}
	if purge, ok := rows[skPurge]; ok {
		// A malformed PURGE row may cover the entry in META.
		if record.Purges, err = s.purgeState(ctx, purge); err != nil {
			return err
		}
	}
	if meta, ok := rows[skMeta]; ok {
		record.Entry, err = s.entry(ctx, meta)
	}
	return err
}

// entry returns the entry of a META row, from the version row that it points to if it
// does not have the content itself.
func (s *Store) entry(ctx context.Context, meta row) (*store.Entry, error) {
	current, err := meta.pointer()
	if err != nil {
		return nil, err
	}
	if current == "" {
		return s.content(ctx, meta)
	}
	// The content in a version row never changes, so this second read is consistent with
	// the first.
	version, err := s.readRow(ctx, true, meta.text(attrPK), current)
	if err != nil {
		return nil, fmt.Errorf("version %s: %w", current, err)
	}
	if version == nil {
		malformed := meta.malformed(attrCurrent, "the sort key of a row")
		malformed.Found += ", which is not there"
		return nil, malformed
	}
	entry, err := s.content(ctx, version)
	if err != nil {
		return nil, err
	}
	// Version and expiry are META's.
	entry.Version = 0
	if !entry.Foreign {
		entry.Version, _ = meta.version()
	}
	entry.Expires = meta.expires()
	return entry, nil
}

// pointer returns the sort key of the row that has the content of a META row; empty if
// META has it itself.
//
// Every publish of this package writes current_sk and isr.generation_id of the same
// generation. If they differ, a service that swaps pointers has written since, and the
// other attributes of META describe the previous content.
func (r row) pointer() (string, error) {
	current := r.text(attrCurrent)
	if current == "" {
		return "", r.checkPointer()
	}
	generation := r.child(attrISR).text(attrGenerationID)
	if generation == "" && r.text(attrBodyKey) != "" {
		return "", nil // another service wrote the content
	}
	if current == versionPrefix+generation {
		return "", nil
	}
	return current, nil
}

// checkPointer returns an error for a current_sk that is neither a string nor absent.
func (r row) checkPointer() error {
	switch r[attrCurrent].(type) {
	case nil, *types.AttributeValueMemberS, *types.AttributeValueMemberNULL:
		return nil
	}
	return r.malformed(attrCurrent, "a string")
}

// expires returns the expiry of a META row; the zero time for never, or if the ttl is
// malformed, which does not prevent reading the version row.
func (r row) expires() time.Time {
	found, ok := r[attrTTL]
	if !ok || isNull(found) {
		return time.Time{}
	}
	var h horizon
	if err := h.UnmarshalDynamoDBAttributeValue(found); err != nil {
		return time.Time{}
	}
	return h.time()
}
