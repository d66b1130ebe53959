package isr

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"maps"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A follower reads the log, applies its purge marks, and drops pages that other nodes have
// changed from memory:
//
//	SEQ ──► newest rows of LOG, all marks ──► cursor ──► LOG after the cursor ──► apply ──► cursor
//	 ▲                                                       │ a gap, an unreadable row, a trimmed log,
//	 └───────────────────────────────────────────────────────┘ too long without a poll: drop all pages
//
// A change and its log row are one transaction, which other reads may see in part for a
// moment after they have seen SEQ or the row. So the marks of the newest rows are added to
// those that were read, and pages that a row names are read in a transaction for a while
// (see changedPages): what is read after SEQ includes all changes up to SEQ.
//
// A page that was read before the first SEQ may be served for a short time (see
// staleness.go), and is then read again.
type follower struct {
	c   *Cache
	log store.LogStore
	*staleness
	// begun is closed when the first read of SEQ has succeeded or failed. Searches wait
	// for it, so that what they read may be kept.
	begun chan struct{}
	// position is one more than the cursor; 0 until the marks were read.
	position atomic.Int64
	// committed is the highest sequence that this process knows to be committed: at least
	// the cursor, and that of every mark in memory.
	committed atomic.Int64
	// nodes is how many processes follow the log, as far as this one knows (see package
	// fleet).
	nodes atomic.Int64
	// units is the moving average of the read units of a poll, as a float64.
	units atomic.Uint64

	receipts pollAllowance // of polls that receipts ask for
	heard    pollAllowance // of polls that peers ask for

	// The following fields belong to the goroutine of run.

	cursor  int64     // the last sequence of the log that this node has applied
	failing bool      // the last poll failed
	began   time.Time // when the last poll began
}

const (
	// pollTimeout bounds one poll, whatever the store promises.
	pollTimeout = 10 * time.Second
	// loadTimeout bounds reading all marks, some hundred a request.
	loadTimeout = 2 * time.Minute
	// pollUnits is how many read units a second the polls of all processes consume
	// together: four fifths of what one partition of DynamoDB serves. The rest is for
	// purges, which read SEQ, and for the polls that receipts ask for.
	pollUnits = 2400
	// meanPause is the mean of a pause, as a share of the interval.
	meanPause = 0.9
	// longestPoll bounds the interval of polls, whatever they consume.
	longestPoll = 5 * time.Second
	// minMarkMargin is how much longer than pages purge marks are to be kept, at least: the
	// margin of [store.Entry.OutlivesMarks], and a day for the clocks.
	minMarkMargin = 2 * 24 * time.Hour
	// minPollGap separates the polls that requests ask for.
	minPollGap = 10 * time.Millisecond
)

// run polls until ctx ends.
func (f *follower) run(ctx context.Context) {
	f.poll(ctx)
	close(f.begun)
	for f.rest(ctx) {
		f.poll(ctx)
	}
}

// rest waits until the next poll is due or requested. It returns false if ctx has ended.
func (f *follower) rest(ctx context.Context) bool {
	timer := time.NewTimer(f.pause())
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-f.wanted:
		_ = backoff.Wait(ctx, minPollGap-time.Since(f.began))
	case <-ctx.Done():
	}
	return ctx.Err() == nil
}

// pause is the interval, shortened at random by up to a fifth, so that nodes that started
// together do not poll together, and no node polls less often.
func (f *follower) pause() time.Duration {
	every := f.every()
	return every - time.Duration(f.c.below(uint64(every/5)))
}

// every is the interval of polls: Config.Poll, or longer in a fleet that would otherwise
// read more from the partition of the log than DynamoDB serves.
func (f *follower) every() time.Duration {
	units := float64(f.nodes.Load()) * math.Float64frombits(f.units.Load()) // of one poll of each node
	needed := time.Duration(min(units/pollUnits/meanPause, longestPoll.Seconds()) * float64(time.Second))
	return max(f.c.cfg.Poll, needed)
}

