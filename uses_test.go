package isr_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
)

func minUses(n int) func(*isr.Config) { return func(cfg *isr.Config) { cfg.MinUses = n } }

// A page is stored from its third request on. Until then it is rendered, and shared
// for a few seconds, by this process alone.
func TestMinUses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), minUses(3)).Handler(isr.Route{}, site)
		expect(t, get(h, "/"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; ttl=")
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=")
		if rec := tb.record(page); rec.Entry != nil || rec.Lock != nil || len(tb.bodyKeys(t)) != 0 {
			t.Errorf("stored: %+v, %q", rec, tb.bodyKeys(t))
		}
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
		expect(t, get(h, "/"), "/ rendered 2", "isr; hit; ttl=")
		// Uses that are long ago do not count, and what is stored is served at once.
		get(h, "/rare")
		get(h, "/rare")
		time.Sleep(2 * time.Hour)
		get(h, "/rare")
		if rec := tb.record(isr.Key{Text: "example.com/rare"}); rec.Entry != nil {
			t.Errorf("stored: %+v", rec.Entry)
		}
		other := tb.node(tb.store("b"), minUses(3)).Handler(isr.Route{}, site)
		expect(t, get(other, "/"), "/ rendered 2", "isr; hit; ttl=-") // what another node has stored
	})
}

// Invented URLs store nothing, whatever their number, and do not keep a page that is
// asked for from being stored.
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
			t.Errorf("a page that was asked for twice is not stored: %d bodies, %d before", n, before)
		}
	})
}

// quick is a site whose renders take no time.
func quick(s *site) *site {
	s.delay = 0
	return s
}
