package e2e

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/dirbody"
)

// kill -9 during the render of a request with an idempotency key: until its lease expires the
// request is not repeated; then the next attempt executes it, once.
func TestKillNamedRequest(t *testing.T) {
	t.Parallel()
	fleet := newCloud(t)
	o := newOrigin(t)
	o.set("/", o.hang)
	holder := serve(t, fleet.settings(t, "--lease", lease.String(), "--revalidate", "1m").raced(), o)
	other := serve(t, fleet.settings(t, "--lease", lease.String(), "--revalidate", "1m").raced(), o)
	cut := holder.here().command(t.Context(), t, "regenerate", host+"/", "--idempotency-key", "order-42")
	if err := cut.Start(); err != nil {
		t.Fatal(err)
	}
	o.awaitVisit(t, "/", 1, patience)
	if out := other.refused(t, other.here(), "regenerate", host+"/", "--idempotency-key", "order-42"); !strings.Contains(out, "in progress") {
		t.Errorf("the same request while it is carried out: %s", out)
	}
	holder.kill()
	killed := time.Now()
	if err := cut.Wait(); err == nil {
		t.Error("the command of the killed process succeeds")
	}
	o.set("/", page(600, 0))
	var made regenerated
	await(t, "the request to be taken over", takeovers, func() bool {
		out, err := other.here().command(t.Context(), t, "regenerate", host+"/", "--idempotency-key", "order-42", "--json").Output()
		return err == nil && json.Unmarshal(out, &made) == nil
	})
	t.Logf("taken over %s after kill -9 of the holder of a lease of %s", time.Since(killed).Round(time.Millisecond), lease)
	var again regenerated
	if err := json.Unmarshal(other.here().output(t, "regenerate", host+"/", "--idempotency-key", "order-42", "--json"), &again); err != nil {
		t.Fatal(err)
	}
	if made.Replayed || !again.Replayed || again.Generation != made.Generation || o.count("/") != 2 {
		t.Errorf("taken over: %+v, again: %+v, %d renders; want one result of 2 renders", made, again, o.count("/"))
	}
}

type regenerated struct {
	Generation string `json:"generation_id"`
	Replayed   bool   `json:"replayed"`
}

// kill -9 under load on a site with history: whichever step it hits, every generation that isr
// versions shows has its body, and isr gc deletes exactly the bodies without references.
func TestCollectAfterKills(t *testing.T) {
	t.Parallel()
	const rounds, perRound = 3, 20
	o := newOrigin(t)
	o.set("/new/", page(3600, 0))
	o.set("/renewed/", page(1, 0))
	s := embedded(t, "--history", "2", "--admin", "none", "--lease", lease.String()).raced()
	for round := 1; round <= rounds; round++ {
		g := serve(t, s, o)
		l := newLoad(t, g, round)
		await(t, "pages to be stored", patience, func() bool { return l.pages() >= perRound })
		g.kill()
		l.wg.Wait()
	}
	s.age(t, 48*time.Hour)
	bodies := s.bodies(t)
	needed := s.named(t)
	// Garbage collection skips a page until the lease of the killed process expires.
	var out []byte
	await(t, "what nothing needs to be removed", takeovers, func() bool {
		out = append(out, s.output(t, "gc")...)
		return len(s.bodies(t)) <= len(needed)
	})
	if diff := cmp.Diff(needed, s.bodies(t)); diff != "" {
		t.Errorf("the bodies that generations have, and those that are left, differ:\n%s", diff)
	}
	t.Logf("%d bodies after %d kills, %d of them needed; isr gc:\n%s", len(bodies), rounds, len(needed), out)
}

// age sets the modification times of the bodies of an embedded store back.
func (s settings) age(t *testing.T, by time.Duration) {
	t.Helper()
	then := time.Now().Add(-by)
	err := filepath.WalkDir(filepath.Join(s.dir, "data", "bodies"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		return os.Chtimes(path, then, then)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// bodies returns the keys of all bodies of an embedded store.
func (s settings) bodies(t *testing.T) map[string]bool {
	t.Helper()
	store, err := dirbody.Open(filepath.Join(s.dir, "data", "bodies"), dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for info, err := range store.List(t.Context(), "") {
		if err != nil {
			t.Fatal(err)
		}
		found[info.Key] = true
	}
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	return found
}

// named returns the bodies of all generations of all pages.
func (s settings) named(t *testing.T) map[string]bool {
	t.Helper()
	bodies := make(map[string]bool)
	for key := range s.stored(t) {
		var all struct{ Versions []version }
		if err := json.Unmarshal(s.output(t, "versions", "--json", key), &all); err != nil {
			t.Fatalf("isr versions --json %s: %v", key, err)
		}
		for _, v := range all.Versions {
			bodies[v.Body] = true
		}
	}
	return bodies
}
