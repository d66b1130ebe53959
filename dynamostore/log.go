package dynamostore

import (
	"context"
	"crypto/rand"
	"fmt"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// Sequence implements [store.MetaStore].
func (s *Store) Sequence(ctx context.Context) (store.Sequence, error) {
	ctx = s.metered(ctx, "sequence")
	seen, err := s.readSequence(ctx, true)
	if err != nil {
		return store.Sequence{}, fmt.Errorf("read the purge sequence: %w", err)
	}
	return seen.Sequence, nil
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
	// Destinations are the downstream caches for which the transaction wrote jobs.
	Destinations []string `theorydb:"attr:destinations,omitempty"`
	TTL          horizon  `theorydb:"ttl,attr:ttl"`
}

// logTarget is a page, a mark, or another target, by Kind.
type logTarget struct {
	Kind   string `theorydb:"attr:kind"`
	Tenant string `theorydb:"attr:tenant,omitempty"`
	Key    string `theorydb:"attr:key,omitempty"` // of a page

	// A mark has the attributes of its row, except seq, which is the sequence of the log row.

	Value     string   `theorydb:"attr:value,omitempty"`
	At        *instant `theorydb:"attr:at,omitempty"`
	HardSeq   count    `theorydb:"attr:hard_seq,omitempty"`
	ExpireSeq count    `theorydb:"attr:expire_seq,omitempty"`
	ExpireAt  horizon  `theorydb:"attr:expire_at,omitempty"`
}

// Kinds of targets that are neither marks nor, by themselves, changes of a page.
const (
	kindReload  = "reload"  // nodes must read the page again
	kindConfirm = "confirm" // nodes report that they have applied the row
)

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
	seq, err := sequenceOf(found)
	if err != nil {
		return store.Change{Malformed: err}
	}
	c := store.Change{Seq: seq}
	if err := s.addTargets(ctx, &c, found); err != nil {
		return store.Change{Seq: seq, Malformed: err}
	}
	return c
}

// sequenceOf returns the sequence of a LOG row. An error is a *[MalformedError].
func sequenceOf(found row) (int64, error) {
	digits := strings.TrimPrefix(found.text(attrSK), logPrefix)
	seq, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || logKey(seq) != found.text(attrSK) {
		return 0, found.malformed(attrSK, "LOG# and 20 digits")
	}
	return seq, nil
}

// addTargets adds the targets of a LOG row to its change. An error is a
// *[MalformedError].
func (s *Store) addTargets(ctx context.Context, c *store.Change, found row) error {
	if _, isList := found[attrTargets].(*types.AttributeValueMemberL); !isList {
		return found.malformed(attrTargets, "a list of maps")
	}
	var r logRow
	if err := s.decode(ctx, found, &r); err != nil {
		return err
	}
	c.Destinations = r.Destinations
	for i, t := range r.Targets {
		mark := isMarkKind(t.Kind)
		switch {
		case t.Kind == "", t.Kind == kindReload && t.Key == "":
			return found.malformed(attrTargets, fmt.Sprintf("a kind and a key at [%d]", i))
		case mark && (t.Value == "" || t.At == nil):
			return found.malformed(attrTargets, fmt.Sprintf("a value and a time at [%d]", i))
		case t.Kind == kindReload:
			c.Reload = append(c.Reload, store.Key{Tenant: t.Tenant, Text: t.Key})
		case mark:
			c.Marks = append(c.Marks, t.mark(c.Seq))
		case t.Kind == kindConfirm:
			c.Confirm = true
		}
	}
	return nil
}

// mark returns the mark that a target describes.
func (t logTarget) mark(seq int64) store.Mark {
	return store.Mark{
		Target: markTarget(t.Tenant, t.Kind, t.Value),
		Seq:    seq, HardSeq: int64(t.HardSeq), At: t.At.time(),
		ExpireSeq: int64(t.ExpireSeq), ExpireAt: expiryOf(t.ExpireSeq, t.ExpireAt),
	}
}

// A seenSequence is the SEQ row as it was read; a change advances it.
type seenSequence struct {
	store.Sequence
	stored types.AttributeValue // seq as it is stored; nil: there is no row
}

// readSequence reads the SEQ row with a strongly consistent read; for bounded see
// [operation]. A malformed row is a
// *[MalformedError], never zero: by a wrong sequence everything that is rendered from
// now on would look older than every purge, or newer.
func (s *Store) readSequence(ctx context.Context, bounded bool) (seenSequence, error) {
	found, err := s.readRow(ctx, bounded, pkPurgeLog, skSequence)
	if err != nil || found == nil {
		return seenSequence{}, err
	}
	sequence, err := s.sequence(ctx, found)
	return seenSequence{Sequence: sequence, stored: found[attrSeq]}, err
}

// advance returns the actions that advance SEQ from the seen sequence and write the
// log row of the next one, which is complete except for its key and ttl. lifetime is the least
// mark_lifetime of SEQ afterwards.
func (s *Store) advance(seen seenSequence, log *logRow, lifetime period) []action {
	next := seen.Seq + 1
	sequence := &sequenceRow{location: s.at(pkPurgeLog, skSequence), Seq: count(next), MarkLifetime: lifetime}
	fields := []string{"Seq"}
	if lifetime.duration() > seen.MarkLifetime {
		fields = append(fields, "MarkLifetime")
	}
	unchanged := tabletheory.IfNotExists()
	if seen.stored != nil {
		unchanged = tabletheory.ConditionExpression("seq = :seen", map[string]any{":seen": seen.stored})
	}
	log.location = s.at(pkPurgeLog, logKey(next))
	log.TTL = horizon(ceilSeconds(s.config.Now().Add(s.config.LogLife)))
	return []action{
		update(onSequence, sequence, fields, unchanged),
		// No condition: the transaction that advances SEQ to the sequence owns the row.
		put(onLog, log),
	}
}

// logged reports whether the log row after the seen sequence has this id. Callers must
// have made sure that SEQ has advanced.
func (s *Store) logged(ctx context.Context, seen seenSequence, id string) (bool, error) {
	// The transaction may still be committing the row, although SEQ has advanced.
	key := logKey(seen.Seq + 1)
	found, err := s.readSerializable(ctx, pkPurgeLog, key)
	return found[key].text(attrID) == id, err
}

// skip advances SEQ from the seen sequence, with an empty log row, unless it has
// advanced already. After that no transaction that requires the seen sequence can
// commit.
func (s *Store) skip(ctx context.Context, seen seenSequence) error {
	void := s.newTransaction(s.advance(seen, &logRow{ID: rand.Text(), Targets: []logTarget{}}, 0))
	return s.execute(ctx, operation{send: void.send, refused: ignoreRefusal})
}
