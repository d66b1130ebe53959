package main

import (
	"log/slog"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
)

// renderFlags say when pages are rendered, and how much of that the origin can
// bear. On the command line zero is none, where in the library it is the default.
type renderFlags struct {
	Policy       isr.Policy `default:"serve-stale" placeholder:"NAME" help:"What visitors get while a page is not fresh: serve-stale, wait (for the new page), or fail (with 503, if somebody else is making a page that they would have to wait for) (${default})."`
	EarlyRefresh float64    `default:"0" placeholder:"FACTOR" help:"Regenerate pages that are much asked for at a random moment before they expire; 1 means some renders' time before, 0 (the default) never."`
	Jitter       float64    `default:"0.05" placeholder:"PART" help:"Shorten freshness at random, by this part at most, so that pages do not expire together (${default}); 0 for not at all."`

	RenderTimeout   span `default:"30s" placeholder:"TIME" help:"How long the origin may take for a page (${default})."`
	MaxBody         size `default:"16MiB" placeholder:"BYTES" help:"Size of the largest page that is kept, at most 1GiB (${default})."`
	MaxRenders      int  `default:"16" placeholder:"N" help:"How many pages are asked of the origin at once (${default}); others wait their turn; 0 for any number."`
	BreakerFailures int  `default:"10" placeholder:"N" help:"After so many different pages failed in a row, ask the origin for none for five seconds (${default}); 0 for never."`
}

func (f *renderFlags) validate() error {
	switch {
	case f.RenderTimeout <= 0:
		return usagef("--render-timeout 0 leaves no time to render a page; give one like 30s")
	case f.MaxBody <= 0:
		return usagef("--max-body 0 keeps no page; give a size like 16MiB")
	case f.MaxRenders < 0:
		return usagef("--max-renders %d is negative; give a number, or 0 for any number at once", f.MaxRenders)
	case f.BreakerFailures < 0:
		return usagef("--breaker-failures %d is negative; give a number, or 0 for never", f.BreakerFailures)
	case f.Jitter < 0:
		return usagef("--jitter %v is negative; give a part like 0.05, or 0 for none", f.Jitter)
	}
	return nil
}

// route adds what they say to a route.
func (f *renderFlags) route(rt isr.Route) isr.Route {
	rt.Policy = f.Policy
	rt.EarlyRefresh = f.EarlyRefresh
	rt.Jitter = f.Jitter
	if rt.Jitter == 0 {
		rt.Jitter = -1
	}
	return rt
}

// config adds what they say to the settings of a cache.
func (f *renderFlags) config(cfg isr.Config) isr.Config {
	cfg.RenderTimeout = time.Duration(f.RenderTimeout)
	cfg.MaxBody = int64(f.MaxBody)
	return cfg
}

// budget is what is asked of an origin.
func (f *renderFlags) budget(origin string, log *slog.Logger) *budget.Budget {
	cfg := budget.Config{Origin: origin, Renders: f.MaxRenders, Failures: f.BreakerFailures, Logger: log}
	if cfg.Renders == 0 {
		cfg.Renders = -1
	}
	if cfg.Failures == 0 {
		cfg.Failures = -1
	}
	return budget.New(cfg)
}
