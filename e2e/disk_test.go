package e2e

import (
	"fmt"
	"io/fs"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
)

// Invented URLs do not fill the disk: the least recently used pages are evicted, and pages in
// use and pinned pages stay.
func TestDisk(t *testing.T) {
	t.Parallel()
	const bound = 2 << 20
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	o.set("/kept", page(3600, 0))
	o.set("/pinned", page(3600, 0))
	g := serve(t, embedded(t, "--disk", "2MiB"), o)
	for _, path := range []string{"/kept", "/pinned"} {
		get(t, g.url+path)
	}
	g.output(t, "pin", host+"/pinned")
	const rounds, each = 30, 16 // 5 MB or so; one client has a few places in the queue for the origin
	for i := range rounds {
		urls := make([]string, each)
		for j := range urls {
			urls[j] = fmt.Sprintf("%s/invented/%d", g.url, i*each+j)
		}
		expectAll(t, "an invented page", storm(t, each, urls...), func(r reply) bool { return r.status == http.StatusOK })
		if r := get(t, g.url+"/kept"); !r.hit() {
			t.Fatalf("a page that is asked for all the time: %s", r)
		}
		await(t, "room on disk", patience, func() bool { return diskUse(t, g) <= bound*6/5 })
	}
	g.process.Await(t, "room to be made", patience, func() bool { return strings.Contains(g.process.Log(), "evicted least recently used pages from disk") })
	stored := g.stored(t)
	if len(stored) < 20 || len(stored) > 250 {
		t.Errorf("%d pages are stored", len(stored))
	}
	for _, path := range []string{"/kept", "/pinned"} {
		if p := stored[host+path]; p.Status != http.StatusOK {
			t.Errorf("%s is not stored any more", path)
		}
		if n := o.count(path); n != 1 {
			t.Errorf("%s was rendered %d times", path, n)
		}
	}
	g.terminate(t)
	g.awaitExit(t, patience)
}

// diskUse returns the disk space of the bodies of a gateway, in blocks. Their folders and the
// journal come to it, which do not grow with the number of pages.
func diskUse(t *testing.T, g *gateway) (bytes int64) {
	t.Helper()
	_ = filepath.WalkDir(filepath.Join(g.dir, "data", "bodies"), func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // it was deleted since the listing
		}
		if e.IsDir() && e.Name() == ".tmp" {
			return fs.SkipDir
		}
		if info, err := e.Info(); err == nil && !e.IsDir() {
			bytes += (info.Size() + 4095) &^ 4095
		}
		return nil
	})
	return bytes
}
