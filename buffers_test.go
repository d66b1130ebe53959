package isr_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
)

// A slowVisitor takes what is written to it once go on is closed.
type slowVisitor struct {
	*httptest.ResponseRecorder
	goOn chan struct{}
	done chan struct{}
}

func (v *slowVisitor) Write(b []byte) (int, error) {
	<-v.goOn
	return v.ResponseRecorder.Write(b)
}

// visitSlowly requests a page in the background.
func visitSlowly(h http.Handler, path string) *slowVisitor {
	v := &slowVisitor{httptest.NewRecorder(), make(chan struct{}), make(chan struct{})}
	go func() {
		defer close(v.done)
		h.ServeHTTP(v, newRequest(path))
	}()
	return v
}

// finish lets a visitor take the rest, and checks that it got the page of a path with size bytes.
func (v *slowVisitor) finish(t *testing.T, path string, size int) {
	t.Helper()
	close(v.goOn)
	<-v.done
	if v.Code != http.StatusOK || !bytes.Equal(v.Body.Bytes(), imageOf(path, size)) {
		t.Errorf("%s: %d, %d bytes that begin with %.40q", path, v.Code, v.Body.Len(), v.Body)
	}
}

func imageOf(path string, size int) []byte {
	return []byte(strings.Repeat(path+" ", size/len(path)+1)[:size])
}

// images answers with pages of size bytes that are not encoded.
func images(size int) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, r *http.Request, _ int64) {
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Cache-Control", "max-age=600")
		w.Header().Set("Content-Length", fmt.Sprint(size))
		_, _ = w.Write(imageOf(r.URL.Path, size))
	}
}

// used is what is acquired of a budget beside the quarter that a cache has for what it sends.
func used(b *buffers.Budget) int64 {
	n, total := b.Usage()
	return n - total/4
}

// The pages that slow visitors take from memory are bounded, even if others displace them there: further
// visitors get theirs from the store, in pieces.
func TestSlowVisitorsOfManyPages(t *testing.T) {
	const size, pages = 600 << 10, 6
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(images(size))
		bodies, budget := &metered{BodyStore: tb.bodies}, buffers.New(8<<20)
		c := tb.nodeOn(tb.store("a"), meteredLocally{bodies}, func(cfg *isr.Config) { cfg.Buffers, cfg.Memory = budget, 16<<20 })
		h := c.Handler(isr.Route{}, site)
		var visitors []*slowVisitor
		for i := range pages {
			get(h, fmt.Sprint("/", i))
		}
		synctest.Wait()
		before := bodies.read.Load()
		for i := range pages {
			for range 2 {
				visitors = append(visitors, visitSlowly(h, fmt.Sprint("/", i)))
			}
		}
		synctest.Wait()
		if n := bodies.read.Load() - before; n == 0 || n > pages*2*100<<10 {
			t.Errorf("%d bytes of bodies were read for visitors who wait", n)
		}
		for i, v := range visitors {
			v.finish(t, fmt.Sprint("/", i/2), size)
		}
		if n := bodies.read.Load() - before; n != 3*2*size { // 2 MiB are for three pages
			t.Errorf("%d bytes were read from the store, want %d", n, 3*2*size)
		}
		get(h, "/0")
		if n := bodies.read.Load() - before; n != 3*2*size {
			t.Errorf("a page in memory was read from the store, although nobody reads slowly")
		}
		var hits [4]isr.Hit
		for i := range hits {
			if ok := isr.LookupIn(h, newRequest(fmt.Sprint("/", i)), &hits[i]); ok != (i < 3) {
				t.Errorf("hit %d of a page of %d bytes: %v", i, size, ok)
			}
		}
		hits[0].Release()
		hits[0].Release()
		if !isr.LookupIn(h, newRequest("/3"), &hits[3]) {
			t.Error("a hit that was sent keeps its memory")
		}
		if n := used(budget); n != 0 {
			t.Errorf("%d bytes are in use", n)
		}
		if err := c.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if n, _ := budget.Usage(); n != 0 {
			t.Errorf("%d bytes are in use after Close", n)
		}
	})
}

// However many visitors take bodies from the store slowly, few of these stay open, and all visitors get
// theirs.
func TestSlowVisitorsHoldFewDescriptors(t *testing.T) {
	const size, visitors, most = 1<<20 + 1, 12, 8
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(images(size))
		bodies := &metered{BodyStore: tb.bodies}
		c := tb.nodeOn(tb.store("a"), meteredLocally{bodies}, func(cfg *isr.Config) { cfg.Memory = 16 << 10 })
		c.SetMostOpenBodies(most)
		h := c.Handler(isr.Route{}, site)
		get(h, "/a")
		synctest.Wait()
		var slow []*slowVisitor
		for range visitors {
			slow = append(slow, visitSlowly(h, "/a"))
		}
		synctest.Wait()
		if n := bodies.open.Load(); n != most {
			t.Errorf("%d bodies are open", n)
		}
		for _, v := range slow {
			v.finish(t, "/a", size)
		}
		if n := bodies.open.Load(); n != 0 {
			t.Errorf("%d bodies are open at the end", n)
		}
	})
}

