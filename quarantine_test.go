package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/store"
)

// text answers with an HTML page that is fresh for a minute.
func text(body string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, _ *http.Request, _ int64) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "public, max-age=60, stale-while-revalidate=86400")
		fmt.Fprint(w, body)
	}
}

func rejecting() isr.Route {
	return isr.Route{Name: "r", Jitter: -1, Stale: time.Hour, Reject: isr.Reject{SmallerThan: 0.5, With: []string{"Fatal error"}}}
}

var pageKey = store.Key{Text: "example.com/"}

// A suspicious generation is quarantined, the current one stays, and the origin is not asked
// at each request. Accepting it publishes it on every node.
func TestRejectedGenerationIsQuarantined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		a, b := tb.node(tb.store("a"), nil), tb.node(tb.store("b"), nil)
		h, other := a.Handler(rejecting(), s), b.Handler(rejecting(), s)
		good, small := strings.Repeat("good ", 100), "small"
		s.answers(text(good))
		get(h, "/")
		get(other, "/")
		time.Sleep(61 * time.Second)
		s.answers(text(small))
		expect(t, get(h, "/"), good, "isr; hit; ttl=-")
		synctest.Wait()
		renders := s.renders.Load()
		time.Sleep(100 * time.Millisecond)
		for range 50 {
			expect(t, get(h, "/"), good, "isr; hit; ttl=-")
			expect(t, get(other, "/"), good, "isr; hit; ttl=-")
		}
		synctest.Wait()
		if n := s.renders.Load(); n != renders {
			t.Errorf("the origin was asked %d more times during the back-off", n-renders)
		}
		time.Sleep(time.Second)
		if got := get(h, "/"); !strings.HasSuffix(got.status(), "; detail=rejected") {
			t.Errorf("Cache-Status %q", got.status())
		}
		if !strings.Contains(tb.log.String(), `msg="rejected a generation; the current one stays" key=example.com/ reason="it has 5 bytes, the current generation 500"`) {
			t.Error("the log does not say so")
		}
		synctest.Wait()
		time.Sleep(time.Minute) // no matter how often it is rejected, one is kept

		q, err := b.Quarantined(t.Context(), pageKey)
		if err != nil || q.Reason != "it has 5 bytes, the current generation 500" {
			t.Fatalf("%+v, %v", q, err)
		}
		d, err := b.DiffQuarantined(t.Context(), pageKey)
		if err != nil || !strings.Contains(d.Body, "+small") || d.To.GenerationID != q.Entry.GenerationID {
			t.Errorf("%+v, %v", d, err)
		}
		e, err := b.AcceptQuarantined(t.Context(), pageKey, q.Entry.GenerationID[:20])
		if err != nil || e.GenerationID != q.Entry.GenerationID {
			t.Fatalf("%+v, %v", e, err)
		}
		time.Sleep(2 * time.Second)
		for _, node := range []http.Handler{h, other} {
			if got := get(node, "/"); got.Body.String() != small {
				t.Errorf("after it was accepted: %q, %q", got.Body, got.status())
			}
		}
		if _, err := a.Quarantined(t.Context(), pageKey); !errors.Is(err, store.ErrNotQuarantined) {
			t.Errorf("it is still in quarantine: %v", err)
		}
		time.Sleep(2 * time.Minute)
		get(h, "/") // what is rendered next is compared with what was accepted
		synctest.Wait()
		expect(t, get(h, "/"), small, "isr; hit; ttl=5")
	})
}

