package dynamostore

import (
	"context"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
)

// Read implements [isr.MetaStore]. It costs one strongly consistent Query of
// three small rows; a META row that names a version which it does not carry
// costs one GetItem more.
func (s *Store) Read(ctx context.Context, pk string) (isr.Record, error) {
	rows, err := s.readRows(ctx, pk)
	if err != nil {
		return isr.Record{}, fmt.Errorf("read %s: %w", pk, err)
	}
	record, err := s.record(ctx, pk, rows)
	if err != nil {
		return isr.Record{}, fmt.Errorf("read %s: %w", pk, err)
	}
	return record, nil
}

// Sequence implements [isr.MetaStore].
func (s *Store) Sequence(ctx context.Context) (isr.Sequence, error) {
	attrs, err := s.readRow(ctx, true, pkPurgeLog, skSequence)
	if err != nil {
		return isr.Sequence{}, fmt.Errorf("read the purge sequence: %w", err)
	}
	if attrs == nil {
		return isr.Sequence{}, nil
	}
	// A sequence that cannot be read is an error and never zero: everything
	// rendered from there on would look older than every purge, or newer.
	sequence, malformed := decodeSequence(attrs)
	if malformed != nil {
		return isr.Sequence{}, fmt.Errorf("read the purge sequence: %w", malformed)
	}
	return sequence, nil
}

// readRows reads LOCK, META and PURGE. Rows of other services that sort between
// them are passed over, on further pages if they are many.
func (s *Store) readRows(ctx context.Context, pk string) (map[string]row, error) {
	input := &dynamodb.QueryInput{
		TableName:              &s.table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :last"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": text(pk), ":first": text(skLock), ":last": text(skPurge),
		},
	}
	rows := make(map[string]row, 3)
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
			rows[row(item).text(attrSK)] = item
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
	err := s.repeat(ctx, bounded, func(ctx context.Context) (err error) {
		out, err = s.api.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &s.table, Key: key(pk, sk), ConsistentRead: aws.Bool(true),
		})
		return err
	})
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
func (s *Store) record(ctx context.Context, pk string, rows map[string]row) (isr.Record, error) {
	meta := rows[skMeta]
	record := isr.Record{Fence: newFence(pk, meta)}
	if lock := rows[skLock]; lock != nil {
		record.Lock = decodeLock(lock)
	}
	if purge := rows[skPurge]; purge != nil {
		cover, malformed := decodeCover(pk, purge)
		if malformed != nil {
			// It may cover whatever META has.
			record.Malformed = malformed
			return record, nil
		}
		record.Cover = cover
	}
	if meta == nil {
		return record, nil
	}
	entry, malformed, err := s.entry(ctx, pk, meta)
	if malformed != nil {
		record.Malformed = malformed
	}
	record.Entry = entry
	return record, err
}

// entry reads the entry of a META row, from the version row it points at if it
// does not carry the content itself.
func (s *Store) entry(ctx context.Context, pk string, meta row) (*isr.Entry, *MalformedError, error) {
	current, malformed := pointer(pk, meta)
	if malformed != nil || current == "" {
		if malformed != nil {
			return nil, malformed, nil
		}
		entry, malformed := decodeEntry(pk, skMeta, meta)
		return entry, malformed, nil
	}
	// A version row never changes what it says of its content, so that this
	// second read belongs to the moment of the first.
	attrs, err := s.readRow(ctx, true, pk, current)
	if err != nil {
		return nil, nil, fmt.Errorf("version %s: %w", current, err)
	}
	if attrs == nil {
		return nil, &MalformedError{
			PK: pk, SK: skMeta, Attribute: attrCurrent,
			Expected: "the sort key of a row", Found: describe(meta[attrCurrent]) + ", which is not there",
		}, nil
	}
	entry, malformed := decodeEntry(pk, current, attrs)
	if malformed != nil {
		return nil, malformed, nil
	}
	// Version and garbage collection are the pointer's own.
	entry.Version = 0
	if !entry.Foreign {
		entry.Version, _ = meta.version()
	}
	entry.Expires = (&decoder{attrs: meta}).horizon(attrTTL)
	return entry, nil, nil
}

// pointer returns the sort key of the row that has the content of a META row,
// empty if META has it itself.
//
// Every publish of ours leaves current_sk in step with isr.generation_id. If
// they differ, a service that swaps pointers was here after us, and what META
// carries beside the pointer is the content of before.
func pointer(pk string, meta row) (string, *MalformedError) {
	d := &decoder{pk: pk, sk: skMeta, attrs: meta}
	current := d.optionalText(attrCurrent)
	if d.err != nil || current == "" {
		return "", d.err
	}
	generation := meta.child(attrISR).text(attrGenerationID)
	if generation == "" && meta.text(attrBodyKey) != "" {
		return "", nil // written by another service, content and all
	}
	if current == versionPrefix+generation {
		return "", nil
	}
	return current, nil
}
