package languages

import (
	"testing"

	"github.com/facetheory/isr/internal/vocabulary"
)

// A lease that one language takes all see, by its owner and its end, and none gets.
// When another has broken it, and a third has taken it, its holder can do nothing more,
// by whichever call it learns that.
func leases(t *testing.T, c *crew) {
	for i, holder := range c.workers {
		key := "site.test/held-by/" + holder.language
		for _, late := range []struct {
			do   string
			told string // empty: no error, as the lease is to be given up anyway
		}{{"refresh", "LeaseLost"}, {"publish", "LeaseLost"}, {"release", ""}, {"back_off", ""}} {
			by := c.held(t, holder, key)
			for n := 1; n < len(c.workers); n++ {
				c.after(i, n).isRefused(t, key, by)
			}
			breaker, next := c.after(i, 1), c.after(i, 2)
			breaker.does(t, command{Do: "break_lease", Key: key})
			by = c.held(t, next, key)
			holder.refuses(t, late.told, command{Do: late.do, Key: key, Entry: generation("late", 600), PauseMS: longLease})
			breaker.isRefused(t, key, by)
			published := ask[vocabulary.Entry](t, next, command{Do: "publish", Key: key, Entry: generation(next.language+"-"+late.do, 600)})
			c.expectCurrent(t, key, published, "fresh")
			if p := c.agree(t, key); p.Lock != nil {
				t.Errorf("a publish of %s left the lease %+v", next.language, p.Lock)
			}
		}
	}
}

// held has a worker take the lease, and expects all to see that.
func (c *crew) held(t *testing.T, w *worker, key string) lock {
	t.Helper()
	want := lock{Owner: w.owner, ExpiresAt: w.acquire(t, key, nil).ExpiresAt}
	if p := c.agree(t, key); p.Lock == nil || *p.Lock != want {
		t.Errorf("the lease of %s is read as %+v, want %+v", w.language, p.Lock, want)
	}
	return want
}

// isRefused expects the lease to be somebody's.
func (w *worker) isRefused(t *testing.T, key string, by lock) {
	t.Helper()
	r := w.refuses(t, "LeaseHeld", command{Do: "acquire", Key: key, LeaseMS: longLease})
	if got := (lock{r.Owner, r.ExpiresAt, r.Failures}); got != by {
		t.Errorf("%s is told that the lease is %+v, want %+v", w.language, got, by)
	}
}

// The pause after a failure of one language is kept by all, and the next holder, of
// whatever language, learns how many failed before.
func backOffs(t *testing.T, c *crew) {
	const key = "site.test/failing"
	for failed := range 2 * len(c.workers) {
		w := c.after(failed, 0)
		taken := w.acquire(t, key, nil)
		if taken.Failures != failed {
			t.Errorf("%s learns of %d failures, want %d", w.language, taken.Failures, failed)
		}
		w.does(t, command{Do: "back_off", Key: key, PauseMS: longLease})
		p := c.agree(t, key)
		if p.Lock == nil || p.Lock.Owner != "" || p.Lock.Failures != failed+1 {
			t.Fatalf("the back-off of %s is read as %+v, want %d failures and no owner", w.language, p.Lock, failed+1)
		}
		for n := range c.workers {
			c.after(failed, n).isRefused(t, key, *p.Lock)
		}
		c.set(t, pk(key), "LOCK", "lease_expires_at", number("1")) // the pause is over
	}
}
