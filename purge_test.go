package isr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// withTags answers with a page that has the tags "all" and "page-PATH".
func withTags(w http.ResponseWriter, r *http.Request, n int64) {
	w.Header().Set("Surrogate-Key", "all page-"+strings.Trim(r.URL.Path, "/"))
	cacheable(w, r, n)
}

// taggedFleet is a fleet whose nodes have the pages /a and /b in memory, as renderings 1 and 2.
func taggedFleet(t *testing.T, nodes int, change func(*isr.Config)) (*table, *site, []*peer) {
	t.Helper()
	tb, site := newTable(t), newSite()
	site.answers(withTags)
	peers := make([]*peer, nodes)
	for i := range peers {
		peers[i] = tb.peer(fmt.Sprint("node", i), withHistory, site, change)
	}
	for _, p := range peers {
		for i, path := range []string{"/a", "/b"} {
			if body := get(p, path).Body.String(); body != fmt.Sprintf("%s rendered %d", path, i+1) {
				t.Fatalf("%s: %q", path, body)
			}
		}
	}
	time.Sleep(time.Second)
	return tb, site, peers
}

func (p *peer) purge(t *testing.T, hard bool, targets ...store.PurgeTarget) store.Receipt {
	t.Helper()
	r, err := p.Purge(t.Context(), isr.Purge{Targets: targets, Hard: hard})
	if err != nil || r.Seq == 0 || r.WriteUnits == 0 {
		t.Fatalf("Purge: %+v, %v", r, err)
	}
	return r
}

var keyA = store.Key{Text: "example.com/a"}

// purges are targets that cover the page /a, and whether they cover /b.
var purges = map[string]struct {
	target store.PurgeTarget
	both   bool
}{
	"key":    {isr.PurgeKey(keyA), false},
	"tag":    {isr.PurgeTag("", "page-a"), false},
	"prefix": {isr.PurgePrefix("", "example.com/a"), false},
	"host":   {isr.PurgeHost("", "example.com"), true},
	"site":   {isr.PurgeSite(), true},
}

// A purge takes effect at once on its own node, and everywhere within a poll. It drops no
// page from memory that it does not cover.
func TestPurge(t *testing.T) {
	for name, purge := range purges {
		for _, hard := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, hard %t", name, hard), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					_, site, peers := taggedFleet(t, 3, nil)
					reads := peers[2].store.reads.Load()
					peers[1].purge(t, hard, purge.target)
					if !hard {
						expect(t, get(peers[1], "/a"), "/a rendered 1", "isr; hit; ttl=-;"[:8])
						if a := get(peers[1], "/a"); !strings.Contains(a.status(), "detail=stale") {
							t.Errorf("after a soft purge: %q", a.status())
						}
						time.Sleep(2 * time.Second)
					}
					expect(t, get(peers[1], "/a"), "/a rendered 3", "isr; ")
					time.Sleep(2 * time.Second)
					for _, p := range peers {
						get(p, "/a") // another node may find its own copy stale, and then the new one
						time.Sleep(time.Second)
						expect(t, get(p, "/a"), "/a rendered 3", "isr; hit; ttl=")
						if a := get(p, "/a"); strings.Contains(a.status(), "stale") {
							t.Errorf("%q", a.status())
						}
					}
					if n := site.renders.Load(); !purge.both && n != 3 {
						t.Errorf("%d renders, want 3", n)
					}
					if !purge.both {
						expect(t, get(peers[2], "/b"), "/b rendered 2", "isr; hit")
						if n := peers[2].store.reads.Load() - reads; n != 1 {
							t.Errorf("%d reads, want 1, of the page that was purged", n)
						}
					}
				})
			})
		}
	}
}

// A generation whose rendering began before a purge is born purged: visitors of a node that
// knows of a hard purge never get it, whichever node has purged.
func TestPurgeDuringARender(t *testing.T) {
	for name, purge := range purges {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, by the node itself %t", name, own), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					tb, site := newTable(t), newSite()
					site.answers(withTags)
					site.delay = 5 * time.Second
					a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
					by := b
					if own {
						by = a
					}
					time.Sleep(time.Second)
					leader, joined := make(chan answer), make(chan answer)
					go func() { leader <- get(a, "/a") }()
					time.Sleep(time.Second)
					by.purge(t, true, purge.target)
					time.Sleep(time.Second)
					go func() { joined <- get(a, "/a") }()
					for _, visitor := range []chan answer{leader, joined} {
						got := <-visitor
						expect(t, got, "/a rendered 2", "isr; ")
					}
					if n := site.renders.Load(); n != 2 {
						t.Errorf("%d renders, want 2", n)
					}
				})
			})
		}
	}
}

// After a soft purge the leader gets what was rendered. A visitor that came after the purge
// gets it as a stale page, or waits for the next one, by policy.
func TestSoftPurgeDuringARender(t *testing.T) {
	for policy, want := range map[isr.Policy][2]string{
		isr.ServeStale: {"/a rendered 1", "isr; hit; ttl=5"},
		isr.Wait:       {"/a rendered 2", "isr; fwd=miss; fwd-status=200; stored"},
	} {
		t.Run(policy.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(withTags)
				site.delay = 5 * time.Second
				rt := withHistory
				rt.Policy = policy
				a := tb.peer("a", rt, site, nil)
				time.Sleep(time.Second)
				leader, joined := make(chan answer), make(chan answer)
				go func() { leader <- get(a, "/a") }()
				time.Sleep(time.Second)
				a.purge(t, false, isr.PurgeTag("", "page-a"))
				go func() { joined <- get(a, "/a") }()
				expect(t, <-leader, "/a rendered 1", "isr; fwd=miss; fwd-status=200; stored")
				got := <-joined
				expect(t, got, want[0], want[1])
				if fresh := !strings.Contains(got.status(), "detail=stale"); fresh == (policy == isr.ServeStale) {
					t.Errorf("%q", got.status())
				}
			})
		})
	}
}

