package isr_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
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

// A readCounter counts the reads of pages in a table.
type readCounter struct {
	store.MetaStore
	reads atomic.Int64
}

func (r *readCounter) Read(ctx context.Context, pk string) (store.Record, error) {
	r.reads.Add(1)
	return r.MetaStore.Read(ctx, pk)
}

func (r *readCounter) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	r.reads.Add(1)
	return r.MetaStore.ReadSerializable(ctx, pk)
}

// remote hides that bodies are on a local disk, and counts those that are opened.
type remote struct {
	store.BodyStore
	opened atomic.Int64
}

func (r *remote) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	r.opened.Add(1)
	return r.BodyStore.Open(ctx, key)
}

// crowded is a node whose memory has room for few of its pages, which are all stored.
type crowded struct {
	*isr.Cache
	h     http.Handler
	table *readCounter
	pages int
}

func (tb *table) crowdedNode(bodies store.BodyStore, s *site) *crowded {
	s.delay = 0
	s.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
		w.Header().Set("Content-Type", "image/png")
		w.Header().Set("Cache-Control", "max-age=60, stale-while-revalidate=60")
		w.Header().Set("Cache-Tag", "even")
		if strings.HasSuffix(r.URL.Path, "7") { // no other page has these
			w.Header()["X-Own"] = []string{r.URL.Path, "two"}
			w.Header().Set("Last-Modified", "Sat, 01 Jan 2000 00:00:00 GMT")
		}
		fmt.Fprintf(w, "%s rendered %d%s", r.URL.Path, n, strings.Repeat("x", 50<<10))
	})
	c := &crowded{table: &readCounter{MetaStore: tb.store("crowded")}, pages: 20}
	c.Cache = tb.nodeOn(c.table, bodies, func(cfg *isr.Config) { cfg.Memory = 300 << 10 })
	c.h = c.Handler(isr.Route{Name: "site", History: 2}, s)
	for range 2 { // the newest pages are not in memory any more after the second round
		for i := range c.pages {
			get(c.h, fmt.Sprint("/", i))
			synctest.Wait()
		}
	}
	return c
}

// readsFor requests all pages, which are fresh or stale, and reports how often the table was read for that.
func (c *crowded) readsFor(t *testing.T, generation string) int64 {
	t.Helper()
	before := c.table.reads.Load()
	for i := range c.pages {
		a := get(c.h, fmt.Sprint("/", i))
		if body := a.Body.String(); a.Code != http.StatusOK || !strings.HasPrefix(body, fmt.Sprintf("/%d rendered %s", i, generation)) || !strings.HasPrefix(a.status(), "isr; hit; ttl=") {
			t.Errorf("/%d: %d %.20q, %s", i, a.Code, body, a.status())
		}
		synctest.Wait()
	}
	return c.table.reads.Load() - before
}

// A fresh page that has left memory to make room costs a read of its body, and none of the table;
// from a local disk, and from a store on the network.
func TestEvictedPagesReadNoTable(t *testing.T) {
	for _, local := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			tb, site := newTable(t), newSite()
			var bodies store.BodyStore = tb.bodies
			far := &remote{BodyStore: tb.bodies}
			if !local {
				bodies = far
			}
			c := tb.crowdedNode(bodies, site)
			opened := far.opened.Load()
			if n := c.readsFor(t, ""); n != 0 {
				t.Errorf("local %v: the table was read %d times for %d fresh pages", local, n, c.pages)
			}
			if n := far.opened.Load() - opened; !local && n < int64(c.pages)/2 {
				t.Errorf("%d bodies were opened for %d pages, most of which are not in memory", n, c.pages)
			}
			if s := c.Stats().Memory; s.Bytes > s.Limit || s.Entries > 6 {
				t.Errorf("memory: %+v", s)
			}
			time.Sleep(time.Minute) // they are stale
			if n := c.readsFor(t, ""); n < int64(c.pages)/2 {
				t.Errorf("local %v: the table was read %d times for %d stale pages", local, n, c.pages)
			}
		})
	}
}

