package isr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

func (p *peer) versions(t *testing.T) []isr.Version {
	t.Helper()
	versions, err := p.Versions(t.Context(), page)
	if err != nil {
		t.Fatal(err)
	}
	return versions
}

func TestVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", withHistory, site, nil)
		if v := p.versions(t); len(v) != 0 {
			t.Errorf("of a page never stored: %v", v)
		}
		site.delay = 0
		for range 7 { // in one second
			time.Sleep(time.Millisecond)
			if _, err := p.Regenerate(t.Context(), page); err != nil {
				t.Fatal(err)
			}
		}
		versions := p.versions(t)
		if len(versions) != withHistory.History || !versions[0].Current {
			t.Fatalf("%d versions, current first: %+v", len(versions), versions)
		}
		for i, v := range versions[1:] {
			if v.Current || v.Version >= versions[i].Version {
				t.Errorf("version %d: current %v, published at %d after %d", i+1, v.Current, v.Version, versions[i].Version)
			}
		}
		if _, err := p.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		again := p.versions(t)
		if len(again) != len(versions) || again[0].Current || !again[1].Current || again[1].GenerationID != versions[1].GenerationID {
			t.Errorf("after a rollback: %+v", again)
		}
	})
}

func TestVersionsWithoutHistory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site"}, newSite(), nil)
		p.regenerate(t, 2)
		if v := p.versions(t); len(v) != 1 || !v[0].Current {
			t.Errorf("%+v, want the current one", v)
		}
		if _, err := p.Rollback(t.Context(), page); !errors.Is(err, store.ErrNoVersion) {
			t.Errorf("Rollback: %v", err)
		}
		tb.putForeign(page, "pages/theirs.html", "theirs")
		if v := p.versions(t); len(v) != 1 || !v[0].Current || !v[0].Foreign {
			t.Errorf("%+v, want another service's", v)
		}
	})
}

func TestRollbackTo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", withHistory, newSite(), nil)
		p.regenerate(t, 4)
		versions := p.versions(t)
		oldest := versions[3].GenerationID
		for _, tt := range []struct {
			name string
			to   string
			want string // the page, or empty: ErrNoVersion
		}{
			{"whole id", oldest, "/ rendered 1"},
			{"beginning", oldest[:len(oldest)-5], "/ rendered 1"},
			{"the current one", versions[0].GenerationID, "/ rendered 4"},
			{"ambiguous", oldest[:4], ""},
			{"unknown", "20010101", ""},
		} {
			e, err := p.Rollback(t.Context(), page, isr.RollbackTo(tt.to), isr.PinFor(90*time.Minute))
			if tt.want == "" {
				if !errors.Is(err, store.ErrNoVersion) {
					t.Errorf("%s: %+v, %v", tt.name, e, err)
				}
				continue
			}
			if left := time.Until(e.PinnedUntil); err != nil || left < 90*time.Minute || left > 90*time.Minute+time.Second {
				t.Errorf("%s: %v, pinned for %v", tt.name, err, left)
			}
			expect(t, get(p, "/"), tt.want, "isr; hit")
		}

		// A second rollback starts from the current version, not from the newest.
		if _, err := p.Rollback(t.Context(), page, isr.RollbackTo(versions[1].GenerationID)); err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"/ rendered 2", "/ rendered 1"} {
			if _, err := p.Rollback(t.Context(), page); err != nil {
				t.Fatal(err)
			}
			expect(t, get(p, "/"), want, "isr; hit")
		}
		if _, err := p.Rollback(t.Context(), page); !errors.Is(err, store.ErrNoVersion) {
			t.Errorf("from the oldest: %v", err)
		}
		if _, err := p.Rollback(t.Context(), page, isr.PinFor(-time.Second)); err == nil {
			t.Error("a pin into the past is accepted")
		}
	})
}

func TestRollbackNeedsTheBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", withHistory, newSite(), nil)
		p.regenerate(t, 3)
		versions := p.versions(t)
		if err := tb.bodies.Delete(t.Context(), versions[1].BodyKey); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Rollback(t.Context(), page); !errors.Is(err, isr.ErrNoBody) {
			t.Errorf("without the body: %v", err)
		}
		tb.replaceBody(versions[2].BodyKey, "a part")
		if _, err := p.Rollback(t.Context(), page, isr.RollbackTo(versions[2].GenerationID)); !errors.Is(err, isr.ErrNoBody) {
			t.Errorf("with a part of the body: %v", err)
		}
		expect(t, get(p, "/"), "/ rendered 3", "isr; hit")
	})
}

