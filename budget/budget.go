// Package budget limits the load that the pages of one origin put on it: how many are
// rendered at once, how many wait for their turn, and how clients share the turns. A
// circuit breaker stops all renders while the origin keeps failing.
//
//	Enter ──► a turn is free: Begin ──► render ──► Leave
//	  │                         └──► the breaker is open: an *Error
//	  ├─────► a place in the queue, until Ready is closed: the turn has come, or
//	  │       the place went to a lighter client: Displaced
//	  └─────► the queue is full, and no client has more in it: an *Error
package budget

// The files:
//
//	budget.go             turns at the origin
//	queue.go, ranking.go  how clients share the turns
//	reserve.go            turns that are kept for requests that have just arrived
//	blame.go              which failures the circuit breaker counts

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sony/gobreaker/v2"
)

// A Config sets the limits of a [Budget]. The zero value is useful.
type Config struct {
	// Origin names the origin in the log.
	Origin string
	// Renders is how many pages are rendered at once. Zero means DefaultRenders, a
	// negative number no limit.
	Renders int
	// Queue is how many further pages wait for their turn. Regenerations of pages of which
	// a stale copy is served take at most half of it, and leave it first; pages that have
	// never rendered take at most three quarters. Zero means DefaultQueue, a negative
	// number no queue.
	//
	// If clients are distinguished, a turn goes to the client with the fewest renders in
	// progress. A client may use all that no other client wants, except a reserve of
	// turns: it gets no further turn if that leaves free less than a third of what it then
	// has, so that one client gets 12 of 16 turns, and the next one 3. A client whose
	// renders are quick gets the reserve, too. In a full queue a page of the client that
	// has most in it makes room for another client's page.
	Queue int
	// Failures is how many renders must fail in a row for the circuit breaker to open.
	// Connection errors and timeouts count, and error responses of pages that have
	// rendered before. Error responses of other pages do not count, since their URLs
	// may be invented. Of the failures of such pages that one client causes within a
	// second, one counts, unless the origin could not be connected to. A page that
	// fails repeatedly counts once: it has a back-off of its own. Zero means
	// DefaultFailures, a negative number that the breaker never opens.
	Failures int
	// Pause is how long the breaker stays open before one render probes the origin.
	// Zero or less means DefaultPause.
	Pause time.Duration
	// Logger records when the breaker opens and closes. Nil means slog.Default().
	Logger *slog.Logger
}

// Defaults of [Config].
const (
	// DefaultRenders is about what one application server handles at once: pages that
	// take 100 ms are rendered at 160 a second.
	DefaultRenders = 16
	// DefaultQueue is what such an origin renders in seconds, not minutes.
	DefaultQueue = 256
	// DefaultFailures is less than DefaultRenders, so that the breaker of an origin that
	// hangs opens after one render timeout, and more than the number of broken pages
	// that a site is likely to render one after the other.
	DefaultFailures = 10
	// DefaultPause bounds how long visitors get no new pages after the origin has
	// recovered. A dead origin gets one request in that time.
	DefaultPause = 5 * time.Second
)

// A Budget limits the renders at one origin in this process. Routes of one origin share
// one Budget. All methods are safe for concurrent use.
type Budget struct {
	renders, room int
	limit         int // of failures in a row
	log           *slog.Logger
	breaker       *gobreaker.TwoStepCircuitBreaker[struct{}]
	pause         time.Duration
	paused        atomic.Bool // see Pause

	// The breaker calls changed under its own lock, which locks mu: never call the
	// breaker while holding mu.
	mu         sync.Mutex
	rendering  int                        // guarded by mu: turns in use
	waiting    [classes]int               // guarded by mu: places in the queue
	rankings   [rankings]ranking          // guarded by mu: of clients
	lastKnown  bool                       // guarded by mu: the last turn of a visitor from the queue was a known page's
	clock      uint64                     // guarded by mu: counts the moments at which clients come or get turns
	clients    map[netip.Prefix]*client   // guarded by mu: clients that have turns or places
	young      list.List                  // guarded by mu: of *Turn, renders that are not slow, in the order in which they began
	stale      usage                      // guarded by mu: turns of regenerations
	defaulted  map[netip.Prefix]time.Time // guarded by mu: until when a client that held the reserve for long borrows nothing
	blamed     map[netip.Prefix]time.Time // guarded by mu: when a failure of a client counted last, since the last success
	complained time.Time                  // guarded by mu: when a client with a full share was logged last
	prober     netip.Prefix               // guarded by mu: the client whose probe was inconclusive last
	yieldsTill time.Time                  // guarded by mu: until when that client may not probe again
	reopens    time.Time                  // guarded by mu: when an open breaker lets a render through
}

