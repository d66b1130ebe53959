// Package budget limits the load that the pages of one origin put on it: how many are
// rendered at once, how many wait for their turn, and how clients share the turns. A
// circuit breaker stops all renders while the origin keeps failing.
//
//	Enter ──► a turn is free: Begin ──► render ──► Leave
//	  │                         └──► the breaker is open: an *Error
//	  ├─────► a place in the queue, until Ready is closed
//	  └─────► the queue, or the client's share of it, is full: an *Error
package budget

import (
	"container/list"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync"
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
	// Queue is how many further pages wait for their turn. Pages of which a stale copy
	// is served meanwhile take at most half of it, so that a mass expiry leaves room
	// for missing pages; pages that have never rendered take at most three quarters.
	// Zero means DefaultQueue, a negative number no queue.
	//
	// Turns alternate between pages that have rendered before and others. If clients
	// are distinguished, a turn goes to the client with the fewest renders in progress,
	// and one client has at most half of Renders and a quarter of Queue.
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

	// The breaker calls changed under its own lock, which locks mu: never call the
	// breaker while holding mu.
	mu         sync.Mutex
	rendering  int                           // guarded by mu: turns in use
	queue      list.List                     // guarded by mu: of *Turn, those that wait, in order of arrival
	unknown    int                           // guarded by mu: pages in the queue that have never rendered
	lastKnown  bool                          // guarded by mu: the last turn from the queue was a known page's
	clients    map[netip.Prefix]*clientShare // guarded by mu: clients that have turns or places
	blamed     map[netip.Prefix]time.Time    // guarded by mu: when a failure of a client counted last, since the last success
	complained time.Time                     // guarded by mu: when a client with a full share was logged last
	prober     netip.Prefix                  // guarded by mu: the client whose probe was inconclusive last
	yieldsTill time.Time                     // guarded by mu: until when that client may not probe again
	reopens    time.Time                     // guarded by mu: when an open breaker lets a render through
}

// New returns a budget, to be shared by the routes of one origin.
func New(cfg Config) *Budget {
	b := &Budget{
		renders: limitOf(cfg.Renders, DefaultRenders, math.MaxInt),
		room:    limitOf(cfg.Queue, DefaultQueue, 0),
		limit:   limitOf(cfg.Failures, DefaultFailures, math.MaxInt),
		pause:   cfg.Pause,
		clients: make(map[netip.Prefix]*clientShare),
		blamed:  make(map[netip.Prefix]time.Time),
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

// An Error says that a page was not rendered, to protect the origin.
type Error struct {
	// Open: the circuit breaker is open. Otherwise too many pages wait, or this one
	// waited for too long.
	Open bool
	// RetryAfter is how long to wait before trying again.
	RetryAfter time.Duration
}

func (e *Error) Error() string {
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
// except Charge, are not safe for concurrent use.
type Turn struct {
	b     *Budget
	ready chan struct{}
	place *list.Element // guarded by b.mu: the place in the queue, nil once the turn has come
	page  Page
	payer netip.Prefix // guarded by b.mu: the client that the turn is charged to; zero: none

	verdict func(error) // reports to the breaker, after Begin has succeeded; only the first call counts
	probe   bool        // the one render that probes the origin
	limit   *time.Timer // ends the probe of an unknown page; nil without
}

// A Page describes a page for which a turn is taken.
type Page struct {
	Known    bool // it has rendered before
	Yielding bool // a stale copy is served meanwhile, so that missing pages come first
}

// Enter takes a turn, or a place in the queue. It is charged to the client, of those
// given, that uses least of the budget. The error is an [*Error].
func (b *Budget) Enter(p Page, clients ...netip.Prefix) (*Turn, error) {
	if b.IsOpen() {
		return nil, b.openError()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	t := &Turn{b: b, ready: make(chan struct{}), page: p}
	for i, client := range clients {
		if i == 0 || b.shareLocked(client).load() < b.shareLocked(t.payer).load() {
			t.payer = client
		}
	}
	switch {
	case b.rendering < b.renders && b.mayRenderLocked(t.payer):
		b.startLocked(t)
	case b.mayWaitLocked(p, t.payer):
		b.enqueueLocked(t)
	default:
		b.complainLocked(t.payer)
		return nil, &Error{RetryAfter: BusyRetry}
	}
	return t, nil
}

// Ready is closed when the turn has come.
func (t *Turn) Ready() <-chan struct{} { return t.ready }

// Begin is called once the turn has come, before the render. The breaker may have opened
// while the page waited: then the error is an [*Error].
func (t *Turn) Begin() error {
	b := t.b
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
// answered, [ErrNoVerdict] if the render says nothing about it, and otherwise its
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
	if t.place != nil {
		b.dequeueLocked(t)
		b.tidyLocked(t.payer)
		return
	}
	b.rendering--
	if c := b.clients[t.payer]; c != nil {
		c.rendering--
		b.tidyLocked(t.payer)
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