// A purge of a tag covers the pages of its tenant only, and a purge of a tenant all of them.
// A cache in front that has dropped its copy for the same purge does not take a page that is
// stale because of it as fresh.
func TestPurgedPageIsNotFreshForOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, site, peers := taggedFleet(t, 1, nil)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("CDN-Cache-Control", "max-age=3600")
			withTags(w, r, n)
		})
		controls := func(a answer) []string {
			return []string{a.Header().Get("Cache-Control"), a.Header().Get("CDN-Cache-Control")}
		}
		before := get(peers[0], "/a")
		peers[0].purge(t, false, isr.PurgeTag("", "all"))
		stale := get(peers[0], "/a")
		expect(t, stale, "/a rendered 1", "isr; hit")
		if got := controls(stale); !slices.Equal(got, []string{"max-age=0, must-revalidate", ""}) {
			t.Errorf("a purged page has the controls %q", got)
		}
		time.Sleep(2 * time.Second)
		fresh := get(peers[0], "/a")
		expect(t, fresh, "/a rendered 3", "isr; hit")
		if got, want := controls(fresh), []string{controls(before)[0], "max-age=3600"}; !slices.Equal(got, want) {
			t.Errorf("the new page has the controls %q, expected %q", got, want)
		}
	})
}

func TestPurgeOfATenant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Surrogate-Key", "t")
			cacheable(w, r, n)
		})
		p := tb.peer("a", isr.Route{Name: "site", TenantHeader: "X-Tenant"}, site, nil)
		visit := func(tenant string) string { return get(p, "/", "X-Tenant: "+tenant).Body.String() }
		if x, y := visit("x"), visit("y"); x != "/ rendered 1" || y != "/ rendered 2" {
			t.Fatal(x, y)
		}
		p.purge(t, true, isr.PurgeTag("x", "t"))
		if x, y := visit("x"), visit("y"); x != "/ rendered 3" || y != "/ rendered 2" {
			t.Errorf("after the tag was purged: %q, %q", x, y)
		}
		p.purge(t, true, isr.PurgeTenant("y"))
		if x, y := visit("x"), visit("y"); x != "/ rendered 3" || y != "/ rendered 4" {
			t.Errorf("after tenant y was purged: %q, %q", x, y)
		}
		p.purge(t, true, isr.PurgeSite())
		if x, y := visit("x"), visit("y"); x != "/ rendered 5" || y != "/ rendered 6" {
			t.Errorf("after everything was purged: %q, %q", x, y)
		}
	})
}

// A purge of a URL covers its variants.
func TestPurgeOfVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		rt := isr.Route{Name: "site", Vary: []string{"Accept-Language"}}
		a, b := tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)
		expect(t, get(a, "/a", "Accept-Language: de"), "/a rendered 1", "isr; ")
		expect(t, get(a, "/ab", "Accept-Language: de"), "/ab rendered 2", "isr; ")
		expect(t, get(b, "/a", "Accept-Language: de"), "/a rendered 1", "isr; ")
		a.purge(t, true, isr.PurgeKey(keyA))
		time.Sleep(time.Second)
		expect(t, get(b, "/a", "Accept-Language: de"), "/a rendered 3", "isr; ")
		expect(t, get(a, "/a", "Accept-Language: de"), "/a rendered 3", "isr; ")
		expect(t, get(a, "/ab", "Accept-Language: de"), "/ab rendered 2", "isr; hit")
	})
}

// NotStored names the pages of a purge that nobody can have got.
func TestNotStored(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		p := tb.peer("a", isr.Route{Name: "site", Vary: []string{"Accept-Language"}}, site, nil)
		get(p, "/plain")
		get(p, "/variant", "Accept-Language: de")
		get(p, "/gone")
		site.answers(answerOf(http.StatusForbidden, ""))
		if _, err := p.Regenerate(t.Context(), store.Key{Text: "example.com/gone"}); err == nil {
			t.Error("a refusal was stored")
		}
		began, release := make(chan struct{}), make(chan struct{})
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			close(began)
			<-release
			cacheable(w, r, n)
		})
		rendered := make(chan struct{})
		go func() {
			get(p, "/rendering")
			close(rendered)
		}()
		<-began
		var targets []store.PurgeTarget
		for _, path := range []string{"/plain", "/variant", "/gone", "/rendering", "/never", "/plain/"} {
			targets = append(targets, isr.PurgeKey(store.Key{Text: "example.com" + path}))
		}
		missing, err := p.NotStored(t.Context(), append(targets, isr.PurgeTag("", "none"), isr.PurgeSite()))
		if got := fmt.Sprint(missing); err != nil || got != "[example.com/gone example.com/never example.com/plain/]" {
			t.Errorf("%s, %v", got, err)
		}
		close(release)
		<-rendered
	})
}

// A node that starts after a purge knows its mark, and so does one that does not follow the
// log.
func TestPurgeBeforeTheStart(t *testing.T) {
	for _, poll := range []time.Duration{0, -1} {
		t.Run(fmt.Sprint("poll ", poll), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site, peers := taggedFleet(t, 1, nil)
				peers[0].purge(t, true, isr.PurgeTag("", "page-a"))
				late := tb.peer("late", withHistory, site, func(cfg *isr.Config) { cfg.Poll = poll })
				expect(t, get(late, "/a"), "/a rendered 3", "isr; fwd=")
				expect(t, get(late, "/b"), "/b rendered 2", "isr; hit")
				// A purge by another node, of an entry that this one reads only now.
				tb.peer("other", withHistory, site, nil).purge(t, true, isr.PurgeTag("", "page-b"))
				if poll < 0 {
					late = tb.peer("later", withHistory, site, func(cfg *isr.Config) { cfg.Poll = poll })
				}
				time.Sleep(time.Second)
				expect(t, get(late, "/b"), "/b rendered 4", "isr; fwd=")
			})
		})
	}
}

