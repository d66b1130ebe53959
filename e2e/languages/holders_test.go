package languages

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/vocabulary"
)

// shortLease is a lease duration that a test can wait for.
const shortLease = int64(3 * time.Second / time.Millisecond)

// A worker of each language is killed while it holds a lease and a request. Both are refused
// until they expire; then another language takes over both.
func killedHolders(t *testing.T, c *crew) {
	claimed := &claim{Key: "order", Inputs: sameInputs[0]}
	key := func(w *worker) string { return "site.test/orphan-of/" + w.language }
	ends := make([]int64, len(c.workers))
	for i, w := range c.workers {
		orphan := c.addWorker(t, w.language, "doomed")
		ends[i] = ask[lease](t, orphan, command{Do: "acquire", Key: key(w), LeaseMS: shortLease, Claim: claimed}).ExpiresAt
		orphan.kill()
	}
	for i, dead := range c.workers {
		heir, witness := c.after(i, 1), c.after(i, 2)
		errs := heir.takeOver(t, command{Do: "acquire", Key: key(dead), LeaseMS: longLease, Claim: claimed}, ends[i])
		for _, name := range errs {
			if name != "RequestInProgress" {
				t.Errorf("%s got %s before the lease of the killed worker expired", heir.language, name)
			}
		}
		witness.refuses(t, "RequestInProgress", command{Do: "acquire", Key: key(dead), LeaseMS: longLease, Claim: claimed})
		next := generation("inherited-from-"+dead.language, 600)
		ask[vocabulary.Entry](t, heir, command{Do: "publish", Key: key(dead), Entry: next})
		c.completed(t, key(dead), *next, func(int) *claim { return claimed })
	}
}

// takeOver retries the acquisition until it succeeds, which must not be before end, and returns
// the names of the errors until then.
func (w *worker) takeOver(t *testing.T, c command, end int64) (errs []string) {
	t.Helper()
	await(t, "the other worker's lease to expire", func() bool {
		r := w.try(t, c)
		if r.Error != "" {
			errs = append(errs, r.Error)
		}
		return r.Error == ""
	})
	if now := time.Now().Unix(); now < end {
		t.Errorf("%s took over at %d a lease that expires at %d", w.language, now, end)
	}
	return errs
}
