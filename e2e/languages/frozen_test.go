//go:build unix

package languages

import (
	"syscall"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/vocabulary"
)

// A heartbeat extends a lease beyond its duration. A frozen worker sends none: another language
// acquires the lease and publishes. After the thaw the former holder gets LeaseLost and can
// change nothing.
func frozenHolders(t *testing.T, c *crew) {
	key := func(w *worker) string { return "site.test/frozen/" + w.language }
	holders, ends := make([]*worker, len(c.workers)), make([]int64, len(c.workers))
	for i, w := range c.workers {
		holders[i] = c.addWorker(t, w.language, "frozen-"+w.language)
		ends[i] = ask[lease](t, holders[i], command{Do: "keep", Key: key(w), LeaseMS: shortLease}).ExpiresAt
	}
	for i, w := range c.workers {
		await(t, "the end of a lease that is kept", func() bool { return time.Now().Unix() > ends[i] })
		r := w.refuses(t, "LeaseHeld", command{Do: "acquire", Key: key(w), LeaseMS: longLease})
		if r.Owner != holders[i].owner || r.ExpiresAt <= ends[i] {
			t.Errorf("the lease of %s until %d is kept until %d, by %s", holders[i].owner, ends[i], r.ExpiresAt, r.Owner)
		}
		holders[i].signal(t, syscall.SIGSTOP)
	}
	for i, w := range c.workers {
		next := c.after(i, 1)
		next.takeOver(t, command{Do: "acquire", Key: key(w), LeaseMS: longLease}, ends[i])
		published := ask[vocabulary.Entry](t, next, command{Do: "publish", Key: key(w), Entry: generation("after-"+w.language, 600)})
		holders[i].signal(t, syscall.SIGCONT)
		holders[i].refuses(t, "LeaseLost", command{Do: "publish", Key: key(w), Entry: generation("late", 600)})
		holders[i].refuses(t, "LeaseLost", command{Do: "await_loss", Key: key(w)})
		c.expectCurrent(t, key(w), published, "fresh")
	}
}

// signal sends a signal to the process.
func (w *worker) signal(t *testing.T, s syscall.Signal) {
	t.Helper()
	if err := w.cmd.Process.Signal(s); err != nil {
		t.Fatalf("%s to the worker in %s: %v", s, w.language, err)
	}
}
