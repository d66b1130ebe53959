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
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/buffers"
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

// metered counts the bytes that are read of bodies, and those that are open.
type metered struct {
	store.BodyStore
	read atomic.Int64
	open atomic.Int64 // bodies, or parts of them
}

func (m *metered) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	rd, n, err := m.BodyStore.Open(ctx, key)
	return m.opened(rd), n, err
}

func (m *metered) OpenRange(ctx context.Context, key string, offset, length int64) (io.ReadCloser, int64, error) {
	rd, n, err := store.OpenRange(ctx, m.BodyStore, key, offset, length)
	return m.opened(rd), n, err
}

func (m *metered) opened(rd io.ReadCloser) io.ReadCloser {
	if rd == nil {
		return nil
	}
	m.open.Add(1)
	return meteredBody{rd, m}
}

type meteredBody struct {
	io.ReadCloser
	m *metered
}

func (b meteredBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.m.read.Add(int64(n))
	return n, err
}

func (b meteredBody) Close() error {
	b.m.open.Add(-1)
	return b.ReadCloser.Close()
}

// meteredLocally is a metered folder.
type meteredLocally struct{ *metered }

func (m meteredLocally) ReadLocal(ctx context.Context, key string, limit int64) ([]byte, error) {
	body, err := m.BodyStore.(store.LocalReader).ReadLocal(ctx, key, limit)
	m.read.Add(int64(len(body)))
	return body, err
}

// largePages answers with large bodies that are not the same anywhere: /image is not encoded, /text is.
func largePages(w http.ResponseWriter, r *http.Request, _ int64) {
	size, contentType := 1<<20+100<<10, "image/png"
	if r.URL.Path == "/text" {
		size, contentType = 150<<10, "text/html"
	}
	w.Header().Set("Content-Type", contentType)
	w.Header().Set("Cache-Control", "max-age=600")
	w.Header().Set("Last-Modified", "Sat, 01 Jan 2000 00:00:00 GMT")
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		fmt.Fprintf(&b, "%s, line %d\n", r.URL.Path, i)
	}
	_, _ = w.Write(b.Bytes()[:size])
}

// responseOf is a response without what depends on when it was sent, and how often the page was found.
func responseOf(h http.Handler, method, path string, fields ...string) string {
	r := newRequest(path, fields...)
	r.Method = method
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	header := w.Header().Clone()
	for _, name := range []string{"Age", "Cache-Status", "Date"} {
		header.Del(name)
	}
	body := w.Body.String()
	if _, boundary, multi := strings.Cut(header.Get("Content-Type"), "boundary="); multi {
		body = strings.ReplaceAll(body, boundary, "BOUNDARY")
		header.Set("Content-Type", strings.ReplaceAll(header.Get("Content-Type"), boundary, "BOUNDARY"))
	}
	return fmt.Sprint(w.Code, " ", header, " ", len(body), " bytes\n", body)
}

// lightRequests are requests that need less than the body of a page.
func lightRequests(etag string) map[string][]string {
	return map[string][]string{
		"HEAD":                           {"HEAD"},
		"HEAD, in gzip":                  {"HEAD", "Accept-Encoding: gzip"},
		"HEAD, in br":                    {"HEAD", "Accept-Encoding: br, gzip"},
		"HEAD with a range":              {"HEAD", "Range: bytes=0-0"},
		"HEAD that is not modified":      {"HEAD", "If-None-Match: " + etag},
		"not modified":                   {"GET", "If-None-Match: " + etag},
		"not modified, whatever it is":   {"GET", "If-None-Match: *"},
		"not modified, in gzip":          {"GET", "If-None-Match: *", "Accept-Encoding: gzip"},
		"not modified since":             {"GET", "If-Modified-Since: Sat, 01 Jan 2000 00:00:00 GMT"},
		"not modified, and a range":      {"GET", "If-None-Match: *", "Range: bytes=0-0"},
		"the first byte":                 {"GET", "Range: bytes=0-0"},
		"the last bytes":                 {"GET", "Range: bytes=-100"},
		"bytes in the middle, in gzip":   {"GET", "Range: bytes=100000-100100", "Accept-Encoding: gzip"},
		"two parts":                      {"GET", "Range: bytes=0-9,100000-100009"},
		"parts backwards":                {"GET", "Range: bytes=100000-100009, 0-9"},
		"If-Range with the tag":          {"GET", "Range: bytes=5-9", "If-Range: " + etag},
		"a range that no body has":       {"GET", "Range: bytes=99999999-"},
		"a malformed range":              {"GET", "Range: bytes=9-1"},
		"a part that the body has, only": {"GET", "Range: bytes=5-9,99999999-"},
	}
}

