package dynamostore

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

var _ store.Inventory = (*Store)(nil)

// scanSegments is in how many parts the table is scanned at once. A part takes what
// one partition of DynamoDB can give, 3,000 read units a second, at most.
const scanSegments = 8

// NamedBodies implements [store.MetaStore]. It scans the table strongly, in parallel:
// the whole of it is paid for, though only keys and names are sent.
func (s *Store) ReferencedBodies(ctx context.Context) iter.Seq2[store.ReferencedBodies, error] {
	ctx = s.metered(ctx, "named bodies")
	return func(yield func(store.ReferencedBodies, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		found := make(chan namedOrError)
		var scanning sync.WaitGroup
		for segment := range int32(scanSegments) {
			scanning.Go(func() { s.scanNames(ctx, segment, found) })
		}
		go func() {
			scanning.Wait()
			close(found)
		}()
		defer func() {
			cancel()
			for range found { // until all have ended
			}
		}()
		for next := range found {
			if next.err != nil {
				yield(store.ReferencedBodies{}, fmt.Errorf("scan the table %s for the bodies that its rows name: %w", s.table, next.err))
				return
			}
			if !yield(next.page, nil) {
				return
			}
		}
	}
}

type namedOrError struct {
	page store.ReferencedBodies
	err  error
}

// scanNames sends the pages of a segment, or an error, until ctx ends. The rows of a
// partition are in one segment, one after the other.
func (s *Store) scanNames(ctx context.Context, segment int32, found chan<- namedOrError) {
	send := func(next namedOrError) (more bool) {
		select {
		case found <- next:
			return true
		case <-ctx.Done():
			return false
		}
	}
	var page store.ReferencedBodies
	for row, err := range s.scan(ctx, ofNames(segment)) {
		if err != nil {
			send(namedOrError{err: err})
			return
		}
		if pk := row.text(attrPK); pk != page.PK {
			if page.PK != "" && !send(namedOrError{page: page}) {
				return
			}
			page = store.ReferencedBodies{PK: pk}
		}
		if name := row.names(); name != "" {
			page.Keys = append(page.Keys, name)
		}
	}
	if page.PK != "" {
		send(namedOrError{page: page})
	}
}

// ofNames are the rows that make a partition a page's, with the bodies that they name.
func ofNames(segment int32) *dynamodb.ScanInput {
	return &dynamodb.ScanInput{
		Segment: &segment, TotalSegments: aws.Int32(scanSegments),
		FilterExpression:     aws.String("(sk IN (:lock, :meta) OR begins_with(sk, :version) OR begins_with(sk, :request)) AND NOT begins_with(pk, :job)"),
		ProjectionExpression: aws.String("pk, sk, s3_key, result_s3_key"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":lock": stringOf(skLock), ":meta": stringOf(skMeta),
			":version": stringOf(versionPrefix), ":request": stringOf(requestPrefix),
			":job": stringOf(jobPrefix),
		},
	}
}

// BodyKeys implements [store.MetaStore]. The keys are sorted, as the rows have them:
// those of other services may be URLs. Whatever a row of another kind names is
// none of the page's.
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
		if key := found.names(); key != "" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return slices.Compact(keys), nil
}

// names is the body that a row of a page keeps, empty if it keeps none.
func (r row) names() string {
	switch sk := r.text(attrSK); {
	case sk == skMeta, strings.HasPrefix(sk, versionPrefix):
		return r.text(attrBodyKey)
	case strings.HasPrefix(sk, requestPrefix):
		return r.text(attrResult)
	}
	return ""
}
