package isr_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
)

// A viewer is a visitor who sees when the parts of a response come. Its client does not read
// while it is stopped.
type viewer struct {
	header  http.Header
	stopped chan struct{} // nil: it reads
	began   time.Time

	mu     sync.Mutex
	code   int
	body   bytes.Buffer
	times  []time.Duration // of each part
	broken bool            // the connection
	done   time.Duration
}

func (v *viewer) Header() http.Header { return v.header }

func (v *viewer) WriteHeader(code int) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.code == 0 {
		v.code = code
	}
}

func (v *viewer) Write(b []byte) (int, error) {
	v.WriteHeader(http.StatusOK)
	if v.stopped != nil {
		<-v.stopped
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	v.times = append(v.times, time.Since(v.began))
	return v.body.Write(b)
}

func (v *viewer) Flush() {}

func (v *viewer) seen() string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.body.String()
}

// view starts a request; the channel is closed when the handler returns.
func view(h http.Handler, r *http.Request, stopped chan struct{}) (*viewer, <-chan struct{}) {
	v, end := &viewer{header: make(http.Header), stopped: stopped, began: time.Now()}, make(chan struct{})
	go func() {
		defer close(end)
		defer func() {
			v.mu.Lock()
			defer v.mu.Unlock()
			v.done = time.Since(v.began)
			switch got := recover(); got {
			case nil:
			case http.ErrAbortHandler: //nolint:errorlint // as net/http does
				v.broken = true
			default:
				panic(got)
			}
		}()
		h.ServeHTTP(v, r)
	}()
	return v, end
}

func request(header ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
	for _, line := range header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

// slowly writes parts, one a second, from one second after the request.
func slowly(parts ...string) func(http.ResponseWriter, *http.Request, int64) {
	return func(w http.ResponseWriter, r *http.Request, n int64) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "s-maxage=60")
		for i, part := range parts {
			if i > 0 {
				time.Sleep(time.Second)
			}
			if _, err := io.WriteString(w, part); err != nil {
				return
			}
		}
	}
}

const grace = time.Millisecond // until visitors attach

// The visitor who causes a render gets its first bytes at once, visitors who join get all of
// it, and the page is stored.
func TestStreamedRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(slowly("one ", "two ", "three"))
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		var visitors []*viewer
		var ends []<-chan struct{}
		join := func() {
			v, end := view(h, request(), nil)
			visitors, ends = append(visitors, v), append(ends, end)
		}
		join()
		time.Sleep(time.Second + grace)
		synctest.Wait()
		if got := visitors[0].seen(); got != "one " {
			t.Errorf("after the first part the visitor has %q", got)
		}
		for range 3 { // during the first, second and third part
			join()
			time.Sleep(700 * time.Millisecond)
		}
		for i, v := range visitors {
			<-ends[i]
			if v.code != http.StatusOK || v.broken || v.seen() != "one two three" {
				t.Errorf("visitor %d got %d %q, broken: %v", i, v.code, v.seen(), v.broken)
			}
			want := "isr; fwd=miss; fwd-status=200; stored"
			if i > 0 {
				want += "; collapsed"
			}
			if got := v.header.Get("Cache-Status"); got != want {
				t.Errorf("visitor %d: %q, want %q", i, got, want)
			}
			if v.header.Get("Vary") != "Accept-Encoding" || v.header.Get("Age") == "" {
				t.Errorf("visitor %d: %v", i, v.header)
			}
		}
		if first := visitors[0].times[0]; first != time.Second+grace {
			t.Errorf("the first byte came after %v", first)
		}
		if first := visitors[3].times[0]; first != 0 {
			t.Errorf("a late visitor had to wait %v for what had come", first)
		}
		expect(t, get(h, "/"), "one two three", "isr; hit; ttl=")
		if n := site.renders.Load(); n != 1 {
			t.Errorf("%d renders", n)
		}
	})
}

// A page that is rendered at once is answered as a whole.
func TestQuickRenderIsNotStreamed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		a := get(h, "/")
		expect(t, a, "/ rendered 1", "isr; fwd=miss; fwd-status=200; stored; ttl=")
		if a.Header().Get("Content-Length") == "" || a.Header().Get("Etag") == "" {
			t.Errorf("%v", a.Header())
		}
	})
}

