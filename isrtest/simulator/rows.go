package simulator

import (
	"context"
	"reflect"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// This file parses rows by the specification alone, without the code under test.

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func number(n int64) types.AttributeValue {
	return &types.AttributeValueMemberN{Value: strconv.FormatInt(n, 10)}
}

// textOf returns the string attribute of that name; empty if there is none.
func textOf(row item, name string) string {
	if s, ok := row[name].(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}

// numberOf returns the number of that name as an integer; 0 if there is none.
func numberOf(row item, name string) int64 {
	if n, ok := row[name].(*types.AttributeValueMemberN); ok {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if err == nil {
			return v
		}
	}
	return 0
}

func mapOf(row item, name string) item {
	if m, ok := row[name].(*types.AttributeValueMemberM); ok {
		return m.Value
	}
	return nil
}

// A partition is all rows of a page, by sort key.
type partition map[string]item

// readPartition reads a partition from the engine.
func (w *world) readPartition(pk string) partition {
	rows := make(partition)
	in := &dynamodb.QueryInput{
		TableName: &w.table, ConsistentRead: aws.Bool(true), KeyConditionExpression: aws.String("pk = :pk"),
		ExpressionAttributeValues: item{":pk": text(pk)},
	}
	for {
		out, err := w.engine.Query(context.Background(), in)
		if err != nil {
			w.violate("the engine responds", "reading %s: %v", pk, err)
			return rows
		}
		for _, row := range out.Items {
			rows[textOf(row, "sk")] = row
		}
		if in.ExclusiveStartKey = out.LastEvaluatedKey; len(in.ExclusiveStartKey) == 0 {
			return rows
		}
	}
}

// A lock is a LOCK row: a lease or a back-off.
type lock struct {
	token    string
	expires  int64 // epoch seconds
	failures int64
	owner    string
}

// lock parses LOCK; nil if there is no row.
func (p partition) lock() *lock {
	row := p["LOCK"]
	if row == nil {
		return nil
	}
	return &lock{
		token: textOf(row, "lease_token"), expires: numberOf(row, "lease_expires_at"),
		failures: numberOf(row, "failures"), owner: textOf(row, "lease_owner"),
	}
}

// A meta is a META row.
type meta struct {
	bodyKey     string
	generatedAt time.Time
	revalidate  int64 // seconds
	etag        string
	ttl         int64

	// Of the map isr, if it exists and describes this content.
	ours       bool
	version    int64
	generation string
	content    string // of the header x-content
	tag        string // the only one
	sha256     string
	length     int64
	stale      int64 // seconds
	purgeSeq   int64
	pinned     int64 // epoch seconds; 0: not
	asserted   int64 // epoch seconds; 0: never
	withdrawn  bool
}

// meta parses META; nil if there is no row.
func (p partition) meta() *meta {
	row := p["META"]
	if row == nil {
		return nil
	}
	m := &meta{
		bodyKey: textOf(row, "s3_key"), generatedAt: time.Unix(numberOf(row, "generated_at"), 0),
		revalidate: numberOf(row, "revalidate_seconds"), etag: textOf(row, "etag"), ttl: numberOf(row, "ttl"),
	}
	ours := mapOf(row, "isr")
	if ours == nil || textOf(ours, "s3_key") != m.bodyKey || numberOf(ours, "generated_at") != numberOf(row, "generated_at") {
		return m
	}
	m.ours = true
	if ms := numberOf(ours, "generated_ms"); ms/1000 == m.generatedAt.Unix() {
		m.generatedAt = time.UnixMilli(ms)
	}
	m.version = numberOf(ours, "v")
	m.generation = textOf(ours, "generation_id")
	m.sha256 = textOf(ours, "content_sha256")
	m.length = numberOf(ours, "content_length")
	m.stale = numberOf(ours, "stale_seconds")
	m.purgeSeq = numberOf(ours, "purge_seq")
	m.pinned = numberOf(ours, "pinned_until")
	m.asserted = numberOf(ours, "asserted_at")
	if b, ok := ours["withdrawn"].(*types.AttributeValueMemberBOOL); ok {
		m.withdrawn = b.Value
	}
	if tags, ok := ours["tags"].(*types.AttributeValueMemberL); ok && len(tags.Value) == 1 {
		m.tag = textOf(item{"tag": tags.Value[0]}, "tag")
	}
	if list, ok := mapOf(ours, "headers")["x-content"].(*types.AttributeValueMemberL); ok && len(list.Value) == 1 {
		if s, ok := list.Value[0].(*types.AttributeValueMemberS); ok {
			m.content = s.Value
		}
	}
	return m
}

// publication names a publish: the publish of a generation, or of its renewal. Rollbacks and pins keep it.
func (m *meta) publication() string { return publicationOf(m.generation, m.generatedAt) }

func publicationOf(generation string, generatedAt time.Time) string {
	return generation + generatedAt.UTC().Format("@05.000")
}

// freshUntil is the end of the freshness window.
func (m *meta) freshUntil() time.Time {
	return m.generatedAt.Add(time.Duration(m.revalidate) * time.Second)
}

// same reports whether a row is unchanged.
func same(a, b item) bool { return reflect.DeepEqual(a, b) }
