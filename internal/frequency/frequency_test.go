package frequency

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestCountIsNeverTooSmall(t *testing.T) {
	c := New[int](time.Hour)
	for use := 1; use <= 5; use++ {
		for k := range 10_000 {
			if got := c.Add(k); got < use {
				t.Fatalf("key %d: count %d after %d uses", k, got, use)
			}
		}
	}
	tooLarge := 0
	for k := range 10_000 {
		if c.Count(k) > 5 {
			tooLarge++
		}
	}
	if tooLarge > 100 {
		t.Errorf("%d of 10000 counts are too large", tooLarge)
	}
	if got := c.Count(-1); got > 5 {
		t.Errorf("count %d of a key that was never used", got)
	}
}

func TestUsesExpireAfterOneToTwoWindows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := New[string](time.Hour)
		c.Add("a")
		time.Sleep(time.Hour)
		if got := c.Add("a"); got != 2 {
			t.Errorf("count %d after one window, want 2", got)
		}
		time.Sleep(time.Hour)
		if got := c.Count("a"); got != 1 {
			t.Errorf("count %d after two windows, want the use of the second", got)
		}
		time.Sleep(2 * time.Hour)
		if got := c.Count("a"); got != 0 {
			t.Errorf("count %d after four windows, want 0", got)
		}
	})
}

func TestCountIsBounded(t *testing.T) {
	c := New[string](time.Hour)
	for range 3 * Max {
		c.Add("a")
	}
	if got := c.Count("a"); got != Max {
		t.Errorf("count %d, want at most %d", got, Max)
	}
}