// replaceBody overwrites a stored body.
func (tb *table) replaceBody(key, body string) {
	tb.t.Helper()
	if err := errors.Join(tb.bodies.Delete(tb.t.Context(), key), tb.bodies.Put(tb.t.Context(), key, []byte(body))); err != nil {
		tb.t.Fatal(err)
	}
}

// A regeneration that began before a rollback fails to publish, and serves the restored page.
func TestRollbackDuringARegeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := withHistory
		rt.Stale = -1
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		a.regenerate(t, 2)

		site.delay = 5 * time.Second
		forced := make(chan error)
		go func() {
			_, err := a.Regenerate(t.Context(), page)
			forced <- err
		}()
		time.Sleep(time.Second)
		if _, err := b.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		if err := <-forced; !errors.Is(err, store.ErrMoved) {
			t.Errorf("a forced regeneration: %v", err)
		}
		expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
		if _, err := a.Unpin(t.Context(), page); err != nil {
			t.Fatal(err)
		}

		// A regeneration that a visitor waits for.
		time.Sleep(2 * time.Minute)
		visited := make(chan answer)
		go func() { visited <- get(a, "/") }()
		time.Sleep(time.Second)
		if _, err := b.Rollback(t.Context(), page, isr.RollbackTo(b.versions(t)[0].GenerationID)); err != nil {
			t.Fatal(err)
		}
		expect(t, <-visited, "/ rendered 2", "isr; hit")
		if rec, err := a.store.Read(t.Context(), store.HashedPartition(page)); err != nil || rec.Lock != nil {
			t.Errorf("the loser left %+v, %v", rec.Lock, err)
		}
	})
}

// A generation that is published between the read and the rollback is replaced, like the
// one before it.
func TestRollbackAfterAConcurrentPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Name: "site", History: 20}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		a.regenerate(t, 2)
		b.store.rollback = func() {
			b.store.rollback = nil
			a.regenerate(t, 1)
		}
		if _, err := b.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		b.store.rollback = func() { a.regenerateUnpinned(t) }
		newest := isr.RollbackTo(b.versions(t)[0].GenerationID)
		if _, err := b.Rollback(t.Context(), page, newest); !errors.Is(err, store.ErrMoved) {
			t.Errorf("while others publish all the time: %v", err)
		}
	})
}

func (p *peer) regenerateUnpinned(t *testing.T) {
	t.Helper()
	if _, err := p.Regenerate(t.Context(), page, isr.WithUnpin()); err != nil {
		t.Fatal(err)
	}
}

func TestPinnedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = rarely
		a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
		if _, err := a.Pin(t.Context(), page, 0); !errors.Is(err, store.ErrNoVersion) {
			t.Errorf("of a page that is not stored: %v", err)
		}
		a.regenerate(t, 1)
		e, err := a.Pin(t.Context(), page, time.Hour)
		if left := time.Until(e.PinnedUntil); err != nil || left < time.Hour || left > time.Hour+time.Second {
			t.Fatalf("pinned for %v, %v", left, err)
		}
		if _, err := b.Regenerate(t.Context(), page); !errors.Is(err, store.ErrPinned) {
			t.Errorf("Regenerate: %v", err)
		}
		time.Sleep(30 * time.Minute)
		// Fresh, with age 0, and downstream caches keep it for a short time only.
		pinned := get(b, "/")
		expect(t, pinned, "/ rendered 1", "isr; hit; detail=pinned")
		if h := pinned.Header(); h.Get("Cache-Control") != "max-age=10" || h.Get("Age") != "0" {
			t.Errorf("downstream caches are told %v", h)
		}
		time.Sleep(time.Second)
		if n := site.renders.Load(); n != 1 {
			t.Errorf("a pinned page was rendered %d times", n)
		}
		time.Sleep(31 * time.Minute) // the pin has ended by itself
		get(b, "/")
		time.Sleep(2 * time.Second)
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit; ttl=")

		if _, err := a.Pin(t.Context(), page, 0); err != nil {
			t.Fatal(err)
		}
		g, err := b.Regenerate(t.Context(), page, isr.WithUnpin())
		if err != nil || !g.PinnedUntil.IsZero() {
			t.Errorf("WithUnpin: pinned until %v, %v", g.PinnedUntil, err)
		}
		before, err := a.Unpin(t.Context(), page)
		if err != nil || before.GenerationID != g.GenerationID || !before.PinnedUntil.IsZero() {
			t.Errorf("Unpin of a page that is not pinned: generation %s pinned until %v, %v; want %s as it was",
				before.GenerationID, before.PinnedUntil, err, g.GenerationID)
		}
	})
}

