package changelog

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// ErrAhead: a sequence is higher than the newest sequence of the log.
var ErrAhead = errors.New("the sequence is higher than the newest sequence of the log")

// Options are what a [Follower] needs.
type Options struct {
	Log store.LogStore
	// Poll is the interval of polls in a small fleet. Negative: the log is not followed. Then
	// [Follower.Run] must not be called, nothing is ever late, and the functions are not used.
	Poll time.Duration
	// LogLife is how long rows of the log are kept.
	LogLife time.Duration
	// Retention is how long pages are kept, for a warning if marks are kept for a shorter time.
	Retention time.Duration
	// StoreTimeout bounds [Follower.Await].
	StoreTimeout time.Duration
	// MaxBlind is how long pages may be served without reading the log.
	MaxBlind time.Duration

	// Apply makes a change take effect in this process, before the cursor moves past it. Afterwards
	// Applied is called with the change, whether this process knew its sequence before (own), and how
	// many processes follow the log.
	Apply   func(change store.Change)
	Applied func(change store.Change, own bool, nodes int64)
	// Reset makes everything that this process has read before be read again, and loads the purge
	// marks: recent are the newest changes up to SEQ, which the marks that are read may not include
	// yet, and keep is the sequence after which marks that are known are kept. It is called before
	// the cursor moves to SEQ. If it fails, the next poll calls it again.
	Reset func(ctx context.Context, recent []store.Change, keep int64) error
	// Polled is called with the result of each poll.
	Polled func(took time.Duration, err error)

	Now    func() time.Time
	Below  func(n uint64) uint64 // draws a number in [0, n)
	Logger *slog.Logger
}

// A Follower follows the log. All methods but [Follower.Run] are safe for concurrent use.
type Follower struct {
	o   Options
	ctx context.Context //nolint:containedctx // of the process: its end ends all waits

	// begun is closed when the first read of SEQ has succeeded or failed.
	begun chan struct{}
	// position is one more than the cursor; 0 until the marks were read.
	position atomic.Int64
	// committed is the highest sequence that this process knows to be committed: at least
	// the cursor, and the sequence of every mark in memory.
	committed atomic.Int64
	// nodes is how many processes follow the log, as far as this one knows.
	nodes atomic.Int64
	// units is the moving average of the read units of a poll, as a float64.
	units atomic.Uint64

	receipts pollAllowance // of polls that receipts ask for
	heard    pollAllowance // of polls that peers ask for

	lag

	// The following fields belong to the goroutine of Run.

	cursor  int64     // the last sequence of the log that this node has applied
	failing bool      // the last poll failed
	began   time.Time // when the last poll began
}

// New returns a Follower that has not read the log. When ctx ends, so do all waits.
func New(ctx context.Context, o Options) *Follower {
	f := &Follower{o: o, ctx: ctx, begun: make(chan struct{}), lag: lag{wanted: make(chan struct{}, 1), next: make(chan struct{})}}
	f.units.Store(math.Float64bits(1))
	if o.Poll >= 0 {
		f.setBound(o.Poll)
	}
	return f
}

// Begun is closed when the first read of SEQ has succeeded or failed. What is read of the store
// before that may not be kept.
func (f *Follower) Begun() <-chan struct{} { return f.begun }

// Skip closes Begun if the log is not followed, so that [Follower.Run] does not.
func (f *Follower) Skip() { close(f.begun) }

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

// Run polls until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	f.poll(ctx)
	close(f.begun)
	for f.rest(ctx) {
		f.poll(ctx)
	}
}