// A generation in quarantine that a hard purge covers by a tag which only it has is not accepted;
// a soft purge makes it stale.
func TestPurgedTagInQuarantine(t *testing.T) {
	for _, hard := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tb, s := newTable(t), newSite()
			tb.poll, s.delay = rarely, 0
			c := tb.node(tb.store("a"), nil)
			h := c.Handler(rejecting(), s)
			s.answers(text(strings.Repeat("good ", 100)))
			get(h, "/")
			time.Sleep(61 * time.Second)
			s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
				w.Header().Set("Cache-Tag", "small")
				text("small")(w, r, n)
			})
			get(h, "/")
			synctest.Wait()
			if q, err := c.Quarantined(t.Context(), pageKey); err != nil || !slices.Contains(q.Entry.Tags, "small") {
				t.Fatalf("in quarantine: %+v, %v", q, err)
			}
			if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "small")}, Hard: hard}); err != nil {
				t.Fatal(err)
			}
			_, err := c.AcceptQuarantined(t.Context(), pageKey, "")
			if hard && !errors.Is(err, store.ErrPurged) || !hard && err != nil {
				t.Errorf("after a purge of its tag, hard %t: %v", hard, err)
			}
		})
	}
}

// The first generation of a page is judged by its texts, and a visitor never gets it.
func TestFirstGenerationIsJudgedByTexts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(rejecting(), s)
		s.answers(text("tiny"))
		expect(t, get(h, "/tiny"), "tiny", "isr; fwd=miss; fwd-status=200; stored")
		s.answers(text("Fatal error: out of memory"))
		if a := get(h, "/"); a.Code != http.StatusBadGateway || strings.Contains(a.Body.String(), "Fatal") || !strings.HasSuffix(a.status(), "detail=rejected") {
			t.Errorf("%d %q, %q", a.Code, a.Body, a.status())
		}
		if a := get(h, "/"); !strings.HasSuffix(a.status(), "detail=back-off") {
			t.Errorf("during the back-off: %q", a.status())
		}
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/tiny"}); !errors.Is(err, isr.ErrRejected) {
			t.Errorf("an operator's regeneration: %v", err)
		}
		if _, err := c.AcceptQuarantined(t.Context(), pageKey, "1999"); !errors.Is(err, store.ErrNotQuarantined) {
			t.Errorf("another generation: %v", err)
		}
		if _, err := c.AcceptQuarantined(t.Context(), pageKey, ""); err != nil {
			t.Fatal(err)
		}
		expect(t, get(h, "/"), "Fatal error: out of memory", "isr; hit")
	})
}

// Once the current generation may not be served any more, nothing is compared with it: a
// page that has really become small comes back without an operator.
func TestRejectionEndsWithTheStaleWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(rejecting(), s)
		s.answers(text(strings.Repeat("good ", 100)))
		get(h, "/")
		get(h, "/purged")
		s.answers(text("small"))
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(store.Key{Text: "example.com/purged"})}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		expect(t, get(h, "/purged"), "small", "isr; fwd=")
		time.Sleep(61 * time.Minute)
		expect(t, get(h, "/"), "small", "isr; fwd=")
	})
}

func TestAcceptRefuses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		c := tb.node(tb.store("a"), nil)
		h := c.Handler(rejecting(), s)
		if _, err := c.AcceptQuarantined(t.Context(), pageKey, ""); !errors.Is(err, store.ErrNotQuarantined) {
			t.Errorf("nothing in quarantine: %v", err)
		}
		quarantine := func() {
			t.Helper()
			s.answers(text(strings.Repeat("good ", 100)))
			get(h, "/")
			time.Sleep(61 * time.Second)
			s.answers(text("small"))
			get(h, "/")
			synctest.Wait()
		}
		quarantine()
		if _, err := c.Pin(t.Context(), pageKey, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AcceptQuarantined(t.Context(), pageKey, ""); !errors.Is(err, store.ErrPinned) {
			t.Errorf("a pinned page: %v", err)
		}
		if _, err := c.Unpin(t.Context(), pageKey); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgePrefix("", "example.com/")}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AcceptQuarantined(t.Context(), pageKey, ""); !errors.Is(err, store.ErrPurged) {
			t.Errorf("a purged generation: %v", err)
		}
		time.Sleep(time.Minute)
		s.answers(text("newer"))
		get(h, "/")
		synctest.Wait()
		if _, err := c.AcceptQuarantined(t.Context(), pageKey, ""); !errors.Is(err, store.ErrMoved) {
			t.Errorf("after a newer generation: %v", err)
		}
		if err := c.DropQuarantined(t.Context(), pageKey); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Quarantined(t.Context(), pageKey); !errors.Is(err, store.ErrNotQuarantined) {
			t.Errorf("dropped: %v", err)
		}
	})
}

