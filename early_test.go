package isr_test

import (
	"errors"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// soon makes every draw refresh early: up to 36 render times before expiry.
func soon(c *isr.Config) { c.Random = func() uint64 { return 0 } }

func TestEarlyRefresh(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{EarlyRefresh: 1}
		hs := []http.Handler{
			tb.node(tb.store("a"), soon).Handler(rt, site),
			tb.node(tb.store("b"), soon).Handler(rt, site),
		}
		for round := 1; round < 4; round++ {
			for _, a := range crowd(20, hs, "/") { // too early for any lot
				expect(t, a, fmt.Sprint("/ rendered ", round), "isr; ")
			}
			synctest.Wait()
			if n := site.renders.Load(); n != int64(round) {
				t.Fatalf("%d renders, want %d", n, round)
			}
			time.Sleep(time.Until(tb.record(page).Entry.FreshUntil()) - 10*time.Second)
			for range 5 {
				for _, a := range crowd(20, hs, "/") {
					if a.took > 0 || strings.Contains(a.status(), "stale") {
						t.Errorf("a visitor got %q after %v", a.status(), a.took)
					}
				}
				time.Sleep(site.delay)
			}
			if n := site.renders.Load(); n != int64(round)+1 {
				t.Fatalf("%d renders, want one more for both nodes: %d", n, round+1)
			}
			time.Sleep(6 * time.Second) // now the other node must have found the page
			crowd(20, hs, "/")
			synctest.Wait()
		}
	})
}

func TestEarlyRefreshIsOffByDefault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), soon).Handler(isr.Route{}, site)
		get(h, "/")
		for range 58 {
			time.Sleep(time.Second)
			get(h, "/")
		}
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders of a fresh page, want 1", n)
		}
	})
}

// The render time is published with the page.
func TestRenderTimeIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 1234*time.Millisecond + 567*time.Microsecond
		c := tb.node(tb.store("a"), nil)
		c.Handler(isr.Route{Name: "site"}, site)
		e, err := c.Regenerate(t.Context(), page)
		if err != nil || e.RenderTime != 1235*time.Millisecond {
			t.Errorf("%v, %v; want 1.235s", e.RenderTime, err)
		}
	})
}

// After a failed early refresh the fresh page is served, and no refresh starts before the
// back-off ends.
func TestEarlyRefreshFails(t *testing.T) {
	for name, memory := range map[string]int64{"in memory": 0, "without memory": -1} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				c := tb.node(tb.store("a"), func(c *isr.Config) { soon(c); c.Memory = memory })
				h := c.Handler(isr.Route{EarlyRefresh: 1}, site)
				get(h, "/")
				site.answers(failing)
				time.Sleep(30 * time.Second)
				for range 58 {
					expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
					time.Sleep(500 * time.Millisecond)
				}
				// The pauses, with these draws: 0.5, 1, 2, 4, 8, 15 s, and a render each.
				if n := site.renders.Load(); memory == 0 && n > 8 || n < 1 {
					t.Errorf("%d renders of a failing page in 29 s", n)
				}
			})
		})
	}
}

// A page that became uncacheable is served while it is fresh, and not rendered repeatedly.
func TestEarlyRefreshIsRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), soon).Handler(isr.Route{EarlyRefresh: 1}, site)
		get(h, "/")
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Vary", "Accept-Language") })
		time.Sleep(30 * time.Second)
		for range 20 {
			expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
			time.Sleep(time.Second)
		}
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

// However many hits draw a refresh, the store is called once a second.
func TestEarlyRefreshCallsTheStoreOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		store := &faultyStore{MetaStore: tb.store("a")}
		h := tb.node(store, nil).Handler(isr.Route{EarlyRefresh: 10}, site)
		get(h, "/")
		time.Sleep(time.Until(tb.record(page).Entry.FreshUntil()) - time.Second)
		var asked int
		store.read = func() error { asked++; return errors.New("the store is down") }
		for range 100 {
			expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
			synctest.Wait()
		}
		if asked != 1 {
			t.Errorf("the store was asked %d times, want once", asked)
		}
	})
}