// PollInterval returns the longest interval at which this node reads the log: Config.Poll,
// or longer in a large fleet (see Config.Node). Zero means never.
func (c *Cache) PollInterval() time.Duration {
	if c.cfg.Poll < 0 {
		return 0
	}
	return c.follower.every()
}

// setNodes adapts the interval, and with it the staleness bound, to the size of the fleet.
func (f *follower) setNodes(n int) {
	f.nodes.Store(int64(n))
	f.setBound(f.every())
}

// consumed adapts the interval to the read units of a poll that has read these rows: one
// for SEQ, and half a unit for each 4 KB of rows (see dynamostore). The average rises
// faster than it falls, because polls that are throttled are later than those that wait.
func (f *follower) consumed(rows []store.Change) {
	const (
		perUnit    = 4096 // bytes
		rowSize    = 80   // bytes of a row of the log without its targets
		targetSize = 40   // bytes of a target without its texts
		rise, fall = 4, 16
	)
	units, size := 1.0, 0
	for _, row := range rows {
		size += rowSize
		for _, k := range row.Reload {
			size += targetSize + len(k.Tenant) + len(k.Text)
		}
		for _, m := range row.Marks {
			size += targetSize + len(m.Target.Tenant) + len(m.Target.Value)
		}
	}
	units += math.Ceil(float64(size)/perUnit) / 2
	average := math.Float64frombits(f.units.Load())
	weight := 1.0 / fall
	if units > average {
		weight = 1.0 / rise
	}
	f.units.Store(math.Float64bits(average + (units-average)*weight))
	f.setBound(f.every())
}

// poll applies the log. While the store does not answer, pages are served from memory (see
// staleness.go); missed changes are applied afterwards.
func (f *follower) poll(ctx context.Context) {
	began := f.c.moment()
	f.began = began.mono
	err := f.read(ctx)
	switch {
	case ctx.Err() != nil:
		return // closing
	case err == nil && (f.failing || f.said.Load()):
		f.c.log.Info("the log can be read again")
	case err != nil && !f.failing:
		f.c.log.Error("failed to read the log: changes by other servers take effect late", "error", err)
	}
	f.failing = err != nil
	f.ended(began, err)
	f.c.notePoll(time.Since(began.mono), err)
}

// read applies what is new in the log; or, if that is not known, starts over.
func (f *follower) read(ctx context.Context) error {
	last := f.polled.Load()
	if last == nil {
		return f.begin(ctx)
	}
	if away := last.before(f.c.now()); away > f.c.cfg.LogLife/2 {
		return f.lost(ctx, missed("the log was not read for too long", "away", away))
	}
	call, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	err := f.catchUp(call)
	if gap, isGap := errors.AsType[*gapError](err); isGap {
		return f.lost(ctx, gap)
	}
	return err
}

// A gapError is the reason for which this process does not know what has changed.
type gapError struct {
	reason string
	args   []any // for the log
}

func missed(reason string, args ...any) *gapError { return &gapError{reason, args} }

func (e *gapError) Error() string { return e.reason }

// catchUp applies the log from the cursor to the end that it had when the poll began; later
// changes are left to the next poll. Changes that were applied before an error are not
// applied again. A *gapError: the changes are not known.
func (f *follower) catchUp(ctx context.Context) error {
	for end := int64(-1); f.cursor != end; {
		sequence, changes, err := f.log.Changes(ctx, f.cursor)
		if err != nil {
			return err
		}
		f.consumed(changes)
		if end < 0 {
			end = sequence.Seq
		}
		switch {
		case sequence.Seq < f.cursor:
			return missed("the log is shorter than it was", "cursor", f.cursor, "seq", sequence.Seq)
		case f.cursor < end && len(changes) == 0:
			return missed("the end of the log is missing", "cursor", f.cursor, "seq", end)
		}
		if err := f.advance(changes, end); err != nil {
			return err
		}
	}
	return nil
}

