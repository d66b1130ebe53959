package warm

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

// A Store claims periods. It is a part of [store.MetaStore].
type Store interface {
	Acquire(ctx context.Context, pk string, d time.Duration, claim *store.Claim) (store.Lease, error)
	Refresh(ctx context.Context, l store.Lease) error
	Release(ctx context.Context, l store.Lease) error
	BackOff(ctx context.Context, l store.Lease, d time.Duration) error
	EndRequest(ctx context.Context, l store.Lease, end store.RequestEnd) error
}

// Settings are a schedule. The zero value never runs.
type Settings struct {
	Sitemaps []string      // URLs of sitemaps and indexes; none: nothing is rendered
	Every    time.Duration // the length of a period
	Rate     float64       // how many pages are rendered a second, at most
	Pages    int           // how many pages of the sitemaps are looked at, at most
}

// Options are what a [Schedule] works with.
type Options struct {
	Store Store
	Pages Pages
	// Transport reads the sitemaps, and Serves reports whether a host is one of the site: others are skipped. Both
	// are called concurrently.
	Transport http.RoundTripper
	Serves    func(host string) bool
	// Ended is called at the end of each run.
	Ended func(Report)
	// Now is the wall clock. Nil means time.Now.
	Now func() time.Time
	// Random returns 64 random bits for jitter. Nil means rand.Uint64.
	Random func() uint64
	// Logger gets a line when a run begins and one when it ends, and at level debug one for each page that is not fresh.
	Logger *slog.Logger
}

const (
	partition = "WARM#"
	leaseTime = 30 * time.Second
	// jitterPart of a period, but at most longestJitter, is how late a server is at random.
	jitterPart    = 60
	longestJitter = 5 * time.Minute
	// firstPause and longestPause bound the exponential backoff of the fleet after runs that have failed.
	firstPause, longestPause = time.Minute, time.Hour
	// storePause is the wait after the store has failed.
	storePause = time.Minute
	// settleTime bounds what is written after a run was stopped.
	settleTime = 3 * time.Second
	// keepRecord is how long the record of a period is kept beyond the next one.
	keepRecord = 24 * time.Hour
)

// A Schedule runs in one server of those that know it. It is safe for concurrent use.
type Schedule struct {
	o Options

	mu       sync.Mutex
	settings Settings           // guarded by mu
	replaced context.CancelFunc // ends what follows the settings; nil before Run; guarded by mu
}

// New returns a schedule, which does nothing before Run.
func New(o Options, settings Settings) *Schedule {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Random == nil {
		o.Random = rand.Uint64
	}
	return &Schedule{o: o, settings: settings}
}

// Set replaces the settings. A run by other settings is stopped.
func (s *Schedule) Set(settings Settings) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if reflect.DeepEqual(s.settings, settings) {
		return
	}
	s.settings = settings
	if s.replaced != nil {
		s.replaced()
	}
}

// Run follows the settings until ctx is done. It is called once.
func (s *Schedule) Run(ctx context.Context) {
	for ctx.Err() == nil {
		following, cancel := context.WithCancel(ctx)
		s.mu.Lock()
		settings := s.settings
		s.replaced = cancel
		s.mu.Unlock()
		s.follow(following, settings)
		cancel()
	}
}

// follow claims the periods of the settings until ctx is done.
func (s *Schedule) follow(ctx context.Context, settings Settings) {
	if len(settings.Sitemaps) == 0 {
		<-ctx.Done()
		return
	}
	wait := time.Duration(0)
	for backoff.Wait(ctx, wait+s.jitter(settings)) == nil {
		wait = s.round(ctx, settings)
	}
}

func (s *Schedule) jitter(settings Settings) time.Duration {
	return backoff.FullJitter(min(settings.Every/jitterPart, longestJitter), s.o.Random())
}

// name is what the settings are to the servers of a table: servers with other sitemaps have periods of their own.
func (c Settings) name() [sha256.Size]byte {
	return sha256.Sum256([]byte(strings.Join(c.Sitemaps, "\n")))
}

// period returns the number of the period that a time is in, and how long it still lasts. Periods of different sites
// begin at different times.
func (c Settings) period(now time.Time) (number int64, left time.Duration) {
	name := c.name()
	phase := time.Duration(binary.BigEndian.Uint64(name[:]) % uint64(c.Every))
	since := time.Duration(now.UnixNano()) + phase
	return int64(since / c.Every), c.Every - since%c.Every
}

// round runs the present period, if no server has. It returns how long to wait.
func (s *Schedule) round(ctx context.Context, settings Settings) time.Duration {
	name := settings.name()
	number, left := settings.period(s.o.Now())
	ends := s.o.Now().Add(left)
	key := settings.Every.String() + "-" + strconv.FormatInt(number, 10)
	claim := &store.Claim{Key: key, Hash: hex.EncodeToString(name[:]), Keep: 2*settings.Every + keepRecord}
	acquired := time.Now()
	lease, err := s.o.Store.Acquire(ctx, partition+hex.EncodeToString(name[:]), leaseTime, claim)
	var held *store.HeldError
	switch {
	case errors.Is(err, store.ErrRequestCompleted):
		return left
	case errors.As(err, &held):
		return max(held.Lock.ExpiresAt.Sub(s.o.Now()), time.Second)
	case errors.Is(err, store.ErrRequestInProgress):
		return leaseTime
	case err != nil:
		if ctx.Err() == nil {
			s.o.Logger.Warn("failed to claim a run of warm", "error", err)
		}
		return storePause
	}
	working, stop := store.KeepLease(ctx, lease, acquired, s.o.Store.Refresh, s.o.Logger)
	report := s.run(working, settings)
	stop()
	s.o.Ended(report)
	if wait := s.settle(ctx, lease, report); report.Result() != Complete {
		return wait
	}
	return ends.Sub(s.o.Now()) // which may have passed
}

// settle records the end of a run. A crash before it is the same as a run that was stopped: the lease expires, and a server goes on.
// It returns how long to wait before another run of the period.
func (s *Schedule) settle(ctx context.Context, lease store.Lease, report Report) (wait time.Duration) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	end, give := store.RequestEnd{Result: &store.Entry{}}, s.o.Store.Release
	switch report.Result() {
	case Stopped:
		end = store.RequestEnd{Failure: report.Err.Error()}
	case Failed:
		end = store.RequestEnd{Failure: report.Err.Error()}
		wait = backoff.Jitter(backoff.Exponential(firstPause, longestPause, min(lease.Failures(), 30)), s.o.Random())
		give = func(ctx context.Context, l store.Lease) error { return s.o.Store.BackOff(ctx, l, wait) }
	}
	if err := errors.Join(s.o.Store.EndRequest(ctx, lease, end), give(ctx, lease)); err != nil {
		s.o.Logger.Warn("failed to record the end of a run of warm; its lease expires", "error", err)
	}
	return wait
}
