package gc

import (
	"strings"
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
	ours, theirs, unnamed := add("CACHE#1", "a"), add("CACHE#1", "b"), add("CACHE#1", "c")
	other, gone := add("CACHE#2", "a"), add("CACHE#3", "a")
	cs.sort()
	look := func(key string) finding { return cs.look(folderDigest(key), key) }
	orphans := func() bool {
		for bucket := range cs.buckets {
			if cs.orphans(bucket) {
				return true
			}
		}
		return false
	}
	for _, key := range []string{ours, theirs, unnamed, other, gone} {
		if look(key) != orphaned {
			t.Errorf("%s has a page before any was seen", key)
		}
		if prefix := bucketPrefix(bucketOf(folderDigest(key))); !strings.HasPrefix(key, prefix) {
			t.Errorf("%s is not in the bucket %s", key, prefix)
		}
	}
	if all, unnamed := cs.see(store.ReferencedBodies{PK: "CACHE#1", Keys: []string{ours, "s3://bucket/" + theirs, "x" + unnamed, other}}); all != 3 || unnamed != 1 {
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
	for key, want := range map[string]finding{
		ours: needless, theirs: needless, unnamed: garbage, other: needless, gone: orphaned,
		store.BodyPrefix("CACHE#3") + "new": needless, store.BodyPrefix("CACHE#1") + "new": needless,
	} {
		if got := look(key); got != want {
			t.Errorf("%s: found %v, want %v", key, got, want)
		}
	}
	if !orphans() {
		t.Error("there are no orphans")
	}
	cs.see(store.ReferencedBodies{PK: "CACHE#3"}) // leased, and nothing more
	if orphans() {
		t.Error("there are orphans, though all pages were seen")
	}
	if look(gone) != garbage {
		t.Error("the body of a page that is only leased is not garbage")
	}
}
