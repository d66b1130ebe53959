package server

import (
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
)

// historyFlags configure which generations are kept, and how servers learn of changes.
type historyFlags struct {
	History     int      `default:"0" placeholder:"N" help:"Generations of a page that are kept for rollbacks, including the current one, at most 100 (${default}: none)."`
	RequestLife cli.Span `default:"24h" placeholder:"TIME" help:"How long the record of a request with an idempotency key is kept, 1h to ten years (${default})."`
	Poll        cli.Span `default:"250ms" placeholder:"TIME" help:"Interval at which the log is read for changes by other servers, 10ms to 5m; each read costs one read unit (${default})."`

	MaxBlind cli.Span        `default:"10s" placeholder:"TIME" help:"How long a server that cannot read the log serves pages before --blind applies, 1s to 24h (${default})."`
	Blind    isr.BlindPolicy `default:"serve" placeholder:"NAME" help:"Response of a server that could not read the log for --max-blind: serve (what it has), or refuse (503) (${default})."`
}

func (f *historyFlags) validate() error {
	switch life, poll, blind := time.Duration(f.RequestLife), time.Duration(f.Poll), time.Duration(f.MaxBlind); {
	case life < time.Hour:
		return cli.Usagef("--request-life must be between 1h and ten years (got %s)", life)
	case poll < 10*time.Millisecond || poll > 5*time.Minute:
		return cli.Usagef("--poll must be between 10ms and 5m (got %s)", poll)
	case blind < time.Second || blind > 24*time.Hour:
		return cli.Usagef("--max-blind must be between 1s and 24h (got %s)", blind)
	}
	return nil
}

// collectEvery is the interval of garbage collection in an embedded store, which only one
// server uses.
const collectEvery = 24 * time.Hour

// config sets the fields of a cache configuration. An embedded store may be shared with
// other programs.
func (f *historyFlags) config(cfg isr.Config, embedded, shared bool) isr.Config {
	cfg.RequestLife = time.Duration(f.RequestLife)
	cfg.Poll = time.Duration(f.Poll)
	cfg.MaxBlind, cfg.Blind = time.Duration(f.MaxBlind), f.Blind
	if embedded {
		cfg.Collect = collectEvery
		if !shared {
			cfg.Poll = -1 // no other process changes the table
		}
	}
	return cfg
}

// deliveryDelay returns how long purges wait for the other servers of the table before
// they are delivered to the caches in front. The embedded store has one server.
func (c *ServeCommand) deliveryDelay(running *atomic.Pointer[isr.Cache]) func() time.Duration {
	return func() time.Duration {
		switch cache := running.Load(); {
		case c.Table == "":
			return 0
		case cache == nil:
			return time.Minute // starting
		default:
			return cache.StalenessBound()
		}
	}
}
