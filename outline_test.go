package isr_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
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
					t.Errorf("%d of %d pages are those of before", old, c.pages)
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
	reads atomic.Int64  // that hang, of bodies of outlines
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
