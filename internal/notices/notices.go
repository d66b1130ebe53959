package notices

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A Kind is what sort of problem there is.
type Kind string

// The kinds.
const (
	FailingPages Kind = "failing_pages" // renders of a route fail
	Quarantine   Kind = "quarantine"    // generations of a route were rejected
	Purges       Kind = "purges"        // purges do not reach a cache in front
	Certificates Kind = "certificates"  // one ends soon, or cannot be obtained
	Stores       Kind = "stores"        // one does not answer
	Queue        Kind = "queue"         // the queue of regenerations takes nothing
	Origins      Kind = "origins"       // the circuit breaker of one is open
	Scheme       Kind = "public_scheme" // trusted proxies contradict it
	Test         Kind = "test"          // a message that a person has asked for
)

// A Problem is what is wrong now.
type Problem struct {
	Kind Kind
	// Subject tells problems of a kind apart: a route, a host, the name of a destination. It does not change while the problem lasts.
	Subject string
	// Text is one line for people.
	Text string
	// Link is the path of the console that shows more, such as /-/#/failing; empty if there is none.
	Link string
}

func (p Problem) id() string { return string(p.Kind) + "/" + p.Subject }

// A State is what has become of a problem since it was told last.
type State string

// The states.
const (
	Begun     State = "begun"
	Continues State = "continues"
	Ended     State = "ended"
)

// A Notice is what is told of a problem.
type Notice struct {
	Problem
	State State
	Since time.Time // when this server saw the problem first
}

// A Message is what one delivery tells.
type Message struct {
	ID      string // of this delivery
	At      time.Time
	Server  string
	Notices []Notice // at least one
	More    int      // problems that are not listed
}

// A Destination takes messages. It is safe for concurrent use.
type Destination interface {
	// Send delivers a message. An error is a delivery that may succeed later: a [*RetryError] if its time is known.
	Send(ctx context.Context, m Message) error
}

// A RetryError is a failed delivery that is not to be tried again before a time has passed.
type RetryError struct {
	After time.Duration
	Err   error
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// A Receiver is a destination, and what it is told.
type Receiver struct {
	Destination Destination
	Only        []Kind // none: all
}

// Settings are what is told to whom. The zero value tells nothing.
type Settings struct {
	To     map[string]Receiver
	After  time.Duration // how long a problem lasts before it is told, and how long it is gone before its end is
	Repeat time.Duration // after which a problem that lasts is told again
}

// A Store claims what is told. It is a part of [store.MetaStore].
type Store interface {
	Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error)
	Release(ctx context.Context, l store.Lease) error
}

// Options are what a [Notifier] works with.
type Options struct {
	Store Store
	// Problems returns what is wrong now. It is called by one goroutine at a time.
	Problems func(ctx context.Context) []Problem
	// Sent is told of each delivery; err is nil if it succeeded.
	Sent   func(destination string, notices int, err error)
	Server string // the name of this server in messages
	Logger *slog.Logger
	Now    func() time.Time // the wall clock; nil: time.Now
	Random func() uint64    // nil: rand.Uint64
}

const (
	// look is how often problems are looked for.
	look = 10 * time.Second
	// spacing is the time between two messages to a destination, by any server.
	spacing = time.Minute
	// sendTime bounds a delivery, and claimTime what is written before and after it.
	sendTime, claimTime = 10 * time.Second, 10 * time.Second
	// firstPause and longestPause bound the exponential back-off of a destination.
	firstPause, longestPause = 10 * time.Second, 10 * time.Minute
	longestRetryAfter        = time.Hour
	// repeatMargin: leases last whole seconds.
	repeatMargin = 2 * time.Second
	// keepEnded is for how long the end of a problem is tried to be told.
	keepEnded = time.Hour
	// maxTracked bounds the problems that are remembered, and maxListed those in one message.
	maxTracked, maxListed = 100, 20
)

// A Notifier tells problems. It is safe for concurrent use.
type Notifier struct {
	o        Options
	settings atomic.Pointer[Settings]

	// These are of the goroutine of Run.
	tracked  map[string]*tracked // by the id of the problem
	couriers map[string]*courier // by the name of the destination
}

// A tracked problem is one that is there, or was.
type tracked struct {
	Problem
	since time.Time
	gone  time.Time       // since when it is gone; zero while it is there
	told  map[string]told // by the name of the destination
}

