package languages

import (
	"testing"

	"github.com/facetheory/isr/internal/vocabulary"
)

// A lease acquired by one language is visible to all, with its owner and expiry, and refused to
// all. After another has broken it and a third has acquired it, every call of the former holder
// fails or has no effect.
func leases(t *testing.T, c *crew) {
	for i, holder := range c.workers {
		key := "site.test/held-by/" + holder.language
		for _, late := range []struct {
			do   string
			told string // empty: no error, since these calls give the lease up
		}{{"refresh", "LeaseLost"}, {"publish", "LeaseLost"}, {"release", ""}, {"back_off", ""}} {
			by := c.held(t, holder, key)
			for n := 1; n < len(c.workers); n++ {
				c.after(i, n).expectHeld(t, key, by)
			}
			breaker, next := c.after(i, 1), c.after(i, 2)
			breaker.does(t, command{Do: "break_lease", Key: key})
			by = c.held(t, next, key)
			holder.refuses(t, late.told, command{Do: late.do, Key: key, Entry: generation("late", 600), PauseMS: longLease})
			breaker.expectHeld(t, key, by)
			published := ask[vocabulary.Entry](t, next, command{Do: "publish", Key: key, Entry: generation(next.language+"-"+late.do, 600)})
			c.expectCurrent(t, key, published, "fresh")
			if p := c.agree(t, key); p.Lock != nil {
				t.Errorf("after a publish of %s the lease is still %+v", next.language, p.Lock)
			}
		}
	}
}

// held has a worker acquire the lease, and expects all to see it.
func (c *crew) held(t *testing.T, w *worker, key string) lock {
	t.Helper()
	want := lock{Owner: w.owner, ExpiresAt: w.acquire(t, key, nil).ExpiresAt}
	if p := c.agree(t, key); p.Lock == nil || *p.Lock != want {
		t.Errorf("lease of %s: got %+v, want %+v", w.language, p.Lock, want)
	}
	return want
}

// expectHeld expects the acquisition to fail because by is held.
func (w *worker) expectHeld(t *testing.T, key string, by lock) {
	t.Helper()
	r := w.refuses(t, "LeaseHeld", command{Do: "acquire", Key: key, LeaseMS: longLease})
	if got := (lock{r.Owner, r.ExpiresAt, r.Failures}); got != by {
		t.Errorf("%s: LeaseHeld reports %+v, want %+v", w.language, got, by)
	}
}

// The back-off after a failure in one language is respected by all. The next holder, in any
// language, gets the failure count.
func backOffs(t *testing.T, c *crew) {
	const key = "site.test/failing"
	for failed := range 2 * len(c.workers) {
		w := c.after(failed, 0)
		taken := w.acquire(t, key, nil)
		if taken.Failures != failed {
			t.Errorf("%s: acquired with %d failures, want %d", w.language, taken.Failures, failed)
		}
		w.does(t, command{Do: "back_off", Key: key, PauseMS: longLease})
		p := c.agree(t, key)
		if p.Lock == nil || p.Lock.Owner != "" || p.Lock.Failures != failed+1 {
			t.Fatalf("back-off of %s: got %+v, want %d failures and no owner", w.language, p.Lock, failed+1)
		}
		for n := range c.workers {
			c.after(failed, n).expectHeld(t, key, *p.Lock)
		}
		c.set(t, pk(key), "LOCK", "lease_expires_at", number("1")) // the back-off has expired
	}
}