// advance applies changes up to a sequence. A *gapError: one is unreadable, or is not the
// next one.
func (f *follower) advance(changes []store.Change, end int64) error {
	for _, change := range changes {
		switch {
		case f.cursor == end:
			return nil
		case change.Malformed != nil:
			return missed("a row of the log cannot be read", "cursor", f.cursor, "error", change.Malformed)
		case change.Seq != f.cursor+1:
			return missed("the log has a gap", "cursor", f.cursor, "found", change.Seq)
		}
		f.apply(change)
	}
	return nil
}

// apply applies the next change. The order matters: a search that knows a mark also knows
// its sequence, and a process that has reached a sequence knows its marks.
func (f *follower) apply(change store.Change) {
	own := f.committed.Load() >= change.Seq // this process has purged since
	f.learn(change.Seq)
	f.c.marks.Apply(f.c.now(), change.Marks...)
	f.c.reload(change.Reload...)
	f.moveTo(change.Seq)
	if !own {
		f.c.noteApplied(change)
	}
	f.c.deliverFor(change, f.nodes.Load())
	if change.Confirm {
		f.c.presence.Hurry()
	}
}

func (f *follower) moveTo(seq int64) {
	f.cursor = seq
	f.position.Store(seq + 1)
}

// applied returns the sequence up to which this node has applied the log; false if it has
// not read the marks yet.
func (f *follower) applied() (seq int64, ok bool) {
	position := f.position.Load()
	return max(position-1, 0), position > 0
}

// learn records that a sequence is committed.
func (f *follower) learn(seq int64) {
	for old := f.committed.Load(); old < seq; old = f.committed.Load() {
		if f.committed.CompareAndSwap(old, seq) {
			return
		}
	}
}

// recent returns the highest sequence that is known to be committed, if this process has
// read the log within the staleness bound: a generation whose render begins now is newer
// than all purges up to it. If it is lower than SEQ, the generation may be born stale by a
// purge that this process does not know yet.
func (f *follower) recent(now time.Time) (seq int64, ok bool) {
	polled := f.polled.Load()
	return f.committed.Load(), polled != nil && polled.before(now) <= f.bound()
}

// errReceiptAhead: a sequence is higher than that of the log.
var errReceiptAhead = errors.New("the sequence is higher than that of the log")

// reach waits until this process has applied the log up to a sequence, and makes it poll at once
// if that is allowed. errReceiptAhead:
// the log, read after the call, does not reach it. Other errors are those of ctx. All
// callers share polls. A cache that does not follow the log reads SEQ.
func (f *follower) reach(ctx context.Context, seq int64, allowed *pollAllowance) error {
	if f.c.cfg.Poll < 0 {
		return f.reachAlone(ctx, seq)
	}
	for came := time.Now(); ; {
		next := f.nextPoll()
		polled := f.polled.Load()
		switch applied, ok := f.applied(); {
		case ok && applied >= seq:
			return nil
		case ok && polled != nil && polled.mono.After(came):
			return errReceiptAhead
		}
		if allowed.take(next, f.every()) {
			f.want(next)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.c.ctx.Done():
			return ErrClosed
		}
	}
}

// reachAlone is reach for a cache whose own purges are all that there are, or that keeps no
// pages in memory.
func (f *follower) reachAlone(ctx context.Context, seq int64) error {
	if f.committed.Load() >= seq {
		return nil
	}
	sequence, err := f.log.Sequence(ctx)
	if err != nil {
		return err
	}
	f.learn(sequence.Seq)
	if sequence.Seq < seq {
		return errReceiptAhead
	}
	return nil
}

// lost starts over at the end of the log, and logs the reason.
func (f *follower) lost(ctx context.Context, gap *gapError) error {
	if err := f.begin(ctx); err != nil {
		return err // the next poll finds the gap again
	}
	f.c.log.Warn("dropped all pages from memory: "+gap.reason, gap.args...)
	return nil
}