// told is what a destination knows of a problem.
type told struct {
	at    time.Time
	ours  bool        // this server has told it
	lease store.Lease // of the claim; nil if it is not ours, or the stores did not answer
}

// A courier is what is known of a destination.
type courier struct {
	next     time.Time // before which nothing is sent
	failures int       // deliveries in a row
}

// New returns a notifier, which does nothing before Run.
func New(o Options, settings Settings) *Notifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	n := &Notifier{o: o, tracked: make(map[string]*tracked), couriers: make(map[string]*courier)}
	n.Set(settings)
	return n
}

// Set replaces the settings. What was told stays told.
func (n *Notifier) Set(settings Settings) { n.settings.Store(&settings) }

// Run tells problems until ctx is done. It is called once.
func (n *Notifier) Run(ctx context.Context) {
	for backoff.Wait(ctx, backoff.Jitter(look, n.o.Random())) == nil {
		settings := n.settings.Load()
		if len(settings.To) == 0 {
			continue
		}
		n.track(n.o.Problems(ctx))
		for _, name := range slices.Sorted(maps.Keys(settings.To)) {
			n.serve(ctx, name, settings)
		}
		n.forget(settings)
	}
}

// track compares the problems with those that were there before.
func (n *Notifier) track(now []Problem) {
	at := n.o.Now()
	present := make(map[string]bool)
	for _, p := range now {
		id := p.id()
		present[id] = true
		t := n.tracked[id]
		if t == nil && len(n.tracked) >= maxTracked {
			continue
		}
		if t == nil {
			t = &tracked{since: at, told: make(map[string]told)}
			n.tracked[id] = t
		}
		t.Problem, t.gone = p, time.Time{}
	}
	for id, t := range n.tracked {
		if !present[id] && t.gone.IsZero() {
			t.gone = at
		}
	}
}

// forget forgets the problems that are gone, once their end was told to all who knew of them.
func (n *Notifier) forget(settings *Settings) {
	for id, t := range n.tracked {
		untold := 0
		for name, told := range t.told {
			if _, known := settings.To[name]; known && told.ours {
				untold++
			}
		}
		over := n.o.Now().Sub(t.gone)
		if !t.gone.IsZero() && (untold == 0 && over >= settings.After || over >= keepEnded) {
			delete(n.tracked, id)
		}
	}
}

// serve tells a destination what is due.
func (n *Notifier) serve(ctx context.Context, name string, settings *Settings) {
	c := n.couriers[name]
	if c == nil {
		c = &courier{}
		n.couriers[name] = c
	}
	now := n.o.Now()
	if now.Before(c.next) {
		return
	}
	due := n.due(name, settings, now)
	if len(due) == 0 {
		return
	}
	if until, free := n.reserve(ctx, name, now); !free {
		c.next = until
		return
	}
	due, leases := n.claim(ctx, name, due)
	if len(due) == 0 || ctx.Err() != nil {
		n.release(ctx, leases)
		return
	}
	err := n.send(ctx, name, settings.To[name].Destination, due)
	n.o.Sent(name, len(due), err)
	if err != nil {
		n.release(ctx, leases)
		n.failed(c, name, err)
		return
	}
	if c.failures > 0 {
		n.o.Logger.Info("notices are delivered again", "destination", name)
	}
	*c = courier{next: now.Add(spacing)}
	n.settle(ctx, name, settings, due, leases)
}

// failed notes a failed delivery, and logs the first one in a row.
func (n *Notifier) failed(c *courier, name string, err error) {
	wait := backoff.Jitter(backoff.Exponential(firstPause, longestPause, min(c.failures, 30)), n.o.Random())
	if retry, ok := errors.AsType[*RetryError](err); ok {
		wait = max(wait, min(retry.After, longestRetryAfter))
	}
	if c.failures++; c.failures == 1 {
		n.o.Logger.Warn("failed to deliver a notice; it is tried again", "destination", name, "error", err)
	}
	c.next = n.o.Now().Add(max(wait, spacing))
}

