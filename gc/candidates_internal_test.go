package gc

import (
	"testing"

	"github.com/facetheory/isr/store"
)

func TestCandidates(t *testing.T) {
	cs := newCandidates()
	add := func(pk, id string) string {
		key := store.BodyPrefix(pk) + id
		_, folder, ok := folderOfBody(key)
		if !ok {
			t.Fatalf("%s has no folder", key)
		}
		cs.add(folder, key)
		return key
	}
	ours, theirs, garbage := add("CACHE#1", "a"), add("CACHE#1", "b"), add("CACHE#1", "c")
	other, gone := add("CACHE#2", "a"), add("CACHE#3", "a")
	cs.sort()
	orphaned := func(key string) bool { return cs.orphaned(folderDigest(key), key) }
	for _, key := range []string{ours, theirs, garbage, other, gone} {
		if !orphaned(key) {
			t.Errorf("%s has a page before any was seen", key)
		}
	}
	if all, unnamed := cs.see(store.ReferencedBodies{PK: "CACHE#1", Keys: []string{ours, "s3://bucket/" + theirs, "x" + garbage, other}}); all != 3 || unnamed != 1 {
		t.Errorf("%d candidates, of which %d are not named; want 3 and 1", all, unnamed)
	}
	if all, unnamed := cs.see(store.ReferencedBodies{PK: "CACHE#1"}); all != 0 || unnamed != 0 {
		t.Errorf("the second time there are %d candidates", all)
	}
	if all, _ := cs.see(store.ReferencedBodies{PK: "CACHE#none"}); all != 0 {
		t.Errorf("%d candidates of a page that has no bodies", all)
	}
	if all, unnamed := cs.see(store.ReferencedBodies{PK: "CACHE#2", Keys: []string{other}}); all != 1 || unnamed != 0 {
		t.Errorf("%d candidates, of which %d are not named; want 1 and 0", all, unnamed)
	}
	for key, want := range map[string]bool{ours: false, garbage: false, other: false, gone: true, store.BodyPrefix("CACHE#3") + "new": false} {
		if orphaned(key) != want {
			t.Errorf("%s: orphaned: %v, want %v", key, !want, want)
		}
	}
	if !cs.orphans() {
		t.Error("there are no orphans")
	}
	cs.see(store.ReferencedBodies{PK: "CACHE#3"}) // leased, and nothing more
	if cs.orphans() {
		t.Error("there are orphans, though all pages were seen")
	}
}
