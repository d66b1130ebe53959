package languages

import (
	"testing"
	"time"

	"github.com/facetheory/isr/internal/vocabulary"
)

// A generation published by one language, over one of each other language, is read unchanged by
// all and served by isr serve.
func generations(t *testing.T, c *crew) {
	s := c.serve(t)
	for i := range c.workers {
		path := "/by/" + c.workers[i].language
		key := host + path
		var before int64
		for n := range c.workers {
			w := c.after(i, n+1) // ends with the i-th
			next := at(key, generation(w.language, 600))
			s.store(t, next.BodyKey, bodyOf(w.language))
			published := w.regenerate(t, key, next)
			want := *next
			want.Version = published.Version
			if diff := diffOf(want, published); diff != "" {
				t.Errorf("%s published (-want +got):\n%s", w.language, diff)
			}
			if before != 0 && published.Version != before+1 {
				t.Errorf("%s publishes version %d over version %d", w.language, published.Version, before)
			}
			before = published.Version
			c.expectCurrent(t, key, published, "fresh")
		}
		s.expectServed(t, path, *generation(c.workers[i].language, 600), bodyOf(c.workers[i].language))
	}
}

// A rollback, pin or unpin by one language is visible to all: in the page, its versions, and
// the log, by which isr serve drops its copy.
func history(t *testing.T, c *crew) {
	s := c.serve(t)
	const path, key = "/", host + "/"
	var ids []string
	for _, w := range c.workers {
		id := "20260102T150405.000000Z-" + w.language
		next := at(key, generation(id, 600))
		s.store(t, next.BodyKey, bodyOf(id))
		w.keepVersion(t, key, next)
		ids = append(ids, id)
	}
	s.awaitServed(t, path, bodyOf(ids[len(ids)-1]))
	for i, w := range c.workers {
		to := ids[i] // which is never the current one
		rolled := ask[vocabulary.Entry](t, w, command{Do: "rollback", Key: key, To: to, PinnedUntil: forever * int64(i%2)})
		if rolled.GenerationID != to || rolled.AssertedAt == 0 {
			t.Errorf("%s rolled back to %s, but returned %+v as current", w.language, to, rolled)
		}
		c.expectCurrent(t, key, rolled, "fresh")
		s.awaitServed(t, path, bodyOf(to))
		c.expectVersions(t, key, ids)
		c.expectChange(t, key, int64(4*i+1))
		c.pinned(t, w, c.after(i, 1), key)
		c.late(t, w, c.after(i, 1), key, ids[(i+2)%len(ids)])
	}
	w := c.workers[1]
	w.refuses(t, "NoVersion", command{Do: "rollback", Key: key, To: "20260102T150405.000000Z-nobody"})
	if n := s.visits.Load(); n != 0 {
		t.Errorf("the origin got %d requests, want 0", n)
	}
}

// forever is the end of a pin without an expiry.
const forever = 253402300799

// pinned has one worker pin the page, which blocks publishes, and another unpin it.
func (c *crew) pinned(t *testing.T, w, other *worker, key string) {
	t.Helper()
	pinned := ask[vocabulary.Entry](t, w, command{Do: "pin", Key: key, PinnedUntil: forever})
	if pinned.PinnedUntil != forever {
		t.Errorf("%s pinned %+v, want a pin until %d", w.language, pinned, int64(forever))
	}
	c.expectCurrent(t, key, pinned, "fresh")
	for _, w := range c.workers {
		w.acquire(t, key, nil)
		w.refuses(t, "Pinned", command{Do: "publish", Key: key, Entry: generation("over-a-pin", 600)})
		w.does(t, command{Do: "release", Key: key})
	}
	unpinned := ask[vocabulary.Entry](t, other, command{Do: "unpin", Key: key})
	want := pinned
	want.PinnedUntil, want.Version = unpinned.PinnedUntil, pinned.Version+1
	if end := unpinned.PinnedUntil; end < pinned.AssertedAt || end > time.Now().Unix() {
		t.Errorf("%s unpinned: the pin ends at %d, want now", other.language, end)
	}
	if diff := diffOf(want, unpinned); diff != "" {
		t.Errorf("%s unpinned (-want +got):\n%s", other.language, diff)
	}
	c.expectCurrent(t, key, unpinned, "fresh")
}

// late has one worker roll back while another renders. The publish of that render is refused.
func (c *crew) late(t *testing.T, w, renderer *worker, key, to string) {
	t.Helper()
	renderer.acquire(t, key, nil)
	rolled := ask[vocabulary.Entry](t, w, command{Do: "rollback", Key: key, To: to})
	renderer.refuses(t, "Moved", command{Do: "publish", Key: key, Entry: generation("began-before", 600)})
	renderer.does(t, command{Do: "release", Key: key})
	c.expectCurrent(t, key, rolled, "fresh")
}

// expectVersions expects every worker to list exactly these generations.
func (c *crew) expectVersions(t *testing.T, key string, ids []string) {
	t.Helper()
	first := ask[[]vocabulary.Entry](t, c.workers[0], command{Do: "versions", Key: key})
	if len(first) != len(ids) {
		t.Errorf("got %d versions, want the versions of %q", len(first), ids)
	}
	for _, w := range c.workers[1:] {
		if diff := diffOf(first, ask[[]vocabulary.Entry](t, w, command{Do: "versions", Key: key})); diff != "" {
			t.Errorf("versions of %s (-) and of %s (+):\n%s", c.workers[0].language, w.language, diff)
		}
	}
}

// expectChange expects every worker to read a change of the page as the newest entry of the
// log.
func (c *crew) expectChange(t *testing.T, key string, seq int64) {
	t.Helper()
	want := []change{{Seq: seq, Reload: []string{key}}}
	for _, w := range c.workers {
		if got := ask[int64](t, w, command{Do: "sequence"}); got != seq {
			t.Errorf("%s: log sequence %d, want %d", w.language, got, seq)
		}
		if diff := diffOf(want, ask[[]change](t, w, command{Do: "changes", After: seq - 1})); diff != "" {
			t.Errorf("%s: changes in the log (-want +got):\n%s", w.language, diff)
		}
	}
}