// A hard purge of a page with a pinned variant needs Unpin. A soft one, and a purge of
// another variant, do not.
func TestPurgeOfAPinnedVariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		p := tb.peer("a", isr.Route{Vary: []string{"X-Lang"}, History: 2}, site, nil)
		for _, lang := range []string{"de", "en"} {
			expect(t, get(p, "/", "X-Lang: "+lang), "v0", "isr; fwd=miss")
		}
		de, en := store.Key{Text: "example.com/#x-lang=de"}, store.Key{Text: "example.com/#x-lang=en"}
		if _, err := p.Pin(t.Context(), de, 0); err != nil {
			t.Fatal(err)
		}
		whole := []store.PurgeTarget{isr.PurgeKey(store.Key{Text: "example.com/"})}
		_, err := p.Purge(t.Context(), isr.Purge{Targets: whole, Hard: true})
		if !errors.Is(err, store.ErrPinned) || !strings.Contains(err.Error(), de.Text) {
			t.Errorf("a hard purge of a page with a pinned variant: %v", err)
		}
		site.version.Add(1)
		p.purge(t, true, isr.PurgeKey(en))
		expect(t, get(p, "/", "X-Lang: en"), "v1", "isr; fwd=")
		expect(t, get(p, "/", "X-Lang: de"), "v0", "isr; hit")
		if _, err := p.Purge(t.Context(), isr.Purge{Targets: whole, Hard: true, Unpin: true}); err != nil {
			t.Error(err)
		}
		expect(t, get(p, "/", "X-Lang: de"), "v1", "isr; fwd=")
	})
}

// A purge overrides a pin, and a hard purge of a pinned page by its key needs Unpin.
func TestPurgeOfAPinnedPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, _, peers := taggedFleet(t, 1, nil)
		p := peers[0]
		if _, err := p.Pin(t.Context(), keyA, 0); err != nil {
			t.Fatal(err)
		}
		_, err := p.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "all"), isr.PurgeKey(keyA)}, Hard: true})
		if !errors.Is(err, store.ErrPinned) || !strings.Contains(err.Error(), "example.com/a") {
			t.Fatalf("a hard purge of a pinned page: %v", err)
		}
		expect(t, get(p, "/a"), "/a rendered 1", "isr; hit") // nothing was purged
		expect(t, get(p, "/b"), "/b rendered 2", "isr; hit")
		if _, err := p.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(keyA)}, Hard: true, Unpin: true}); err != nil {
			t.Fatal(err)
		}
		expect(t, get(p, "/a"), "/a rendered 3", "isr; ")

		if _, err := p.Pin(t.Context(), keyA, 0); err != nil {
			t.Fatal(err)
		}
		p.purge(t, true, isr.PurgeTag("", "page-a"))
		expect(t, get(p, "/a"), "/a rendered 4", "isr; ")
		rec := recordOf(t, p, keyA)
		if !rec.Entry.PinnedUntil.IsZero() {
			t.Errorf("the new generation is pinned until %v", rec.Entry.PinnedUntil)
		}
		p.purge(t, true, isr.PurgeKey(keyA)) // which is not pinned any more
		expect(t, get(p, "/a"), "/a rendered 5", "isr; ")
	})
}

func recordOf(t *testing.T, p *peer, k store.Key) store.Record {
	t.Helper()
	rec, err := p.store.Read(t.Context(), store.HashedPartition(k))
	if err != nil || rec.Entry == nil {
		t.Fatalf("%+v, %v", rec, err)
	}
	return rec
}

// A page that a hard purge covers is served by no path, whatever fails; one that a soft purge
// covers is.
func TestPurgeWhileTheOriginFails(t *testing.T) {
	for _, hard := range []bool{false, true} {
		t.Run(fmt.Sprint("hard ", hard), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				_, site, peers := taggedFleet(t, 2, nil)
				site.answers(func(w http.ResponseWriter, _ *http.Request, _ int64) { w.WriteHeader(500) })
				peers[0].purge(t, hard, isr.PurgeTag("", "page-a"))
				time.Sleep(time.Second)
				for _, p := range peers {
					for range 3 {
						a := get(p, "/a")
						if served := a.Body.String() == "/a rendered 1"; served == hard {
							t.Errorf("%d %q, %q", a.Code, a.Body, a.status())
						}
						time.Sleep(2 * time.Second)
					}
				}
			})
		})
	}
}

// A negative answer, and a failure, end with a purge of their host.
func TestPurgeEndsNegativeEntries(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, *http.Request, int64){
		"404": func(w http.ResponseWriter, _ *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "public, max-age=300, stale-while-revalidate=86400")
			w.WriteHeader(404)
		},
		"uncacheable": func(w http.ResponseWriter, _ *http.Request, _ int64) { w.Header().Set("Cache-Control", "private") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				a, b := tb.peer("a", withHistory, site, nil), tb.peer("b", withHistory, site, nil)
				site.answers(answer)
				get(b, "/")
				site.answers(cacheable)
				if a := get(b, "/"); strings.Contains(a.status(), "stored") {
					t.Fatalf("not remembered: %q", a.status())
				}
				a.purge(t, false, isr.PurgeHost("", "example.com"))
				time.Sleep(time.Second)
				if a := get(b, "/"); !strings.Contains(a.status(), "stored") {
					t.Errorf("%q", a.status())
				}
			})
		})
	}
}

