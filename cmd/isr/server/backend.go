package server

import (
	"context"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/peer"
	"github.com/facetheory/isr/trigger/queue"
)

// A backend is a cache on its stores, which serve, worker and lambda have behind them.
type backend struct {
	st         *Stores
	deliveries *deliveries // nil in a process that freezes
	cache      *isr.Cache  // callers close it before the backend
	digest     *digest
}

// openBackend opens the stores, begins deliveries to the downstream caches, and makes the cache.
// node may be nil; change, which may be nil, adjusts the configuration of the cache.
func (c *ServeCommand) openBackend(ctx context.Context, f *config.File, inst *instruments, node *peer.Node, change func(*isr.Config), log *slog.Logger) (_ *backend, err error) {
	b := new(backend)
	defer func() {
		if err != nil {
			b.close(log)
		}
	}()
	c.throttled, c.requests = inst.metrics.Throttled, inst.metrics.Requests
	if b.st, err = c.openStores(ctx, log); err != nil {
		return nil, err
	}
	if err := c.cacheOnDisk(b.st, inst.metrics, log); err != nil {
		return nil, err
	}
	var running atomic.Pointer[isr.Cache]
	names, err := c.Named()
	if err != nil {
		return nil, err
	}
	var deliveries isr.Downstream = names
	if !c.freezes {
		if b.deliveries, err = startDeliveries(ctx, &c.downstreamFlags, b.st.Meta, c.deliveryDelay(&running), log); err != nil {
			return nil, err
		}
		deliveries = b.deliveries
	}
	b.digest = newDigest(c, f)
	cfg := c.config(b.st, deliveries, b.digest, log)
	cfg.Observer = inst.observer()
	if node != nil {
		cfg.Peers = node
	}
	if c.RegenerateQueue != "" {
		client, err := c.SQS(ctx, "--regenerate-queue", c.RegenerateQueue, log)
		if err != nil {
			return nil, err
		}
		cfg.Queue = queue.NewSender(client, c.RegenerateQueue, time.Now)
	}
	if change != nil {
		change(&cfg)
	}
	if b.cache, err = isr.New(b.st.Meta, b.st.Bodies, cfg); err != nil {
		return nil, flagErrors(err)
	}
	running.Store(b.cache)
	return b, nil
}

// close ends the deliveries, and closes the stores.
func (b *backend) close(log *slog.Logger) {
	if b.deliveries != nil {
		b.deliveries.close()
	}
	if b.st == nil {
		return
	}
	// Acknowledged writes are already on disk.
	if err := b.st.Close(); err != nil {
		log.Error("failed to close store", "error", err)
	}
}