// rest waits until the next poll is due or requested. It returns false if ctx has ended.
func (f *Follower) rest(ctx context.Context) bool {
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
func (f *Follower) pause() time.Duration {
	every := f.Every()
	return every - time.Duration(f.o.Below(uint64(every/5)))
}

// Every is the interval of polls: Options.Poll, or longer in a fleet that would otherwise
// read more from the partition of the log than DynamoDB serves.
func (f *Follower) Every() time.Duration {
	units := float64(f.nodes.Load()) * math.Float64frombits(f.units.Load()) // of one poll of each node
	needed := time.Duration(min(units/pollUnits/meanPause, longestPoll.Seconds()) * float64(time.Second))
	return max(f.o.Poll, needed)
}

// SetNodes adapts the interval, and with it the staleness bound, to the size of the fleet.
func (f *Follower) SetNodes(n int) {
	f.nodes.Store(int64(n))
	f.setBound(f.Every())
}

// consumed adapts the interval to the read units of a poll that has read these rows: one
// for SEQ, and half a unit for each 4 KB of rows (see dynamostore). The average rises
// faster than it falls, because polls that are throttled are later than those that wait.
func (f *Follower) consumed(rows []store.Change) {
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
	f.setBound(f.Every())
}

// poll applies the log. While the store does not answer, pages are served from memory (see
// lag.go); missed changes are applied afterwards.
func (f *Follower) poll(ctx context.Context) {
	began := f.moment()
	f.began = began.mono
	err := f.read(ctx)
	switch {
	case ctx.Err() != nil:
		return // closing
	case err == nil && (f.failing || f.said.Load()):
		f.o.Logger.Info("the log can be read again")
	case err != nil && !f.failing:
		f.o.Logger.Error("failed to read the log: changes by other servers take effect late", "error", err)
	}
	f.failing = err != nil
	f.ended(began, err)
	f.o.Polled(time.Since(began.mono), err)
}

// read applies what is new in the log; or, if that is not known, starts over.
func (f *Follower) read(ctx context.Context) error {
	last := f.polled.Load()
	if last == nil {
		return f.begin(ctx)
	}
	if away := last.before(f.o.Now()); away > f.o.LogLife/2 {
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
func (f *Follower) catchUp(ctx context.Context) error {
	for end := int64(-1); f.cursor != end; {
		sequence, changes, err := f.o.Log.Changes(ctx, f.cursor)
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
func (f *Follower) advance(changes []store.Change, end int64) error {
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
func (f *Follower) apply(change store.Change) {
	own := f.committed.Load() >= change.Seq // this process has purged since
	f.Learn(change.Seq)
	f.o.Apply(change)
	f.moveTo(change.Seq)
	f.o.Applied(change, own, f.nodes.Load())
}

func (f *Follower) moveTo(seq int64) {
	f.cursor = seq
	f.position.Store(seq + 1)
}

// Applied returns the sequence up to which this node has applied the log; false if it has
// not read the marks yet.
func (f *Follower) Applied() (seq int64, ok bool) {
	position := f.position.Load()
	return max(position-1, 0), position > 0
}

// Learn records that a sequence is committed.
func (f *Follower) Learn(seq int64) {
	for old := f.committed.Load(); old < seq; old = f.committed.Load() {
		if f.committed.CompareAndSwap(old, seq) {
			return
		}
	}
}

// Recent returns the highest sequence that is known to be committed, if this process has
// read the log within the staleness bound: a generation whose render begins now is newer
// than all purges up to it. If it is lower than SEQ, the generation may be born stale by a
// purge that this process does not know yet.
func (f *Follower) Recent(now time.Time) (seq int64, ok bool) {
	polled := f.polled.Load()
	return f.committed.Load(), polled != nil && polled.before(now) <= f.Bound()
}

// Committed returns the highest sequence that is known to be committed.
func (f *Follower) Committed() int64 { return f.committed.Load() }

// Reach waits until this process has applied the log up to the sequence of a receipt, and makes it
// poll at once, unless receipts have made it do so often lately. [ErrAhead]: the log, read after the
// call, does not reach the sequence. Other errors are the causes of the end of ctx, or of the
// process. All callers share polls. If the log is not followed, SEQ is read.
func (f *Follower) Reach(ctx context.Context, seq int64) error { return f.reach(ctx, seq, &f.receipts) }

// Hear is [Follower.Reach] for a sequence that a peer has named.
func (f *Follower) Hear(ctx context.Context, seq int64) error { return f.reach(ctx, seq, &f.heard) }

func (f *Follower) reach(ctx context.Context, seq int64, allowed *pollAllowance) error {
	if f.o.Poll < 0 {
		return f.reachAlone(ctx, seq)
	}
	for came := time.Now(); ; {
		next := f.nextPoll()
		polled := f.polled.Load()
		switch applied, ok := f.Applied(); {
		case ok && applied >= seq:
			return nil
		case ok && polled != nil && polled.mono.After(came):
			return ErrAhead
		}
		if allowed.take(next, f.Every()) {
			f.want(next)
		}
		select {
		case <-next:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-f.ctx.Done():
			return context.Cause(f.ctx)
		}
	}
}

// reachAlone is reach for a process whose own purges are all that there are, or that keeps no
// pages in memory.
func (f *Follower) reachAlone(ctx context.Context, seq int64) error {
	if f.committed.Load() >= seq {
		return nil
	}
	sequence, err := f.o.Log.Sequence(ctx)
	if err != nil {
		return err
	}
	f.Learn(sequence.Seq)
	if sequence.Seq < seq {
		return ErrAhead
	}
	return nil
}

// lost starts over at the end of the log, and logs the reason.
func (f *Follower) lost(ctx context.Context, gap *gapError) error {
	if err := f.begin(ctx); err != nil {
		return err // the next poll finds the gap again
	}
	f.o.Logger.Warn("dropped all pages from memory: "+gap.reason, gap.args...)
	return nil
}

// begin sets the cursor to SEQ, after Options.Reset with the newest changes. If the store fails, the
// cursor stays where it is.
func (f *Follower) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	sequence, err := f.o.Log.Sequence(ctx)
	if err != nil {
		return err
	}
	keep := sequence.Seq // marks of later changes
	if keep < f.cursor {
		keep = math.MaxInt64 // none: the log was replaced by an older one
		f.committed.Store(0)
	}
	f.Learn(sequence.Seq)
	recent, err := f.o.Log.Recent(ctx, sequence.Seq)
	if err != nil {
		return err
	}
	if err := f.o.Reset(ctx, recent, keep); err != nil {
		return err
	}
	f.moveTo(sequence.Seq)
	f.checkLifetime(sequence.MarkLifetime)
	return nil
}

// checkLifetime warns if pages are to be kept for longer than the marks that may cover them.
func (f *Follower) checkLifetime(marks time.Duration) {
	if needed := f.o.Retention + minMarkMargin; marks > 0 && marks < needed {
		f.o.Logger.Warn("purge marks are kept for a shorter time than pages: older pages count as expired", "marks", marks, "needed", needed)
	}
}