// A page that was rendered without being stored ends with a purge of its tag.
func TestPurgeEndsUnpublishedPages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(withTags)
		p := tb.peer("a", withHistory, site, func(cfg *isr.Config) { cfg.MinUses = 50 })
		time.Sleep(time.Second)
		expect(t, get(p, "/a"), "/a rendered 1", "isr; ")
		expect(t, get(p, "/a"), "/a rendered 1", "isr; hit")
		p.purge(t, false, isr.PurgeTag("", "page-a"))
		expect(t, get(p, "/a"), "/a rendered 2", "isr; fwd=")

		visited := make(chan answer)
		go func() { visited <- get(p, "/b") }() // rendering 3
		time.Sleep(site.delay / 2)
		p.purge(t, true, isr.PurgeTag("", "page-b"))
		expect(t, <-visited, "/b rendered 4", "isr; fwd=")
	})
}

func TestPurgeRefusesInvalidTargets(t *testing.T) {
	c := newTable(t).peer("a", withHistory, newSite(), nil)
	many := func(n int) (targets []store.PurgeTarget) {
		for i := range n {
			targets = append(targets, isr.PurgeTag("", fmt.Sprint(i)))
		}
		return targets
	}
	variants := newTable(t).peer("a", isr.Route{Name: "site", Vary: []string{"Accept-Language"}}, newSite(), nil)
	pages := make([]store.PurgeTarget, 50)
	for i := range pages {
		pages[i] = isr.PurgeKey(store.Key{Text: fmt.Sprint("example.com/", i)})
	}
	for name, tt := range map[string]struct {
		node    *peer
		targets []store.PurgeTarget
		want    error
		says    string
	}{
		"none":              {c, nil, store.ErrInvalidInput, "needs a target"},
		"an empty tag":      {c, []store.PurgeTarget{isr.PurgeTag("", "")}, store.ErrInvalidInput, "tag"},
		"an invalid tenant": {c, []store.PurgeTarget{isr.PurgeTenant("a b")}, store.ErrInvalidKey, "a b"},
		"too many targets":  {c, many(store.MaxPurgeTargets + 1), store.ErrInvalidInput, "split them"},
		"50 with variants":  {variants, pages, store.ErrInvalidInput, "variants of 50 pages"},
	} {
		_, err := tt.node.Purge(t.Context(), isr.Purge{Targets: tt.targets})
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, tt := range map[string]struct {
		node    *peer
		targets []store.PurgeTarget
	}{
		"the most tags":         {c, many(store.MaxPurgeTargets)},
		"the same tag 90 times": {c, slices.Repeat(many(1), store.MaxPurgeTargets)},
		"50 pages":              {c, pages},
		"45 with variants":      {variants, pages[:45]},
	} {
		if _, err := tt.node.Purge(t.Context(), isr.Purge{Targets: tt.targets}); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A process that follows the log need not read SEQ for a render.
func TestRenderTakesItsSequenceFromTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, _, peers := taggedFleet(t, 1, nil)
		p := peers[0]
		p.purge(t, true, isr.PurgeTag("", "unused"))
		time.Sleep(time.Second)
		before := p.store.sequences.Load()
		if _, err := p.Regenerate(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if n := p.store.sequences.Load() - before; n != 0 {
			t.Errorf("%d reads of SEQ for a render", n)
		}
		if seq := recordOf(t, p, keyA).Entry.PurgeSeq; seq != 1 {
			t.Errorf("the generation has sequence %d, want the sequence of the purge, 1", seq)
		}
		// One that cannot read the log does.
		p.store.changes.Store(new(errors.New("throttled")))
		tb.peer("b", withHistory, newSite(), nil).purge(t, true, isr.PurgeTag("", "unused"))
		time.Sleep(5 * time.Second)
		if _, err := p.Regenerate(t.Context(), keyA); err != nil {
			t.Fatal(err)
		}
		if seq := recordOf(t, p, keyA).Entry.PurgeSeq; seq != 2 {
			t.Errorf("the generation has sequence %d, want SEQ, 2", seq)
		}
	})
}

// A process of a new build counts pages of older builds as stale; processes of the older build
// serve all of them.
func TestBuild(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		node := func(build string) *peer {
			p := tb.peer("node", withHistory, site, func(cfg *isr.Config) { cfg.Build = build })
			time.Sleep(time.Second)
			return p
		}
		one := node("v1")
		expect(t, get(one, "/"), "/ rendered 1", "isr; fwd=miss")
		two := node("v2")
		if a := get(two, "/"); a.Body.String() != "/ rendered 1" || !strings.Contains(a.status(), "detail=stale") {
			t.Errorf("a page of the build before: %q, %q", a.Body, a.status())
		}
		time.Sleep(2 * time.Second)
		for _, p := range []*peer{two, node("v2"), one, node("")} {
			time.Sleep(time.Second)
			want := "/ rendered 2"
			if p == one {
				want = "/ rendered 1" // in its memory
			}
			a := get(p, "/")
			if expect(t, a, want, "isr; hit; ttl="); strings.Contains(a.status(), "stale") {
				t.Errorf("%q", a.status())
			}
		}
	})
}

