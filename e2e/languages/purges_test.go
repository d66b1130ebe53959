package languages

import (
	"fmt"
	"net/http"
	"slices"
	"testing"

	"github.com/facetheory/isr/isrtest"
)

// purges has every language purge pages, which others have published, by each kind of target.
// All workers agree on the marks, and isr serve no longer serves the pages.
func purges(t *testing.T, c *crew) {
	s := c.serve(t)
	seq := int64(0)
	for i, w := range c.workers {
		for _, kind := range []string{"key", "tag", "prefix", "site"} {
			path := fmt.Sprintf("/%s/%s", w.language, kind)
			key := host + path
			of := target{Kind: kind, Value: map[string]string{"key": key, "tag": "größe", "prefix": host + "/" + w.language + "/"}[kind]}
			next := at(key, generation(w.language+"-"+kind, 600))
			s.store(t, next.BodyKey, bodyOf(next.GenerationID))
			c.after(i, 1).regenerate(t, key, next)
			s.awaitServed(t, path, bodyOf(next.GenerationID))
			for _, hard := range []bool{false, true} {
				seq++
				if got := ask[int64](t, w, command{Do: "purge", Targets: []target{of}, Hard: hard}); got != seq {
					t.Fatalf("%s purged %+v at sequence %d, want %d", w.language, of, got, seq)
				}
				c.expectPurged(t, key, of, seq, hard)
			}
			await(t, "isr serve to render "+path, func() bool {
				status, _, _ := s.get(t, path)
				return status >= http.StatusInternalServerError // the origin has no pages
			})
		}
	}
	c.expectMarks(t, 2+len(c.workers)) // of the tag, the site, and a prefix of each language
}

// expectPurged expects every worker to read the purge of a page at a sequence, in its row or its
// marks, and in the log.
func (c *crew) expectPurged(t *testing.T, key string, of target, seq int64, hard bool) {
	t.Helper()
	first := ask[[]change](t, c.workers[0], command{Do: "changes", After: seq - 1})
	for _, w := range c.workers {
		got := ask[page](t, w, command{Do: "read", Key: key}).Cover
		if of.Kind != "key" {
			got = ask[cover](t, w, command{Do: "covering", Key: key, Tags: []string{"news", "größe"}})
			if lifetime := int64(90 * 24 * 3600); got.MarkLifetime != lifetime {
				t.Errorf("%s: marks are kept for %d s, want %d", w.language, got.MarkLifetime, lifetime)
			}
		}
		if got.Seq != seq || (got.HardSeq == seq) != hard {
			t.Errorf("%s: %s is covered by %+v, want a purge at %d (hard: %t)", w.language, key, got, seq, hard)
		}
		changes := ask[[]change](t, w, command{Do: "changes", After: seq - 1})
		if diff := diffOf(first, changes); diff != "" || len(changes) != 1 {
			t.Errorf("changes read by %s (-) and %s (+):\n%s", c.workers[0].language, w.language, diff)
		}
	}
	switch {
	case len(first) != 1:
	case of.Kind == "key" && !slices.Equal(first[0].Reload, []string{key}), of.Kind != "key" && (len(first[0].Marks) != 1 || first[0].Marks[0].Target != of):
		t.Errorf("the log has %+v, want %+v", first[0], of)
	}
}

// expectMarks expects every worker to list the same number of marks.
func (c *crew) expectMarks(t *testing.T, n int) {
	t.Helper()
	list := func(w *worker) []mark {
		marks := ask[[]mark](t, w, command{Do: "marks"})
		slices.SortFunc(marks, func(a, b mark) int { return int(a.Seq - b.Seq) })
		return marks
	}
	first := list(c.workers[0])
	if len(first) != n {
		t.Errorf("got %d marks, want %d: %+v", len(first), n, first)
	}
	for _, w := range c.workers[1:] {
		if diff := diffOf(first, list(w)); diff != "" {
			t.Errorf("marks of %s (-) and of %s (+):\n%s", c.workers[0].language, w.language, diff)
		}
	}
}

// revalidations uses the cacheHandler of Next.js on the table: it honours the purges of all
// languages, and all languages, and isr serve, honour its revalidations.
func revalidations(t *testing.T, c *crew) {
	s := c.serve(t)
	next := c.workers[slices.IndexFunc(c.workers, func(w *worker) bool { return w.language == "typescript" })]
	next.does(t, command{Do: "next_open", Bucket: s.bucket, S3: isrtest.Engine(t, "ISR_TEST_S3", "S3 server")})
	expect := func(want string) {
		t.Helper()
		if got := ask[string](t, next, command{Do: "next_get", Key: "/rye"}); got != want {
			t.Errorf("Next.js is told that its page is %s, want %s", got, want)
		}
		if want != "fresh" {
			next.does(t, command{Do: "next_set", Key: "/rye", Tags: []string{"bread"}})
		}
	}
	expect("missing")
	for _, w := range c.workers {
		for _, of := range []target{{Kind: "tag", Value: "bread"}, {Kind: "prefix", Value: "next/build/b/"}, {Kind: "site"}} {
			w.does(t, command{Do: "purge", Targets: []target{of}})
			expect("stale")
			expect("fresh")
			w.does(t, command{Do: "purge", Targets: []target{of}, Hard: true})
			expect("missing")
			w.does(t, command{Do: "purge", Targets: []target{{Kind: "tag", Value: "cake"}, {Kind: "prefix", Value: host + "/"}}, Hard: true})
			expect("fresh")
		}
	}
	key := host + "/rye"
	page := at(key, generation("rye", 600))
	s.store(t, page.BodyKey, bodyOf("rye"))
	c.workers[0].regenerate(t, key, page)
	s.awaitServed(t, "/rye", bodyOf("rye"))
	next.does(t, command{Do: "revalidate", Tags: []string{"größe"}})
	seq := ask[int64](t, c.workers[0], command{Do: "sequence"})
	for _, w := range c.workers {
		if got := ask[cover](t, w, command{Do: "covering", Key: key, Tags: page.Tags}); got.HardSeq != seq {
			t.Errorf("%s: the page is covered by %+v, want a hard purge at %d", w.language, got, seq)
		}
	}
	await(t, "isr serve to render a page that Next.js revalidated", func() bool {
		status, _, _ := s.get(t, "/rye")
		return status >= http.StatusInternalServerError
	})
}
