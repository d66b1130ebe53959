package e2e

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"
)

// here returns the settings of commands that use the socket of the running process, and not
// the store.
func (g *gateway) here() settings {
	s := g.settings
	s.store = nil
	return s
}

// serves reports whether a process serves the n-th rendering of the front page from the cache.
func (g *gateway) serves(t *testing.T, n int) bool {
	t.Helper()
	r := get(t, g.url+"/")
	return r.hit() && r.body == bodyOf("/", n)
}

// versions returns what isr versions shows of the front page, newest first.
func (s settings) versions(t *testing.T) []version {
	t.Helper()
	var all struct{ Versions []version }
	if err := json.Unmarshal(s.output(t, "versions", "--json", host+"/"), &all); err != nil {
		t.Fatalf("isr versions --json: %v", err)
	}
	return all.Versions
}

type version struct {
	Generation  string    `json:"generation_id"`
	Current     bool      `json:"current"`
	Body        string    `json:"body"`
	PinnedUntil time.Time `json:"pinned_until"`
}

// twoGenerations starts two servers with history and publishes a page twice through the first.
func twoGenerations(t *testing.T, fleet *cloud, o *origin) (a, b *gateway) {
	t.Helper()
	o.set("/", page(600, 0))
	a = serve(t, fleet.settings(t, "--history", "3"), o)
	b = serve(t, fleet.settings(t, "--history", "3"), o)
	get(t, a.url+"/")
	a.here().output(t, "regenerate", host+"/")
	return a, b
}

// Two processes on one table, and the commands: a rollback through one process, or on the
// table itself, is served by the other within a poll.
func TestRollbackOnAFleet(t *testing.T) {
	t.Parallel()
	fleet, o := newCloud(t), newOrigin(t)
	a, b := twoGenerations(t, fleet, o)
	get(t, b.url+"/")
	if !a.serves(t, 2) || !b.serves(t, 2) {
		t.Fatal("the second rendering is not served by both")
	}

	a.here().output(t, "rollback", host+"/")
	if !a.serves(t, 1) {
		t.Error("the process that was asked does not serve what it rolled back to")
	}
	took := await(t, "the other process to serve it", patience, func() bool { return b.serves(t, 1) })
	t.Logf("rolled back through one process, served by the other %s after that (poll 250ms)", took.Round(time.Millisecond))

	kept := b.versions(t)
	if len(kept) != 2 || kept[0].Current || !kept[1].Current || kept[1].PinnedUntil.Year() != 9999 {
		t.Fatalf("versions, on the table itself: %+v; want the second, and the first current and pinned", kept)
	}
	if out := b.refused(t, b.here(), "regenerate", host+"/"); !strings.Contains(out, "pinned") {
		t.Errorf("regenerating a pinned page: %s", out)
	}
	b.output(t, "rollback", host+"/", "--to", kept[0].Generation, "--pin", "2h")
	for _, g := range []*gateway{a, b} {
		await(t, "what was rolled back on the table itself", patience, func() bool { return g.serves(t, 2) })
	}
	if o.count("/") != 2 {
		t.Errorf("%d renders, expected 2: a rollback renders nothing", o.count("/"))
	}
	b.here().output(t, "unpin", host+"/")
	a.here().output(t, "regenerate", host+"/")
	if !a.serves(t, 3) {
		t.Error("an unpinned page is not regenerated")
	}
}

// refused runs a command that must fail and returns its error output.
func (g *gateway) refused(t *testing.T, s settings, subcommand string, args ...string) string {
	t.Helper()
	out, err := s.command(t.Context(), t, subcommand, args...).CombinedOutput()
	if err == nil {
		t.Errorf("isr %s %q succeeds: %s", subcommand, args, out)
	}
	return string(out)
}

// A regeneration that began before a rollback, and is slower, does not undo it.
func TestRollbackDuringRender(t *testing.T) {
	t.Parallel()
	fleet, o := newCloud(t), newOrigin(t)
	a, b := twoGenerations(t, fleet, o)

	finish := make(chan struct{})
	o.set("/", func(w http.ResponseWriter, r *http.Request, n int) {
		select {
		case <-finish:
			page(600, 0)(w, r, n)
		case <-r.Context().Done():
		}
	})
	late := make(chan string, 1)
	go func() { late <- a.refused(t, a.here(), "regenerate", host+"/") }()
	o.awaitVisit(t, "/", 3, patience)
	b.here().output(t, "rollback", host+"/")
	close(finish)
	if out := <-late; !strings.Contains(out, "another writer") {
		t.Errorf("the regeneration that began before says %s", out)
	}
	kept := b.versions(t)
	if len(kept) != 2 || !kept[1].Current {
		t.Errorf("versions afterwards: %+v; want the two of before, and the first current", kept)
	}
	for _, g := range []*gateway{a, b} {
		await(t, "what was rolled back to", patience, func() bool { return g.serves(t, 1) })
	}
}