// A node that announces itself is awaited until it has applied a purge, and withdraws itself
// when it stops.
func TestAwaitPurge(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, _, peers := taggedFleet(t, 3, func(cfg *isr.Config) { cfg.Node = "host" })
		await := func(timeout time.Duration) (live, missing []store.Node, took time.Duration) {
			began := time.Now()
			r, err := peers[0].Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "all")}, Confirm: true})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			live, missing, err = peers[0].AwaitPurge(ctx, r)
			if (err == nil) != (len(missing) == 0) {
				t.Errorf("%v, and %d nodes are missing", err, len(missing))
			}
			return live, missing, time.Since(began)
		}
		live, _, took := await(time.Minute)
		if len(live) != 3 || live[0].Name != "host" || took > isr.DefaultPoll+time.Second {
			t.Errorf("%d nodes after %v, want 3 within a poll: %+v", len(live), took, live)
		}
		peers[2].store.changes.Store(new(errors.New("throttled")))
		live, missing, took := await(5 * time.Second)
		if len(live) != 3 || len(missing) != 1 || missing[0].Applied != 1 || took != 5*time.Second {
			t.Errorf("%d nodes, missing %+v after %v", len(live), missing, took)
		}
		if err := peers[2].Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		if live, _, _ := await(time.Minute); len(live) != 2 {
			t.Errorf("%d nodes after one has stopped, want 2", len(live))
		}
		nodes, err := tb.store("x").Nodes(t.Context())
		if err != nil || len(nodes) != 2 {
			t.Errorf("%d nodes, %v", len(nodes), err)
		}
	})
}

// A node announces its release, and the digest of the configuration that it has by then.
func TestNodesAnnounceTheirConfiguration(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var digest atomic.Value
		digest.Store("one")
		tb, _, _ := taggedFleet(t, 1, func(cfg *isr.Config) {
			cfg.Node, cfg.Release, cfg.Configuration = "host", "v1.2.3", func() string { return digest.Load().(string) }
		})
		expect := func(config string) {
			t.Helper()
			nodes, err := tb.store("x").Nodes(t.Context())
			if err != nil || len(nodes) != 1 || nodes[0].Release != "v1.2.3" || nodes[0].Config != config {
				t.Errorf("%v, %+v; want the configuration %s", err, nodes, config)
			}
		}
		time.Sleep(time.Second)
		expect("one")
		digest.Store("two")
		time.Sleep(21 * time.Second)
		expect("two")
	})
}

// Pages that are kept for longer than marks count as expired once a mark may be gone, and the
// log says so.
func TestRetentionBeyondTheMarks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, _, peers := taggedFleet(t, 1, nil)
		peers[0].purge(t, false, isr.PurgeTag("", "all"))
		for retention, want := range map[time.Duration]int{30 * 24 * time.Hour: 0, 89 * 24 * time.Hour: 1} {
			before := strings.Count(tb.log.String(), "purge marks are kept for a shorter time than pages")
			tb.peer("late", withHistory, newSite(), func(cfg *isr.Config) { cfg.Retention = retention })
			time.Sleep(time.Second)
			if n := strings.Count(tb.log.String(), "purge marks are kept for a shorter time than pages") - before; n != want {
				t.Errorf("retention of %v: %d warnings, want %d", retention, n, want)
			}
		}
	})
}

// A process whose log cannot be read judges each page that it reads by marks that it asks for
// with it; while these cannot be read either, it serves no stored page.
func TestPurgeWhileTheLogIsUnreachable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, _, peers := taggedFleet(t, 1, nil)
		cut := tb.peer("cut", withHistory, newSite(), nil)
		time.Sleep(time.Second)
		cut.store.changes.Store(new(errors.New("throttled")))
		time.Sleep(5 * time.Second)
		peers[0].purge(t, true, isr.PurgeTag("", "page-a"))
		if a := get(cut, "/a"); a.Body.String() != "/a rendered 1" || !strings.Contains(a.status(), "fwd=miss") {
			t.Errorf("a page that was purged: %q, %q", a.Body, a.status()) // rendered by its own site
		}
		expect(t, get(cut, "/b"), "/b rendered 2", "isr; hit")
	})
}

// A hangingNodes does not answer the first list of nodes.
type hangingNodes struct {
	store.MetaStore
	answers atomic.Bool
}

func (s *hangingNodes) Nodes(ctx context.Context) ([]store.Node, error) {
	if !s.answers.Swap(true) {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return s.MetaStore.Nodes(ctx)
}

// A read of the nodes that gets no answer does not stop a caller without a deadline.
func TestAwaitPurgeWhileTheStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		c := tb.node(&hangingNodes{MetaStore: tb.store("a")}, nil)
		began := time.Now()
		if _, missing, err := c.AwaitPurge(context.WithoutCancel(t.Context()), store.Receipt{Seq: 1}); err != nil || len(missing) > 0 || time.Since(began) > time.Minute {
			t.Errorf("%v, %v after %v", missing, err, time.Since(began))
		}
	})
}

