package isr_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
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
