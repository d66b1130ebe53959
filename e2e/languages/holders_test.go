package languages

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/vocabulary"
)

// shortLease is one whose end a test waits for.
const shortLease = int64(3 * time.Second / time.Millisecond)

// A worker of each language is killed while it holds a lease and a request. Nobody
// takes them over before they have ended; then another language takes over both.
func killedHolders(t *testing.T, c *crew) {
	claimed := &claim{Key: "order", Inputs: sameInputs[0]}
	key := func(w *worker) string { return "site.test/orphan-of/" + w.language }
	ends := make([]int64, len(c.workers))
	for i, w := range c.workers {
		orphan := c.hire(t, w.language, "doomed")
		ends[i] = ask[lease](t, orphan, command{Do: "acquire", Key: key(w), LeaseMS: shortLease, Claim: claimed}).ExpiresAt
		orphan.kill()
	}
	for i, dead := range c.workers {
		heir, witness := c.after(i, 1), c.after(i, 2)
		told := heir.takeOver(t, command{Do: "acquire", Key: key(dead), LeaseMS: longLease, Claim: claimed}, ends[i])
		for _, name := range told {
			if name != "RequestInProgress" {
				t.Errorf("%s is told %s, before the lease of a dead worker has ended", heir.language, name)
			}
		}
		witness.refuses(t, "RequestInProgress", command{Do: "acquire", Key: key(dead), LeaseMS: longLease, Claim: claimed})
		next := generation("inherited-from-"+dead.language, 600)
		ask[vocabulary.Entry](t, heir, command{Do: "publish", Key: key(dead), Entry: next})
		c.completed(t, key(dead), *next, func(int) *claim { return claimed })
	}
}

// takeOver acquires as soon as it may, which is not before this second, and returns the
// names of what it was told until then.
func (w *worker) takeOver(t *testing.T, c command, end int64) (told []string) {
	t.Helper()
	await(t, "the lease of another to end", func() bool {
		r := w.try(t, c)
		if r.Error != "" {
			told = append(told, r.Error)
		}
		return r.Error == ""
	})
	if now := time.Now().Unix(); now < end {
		t.Errorf("%s took a lease over at %d, which ends at %d", w.language, now, end)
	}
	return told
}