// A page without a stale window that a soft purge covers, or that is of an older build, is rendered
// before it is served, by each node. Its old generation is served if that fails, unless its response
// forbids that.
func TestSoftPurgeWithoutAStaleWindow(t *testing.T) {
	for name, c := range map[string]struct {
		cacheControl string
		rt           isr.Route
		build        bool
		onError      bool // the old page is served while the origin fails
	}{
		"max-age":                      {cacheControl: "max-age=3600", onError: true},
		"s-maxage":                     {cacheControl: "s-maxage=3600", onError: true},
		"must-revalidate":              {cacheControl: "max-age=3600, must-revalidate"},
		"proxy-revalidate":             {cacheControl: "max-age=3600, proxy-revalidate, stale-while-revalidate=60"},
		"a route that is never stale":  {cacheControl: "max-age=3600, stale-while-revalidate=60", rt: isr.Route{Stale: -1}},
		"the same, only for errors":    {cacheControl: "max-age=3600", rt: isr.Route{Stale: -1, StaleIfError: time.Hour}, onError: true},
		"a route without any fallback": {cacheControl: "max-age=3600", rt: isr.Route{StaleIfError: -1}},
		"a newer build":                {cacheControl: "max-age=3600", build: true, onError: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
					w.Header().Set("Cache-Control", c.cacheControl)
					fmt.Fprintf(w, "%s rendered %d", r.URL.Path, n)
				})
				a, b := tb.peer("a", c.rt, site, nil), tb.peer("b", c.rt, site, nil)
				expect(t, get(a, "/"), "/ rendered 1", "isr; fwd=miss")
				expect(t, get(b, "/"), "/ rendered 1", "isr; hit")
				if c.build {
					newer := func(cfg *isr.Config) { cfg.Build = "2" }
					a, b = tb.peer("c", c.rt, site, newer), tb.peer("d", c.rt, site, newer)
				} else {
					a.purge(t, false, isr.PurgeKey(page))
				}
				time.Sleep(time.Second)
				answers := site.answer.Load()
				site.answers(failing)
				if got := get(b, "/"); c.onError && got.Body.String() != "/ rendered 1" || !c.onError && got.Code != http.StatusInternalServerError {
					t.Errorf("while the origin fails: %d %q, %q", got.Code, got.Body, got.status())
				}
				site.answer.Store(answers)
				time.Sleep(time.Minute) // the back-off
				if got := get(b, "/"); got.Body.String() == "/ rendered 1" || !strings.HasPrefix(got.status(), "isr; fwd=") {
					t.Errorf("the first visitor after the purge: %q, %q", got.Body, got.status())
				}
				if got := get(a, "/"); got.Body.String() == "/ rendered 1" {
					t.Errorf("a visitor of another node after the purge: %q, %q", got.Body, got.status())
				}
			})
		})
	}
}

// A burst of 10,000 purges, on several nodes at the same time, fails none and loses none. A node
// that follows the log keeps all pages in memory that they do not cover.
func TestBurstOfPurges(t *testing.T) {
	const (
		tags    = 10_000
		pages   = 100
		callers = 150 // per node
	)
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Surrogate-Key", "tag-"+strings.Trim(r.URL.Path, "/"))
			cacheable(w, r, n)
		})
		rt := isr.Route{Name: "site"}
		follower := tb.peer("follower", rt, site, nil)
		// Every hundredth tag has a page, and as many pages have tags that are not purged.
		paths := func(visit func(i int, path string)) {
			for i := range 2 * pages {
				visit(i, fmt.Sprint("/", i*tags/pages))
			}
		}
		paths(func(_ int, path string) { get(follower, path) })
		reads := follower.store.reads.Load()

		nodes := []*peer{tb.peer("a", rt, site, nil), tb.peer("b", rt, site, nil)}
		time.Sleep(time.Second)
		work := make(chan int)
		var done sync.WaitGroup
		for i := range callers * len(nodes) {
			done.Go(func() {
				for tag := range work {
					r, err := nodes[i%len(nodes)].Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", fmt.Sprint("tag-", tag))}, Hard: true})
					if err != nil || r.Seq == 0 {
						t.Errorf("purge %d: %+v, %v", tag, r, err)
					}
				}
			})
		}
		began := time.Now()
		for tag := range tags {
			work <- tag
		}
		close(work)
		done.Wait()
		took := time.Since(began)
		time.Sleep(isr.DefaultPoll)

		if n := follower.store.reads.Load() - reads; n != 0 {
			t.Errorf("%d reads of pages because of purges", n)
		}
		renders := site.renders.Load()
		paths(func(i int, path string) {
			if a, hit := get(follower, path), i >= pages; strings.HasPrefix(a.status(), "isr; hit") != hit {
				t.Errorf("%s, purged %t: %q", path, !hit, a.status())
			}
		})
		if n := site.renders.Load() - renders; n != pages {
			t.Errorf("%d renders, want %d", n, pages)
		}
		marks := 0
		for _, err := range tb.store("x").Marks(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			marks++
		}
		seq, err := tb.store("x").Sequence(t.Context())
		if err != nil || marks != tags {
			t.Errorf("%d marks, want %d; %v", marks, tags, err)
		}
		if logged := tb.log.String(); strings.Contains(logged, "dropped all pages") || strings.Contains(logged, "failed to read the log") {
			t.Errorf("the follower lost the log:\n%.2000s", logged)
		}
		t.Logf("%d purges in %d transactions, in %v", tags, seq.Seq, took)
	})
}

// A downstreamNames names downstream caches, and counts how often it was woken.
type downstreamNames struct {
	names []string
	woken atomic.Int64
}

func (d *downstreamNames) Destinations() []string { return d.names }
func (d *downstreamNames) Wake()                  { d.woken.Add(1) }