// A page whose publish takes long is answered as a whole, except for its last byte.
func TestPageIsServedWhileItIsPublished(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		meta := &faultyStore{MetaStore: tb.store("a")}
		meta.publish = func() error { time.Sleep(100 * time.Millisecond); return errPassOn }
		h := tb.node(meta, nil).Handler(isr.Route{}, site)
		v, end := view(h, request(), nil)
		time.Sleep(time.Second + grace)
		synctest.Wait()
		if got := v.seen(); got != "/ rendered " {
			t.Errorf("during the publish the visitor has %q", got)
		}
		if v.header.Get("Content-Length") != "12" || v.header.Get("Etag") == "" || !strings.HasPrefix(v.header.Get("Cache-Status"), "isr; fwd=miss; fwd-status=200; stored; ttl=") {
			t.Errorf("%v", v.header)
		}
		<-end
		if v.seen() != "/ rendered 1" || v.done != 1100*time.Millisecond {
			t.Errorf("%q after %v", v.seen(), v.done)
		}
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit")
	})
}

// The end of a response waits for the store at most StoreTimeout.
func TestStreamEndsBeforeASlowPublish(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(slowly("one ", "two"))
		meta := &faultyStore{MetaStore: tb.store("a")}
		meta.publish = func() error { time.Sleep(time.Second); return errPassOn }
		h := tb.node(meta, nil).Handler(isr.Route{}, site)
		v, end := view(h, request(), nil)
		<-end
		if v.seen() != "one two" || v.broken || v.done != 2*time.Second+isr.DefaultStoreTimeout {
			t.Errorf("%q after %v, broken: %v", v.seen(), v.done, v.broken)
		}
	})
}

// A render that breaks breaks the connections of all its visitors. Nothing is stored, and the
// next request renders again after the back-off.
func TestBrokenStream(t *testing.T) {
	for name, fail := range map[string]func(w http.ResponseWriter, r *http.Request){
		"aborted":   func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"panicked":  func(http.ResponseWriter, *http.Request) { panic("a bug") },
		"truncated": func(http.ResponseWriter, *http.Request) {},
		"timed out": func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() },
		"hung":      func(http.ResponseWriter, *http.Request) { time.Sleep(15 * time.Second) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
					w.Header().Set("Content-Length", "7")
					slowly("one ")(w, r, n)
					time.Sleep(time.Second)
					fail(w, r)
				})
				h := tb.node(tb.store("a"), nil).Handler(isr.Route{RenderTimeout: 10 * time.Second}, site)
				v, end := view(h, request(), nil)
				time.Sleep(1500 * time.Millisecond)
				late, lateEnd := view(h, request(), nil)
				<-end
				<-lateEnd
				synctest.Wait() // until the failure is stored
				for _, v := range []*viewer{v, late} {
					if v.seen() != "one " || !v.broken {
						t.Errorf("got %q, broken: %v", v.seen(), v.broken)
					}
				}
				rec, err := tb.store("a").Read(t.Context(), store.HashedPartition(page))
				if err != nil || rec.Entry != nil || rec.Lock == nil || !rec.Lock.IsBackOff() {
					t.Errorf("stored: %+v, %v; want a back-off alone", rec, err)
				}
				site.answers(cacheable)
				time.Sleep(10 * time.Second)
				expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored")
			})
		})
	}
}

// Responses whose body decides, or that have an older page behind them, are not streamed.
func TestNotStreamed(t *testing.T) {
	parts := slowly("<html>", "</html>")
	with := func(name, value string) func(http.ResponseWriter, *http.Request, int64) {
		return func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set(name, value)
			parts(w, r, n)
		}
	}
	for name, c := range map[string]struct {
		route   isr.Route
		origin  func(http.ResponseWriter, *http.Request, int64)
		request *http.Request
	}{
		"reject":                    {route: isr.Route{Reject: isr.Reject{Without: []string{"</html>"}}}},
		"range":                     {request: request("Range: bytes=0-1")},
		"a tag nothing is known of": {request: request(`If-None-Match: "a"`)},
		"HTTP/1.0": {request: func() *http.Request {
			r := request()
			r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.0", 1, 0
			return r
		}()},
		"a coding":  {origin: with("Content-Encoding", "identity")},
		"a receipt": {request: request("Isr-Min-Seq: 1")},
		"a 404": {origin: func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Cache-Control", "max-age=60")
			w.WriteHeader(http.StatusNotFound)
			parts(w, r, n)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				if c.origin == nil {
					c.origin = parts
				}
				site.answers(c.origin)
				node := tb.node(tb.store("a"), nil)
				h := node.Handler(c.route, site)
				if _, err := node.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}}); err != nil {
					t.Fatal(err)
				}
				r := c.request
				if r == nil {
					r = request()
				}
				v, end := view(h, r.WithContext(t.Context()), nil)
				<-end
				if len(v.times) > 0 && v.times[0] < 2*time.Second || v.done < 2*time.Second || v.broken {
					t.Errorf("%d %q at %v, broken: %v", v.code, v.seen(), v.times, v.broken)
				}
			})
		})
	}
}

