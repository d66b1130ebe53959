package downstream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/store"
)

const (
	// maxRead is how many pending jobs are read at a time.
	maxRead = 1000
	// deliveryTime bounds a delivery, which may be several requests.
	deliveryTime = time.Minute
	// releaseTime bounds what is written after the worker was stopped or the lease lost.
	releaseTime = 3 * time.Second
	// firstDelay and longestDelay bound the exponential backoff of a job.
	firstDelay, longestDelay = time.Second, 5 * time.Minute
	// longestPause bounds the backoff of a destination: a job that fails again and again must not
	// delay the others by more.
	longestPause = 30 * time.Second
)

// A courier delivers the jobs of one destination.
type courier struct {
	name        string
	store       Store
	destination Destination
	config      Config
	woken       chan struct{}

	mu      sync.Mutex
	failure *Failure // nil while deliveries succeed; guarded by mu
}

// run delivers until ctx is done. A process that finds the lease held waits for its end.
func (c *courier) run(ctx context.Context) {
	for ctx.Err() == nil {
		wait := c.round(ctx)
		timer := time.NewTimer(backoff.Jitter(wait, c.config.Random()))
		select {
		case <-ctx.Done():
		case <-timer.C:
		case <-c.woken:
			// Purges come in bursts: those that follow are delivered together.
			_ = backoff.Wait(ctx, c.destination.Limits().Debounce)
		}
		timer.Stop()
	}
}

// round delivers what is due, if no other process does. It returns how long to wait.
func (c *courier) round(ctx context.Context) time.Duration {
	var jobs []store.Job
	err := c.store.Enqueue(ctx, c.name)
	if err == nil {
		jobs, err = c.store.PendingJobs(ctx, c.name, maxRead)
	}
	switch {
	case ctx.Err() != nil:
		return 0
	case err != nil:
		c.failed(fmt.Errorf("%w: %w", errUnread, err))
		return c.config.IdlePoll
	case len(jobs) == 0:
		c.succeeded() // another process has delivered them, or an operator has dropped them
		return c.config.IdlePoll
	case len(due(jobs, c.config.Now(), c.config.Delay(), false)) == 0:
		return c.config.Poll
	}
	acquired := time.Now()
	l, err := c.store.Acquire(ctx, store.OutboxPartition(c.name), c.config.Lease, nil)
	if held, ok := errors.AsType[*store.HeldError](err); ok {
		return min(max(held.Lock.ExpiresAt.Sub(c.config.Now()), c.config.Poll), c.config.IdlePoll)
	}
	if err != nil {
		if ctx.Err() == nil {
			c.failed(fmt.Errorf("%w: %w", errUnread, err))
		}
		return c.config.IdlePoll
	}
	held, stop := store.KeepLease(ctx, l, acquired, c.store.Refresh, c.config.Logger)
	pause := c.drain(held, l.Failures() > 0)
	stop()
	return c.giveUp(ctx, l, pause)
}

// giveUp ends the lease: for good, or for a pause that all processes respect.
func (c *courier) giveUp(ctx context.Context, l store.Lease, p pause) time.Duration {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	wait, end := c.config.Poll, c.store.Release
	if p.needed {
		mean := backoff.Exponential(firstDelay, longestPause, min(l.Failures(), 30))
		wait = max(p.atLeast, backoff.Jitter(mean, c.config.Random()))
		end = func(ctx context.Context, l store.Lease) error { return c.store.BackOff(ctx, l, wait) }
	}
	if err := end(ctx, l); err != nil {
		// Crashing here is the same: the lease expires.
		c.config.Logger.Warn("isr: failed to end the lease of a downstream cache; it expires", slog.String("destination", c.name), slog.Any("err", err))
	}
	return wait
}

// A pause is whether, and for how long at least, a destination is not to be used.
type pause struct {
	needed  bool
	atLeast time.Duration
}

