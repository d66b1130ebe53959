package dynamostore

import (
	"context"
	"fmt"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// DynamoDB commits a transaction row by row. What reads may see of it during the commit (Developer
// Guide, "Amazon DynamoDB Transactions: How it works", Isolation levels; API Reference,
// TransactGetItems; Developer Guide, "Read consistency"):
//
//   - GetItem is serializable with a transaction: it returns the row from before or after it.
//     Several GetItems, a Query, a Scan and a BatchGetItem are only read-committed: they
//     may return one row from after the transaction and then another from before it. This
//     holds for strongly consistent reads as well.
//   - A strongly consistent read that begins after the reply to the transaction returns
//     what it has written.
//   - Conditions of writes are serializable with it. A write of a row that the transaction
//     is about to write is refused for a conflict.
//   - TransactGetItems is serializable with it: it is refused for a conflict while a
//     transaction is about to write one of its rows.
//
// No time is stated. Rows are committed milliseconds apart, and later if a coordinator fails
// and another one completes the transaction ("Distributed Transactions at Scale in Amazon
// DynamoDB", USENIX ATC 2023).
//
// So a reader that has seen SEQ at n, or the row of the log, may then read a PURGE, MARK# or META
// row from before n. Where that matters, the rows are read by TransactGetItems, which waits
// for such a transaction: readers of pages that have changed a moment ago
// ([Store.ReadSerializable]), rollbacks, and the settlement of lost replies. Marks cannot be
// read that way, because a reader does not know which prefixes have marks; but the log names
// them: see [Store.Recent].

// readSerializable reads rows of a partition in one transaction, by their sort keys. It is
// repeated for CallTimeout while another transaction is about to write one of them.
func (s *Store) readSerializable(ctx context.Context, pk string, sks ...string) (map[string]row, error) {
	gets := make([]types.TransactGetItem, len(sks))
	for i, sk := range sks {
		gets[i].Get = &types.Get{TableName: &s.table, Key: map[string]types.AttributeValue{attrPK: stringOf(pk), attrSK: stringOf(sk)}}
	}
	var out *dynamodb.TransactGetItemsOutput
	began := time.Now()
	err := s.execute(ctx, operation{
		send: func(ctx context.Context) (err error) {
			out, err = s.api.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: gets})
			return err
		},
		expired: func(bool) bool { return time.Since(began) >= s.config.CallTimeout },
	})
	if err != nil {
		return nil, err
	}
	rows := make(map[string]row, len(sks))
	for i, found := range out.Responses {
		if len(found.Item) > 0 {
			rows[sks[i]] = found.Item
		}
	}
	return rows, nil
}

// maxTorn is how many rows of the log [Store.Recent] reads one by one.
const maxTorn = 16

// Recent implements [store.LogStore]: it returns the last 1,000 rows, or the last megabyte,
// which is more than one partition of DynamoDB can write in two seconds (1,000 units a second,
// of which a row takes four or more). It costs a read unit for 4 KB of rows, and two for the
// newest row that has expired.
//
// A missing row, and all rows before it, have expired, or the row is being committed: reading it in a
// transaction decides between the two.
func (s *Store) Recent(ctx context.Context, upTo int64) ([]store.Change, error) {
	ctx = s.metered(ctx, "recent")
	changes, err := s.recent(ctx, upTo)
	if err != nil {
		return nil, fmt.Errorf("read the log up to %d: %w", upTo, err)
	}
	return changes, nil
}

func (s *Store) recent(ctx context.Context, upTo int64) (changes []store.Change, err error) {
	if upTo <= 0 {
		return nil, nil
	}
	last := s.logBetween(0, upTo, true)
	last.ScanIndexForward = aws.Bool(false)
	page, err := s.queryOnce(ctx, last)
	if err != nil {
		return nil, err
	}
	rows := page.Items
	for seq, torn := upTo, 0; seq > 0 && (len(rows) > 0 || len(page.LastEvaluatedKey) == 0); seq-- {
		if len(rows) > 0 && row(rows[0]).text(attrSK) == logKey(seq) {
			changes = append(changes, s.change(ctx, rows[0]))
			rows = rows[1:]
			continue
		}
		found, err := s.readSerializable(ctx, pkPurgeLog, logKey(seq))
		if err != nil {
			return nil, err
		}
		if found[logKey(seq)] == nil {
			return changes, nil // expired
		}
		if torn++; torn > maxTorn {
			return nil, fmt.Errorf("more than %d rows of the log were being committed; try again", maxTorn)
		}
		changes = append(changes, s.change(ctx, found[logKey(seq)]))
	}
	return changes, nil
}

// recentPurges returns the merged state of the marks in the newest rows of the log, up to a
// sequence, that cover the page k with these tags.
func (s *Store) recentPurges(ctx context.Context, k store.Key, tags []string, upTo int64) (state store.PurgeState, err error) {
	changes, err := s.recent(ctx, upTo)
	now := s.config.Now()
	for _, change := range changes {
		for _, m := range change.Marks {
			if m.Target.Covers(k, tags) {
				state = state.Merge(m.State(now))
			}
		}
	}
	return state, err
}
