package fill

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNextLook(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	for _, c := range []struct {
		name           string
		waited, likely time.Duration
		looks          int
		want           time.Duration
	}{
		{"when the page is likely stored", 0, 600 * ms, 0, 600 * ms},
		{"a long render is looked for each second, in case it fails", 0, 10 * time.Second, 0, time.Second},
		{"the rest of it", 9400 * ms, 10 * time.Second, 9, 600 * ms},
		{"soon after that", 600 * ms, 600 * ms, 1, 25 * ms},
		{"again", 625 * ms, 600 * ms, 2, 25 * ms},
		{"not more than three, and one for each half of a second", 650 * ms, 600 * ms, 3, 25 * ms},
		{"but later", 675 * ms, 600 * ms, 4, 325 * ms},
		{"a page that is due", 0, 1, 0, 1},
		{"due, again", 1, 1, 1, 25 * ms},
		{"exponential backoff", 5600 * ms, 5 * time.Second, 8, 300 * ms},
		{"to a second", time.Minute, 5 * time.Second, 30, time.Second},
		{"nothing is known", 0, 0, 0, 400 * ms},
		{"nothing is known, again", 400 * ms, 0, 1, 800 * ms},
		{"nothing is known, later", 1200 * ms, 0, 2, time.Second},
		{"nothing is known, for an hour", time.Hour, 0, 3600, time.Second},
	} {
		if got := nextLook(c.waited, c.likely, c.looks); got != c.want {
			t.Errorf("%s: after %v, likely at %v, %d looks: %v, want %v", c.name, c.waited, c.likely, c.looks, got, c.want)
		}
	}
}

// A wait makes at most three looks, and two per second, and none comes more than a second
// after another.
func TestLooksAreBounded(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		likely := time.Duration(rapid.Int64Range(-1, int64(20*time.Second)).Draw(t, "likely"))
		var waited time.Duration
		for looks := range 100 {
			pause := nextLook(waited, likely, looks)
			if pause <= 0 || pause > maxLookPause {
				t.Fatalf("look %d: a pause of %v after %v", looks, pause, waited)
			}
			waited += pause
			if allowed := lookBurst + int(waited/lookTime); looks+1 > allowed {
				t.Fatalf("%d looks within %v, want at most %d", looks+1, waited, allowed)
			}
		}
	})
}

func TestRecentTimes(t *testing.T) {
	t.Parallel()
	var r RecentTimes
	if got := r.Median(7); got != 7 {
		t.Errorf("without times: %v, want what stands for them", got)
	}
	for i, want := range []time.Duration{9, 9, 5, 5} {
		r.add([]time.Duration{9, 1, 5, 2}[i])
		if got := r.Median(7); got != want {
			t.Errorf("after %d: %v, want %v", i+1, got, want)
		}
	}
	for range len(r.last) {
		r.add(100)
	}
	if got := r.Median(7); got != 100 {
		t.Errorf("%v, want the median of the last times", got)
	}
}