// A page that is pinned while the lease is acquired is not rendered.
func TestPinIsSeenUnderTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
		a.regenerate(t, 1)
		a.store.acquire = func() {
			a.store.acquire = nil
			if _, err := b.Pin(context.Background(), page, 0); err != nil {
				t.Error(err)
			}
		}
		if _, err := a.Regenerate(t.Context(), page); !errors.Is(err, store.ErrPinned) || site.renders.Load() != 1 {
			t.Errorf("%v after %d renders", err, site.renders.Load())
		}
		rec, err := b.store.Read(t.Context(), store.HashedPartition(page))
		if err != nil || rec.Lock != nil {
			t.Errorf("the lease was not given back: %+v, %v", rec.Lock, err)
		}
	})
}

// A pinned page without its body is rendered, and the pin is removed.
func TestPinnedPageWithoutItsBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
		a.regenerate(t, 1)
		e, err := a.Pin(t.Context(), page, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := tb.bodies.Delete(t.Context(), e.BodyKey); err != nil {
			t.Fatal(err)
		}
		expect(t, get(b, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		if v := b.versions(t)[0]; !v.Current || !v.PinnedUntil.IsZero() {
			t.Errorf("%+v", v)
		}
	})
}

// A purge takes precedence over a pin.
func TestPinnedPageThatIsPurged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
		a.regenerate(t, 2)
		if _, err := a.Pin(t.Context(), page, 0); err != nil {
			t.Fatal(err)
		}
		tb.purge(page, 7)
		expect(t, get(b, "/"), "/ rendered 3", "isr; fwd=miss; fwd-status=200; stored")
		if _, err := b.Rollback(t.Context(), page); !errors.Is(err, store.ErrPurged) {
			t.Errorf("to a generation that was purged: %v", err)
		}
	})
}

// An unchanged page has one body and one version, however often it is regenerated, so that
// no other versions are pruned.
func TestUnchangedPageIsOneVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", withHistory, site, nil)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) { cacheable(w, r, (n+9)/10) })
		p.regenerate(t, 13) // ten times one, three times the next
		versions := p.versions(t)
		if len(versions) != 2 || !versions[0].Current {
			t.Fatalf("%d versions, want 2: %+v", len(versions), versions)
		}
		if n := len(tb.bodyKeys(t)); n != 2 {
			t.Errorf("%d bodies are stored, want 2", n)
		}
		if _, err := p.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		expect(t, get(p, "/"), "/ rendered 1", "isr; hit")
		site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
			w.Header().Set("Content-Language", "de")
			cacheable(w, r, 1)
		})
		p.regenerateUnpinned(t)
		versions = p.versions(t)
		if len(versions) != 3 || versions[0].BodyKey != versions[2].BodyKey {
			t.Errorf("other headers are another content, with the same body: %+v", versions)
		}
	})
}

// If an unchanged generation has replaced the result of a request, a replay returns it.
func TestReplayOfAnUnchangedGeneration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", withHistory, site, nil)
		site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) { cacheable(w, r, 1) })
		first, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r"))
		if err != nil {
			t.Fatal(err)
		}
		p.regenerate(t, 1)
		again, err := p.Regenerate(t.Context(), page, isr.WithIdempotencyKey("r"))
		if err != nil || !again.Replayed || again.BodyKey != first.BodyKey || site.renders.Load() != 2 {
			t.Errorf("%+v, %v after %d renders", again, err, site.renders.Load())
		}
	})
}

