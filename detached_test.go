package isr_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
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

// A page that is not in memory answers as one in memory does, whether its outline is or not, from a folder
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
					time.Sleep(5 * time.Second) // the coder is asked once in a while
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
					h := node(on, 16<<10) // it has room for an outline alone
					for name, fields := range lightRequests(etag) {
						check(where+", no outline, "+name, node(on, 16<<20), 70<<10, fields)
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
	for _, known := range []bool{true, false} { // memory has the outline
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
