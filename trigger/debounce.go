package trigger

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// Config adjusts a [Debouncer]. Its zero value is useful.
type Config struct {
	// Window is how long a batch waits for a further message after the last one. Zero
	// means DefaultWindow.
	Window time.Duration
	// MaxWait is how long a batch waits at most after its first message. Zero means
	// DefaultMaxWait.
	MaxWait time.Duration
	// MaxWaiting bounds the messages that wait or are being purged; further ones get
	// ErrBusy. Their targets are bounded by 16 MiB. Zero means DefaultMaxWaiting.
	MaxWaiting int
	// Keep is how long an executed message is remembered. Zero means DefaultKeep.
	Keep time.Duration
	// Logger receives failures to record messages. Nil means slog.Default().
	Logger *slog.Logger
}

// Defaults of [Config]. GitHub can repeat a delivery for three days.
const (
	DefaultWindow     = 500 * time.Millisecond
	DefaultMaxWait    = 2 * time.Second
	DefaultMaxWaiting = 1024
	DefaultKeep       = 3 * 24 * time.Hour
)

// Limits of a batch that is being committed.
const (
	purgeTime   = 10 * time.Second // for the purge
	recordTime  = 2 * time.Second  // for all records of the batch, and then to find out what was stored
	concurrency = 8                // store calls of one batch
	maxBytes    = 16 << 20         // of all waiting messages
)

func (cfg Config) withDefaults() Config {
	cfg.Window = cmp.Or(cfg.Window, DefaultWindow)
	cfg.MaxWait = cmp.Or(cfg.MaxWait, DefaultMaxWait)
	cfg.MaxWaiting = cmp.Or(cfg.MaxWaiting, DefaultMaxWaiting)
	cfg.Keep = cmp.Or(cfg.Keep, DefaultKeep)
	if cfg.Logger == nil {
		cfg.Logger = slog.Default()
	}
	return cfg
}

// A Debouncer merges messages that arrive together into one purge. Soft and hard purges are
// merged among themselves. It is safe for concurrent use.
type Debouncer struct {
	purger Purger
	past   past
	cfg    Config

	mu      sync.Mutex
	open    map[bool]*batch    // guarded by mu; the batches that wait for messages, by Hard
	members map[string]*member // guarded by mu; messages not yet executed, by the name of their record
	waiting int                // guarded by mu; messages not yet executed
	bytes   int                // guarded by mu; their sizes
	closed  bool               // guarded by mu
	commits sync.WaitGroup     // Add is guarded by mu and !closed, or called by Close
}

// A batch is a purge that waits for further targets.
type batch struct {
	hard     bool
	targets  []store.PurgeTarget
	contains map[store.PurgeTarget]bool
	members  []*member
	deadline time.Time // its first message + MaxWait
	timer    *time.Timer
}

// A member is a message of a batch.
type member struct {
	message Message
	name    string // of its record; empty if there is none

	done    chan struct{} // closed once outcome and err are set
	outcome Outcome
	err     error
}

// NewDebouncer returns a Debouncer, which must be closed.
func NewDebouncer(purger Purger, records Records, cfg Config) *Debouncer {
	cfg = cfg.withDefaults()
	return &Debouncer{
		purger: purger, past: past{records, cfg.Keep}, cfg: cfg,
		open: make(map[bool]*batch), members: make(map[string]*member),
	}
}

// Submit executes a message and returns once its purge is committed. If ctx ends first, its
// error is returned, and the message may still be executed.
//
// Errors:
//   - wrapping [store.ErrInvalidInput] or [store.ErrInvalidKey]: the message is invalid.
//   - [store.ErrPinned]: it purges a pinned page hard.
//   - [ErrBusy], [ErrClosed].
//   - Errors of the store.
func (d *Debouncer) Submit(ctx context.Context, m Message) (Outcome, error) {
	m = m.distinct()
	if err := m.valid(); err != nil {
		return Outcome{}, err
	}
	name := m.name()
	executed, err := d.past.contains(ctx, name)
	if err != nil {
		// The record only saves a purge.
		d.cfg.Logger.Warn("failed to read the record of a message: purging without it", "source", m.Source, "id", m.ID, "error", err)
	}
	if executed {
		return Outcome{Duplicate: true}, nil
	}
	w, first, err := d.join(m, name)
	if err != nil {
		return Outcome{}, err
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		return Outcome{}, context.Cause(ctx)
	}
	outcome := w.outcome
	if !first && w.err == nil {
		outcome.Duplicate = true
	}
	return outcome, w.err
}

