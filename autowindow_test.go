package isr_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

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

// A window that the response states, and that of a missing page, are not adjusted.
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