// Under the policy Wait, a request that finds the page stale while it is refreshed early
// waits for that refresh only.
func TestEarlyRefreshIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), soon).Handler(isr.Route{EarlyRefresh: 1, Policy: isr.Wait}, site)
		get(h, "/")
		time.Sleep(59*time.Second - site.delay/2)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=0")
		time.Sleep(site.delay - time.Millisecond)
		a := get(h, "/")
		expect(t, a, "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored; collapsed")
		if a.took > site.delay {
			t.Errorf("waited %v", a.took)
		}
	})
}

// The same holds while another process refreshes the page.
func TestEarlyRefreshElsewhereIsWaitedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), soon).Handler(isr.Route{EarlyRefresh: 1, Policy: isr.Wait}, site)
		get(h, "/")
		expiry := tb.record(page).Entry.FreshUntil()
		time.Sleep(time.Until(expiry) - 200*time.Millisecond)
		tb.hold(page, 2*time.Second)
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=0")
		time.Sleep(time.Until(expiry) + time.Millisecond)
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=stale; fwd-status=200; stored")
	})
}

// Pages published together do not expire together, and the stored window is the one in
// responses.
func TestJitter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=600")
			fmt.Fprint(w, "a page")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		windows := make(map[time.Duration]int)
		for _, path := range paths(40) {
			go get(h, path)
		}
		time.Sleep(2 * time.Second)
		for _, path := range paths(40) {
			e := tb.record(store.Key{Text: "example.com" + path}).Entry
			windows[e.Revalidate]++
			if e.Revalidate < 570*time.Second || e.Revalidate > 600*time.Second {
				t.Errorf("%s is fresh for %v", path, e.Revalidate)
			}
			a := get(h, path)
			age, ttl := e.Age(time.Now())/time.Second, math.Floor(time.Until(e.FreshUntil()).Seconds())
			if a.Header().Get("Age") != fmt.Sprint(int(age)) || a.status() != fmt.Sprintf("isr; hit; ttl=%.0f", ttl) {
				t.Errorf("%s: Age %s, %q; want %d and %.0f, as is stored", path, a.Header().Get("Age"), a.status(), age, ttl)
			}
		}
		if len(windows) < 5 {
			t.Errorf("the windows are %v", windows)
		}
	})
}

func TestJitterOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), func(c *isr.Config) { c.Random = func() uint64 { return math.MaxUint64 } })
		h := c.Handler(isr.Route{Jitter: -1}, site)
		for _, path := range paths(5) {
			get(h, path)
			if e := tb.record(store.Key{Text: "example.com" + path}).Entry; e.Revalidate != time.Minute {
				t.Errorf("%s is fresh for %v", path, e.Revalidate)
			}
		}
	})
}

func TestTokensAreInjected(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		c := tb.node(tb.store("a"), func(c *isr.Config) { c.NewToken = func() string { return "TOKEN1" } })
		c.Handler(isr.Route{Name: "site"}, site)
		if e, err := c.Regenerate(t.Context(), page); err != nil || !strings.HasSuffix(e.GenerationID, "-token1") || !strings.HasSuffix(e.BodyKey, e.GenerationID) {
			t.Errorf("%+v, %v", e, err)
		}
	})
}

func TestRouteBounds(t *testing.T) {
	for want, rt := range map[string]isr.Route{
		"":               {EarlyRefresh: 10, Jitter: 0.5, Policy: isr.Wait},
		"Policy must be": {Policy: 2},
		"EarlyRefresh must be between 0 and 10 (got -1)":   {EarlyRefresh: -1},
		"EarlyRefresh must be between 0 and 10 (got 10.5)": {EarlyRefresh: 10.5},
		"EarlyRefresh must be between 0 and 10 (got NaN)":  {EarlyRefresh: math.NaN()},
		"Jitter must be between 0 and 0.5 (got 0.6)":       {Jitter: 0.6},
		"Jitter must be between 0 and 0.5 (got NaN)":       {Jitter: math.NaN()},
	} {
		err := rt.Validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%+v: %v, want %q", rt, err, want)
		}
	}
}

