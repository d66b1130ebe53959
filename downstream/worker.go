package downstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/facetheory/isr/store"
)

// A Store is what a [Worker] needs of the metadata store.
type Store interface {
	store.LeaseStore
	store.OutboxStore
}

// Config adjusts a [Worker]. Its zero value is useful.
type Config struct {
	// Poll is how often the outbox is read while it has jobs, and IdlePoll while it has
	// none: other processes write jobs too, and the process that was to deliver them may
	// have stopped. Defaults: 1 second and 10 seconds.
	Poll, IdlePoll time.Duration
	// Lease is how long a process that has crashed can delay deliveries, in whole
	// seconds. Default: 5 seconds.
	Lease time.Duration
	// Attempts is after how many failed deliveries a job is failed. Default: 100, which
	// takes about eight hours.
	Attempts int
	// Delay returns how old a job is at least when it is delivered first: as long as
	// servers of this site may serve what it purges because they have not read of it (see
	// [isr.Cache.StalenessBound]). A cache in front that asked one of them before would
	// keep the old page. It must be safe for concurrent use. Default: 0.
	//
	// [isr.Cache.StalenessBound]: https://pkg.go.dev/github.com/facetheory/isr#Cache.StalenessBound
	Delay func() time.Duration
	// Now is the wall clock. Default: [time.Now].
	Now func() time.Time
	// Random returns 64 random bits for jitter. It must be safe for concurrent use.
	// Default: [rand.Uint64].
	Random func() uint64
	// Logger gets one line when deliveries to a destination begin to fail, one when they
	// succeed again, and one for each job that is failed. Default: discarded.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	c.Poll, c.IdlePoll = cmp.Or(c.Poll, time.Second), cmp.Or(c.IdlePoll, 10*time.Second)
	c.Lease, c.Attempts = cmp.Or(c.Lease, 5*time.Second), cmp.Or(c.Attempts, 100)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Delay == nil {
		c.Delay = func() time.Duration { return 0 }
	}
	if c.Random == nil {
		c.Random = rand.Uint64
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// A Worker delivers the jobs of the outbox. Every process of a fleet runs one, with the
// same destinations; the lease of a destination decides which of them delivers. It is
// safe for concurrent use.
type Worker struct {
	names    []string
	couriers map[string]*courier
	running  sync.WaitGroup
	ctx      context.Context // of the deliveries
	stop     context.CancelFunc
}

// Start starts the worker of destinations, by their names (see [store.ValidDestination]).
// Callers must call Close.
func Start(s Store, destinations map[string]Destination, config Config) (*Worker, error) {
	w, err := New(s, destinations, config)
	if err == nil {
		w.Begin()
	}
	return w, err
}

// New returns the worker of Start, which delivers nothing before Begin: it may replace another one, which is
// closed first. Callers must call Close.
func New(s Store, destinations map[string]Destination, config Config) (*Worker, error) {
	names := slices.Sorted(maps.Keys(destinations))
	if err := store.ValidDestinations(names); err != nil {
		return nil, fmt.Errorf("downstream: %w", err)
	}
	config = config.withDefaults()
	ctx, stop := context.WithCancel(context.Background())
	w := &Worker{names: names, couriers: make(map[string]*courier), ctx: ctx, stop: stop}
	for _, name := range names {
		c := &courier{name: name, store: s, destination: destinations[name], config: config, woken: make(chan struct{}, 1)}
		w.couriers[name] = c
	}
	return w, nil
}

// Begin begins the deliveries. Call it once.
func (w *Worker) Begin() {
	for _, c := range w.couriers {
		w.running.Go(func() { c.run(w.ctx) })
	}
}

// Close stops the deliveries. One that is under way is cancelled: its jobs stay in the
// outbox.
func (w *Worker) Close() {
	w.stop()
	w.running.Wait()
}

// Destinations returns the names of the destinations, sorted: the Destinations of purges,
// rollbacks and pins.
func (w *Worker) Destinations() []string { return w.names }

// Wake delivers jobs that this process has just written, without waiting for the next poll
// of the outbox.
func (w *Worker) Wake() {
	for _, c := range w.couriers {
		select {
		case c.woken <- struct{}{}:
		default: // it is awake
		}
	}
}

// A Failure is a destination whose deliveries fail, as far as this process knows.
type Failure struct {
	Destination string
	Since       time.Time
	Err         error
}

// Failures returns the destinations whose deliveries by this process fail, by name.
func (w *Worker) Failures() []Failure {
	var all []Failure
	for _, name := range w.names {
		if f := w.couriers[name].failing(); f != nil {
			all = append(all, *f)
		}
	}
	return all
}

// errUnread is the cause of a failure to read or write the outbox.
var errUnread = errors.New("the outbox cannot be used")