// A visitor whose request the response does not match by its Vary gets none of it.
func TestStreamIsNotShownToOtherVariants(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Vary", "Accept-Language")
			slowly("for "+r.Header.Get("Accept-Language")+" ", "end")(w, r, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{VaryAuto: true}, site)
		plain, end := view(h, request(), nil)
		german, germanEnd := view(h, request("Accept-Language: de"), nil)
		<-end
		<-germanEnd
		if plain.seen() != "for  end" || german.seen() != "for de end" {
			t.Errorf("got %q and %q", plain.seen(), german.seen())
		}
	})
}

// While an older page may be served should the render fail, visitors wait for the whole new
// one.
func TestNotStreamedWithAnOlderPage(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{Policy: isr.Wait, Stale: time.Hour}, site)
		get(h, "/")
		time.Sleep(2 * time.Minute)
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			slowly("broken ")(w, r, n)
			time.Sleep(time.Second)
			panic(http.ErrAbortHandler)
		})
		expect(t, get(h, "/"), "/ rendered 1", "isr; hit; ttl=-")
	})
}

// With an entity tag of the origin, a condition is decided when the header comes.
func TestStreamEvaluatesConditions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Etag", `"v1"`)
			w.Header().Set("Content-Length", "7")
			slowly("one ", "two")(w, r, n)
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		same, end := view(h, request(`If-None-Match: "v1"`), nil)
		other, otherEnd := view(h, request(`If-None-Match: "v0"`), nil)
		<-end
		if same.code != http.StatusNotModified || same.done != time.Second+grace || same.seen() != "" {
			t.Errorf("%d after %v", same.code, same.done)
		}
		<-otherEnd
		if other.code != http.StatusOK || other.seen() != "one two" || other.times[0] != time.Second+grace || other.header.Get("Content-Length") != "7" || other.header.Get("Etag") != `"v1"` {
			t.Errorf("%d %q %v", other.code, other.seen(), other.header)
		}
	})
}

// A hard purge before the first byte lets no stream begin; one after it lets no later visitor
// join, and the next request does not get what was rendered before.
func TestPurgeDuringAStream(t *testing.T) {
	for name, c := range map[string]struct {
		soft  bool
		after time.Duration
		want  string
	}{
		"before the header": {after: 500 * time.Millisecond, want: "two"},
		"during the body":   {after: 1500 * time.Millisecond, want: "one two"},
		"soft":              {soft: true, after: 1500 * time.Millisecond, want: "one two"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				node := tb.node(tb.store("a"), nil)
				h := node.Handler(isr.Route{Name: "site", Stale: time.Hour}, site)
				site.answers(slowly("one ", "two"))
				v, end := view(h, request(), nil)
				time.Sleep(c.after)
				if _, err := node.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeKey(page)}, Hard: !c.soft}); err != nil {
					t.Fatal(err)
				}
				site.answers(slowly("new"))
				late, lateEnd := view(h, request(), nil)
				<-end
				<-lateEnd
				if c.after > time.Second && (v.seen() != c.want || v.broken) || c.after < time.Second && v.times[0] < 2*time.Second {
					t.Errorf("the first visitor got %q at %v", v.seen(), v.times)
				}
				if got := late.header.Get("Cache-Status"); c.soft && !strings.HasSuffix(got, "; detail=stale") || !c.soft && late.seen() != "new" {
					t.Errorf("a visitor after the purge got %q, %q", late.seen(), got)
				}
				time.Sleep(2 * time.Second)
				if got := get(h, "/").Body.String(); got != "new" {
					t.Errorf("the next request got %q", got)
				}
			})
		})
	}
}

// A response that turns out to be too large is not stored. Those who have attached get all of
// it, at the pace of the slowest; without a limit of time.
func TestStreamBeyondMaxBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		var parts []string
		for i := range 40 {
			parts = append(parts, strings.Repeat(fmt.Sprint(i%10), 1000))
		}
		site.answers(slowly(parts...))
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{MaxBody: 10_000, RenderTimeout: 20 * time.Second}, site)
		v, end := view(h, request(), nil)
		time.Sleep(5 * time.Second)
		stopped := make(chan struct{})
		slow, slowEnd := view(h, request(), stopped)
		time.Sleep(30 * time.Second)
		if n := len(v.seen()); n < 10_000 || n > 11_000 {
			t.Errorf("beyond the limit the visitor got %d bytes while another has none", n)
		}
		passed := get(h, "/")
		if passed.Body.Len() != 40_000 || passed.status() != "isr; fwd=bypass; fwd-status=200; detail=too-large" {
			t.Errorf("a later visitor got %d bytes, %q", passed.Body.Len(), passed.status())
		}
		close(stopped)
		<-end
		<-slowEnd
		for _, v := range []*viewer{v, slow} {
			if v.broken || v.seen() != strings.Join(parts, "") {
				t.Errorf("got %d bytes, broken: %v", len(v.seen()), v.broken)
			}
		}
		rec, err := tb.store("a").Read(t.Context(), store.HashedPartition(page))
		if err != nil || rec.Entry != nil || rec.Lock != nil {
			t.Errorf("stored: %+v, %v", rec, err)
		}
	})
}

