package fill

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/buffers"
	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/encoder"
	"github.com/facetheory/isr/internal/fleet"
	"github.com/facetheory/isr/internal/frequency"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/nodecache"
	"github.com/facetheory/isr/internal/offload"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/suspicion"
	"github.com/facetheory/isr/internal/variants"
	"github.com/facetheory/isr/store"
)

// A Policy is what fills use of the route of their page. It does not change; its functions are safe
// for concurrent use.
type Policy struct {
	Name     string // of the route, which entries tell; empty if it has none
	Label    string // of the route, for logs and observers
	Keys     *cachekey.Mapper
	View     *page.View
	Renderer http.Handler
	Budget   *budget.Budget // of the origin; never nil

	RenderTimeout time.Duration
	// Wait is how long visitors wait for a page that another process renders.
	Wait time.Duration
	// AwaitsNew: visitors of a stale page wait for the new one.
	AwaitsNew bool
	MaxBody   int64

	// Jitter is the largest part of a freshness window that is taken off it at random.
	Jitter float64
	// A freshness window of the route's own follows how often the page changes, within bounds, by
	// NextWindow. Both bounds are 0 if windows are fixed.
	MinWindow, MaxWindow time.Duration
	NextWindow           func(window, since time.Duration, changed bool) time.Duration

	ForeignStale  time.Duration // the stale window of entries of other services
	History       int           // how many earlier generations are kept
	MaxVariants   int           // how many variants that were learned a page may have
	StoreNegative bool          // negative answers are stored, also of pages that were not

	// Tags returns the tags that the route gives to a page; nil if it gives none.
	Tags func(*http.Request) []string
	// Judge decides by the header whether a response may be stored and shared. tags are the tags of
	// the route, and requested is when the response was requested.
	Judge  func(k store.Key, status int, h http.Header, tags []string, requested time.Time) httpcache.Verdict
	Reject suspicion.Rules // a suspicious response is quarantined, and does not become the next generation
	// ServableOnError reports whether an entry in a state may be served while the origin or the
	// store fails.
	ServableOnError func(e *store.Entry, state store.State, purges store.PurgeState, now time.Time) bool
	// Cacheable and Refused record what was learned of a page: that it is stored, or may be; that its
	// response must not be stored, for a reason.
	Cacheable func(store.Key)
	Refused   func(k store.Key, reason string)

	Renders *RecentTimes // of the pages of the route that this process has made, or found in the table
}

// Options are what an engine uses of its process. Functions are safe for concurrent use.
type Options struct {
	Meta     store.MetaStore
	Bodies   store.BodyStore
	Reader   *bodies.Reader
	Encoder  *encoder.Encoder
	Node     *nodecache.Cache
	Variants *variants.List
	Follower *changelog.Follower
	Sender   *offload.Sender // nil: pages are rendered by this process
	Peers    *fleet.Peers
	// AwaitLease asks a peer to say when it has ended its work on a page (see isr.Peers); nil if Peers
	// knows none.
	AwaitLease func(ctx context.Context, at netip.AddrPort, k store.Key) bool

	// Flights are the flights in progress, and Unpublished those that call no store.
	Flights, Unpublished *Flights
	// Closing ends when flights must end.
	Closing context.Context //nolint:containedctx // of all flights
	Go      func(func())    // starts a goroutine that the process awaits at its end

	Now       func() time.Time
	Random    func() uint64
	Below     func(n uint64) uint64 // draws a number in [0, n)
	Jitter    func(time.Duration) time.Duration
	NewToken  func() string
	Partition func(store.Key) string

	// StoreTimeout is how long visitors wait for the stores, and Lease how long a lease lasts.
	// Retention is how long an entry is kept beyond its windows. RenderTimeout is the longest of a
	// route that has none.
	StoreTimeout, Lease, Retention, RenderTimeout time.Duration
	MaxBody                                       int64
	Memory                                        *buffers.Budget // of bodies that are rendered or read
	Freezes                                       bool            // the process is frozen after its responses

	Uses    *frequency.Counter[store.Key] // nil: every page is stored
	MinUses int                           // how many uses of a page are needed, if Uses is not nil
	Full    func() bool                   // the stores have no room for another page
	Blind   func(now time.Time) bool      // pages must not be served without a look at the table

	// Begin, Joined and Note tell an observer of operations, of requests that join a flight, and of
	// events. All are nil if there is none.
	Begin  func(context.Context, Operation) (context.Context, func(Result))
	Joined func(work, request context.Context)
	Note   func(kind EventKind, reason string)

	Log                  *slog.Logger
	Complaints, Refusals *guard.Complaints // of stores, and of responses
}

// An Engine executes the fills of a process.
type Engine struct {
	Options
	lookUps chan struct{} // has an element for each read of a fill in progress (see maxLookUps)
	storing RecentTimes   // what leases took beyond the renders that they were for
	held    heldLeases
	log     renderLog
	// Rendering are the renders in progress, and queued the pages that wait for a turn at their origin.
	Rendering, Queued atomic.Int64
}

// New returns an engine of a process.
func New(o Options) *Engine {
	return &Engine{Options: o, lookUps: make(chan struct{}, maxLookUps), log: renderLog{logger: o.Log}}
}

// Start returns the flight of the fill's key, or starts one that runs the fill, which
// leader reports. It returns nil once the process closes.
func (e *Engine) Start(s *Fill) (f *Flight, leader bool) { return e.startIn(e.Flights, s, s.run) }

// Join is start for a request that waits for the flight.
func (e *Engine) Join(s *Fill) (f *Flight, leader bool) {
	f, leader = e.Start(s)
	e.joined(f, leader, s.Cause)
	return f, leader
}

// JoinUnpublished is join for a fill that calls no store.
func (e *Engine) JoinUnpublished(s *Fill) (f *Flight, leader bool) {
	f, leader = e.startIn(e.Unpublished, s, s.runUnpublished)
	e.joined(f, leader, s.Cause)
	return f, leader
}

// startIn is start for a group of flights, and for a fill that is executed by run.
func (e *Engine) startIn(all *Flights, s *Fill, run func(context.Context) Outcome) (f *Flight, leader bool) {
	return all.Join(s.Key, func() *Flight { return newFlight(s) }, func(f *Flight) {
		s.e, s.f, s.pk = e, f, e.Partition(s.Key)
		f.Outcome = s.observed(e.Closing, run)
	})
}

// SettleTime bounds what a cancelled flight still has to write.
const SettleTime = 5 * time.Second

// settling returns a context for writes after the flight was cancelled.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), SettleTime)
}

// maxBackOff is the longest pause after a failed render.
const maxBackOff = 30 * time.Second

// backOff is the pause after a number of failures in a row: exponential backoff from one
// second to half a minute, with jitter, so that servers and pages do not retry in step.
func (e *Engine) backOff(failures int) time.Duration {
	return e.Jitter(backoff.Exponential(time.Second, maxBackOff, failures))
}