// TestChangesReachTheOutbox: purges, rollbacks, pins, unpins and withdrawals are written to
// the outbox for every downstream cache, and wake the delivery; a regeneration is not.
func TestChangesReachTheOutbox(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		cdns := &downstreamNames{names: []string{"cdn", "edge"}}
		meta := tb.store("a")
		c := tb.node(meta, func(cfg *isr.Config) { cfg.Downstream = cdns })
		withdrawn := false
		c.Handler(withHistory, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if withdrawn {
				w.WriteHeader(http.StatusForbidden)
				return
			}
			site.ServeHTTP(w, r)
		}))
		regenerate := func() error { _, err := c.Regenerate(t.Context(), page); return err }
		one := store.JobTarget{PurgeTarget: store.PurgeTarget{Kind: store.PurgeKey, Value: page.Text}, Hard: true}
		for _, step := range []struct {
			name string
			do   func() error
			want []store.JobTarget
		}{
			{"Regenerate", regenerate, nil},
			{"Regenerate again", regenerate, nil},
			{"Purge", func() error {
				_, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "news")}})
				return err
			}, []store.JobTarget{{PurgeTarget: isr.PurgeTag("", "news")}}},
			{"Rollback", func() error { _, err := c.Rollback(t.Context(), page); return err }, []store.JobTarget{one}},
			{"Pin", func() error { _, err := c.Pin(t.Context(), page, time.Hour); return err }, []store.JobTarget{one}},
			{"Unpin", func() error { _, err := c.Unpin(t.Context(), page); return err }, []store.JobTarget{one}},
			{"Withdrawal", func() error { withdrawn = true; _ = regenerate(); return nil }, []store.JobTarget{one}},
		} {
			before := cdns.woken.Load()
			if err := step.do(); err != nil {
				t.Fatalf("%s: %v", step.name, err)
			}
			for _, name := range cdns.names {
				jobs, err := meta.PendingJobs(t.Context(), name, 10)
				if err != nil {
					t.Fatal(err)
				}
				var got []store.JobTarget
				for _, j := range jobs {
					got = append(got, j.Targets...)
				}
				if !slices.Equal(got, step.want) {
					t.Errorf("%s: jobs of %s: %+v, want %+v", step.name, name, got, step.want)
				}
				if err := meta.FinishJobs(t.Context(), jobs); err != nil {
					t.Fatal(err)
				}
			}
			if woken := cdns.woken.Load() - before; (woken > 0) != (step.want != nil) {
				t.Errorf("%s: woken %d times", step.name, woken)
			}
		}
	})
}

// TestChangesOfOtherProgramsWakeTheDelivery: a change whose writer wrote no job for one of the
// downstream caches wakes the delivery once it was read; a change with jobs for all does not,
// nor does one without targets.
func TestChangesOfOtherProgramsWakeTheDelivery(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		other, cdns := tb.store("b"), &downstreamNames{names: []string{"cdn", "edge"}}
		tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Downstream, cfg.Poll = cdns, time.Second })
		purge := func(p store.Purge) {
			p.Targets = []store.PurgeTarget{isr.PurgeTag("", "news")}
			if _, err := other.Purge(t.Context(), p); err != nil {
				t.Fatal(err)
			}
		}
		for _, step := range []struct {
			name string
			do   func()
			want bool
		}{
			{"all destinations", func() { purge(store.Purge{Destinations: cdns.names}) }, false},
			{"one destination", func() { purge(store.Purge{Destinations: []string{"edge"}}) }, true},
			{"no destination", func() { purge(store.Purge{}) }, true},
			{"a build", func() {
				if _, err := other.Build(t.Context(), "b2"); err != nil {
					t.Fatal(err)
				}
			}, false},
		} {
			before := cdns.woken.Load()
			step.do()
			time.Sleep(3 * time.Second)
			if got := cdns.woken.Load() > before; got != step.want {
				t.Errorf("%s: woken %t, want %t", step.name, got, step.want)
			}
		}
	})
}

// tagged answers with a cacheable page and header lines such as "Cache-Tag: a".
func tagged(lines ...string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, r *http.Request, n int64) {
		for _, line := range lines {
			if name, value, ok := strings.Cut(line, ": "); ok {
				w.Header().Add(name, value)
			}
		}
		cacheable(w, r, n)
	}
}

// storedTags returns the tags of the only stored page; false if there is none.
func (tb *table) storedTags(t *testing.T) (tags []string, stored bool) {
	t.Helper()
	for listed, err := range tb.store("reader").List(t.Context()) {
		if err != nil || stored {
			t.Fatalf("%v, %v", listed.Record.Entry, err)
		}
		if listed.Record.Entry != nil {
			tags, stored = listed.Record.Entry.Tags, true
		}
	}
	return tags, stored
}

func TestTagsOfTheRouteAndTheResponse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(tagged("Surrogate-Key: shop b", `Cache-Groups: "a"`))
		rt := isr.Route{Query: []string{"id"}, Tags: func(r *http.Request) []string {
			if r.Header.Get("X-Visitor") != "" {
				t.Error("Tags got the request of a visitor")
			}
			return []string{"product-" + r.URL.Query().Get("id"), "b"}
		}}
		h := tb.node(tb.store("a"), nil).Handler(rt, site)
		expect(t, get(h, "/?id=7", "X-Visitor: me"), "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored")
		if tags, _ := tb.storedTags(t); !slices.Equal(tags, []string{"a", "b", "product-7", "shop"}) {
			t.Errorf("tags %q", tags)
		}
	})
}

// A page is stored with all of its tags or not at all.
func TestTagsThatCannotBeKept(t *testing.T) {
	many := func(n int) string {
		tags := make([]string, n)
		for i := range tags {
			tags[i] = fmt.Sprint("t", i)
		}
		return strings.Join(tags, " ")
	}
	long := strings.Repeat("x", 1024)
	for name, c := range map[string]struct {
		header  string
		ofRoute []string
		log     string // empty: the page is stored
	}{
		"512 tags":                {header: "Surrogate-Key: " + many(512)},
		"513 tags":                {header: "Surrogate-Key: " + many(513), log: "has 513, at most 512 are allowed (max_tags)"},
		"one more of the route":   {header: "Surrogate-Key: " + many(512), ofRoute: []string{"more"}, log: "has 513, at most 512"},
		"the same of the route":   {header: "Surrogate-Key: " + many(512), ofRoute: []string{"t0", "t1"}},
		"the longest tag":         {header: "Cache-Tag: " + long},
		"too long":                {header: "Cache-Tag: " + long + "x", log: "1025 bytes, at most 1024"},
		"a control character":     {header: "Cache-Tag: a\x01", log: "control characters"},
		"not UTF-8":               {header: "Cache-Tag: a\xff", log: "control characters"},
		"empty, of the route":     {ofRoute: []string{""}, log: "must not be empty"},
		"too many bytes in all":   {ofRoute: longTags(65), log: "66560 bytes in all, at most 65536 are allowed (max_header)"},
		"as many bytes as fit":    {ofRoute: longTags(64)},
		"a header of 80 KB":       {header: "Surrogate-Key: " + strings.Join(longTags(80), " "), log: "81920 bytes in all, at most 65536"},
		"malformed Cache-Groups":  {header: "Cache-Groups: shop, news", log: "not a list of strings"},
		"unclosed quote in a tag": {header: `Cache-Tag: a"b,c`},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(tagged(c.header))
				rt := isr.Route{}
				if c.ofRoute != nil {
					rt.Tags = func(*http.Request) []string { return c.ofRoute }
				}
				h := tb.node(tb.store("a"), nil).Handler(rt, site)
				a := get(h, "/")
				_, stored := tb.storedTags(t)
				if stored != (c.log == "") || strings.HasSuffix(a.status(), "; detail=tags") == stored {
					t.Errorf("stored: %v, status %q", stored, a.status())
				}
				if log := tb.log.String(); c.log != "" && !(strings.Contains(log, c.log) && strings.Contains(log, "example.com/")) {
					t.Errorf("the log does not name the page and %q:\n%s", c.log, log)
				}
			})
		})
	}
}