// What happens to an evicted page takes effect as for pages in memory.
func TestEvictedPagesAreDropped(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, tb *table, c *crowded){
		"purged by its tag": func(t *testing.T, tb *table, _ *crowded) {
			other := tb.node(tb.store("other"), nil)
			if _, err := other.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "even")}, Hard: true}); err != nil {
				t.Fatal(err)
			}
		},
		"purged by this node": func(t *testing.T, _ *table, c *crowded) {
			for i := range c.pages {
				if _, err := c.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(keyOf(fmt.Sprint("/", i)))}, Hard: true}); err != nil {
					t.Fatal(err)
				}
			}
		},
		"purged by another node": func(t *testing.T, tb *table, c *crowded) {
			other := tb.node(tb.store("other"), nil)
			for i := range c.pages {
				if _, err := other.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(keyOf(fmt.Sprint("/", i)))}, Hard: true}); err != nil {
					t.Fatal(err)
				}
			}
		},
		"their bodies are lost": func(t *testing.T, tb *table, _ *crowded) {
			tb.eachBody(t, os.Remove)
		},
		"their bodies are damaged": func(t *testing.T, tb *table, _ *crowded) {
			tb.eachBody(t, func(path string) error {
				content, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				return os.WriteFile(path, bytes.ToUpper(content), 0o600)
			})
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				c := tb.crowdedNode(tb.bodies, site)
				want := 0
				if strings.HasPrefix(name, "their bodies") {
					want = c.Stats().Memory.Entries + 1 // those that are in memory need none
				}
				change(t, tb, c)
				time.Sleep(3 * time.Second) // a poll
				old := 0
				for i := range c.pages {
					a := get(c.h, fmt.Sprint("/", i))
					if a.Code != http.StatusOK {
						t.Errorf("/%d: %d %s", i, a.Code, a.status())
					}
					if strings.HasPrefix(a.Body.String(), fmt.Sprintf("/%d rendered %dx", i, i+1)) {
						old++
					}
				}
				if old > want {
					t.Errorf("%d of %d pages are the pages of before", old, c.pages)
				}
			})
		})
	}
}

// eachBody calls f for the file of each body.
func (tb *table) eachBody(t *testing.T, f func(path string) error) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(tb.dir, "bodies", "bodies"), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return f(path)
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A hungDisk does not answer from some time on. Like a real one, it does not look at contexts.
type hungDisk struct {
	store.BodyStore
	hangs atomic.Bool
	ends  chan struct{} // closed when it answers again, with an error
	reads atomic.Int64  // that hang, of bodies of stubs
}

func (d *hungDisk) wait() error {
	if !d.hangs.Load() {
		return nil
	}
	<-d.ends
	return os.ErrDeadlineExceeded
}

func (d *hungDisk) ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error) {
	if d.hangs.Load() {
		d.reads.Add(1)
	}
	if err := d.wait(); err != nil {
		return nil, err
	}
	return d.BodyStore.(store.LocalReader).ReadLocal(ctx, key, limit)
}

func (d *hungDisk) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	if err := d.wait(); err != nil {
		return nil, 0, err
	}
	return d.BodyStore.Open(ctx, key)
}

// Visitors wait for a disk that hangs no longer than for other stores.
func TestEvictedPagesOnHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		disk := &hungDisk{BodyStore: tb.bodies, ends: make(chan struct{})}
		c := tb.crowdedNode(disk, site)
		disk.hangs.Store(true)
		for i := range c.pages {
			if a := get(c.h, fmt.Sprint("/", i)); a.Code != http.StatusOK || a.took > isr.DefaultStoreTimeout {
				t.Errorf("/%d: %d after %v, %s", i, a.Code, a.took, a.status())
			}
		}
		if down := c.StoresDown(); !slices.Equal(down, []string{"bodies"}) {
			t.Errorf("stores down: %q", down)
		}
		a := get(c.h, "/0")
		if a.Code != http.StatusOK || a.took != 0 {
			t.Errorf("while the disk is known to hang: %d after %v, %s", a.Code, a.took, a.status())
		}
		close(disk.ends)
		synctest.Wait()
	})
}

// Each read of a disk that hangs takes a thread, so that not every page that is requested may
// begin one.
func TestReadsOfHungDiskAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		disk := &hungDisk{BodyStore: tb.bodies, ends: make(chan struct{})}
		c := tb.crowdedNode(disk, site)
		for i := range 100 {
			get(c.h, fmt.Sprint("/", i))
			synctest.Wait()
		}
		disk.hangs.Store(true)
		var visitors sync.WaitGroup
		for i := range 100 {
			visitors.Go(func() {
				if a := get(c.h, fmt.Sprint("/", i)); a.Code != http.StatusOK || a.took > isr.DefaultStoreTimeout {
					t.Errorf("/%d: %d after %v, %s", i, a.Code, a.took, a.status())
				}
			})
		}
		visitors.Wait()
		if n := disk.reads.Load(); n != 64 {
			t.Errorf("%d reads of the disk hang, want 64", n)
		}
		close(disk.ends)
		synctest.Wait()
	})
}

// A cachedDisk is a disk all of whose files are in the memory of the system. It counts reads.
type cachedDisk struct {
	store.BodyStore
	cached, local atomic.Int64
}

func (d *cachedDisk) ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error) {
	d.local.Add(1)
	return d.BodyStore.(store.LocalReader).ReadLocal(ctx, key, limit)
}

func (d *cachedDisk) ReadCached(ctx context.Context, key string, buffer []byte) ([]byte, error) {
	body, err := d.BodyStore.(store.LocalReader).ReadLocal(ctx, key, int64(len(buffer)-store.CachedRoom))
	if err != nil {
		return nil, err
	}
	d.cached.Add(1)
	return buffer[:copy(buffer, body)], nil
}

