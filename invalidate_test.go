package isr_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// bySender distinguishes clients by the addresses of their connections.
func bySender(r *http.Request) netip.Prefix {
	return netip.PrefixFrom(netip.MustParseAddrPort(r.RemoteAddr).Addr(), 32)
}

// post sends a POST from an address.
func post(h http.Handler, path, from string) {
	r := newRequest(path)
	r.Method, r.RemoteAddr = http.MethodPost, from+":1"
	reported(h, r)
}

// visits are what visitors got who came at a steady pace.
type visits struct {
	mu      sync.Mutex
	wg      sync.WaitGroup
	all     int
	hits    int
	longest time.Duration
	last    string // body of the last to end
}

// come lets visitors come, one every pause, for some time, whether or not earlier ones have left.
func (v *visits) come(h http.Handler, path string, pause, d time.Duration) {
	for range d / pause {
		v.wg.Go(func() {
			got := get(h, path)
			v.mu.Lock()
			defer v.mu.Unlock()
			v.all++
			if strings.HasPrefix(got.status(), "isr; hit") {
				v.hits++
			}
			v.longest, v.last = max(v.longest, got.took), got.Body.String()
		})
		time.Sleep(pause)
	}
}

// A stranger who posts twice a second to a page that takes longer than that to render, at one node
// or at all in turns, leaves it to the others: nine of ten visits are hits, and the rest wait for
// one render. No invalidation is lost: the page is rendered anew within its interval after the
// last of them.
func TestPostsToAPageThatOthersVisit(t *testing.T) {
	const render = 1500 * time.Millisecond
	for name, nodes := range map[string]int{"one node": 1, "a fleet": 4} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				site.delay.Store(int64(render))
				var fleet []*peer
				for n := range nodes {
					fleet = append(fleet, tb.peer(fmt.Sprint("node", n), isr.Route{Client: bySender}, site, nil))
					get(fleet[n], "/")
				}
				stop := make(chan struct{})
				var stranger sync.WaitGroup
				stranger.Go(func() {
					for n := 0; ; n++ {
						select {
						case <-stop:
							return
						case <-time.After(500 * time.Millisecond):
							post(fleet[n%nodes], "/", "192.0.2.66")
						}
					}
				})
				var v visits
				v.come(fleet[0], "/", 100*time.Millisecond, 2*time.Minute)
				close(stop)
				stranger.Wait()
				v.wg.Wait()
				if v.hits*10 < v.all*9 {
					t.Errorf("%d hits of %d visits", v.hits, v.all)
				}
				if most := render + 500*time.Millisecond; nodes == 1 && v.longest > most {
					t.Errorf("a visitor waited %v, want at most %v", v.longest, most)
				}
				time.Sleep(18*render + time.Second + isr.DefaultPoll)
				last := fmt.Sprint("v", site.version.Load())
				for n, p := range fleet {
					if got := get(p, "/"); got.Body.String() != last {
						t.Errorf("node %d after the last post: %q, %q; want %s", n, got.Body, got.status(), last)
					}
				}
			})
		})
	}
}

// A visitor who came before a post gets what has been rendered since, although the post has
// overtaken it; a visitor who came after it does not.
func TestPostOvertakesARender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		site.delay.Store(int64(2 * time.Second))
		a := tb.peer("a", isr.Route{}, site, nil)
		came := make(chan answer, 3)
		go func() { came <- get(a, "/") }() // renders it
		time.Sleep(500 * time.Millisecond)
		go func() { came <- get(a, "/") }()
		time.Sleep(500 * time.Millisecond)
		send(a, "POST", "/")
		later := get(a, "/")
		for range 2 {
			expect(t, <-came, "v0", "isr; fwd=miss")
		}
		if got := later.Body.String(); got != "v1" {
			t.Errorf("a visitor who came after the post got %q, %q", got, later.status())
		}
		expect(t, get(a, "/"), "v1", "isr; hit")
		if n := site.renders.Load(); n != 2 {
			t.Errorf("%d renders, want 2", n)
		}
	})
}

// What visitors get of a render that a post has overtaken may be kept by no cache in front.
func TestOvertakenRenderIsNotKeptDownstream(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		site.delay.Store(int64(2 * time.Second))
		a := tb.peer("a", isr.Route{}, site, nil)
		came := make(chan answer, 1)
		go func() { came <- get(a, "/") }()
		time.Sleep(time.Second)
		send(a, "POST", "/")
		got := <-came
		expect(t, got, "v0", "isr; fwd=miss")
		if control := got.Header().Get("Cache-Control"); strings.Contains(control, "max-age=86400") {
			t.Errorf("Cache-Control: %s", control)
		}
	})
}

