//go:build !race

// The race detector makes a sync.Pool forget at random, so that this test would fail.

package fastpath_test

import "testing"

func TestHitsAllocateNothing(t *testing.T) {
	s := newSites(t)
	for name, sent := range map[string]string{
		"plain":     get("/a"),
		"browser":   get("/a", browser),
		"class":     get("/lang/a", "Accept-Language: de"),
		"lifetimes": get("/browser/a"),
		"304":       get("/a", "If-None-Match: *"),
	} {
		again := s.answer(t, sent)
		if n := testing.AllocsPerRun(2000, again); n > 0 {
			t.Errorf("%s: a hit allocates %v times", name, n)
		}
	}
}
