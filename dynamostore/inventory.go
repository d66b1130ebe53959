package dynamostore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

var _ store.Inventory = (*Store)(nil)

// scanSegments is the number of parallel segments of a scan. A segment consumes at
// most the 3,000 read units a second of one DynamoDB partition.
const scanSegments = 8

// ReferencedBodies implements [store.Inventory]. It scans the table in parallel segments
// with strongly consistent reads: all rows are billed, though only keys are returned.
func (s *Store) ReferencedBodies(ctx context.Context) iter.Seq2[store.ReferencedBodies, error] {
	ctx = s.metered(ctx, "named bodies")
	return func(yield func(store.ReferencedBodies, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		found := make(chan pageOrError)
		var scanning sync.WaitGroup
		segments := int32(scanSegments)
		if s.config.Local {
			segments = 1
		}
		for segment := range segments {
			scanning.Go(func() { s.scanReferences(ctx, segment, segments, found) })
		}
		go func() {
			scanning.Wait()
			close(found)
		}()
		defer func() {
			cancel()
			for range found { // until all segments have ended
			}
		}()
		for next := range found {
			if next.err != nil {
				yield(store.ReferencedBodies{}, fmt.Errorf("scan the table %s for referenced bodies: %w", s.table, next.err))
				return
			}
			if !yield(next.page, nil) {
				return
			}
		}
	}
}

type pageOrError struct {
	page store.ReferencedBodies
	err  error
}

// scanReferences sends the pages of a segment, or an error, until ctx ends. The rows of
// a partition are consecutive in one segment.
func (s *Store) scanReferences(ctx context.Context, segment, segments int32, found chan<- pageOrError) {
	send := func(next pageOrError) (more bool) {
		select {
		case found <- next:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var page store.ReferencedBodies
	for row, err := range s.scan(ctx, referenceScan(segment, segments)) {
		if err != nil {
			send(pageOrError{err: err})
			return
		}
		if pk := row.text(attrPK); pk != page.PK {
			if page.PK != "" && !send(pageOrError{page: page}) {
				return
			}
			page = store.ReferencedBodies{PK: pk}
		}
		if name := row.bodyKey(); name != "" {
			page.Keys = append(page.Keys, name)
		}
	}
	if page.PK != "" {
		send(pageOrError{page: page})
	}
}

// referenceScan returns the scan of the rows of pages, with the bodies that they refer
// to.
func referenceScan(segment, segments int32) *dynamodb.ScanInput {
	return &dynamodb.ScanInput{
		ConsistentRead: aws.Bool(true),
		Segment:        &segment, TotalSegments: &segments,
		FilterExpression:     aws.String("(sk IN (:lock, :meta, :quarantine) OR begins_with(sk, :version) OR begins_with(sk, :request)) AND NOT begins_with(pk, :job)"),
		ProjectionExpression: aws.String("pk, sk, s3_key, result_s3_key"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":lock": stringOf(skLock), ":meta": stringOf(skMeta), ":quarantine": stringOf(skQuarantine),
			":version": stringOf(versionPrefix), ":request": stringOf(requestPrefix),
			":job": stringOf(jobPrefix),
		},
	}
}

// BodyKeys implements [store.Inventory]. The keys are sorted, and as stored: keys of
// other services may be URLs. Rows of unknown kinds are ignored.
func (s *Store) BodyKeys(ctx context.Context, pk string) ([]string, error) {
	ctx = s.metered(ctx, "body keys")
	if err := checkPartition(pk); err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, &dynamodb.QueryInput{
		TableName:                 &s.table,
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("pk = :pk"),
		ProjectionExpression:      aws.String("sk, s3_key, result_s3_key"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":pk": stringOf(pk)},
	})
	if err != nil {
		return nil, fmt.Errorf("read the body keys of %s: %w", pk, err)
	}
	var keys []string
	for _, found := range rows {
		if key := found.bodyKey(); key != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// bodyKey returns the body that a row of a page refers to; empty if there is none.
func (r row) bodyKey() string {
	switch sk := r.text(attrSK); {
	case sk == skMeta, sk == skQuarantine, strings.HasPrefix(sk, versionPrefix):
		return r.text(attrBodyKey)
	case strings.HasPrefix(sk, requestPrefix):
		return r.text(attrResult)
	}
	return ""
}

// PinnedForever implements [store.Inventory]. It scans the whole table, with eventually
// consistent reads.
func (s *Store) PinnedForever(ctx context.Context) iter.Seq2[string, error] {
	ctx = s.metered(ctx, "pinned forever")
	return func(yield func(string, error) bool) {
		for found, err := range s.scan(ctx, &dynamodb.ScanInput{
			FilterExpression:     aws.String("sk = :meta AND isr.pinned_until >= :forever"),
			ProjectionExpression: aws.String("pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":meta": stringOf(skMeta), ":forever": &types.AttributeValueMemberN{Value: strconv.Itoa(maxMoment)},
			},
		}) {
			if err != nil {
				yield("", fmt.Errorf("list the pages of the table %s that are pinned forever: %w", s.table, err))
				return
			}
			if !yield(found.text(attrPK), nil) {
				return
			}
		}
	}
}