// The body of a quarantined generation is not garbage, as long as its row exists.
func TestQuarantinedBodyIsNotGarbage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		meta := tb.store("a")
		c := tb.node(meta, nil)
		h := c.Handler(rejecting(), s)
		s.answers(text("Fatal error"))
		get(h, "/")
		time.Sleep(time.Minute) // the back-off
		collect := func() gc.Collected {
			t.Helper()
			// Files have times of the real clock.
			later := func() time.Time { return time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC) }
			done, err := gc.Collect(t.Context(), meta, tb.bodies, gc.CollectOptions{Now: later})
			if err != nil {
				t.Fatal(err)
			}
			return done
		}
		if done := collect(); done.Bodies != 0 || done.Kept != 1 {
			t.Errorf("with the row: %+v", done)
		}
		if err := c.DropQuarantined(t.Context(), pageKey); err != nil {
			t.Fatal(err)
		}
		if done := collect(); done.Bodies != 1 || len(tb.bodyKeys(t)) != 0 {
			t.Errorf("without it: %+v", done)
		}
	})
}

// With KeepStale, visitors do not wait for a page that has expired for less than a freshness window, and get it for a
// day while the origin fails. A page that states its lifetime is not kept.
func TestKeepStale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Name: "r", Jitter: -1, Revalidate: time.Hour, KeepStale: true}, s)
		own := true
		s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			if r.URL.Path == "/own" && own {
				w.Header().Set("Cache-Control", "max-age=3600")
			}
			fmt.Fprintf(w, "%s %d", r.URL.Path, n)
		})
		expect(t, get(h, "/"), "/ 1", "isr; fwd=miss")
		expect(t, get(h, "/own"), "/own 2", "isr; fwd=miss")
		time.Sleep(90 * time.Minute)
		expect(t, get(h, "/"), "/ 1", "isr; hit; ttl=-")
		synctest.Wait()
		time.Sleep(time.Second)
		expect(t, get(h, "/"), "/ 3", "isr; hit; ttl=35")
		expect(t, get(h, "/own"), "/own 4", "isr; fwd=stale")
		s.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(http.StatusInternalServerError) })
		time.Sleep(24 * time.Hour)
		expect(t, get(h, "/"), "/ 3", "isr; hit; ttl=-")
		if got := get(h, "/own"); got.Code < 500 {
			t.Errorf("/own: %d, %q", got.Code, got.Body)
		}
		time.Sleep(2 * time.Hour)
		if got := get(h, "/"); got.Code < 500 {
			t.Errorf("after a day: %d, %q", got.Code, got.Body)
		}
	})
}

// A page that is cut off does not replace a whole one; a page that never had an end is no concern.
func TestTruncatedGenerationIsRejected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, s := newTable(t), newSite()
		tb.poll, s.delay = rarely, 0
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Name: "r", Jitter: -1, Stale: time.Hour, Reject: isr.Reject{Truncated: true}}, s)
		const whole = "<html>whole</html>\n"
		s.answers(text(whole))
		get(h, "/")
		time.Sleep(61 * time.Second)
		s.answers(text("<html>cut"))
		expect(t, get(h, "/"), whole, "isr; hit; ttl=-")
		synctest.Wait()
		time.Sleep(2 * time.Second)
		if got := get(h, "/"); got.Body.String() != whole || !strings.HasSuffix(got.status(), "; detail=rejected") {
			t.Errorf("%q, %q", got.Body, got.status())
		}
		expect(t, get(h, "/part"), "<html>cut", "isr; fwd=miss")
		s.answers(text("<html>cut again"))
		time.Sleep(61 * time.Second)
		get(h, "/part")
		synctest.Wait()
		time.Sleep(time.Second)
		expect(t, get(h, "/part"), "<html>cut again", "isr; hit; ttl=5")
	})
}
