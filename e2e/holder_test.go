package e2e

import (
	"net/http"
	"testing"
	"time"
)

// lease is the lease duration in these tests: how long a killed process blocks a page.
const lease = 2 * time.Second

// leaseSlack is the time that may pass after the lease until another process renders: the row
// has whole seconds, and other processes poll about once a second.
const leaseSlack = 5 * time.Second

// The process that regenerates a page is killed during the render. Others serve the stale copy
// meanwhile, and regenerate the page as soon as the lease has expired.
func TestKillHolderStale(t *testing.T) {
	t.Parallel()
	fleet := newCloud(t)
	o := newOrigin(t)
	o.set("/", page(1, 0))
	holder := serve(t, fleet.settings(t, "--lease", lease.String()).raced(), o)
	other := serve(t, fleet.settings(t, "--lease", lease.String()).raced(), o)
	get(t, holder.url+"/")
	get(t, other.url+"/")
	awaitClock(t, "the page to expire", o.times("/")[0].Add(time.Second))

	o.set("/", o.hang)
	if r := get(t, holder.url+"/"); !r.hit() {
		t.Errorf("the holder's visitor got %s, expected the stale copy", r)
	}
	o.awaitVisit(t, "/", 2, patience)
	holder.kill()
	killed := time.Now()
	o.set("/", page(60, 0))
	client, asked := browsers(t), 0
	await(t, "the new rendering", lease+leaseSlack, func() bool {
		asked++
		r := visit(t.Context(), client, http.MethodGet, other.url+"/")
		if r.err != nil || r.status != http.StatusOK || !r.hit() {
			t.Fatalf("after the kill a visitor got %s, expected a hit", r)
		}
		return r.body == bodyOf("/", 3)
	})
	t.Logf("regenerated %s after kill -9 of the holder of a lease of %s; %d visitors meanwhile, all served from the cache",
		time.Since(killed).Round(time.Millisecond), lease, asked)
}

// The same for a page without a copy: a visitor who waits at another process gets the page.
func TestKillHolderCold(t *testing.T) {
	t.Parallel()
	fleet := newCloud(t)
	o := newOrigin(t)
	o.set("/", o.hang)
	holder := serve(t, fleet.settings(t, "--lease", lease.String()).raced(), o)
	other := serve(t, fleet.settings(t, "--lease", lease.String()).raced(), o)

	client, ctx := browsers(t), t.Context()
	cut, waiting := make(chan reply, 1), make(chan reply, 1)
	go func() { cut <- visit(ctx, client, http.MethodGet, holder.url+"/") }()
	o.awaitVisit(t, "/", 1, patience)
	go func() { waiting <- visit(ctx, client, http.MethodGet, other.url+"/") }()
	holder.kill()
	killed := time.Now()
	o.set("/", page(60, 0))
	if r := <-cut; r.err == nil {
		t.Errorf("the visitor of the killed process got %s, expected a broken connection", r)
	}
	r := <-waiting
	if r.err != nil || r.status != http.StatusOK || r.body != bodyOf("/", 2) {
		t.Errorf("the visitor of the other process got %s, expected the page", r)
	}
	if took := time.Since(killed); took > lease+leaseSlack {
		t.Errorf("the page came %s after the kill, expected at most %s", took, lease+leaseSlack)
	}
	t.Logf("cold page served %s after kill -9 of the holder of a lease of %s: %s", time.Since(killed).Round(time.Millisecond), lease, r)
}
