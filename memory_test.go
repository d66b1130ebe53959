package isr_test

import (
	"context"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// countedBodies counts the bodies that are opened.
type countedBodies struct {
	store.BodyStore
	opens atomic.Int64
}

func (c *countedBodies) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	c.opens.Add(1)
	return c.BodyStore.Open(ctx, key)
}

// putReloads appends n reloads of distinct pages to the log, in rows of 100.
func (tb *table) putReloads(n int) {
	tb.t.Helper()
	const perRow = 100
	seq, err := tb.store("log").Sequence(tb.t.Context())
	if err != nil {
		tb.t.Fatal(err)
	}
	for first := 0; first < n; first += perRow {
		var targets []types.AttributeValue
		for i := range min(perRow, n-first) {
			targets = append(targets, reloadOf(fmt.Sprintf("example.com/other/%d/%d", seq.Seq, i)))
		}
		seq.Seq++
		tb.putLogRow(seq.Seq, &types.AttributeValueMemberL{Value: targets})
	}
	tb.putSequence(seq.Seq)
}

// putReload appends the reload of one page to the log.
func (tb *table) putReload(key string) {
	tb.t.Helper()
	tb.putLogRow(1, &types.AttributeValueMemberL{Value: []types.AttributeValue{reloadOf(key)}})
	tb.putSequence(1)
}

// reloadOf is the target of a log row that makes nodes drop a page.
func reloadOf(key string) types.AttributeValue {
	return &types.AttributeValueMemberM{Value: map[string]types.AttributeValue{
		"kind": &types.AttributeValueMemberS{Value: "reload"}, "key": &types.AttributeValueMemberS{Value: key},
	}}
}

// A burst of rollbacks drops only the pages that were rolled back.
func TestReloadsDropOnlyTheirPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		b := twoGenerations(t, tb, 1, nil)[0]
		for range 10 {
			tb.putReloads(1_000)
			time.Sleep(time.Second)
		}
		before := b.store.reads.Load()
		expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
		if n := b.store.reads.Load() - before; n != 0 {
			t.Errorf("the store was read %d times: the page was dropped with others", n)
		}
	})
}

// A memory tier that is too small for any page is one that keeps nothing.
func TestSmallestMemory(t *testing.T) {
	for _, bytes := range []int64{1, 2, 63, 1000} {
		synctest.Test(t, func(t *testing.T) {
			a := newTable(t).peer("a", withHistory, newSite(), func(cfg *isr.Config) { cfg.Memory = bytes })
			a.regenerate(t, 1)
			for range 3 {
				expect(t, get(a, "/"), "/ rendered 1", "isr; hit")
			}
		})
	}
}

// gapDelay is how long rows that are missing in the log are read again.
const gapDelay = time.Second

// A reloaded page costs one read of META. Its body is immutable and in memory, so it is not
// fetched again, not even after a gap in the log.
func TestDroppedPagesKeepTheirBodies(t *testing.T) {
	for name, happen := range map[string]func(t *testing.T, tb *table, other *peer){
		"reload": func(t *testing.T, _ *table, other *peer) {
			if _, err := other.Pin(t.Context(), page, 0); err != nil {
				t.Fatal(err)
			}
		},
		"gap in the log": func(_ *testing.T, tb *table, _ *peer) { tb.putLog(5) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				bodies := &countedBodies{BodyStore: tb.bodies}
				a, b := tb.peer("a", withHistory, site, nil), tb.peerOn(bodies, "b", withHistory, site, nil)
				a.regenerate(t, 1)
				expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
				happen(t, tb, a)
				time.Sleep(isr.DefaultPoll + gapDelay)
				reads, opens := b.store.reads.Load(), bodies.opens.Load()
				for range 3 {
					expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
				}
				if n := b.store.reads.Load() - reads; n != 1 {
					t.Errorf("META was read %d times, want once", n)
				}
				if n := bodies.opens.Load() - opens; n != 0 {
					t.Errorf("%d bodies were fetched, want none", n)
				}
				// Another generation has another body.
				time.Sleep(time.Second)
				if _, err := a.Regenerate(t.Context(), page, isr.WithUnpin()); err != nil {
					t.Fatal(err)
				}
				if _, err := a.Rollback(t.Context(), page, isr.RollbackTo(a.versions(t)[0].GenerationID)); err != nil {
					t.Fatal(err)
				}
				time.Sleep(isr.DefaultPoll)
				expect(t, get(b, "/"), "/ rendered 2", "isr; hit")
			})
		})
	}
}

// Another service may write new content under the same body key, so its body is fetched
// again.
func TestDroppedForeignPagesFetchTheirBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		bodies := &countedBodies{BodyStore: tb.bodies}
		tb.putForeign(page, "pages/theirs.html", "theirs")
		b := tb.peerOn(bodies, "b", withHistory, newSite(), nil)
		expect(t, get(b, "/"), "theirs", "isr; hit")
		tb.putLog(5)
		time.Sleep(isr.DefaultPoll + gapDelay)
		expect(t, get(b, "/"), "theirs", "isr; hit")
		if n := bodies.opens.Load(); n != 2 {
			t.Errorf("the body was fetched %d times, want 2", n)
		}
	})
}

// A read that began before a rollback of its page is never kept, however long it takes and
// whatever else is reloaded during the read.
func TestLateReadIsNotKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, b, early := rolledBackDuringRead(t, 2*store.LogLife)
		tb.putReloads(10_000)
		time.Sleep(isr.DefaultPoll)
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
		if late := <-early; !strings.Contains(late.Body.String(), "rendered") {
			t.Errorf("the late visitor got %d %q", late.Code, late.Body)
		}
		expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
	})
}

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