func TestAutoWindowNext(t *testing.T) {
	w := isr.AutoWindow{Min: 10 * time.Second, Max: time.Hour}
	for _, tt := range []struct {
		name          string
		window, since time.Duration
		changed       bool
		want          time.Duration
	}{
		{"unchanged", 100 * time.Second, 100 * time.Second, false, 120 * time.Second},
		{"unchanged for long", 100 * time.Second, 200 * time.Second, false, 240 * time.Second},
		{"unchanged for much longer", 100 * time.Second, 24 * time.Hour, false, 400 * time.Second},
		{"unchanged, regenerated early", 100 * time.Second, 10 * time.Second, false, 100 * time.Second},
		{"unchanged, at the bound", 50 * time.Minute, 2 * time.Hour, false, time.Hour},
		{"changed", 100 * time.Second, 100 * time.Second, true, 25 * time.Second},
		{"changed, regenerated late", 100 * time.Second, 400 * time.Second, true, 50 * time.Second},
		{"changed, regenerated much later", 100 * time.Second, time.Hour, true, 100 * time.Second},
		{"changed, at the bound", 12 * time.Second, 12 * time.Second, true, 10 * time.Second},
		{"of another writer, too long", 24 * time.Hour, time.Second, true, time.Hour},
		{"of another writer, too short", time.Second, 0, false, 10 * time.Second},
		{"rounded down", 25 * time.Second, 26 * time.Second, false, 31 * time.Second},
	} {
		if got := w.Next(tt.window, tt.since, tt.changed); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// silent makes a site serve this content, without stating its freshness.
func silent(s *site, content *string) {
	s.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { fmt.Fprint(w, *content) })
}

// TestAutoWindow: the window of a page lengthens while it does not change, and shortens when
// it does. It is shared with other processes, and a purge leaves it as it is.
func TestAutoWindow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site, content := newTable(t), newSite(), "one"
		silent(site, &content)
		site.delay = 0
		rt := isr.Route{Auto: isr.AutoWindow{Min: 10 * time.Second, Max: time.Minute}, Jitter: -1}
		a := tb.node(tb.store("a"), nil)
		hs := []http.Handler{a.Handler(rt, site), tb.node(tb.store("b"), nil).Handler(rt, site)}
		regenerate := func(round int) time.Duration {
			get(hs[round%2], "/")
			synctest.Wait()
			return tb.record(page).Entry.Revalidate
		}
		expire := func() { time.Sleep(time.Until(tb.record(page).Entry.FreshUntil())) }
		for round, want := range []time.Duration{10, 12, 14, 16, 19, 22, 26, 31, 37, 44, 52, 60, 60} {
			if got := regenerate(round); got != want*time.Second {
				t.Fatalf("round %d: the window is %v, want %ds", round, got, want)
			}
			expire()
		}
		content = "two"
		if got := regenerate(0); got != 15*time.Second {
			t.Errorf("after a change the window is %v, want 15s", got)
		}
		time.Sleep(3 * time.Second)
		content = "three"
		if _, err := a.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}}); err != nil {
			t.Fatal(err)
		}
		if got := regenerate(0); got != 15*time.Second {
			t.Errorf("after a purge the window is %v, want 15s", got)
		}
	})
}

// A window that the response states, and the window of a missing page, are not adjusted.
func TestAutoWindowIsOfTheRoute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=20, stale-while-revalidate=86400")
			fmt.Fprint(w, "same")
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Auto: isr.AutoWindow{Min: 10 * time.Second, Max: time.Minute}, Jitter: -1}, site)
		for range 3 {
			get(h, "/")
			synctest.Wait()
			if got := tb.record(page).Entry.Revalidate; got != 20*time.Second {
				t.Fatalf("the window is %v, want the 20s of the response", got)
			}
			time.Sleep(21 * time.Second)
		}
	})
}

func TestAutoWindowIsValid(t *testing.T) {
	for _, rt := range []isr.Route{
		{Auto: isr.AutoWindow{Min: 10 * time.Second}},
		{Auto: isr.AutoWindow{Max: 10 * time.Second}},
		{Auto: isr.AutoWindow{Min: time.Millisecond, Max: time.Hour}},
	} {
		var invalid *isr.ConfigError
		if err := rt.Validate(); !errors.As(err, &invalid) || invalid.Field != "Auto" {
			t.Errorf("%+v: %v", rt.Auto, err)
		}
	}
	both := isr.Route{Revalidate: time.Minute, Auto: isr.AutoWindow{Min: time.Second, Max: time.Minute}}
	var invalid *isr.ConfigError
	if err := both.Validate(); !errors.As(err, &invalid) || invalid.Field != "Revalidate" {
		t.Errorf("both windows: %v", err)
	}
}