// An operator's hard purge that overtakes a render lets nobody have it, not even beside a post.
func TestHardPurgeBesideAPostOvertakesARender(t *testing.T) {
	for name, order := range map[string][]string{
		"alone": {"purge"}, "then a post": {"purge", "post"}, "after a post": {"post", "purge"}, "of all pages": {"site", "post"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				site.delay.Store(int64(2 * time.Second))
				a := tb.peer("a", isr.Route{}, site, nil)
				came := make(chan answer, 1)
				go func() { came <- get(a, "/") }()
				time.Sleep(500 * time.Millisecond)
				for _, what := range order {
					time.Sleep(500 * time.Millisecond)
					switch what {
					case "post":
						send(a, "POST", "/")
					case "purge":
						site.version.Add(1)
						a.purge(t, true, isr.PurgeKey(page))
					case "site":
						site.version.Add(1)
						a.purge(t, true, isr.PurgeSite())
					}
				}
				if got := <-came; got.Body.String() == "v0" {
					t.Errorf("%q, %q: a page that was purged hard", got.Body, got.status())
				}
			})
		})
	}
}

// A client that changes many pages has its later ones purged as its credit allows, at a second of
// rendering per second; a page that another client changes too is purged at once. None is lost.
func TestPostsToManyPages(t *testing.T) {
	const render, pages = time.Second, 60
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		a := tb.peer("a", isr.Route{Client: bySender}, site, nil)
		b := tb.peer("b", isr.Route{Client: bySender}, site, nil)
		site.delay.Store(int64(render))
		var wg sync.WaitGroup
		for i := range pages {
			wg.Go(func() { get(b, fmt.Sprint("/", i)) })
		}
		wg.Wait()
		time.Sleep(time.Second)
		purged := func() (n int) {
			for i := range pages {
				if rec, err := a.store.Read(t.Context(), store.HashedPartition(store.Key{Text: fmt.Sprint("example.com/", i)})); err != nil || rec.Purges.HardSeq > rec.Entry.PurgeSeq {
					n++
				}
			}
			return n
		}
		for i := range pages {
			post(a, fmt.Sprint("/", i), "192.0.2.66")
		}
		if n := purged(); n < 28 || n > 31 {
			t.Errorf("%d pages are purged at once, want 30", n)
		}
		post(a, "/59", "192.0.2.1") // another client
		time.Sleep(100 * time.Millisecond)
		if rec, err := a.store.Read(t.Context(), store.HashedPartition(store.Key{Text: "example.com/59"})); err != nil || rec.Purges.HardSeq == 0 {
			t.Errorf("a page that another client has changed is not purged: %v", err)
		}
		time.Sleep(10 * time.Second)
		if n := purged(); n < 38 || n > 43 {
			t.Errorf("%d pages are purged after ten seconds, want 40", n)
		}
		time.Sleep(25 * time.Second)
		if n := purged(); n != pages {
			t.Errorf("%d pages are purged at last, want all %d", n, pages)
		}
	})
}

// One client can not take the room that others need for their changes.
func TestPostsFromOneClientLeaveRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), new(editable)
		broken := &brokenStore{MetaStore: tb.store("a")}
		a := tb.node(broken, nil).Handler(isr.Route{Client: bySender}, site)
		b := tb.peer("b", isr.Route{}, site, nil)
		get(b, "/")
		broken.hangs.Store(true) // so that all wait
		var wg sync.WaitGroup
		for i := range 1100 {
			wg.Go(func() { post(a, fmt.Sprint("/", i), "192.0.2.66") })
		}
		wg.Wait()
		if n := strings.Count(tb.log.String(), "dropped by this server only"); n == 0 {
			t.Error("one client has all the room")
		}
		post(a, "/", "192.0.2.1")
		broken.hangs.Store(false)
		time.Sleep(10 * time.Second)
		expect(t, get(b, "/"), "v1101", "isr; fwd=")
	})
}

// A route says what unsafe requests do to its pages.
func TestUnsafeRequestsOfARoute(t *testing.T) {
	for _, c := range []struct {
		effect        isr.UnsafePurge
		first, second string // bodies of the visits after a post
		failing       int    // status of a visit while the site fails
		purges        int64
	}{
		{isr.UnsafeHard, "v1", "v1", http.StatusInternalServerError, 1},
		{isr.UnsafeSoft, "v0", "v1", http.StatusOK, 1},
		{isr.UnsafeIgnore, "v0", "v0", http.StatusOK, 0},
	} {
		t.Run(c.effect.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), new(editable)
				a := tb.peer("a", isr.Route{UnsafeRequests: c.effect}, site, nil)
				for _, path := range []string{"/", "/failing"} {
					expect(t, get(a, path), "v0", "isr; fwd=miss")
				}
				before := tb.sequence(t)
				send(a, "POST", "/")
				bodies := []string{get(a, "/").Body.String()}
				time.Sleep(time.Second)
				if bodies = append(bodies, get(a, "/").Body.String()); !slices.Equal(bodies, []string{c.first, c.second}) {
					t.Errorf("after a post: %q, want %q and %q", bodies, c.first, c.second)
				}
				if n := tb.sequence(t) - before; n != c.purges {
					t.Errorf("%d purges, want %d", n, c.purges)
				}
				send(a, "POST", "/failing")
				site.fails.Store(true)
				if got := get(a, "/failing"); got.Code != c.failing {
					t.Errorf("while the site fails: %d %q, want %d", got.Code, got.Body, c.failing)
				}
			})
		})
	}
	if err := (isr.Route{UnsafeRequests: 3}).Validate(); err == nil {
		t.Error("an unknown effect is valid")
	}
}
