package e2e

import (
	"net/http"
	"testing"
	"time"
)

// A cold page: one render, which all visitors get.
func TestStampedeCold(t *testing.T) {
	const visitors, delay = 200, time.Second
	o := newOrigin(t)
	o.set("/", page(60, delay))
	g := serve(t, embedded(t).raced(), o)

	replies := storm(t, visitors, g.url+"/")
	expectAll(t, "200 and the one rendering", replies, func(r reply) bool {
		return r.status == http.StatusOK && r.body == bodyOf("/", 1)
	})
	if n := o.count("/"); n != 1 {
		t.Errorf("%d renders, expected 1", n)
	}
	t.Logf("%d visitors on a cold page of %s: %d render, p50 %s, p99 %s", visitors, delay, o.count("/"), percentile(replies, 50), percentile(replies, 99))
}

// The same after it has expired: one render, for which no visitor waits.
func TestStampedeExpired(t *testing.T) {
	const visitors = 200
	o := newOrigin(t)
	o.set("/", page(1, 0))
	g := serve(t, embedded(t, "--render-timeout", "1h").raced(), o)
	get(t, g.url+"/")
	awaitClock(t, "the page to expire", o.times("/")[0].Add(time.Second))
	answered := make(chan struct{})
	o.set("/", func(w http.ResponseWriter, r *http.Request, n int) {
		select {
		case <-answered:
			page(60, 0)(w, r, n)
		case <-r.Context().Done():
		}
	})

	replies := storm(t, visitors, g.url+"/")
	close(answered)
	expectAll(t, "a stale hit, before the new rendering", replies, func(r reply) bool {
		return r.status == http.StatusOK && r.body == bodyOf("/", 1) && r.hit()
	})
	t.Logf("%d visitors on an expired page: p50 %s, p99 %s", visitors, percentile(replies, 50), percentile(replies, 99))
	await(t, "the new rendering", patience, func() bool { return get(t, g.url+"/").body == bodyOf("/", 2) })
	if n := o.count("/"); n != 2 {
		t.Errorf("%d renders, expected 2: one cold, one for the expiry", n)
	}
}