// respond parses what a server sends of a hit.
func respond(t *testing.T, r *http.Request, hit *isr.Hit) (*http.Response, string) {
	t.Helper()
	res, err := http.ReadResponse(bufio.NewReader(io.MultiReader(bytes.NewReader(hit.Header), bytes.NewReader(hit.Body))), r)
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

// An evicted page whose file is in the memory of the system is a hit without net/http, and without
// the table. It says what net/http would say, until it is requested so often that it is put back.
func TestEvictedPagesAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		disk := &cachedDisk{BodyStore: tb.bodies}
		c := tb.crowdedNode(disk, site)
		reads, local := c.table.reads.Load(), disk.local.Load()
		var hit isr.Hit // of all, as for a connection
		for i := range c.pages {
			path := fmt.Sprint("/", i)
			if !isr.LookupIn(c.h, newRequest(path), &hit) {
				t.Errorf("%s is no hit", path)
				continue
			}
			res, body := respond(t, newRequest(path), &hit)
			key := hit.Report.Key
			want := get(c.h, path)
			if res.StatusCode != want.Code || body != want.Body.String() || !reflect.DeepEqual(res.Header, want.Result().Header) {
				t.Errorf("%s: %d %v, want %d %v", path, res.StatusCode, res.Header, want.Code, want.Result().Header)
			}
			isr.LookupIn(c.h, newRequest("/another"), &hit)
			if key != keyOf(path) {
				t.Errorf("the report of %s: %+v", path, key)
			}
		}
		if n := disk.cached.Load(); n < int64(c.pages) {
			t.Errorf("%d pages were read from the memory of the system", n)
		}
		if c.table.reads.Load() != reads || disk.local.Load() != local {
			t.Errorf("%d reads of the table, %d of the disk", c.table.reads.Load()-reads, disk.local.Load()-local)
		}
		for range 40 {
			if !isr.LookupIn(c.h, newRequest("/0"), &hit) {
				get(c.h, "/0")
			}
		}
		if n := disk.local.Load() - local; n != 1 {
			t.Errorf("a page that is requested often was loaded %d times, want once", n)
		}
	})
}

// A client that prefers a coding gets it from the file beside the body, which is not read.
func TestCodingsAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(longPage)
		disk := &cachedDisk{BodyStore: tb.bodies}
		c := tb.nodeOn(tb.store("crowded"), disk, func(cfg *isr.Config) { cfg.Memory = 60 << 10 })
		h := c.Handler(isr.Route{}, site)
		const pages = 20
		zipped := func(i int) *http.Request {
			r := newRequest(fmt.Sprint("/", i))
			r.Header.Set("Accept-Encoding", "gzip")
			return r
		}
		for range 3 { // render, make codings, evict
			for i := range pages {
				h.ServeHTTP(newDiscard(), zipped(i))
				time.Sleep(100 * time.Millisecond)
				synctest.Wait()
			}
		}
		var hit isr.Hit
		hits := 0
		for i := range pages {
			before := disk.cached.Load()
			if !isr.LookupIn(h, zipped(i), &hit) || disk.cached.Load() == before {
				continue
			}
			hits++
			res, body := respond(t, zipped(i), &hit)
			rd, err := gzip.NewReader(strings.NewReader(body))
			if err != nil {
				t.Fatalf("/%d: %v, %v", i, res.Header, err)
			}
			plain, err := io.ReadAll(rd)
			if err != nil || !strings.HasPrefix(string(plain), "<p>Line 0 of rendering ") || res.Header.Get("Content-Encoding") != "gzip" || !strings.HasSuffix(res.Header.Get("Etag"), `-gzip"`) {
				t.Errorf("/%d: %v, %.40q, %v", i, res.Header, plain, err)
			}
			if n := disk.cached.Load() - before; n != 1 {
				t.Errorf("/%d: %d files were read", i, n)
			}
		}
		if hits < pages/4 { // others are in memory, or have no stub
			t.Errorf("%d of %d pages are hits from the memory of the system", hits, pages)
		}
	})
}

// A page whose type is only known by its body is not at hand: its codings would be made of the
// buffer, which the next page is read into.
func TestUntypedPagesAreNotAtHand(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
			w.Header().Set("Cache-Control", "s-maxage=60")
			fmt.Fprintf(w, "<!DOCTYPE html><p>%s</p>", strings.Repeat(r.URL.Path, 2000))
		})
		disk := &cachedDisk{BodyStore: tb.bodies}
		c := tb.nodeOn(tb.store("crowded"), disk, func(cfg *isr.Config) { cfg.Memory = 60 << 10 })
		h := c.Handler(isr.Route{}, site)
		var hit isr.Hit
		for range 2 {
			for i := range 20 {
				r := newRequest(fmt.Sprint("/", i))
				r.Header.Set("Accept-Encoding", "gzip")
				if !isr.LookupIn(h, r, &hit) {
					get(h, fmt.Sprint("/", i))
				}
				synctest.Wait()
			}
		}
		if n := disk.cached.Load(); n != 0 {
			t.Errorf("%d files were read for one response", n)
		}
	})
}
