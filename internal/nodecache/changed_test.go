package nodecache

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/store"
)

// Pages that have changed are remembered for a while, and no others. However many change, the
// memory is bounded: then all pages count as changed.
func TestChangedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c changedPages
		key := func(n int) store.Key { return store.Key{Text: fmt.Sprint("h/", n)} }
		lately := func(n int, want bool) {
			t.Helper()
			if got := c.lately(key(n)); got != want {
				t.Errorf("page %d has changed lately: %t, want %t", n, got, want)
			}
		}
		lately(1, false)
		c.note(key(1))
		lately(1, true)
		lately(2, false)
		time.Sleep(changedLately)
		lately(1, false)
		for n := range 2 * maxChangedPages {
			c.note(key(n))
			if len(c.at) > maxChangedPages {
				t.Fatalf("%d pages are remembered", len(c.at))
			}
		}
		lately(1, true)
		lately(-1, true)
		time.Sleep(changedLately)
		lately(1, false)
		lately(-1, false)
		c.noteAll()
		lately(-1, true)
	})
}
