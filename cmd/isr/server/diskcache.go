package server

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr/internal/disktier"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// defaultCacheSize is the size of the disk cache without --cache-size, in bytes.
const defaultCacheSize = 10 << 30

// cacheOnDisk puts the disk cache of --cache-dir in front of the bodies of stores that are open,
// which close it. A folder that cannot be used is a warning: the bucket has all bodies.
func (c *ServeCommand) cacheOnDisk(st *Stores, m *metrics.Metrics, log *slog.Logger) error {
	if c.CacheDir == "" {
		return nil
	}
	limit := int64(defaultCacheSize)
	if c.CacheSize != nil {
		limit = int64(*c.CacheSize)
	}
	tier, err := disktier.Open(c.CacheDir, limit, st.Bodies, m, log)
	switch {
	case errors.Is(err, disktier.ErrLocked):
		return fmt.Errorf("--cache-dir %s is used by another isr process; give each server a folder of its own", c.CacheDir)
	case err != nil:
		log.Warn("the disk cache cannot be used: bodies are read from the bucket", "error", err)
		return nil
	}
	st.Bodies = tier
	closeStores := st.Close
	st.Close = func() error { return errors.Join(tier.Close(), closeStores()) }
	return nil
}