// A visitor who is slow to read a page that is rendered does not keep its body in memory once it is
// stored: the rest is read from the store, even if the body is deleted.
func TestSlowVisitorOfARender(t *testing.T) {
	const size = 3 << 20
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		answer := images(size)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Etag", `"1"`)
			answer(endsLater{w}, r, n)
		})
		bodies, budget := &metered{BodyStore: tb.bodies}, buffers.New(16<<20)
		watched := &watchedBodies{metered: bodies}
		h := tb.nodeOn(tb.store("a"), watched, func(cfg *isr.Config) { cfg.Buffers, cfg.Memory = budget, 1<<20 }).Handler(isr.Route{}, site)
		v, second := visitSlowly(h, "/a"), visitSlowly(h, "/a")
		time.Sleep(500 * time.Millisecond) // the render goes on
		if n := used(budget); n != size {
			t.Errorf("%d bytes are in use while the page is rendered, want %d", n, size)
		}
		time.Sleep(time.Minute)
		if n := used(budget); n != 0 {
			t.Errorf("%d bytes are in use for visitors of a stored page", n)
		}
		if watched.inMemory() {
			t.Error("visitors of a stored page keep its body in memory")
		}
		v.finish(t, "/a", size)
		second.finish(t, "/a", size)
		if n := bodies.read.Load(); n < 2*size/2 || site.renders.Load() != 1 {
			t.Errorf("%d bytes were read from the store, %d renders", n, site.renders.Load())
		}
	})
}

// watchedBodies tell whether the body that was put last is still in memory.
type watchedBodies struct {
	*metered
	last weak.Pointer[byte]
}

func (w *watchedBodies) Put(ctx context.Context, key string, body []byte) error {
	w.last = weak.Make(&body[0])
	return w.metered.Put(ctx, key, body)
}

func (w *watchedBodies) inMemory() bool {
	runtime.GC()
	return w.last.Value() != nil
}

// endsLater takes a second before the second half of a body.
type endsLater struct{ http.ResponseWriter }

func (w endsLater) Write(b []byte) (int, error) {
	if n, err := w.ResponseWriter.Write(b[:100<<10]); err != nil {
		return n, err
	}
	half := len(b) / 2
	if n, err := w.ResponseWriter.Write(b[100<<10 : half]); err != nil {
		return n, err
	}
	time.Sleep(time.Second)
	n, err := w.ResponseWriter.Write(b[half:])
	return half + n, err
}

// If there is no memory for a large response, it passes through to the visitors who wait for it, whole,
// and is not stored; that is not remembered. It is the same whether its length is stated or not.
func TestRenderWithoutMemory(t *testing.T) {
	const size = 3 << 20
	for _, stated := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			site.delay = 0
			answer := images(size)
			site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
				if !stated {
					w = withoutLength{w}
				}
				answer(endsLater{w}, r, n)
			})
			budget := buffers.New(16 << 20)
			h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Buffers = budget }).Handler(isr.Route{}, site)
			taken := int64(12<<20 - 300<<10)
			if !budget.TryAcquire(netip.Prefix{}, taken) {
				t.Fatal("the budget is not free")
			}
			var visitors sync.WaitGroup
			for range 3 {
				visitors.Go(func() {
					a := get(h, "/a")
					if !bytes.Equal(a.Body.Bytes(), imageOf("/a", size)) {
						t.Errorf("stated %v: %d, %d bytes, %s", stated, a.Code, a.Body.Len(), a.status())
					}
				})
			}
			visitors.Wait()
			synctest.Wait()
			if n := used(budget); n != taken {
				t.Errorf("stated %v: %d bytes are in use, want %d", stated, n, taken)
			}
			budget.Release(netip.Prefix{}, taken)
			get(h, "/a")
			synctest.Wait()
			if a := get(h, "/a"); !strings.HasPrefix(a.status(), "isr; hit") || !bytes.Equal(a.Body.Bytes(), imageOf("/a", size)) {
				t.Errorf("stated %v, with memory: %d, %d bytes, %s", stated, a.Code, a.Body.Len(), a.status())
			}
			if n := used(budget); n != 0 {
				t.Errorf("stated %v: %d bytes are in use at the end", stated, n)
			}
		})
	}
}

// Renders, however many are large, leave a part of the budget to requests.
func TestRendersLeaveRoomForRequests(t *testing.T) {
	const size = 5 << 20
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		answer := images(size)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) { answer(endsLater{w}, r, n) })
		budget := buffers.New(16 << 20)
		h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Buffers = budget }).Handler(isr.Route{}, site)
		var visitors sync.WaitGroup
		for i := range 4 {
			visitors.Go(func() {
				path := fmt.Sprint("/", i)
				if a := get(h, path); !bytes.Equal(a.Body.Bytes(), imageOf(path, size)) {
					t.Errorf("%d, %d bytes, %s", a.Code, a.Body.Len(), a.status())
				}
			})
		}
		synctest.Wait()
		if n := used(budget); n != size {
			t.Errorf("renders have %d bytes, want %d", n, size)
		}
		client := netip.MustParsePrefix("192.0.2.1/32")
		if upload := int64(4 << 20); budget.TryAcquire(client, upload) {
			budget.Release(client, upload)
		} else {
			t.Error("there is no room for a request")
		}
		visitors.Wait()
		synctest.Wait()
		if n := used(budget); n != 0 {
			t.Errorf("%d bytes are in use at the end", n)
		}
	})
}

// withoutLength sends no Content-Length.
type withoutLength struct{ http.ResponseWriter }

func (w withoutLength) Write(b []byte) (int, error) {
	w.Header().Del("Content-Length")
	return w.ResponseWriter.Write(b)
}
