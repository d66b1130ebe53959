package sites

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// times logs how long one kind of page takes without the cache, cold, as a hit and stale:
// medians over these paths.
func (p pair) times(t *testing.T, name string, paths []string) {
	t.Helper()
	direct := p.measure(t, p.direct, paths)
	cold := p.measure(t, p.through, paths)
	var hits []answer
	for range 5 {
		hits = append(hits, p.measure(t, p.through, paths)...)
	}
	for i, a := range cold {
		if !a.stored() {
			t.Errorf("cold %s: %s", paths[i], a.cacheStatus())
		}
	}
	for _, a := range hits {
		if !a.hit() {
			t.Errorf("hit: %s", a.cacheStatus())
		}
	}
	p.awaitStale(t, paths[len(paths)-1])
	stale := p.measure(t, p.through, paths[:len(paths)-1])
	for i, a := range stale {
		if !a.stale() {
			t.Errorf("stale %s: %s", paths[i], a.cacheStatus())
		}
	}
	t.Logf("%s: origin %s, cold %s, hit %s, stale %s (medians of %d, %d, %d, %d)", name,
		median(direct), median(cold), median(hits), median(stale), len(direct), len(cold), len(hits), len(stale))
}

// awaitStale polls the page that was rendered last until it is stale; the others then are too.
func (p pair) awaitStale(t *testing.T, path string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !p.through.get(t, path, nil).stale() {
		if time.Now().After(deadline) {
			t.Fatalf("%s is not stale after a minute", path)
		}
		<-tick.C
	}
}

// measure requests the paths one at a time.
func (p pair) measure(t *testing.T, v *visitor, paths []string) []answer {
	t.Helper()
	answers := make([]answer, 0, len(paths))
	for _, path := range paths {
		answers = append(answers, v.get(t, path, nil))
	}
	return answers
}

func median(answers []answer) string {
	took := make([]time.Duration, 0, len(answers))
	for _, a := range answers {
		took = append(took, a.took)
	}
	slices.Sort(took)
	return fmt.Sprintf("%.1f ms", float64(took[len(took)/2].Microseconds())/1000)
}

func (n *nextSite) times(t *testing.T) {
	p, _ := n.behind(t)
	var paths []string
	for i := range 9 {
		paths = append(paths, fmt.Sprintf("/articles/loaf-%d", i))
	}
	p.times(t, "Next.js, an article", paths)
}