// A page whose windows have ended while it was pinned is served instead of failures, with
// a detail, until a render succeeds.
func TestUnpinnedPageWhileTheOriginFails(t *testing.T) {
	for name, unpin := range map[string]func(t *testing.T, p *peer){
		"unpinned": func(t *testing.T, p *peer) {
			if _, err := p.Unpin(t.Context(), page); err != nil {
				t.Fatal(err)
			}
		},
		"the pin ended": func(*testing.T, *peer) { time.Sleep(2 * 24 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				p := tb.peer("a", isr.Route{Name: "site", Stale: time.Hour}, site, func(cfg *isr.Config) { cfg.Poll = -1 }) // months of polls take minutes
				p.regenerate(t, 1)
				if _, err := p.Pin(t.Context(), page, 29*24*time.Hour); err != nil {
					t.Fatal(err)
				}
				time.Sleep(28 * 24 * time.Hour)
				expect(t, get(p, "/"), "/ rendered 1", "isr; hit")
				site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
					http.Error(w, "broken", http.StatusInternalServerError)
				})
				unpin(t, p)
				for range 20 { // some of them during the back-off
					expect(t, get(p, "/"), "/ rendered 1", "isr; hit")
					if a := get(p, "/"); !strings.Contains(a.status(), "detail=stale-if-error") {
						t.Errorf("the page is not marked: %s", a.status())
					}
					time.Sleep(time.Minute / 2)
				}
				site.answers(cacheable)
				time.Sleep(time.Minute)
				if a := get(p, "/"); !strings.HasPrefix(a.Body.String(), "/ rendered") || a.Body.String() == "/ rendered 1" {
					t.Errorf("after the failure: %q, %s", a.Body, a.status())
				}
			})
		})
	}
}

// Changes that end a pin are in the log, so that no node serves the pinned generation from
// memory until the original end of the pin.
func TestRegenerationOverAPinIsSeenEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
		a.regenerate(t, 1)
		if _, err := a.Pin(t.Context(), page, 0); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		if _, err := a.Regenerate(t.Context(), page, isr.WithUnpin()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
	})
}

// An unpin of a page that is not pinned is in the log, too.
func TestUnpinOfAPageThatIsNotPinnedIsSeenEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", withHistory, newSite(), nil)
		p.regenerate(t, 1)
		before, err := tb.store("c").Sequence(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		e, err := p.Unpin(t.Context(), page)
		if err != nil || !e.PinnedUntil.IsZero() {
			t.Fatalf("pinned until %v, %v", e.PinnedUntil, err)
		}
		_, changes, err := tb.store("c").Changes(t.Context(), before.Seq)
		if err != nil || len(changes) != 1 || len(changes[0].Reload) != 1 || changes[0].Reload[0] != page {
			t.Errorf("the log says %+v, %v", changes, err)
		}
	})
}

// An unreadable store answers no reads of pages, as one that is throttled; its log is read.
type unreadable struct {
	store.MetaStore
	down atomic.Bool
}

func (u *unreadable) Read(ctx context.Context, pk string) (store.Record, error) {
	if u.down.Load() {
		return store.Record{}, errStoreDown
	}
	return u.MetaStore.Read(ctx, pk)
}

func (u *unreadable) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	if u.down.Load() {
		return store.Record{}, errStoreDown
	}
	return u.MetaStore.ReadSerializable(ctx, pk)
}

// A render that could not be stored, in an outage after a rollback, gives way to the page of the rollback as soon as the store
// answers.
func TestRollbackIsServedAfterAnOutage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		meta := &unreadable{MetaStore: tb.store("a")}
		c := tb.node(meta, nil)
		h := c.Handler(withHistory, site)
		for range 2 {
			time.Sleep(time.Second)
			if _, err := c.Regenerate(t.Context(), page); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.Rollback(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Second) // until the log has been read, which drops what is kept of the page
		meta.down.Store(true)
		if a := get(h, "/"); a.Body.String() != "/ rendered 3" {
			t.Errorf("in the outage: got %q, %s", a.Body, a.status())
		}
		meta.down.Store(false)
		time.Sleep(1500 * time.Millisecond) // until a fill may be tried again
		expect(t, get(h, "/"), "/ rendered 3", "isr; hit; ")
		synctest.Wait()
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
	})
}

