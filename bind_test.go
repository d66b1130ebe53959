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

// bindOne binds one route for all pages.
func bindOne(t *testing.T, c *isr.Cache, rt isr.Route, h http.Handler) http.Handler {
	t.Helper()
	handlers, err := c.Bind([]isr.Binding{{Route: rt, Renderer: h}}, func(store.Key) int { return 0 })
	if err != nil {
		t.Fatal(err)
	}
	return handlers[0]
}

// says answers with a text and the path, without saying anything about caching.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text+" "+r.URL.Path) })
}

// Pages stay when the routes change; what is rendered from then on, also by Regenerate,
// follows the new routes.
func TestBindKeepsPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		rt := isr.Route{Revalidate: time.Minute}
		h := bindOne(t, c, rt, says("old"))
		expect(t, get(h, "/kept"), "old /kept", "isr; fwd=miss; fwd-status=200; stored")
		find := func(k store.Key) int {
			if k.Text == "example.com/none" {
				return -1
			}
			return 1
		}
		handlers, err := c.Bind([]isr.Binding{{rt, says("first")}, {rt, says("second")}}, find)
		if err != nil {
			t.Fatal(err)
		}
		expect(t, get(handlers[1], "/kept"), "old /kept", "isr; hit; ttl=")
		expect(t, get(handlers[1], "/new"), "second /new", "isr; fwd=miss; fwd-status=200; stored")
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/kept"}); err != nil {
			t.Fatal(err)
		}
		expect(t, get(handlers[0], "/kept"), "second /kept", "isr; hit; ttl=")
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/none"}); !errors.Is(err, isr.ErrNoRenderer) {
			t.Errorf("a page without a route: %v", err)
		}
		expect(t, get(h, "/late"), "old /late", "isr; fwd=miss; fwd-status=200; stored") // handlers in flight go on
	})
}

// A page that was refused under the old routes is stored if the new ones allow it.
func TestBindForgetsRefusals(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		h := bindOne(t, c, isr.Route{}, says("text"))
		get(h, "/a")
		expect(t, get(h, "/a"), "text /a", "isr; fwd=bypass; fwd-status=200; detail=no-freshness")
		time.Sleep(time.Millisecond)
		h = bindOne(t, c, isr.Route{Revalidate: time.Minute}, says("text"))
		expect(t, get(h, "/a"), "text /a", "isr; fwd=miss; fwd-status=200; stored")
	})
}

// Invalid routes change nothing.
func TestBindRefusesInvalidRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		bindOne(t, c, isr.Route{Revalidate: time.Minute}, says("old"))
		_, err := c.Bind([]isr.Binding{{isr.Route{}, says("new")}, {isr.Route{Name: "b", History: 101}, says("new")}}, func(store.Key) int { return 1 })
		var field *isr.ConfigError
		if !errors.As(err, &field) || field.Field != "History" {
			t.Fatalf("got %v; expected an error of History", err)
		}
		if _, err := c.Regenerate(t.Context(), store.Key{Text: "example.com/a"}); err != nil {
			t.Error(err) // by the only route
		}
		defer func() {
			if recover() == nil {
				t.Error("Handler adds a route to those of Bind")
			}
		}()
		c.Handler(isr.Route{}, says("other"))
	})
}

// A purge covers the variants of a page that were stored under routes that have been
// replaced.
func TestBindPurgesVariantsOfOldRoutes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(tb.store("a"), nil)
		varied := isr.Route{Revalidate: time.Minute, Vary: []string{"X-Variant"}}
		h := bindOne(t, c, varied, says("old"))
		variant := func(h http.Handler) answer { return get(h, "/a", "X-Variant: 1") }
		expect(t, variant(h), "old /a", "isr; fwd=miss; fwd-status=200; stored")
		bindOne(t, c, isr.Route{Revalidate: time.Minute}, says("new"))
		time.Sleep(time.Second)
		if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(store.Key{Text: "example.com/a"})}, Hard: true}); err != nil {
			t.Fatal(err)
		}
		h = bindOne(t, c, varied, says("new"))
		expect(t, variant(h), "new /a", "isr; fwd=stale; fwd-status=200; stored")
	})
}
