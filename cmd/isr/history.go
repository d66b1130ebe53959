package main

import (
	"time"

	"github.com/facetheory/isr"
)

// historyFlags configure which generations are kept, and how servers learn of changes.
type historyFlags struct {
	History     int  `default:"0" placeholder:"N" help:"Generations of a page that are kept for rollbacks, including the current one, at most 100 (${default}: none)."`
	RequestLife span `default:"24h" placeholder:"TIME" help:"How long the record of a request with an idempotency key is kept, 1h to ten years (${default})."`
	Poll        span `default:"250ms" placeholder:"TIME" help:"Interval at which the log is read for changes by other servers, 10ms to 5m; each read costs one read unit (${default})."`
}

func (f *historyFlags) validate() error {
	switch life, poll := time.Duration(f.RequestLife), time.Duration(f.Poll); {
	case life < time.Hour:
		return usagef("--request-life must be between 1h and ten years (got %s)", life)
	case poll < 10*time.Millisecond || poll > 5*time.Minute:
		return usagef("--poll must be between 10ms and 5m (got %s)", poll)
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
	if embedded {
		cfg.Collect = collectEvery
		if !shared {
			cfg.Poll = -1 // no other process changes the table
		}
	}
	return cfg
}
