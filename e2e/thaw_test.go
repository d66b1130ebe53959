package e2e

import (
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A server that is frozen (SIGSTOP) while another one rolls a page back reads the log before it
// serves the page from memory again: the first request after SIGCONT gets the rolled-back
// generation, or an older page that is marked as such.
func TestThawedServer(t *testing.T) {
	t.Parallel()
	fleet, o := newCloud(t), newOrigin(t)
	a, b := twoGenerations(t, fleet, o)
	if !b.serves(t, 2) {
		t.Fatal("the second rendering is not served")
	}
	versions := b.versions(t)
	if len(versions) != 2 {
		t.Fatalf("%d versions, want 2", len(versions))
	}
	const rounds = 6
	cutOff := 0
	for round := range rounds {
		want := 1 + round%2 // the generation that is rolled back to; versions has the second first
		b.process.Signal(t, syscall.SIGSTOP)
		stopped := time.Now()
		a.here().output(t, "rollback", "--to", versions[2-want].Generation, host+"/")
		answered := make(chan reply)
		go func() { answered <- visit(t.Context(), browsers(t), http.MethodGet, b.url+"/") }()
		awaitClock(t, "the staleness bound", stopped.Add(2500*time.Millisecond))
		b.process.Signal(t, syscall.SIGCONT)
		switch r := <-answered; {
		case strings.HasSuffix(r.cache(), "; detail=cut-off"):
			cutOff++ // a busy machine did not answer within the store timeout
		case !r.hit() || r.body != bodyOf("/", want):
			t.Errorf("round %d: %s, want rendering %d, as it was rolled back", round, r, want)
		}
	}
	if cutOff > rounds/2 {
		t.Errorf("the log was not read in time in %d of %d rounds", cutOff, rounds)
	}
}