func longTags(n int) []string {
	tags := make([]string, n)
	for i := range tags {
		tags[i] = fmt.Sprintf("%01024d", i)
	}
	return tags
}

// A page whose tags are corrected is stored once a response shows that; with tags of the
// route, once the refusal is forgotten.
func TestCorrectedTags(t *testing.T) {
	for name, ofRoute := range map[string]func(*http.Request) []string{
		"of the response": nil,
		"of the route":    func(*http.Request) []string { return []string{"r"} },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(tagged("Cache-Groups: wrong"))
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{Tags: ofRoute}, site)
				get(h, "/")
				site.answers(tagged(`Cache-Groups: "right"`))
				get(h, "/") // passes through
				if ofRoute != nil {
					time.Sleep(2 * time.Minute)
				}
				if a := get(h, "/"); !strings.Contains(a.status(), "; stored") {
					t.Errorf("status %q", a.status())
				}
			})
		})
	}
}

func TestPathTags(t *testing.T) {
	for _, tt := range []struct{ pattern, path, template, want string }{
		{"GET /blog/{slug}", "/blog/hello", "post-{slug}", "post-hello"},
		{"/blog/{slug}", "/blog/Hello", "post-{slug}", "post-Hello"},
		{"/blog/{slug}", "/blog/caf%C3%A9", "post-{slug}", "post-café"},
		{"/blog/{slug}", "/blog/a%2Fb", "{slug}", "a/b"},
		{"/blog/{slug}", "/blog/%2541", "{slug}", "%41"}, // decoded once
		{"example.com/{lang}/{slug}/", "/de/x/y", "{lang}:{slug}", "de:x"},
		{"/docs/{path...}", "/docs/a/b", "doc {path}", "doc a/b"},
		{"/blog/{slug}", "/blog/x", "all-posts", "all-posts"},
	} {
		f, err := isr.PathTags(tt.pattern, tt.template)
		if err != nil {
			t.Fatal(err)
		}
		r, err := http.NewRequest(http.MethodGet, tt.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := f(r); !slices.Equal(got, []string{tt.want}) {
			t.Errorf("%s of %s: %q, want %q", tt.template, tt.path, got, tt.want)
		}
	}
}

func TestPathTagsRefuses(t *testing.T) {
	for _, tt := range []struct {
		pattern   string
		templates []string
		want      string
	}{
		{"/blog/{slug}", []string{"post-{id}"}, "the pattern has no wildcard {id}; it has {slug}"},
		{"/blog/", []string{"{id}"}, "it has none"},
		{"/blog/{slug", []string{"a"}, "the pattern"},
		{"/blog/{slug}", nil, "1 to 32"},
		{"/blog/{slug}", make([]string, 33), "1 to 32"},
		{"/blog/{slug}", []string{""}, "empty"},
		{"/blog/{slug}", []string{"a{slug"}, "not closed"},
		{"/blog/{slug}", []string{"a}"}, "no '{' before"},
		{"/blog/{slug}", []string{"a\n"}, "control"},
		{"/blog/{slug}", []string{strings.Repeat("a", 257)}, "at most 256"},
	} {
		if _, err := isr.PathTags(tt.pattern, tt.templates...); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s with %.20q: %v, want %q", tt.pattern, tt.templates, err, tt.want)
		}
	}
}

// A page is purged by the tag of its path, and one whose path makes no valid tag is not
// stored: a purge would miss it.
func TestPagesHaveTagsOfTheirPath(t *testing.T) {
	tags, err := isr.PathTags("/blog/{slug}", "post-{slug}")
	if err != nil {
		t.Fatal(err)
	}
	tb, s := newTable(t), newSite()
	s.delay = 0
	c := tb.node(tb.store("a"), nil)
	h := c.Handler(isr.Route{Tags: tags}, s)
	get(h, "/blog/hello")
	get(h, "/blog/other")
	if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "post-hello")}, Hard: true}); err != nil {
		t.Fatal(err)
	}
	expect(t, get(h, "/blog/hello"), "/blog/hello rendered 3", "isr; fwd=")
	expect(t, get(h, "/blog/other"), "/blog/other rendered 2", "isr; hit")
	for _, path := range []string{"/blog/a%00b", "/blog/%ff", "/blog/" + strings.Repeat("x", 1025)} {
		if a := get(h, path); !strings.HasSuffix(a.status(), "detail=tags") {
			t.Errorf("%.20s: %q", path, a.status())
		}
	}
}
