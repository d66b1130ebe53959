package isr

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
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// A policy is what fills use of the route of their page. It does not change; its functions are safe
// for concurrent use.
type policy struct {
	name     string // of the route, which entries tell; empty if it has none
	label    string // of the route, for logs and observers
	keys     *cachekey.Mapper
	present  *page.View
	renderer http.Handler
	budget   *budget.Budget // of the origin; never nil

	renderTimeout time.Duration
	// wait is how long visitors wait for a page that another process renders.
	wait time.Duration
	// waits: visitors of a stale page wait for the new one.
	waits   bool
	maxBody int64

	// jitter is the largest part of a freshness window that is taken off it at random.
	jitter float64
	// A freshness window of the route's own follows how often the page changes, within bounds, by
	// nextWindow. Both bounds are 0 if windows are fixed.
	minWindow, maxWindow time.Duration
	nextWindow           func(window, since time.Duration, changed bool) time.Duration

	foreignStale  time.Duration // the stale window of entries of other services
	history       int           // how many earlier generations are kept
	maxVariants   int           // how many variants that were learned a page may have
	storeNegative bool          // negative answers are stored, also of pages that were not
	rejectsText   bool          // the text of a body decides whether a generation is rejected

	// tags returns the tags that the route gives to a page; nil if it gives none.
	tags func(*http.Request) []string
	// judge decides by the header whether a response may be stored and shared. tags are the tags of
	// the route, and requested is when the response was requested.
	judge func(k store.Key, status int, h http.Header, tags []string, requested time.Time) httpcache.Verdict
	// rejects returns why a response is suspicious as the next generation; empty if it is not. current
	// is the generation that it is compared with, whose body stored reads; nil if there is none.
	rejects func(res *render.Response, current *store.Entry, stored func() ([]byte, error)) string
	// servableOnError reports whether an entry in a state may be served while the origin or the
	// store fails.
	servableOnError func(e *store.Entry, state store.State, purges store.PurgeState, now time.Time) bool
	// cacheable and refused record what was learned of a page: that it is stored, or may be; that its
	// response must not be stored, for a reason.
	cacheable func(store.Key)
	refused   func(k store.Key, reason string)

	renders *recentTimes // of the pages of the route that this process has made, or found in the table
}

// engineOptions are what an engine uses of its process. Functions are safe for concurrent use.
type engineOptions struct {
	Meta     store.MetaStore
	Bodies   store.BodyStore
	Reader   *bodies.Reader
	Encoder  *encoder.Encoder
	Node     *nodecache.Cache
	Follower *changelog.Follower
	Sender   *offload.Sender // nil: pages are rendered by this process
	Peers    *fleet.Peers
	// AwaitLease asks a peer to say when it has ended its work on a page (see isr.Peers); nil if Peers
	// knows none.
	AwaitLease func(ctx context.Context, at netip.AddrPort, k store.Key) bool

	// Flights are the flights in progress, and Unstored those that call no store.
	Flights, Unstored *flights
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
	// HasVariants reports whether a page may have variants.
	HasVariants func() bool

	// Hold records that a lease was acquired, which has replaced a lock, nil if none is known, and
	// returns what records its end.
	Hold func(k store.Key, label string, before *store.Lock) (release func(lost bool))
	// Stored notes a page that was stored. validated: its origin answered that the stored copy is valid.
	Stored func(k store.Key, e *store.Entry, validated bool, took time.Duration)

	// Begin, Joined and Note tell an observer of operations, of requests that join a flight, and of
	// events. All are nil if there is none.
	Begin  func(context.Context, operation) (context.Context, func(operationResult))
	Joined func(work, request context.Context)
	Note   func(kind, reason string)

	Log                  *slog.Logger
	Complaints, Refusals *guard.Complaints // of stores, and of responses
}

// An engine executes the fills of a process.
type engine struct {
	engineOptions
	crowded crowdedPages
	lookUps chan struct{} // has an element for each read of a fill in progress (see maxLookUps)
	storing recentTimes   // what leases took beyond the renders that they were for
	// rendering are the renders in progress, and queued the pages that wait for a turn at their origin.
	rendering, queued atomic.Int64
}

func newEngine(o engineOptions) *engine {
	return &engine{engineOptions: o, lookUps: make(chan struct{}, maxLookUps)}
}

// start returns the flight of the fill's key, or starts one that runs the fill, which
// leader reports. It returns nil once the process closes.
func (e *engine) start(s *fill) (f *flight, leader bool) { return e.startIn(e.Flights, s, s.run) }

// join is start for a request that waits for the flight.
func (e *engine) join(s *fill) (f *flight, leader bool) {
	f, leader = e.start(s)
	e.joined(f, leader, s.cause)
	return f, leader
}

// joinUnstored is join for a fill that calls no store.
func (e *engine) joinUnstored(s *fill) (f *flight, leader bool) {
	f, leader = e.startIn(e.Unstored, s, s.runUnstored)
	e.joined(f, leader, s.cause)
	return f, leader
}

// startIn is start for a group of flights, and for a fill that is executed by run.
func (e *engine) startIn(all *flights, s *fill, run func(context.Context) outcome) (f *flight, leader bool) {
	return all.Join(s.key, func() *flight { return newFlight(s) }, func(f *flight) {
		s.e, s.f, s.pk = e, f, e.Partition(s.key)
		f.outcome = s.observed(e.Closing, run)
	})
}

// settleTime bounds what a cancelled flight still has to write.
const settleTime = 5 * time.Second

// settling returns a context for writes after the flight was cancelled.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), settleTime)
}

// maxBackOff is the longest pause after a failed render.
const maxBackOff = 30 * time.Second

// backOff is the pause after a number of failures in a row: exponential backoff from one
// second to half a minute, with jitter, so that servers and pages do not retry in step.
func (e *engine) backOff(failures int) time.Duration {
	return e.Jitter(backoff.Exponential(time.Second, maxBackOff, failures))
}