// wholeRequests are requests that look like lightRequests and need the body.
func wholeRequests() map[string][]string {
	return map[string][]string{
		"the whole":                 {"GET"},
		"the whole, in gzip":        {"GET", "Accept-Encoding: gzip"},
		"modified":                  {"GET", `If-None-Match: "other"`},
		"modified since":            {"GET", "If-Modified-Since: Sat, 01 Jan 1999 00:00:00 GMT"},
		"If-Range with another tag": {"GET", "Range: bytes=5-9", `If-Range: "other"`},
		"a range that is all":       {"GET", "Range: bytes=0-"},
		"another unit":              {"GET", "Range: lines=1-2"},
	}
}

// A page that is not in memory answers as one in memory does, whether its stub is or not, from a folder
// and from a store on the network. What needs no body, or a part of one, reads no more.
func TestLargePagesOutOfMemory(t *testing.T) {
	for _, path := range []string{"/image", "/text"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(largePages)
				warm := tb.node(tb.store("warm"), nil).Handler(isr.Route{}, site)
				get(warm, path)
				for _, coding := range []string{"gzip", "br"} {
					get(warm, path, "Accept-Encoding: "+coding)
					time.Sleep(5 * time.Second) // a coding is asked for once in a while
				}
				etag := get(warm, path).Header().Get("Etag")
				bodies := &metered{BodyStore: tb.bodies}
				check := func(name string, h http.Handler, most int64, fields []string) {
					t.Helper()
					before := bodies.read.Load()
					got, want := responseOf(h, fields[0], path, fields[1:]...), responseOf(warm, fields[0], path, fields[1:]...)
					if got != want {
						t.Errorf("%s: got %.500s\n, in memory %.500s", name, got, want)
					}
					if n := bodies.read.Load() - before; n > most {
						t.Errorf("%s: %d bytes were read", name, n)
					}
					synctest.Wait()
				}
				node := func(on store.BodyStore, memory int64) http.Handler {
					return tb.nodeOn(tb.store("cold"), on, func(cfg *isr.Config) { cfg.Memory = memory }).Handler(isr.Route{}, site)
				}
				for where, on := range map[string]store.BodyStore{"a folder": meteredLocally{bodies}, "a bucket": bodies} {
					h := node(on, 16<<10) // it has room for a stub alone
					for name, fields := range lightRequests(etag) {
						check(where+", no stub, "+name, node(on, 16<<20), 70<<10, fields)
						check(where+", "+name, h, 70<<10, fields)
					}
					h = node(on, 16<<20)
					for name, fields := range wholeRequests() {
						responseOf(h, fields[0], path, fields[1:]...) // has the coding read
						synctest.Wait()
						check(where+", "+name, h, 1<<40, fields)
					}
				}
				if n := site.renders.Load(); n != 1 {
					t.Errorf("%d renders", n)
				}
			})
		})
	}
}