// drain delivers under the lease until nothing is due, or a delivery fails. recovering:
// the latest delivery, by any process, failed; after the first success all jobs are due.
// works: a delivery has just succeeded.
func (c *courier) drain(ctx context.Context, recovering bool) pause {
	limits := c.destination.Limits()
	for works := false; ; {
		jobs, err := c.store.PendingJobs(ctx, c.name, maxRead)
		if err != nil {
			return pause{}
		}
		ready := due(jobs, c.config.Now(), c.config.Delay(), works && recovering)
		if len(ready) == 0 {
			return pause{}
		}
		batch := take(ready, limits.Targets, works)
		if err := c.deliver(ctx, batch); err != nil {
			if ctx.Err() != nil {
				return pause{} // stopped, or the lease is lost: another process delivers them
			}
			return c.refused(ctx, batch, err, works)
		}
		// If we crash here, the batch is delivered again.
		if err := c.store.FinishJobs(ctx, batch); err != nil {
			c.failed(fmt.Errorf("%w: %w", errUnread, err))
			return pause{needed: true}
		}
		c.succeeded()
		works = true
		if len(batch) == len(jobs) && len(jobs) < maxRead {
			return pause{}
		}
	}
}

// deliver delivers jobs, whose targets are merged.
func (c *courier) deliver(ctx context.Context, jobs []store.Job) error {
	ctx, cancel := context.WithTimeout(ctx, deliveryTime)
	defer cancel()
	for _, b := range merge(jobs) {
		if err := c.destination.Deliver(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// refused records a failed delivery with its jobs. works: another one has just succeeded.
func (c *courier) refused(ctx context.Context, jobs []store.Job, err error, works bool) pause {
	p, busy := pause{needed: true}, false
	if retry, ok := errors.AsType[*RetryError](err); ok {
		p.atLeast, busy = retry.After, retry.Busy
	}
	_, permanent := errors.AsType[*PermanentError](err)
	switch {
	case permanent && len(jobs) == 1:
		j := jobs[0]
		j.Attempts++
		return pause{needed: !c.fail(ctx, j, err)}
	case len(jobs) > 1 && (permanent || works && !busy):
		return c.isolate(ctx, jobs)
	}
	c.failed(err)
	if busy {
		return p // not the fault of the jobs
	}
	for _, j := range jobs {
		if !c.delay(ctx, j, err) {
			break
		}
	}
	return p
}

// delay records a failed attempt of a job, which is failed if it was the last one. It
// reports false if the outbox cannot be written.
func (c *courier) delay(ctx context.Context, j store.Job, reason error) bool {
	j.Attempts++
	if j.Attempts >= c.config.Attempts {
		return c.fail(ctx, j, fmt.Errorf("after %d attempts: %w", j.Attempts, reason))
	}
	j.Error = reason.Error()
	j.NextAt = c.config.Now().Add(backoff.Jitter(backoff.Exponential(firstDelay, longestDelay, min(j.Attempts-1, 30)), c.config.Random()))
	return c.store.DelayJob(ctx, j) == nil
}

// isolate delivers each job of a batch by itself, because one of them may be why the batch
// was refused.
func (c *courier) isolate(ctx context.Context, jobs []store.Job) pause {
	for _, j := range jobs {
		one := []store.Job{j}
		err := c.deliver(ctx, one)
		if err == nil {
			err = c.store.FinishJobs(ctx, one)
		}
		switch {
		case ctx.Err() != nil:
			return pause{}
		case err == nil:
			continue
		}
		if p := c.refused(ctx, one, err, false); p.needed {
			return p
		}
	}
	return pause{}
}

// fail makes a job a failed one. It reports false if the outbox cannot be written.
func (c *courier) fail(ctx context.Context, j store.Job, reason error) bool {
	j.Error, j.FailedAt = reason.Error(), c.config.Now()
	if err := c.store.FailJob(ctx, j); err != nil {
		c.failed(fmt.Errorf("%w: %w", errUnread, err))
		return false
	}
	c.config.Logger.Error("isr: a purge was not delivered; see isr outbox", slog.String("destination", c.name), slog.String("job", j.ID()), slog.Any("err", reason))
	return true
}

// failed notes that deliveries fail, and logs the begin of it.
func (c *courier) failed(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		c.failure = &Failure{Destination: c.name, Since: c.config.Now()}
		c.config.Logger.Warn("isr: deliveries of purges fail; they are retried", slog.String("destination", c.name), slog.Any("err", err))
	}
	c.failure.Err = err
}

// succeeded notes that deliveries succeed, and logs the end of a failure.
func (c *courier) succeeded() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure != nil {
		c.config.Logger.Info("isr: purges are delivered again", slog.String("destination", c.name), slog.Duration("after", c.config.Now().Sub(c.failure.Since)))
	}
	c.failure = nil
}

func (c *courier) failing() *Failure {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failure == nil {
		return nil
	}
	f := *c.failure
	return &f
}
