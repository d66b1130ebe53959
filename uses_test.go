package isr_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

func minUses(n int) func(*isr.Config) { return func(cfg *isr.Config) { cfg.MinUses = n } }

// A page is stored from its third request on. Until then this process renders it, and serves
// it for a few seconds.
func TestMinUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		tb.poll = rarely
		h := tb.node(tb.store("a"), minUses(3)).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; ttl=")
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
		if rec := tb.record(page); rec.Entry != nil || rec.Lock != nil || len(tb.bodyKeys(t)) != 0 {
			t.Errorf("stored: %+v, %q", rec, tb.bodyKeys(t))
		}
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=")
		// Old uses do not count, and a stored page is served at once.
		get(h, "/rare")
		get(h, "/rare")
		time.Sleep(2 * time.Hour)
		get(h, "/rare")
		if rec := tb.record(store.Key{Text: "example.com/rare"}); rec.Entry != nil {
			t.Errorf("stored: %+v", rec.Entry)
		}
		other := tb.node(tb.store("b"), minUses(3)).Handler(isr.Route{}, site)
		expect(t, get(other, "/"), "/ rendered 2", "isr; hit; ttl=-") // what another node has stored
	})
}

// Any number of invented URLs store nothing, and do not prevent a requested page from being
// stored.
func TestMinUsesAgainstInventedURLs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		h := tb.node(tb.store("a"), minUses(2)).Handler(isr.Route{}, quick(newSite()))
		const invented = 2000
		for i := range invented {
			get(h, fmt.Sprint("/invented/", i))
		}
		if n := len(tb.bodyKeys(t)); n > invented/50 {
			t.Errorf("%d of %d invented pages are stored", n, invented)
		}
		before := len(tb.bodyKeys(t))
		get(h, "/")
		get(h, "/")
		if n := len(tb.bodyKeys(t)); n != before+1 {
			t.Errorf("a page that was requested twice is not stored: %d bodies, %d before", n, before)
		}
	})
}

// While there is no room, missing pages are served without being stored. Stored pages are
// regenerated, and a missing page is stored once there is room.
func TestNoRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, uses := range []int{0, 2} {
			tb, site := newTable(t), newSite()
			full := new(atomic.Bool)
			h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.MinUses, cfg.Full = uses, full.Load }).Handler(isr.Route{}, quick(site))
			stored := store.Key{Text: "example.com/new"}
			get(h, "/")
			time.Sleep(6 * time.Second)
			get(h, "/")
			full.Store(true)
			for range 3 {
				if a := get(h, "/new"); !strings.Contains(a.status(), "fwd=miss") || !strings.Contains(a.status(), "detail=no-room") {
					if uses == 0 || !strings.Contains(a.status(), "detail=min-uses") {
						t.Errorf("with no room: %q", a.status())
					}
				}
				if a := get(h, "/new"); !strings.Contains(a.status(), "hit") || !strings.Contains(a.status(), "detail=unpublished") {
					t.Errorf("a moment later: %q", a.status())
				}
				time.Sleep(6 * time.Second)
			}
			if rec := tb.record(stored); rec.Entry != nil || rec.Lock != nil || len(tb.bodyKeys(t)) != 1 {
				t.Errorf("stored: %+v, %q", rec, tb.bodyKeys(t))
			}
			before := tb.record(page).Entry.GenerationID
			time.Sleep(5 * time.Minute)
			get(h, "/")
			time.Sleep(time.Second)
			if tb.record(page).Entry.GenerationID == before {
				t.Error("a stored page was not regenerated")
			}
			full.Store(false)
			get(h, "/new")
			if tb.record(stored).Entry == nil {
				t.Error("not stored though there is room")
			}
		}
	})
}

// quick makes the renders of a site take no time.
func quick(s *site) *site {
	s.delay = 0
	return s
}