// join adds a message to the open batch. If the same message is waiting already, it returns
// that one, and first is false.
func (d *Debouncer) join(m Message, name string) (w *member, first bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, false, ErrClosed
	}
	if w := d.members[name]; w != nil {
		return w, false, nil
	}
	size := m.size()
	if d.waiting >= d.cfg.MaxWaiting || d.bytes+size > maxBytes {
		return nil, false, fmt.Errorf("%w (%d); deliver it again later", ErrBusy, d.waiting)
	}
	d.waiting++
	d.bytes += size
	w = &member{message: m, name: name, done: make(chan struct{})}
	if name != "" {
		d.members[name] = w
	}
	b := d.open[m.Hard]
	if b != nil && !b.fits(m) {
		d.flushLocked(b)
		b = nil
	}
	if b == nil {
		b = d.beginLocked(m.Hard)
	}
	b.add(w)
	if weight(b.targets) >= store.MaxPurgeTargets {
		d.flushLocked(b)
	} else {
		b.timer.Reset(min(d.cfg.Window, time.Until(b.deadline)))
	}
	return w, true, nil
}

// fits reports whether the batch and a message are a purge that a store accepts.
func (b *batch) fits(m Message) bool {
	all := slices.Clone(b.targets)
	for _, t := range m.Targets {
		if !b.contains[t] {
			all = append(all, t)
		}
	}
	return weight(all) <= store.MaxPurgeTargets && store.Purge{Targets: all}.Validate() == nil
}

func (b *batch) add(w *member) {
	b.members = append(b.members, w)
	for _, t := range w.message.Targets {
		if !b.contains[t] {
			b.contains[t] = true
			b.targets = append(b.targets, t)
		}
	}
}

// beginLocked opens a batch.
func (d *Debouncer) beginLocked(hard bool) *batch {
	b := &batch{hard: hard, contains: make(map[store.PurgeTarget]bool), deadline: time.Now().Add(d.cfg.MaxWait)}
	b.timer = time.AfterFunc(d.cfg.MaxWait, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.open[hard] == b { // not flushed since the timer fired
			d.flushLocked(b)
		}
	})
	d.open[hard] = b
	return b
}

// flushLocked starts to commit the open batch. Later messages get another batch, because the
// content that they announce may have changed after this purge.
func (d *Debouncer) flushLocked(b *batch) {
	delete(d.open, b.hard)
	b.timer.Stop()
	d.commits.Go(func() { d.commit(b) })
}

// commit purges the targets of a batch and then records its messages. If we crash before the
// purge, or between it and the records, no message was acknowledged, and all are delivered
// and purged again.
func (d *Debouncer) commit(b *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), purgeTime)
	defer cancel()
	receipt, err := d.purger.Purge(ctx, isr.Purge{Targets: b.targets, Hard: b.hard})
	if err != nil && Permanent(err) && len(b.members) > 1 {
		// One message must not fail the others.
		d.each(b, func(w *member) {
			w.outcome.Receipt, w.err = d.purger.Purge(ctx, isr.Purge{Targets: w.message.Targets, Hard: b.hard})
		})
	} else {
		for _, w := range b.members {
			w.outcome.Receipt, w.err = receipt, err
		}
	}
	d.record(b)
	d.findNotStored(b)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, w := range b.members {
		d.waiting--
		d.bytes -= w.message.size()
		delete(d.members, w.name)
		close(w.done)
	}
}

// record records the executed messages of a batch. Failures are logged: the messages are
// acknowledged, and would be purged again if they were delivered again.
func (d *Debouncer) record(b *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	var mu sync.Mutex
	var failures []error
	d.each(b, func(w *member) {
		if w.err != nil || w.name == "" {
			return
		}
		if err := d.past.add(ctx, w.name); err != nil {
			mu.Lock()
			defer mu.Unlock()
			failures = append(failures, err)
		}
	})
	if len(failures) > 0 {
		d.cfg.Logger.Warn("failed to record purged messages; they will be purged again if they are delivered again",
			"messages", len(failures), "error", failures[0])
	}
}

// findNotStored finds out of which pages of the executed messages none is stored. Failures are
// ignored: senders are told what is known.
func (d *Debouncer) findNotStored(b *batch) {
	ctx, cancel := context.WithTimeout(context.Background(), recordTime)
	defer cancel()
	d.each(b, func(w *member) {
		if w.err == nil {
			w.outcome.NotStored, _ = d.purger.NotStored(ctx, w.message.Targets)
		}
	})
}

// each calls f for all members of a batch, some of them concurrently.
func (d *Debouncer) each(b *batch, f func(*member)) {
	var g errgroup.Group
	g.SetLimit(concurrency)
	for _, w := range b.members {
		g.Go(func() error {
			f(w)
			return nil
		})
	}
	_ = g.Wait()
}

// Close commits the messages that wait, refuses others, and waits until ctx is done at most.
func (d *Debouncer) Close(ctx context.Context) error {
	d.mu.Lock()
	d.closed = true
	for _, b := range d.open {
		d.flushLocked(b)
	}
	d.mu.Unlock()
	done := make(chan struct{})
	go func() {
		d.commits.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(errors.New("purges of triggers are still in progress"), context.Cause(ctx))
	}
}
