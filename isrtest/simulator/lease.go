package simulator

import (
	"errors"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
)

// A grant is one lease, known by its token.
type grant struct {
	token     string
	page      *page
	life      *life
	pause     bool      // a back-off row, not a lease
	at        time.Time // when its holder sent the Acquire
	step      int       // in which it was taken
	late      bool      // it was last taken by a request whose caller was gone
	request   string    // the sort key of its request record; empty if there is none
	published int       // number of publishes under it
	acked     bool      // a publish was acknowledged
	early     bool      // it was taken over by a node whose clock is ahead of the holder's
	told      time.Time // when its Acquire was acknowledged; zero before
}

// checkLock checks a change of LOCK. The call is nil for writes of other services.
func (w *world) checkLock(p *page, c *call, before, after *lock, metaChanged bool) {
	now := w.clockOf(c)
	if changed := (before == nil) != (after == nil) || before != nil && *before != *after; changed {
		p.lockMoved = time.Now()
	}
	switch {
	case before == nil && after == nil, before != nil && after != nil && *before == *after:
	case after == nil:
		if !metaChanged {
			w.checkGivenUp(p, c, before)
		}
	case before == nil || before.token != after.token:
		w.checkTaken(p, c, before, after, now)
	default:
		w.log("  LOCK of %s: %s until %+ds", p.path, w.trace.name("lease", after.token), w.seconds(after.expires))
		if w.holderOf(before) != c.life {
			w.violate("a lease is refreshed by its holder", "%s refreshed %s, which belongs to %s", c.life.name, w.trace.name("lease", before.token), w.holderName(before))
		}
		w.counts["heartbeat"]++
		w.checkPatience(c, w.grants[before.token])
		if before.expires <= w.earliestOf(c) {
			w.violate("an expired lease is not refreshed", "%s refreshed %s, which had expired %d s before by its clock", c.life.name, w.trace.name("lease", before.token), now-before.expires)
		}
	}
}

// checkPatience: a lease is extended for as long as its work may take, and no longer, even
// if calls hang.
func (w *world) checkPatience(c *call, g *grant) {
	longest := w.pace.of(renderTimeout) + storeTime + w.pace.margin
	if g == nil || g.told.IsZero() || c.at.Sub(g.told) <= longest {
		return
	}
	w.violate("a lease is released when its work hangs", "%s extends the lease of %s, which it has held for %.3fs",
		c.life.name, g.page.path, c.at.Sub(g.told).Seconds())
}

// storeTime bounds the store's calls under a lease, without the render.
const storeTime = 30 * time.Second

// checkTaken: a lease is taken only if it is free. Its holder may turn it into a back-off
// after a failure.
func (w *world) checkTaken(p *page, c *call, before, after *lock, now int64) {
	pause := after.owner == "" && after.failures > 0
	w.log("  LOCK of %s: %s until %+ds, %d failures", p.path, w.trace.name("lease", after.token), w.seconds(after.expires), after.failures)
	if pause {
		if before == nil || w.holderOf(before) != c.life {
			w.violate("only the holder turns a lease into a back-off", "%s did so to the lease of %s", c.life.name, w.holderName(before))
		}
	} else if before != nil && before.expires > now {
		w.violate("a lease is taken only if it has expired", "%s took the lease of %s, which had %d s left by its clock", c.life.name, w.holderName(before), before.expires-now)
	}
	if before != nil && !pause && w.holderOf(before) != nil {
		w.counts["takeover"]++
		w.grants[before.token].early = c.life.node.skew > w.holderOf(before).node.skew
	}
	g := w.grants[after.token]
	if g == nil {
		g = &grant{token: after.token, page: p, life: c.life, pause: pause, at: c.at, step: w.step}
		w.grants[after.token] = g
	}
	g.late = c.gone.Load() // the last request of an Acquire may arrive after the lease was taken, and given up
	if g.life != c.life || g.page != p {
		w.violate("a token belongs to one lease", "%s has %s, which belongs to %s", c.life.name, w.trace.name("lease", after.token), g.life.name)
	}
}

// checkAcquired: an Acquire that got the lease succeeds even if its reply was lost, and an
// Acquire that fails leaves no lease.
func (w *world) checkAcquired(e event) {
	if g := w.grants[e.token]; g != nil && e.err == nil {
		g.told = e.at
		e.life.pages[e.page].lease = g
		if w.lastRead(e.life, e.page) < len(e.page.history)-1 {
			w.counts["page changed before its lease was taken"]++
		}
	}
	held := e.page.rows.lock()
	if e.err == nil || held == nil || e.token == "" || held.token != e.token || w.grants[e.token].late || errors.Is(e.err, store.ErrUnknownOutcome) {
		return
	}
	w.violate("an Acquire that got the lease succeeds", "the Acquire of %s for %s failed (%s), but it holds the lease", e.life.name, e.page.path, summary(e.err))
}

// checkGivenUp: LOCK is deleted by a publish, or by its holder.
func (w *world) checkGivenUp(p *page, c *call, before *lock) {
	w.log("  LOCK of %s: deleted", p.path)
	if w.holderOf(before) != c.life {
		w.violate("a lease is released by its holder", "%s deleted the lease of %s", c.life.name, w.holderName(before))
	}
}

// checkRelease: no release follows an acknowledged publish: by then, another process may
// hold the lease.
func (w *world) checkRelease(p *page, c *call) {
	for _, v := range c.values {
		token, ok := v.(*types.AttributeValueMemberS)
		if !ok {
			continue
		}
		if g := w.grants[token.Value]; g != nil && g.acked && !c.gone.Load() {
			w.violate("nothing is released after a publish", "%s asked to delete the lock of %s after it had published %s", c.life.name, p.path, w.trace.name("lease", g.token))
		}
	}
}

// holderOf returns the process that took a lease; nil for a back-off row.
func (w *world) holderOf(l *lock) *life {
	if g := w.grants[l.token]; g != nil && !g.pause {
		return g.life
	}
	return nil
}

func (w *world) holderName(l *lock) string {
	if l == nil {
		return "no process"
	}
	if holder := w.holderOf(l); holder != nil {
		return holder.name
	}
	return "no process"
}

// clockOf returns what the caller's clock showed when it sent the request, in whole
// seconds. A retry is a call of its own.
func (w *world) clockOf(c *call) int64 { return c.at.Add(c.life.node.skew).Unix() }

// earliestOf returns the earliest time that the caller's clock may have shown.
func (w *world) earliestOf(c *call) int64 {
	return c.at.Add(c.life.node.skew - w.pace.margin).Unix()
}

// seconds converts a time of the table to seconds since the beginning, for the trace.
func (w *world) seconds(epoch int64) int64 { return epoch - w.began.Unix() }

// trueNow is the true time, without any node's skew.
func trueNow() int64 { return time.Now().Unix() }
