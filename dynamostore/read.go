package dynamostore

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// Read implements [store.MetaStore]. It costs one strongly consistent Query of
// three small rows; a META row that names a version which it does not carry
// costs one GetItem more.
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

// readRows reads LOCK, META and PURGE. Rows of other services that sort between
// them are passed over, on further pages if they are many.
func (s *Store) readRows(ctx context.Context, pk string) (map[string]row, error) {
	found, err := s.query(ctx, &dynamodb.QueryInput{
		TableName:              &s.table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :last"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": stringOf(pk), ":first": stringOf(skLock), ":last": stringOf(skPurge),
		},
	})
	rows := make(map[string]row, len(found))
	for _, item := range found {
		rows[item.text(attrSK)] = item
	}
	return rows, err
}

// query returns the rows of all pages.
func (s *Store) query(ctx context.Context, input *dynamodb.QueryInput) ([]row, error) {
	var rows []row
	for {
		var page *dynamodb.QueryOutput
		err := s.try(ctx, func(ctx context.Context) (err error) {
			page, err = s.api.Query(ctx, input)
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, item := range page.Items {
			rows = append(rows, item)
		}
		if len(page.LastEvaluatedKey) == 0 {
			return rows, nil
		}
		input.ExclusiveStartKey = page.LastEvaluatedKey
	}
}

// readRow reads one row strongly, nil if there is none. bounded is as in repeat.
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

// record makes what isr is told of a page out of its rows. The error is that of
// following a pointer; malformed rows are no error.
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
		// If it is malformed, it may cover whatever META has.
		if record.Purges, err = s.purgeState(ctx, purge); err != nil {
			return err
		}
	}
	if meta, ok := rows[skMeta]; ok {
		record.Entry, err = s.entry(ctx, meta)
	}
	return err
}

// entry reads the entry of a META row, from the version row it points at if it
// does not carry the content itself.
func (s *Store) entry(ctx context.Context, meta row) (*store.Entry, error) {
	current, err := meta.pointer()
	if err != nil {
		return nil, err
	}
	if current == "" {
		return s.content(ctx, meta)
	}
	// A version row never changes what it says of its content, so that this
	// second read belongs to the moment of the first.
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
	// Version and garbage collection are the pointer's own.
	entry.Version = 0
	if !entry.Foreign {
		entry.Version, _ = meta.version()
	}
	entry.Expires = meta.expires()
	return entry, nil
}

// pointer returns the sort key of the row that has the content of a META row,
// empty if META has it itself.
//
// Every publish of ours leaves current_sk in step with isr.generation_id. If
// they differ, a service that swaps pointers was here after us, and what META
// carries beside the pointer is the content of before.
func (r row) pointer() (string, error) {
	current := r.text(attrCurrent)
	if current == "" {
		return "", r.checkPointer()
	}
	generation := r.child(attrISR).text(attrGenerationID)
	if generation == "" && r.text(attrBodyKey) != "" {
		return "", nil // written by another service, content and all
	}
	if current == versionPrefix+generation {
		return "", nil
	}
	return current, nil
}

// checkPointer demands that a pointer which is no text is none at all.
func (r row) checkPointer() error {
	switch r[attrCurrent].(type) {
	case nil, *types.AttributeValueMemberS, *types.AttributeValueMemberNULL:
		return nil
	}
	return r.malformed(attrCurrent, "a string")
}

// expires reads when a META row may be collected: the zero time for never. What
// makes no sense there does not keep a pointer from being followed.
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
