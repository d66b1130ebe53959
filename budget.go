package isr

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

// A BudgetConfig says how much may be asked of an origin. The zero value is useful.
type BudgetConfig struct {
	// Origin names the origin in the log.
	Origin string
	// Renders is how many pages are rendered at once. Zero means DefaultRenders,
	// a negative number that there is no bound.
	Renders int
	// Queue is how many further pages wait for their turn. Pages of which a copy
	// is served meanwhile take at most half of it, so that a mass expiry leaves
	// room for those who have nothing to look at; pages that have never rendered take
	// at most three quarters. Zero means DefaultQueue, a negative number that none
	// does.
	//
	// Turns alternate between pages that have rendered before and others. Where
	// Route.Client tells clients apart, the turn goes to the client that has the fewest
	// pages rendered just now, and one client has at most half of Renders and a quarter
	// of Queue.
	Queue int
	// Failures is how many renders fail in a row before the origin is left alone.
	// Connection errors (see [OriginUnreachable]) and timeouts count, and error
	// answers of pages that have rendered before. Error answers of other pages do not,
	// since strangers can ask for any URL; and of failures of such pages that one client
	// causes within a second, one counts, unless the origin could not be connected
	// to. A page that fails again and again counts once: it has a back-off of its own.
	// Zero means DefaultBreakerFailures, a negative number never.
	Failures int
	// Pause is for how long the origin is left alone, before one render tries
	// whether it is well again. Zero or less means DefaultBreakerPause.
	Pause time.Duration
	// Logger is told when the origin is left alone, and when it is well again.
	// Nil means slog.Default().
	Logger *slog.Logger
}

// Defaults of [BudgetConfig].
const (
	// DefaultRenders is about what one application server works on at once;
	// pages that take 100 ms are rendered at 160 a second.
	DefaultRenders = 16
	// DefaultQueue is what such an origin works off in seconds, not minutes.
	DefaultQueue = 256
	// DefaultBreakerFailures is less than DefaultRenders, so that an origin that
	// hangs is left alone after one render timeout, and more than a site has
	// broken pages that are asked for one after the other.
	DefaultBreakerFailures = 10
	// DefaultBreakerPause is how long visitors go without new pages, at most,
	// once the origin is well again; it costs a dead one a request in that time.
	DefaultBreakerPause = 5 * time.Second
)

// A Budget bounds the work that the pages of one origin are to it, in this
// process: so many renders at once, the others in a queue; and none for a while
// after so many failed in a row. Routes of one origin share one. Requests that
// pass through are not counted and not held up. All methods are safe for
// concurrent use.
type Budget struct {
	renders, room int
	limit         int // of failures in a row
	log           *slog.Logger
	breaker       *gobreaker.TwoStepCircuitBreaker[struct{}]
	pause         time.Duration

	// mu is taken under the breaker's own lock when that changes its state: the
	// breaker is never called under mu.
	mu         sync.Mutex
	rendering  int                           // guarded by mu: turns that are taken
	queue      list.List                     // guarded by mu: of *turn, those that wait, in order of arrival
	unknown    int                           // guarded by mu: of these, pages that have never rendered
	lastKnown  bool                          // guarded by mu: the last turn that was waited for was a known page's
	clients    map[netip.Prefix]*clientShare // guarded by mu: those that have turns or places
	blamed     map[netip.Prefix]time.Time    // guarded by mu: when a failure of theirs counted last, since the last success
	complained time.Time                     // guarded by mu: of a client that has its whole share
	prober     netip.Prefix                  // guarded by mu: whose probe said nothing last
	yieldsTill time.Time                     // guarded by mu: until when that client lets others try
	reopens    time.Time                     // guarded by mu: when the breaker, if it is open, lets a render through
}

// NewBudget makes a budget, to be given to the routes of one origin.
func NewBudget(cfg BudgetConfig) *Budget {
	b := &Budget{
		renders: boundOf(cfg.Renders, DefaultRenders, math.MaxInt),
		room:    boundOf(cfg.Queue, DefaultQueue, 0),
		limit:   boundOf(cfg.Failures, DefaultBreakerFailures, math.MaxInt),
		pause:   cfg.Pause,
		clients: make(map[netip.Prefix]*clientShare),
		blamed:  make(map[netip.Prefix]time.Time),
	}
	if b.pause <= 0 {
		b.pause = DefaultBreakerPause
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
		IsExcluded:  func(err error) bool { return errors.Is(err, errNoVerdict) },
		OnStateChange: func(_ string, from, to gobreaker.State) {
			b.changed(from, to, b.log.With("failures", b.limit, "pause", b.pause))
		},
	})
	return b
}

