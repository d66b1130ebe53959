package isr

import (
	"context"
	"fmt"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/breaker"
)

// readBuild finds the sequence at which this process's build of the site was deployed (see
// Config.Build). Older builds keep serving the pages of newer ones.
func (c *Cache) readBuild(ctx context.Context) error {
	if c.cfg.Build == "" || c.marks.build.Load() > 0 {
		return nil
	}
	seq, err := c.meta.Build(ctx, c.cfg.Build)
	if err != nil {
		return fmt.Errorf("reading the sequence of the build %q: %w", c.cfg.Build, err)
	}
	c.marks.build.Store(seq)
	return nil
}

// awaitBuild calls readBuild until it succeeds, for a cache that does not follow the log.
// Searches wait for the first call, so that no page of an older build is served as fresh.
func (c *Cache) awaitBuild(ctx context.Context) {
	for round := 0; ; round++ {
		err := c.readBuild(ctx)
		if round == 0 {
			close(c.follower.begun)
		}
		if err == nil {
			return
		}
		if round == 0 {
			c.log.Error("the pages of older builds count as fresh until the build can be read", "error", err)
		}
		if backoff.Wait(ctx, c.jitter(backoff.Exponential(breaker.FirstProbe, breaker.MaxProbe, round))) != nil {
			return
		}
	}
}