// New returns a budget, to be shared by the routes of one origin.
func New(cfg Config) *Budget {
	b := &Budget{
		renders: limitOf(cfg.Renders, DefaultRenders, math.MaxInt),
		room:    limitOf(cfg.Queue, DefaultQueue, 0),
		limit:   limitOf(cfg.Failures, DefaultFailures, math.MaxInt),
		pause:   cfg.Pause,
		clients: make(map[netip.Prefix]*client),
		blamed:  make(map[netip.Prefix]time.Time),

		defaulted: make(map[netip.Prefix]time.Time),
		rankings:  newRankings(),
	}
	if b.pause <= 0 {
		b.pause = DefaultPause
	}
	log := cfg.Logger
	if log == nil {
		log = slog.Default()
	}
	b.log = log.With("origin", cfg.Origin)
	b.breaker = gobreaker.NewTwoStepCircuitBreaker[struct{}](gobreaker.Settings{
		Timeout:     b.pause,
		MaxRequests: 1,
		ReadyToTrip: func(n gobreaker.Counts) bool { return uint64(n.ConsecutiveFailures) >= uint64(b.limit) },
		IsExcluded:  func(err error) bool { return errors.Is(err, ErrNoVerdict) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			b.changed(from, to, b.log.With("failures", b.limit, "pause", b.pause))
		},
	})
	return b
}

// Unlimited returns a budget without limits.
func Unlimited() *Budget {
	return New(Config{Renders: -1, Failures: -1})
}

func limitOf(n, def, none int) int {
	switch {
	case n == 0:
		return def
	case n < 0:
		return none
	}
	return n
}

// changed is called by the breaker, under its lock. A failed probe is not logged.
func (b *Budget) changed(from, to gobreaker.State, log *slog.Logger) {
	switch to {
	case gobreaker.StateOpen:
		b.mu.Lock()
		b.reopens = time.Now().Add(b.pause)
		b.mu.Unlock()
		if from == gobreaker.StateClosed {
			log.Warn("the origin keeps failing, and its circuit breaker opens: stale pages are served")
		}
	case gobreaker.StateClosed:
		log.Info("the origin has recovered, and its circuit breaker closes")
	}
}

