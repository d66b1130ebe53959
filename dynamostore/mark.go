package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// markRow is a purge mark: the newest purge of a tag, a prefix, a tenant or a site. It is the row MARK#<tenant>#<kind>#<hex sha256 of Value> in the
// partition of the purge log.
type markRow struct {
	location

	Value     string  `theorydb:"attr:value"`
	Seq       count   `theorydb:"attr:seq"`
	HardSeq   count   `theorydb:"attr:hard_seq"`
	At        instant `theorydb:"attr:at"`
	ExpireSeq count   `theorydb:"attr:expire_seq"`
	ExpireAt  horizon `theorydb:"attr:expire_at"`
}

var requiredOfMark = []required{
	{attrValue, expectedText}, {attrSeq, expectedCount}, {attrAt, expectedInstant},
}

// Kinds of marks.
const (
	kindTag    = "tag"
	kindPrefix = "prefix"
	kindSite   = "site"
)

// lastRune sorts after everything that follows a prefix.
const lastRune = "\U0010FFFF"

// maxBatchGet is DynamoDB's limit of keys in one BatchGetItem.
const maxBatchGet = 100

// hardMark returns the sequence of the newest hard purge by a mark that covers the
// page k with these tags; 0 if there is none. All reads are strongly consistent. A
// malformed mark is a *[MalformedError], because it stands for an unknown purge.
//
// Tag marks are read by key, because a tenant may have any number of them. Marks of
// other kinds are few, and all are read.
func (s *Store) hardMark(ctx context.Context, k store.Key, tags []string) (int64, error) {
	marks, err := s.tagMarks(ctx, k.Tenant, tags)
	if err != nil {
		return 0, err
	}
	all, ofTags, ofSite := markPrefix(k.Tenant), markPrefix(k.Tenant, kindTag), markPrefix("", kindSite)
	ranges := [][2]string{{all, ofTags}, {ofTags + lastRune, all + lastRune}}
	if k.Tenant != "" {
		ranges = append(ranges, [2]string{ofSite, ofSite + lastRune})
	}
	for _, r := range ranges {
		found, err := s.marksBetween(ctx, r[0], r[1])
		if err != nil {
			return 0, err
		}
		marks = append(marks, found...)
	}
	return s.newestHard(ctx, marks, k, tags)
}

// markPrefix returns the prefix of the sort keys of a tenant's marks, or of those of
// one kind.
func markPrefix(tenant string, kind ...string) string {
	return markKeyPrefix + strings.Join(append([]string{tenant}, kind...), "#") + "#"
}

// tagMarks reads the marks of tags.
func (s *Store) tagMarks(ctx context.Context, tenant string, tags []string) ([]row, error) {
	var keys []map[string]types.AttributeValue
	for _, tag := range slices.Compact(slices.Sorted(slices.Values(tags))) {
		sum := sha256.Sum256([]byte(tag))
		sk := markPrefix(tenant, kindTag) + hex.EncodeToString(sum[:])
		keys = append(keys, map[string]types.AttributeValue{attrPK: stringOf(pkPurgeLog), attrSK: stringOf(sk)})
	}
	var marks []row
	for some := range slices.Chunk(keys, maxBatchGet) {
		found, err := s.batchGet(ctx, some)
		if err != nil {
			return nil, err
		}
		marks = append(marks, found...)
	}
	return marks, nil
}

// batchGet reads at most maxBatchGet rows with strongly consistent reads. It repeats
// the request for the keys that DynamoDB leaves unprocessed.
func (s *Store) batchGet(ctx context.Context, keys []map[string]types.AttributeValue) ([]row, error) {
	var rows []row
	for attempt := 1; len(keys) > 0; attempt++ {
		var out *dynamodb.BatchGetItemOutput
		err := s.try(ctx, func(ctx context.Context) (err error) {
			out, err = s.api.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
				s.table: {Keys: keys, ConsistentRead: aws.Bool(true)},
			}})
			return err
		})
		if err != nil {
			return nil, err
		}
		for _, item := range out.Responses[s.table] {
			rows = append(rows, item)
		}
		keys = out.UnprocessedKeys[s.table].Keys
		if len(keys) > 0 && !s.pause(ctx, attempt) {
			return nil, context.Cause(ctx)
		}
	}
	return rows, nil
}

// marksBetween reads the marks between two sort keys.
func (s *Store) marksBetween(ctx context.Context, first, last string) ([]row, error) {
	return s.query(ctx, &dynamodb.QueryInput{
		TableName:              &s.table,
		ConsistentRead:         aws.Bool(true),
		KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :last"),
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":pk": stringOf(pkPurgeLog), ":first": stringOf(first), ":last": stringOf(last),
		},
	})
}

// newestHard returns the highest hard sequence of the marks that cover a page.
func (s *Store) newestHard(ctx context.Context, marks []row, k store.Key, tags []string) (int64, error) {
	newest := int64(0)
	for _, found := range marks {
		if err := found.check("", found, requiredOfMark); err != nil {
			return 0, err
		}
		var m markRow
		if err := s.decode(ctx, found, &m); err != nil {
			return 0, err
		}
		if m.covers(k, tags) {
			newest = max(newest, m.hard(s.config.Now()))
		}
	}
	return newest, nil
}

// covers reports whether the mark covers a page. The mark is of the page's tenant or
// of a site. A mark of an unknown kind covers everything, so that a purge that this
// version does not know is not undone.
func (m *markRow) covers(k store.Key, tags []string) bool {
	switch kind := strings.Split(m.SK, "#")[2]; kind {
	case kindTag:
		return slices.Contains(tags, m.Value)
	case kindPrefix:
		return strings.HasPrefix(k.Text, m.Value)
	}
	return true
}

// hard returns the sequence of the mark's newest hard purge at now: expire_seq counts
// from expire_at on.
func (m *markRow) hard(now time.Time) int64 {
	if int64(m.ExpireAt) <= floorSeconds(now) {
		return int64(max(m.HardSeq, m.ExpireSeq))
	}
	return int64(m.HardSeq)
}
