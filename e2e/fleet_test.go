package e2e

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// Three processes on one table and one bucket, 600 concurrent visitors: one render while the
// page is cold, and one per expiry, for which no visitor waits.
func TestFleet(t *testing.T) {
	const (
		visitors = 600
		rounds   = 3
		window   = 4 // seconds
		delay    = 1500 * time.Millisecond
	)
	fleet := newCloud(t)
	o := newOrigin(t)
	o.set("/", page(window, delay))
	var urls []string
	for range 3 {
		urls = append(urls, serve(t, fleet.settings(t).raced(), o).url+"/")
	}

	replies := storm(t, visitors, urls...)
	expectAll(t, "cold: 200 and the one rendering", replies, func(r reply) bool {
		return r.status == http.StatusOK && r.body == bodyOf("/", 1)
	})
	t.Logf("cold, %d visitors on 3 processes: %d render of %s, p50 %s, p99 %s", visitors, o.count("/"), delay, percentile(replies, 50), percentile(replies, 99))
	if n := o.count("/"); n != 1 {
		t.Errorf("%d renders of the cold page, expected 1", n)
	}
	for round := 1; round <= rounds; round++ {
		awaitClock(t, "the page to expire", o.times("/")[round-1].Add(window*time.Second))
		replies := storm(t, visitors, urls...)
		expectAll(t, "expired: an older rendering, at once", replies, func(r reply) bool {
			return r.status == http.StatusOK && r.hit() && strings.HasPrefix(r.body, "<!doctype html><title>/</title>")
		})
		o.awaitVisit(t, "/", round+1, patience)
		t.Logf("expiry %d: %d renders so far, p50 %s, p99 %s", round, o.count("/"), percentile(replies, 50), percentile(replies, 99))
	}
	expectApart(t, o.times("/"), window*time.Second)
}

// expectApart fails the test if a render began while the result of the previous one was fresh.
// A freshness window begins with the whole second in which its render began.
func expectApart(t *testing.T, renders []time.Time, window time.Duration) {
	t.Helper()
	for i := 1; i < len(renders); i++ {
		if gap := renders[i].Sub(renders[i-1]); gap < window-time.Second-500*time.Millisecond {
			t.Errorf("render %d began %s after the one before, which is fresh for %s", i+1, gap, window)
		}
	}
}
