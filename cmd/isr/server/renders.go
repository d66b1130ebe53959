package server

import (
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
)

// RenderFlags configure when pages are rendered and the load on the origin. On the command
// line zero means none or no limit; in the library it means the default.
type RenderFlags struct {
	Policy       isr.Policy `default:"serve-stale" placeholder:"NAME" help:"Response while a page is not fresh: serve-stale, or wait (for the new page) (${default})."`
	EarlyRefresh float64    `default:"0" placeholder:"FACTOR" help:"Refresh popular pages shortly before they expire (XFetch beta; 1 is typical, 0 disables) (${default})."`
	Jitter       float64    `default:"0.05" placeholder:"PART" help:"Shorten each freshness window by a random part, at most this one, so that pages do not expire together; 0 to 0.5 (${default})."`

	RenderTimeout   cli.Span `default:"30s" placeholder:"TIME" help:"Time limit for the origin to render a page, at most 24h (${default})."`
	MaxBody         cli.Size `default:"16MiB" placeholder:"BYTES" help:"Largest page that is stored, at most 1GiB (${default})."`
	MaxHeader       cli.Size `default:"64KiB" placeholder:"BYTES" help:"Largest response header that is stored, 1KiB to 128KiB; each field counts for its name, its value and 32 bytes (${default})."`
	MaxTags         int      `default:"512" placeholder:"N" help:"How many purge tags a page may have, at most 2048 (${default})."`
	MaxRenders      int      `default:"16" placeholder:"N" help:"Concurrent renders at the origin; others queue; 0 means no limit (${default})."`
	BreakerFailures int      `default:"10" placeholder:"N" help:"Consecutive failures of different pages that open the circuit breaker of the origin for five seconds; 0 disables it (${default})."`
}

func (f *RenderFlags) validate() error {
	switch {
	case f.RenderTimeout <= 0:
		return cli.Usagef("--render-timeout must be more than 0 and at most 24h (got %s)", time.Duration(f.RenderTimeout))
	case f.MaxBody <= 0:
		return cli.Usagef("--max-body must be more than 0 and at most 1GiB (got %d bytes)", int64(f.MaxBody))
	case f.MaxHeader < 1<<10 || f.MaxHeader > 128<<10:
		return cli.Usagef("--max-header must be between 1KiB and 128KiB (got %d bytes)", int64(f.MaxHeader))
	case f.MaxTags < 1 || f.MaxTags > 2048:
		return cli.Usagef("--max-tags must be between 1 and 2048 (got %d)", f.MaxTags)
	case f.MaxRenders < 0:
		return cli.Usagef("--max-renders must not be negative (got %d); 0 means no limit", f.MaxRenders)
	case f.BreakerFailures < 0:
		return cli.Usagef("--breaker-failures must not be negative (got %d); 0 disables the circuit breaker", f.BreakerFailures)
	case f.Jitter < 0:
		return cli.Usagef("--jitter must be between 0 and 0.5 (got %v)", f.Jitter)
	}
	return nil
}

// config sets the fields of a cache configuration.
func (f *RenderFlags) config(cfg isr.Config) isr.Config {
	cfg.RenderTimeout = time.Duration(f.RenderTimeout)
	cfg.MaxBody, cfg.MaxHeader, cfg.MaxTags = int64(f.MaxBody), int64(f.MaxHeader), f.MaxTags
	return cfg
}
