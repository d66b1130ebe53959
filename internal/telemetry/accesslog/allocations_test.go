//go:build !race

// The race detector makes a sync.Pool forget at random, so that these tests would fail.

package accesslog

import (
	"io"
	"testing"
)

func TestAllocations(t *testing.T) {
	for _, format := range []Format{JSON, Text} {
		l, err := New(Config{Output: io.Discard, Format: format})
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		x := hit()
		x.Request.Header.Set("User-Agent", "Mozilla/5.0")
		for range 100_000 { // until both halves of the buffer have their size
			l.Done(x)
		}
		if n := testing.AllocsPerRun(10_000, func() { l.Done(x) }); n > 0 {
			t.Errorf("%s: a hit allocates %v times", format, n)
		}
	}
}
