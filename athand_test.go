package isr_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

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

// A client that prefers a coding gets that of the file beside the body, which is not read.
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
		if hits < pages/4 { // others are in memory, or have no outline
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
