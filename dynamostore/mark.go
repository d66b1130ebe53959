package dynamostore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// markRow is a purge mark: the newest purge of a tag, a prefix, a tenant or the site. It
// is the row MARK#<tenant>#<kind>#<hex sha256 of Value> in the partition of the purge log.
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

// lastRune sorts after everything that follows a prefix.
const lastRune = "\U0010FFFF"

// maxBatchGet is DynamoDB's limit of keys in one BatchGetItem.
const maxBatchGet = 100

// Marks implements [store.PurgeStore]. It costs a read unit for about 16 marks. A
// malformed mark is a *[MalformedError].
func (s *Store) Marks(ctx context.Context) iter.Seq2[store.Mark, error] {
	ctx = s.metered(ctx, "marks")
	return func(yield func(store.Mark, error) bool) {
		for found, err := range s.pages(ctx, s.between(pkPurgeLog, markKeyPrefix, markKeyPrefix+lastRune)) {
			m, err := s.mark(ctx, found, err)
			if err != nil {
				yield(store.Mark{}, fmt.Errorf("read the purge marks: %w", err))
				return
			}
			if !yield(m, nil) {
				return
			}
		}
	}
}

// Covering implements [store.PurgeStore]. It costs a read unit for SEQ, one for each tag,
// and two queries for the marks of other kinds of the tenant, three with a tenant.
func (s *Store) Covering(ctx context.Context, k store.Key, tags []string) (store.PurgeState, error) {
	ctx = s.metered(ctx, "covering")
	if err := store.ValidKey(k); err != nil {
		return store.PurgeState{}, err
	}
	seen, err := s.readSequence(ctx, true)
	var marked store.PurgeState
	if err == nil {
		marked, err = s.covering(ctx, k, tags)
	}
	if err != nil {
		return store.PurgeState{}, fmt.Errorf("read the purge marks of %s: %w", k, err)
	}
	marked.MarkLifetime = seen.MarkLifetime
	return marked, nil
}

// DeleteMark implements [store.PurgeStore]. It costs a write unit. Every purge of a mark
// changes its seq.
func (s *Store) DeleteMark(ctx context.Context, m store.Mark) error {
	ctx = s.metered(ctx, "delete mark")
	row := &markRow{location: s.at(pkPurgeLog, markKey(m.Target))}
	err := s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(row).WithCondition("Seq", "=", count(m.Seq)).Delete()
	}})
	if err != nil {
		return fmt.Errorf("delete the purge mark of %s: %w", m.Target, err)
	}
	return nil
}

// covering returns the merged state of the marks that cover the page k with these tags.
// All reads are strongly consistent. A malformed mark is a *[MalformedError], because it
// stands for an unknown purge.
//
// Tag marks are read by key, because a tenant may have any number of them. Marks of
// other kinds are few, and all are read. A mark that another one replaces is read before
// it (see [store.Mark.Includes]): tags, the tenant's other kinds in sort order, the site.
func (s *Store) covering(ctx context.Context, k store.Key, tags []string) (store.PurgeState, error) {
	marks, err := s.tagMarks(ctx, k.Tenant, tags)
	if err != nil {
		return store.PurgeState{}, err
	}
	all, ofTags, ofSite := markPrefix(k.Tenant), markPrefix(k.Tenant, string(store.PurgeTag)), markPrefix("", string(store.PurgeSite))
	ranges := [][2]string{{all, ofTags}, {ofTags + lastRune, all + lastRune}}
	if k.Tenant != "" {
		ranges = append(ranges, [2]string{ofSite, ofSite + lastRune})
	}
	for _, r := range ranges {
		found, err := s.query(ctx, s.between(pkPurgeLog, r[0], r[1]))
		if err != nil {
			return store.PurgeState{}, err
		}
		marks = append(marks, found...)
	}
	now := s.config.Now()
	var state store.PurgeState
	for _, found := range marks {
		m, err := s.mark(ctx, found, nil)
		if err != nil {
			return store.PurgeState{}, err
		}
		if m.Target.Covers(k, tags) {
			state = state.Merge(m.State(now))
		}
	}
	return state, nil
}

// markPrefix returns the prefix of the sort keys of a tenant's marks, or of the marks of
// one kind.
func markPrefix(tenant string, kind ...string) string {
	return markKeyPrefix + strings.Join(append([]string{tenant}, kind...), "#") + "#"
}

// tagMarks reads the marks of tags.
func (s *Store) tagMarks(ctx context.Context, tenant string, tags []string) ([]row, error) {
	var keys []map[string]types.AttributeValue
	for _, tag := range slices.Compact(slices.Sorted(slices.Values(tags))) {
		sk := markKey(store.PurgeTarget{Kind: store.PurgeTag, Tenant: tenant, Value: tag})
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

// mark decodes a MARK# row; err is the error of reading it.
func (s *Store) mark(ctx context.Context, found row, err error) (store.Mark, error) {
	if err != nil {
		return store.Mark{}, err
	}
	parts := strings.Split(found.text(attrSK), "#")
	if len(parts) != 4 || parts[2] == "" {
		return store.Mark{}, found.malformed(attrSK, "MARK#, the tenant, the kind and a hash")
	}
	if err := found.check("", found, requiredOfMark); err != nil {
		return store.Mark{}, err
	}
	var r markRow
	if err := s.decode(ctx, found, &r); err != nil {
		return store.Mark{}, err
	}
	return store.Mark{
		Target: markTarget(parts[1], parts[2], r.Value),
		Seq:    int64(r.Seq), HardSeq: int64(r.HardSeq), At: r.At.time(),
		ExpireSeq: int64(r.ExpireSeq), ExpireAt: expiryOf(r.ExpireSeq, r.ExpireAt),
	}, nil
}

// expiryOf returns when expire_seq takes effect. A missing expire_at is long ago.
func expiryOf(seq count, at horizon) time.Time {
	if seq == 0 {
		return time.Time{}
	}
	return at.time()
}

// isMarkKind reports whether marks of a kind are known.
func isMarkKind(kind string) bool {
	switch store.PurgeKind(kind) {
	case store.PurgeTag, store.PurgePrefix, store.PurgeTenant, store.PurgeSite:
		return true
	}
	return false
}

// siteValue is the value of a site's mark, which must not be empty.
const siteValue = "*"

// markValue returns the value in the mark of a target.
func markValue(t store.PurgeTarget) string {
	switch {
	case t.Value != "":
	case t.Kind == store.PurgeTenant:
		return t.Tenant
	case t.Kind == store.PurgeSite:
		return siteValue
	}
	return t.Value
}

// markTarget returns the target of a mark: the inverse of markValue. The value of another
// writer's mark of a tenant or a site stays, because it is part of the key.
func markTarget(tenant, kind, value string) store.PurgeTarget {
	t := store.PurgeTarget{Kind: store.PurgeKind(kind), Tenant: tenant}
	if markValue(t) != value {
		t.Value = value
	}
	return t
}

// markKey returns the sort key of the mark of a target.
func markKey(t store.PurgeTarget) string {
	sum := sha256.Sum256([]byte(markValue(t)))
	return markPrefix(t.Tenant, string(t.Kind)) + hex.EncodeToString(sum[:])
}
