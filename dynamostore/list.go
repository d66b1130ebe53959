package dynamostore

import (
	"context"
	"fmt"
	"iter"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// List yields all pages of the table in no defined order, and ends after the first
// error. It scans the whole table with strongly consistent reads, all of which are
// billed. Pages that are created during the listing may be missing.
func (s *Store) List(ctx context.Context) iter.Seq2[store.ListedPage, error] {
	ctx = s.metered(ctx, "list")
	return func(yield func(store.ListedPage, error) bool) {
		for page, err := range s.partitions(ctx) {
			if err != nil {
				yield(store.ListedPage{}, fmt.Errorf("list the table %s: %w", s.table, err))
				return
			}
			record, err := s.record(ctx, page.pk, page.rows)
			if err != nil {
				yield(store.ListedPage{}, fmt.Errorf("list %s: %w", page.pk, err))
				return
			}
			if !yield(store.ListedPage{PK: page.pk, Record: record}, nil) {
				return
			}
		}
	}
}

// A partition is the rows of one page.
type partition struct {
	pk   string
	rows map[string]row
}

// partitions groups the rows of a scan by partition. A scan returns the rows of
// a partition consecutively, also across its result pages.
func (s *Store) partitions(ctx context.Context) iter.Seq2[partition, error] {
	return func(yield func(partition, error) bool) {
		var current partition
		for attrs, err := range s.scan(ctx, listScan()) {
			if err != nil {
				yield(partition{}, err)
				return
			}
			if pk := attrs.text(attrPK); pk != current.pk || current.rows == nil {
				if current.rows != nil && !yield(current, nil) {
					return
				}
				current = partition{pk: pk, rows: make(map[string]row, 3)}
			}
			current.rows[attrs.text(attrSK)] = attrs
		}
		if current.rows != nil {
			yield(current, nil)
		}
	}
}

// listScan returns the scan of the rows that a Record is made of, without the leases
// of jobs.
func listScan() *dynamodb.ScanInput {
	return &dynamodb.ScanInput{
		ConsistentRead:   aws.Bool(true),
		FilterExpression: aws.String("sk IN (:lock, :meta, :purge) AND NOT begins_with(pk, :job)"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":lock": stringOf(skLock), ":meta": stringOf(skMeta), ":purge": stringOf(skPurge), ":job": stringOf(jobPrefix),
		},
	}
}

// localScan is how many rows a request of a scan reads of a [Config.Local] engine: a fraction of a
// millisecond.
const localScan = 64

// scan yields the rows that match the input. It takes ownership of the input.
func (s *Store) scan(ctx context.Context, input *dynamodb.ScanInput) iter.Seq2[row, error] {
	input.TableName = &s.table
	if s.config.Local {
		input.Limit = aws.Int32(localScan)
	}
	rows := s.scanPages(ctx, input)
	return func(yield func(row, error) bool) {
		for found, err := range rows {
			if !yield(found, err) {
				return
			}
			s.config.Pace()
		}
	}
}

func (s *Store) scanPages(ctx context.Context, input *dynamodb.ScanInput) iter.Seq2[row, error] {
	return paged(func() ([]map[string]types.AttributeValue, bool, error) {
		var page *dynamodb.ScanOutput
		err := s.try(ctx, func(ctx context.Context) (err error) {
			page, err = s.api.Scan(ctx, input)
			return err
		})
		if err != nil {
			return nil, false, err
		}
		input.ExclusiveStartKey = page.LastEvaluatedKey
		s.config.Pace() // also where all rows are filtered out
		return page.Items, len(page.LastEvaluatedKey) > 0, nil
	})
}
