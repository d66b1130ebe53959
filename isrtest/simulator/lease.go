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
	pause     bool      // not a lease but what a failure left
	at        time.Time // when its holder asked for it
	step      int       // in which it was taken
	late      bool      // by a request whose caller was gone
	request   string    // the sort key of the request that it is for; empty for none
	published int       // how often its holder has published
	acked     bool      // and was told so
	early     bool      // somebody took it whose clock is ahead of the holder's
	told      time.Time // when its holder was told that it has it; zero before
}

// checkLock holds what became of LOCK against what its rules allow. The call is
// nil for what other services wrote.
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
			w.violate("a lease is refreshed by its holder", "%s refreshed %s, which is %s's", c.life.name, w.trace.name("lease", before.token), w.holderName(before))
		}
		w.counts["heartbeat"]++
		w.checkPatience(c, w.grants[before.token])
		if before.expires <= w.earliestOf(c) {
			w.violate("a lease that has ended stays so", "%s refreshed %s, which had ended %d s before by its clock", c.life.name, w.trace.name("lease", before.token), now-before.expires)
		}
	}
}

// checkPatience: a lease is extended for as long as its work may take, and no longer,
// whatever hangs.
func (w *world) checkPatience(c *call, g *grant) {
	longest := w.pace.of(renderTimeout) + storeTime + w.pace.margin
	if g == nil || g.told.IsZero() || c.at.Sub(g.told) <= longest {
		return
	}
	w.violate("a lease is given up when its work does not get on", "%s extends that of %s, which it has had for %.3fs",
		c.life.name, g.page.path, c.at.Sub(g.told).Seconds())
}

// storeTime is what the calls of the stores under a lease may take, beside the render.
const storeTime = 30 * time.Second

// checkTaken: a lease is taken if nobody has it, or becomes the pause after a
// failure by its holder.
func (w *world) checkTaken(p *page, c *call, before, after *lock, now int64) {
	pause := after.owner == "" && after.failures > 0
	w.log("  LOCK of %s: %s until %+ds, %d failures", p.path, w.trace.name("lease", after.token), w.seconds(after.expires), after.failures)
	if pause {
		if before == nil || w.holderOf(before) != c.life {
			w.violate("only the holder turns a lease into a back-off", "%s did so to that of %s", c.life.name, w.holderName(before))
		}
	} else if before != nil && before.expires > now {
		w.violate("a lease is taken only if it has ended", "%s took that of %s, which had %d s left by its clock", c.life.name, w.holderName(before), before.expires-now)
	}
	if before != nil && !pause && w.holderOf(before) != nil {
		w.counts["takeover"]++
		w.grants[before.token].early = c.life.node.skew > w.holderOf(before).node.skew
	}
	g := w.grants[after.token]
	if g == nil {
		g = &grant{token: after.token, page: p, life: c.life, pause: pause, at: c.at, step: w.step, late: c.gone.Load()}
		w.grants[after.token] = g
	}
	if g.life != c.life || g.page != p {
		w.violate("a token is one lease's", "%s has %s, which is %s's", c.life.name, w.trace.name("lease", after.token), g.life.name)
	}
}

// checkAcquired: a process that has got the lease is told so, though the reply to its
// request was lost; and one that is told that it has not leaves nothing behind.
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
	w.violate("who has the lease is told so", "%s was told that it does not have that of %s (%s), and it has", e.life.name, e.page.path, summary(e.err))
}

// checkGivenUp: LOCK goes with a publish, or by its holder.
func (w *world) checkGivenUp(p *page, c *call, before *lock) {
	w.log("  LOCK of %s: gone", p.path)
	if w.holderOf(before) != c.life {
		w.violate("a lease is given up by its holder", "%s deleted that of %s", c.life.name, w.holderName(before))
	}
}

// checkRelease: nothing is released after a publish that was acknowledged; by
// then the row may be somebody else's.
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

// holderOf is who took a lease; nil for a pause, which is nobody's.
func (w *world) holderOf(l *lock) *life {
	if g := w.grants[l.token]; g != nil && !g.pause {
		return g.life
	}
	return nil
}

func (w *world) holderName(l *lock) string {
	if l == nil {
		return "nobody"
	}
	if holder := w.holderOf(l); holder != nil {
		return holder.name
	}
	return "nobody"
}

// clockOf is what the caller's clock showed when it made the request, in whole
// seconds. A request that is made again is a call of its own.
func (w *world) clockOf(c *call) int64 { return c.at.Add(c.life.node.skew).Unix() }

// earliestOf is what the caller's clock showed at least.
func (w *world) earliestOf(c *call) int64 {
	return c.at.Add(c.life.node.skew - w.pace.margin).Unix()
}

// seconds is a time of the table since the beginning, for the trace.
func (w *world) seconds(epoch int64) int64 { return epoch - w.began.Unix() }

// trueNow is the time that no clock of a node shows.
func trueNow() int64 { return time.Now().Unix() }