func TestDiff(t *testing.T) {
	long := strings.Repeat("<p>word</p>", 100)
	for _, tt := range []struct {
		name     string
		from, to string // bodies
		want     string // of the diff's body
		note     string
	}{
		{"the same", "a\nb\n", "a\nb\n", "", ""},
		{"a line", "a\nb\nc\n", "a\nB\nc\n", "@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n", ""},
		{"minified", long + "<p>one</p>" + long, long + "<p>two</p>" + long, "-<p>one</p>\n+<p>two</p>\n", "long lines are broken between tags"},
		{"control characters", "a\n", "\x1b[2Ja\n", "-a\n+\x1b[2Ja\n", ""},
		{"an image", "\x89PNG\x00", "\x89PNG\x01", "", "is not text"},
		{"too long", "x", strings.Repeat("x", 1<<20+1), "", "more than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
					w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
					w.Header().Set("Content-Type", "text/html; charset=utf-8")
					fmt.Fprint(w, []string{tt.from, tt.to}[n-1])
				})
				p := tb.peer("a", withHistory, site, nil)
				p.regenerate(t, 2)
				versions := p.versions(t)
				oldest := versions[len(versions)-1] // the same one, if nothing changed
				d, err := p.Diff(t.Context(), page, oldest.GenerationID, versions[0].GenerationID)
				if err != nil {
					t.Fatal(err)
				}
				if !strings.Contains(d.Body, tt.want) || tt.want == "" && d.Body != "" || !strings.Contains(d.Note, tt.note) || tt.note == "" && d.Note != "" {
					t.Errorf("%q, and a note %q:\n%s", tt.name, d.Note, d.Body)
				}
				if strings.ContainsRune(d.String(), 0x1b) {
					t.Errorf("the text steers terminals: %q", d.String())
				}
				if same := tt.from == tt.to; same != (len(d.Fields) == 0) {
					t.Errorf("fields: %+v", d.Fields)
				}
			})
		})
	}
}

func TestDiffOfFields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, n int64) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
			if n == 2 {
				w.Header().Set("Surrogate-Key", "news front")
				w.Header().Set("Content-Language", "de")
				w.WriteHeader(http.StatusNotFound)
			}
			fmt.Fprint(w, "the same")
		})
		p := tb.peer("a", withHistory, site, nil)
		p.regenerate(t, 2)
		versions := p.versions(t)
		d, err := p.Diff(t.Context(), page, versions[1].GenerationID, versions[0].GenerationID)
		if err != nil {
			t.Fatal(err)
		}
		want := []isr.FieldDiff{
			{Name: "header content-language", To: "de"},
			{Name: "header surrogate-key", To: "news front"},
			{Name: "status", From: "200", To: "404"},
			{Name: "tags", To: "front, news"},
		}
		if diff := cmp.Diff(want, d.Fields); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		text := d.String()
		for _, line := range []string{
			fmt.Sprintf("from %s, 2000-01-01 00:00:01\n", versions[1].GenerationID),
			fmt.Sprintf("to   %s, 2000-01-01 00:00:03\n", versions[0].GenerationID),
			"status: 200 -> 404\n", "tags: (none) -> front, news\n",
		} {
			if !strings.Contains(text, line) {
				t.Errorf("there is no line %q in:\n%s", line, text)
			}
		}
	})
}

func TestDiffWithoutVersionsOrBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", withHistory, newSite(), nil)
		p.regenerate(t, 2)
		versions := p.versions(t)
		last, err := p.Diff(t.Context(), page, "", "")
		if err != nil || last.From.GenerationID != versions[1].GenerationID || last.To.GenerationID != versions[0].GenerationID {
			t.Errorf("by default %s is compared with %s, %v; want the last two of %v", last.From.GenerationID, last.To.GenerationID, err, versions)
		}
		for _, named := range []string{"2000", "1999"} { // ambiguous, not kept
			if _, err := p.Diff(t.Context(), page, named, versions[0].GenerationID); !errors.Is(err, store.ErrNoVersion) {
				t.Errorf("%q: %v", named, err)
			}
		}
		if err := tb.bodies.Delete(t.Context(), versions[1].BodyKey); err != nil {
			t.Fatal(err)
		}
		d, err := p.Diff(t.Context(), page, versions[1].GenerationID, versions[0].GenerationID)
		if err != nil || d.Body != "" || !strings.Contains(d.Note, versions[1].GenerationID) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}