// An Error means that a page was not rendered, to protect the origin.
type Error struct {
	// Open: the circuit breaker is open. Otherwise too many pages wait, this one waited
	// for too long, or its place went to a lighter client.
	Open bool
	// Paused: an operator has stopped all renders (see [Budget.Pause]). Open is then true, too.
	Paused bool
	// RetryAfter is how long to wait before trying again.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
	if e.Paused {
		return "the site is in maintenance mode: its origin is not called"
	}
	if e.Open {
		return fmt.Sprintf("the origin's circuit breaker is open after too many failed renders, try again in %s", e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("too many pages wait for the origin, try again in %s", e.RetryAfter.Round(time.Millisecond))
}

// ErrNoVerdict is the verdict of a turn whose render counts neither for nor against the
// origin.
var ErrNoVerdict = errors.New("the origin was not called, or the render was cancelled")

// BusyRetry is the RetryAfter of a page that could not wait.
const BusyRetry = time.Second

// A Turn is the right to render one page, or a place in the queue for it. Its methods,
// except Charge and Await, are not safe for concurrent use.
type Turn struct {
	b     *Budget
	ready chan struct{}
	page  Page
	class class         // guarded by b.mu until ready is closed
	place *list.Element // guarded by b.mu: the place in the queue; nil once ready is closed
	payer netip.Prefix  // guarded by b.mu: the client that the turn is charged to; zero: none

	displaced bool          // the place is lost; set before ready is closed
	began     time.Time     // guarded by b.mu: when the turn came
	youth     *list.Element // guarded by b.mu: in b.young; nil once the render is slow
	borrowed  bool          // guarded by b.mu: the turn is of the reserve

	verdict func(error) // reports to the breaker, after Begin has succeeded; only the first call counts
	probe   bool        // the one render that probes the origin
	limit   *time.Timer // ends the probe of an unknown page; nil if there is none
}

// A Page describes a page for which a turn is taken.
type Page struct {
	Known    bool // it has rendered before
	Yielding bool // it is a regeneration: visitors get a stale copy, and no visitor waits
}

// Enter takes a turn, or a place in the queue. It is charged to the client, of those
// given, that uses least of the budget. The error is an [*Error].
func (b *Budget) Enter(p Page, clients ...netip.Prefix) (*Turn, error) {
	if err := b.Refusal(); err != nil {
		return nil, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &Turn{b: b, ready: make(chan struct{}), page: p, class: classOf(p)}
	for i, client := range clients {
		if i == 0 || b.loadLocked(client) < b.loadLocked(t.payer) {
			t.payer = client
		}
	}
	b.enqueueLocked(t)
	b.advanceLocked()
	if loser := b.loserLocked(t); loser != nil {
		b.complainLocked(loser)
		b.displaceLocked(loser)
	}
	if t.displaced {
		return nil, errBusy()
	}
	return t, nil
}

func errBusy() *Error { return &Error{RetryAfter: BusyRetry} }

// Ready is closed when the turn has come, or the place is lost (see Displaced).
func (t *Turn) Ready() <-chan struct{} { return t.ready }

// Displaced is called after Ready is closed. The error is an [*Error] if the place in the
// queue went to a page of a client that has less of the budget, or to one that a visitor
// waits for, and nil if the turn has come.
func (t *Turn) Displaced() error {
	if t.displaced {
		return errBusy()
	}
	return nil
}

// Begin is called once Ready is closed, before the render. The place may be lost, or the
// breaker may have opened while the page waited: then the error is an [*Error].
func (t *Turn) Begin() error {
	if err := t.Displaced(); err != nil {
		return err
	}
	b := t.b
	if b.paused.Load() {
		return errPaused()
	}
	if b.breaker.State() == gobreaker.StateHalfOpen && b.probedInVain(t) {
		return &Error{Open: true, RetryAfter: BusyRetry}
	}
	verdict, err := b.breaker.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		return b.openError()
	case err != nil: // another render is the probe
		return &Error{Open: true, RetryAfter: BusyRetry}
	}
	var once sync.Once
	t.verdict = func(err error) { once.Do(func() { verdict(err) }) }
	t.probe = b.breaker.State() == gobreaker.StateHalfOpen
	if t.probe && !t.page.Known {
		t.limit = time.AfterFunc(b.pause, t.giveWay)
	}
	return nil
}

// IsProbe reports whether this is the one render that probes the origin.
func (t *Turn) IsProbe() bool { return t.probe }

// Leave gives the turn, or the place, to the next page. verdict is nil if the origin
// answered, [ErrNoVerdict] if the render proves nothing about it, and otherwise its
// failure. Leave must be called exactly once.
func (t *Turn) Leave(verdict error) {
	b := t.b
	if t.limit != nil && t.limit.Stop() && errors.Is(verdict, ErrNoVerdict) {
		t.giveWay()
	}
	if t.verdict != nil {
		t.verdict(b.weigh(t, verdict))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case t.displaced:
		return
	case t.place != nil:
		b.dequeueLocked(t)
	default:
		b.endLocked(t)
	}
	b.advanceLocked()
}

func (b *Budget) openError() error {
	b.mu.Lock()
	left := time.Until(b.reopens)
	b.mu.Unlock()
	return &Error{Open: true, RetryAfter: min(max(left, BusyRetry), b.pause)}
}

// IsOpen reports whether the circuit breaker is open: renders are refused.
func (b *Budget) IsOpen() bool { return b.breaker.State() == gobreaker.StateOpen }

// Pause refuses all renders from now on, as an open circuit breaker does, or allows them again. Renders in progress
// go on. Requests of visitors do not reach the renderer either, except those for drafts.
func (b *Budget) Pause(on bool) { b.paused.Store(on) }

// IsPaused reports whether Pause has stopped all renders.
func (b *Budget) IsPaused() bool { return b.paused.Load() }

// Refusal returns why no render may begin now, whatever waits: an [*Error], or nil if one may.
func (b *Budget) Refusal() error {
	switch {
	case b.paused.Load():
		return errPaused()
	case b.IsOpen():
		return b.openError()
	}
	return nil
}

func errPaused() *Error { return &Error{Open: true, Paused: true, RetryAfter: BusyRetry} }
