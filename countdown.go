package isr

import (
	"sync"
	"time"
)

// A countdown is how much longer the visitors of a flight wait for the stores. It runs
// only while a store is being called. A nil countdown never expires.
type countdown struct {
	expired func() // called once, when nothing is left

	mu    sync.Mutex
	left  time.Duration // guarded by mu
	since time.Time     // guarded by mu: when it was started; zero while it is stopped
	timer *time.Timer   // guarded by mu
}

// start runs the countdown: a store is being called.
func (c *countdown) start() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.since.IsZero() || c.left <= 0 {
		return
	}
	c.since = time.Now()
	c.timer = time.AfterFunc(c.left, c.expire)
}

func (c *countdown) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() || time.Since(c.since) < c.left {
		return // stop was called at the same moment
	}
	c.since, c.left = time.Time{}, 0
	c.expired()
}

// stop pauses the countdown: the flight waits for something other than a store.
func (c *countdown) stop() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.since.IsZero() {
		return
	}
	c.timer.Stop()
	c.left -= time.Since(c.since)
	c.since = time.Time{}
	if c.left <= 0 {
		c.left = 0
		c.expired()
	}
}

// reset starts over with d, unless nothing is left: the store has answered.
func (c *countdown) reset(d time.Duration) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left > 0 {
		c.left = d
	}
}
