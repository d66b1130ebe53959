package main

import (
	"time"

	"github.com/facetheory/isr"
)

// historyFlags say what is kept of the past, and how servers hear of changes to it.
type historyFlags struct {
	History     int  `default:"0" placeholder:"N" help:"How many generations of a page are kept for rollbacks, the current one counted, at most 100 (${default}: none)."`
	RequestLife span `default:"24h" placeholder:"TIME" help:"How long a request with an idempotency key is remembered (${default})."`
	Poll        span `default:"250ms" placeholder:"TIME" help:"How soon a rollback made by another server is seen, between 10ms and 5m (${default}); each look costs a read unit."`
}

func (f *historyFlags) validate() error {
	switch life, poll := time.Duration(f.RequestLife), time.Duration(f.Poll); {
	case life < time.Hour:
		return usagef("--request-life %s is too short; give a time between 1h and ten years, like 24h", life)
	case poll < 10*time.Millisecond || poll > 5*time.Minute:
		return usagef("--poll %s is no time between two looks; give one between 10ms and 5m, like 250ms", poll)
	}
	return nil
}

// collectEvery is how often an embedded store, which is one server's alone, is
// cleared of garbage.
const collectEvery = 24 * time.Hour

// config adds what they say to the settings of a cache on a store that may be
// embedded, and then shared with other programs.
func (f *historyFlags) config(cfg isr.Config, embedded, shared bool) isr.Config {
	cfg.RequestLife = time.Duration(f.RequestLife)
	cfg.Poll = time.Duration(f.Poll)
	if embedded {
		cfg.Collect = collectEvery
		if !shared {
			cfg.Poll = -1 // it sees what it does itself, and nobody else does anything
		}
	}
	return cfg
}