// changed is told by the breaker, under its lock. A probe that fails is no news.
func (b *Budget) changed(from, to gobreaker.State, log *slog.Logger) {
	switch to {
	case gobreaker.StateOpen:
		b.mu.Lock()
		b.reopens = time.Now().Add(b.pause)
		b.mu.Unlock()
		if from == gobreaker.StateClosed {
			log.Warn("the origin fails, and is left alone: stale pages are served")
		}
	case gobreaker.StateClosed:
		log.Info("the origin is well again")
	}
}

// unlimited is the budget of a route that has none.
func unlimited() *Budget {
	return NewBudget(BudgetConfig{Renders: -1, Failures: -1})
}

func boundOf(n, def, none int) int {
	switch {
	case n == 0:
		return def
	case n < 0:
		return none
	}
	return n
}

// A BudgetError says that the origin was not asked for a page, to spare it.
type BudgetError struct {
	// Open: too many renders failed in a row. Otherwise too many pages wait, or
	// this one did for too long.
	Open bool
	// RetryAfter is when it is worth to try again, from now.
	RetryAfter time.Duration
}

func (e *BudgetError) Error() string {
	if e.Open {
		return fmt.Sprintf("too many renders failed in a row: the origin is left alone, try again in %s", e.RetryAfter.Round(time.Millisecond))
	}
	return fmt.Sprintf("too many pages wait for the origin, try again in %s", e.RetryAfter.Round(time.Millisecond))
}

// errNoVerdict: a turn ended without a word on whether the origin is well.
var errNoVerdict = errors.New("the origin was not asked, or not to the end")

// A turn is the right to ask the origin for one page, or a place in the queue for
// it. It belongs to one search; its methods are not for concurrent use.
type turn struct {
	b *Budget
	// ready is closed when the turn has come.
	ready chan struct{}
	place *list.Element // guarded by b.mu: the place in the queue, nil once the turn has come
	asker asker         // its client is guarded by b.mu

	verdict func(error) // tells the breaker, once begin has succeeded; only the first time counts
	probe   bool        // the one render that tries whether the origin is well again
	limit   *time.Timer // ends the probe of an unknown page; nil if it is none
}

// enter takes a turn, or a place in the queue, for the one of these clients that has
// the least, if there are any. The error is a *BudgetError.
func (b *Budget) enter(a asker, clients ...netip.Prefix) (*turn, error) {
	if b.breaker.State() == gobreaker.StateOpen {
		return nil, b.openError()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for i, client := range clients {
		if i == 0 || b.ofLocked(client).load() < b.ofLocked(a.client).load() {
			a.client = client
		}
	}
	t := &turn{b: b, ready: make(chan struct{}), asker: a}
	switch {
	case b.rendering < b.renders && b.mayRenderLocked(a.client):
		b.startLocked(t)
	case b.mayWaitLocked(a):
		b.queueLocked(t)
	default:
		b.complainLocked(a.client)
		return nil, errBusy()
	}
	return t, nil
}

// begin asks whether the origin may be asked, now that the turn has come: it may
// have failed while others waited. The error is a *BudgetError.
func (t *turn) begin() error {
	b := t.b
	if b.breaker.State() == gobreaker.StateHalfOpen && b.triedInVain(t) {
		return &BudgetError{Open: true, RetryAfter: busyRetry}
	}
	verdict, err := b.breaker.Allow()
	switch {
	case errors.Is(err, gobreaker.ErrOpenState):
		return b.openError()
	case err != nil: // another render is the probe
		return &BudgetError{Open: true, RetryAfter: busyRetry}
	}
	var once sync.Once
	t.verdict = func(err error) { once.Do(func() { verdict(err) }) }
	t.probe = b.breaker.State() == gobreaker.StateHalfOpen
	if t.probe && !t.asker.known {
		t.limit = time.AfterFunc(b.pause, t.giveWay)
	}
	return nil
}

// leave gives the turn, or the place, to the next. verdict is nil if the origin
// answered, errNoVerdict if that cannot be said, and otherwise its failure. It is
// to be called once.
func (t *turn) leave(verdict error) {
	b := t.b
	if t.limit != nil && t.limit.Stop() && errors.Is(verdict, errNoVerdict) {
		t.giveWay()
	}
	if t.verdict != nil {
		t.verdict(b.weigh(t, verdict))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if t.place != nil {
		b.unqueueLocked(t)
		b.tidyLocked(t.asker.client)
		return
	}
	b.rendering--
	if c := b.clients[t.asker.client]; c != nil {
		c.rendering--
		b.tidyLocked(t.asker.client)
	}
	b.advanceLocked()
}

// busyRetry is when it is worth to try again where nobody knows better.
const busyRetry = time.Second

func errBusy() error { return &BudgetError{RetryAfter: busyRetry} }

func (b *Budget) openError() error {
	b.mu.Lock()
	left := time.Until(b.reopens)
	b.mu.Unlock()
	return &BudgetError{Open: true, RetryAfter: min(max(left, busyRetry), b.pause)}
}
