package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// maxChanges is how many rows of the log one read returns at most.
const maxChanges = 200

// Sequence implements [store.MetaStore].
func (s *Store) Sequence(ctx context.Context) (store.Sequence, error) {
	ctx = s.metered(ctx, "sequence")
	seen, err := s.readSequence(ctx)
	if err != nil {
		return store.Sequence{}, fmt.Errorf("read the purge sequence: %w", err)
	}
	return seen.Sequence, nil
}

// Changes implements [store.MetaStore]. It costs one strongly consistent Query of
// at most 200 small rows: usually one read unit. Changes of kinds that this version
// does not know are returned without their targets. Malformed is a *[MalformedError].
func (s *Store) Changes(ctx context.Context, after int64) ([]store.Change, error) {
	ctx = s.metered(ctx, "changes")
	var page *dynamodb.QueryOutput
	err := s.try(ctx, func(ctx context.Context) (err error) {
		page, err = s.api.Query(ctx, &dynamodb.QueryInput{
			TableName:              &s.table,
			ConsistentRead:         aws.Bool(true),
			KeyConditionExpression: aws.String("pk = :pk AND sk BETWEEN :first AND :last"),
			ExpressionAttributeValues: map[string]types.AttributeValue{
				":pk": stringOf(pkPurgeLog), ":first": stringOf(logKey(max(after, 0) + 1)), ":last": stringOf(logKey(math.MaxInt64)),
			},
			Limit: aws.Int32(maxChanges),
		})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the log after %d: %w", after, err)
	}
	changes := make([]store.Change, len(page.Items))
	for i, item := range page.Items {
		changes[i] = s.change(ctx, item)
	}
	return changes, nil
}

// logKey returns the sort key of the log row of a sequence, with 20 digits so that the
// rows sort by sequence.
func logKey(seq int64) string { return fmt.Sprintf("%s%020d", logPrefix, seq) }

// logRow is the log row of a sequence. Other writers may add attributes.
type logRow struct {
	location

	// ID distinguishes the transactions that tried to advance SEQ to this sequence.
	ID      string      `theorydb:"attr:id,omitempty"`
	Targets []logTarget `theorydb:"attr:targets"`
	TTL     horizon     `theorydb:"ttl,attr:ttl"`
}

// logTarget is a page, or another target, by Kind.
type logTarget struct {
	Kind   string `theorydb:"attr:kind"`
	Tenant string `theorydb:"attr:tenant,omitempty"`
	Key    string `theorydb:"attr:key,omitempty"`
}

// kindReload: nodes must read the page again.
const kindReload = "reload"

// reloadOf returns the target of a page that nodes must read again.
func reloadOf(k store.Key) logTarget {
	return logTarget{Kind: kindReload, Tenant: k.Tenant, Key: k.Text}
}

// checkPage refuses a key that a log row cannot have. The error wraps
// [store.ErrInvalidKey].
func checkPage(k store.Key) error {
	if err := store.ValidKey(k); err != nil {
		return fmt.Errorf("page key for the log: %w", err)
	}
	return nil
}

// change reads a LOG row.
func (s *Store) change(ctx context.Context, found row) store.Change {
	digits := strings.TrimPrefix(found.text(attrSK), logPrefix)
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || logKey(seq) != found.text(attrSK) {
		return store.Change{Malformed: found.malformed(attrSK, "LOG# and 20 digits")}
	}
	pages, err := s.reloaded(ctx, found)
	return store.Change{Seq: seq, Reload: pages, Malformed: err}
}

// reloaded returns the pages that nodes must read again by a LOG row, or a
// *[MalformedError].
func (s *Store) reloaded(ctx context.Context, found row) ([]store.Key, error) {
	if _, isList := found[attrTargets].(*types.AttributeValueMemberL); !isList {
		return nil, found.malformed(attrTargets, "a list of maps")
	}
	var r logRow
	if err := s.decode(ctx, found, &r); err != nil {
		return nil, err
	}
	var pages []store.Key
	for i, t := range r.Targets {
		switch {
		case t.Kind == "", t.Kind == kindReload && t.Key == "":
			return nil, found.malformed(attrTargets, fmt.Sprintf("a kind and a key at [%d]", i))
		case t.Kind == kindReload:
			pages = append(pages, store.Key{Tenant: t.Tenant, Text: t.Key})
		}
	}
	return pages, nil
}

// A seenSequence is the SEQ row as it was read; a change advances it.
type seenSequence struct {
	store.Sequence
	stored types.AttributeValue // seq as it is stored; nil: there is no row
}

// readSequence reads the SEQ row with a strongly consistent read. A malformed row is a
// *[MalformedError], never zero: by a wrong sequence everything that is rendered from
// now on would look older than every purge, or newer.
func (s *Store) readSequence(ctx context.Context) (seenSequence, error) {
	found, err := s.readRow(ctx, true, pkPurgeLog, skSequence)
	if err != nil || found == nil {
		return seenSequence{}, err
	}
	sequence, err := s.sequence(ctx, found)
	return seenSequence{Sequence: sequence, stored: found[attrSeq]}, err
}

// advance returns the actions that advance SEQ from the seen sequence and write the
// log row of the next one.
func (s *Store) advance(seen seenSequence, id string, targets []logTarget) []action {
	next := seen.Seq + 1
	sequence := &sequenceRow{location: s.at(pkPurgeLog, skSequence), Seq: count(next)}
	unchanged := tabletheory.IfNotExists()
	if seen.stored != nil {
		unchanged = tabletheory.ConditionExpression("seq = :seen", map[string]any{":seen": seen.stored})
	}
	log := &logRow{
		location: s.at(pkPurgeLog, logKey(next)), ID: id, Targets: targets,
		TTL: horizon(ceilSeconds(s.config.Now().Add(s.config.LogLife))),
	}
	return []action{
		update(onSequence, sequence, []string{"Seq"}, unchanged),
		// No condition: the transaction that advances SEQ to the sequence owns the row.
		put(onLog, log),
	}
}

// logged reports whether the log row after the seen sequence has this id. Callers must
// have made sure that SEQ has advanced.
func (s *Store) logged(ctx context.Context, seen seenSequence, id string) (bool, error) {
	found, err := s.readRow(ctx, false, pkPurgeLog, logKey(seen.Seq+1))
	return found.text(attrID) == id, err
}

// skip advances SEQ from the seen sequence, with an empty log row, unless it has
// advanced already. After that no transaction that requires the seen sequence can
// commit.
func (s *Store) skip(ctx context.Context, seen seenSequence) error {
	void := s.newTransaction(s.advance(seen, rand.Text(), []logTarget{}))
	return s.execute(ctx, operation{send: void.send, refused: ignoreRefusal})
}