// due returns what a destination is to be told, the newest states of all problems, by kind and subject.
func (n *Notifier) due(name string, settings *Settings, now time.Time) (due []*tracked) {
	only := settings.To[name].Only
	for _, id := range slices.Sorted(maps.Keys(n.tracked)) {
		t := n.tracked[id]
		if len(only) > 0 && !slices.Contains(only, t.Kind) {
			continue
		}
		known, told := t.told[name]
		switch {
		case !t.gone.IsZero() && (!known.ours || now.Sub(t.gone) < settings.After):
		case t.gone.IsZero() && !told && now.Sub(t.since) < settings.After:
		case t.gone.IsZero() && told && now.Sub(known.at) < settings.Repeat+repeatMargin:
		default:
			due = append(due, t)
		}
	}
	return due
}

// state returns what a destination is told of a problem.
func (t *tracked) state(name string) State {
	_, known := t.told[name]
	switch {
	case !t.gone.IsZero():
		return Ended
	case known:
		return Continues
	}
	return Begun
}

// reserve reserves the next message to a destination for this server. If another one has sent a message within the spacing, it
// returns when to try again. If the stores do not answer, each server sends its own.
func (n *Notifier) reserve(ctx context.Context, name string, now time.Time) (until time.Time, free bool) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	_, err := n.o.Store.Acquire(ctx, partition(name, ""), spacing, nil) // it expires by itself
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		return later(held.Lock.ExpiresAt, now.Add(look)), false
	}
	return time.Time{}, true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// claim claims the problems for this server, and leaves out those that another one has told.
func (n *Notifier) claim(ctx context.Context, name string, due []*tracked) (ours []*tracked, leases map[*tracked]store.Lease) {
	ctx, cancel := context.WithTimeout(ctx, claimTime)
	defer cancel()
	leases = make(map[*tracked]store.Lease)
	for _, t := range due {
		if t.state(name) == Ended {
			ours = append(ours, t)
			continue
		}
		lease, err := n.o.Store.Acquire(ctx, partition(name, t.id()), spacing, nil)
		if _, held := errors.AsType[*store.HeldError](err); held {
			t.told[name] = told{at: n.o.Now()}
			continue
		}
		if err == nil {
			leases[t] = lease
		}
		ours = append(ours, t)
	}
	return ours, leases
}

// release gives claims back: nothing was told.
func (n *Notifier) release(ctx context.Context, leases map[*tracked]store.Lease) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
	defer cancel()
	for _, l := range leases {
		if l != nil {
			_ = n.o.Store.Release(ctx, l) // it expires
		}
	}
}

// settle notes what was told. A claim lasts until the problem is told again, or ends. If the server ends here, another one tells
// it once more.
func (n *Notifier) settle(ctx context.Context, name string, settings *Settings, sent []*tracked, claims map[*tracked]store.Lease) {
	over := make(map[*tracked]store.Lease)
	for _, t := range sent {
		if t.state(name) == Ended {
			over[t] = t.told[name].lease
			delete(t.told, name)
		}
	}
	n.release(ctx, over)
	n.release(ctx, claims)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), claimTime)
	defer cancel()
	for _, t := range sent {
		if !t.gone.IsZero() {
			continue
		}
		now := told{at: n.o.Now(), ours: true}
		if claims[t] != nil {
			if lease, err := n.o.Store.Acquire(ctx, partition(name, t.id()), settings.Repeat, nil); err == nil {
				now.lease = lease
			}
		}
		t.told[name] = now
	}
}

// send delivers one message of all that is due.
func (n *Notifier) send(ctx context.Context, name string, to Destination, due []*tracked) error {
	m := Message{At: n.o.Now(), Server: n.o.Server}
	identity := sha256.New()
	_, _ = fmt.Fprintln(identity, name, n.o.Server, m.At.UnixNano()) // a hash does not fail
	for i, t := range due {
		if i == maxListed {
			m.More = len(due) - maxListed
			break
		}
		m.Notices = append(m.Notices, Notice{Problem: t.Problem, State: t.state(name), Since: t.since})
	}
	m.ID = hex.EncodeToString(identity.Sum(nil)[:16])
	ctx, cancel := context.WithTimeout(ctx, sendTime)
	defer cancel()
	return to.Send(ctx, m)
}

// partition returns the partition of the claim of a problem for a destination, or of the next message to it.
func partition(destination, id string) string {
	sum := sha256.Sum256([]byte(destination + "\x00" + id))
	return "NOTICE#" + hex.EncodeToString(sum[:])
}