// damageBodies changes the last byte of all bodies in a folder, and not their lengths.
func damageBodies(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".body") {
			return err
		}
		body, err := os.ReadFile(path)
		if err == nil {
			body[len(body)-1] ^= 1
			err = os.WriteFile(path, body, 0o600)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// No visitor takes a damaged body for a whole one: the connection breaks before its last bytes, and the
// page is rendered for the next visitor. A body that is missing is rendered at once.
func TestLargeBodyThatIsDamagedOrMissing(t *testing.T) {
	for _, known := range []bool{true, false} { // memory has the stub
		for name, harm := range map[string]func(*testing.T, string){
			"damaged": damageBodies,
			"missing": func(t *testing.T, folder string) {
				if err := os.RemoveAll(filepath.Join(folder, "bodies")); err != nil {
					t.Fatal(err)
				}
			},
		} {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.delay = 0
				site.answers(largePages)
				small := func(cfg *isr.Config) { cfg.Memory = 16 << 10 }
				h := tb.node(tb.store("a"), small).Handler(isr.Route{}, site)
				want := responseOf(h, "GET", "/image")
				if !known {
					h = tb.node(tb.store("b"), small).Handler(isr.Route{}, site)
				}
				synctest.Wait() // memory has evicted the page
				harm(t, filepath.Join(tb.dir, "bodies"))
				visit := func() (got string, broke bool) {
					defer func() { broke = recover() == http.ErrAbortHandler }() //nolint:errorlint // as net/http does
					return responseOf(h, "GET", "/image"), false
				}
				got, broke := visit()
				if broke != (known && name == "damaged") || !broke && got != want {
					t.Errorf("%s, known %v: broke %v, got %.300s", name, known, broke, got)
				}
				synctest.Wait()
				if got, broke := visit(); broke || got != want {
					t.Errorf("%s, known %v, the next visitor: broke %v, got %.300s", name, known, broke, got)
				}
				if n := site.renders.Load(); n != 2 {
					t.Errorf("%s, known %v: %d renders, want 2", name, known, n)
				}
			})
		}
	}
}

// Visitors beyond the first hold short pieces of a body, and get it whole, or the range that they have asked for.
func TestManySlowVisitorsHoldLittle(t *testing.T) {
	const size, visitors = 1<<20 + 100<<10, 300
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.delay = 0
		site.answers(largePages)
		h := tb.node(tb.store("a"), func(cfg *isr.Config) { cfg.Memory = 16 << 10 }).Handler(isr.Route{}, site)
		whole := get(h, "/image").Body.Bytes()
		synctest.Wait() // memory has evicted the page
		longest, long := int64(0), 0
		slow := make([]*pieceVisitor, visitors)
		for i := range slow {
			fields := []string{"Range: bytes=5-"}
			if i%2 == 0 {
				fields = nil
			}
			slow[i] = &pieceVisitor{ResponseRecorder: httptest.NewRecorder(), goOn: make(chan struct{}), done: make(chan struct{})}
			go func() {
				defer close(slow[i].done)
				h.ServeHTTP(slow[i], newRequest("/image", fields...))
			}()
		}
		synctest.Wait()
		for _, v := range slow {
			longest = max(longest, v.length.Load())
			if v.length.Load() > 8<<10 {
				long++
			}
		}
		if longest != 64<<10 || long > 128 {
			t.Errorf("%d visitors hold more than 8 KiB, one %d bytes", long, longest)
		}
		for i, v := range slow {
			close(v.goOn)
			<-v.done
			if want := whole[5*(i%2):]; !bytes.Equal(v.Body.Bytes(), want) || len(whole) != size {
				t.Fatalf("visitor %d got %d bytes of %d", i, v.Body.Len(), len(want))
			}
		}
		synctest.Wait()
		if got := get(h, "/image").Body.Bytes(); !bytes.Equal(got, whole) {
			t.Errorf("the next visitor got %d bytes", len(got))
		}
	})
}

// A pieceVisitor takes what is written to it once goOn is closed, and notes the length of the first piece.
type pieceVisitor struct {
	*httptest.ResponseRecorder
	goOn, done chan struct{}
	length     atomic.Int64
}

func (v *pieceVisitor) Write(b []byte) (int, error) {
	v.length.CompareAndSwap(0, int64(len(b)))
	<-v.goOn
	return v.ResponseRecorder.Write(b)
}

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
