package dynamostore

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/store"
)

const (
	// maxChanges is how many rows of the log one read returns at most.
	maxChanges = 1000
	// rowReads is how often rows that are missing are read again, strongly consistently.
	rowReads = 4
	// strayEvery is how often the log is searched for rows beyond its end.
	strayEvery = time.Minute
)

// Changes implements [store.LogStore]. It costs one read unit while nothing happens: a
// strongly consistent GetItem of SEQ. If the log has grown it also costs half a unit for
// each 4 KB of rows, some 25 small purges, at most 1,000 rows at a time. Once a minute it
// costs one unit more. Changes of kinds that this version does not know are returned
// without their targets. Malformed is a *[MalformedError].
//
//	SEQ, strongly consistent ──► unchanged: done
//	  └──► rows (after, SEQ], eventually consistent ──► complete: done
//	         └──► a row is missing: strongly consistent, at most 4 times ──► as it is
//
// A replica that lags shows, so that half the units and any replica suffice: the rows have
// consecutive sequences, and a row that a change has written never changes. The exception
// are rows beyond SEQ, which no change has written, such as in a table that was restored from
// a backup: a change replaces them. Until the log has passed them all rows are read
// strongly consistently.
//
// Rows may also be missing from a strongly consistent read for an instant, because reads
// of several items see a transaction that is being committed in part (see serializable.go).
func (s *Store) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	ctx = s.metered(ctx, "changes")
	after = max(after, 0)
	seen, changes, err := s.changes(ctx, after)
	if err != nil {
		return store.Sequence{}, nil, fmt.Errorf("read the log after %d: %w", after, err)
	}
	return seen, changes, nil
}

// changes is Changes.
func (s *Store) changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	seq, err := s.endOfLog(ctx)
	if err != nil || seq.Seq <= after {
		if seq.Seq < after {
			s.strays.failed() // an older table has replaced this one
		}
		return seq, nil, err
	}
	strong := s.strays.after(after)
	for attempt := 1; ; attempt++ {
		changes, incomplete, err := s.rowsBetween(ctx, after, seq.Seq, strong)
		if err != nil || !incomplete || attempt > rowReads {
			return seq, changes, err
		}
		if strong && !s.pause(ctx, attempt) {
			return seq, nil, context.Cause(ctx)
		}
		strong = true
	}
}

// endOfLog reads SEQ and, once a minute before it, the newest row.
func (s *Store) endOfLog(ctx context.Context) (store.Sequence, error) {
	var newest int64
	var err error
	search := s.strays.due()
	if search {
		newest, err = s.newestRow(ctx)
	}
	var seen seenSequence
	if err == nil {
		seen, err = s.readSequence(ctx, true)
	}
	switch {
	case search && err != nil:
		s.strays.failed()
	case search && s.strays.note(newest, seen.Seq):
		s.config.Logger.Warn("isr: ignoring rows beyond the end of the log", slog.Int64("seq", seen.Seq), slog.Int64("found", newest))
	}
	return seen.Sequence, err
}

// rowsBetween reads the rows of the log after a sequence up to another, or the first of
// them. incomplete: another read may return more.
func (s *Store) rowsBetween(ctx context.Context, after, upTo int64, strong bool) (changes []store.Change, incomplete bool, err error) {
	page, err := s.queryOnce(ctx, s.logBetween(after, upTo, strong))
	if err != nil {
		return nil, false, err
	}
	for i, item := range page.Items {
		change := s.change(ctx, item)
		changes = append(changes, change)
		if change.Malformed != nil {
			incomplete = incomplete || !strong
		} else {
			incomplete = incomplete || change.Seq != after+int64(i)+1
		}
	}
	ended := len(page.LastEvaluatedKey) == 0
	return changes, incomplete || ended && after+int64(len(changes)) < upTo, nil
}

// logBetween returns the query of the rows after a sequence up to another.
func (s *Store) logBetween(after, upTo int64, strong bool) *dynamodb.QueryInput {
	rows := s.between(pkPurgeLog, logKey(after+1), logKey(upTo))
	rows.ConsistentRead, rows.Limit = aws.Bool(strong), aws.Int32(maxChanges)
	return rows
}

// strays knows up to which sequence the log has rows beyond its end. It is safe for
// concurrent use.
type strays struct {
	mu       sync.Mutex
	newest   int64     // guarded by mu; 0: there are none
	searched time.Time // guarded by mu; zero: the next call searches
}

// due reports whether the log is to be searched for strays by the caller.
func (x *strays) due() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	if !x.searched.IsZero() && time.Since(x.searched) < strayEvery {
		return false
	}
	x.searched = time.Now()
	return true
}

// failed makes the next call search: this one did not, or the table was replaced.
func (x *strays) failed() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.searched = time.Time{}
}

// note records the newest row of the log, which was read before SEQ, so that no change
// counts as a stray. It reports whether it is a stray that was not known.
func (x *strays) note(newest, seq int64) (found bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if newest <= seq {
		newest = 0
	}
	found = newest > x.newest
	x.newest = newest
	return found
}

// after reports whether rows after a sequence may have been strays.
func (x *strays) after(seq int64) bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return seq < x.newest
}

// newestRow returns the sequence of the newest row of the log, 0 if there is none. A row
// without a valid sequence counts as the newest possible.
func (s *Store) newestRow(ctx context.Context) (int64, error) {
	last := s.logBetween(0, math.MaxInt64, true)
	last.ScanIndexForward, last.Limit = aws.Bool(false), aws.Int32(1)
	page, err := s.queryOnce(ctx, last)
	if err != nil || len(page.Items) == 0 {
		return 0, err
	}
	seq, err := sequenceOf(page.Items[0])
	if err != nil {
		return math.MaxInt64, nil
	}
	return seq, nil
}