// begin sets the cursor to SEQ, reads the newest changes and all marks, and drops all pages that were read before.
// If the store fails, nothing changes. A dropped page is read again when it is requested
// next, and its body is not fetched if it is the same.
func (f *follower) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	sequence, err := f.log.Sequence(ctx)
	if err != nil {
		return err
	}
	keep := sequence.Seq // marks of later changes
	if keep < f.cursor {
		keep = math.MaxInt64 // none: the log was replaced by an older one
		f.committed.Store(0)
	}
	f.learn(sequence.Seq)
	recent, err := f.log.Recent(ctx, sequence.Seq)
	if err != nil {
		return err
	}
	if err := f.c.marks.Load(ctx, f.c.meta, recent, keep, f.c.now); err != nil {
		return fmt.Errorf("reading the purge marks: %w", err)
	}
	f.noteChanged(recent)
	if err := f.c.readBuild(ctx); err != nil {
		return err
	}
	f.c.floor.raise(time.Now())
	select {
	case <-f.begun:
		f.c.flights.retireAll()
	default: // no flight has read anything yet
	}
	f.moveTo(sequence.Seq)
	f.checkLifetime(sequence.MarkLifetime)
	return nil
}

// noteChanged records the pages that changed lately, so that what is read of them from now on
// includes these changes.
func (f *follower) noteChanged(recent []store.Change) {
	for _, change := range recent {
		if change.Malformed != nil {
			f.c.changed.noteAll()
		}
		for _, k := range change.Reload {
			f.c.changed.note(k)
		}
	}
}

// checkLifetime warns if pages are to be kept for longer than the marks that may cover them.
func (f *follower) checkLifetime(marks time.Duration) {
	if needed := f.c.cfg.Retention + minMarkMargin; marks > 0 && marks < needed {
		f.c.log.Warn("purge marks are kept for a shorter time than pages: older pages count as expired", "marks", marks, "needed", needed)
	}
}

// Reads of a page may see a change in part (see [store.Reader]): a node that has read of a
// purge or a rollback in the log might put the page of before into memory again, and serve it
// until it expires. So pages that have changed lately are read in a transaction.

const (
	// changedLately is for how long. DynamoDB commits the rows of a change milliseconds
	// apart, and states no bound.
	changedLately = 10 * time.Second
	// maxChangedPages bounds the pages that are remembered. If there are more, all pages are
	// read in transactions, which cost more.
	maxChangedPages = 1 << 14
)

// changedPages are the pages that have changed lately. Its methods are safe for concurrent
// use.
type changedPages struct {
	mu   sync.Mutex
	seed maphash.Seed         // guarded by mu
	at   map[uint64]time.Time // guarded by mu: by the hash of the key
	all  time.Time            // guarded by mu: when any page may have changed last
}

// note records that a page has changed, before it is read again.
func (c *changedPages) note(k store.Key) {
	now := time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at == nil {
		c.seed, c.at = maphash.MakeSeed(), make(map[uint64]time.Time)
	}
	if len(c.at) >= maxChangedPages {
		maps.DeleteFunc(c.at, func(_ uint64, at time.Time) bool { return now.Sub(at) >= changedLately })
	}
	if len(c.at) >= maxChangedPages {
		clear(c.at)
		c.all = now
	}
	c.at[maphash.Comparable(c.seed, k)] = now
}

// noteAll records that any page may have changed.
func (c *changedPages) noteAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = time.Now()
}

// lately reports whether a page may be read in part.
func (c *changedPages) lately(k store.Key) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.all.IsZero() && time.Since(c.all) < changedLately {
		return true
	}
	if len(c.at) == 0 {
		return false
	}
	at, known := c.at[maphash.Comparable(c.seed, k)]
	return known && time.Since(at) < changedLately
}
