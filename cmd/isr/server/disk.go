package server

import (
	"context"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

// keepDisk keeps the embedded store within its bound until stop is called.
func (c *ServeCommand) keepDisk(ctx context.Context, st *Stores, cache *isr.Cache, m *metrics.Metrics) (stop func()) {
	if st.disk == nil {
		return func() {}
	}
	if c.Disk != nil {
		st.disk.SetBound(int64(*c.Disk))
	}
	return inBackground(ctx, func(ctx context.Context) {
		st.disk.Keep(ctx, embedded.KeepOptions{
			LastUses:  cache.LastUses,
			Evicted:   m.EvictedFromDisk,
			Collected: func(bytes int64) { m.Note(isr.Event{Kind: isr.EventCollected, Bytes: bytes}) },
		})
	})
}