// The last visitor of a response that is not stored ends its render.
func TestAbandonedStreamEndsItsRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		var ended atomic.Bool
		site.answers(func(w http.ResponseWriter, r *http.Request, n int64) {
			w.Header().Set("Content-Type", "text/html")
			w.Header().Set("Cache-Control", "s-maxage=60")
			for {
				if _, err := w.Write(make([]byte, 1000)); err != nil {
					ended.Store(true)
					return
				}
				time.Sleep(time.Second)
			}
		})
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{MaxBody: 10_000}, site)
		ctx, leave := context.WithCancel(t.Context())
		v, gone := view(h, request().WithContext(ctx), nil)
		time.Sleep(time.Minute)
		if n := len(v.seen()); n < 50_000 || ended.Load() {
			t.Fatalf("after a minute the visitor has %d bytes", n)
		}
		leave()
		<-gone
		time.Sleep(2 * time.Second)
		if !ended.Load() {
			t.Error("the render goes on without visitors")
		}
	})
}

// A visitor who does not read delays neither the render nor others. The visitor who caused
// the render may leave.
func TestSlowReaderDoesNotSlowTheRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(slowly("one ", "two ", "three"))
		h := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
		ctx, leave := context.WithCancel(t.Context())
		_, leaderEnd := view(h, request().WithContext(ctx), nil)
		stopped := make(chan struct{})
		slow, slowEnd := view(h, request(), stopped)
		other, otherEnd := view(h, request(), nil)
		time.Sleep(1500 * time.Millisecond)
		leave()
		<-leaderEnd
		<-otherEnd
		if other.seen() != "one two three" || other.done != 3*time.Second {
			t.Errorf("%q after %v", other.seen(), other.done)
		}
		expect(t, get(h, "/"), "one two three", "isr; hit")
		time.Sleep(time.Minute)
		close(stopped)
		<-slowEnd
		if slow.seen() != "one two three" || slow.broken {
			t.Errorf("the slow visitor got %q", slow.seen())
		}
	})
}

// A lease that is lost in mid-stream does not break it. What was rendered is not published.
func TestStreamSurvivesALostLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb, site := newTable(t), newSite()
		site.answers(slowly("1", "2", "3", "4", "5", "6", "7", "8", "9"))
		meta := &faultyStore{MetaStore: tb.store("a")}
		meta.refresh = func() error { meta.refresh = nil; return store.ErrLeaseLost } // after 3.3 s
		h := tb.node(meta, nil).Handler(isr.Route{}, site)
		v, end := view(h, request(), nil)
		time.Sleep(2 * time.Second)
		site.answers(cacheable)
		<-end
		if v.seen() != "123456789" || v.broken || v.done > 10*time.Second {
			t.Errorf("%q after %v, broken: %v", v.seen(), v.done, v.broken)
		}
		expect(t, get(h, "/"), "/ rendered 2", "isr; fwd=miss; fwd-status=200; stored; collapsed")
	})
}

// A render that is not stored is streamed, too.
func TestStreamWithoutAStore(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*isr.Config)
		detail string
	}{
		"not requested often enough": {func(cfg *isr.Config) { cfg.MinUses = 5 }, "min-uses"},
		"no room":                    {func(cfg *isr.Config) { cfg.Full = func() bool { return true } }, "no-room"},
		"the store is down":          {nil, "store-error"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb, site := newTable(t), newSite()
				site.answers(slowly("one ", "two"))
				meta := &faultyStore{MetaStore: tb.store("a")}
				if c.change == nil {
					meta.read = func() error { return errors.New("the store is down") }
				}
				h := tb.node(meta, c.change).Handler(isr.Route{}, site)
				v, end := view(h, request(), nil)
				<-end
				if v.seen() != "one two" || v.times[0] != time.Second+grace || v.header.Get("Cache-Status") != "isr; fwd=miss; fwd-status=200; detail="+c.detail {
					t.Errorf("%q at %v, %v", v.seen(), v.times, v.header)
				}
			})
		})
	}
}
