package e2e

import (
	"net/http"
	"testing"
	"time"
)

// lease is the lease duration in these tests: how long a killed process blocks a page.
const lease = 2 * time.Second

// takeovers bounds how long the tests wait until another process has the lease of a killed one.
// On an idle machine that takes at most 4.5 s: the row has whole seconds, and polls are at most
// 1.5 s apart (see TestCrashedLeaseHolder of isr). On a busy one a call of a store may take
// longer than the lease: that process loses the lease, too, and the page is taken over again.
const takeovers = 5 * time.Minute

// The process that regenerates a page is killed during the render. Others serve the stale copy
// until the lease has expired, and then regenerate the page.
func TestKillHolderStale(t *testing.T) {
	t.Parallel()
	fleet := newCloud(t)
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	holder := serve(t, fleet.settings(t, "--lease", lease.String()).raced(), o)
	other := serve(t, fleet.settings(t, "--lease", lease.String()).raced(), o)
	for _, g := range []*gateway{holder, other} {
		await(t, "the page to be cached", patience, func() bool { return get(t, g.url+"/").hit() })
	}
	rendered := o.count("/")

	// The page becomes stale by a purge, so that only the holder is asked for it while it is.
	o.set("/", o.hang)
	holder.output(t, "purge", "http://"+host+"/")
	await(t, "the holder to regenerate the page", patience, func() bool {
		if r := get(t, holder.url+"/"); !r.hit() {
			t.Fatalf("the holder's visitor got %s, expected the stale copy", r)
		}
		return o.count("/") > rendered
	})
	holder.kill()
	killed := time.Now()
	hung := o.count("/")
	o.set("/", page(60, 0))
	client, asked := browsers(t), 0
	await(t, "the new rendering", takeovers, func() bool {
		asked++
		r := visit(t.Context(), client, http.MethodGet, other.url+"/")
		if r.err != nil || r.status != http.StatusOK || !r.hit() {
			t.Fatalf("after the kill a visitor got %s, expected a hit", r)
		}
		return renderingOf("/", r.body) > hung
	})
	t.Logf("regenerated %s after kill -9 of the holder of a lease of %s; %d visitors in that time, all served from the cache",
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
	if r.err != nil || r.status != http.StatusOK || renderingOf("/", r.body) < 2 {
		t.Errorf("the visitor of the other process got %s, expected the page", r)
	}
	if took := time.Since(killed); took > takeovers {
		t.Errorf("the page came %s after the kill, expected at most %s", took, takeovers)
	}
	t.Logf("cold page served %s after kill -9 of the holder of a lease of %s: %s", time.Since(killed).Round(time.Millisecond), lease, r)
}
