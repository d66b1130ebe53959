package isr_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/gc"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// A codingShelf counts the calls for codings, and can fail them.
type codingShelf struct {
	store.BodyStore

	mu           sync.Mutex
	puts, opens  int
	failed       error         // of all calls for codings
	delay        time.Duration // of reads of codings
	bodyPuts     int
	storedCoding []byte
}

func (s *codingShelf) Put(ctx context.Context, key string, body []byte) error {
	s.mu.Lock()
	_, coded := store.CodedBody(key)
	failed := s.failed
	if coded {
		s.puts++
		s.storedCoding = body
	} else {
		s.bodyPuts++
	}
	s.mu.Unlock()
	if coded && failed != nil {
		return failed
	}
	return s.BodyStore.Put(ctx, key, body)
}

func (s *codingShelf) Open(ctx context.Context, key string) (io.ReadCloser, int64, error) {
	s.mu.Lock()
	_, coded := store.CodedBody(key)
	failed, delay := s.failed, s.delay
	if coded {
		s.opens++
	}
	s.mu.Unlock()
	if coded {
		time.Sleep(delay)
		if failed != nil {
			return nil, 0, failed
		}
	}
	return s.BodyStore.Open(ctx, key)
}

func (s *codingShelf) counts() (bodies, puts, opens int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bodyPuts, s.puts, s.opens
}

func (s *codingShelf) fail(err error, delay time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed, s.delay = err, delay
}

// longPage answers with a page that codings shrink; "/none" is missing.
func longPage(w http.ResponseWriter, r *http.Request, n int64) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "s-maxage=60")
	if r.URL.Path == "/none" {
		w.WriteHeader(http.StatusNotFound)
	}
	if r.URL.Path == "/same" {
		n = 1
	}
	for i := range 200 {
		fmt.Fprintf(w, "<p>Line %d of rendering %d.</p>\n", i, n)
	}
}

func newLongSite() *site {
	s := newSite()
	s.delay = 0
	s.answers(longPage)
	return s
}

const browser = "Accept-Encoding: gzip, deflate, br, zstd"

// expectCoding checks the coding of an answer, and that it decodes to the page.
func (a answer) expectCoding(t *testing.T, when, coding string) {
	t.Helper()
	plain, err := httpcache.Decode(a.Header()["Content-Encoding"], a.Body.Bytes(), 1<<20)
	if got := a.Header().Get("Content-Encoding"); got != coding {
		t.Errorf("%s: the coding %q, want %q (%s)", when, got, coding, a.status())
	}
	if err != nil || !strings.HasPrefix(string(plain), "<p>Line 0 of ") || !strings.Contains(string(plain), "<p>Line 199 of ") {
		t.Errorf("%s: the coding %q has %d bytes, which decode to %.30q, %v", when, coding, a.Body.Len(), plain, err)
	}
	if vary := a.Header().Get("Vary"); vary != "Accept-Encoding" {
		t.Errorf("%s: Vary %q", when, vary)
	}
}

// settle lets background work end, and pages ask for their codings again.
func settle() {
	time.Sleep(time.Second)
	synctest.Wait()
}

// The codings of a generation are made once, by the node where a visitor wants one first, after
// the page was served; other nodes read them with the body.
func TestCodingsAreMadeOnceForAllNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		shelf := &codingShelf{BodyStore: tb.bodies}
		a, b := tb.peerOn(shelf, "a", isr.Route{Name: "site"}, newLongSite(), nil), tb.peerOn(shelf, "b", isr.Route{Name: "site"}, newLongSite(), nil)
		counted := func(when string, bodies, puts, opens int) {
			t.Helper()
			if gotBodies, gotPuts, gotOpens := shelf.counts(); gotBodies != bodies || gotPuts != puts || gotOpens != opens {
				t.Errorf("%s: %d bodies and %d codings put, %d read; want %d, %d and %d", when, gotBodies, gotPuts, gotOpens, bodies, puts, opens)
			}
		}
		get(a, "/").expectCoding(t, "a visitor who wants none", "")
		settle()
		counted("a page that no client wants in a coding", 1, 0, 0)
		get(a, "/", browser).expectCoding(t, "the first visitor", "")
		settle()
		get(a, "/", browser).expectCoding(t, "the second visitor", "br")
		counted("a page", 1, 1, 0)
		get(b, "/", browser).expectCoding(t, "the first visitor of another node", "br")
		counted("another node", 1, 1, 1)
		get(b, "/", "Accept-Encoding: gzip").expectCoding(t, "the first visitor with gzip", "")
		settle()
		get(b, "/", "Accept-Encoding: gzip").expectCoding(t, "the second visitor with gzip", "gzip")
		get(b, "/", browser).expectCoding(t, "a visitor with br", "br")
		counted("another coding", 1, 1, 2)

		// A new generation has the codings that the last one had, without being asked.
		if _, err := a.Regenerate(t.Context(), page); err != nil {
			t.Fatal(err)
		}
		settle()
		get(a, "/", browser).expectCoding(t, "the first visitor of the next generation", "br")
		counted("the next generation", 2, 2, 2)

		// So has one with the same content, whose codings are not made again.
		same := store.Key{Text: "example.com/same"}
		get(a, "/same", browser)
		settle()
		counted("the first rendering", 3, 3, 2)
		if _, err := a.Regenerate(t.Context(), same); err != nil {
			t.Fatal(err)
		}
		get(a, "/same", browser).expectCoding(t, "the same content", "br")
		settle()
		counted("the same content", 3, 3, 2)
	})
}

// Pages are served plain while their codings cannot be read, or are slow, and the breaker of
// the bodies does not mind.
func TestCodingsThatCannotBeRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		shelf := &codingShelf{BodyStore: tb.bodies}
		site := newLongSite()
		a := tb.peerOn(shelf, "a", isr.Route{}, site, nil)
		for i := range 10 {
			get(a, fmt.Sprintf("/%d", i), browser)
		}
		settle()
		shelf.fail(errors.New("the network failed"), 0)
		b := tb.peerOn(shelf, "b", isr.Route{}, site, nil)
		for i := range 10 {
			for range 2 {
				get(b, fmt.Sprintf("/%d", i), browser).expectCoding(t, "while reading fails", "")
				settle()
			}
		}
		if down := b.StoresDown(); len(down) > 0 {
			t.Errorf("the breakers of %v are open", down)
		}
		shelf.fail(nil, time.Minute)
		c := tb.peerOn(shelf, "c", isr.Route{}, site, nil)
		slow := get(c, "/0", browser)
		slow.expectCoding(t, "while reading is slow", "")
		if slow.took > 100*time.Millisecond {
			t.Errorf("a visitor waited %s for a coding", slow.took)
		}
		time.Sleep(2 * time.Minute)
		shelf.fail(nil, 0)
		get(b, "/0", browser)
		settle()
		get(b, "/0", browser).expectCoding(t, "after that", "br")
	})
}

// Codings that are missing are stored again; damaged ones are made by each node for itself.
// A store that hides what is missing (S3 without ListBucket) makes no difference.
func TestCodingsThatAreLost(t *testing.T) {
	for name, lose := range map[string]func(t *testing.T, shelf *codingShelf, key string) (puts int){
		"missing": func(*testing.T, *codingShelf, string) int { return 2 },
		"damaged": func(t *testing.T, shelf *codingShelf, key string) int {
			content := append([]byte("damaged "), shelf.storedCoding...)
			if err := shelf.BodyStore.Put(t.Context(), key, content); err != nil {
				t.Fatal(err)
			}
			return 1
		},
		"denied": func(_ *testing.T, shelf *codingShelf, _ string) int {
			shelf.fail(store.ErrDenied, 0)
			return 2
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tb := newTable(t)
				shelf := &codingShelf{BodyStore: tb.bodies}
				get(tb.peerOn(shelf, "a", isr.Route{}, newLongSite(), nil), "/", browser)
				settle()
				keys := tb.bodyKeys(t)
				if len(keys) != 2 || keys[1] != store.CodingsKey(keys[0]) {
					t.Fatalf("stored: %q", keys)
				}
				if err := shelf.Delete(t.Context(), keys[1]); err != nil {
					t.Fatal(err)
				}
				puts := lose(t, shelf, keys[1])
				b := tb.peerOn(shelf, "b", isr.Route{}, newLongSite(), nil)
				get(b, "/", browser).expectCoding(t, "at first", "")
				settle()
				get(b, "/", browser).expectCoding(t, "afterwards", "br")
				if _, got, _ := shelf.counts(); got != puts {
					t.Errorf("%d codings were put, want %d", got, puts)
				}
			})
		})
	}
}

// Responses of the negative cache have codings too; nothing is stored beside them.
func TestCodingsOfNegativeAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		shelf := &codingShelf{BodyStore: tb.bodies}
		a := tb.peerOn(shelf, "a", isr.Route{}, newLongSite(), nil)
		get(a, "/none", browser).expectCoding(t, "a missing page", "")
		settle()
		again := get(a, "/none", browser)
		again.expectCoding(t, "a missing page, again", "br")
		if bodies, puts, _ := shelf.counts(); again.Code != http.StatusNotFound || bodies+puts != 0 {
			t.Errorf("status %d; %d bodies and %d codings were put", again.Code, bodies, puts)
		}
	})
}

// The codings of a body are garbage with it, and needed as long as it is.
func TestCollectCodings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site", History: 2}, newLongSite(), nil)
		for range 4 {
			if _, err := p.Regenerate(t.Context(), page); err != nil {
				t.Fatal(err)
			}
			get(p, "/", browser)
			settle()
		}
		all := tb.bodyKeys(t)
		if len(all) != 8 {
			t.Fatalf("stored: %q", all)
		}
		// Codings whose body is gone, of this page and of one without rows, and those that
		// another service's row calls a body.
		lost := store.CodingsKey(folderOf(store.HashedPartition(page)) + "lost")
		gone := store.CodingsKey(folderOf("CACHE#gone") + "lost")
		for _, key := range []string{lost, gone} {
			if err := tb.bodies.Put(t.Context(), key, []byte("x")); err != nil {
				t.Fatal(err)
			}
		}
		deleted, done := tb.collect(t, gc.CollectOptions{})
		if want := append(append([]string{}, all[:4]...), lost, gone); len(deleted) != len(want) || done.Kept != 4 {
			t.Errorf("deleted %q, kept %d; want %q and 4", deleted, done.Kept, want)
		}
		if left := tb.bodyKeys(t); strings.Join(left, " ") != strings.Join(all[4:], " ") {
			t.Errorf("left: %q, want %q", left, all[4:])
		}
		get(p, "/", browser).expectCoding(t, "after a collection", "br")
		if _, err := gc.Evict(t.Context(), tb.store("room"), tb.bodies, gc.EvictOptions{Free: 1 << 30}); err != nil {
			t.Fatal(err)
		}
		if left := tb.bodyKeys(t); len(left) > 0 {
			t.Errorf("an eviction left %q", left)
		}
	})
}

// Codings keep what another service's row takes for a body.
func TestCollectBodiesNamedLikeCodings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tb := newTable(t)
		p := tb.peer("a", isr.Route{Name: "site"}, newSite(), nil)
		p.regenerate(t, 1)
		key := store.CodingsKey(folderOf(store.HashedPartition(page)) + "theirs")
		tb.putForeign(page, key, "their page")
		tb.collect(t, gc.CollectOptions{})
		if _, err := tb.bodies.Stat(t.Context(), key); err != nil {
			t.Errorf("the body of another service: %v", err)
		}
	})
}

// htmlPage returns HTML of about n bytes, which differs by seed.
func htmlPage(seed uint64, n int) string {
	random := rand.New(rand.NewPCG(seed, 0))
	var words []string
	for range 400 {
		word := make([]byte, 2+random.IntN(9))
		for i := range word {
			word[i] = "etaoinshrdlucmfwyp"[random.IntN(18)]
		}
		words = append(words, string(word))
	}
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "<article class=%q><h2><a href=\"/%s/%d\">", words[0], words[random.IntN(9)], random.IntN(10_000))
		for range 60 {
			b.WriteString(words[min(random.IntN(400), random.IntN(400))] + " ")
		}
		b.WriteString("</p></article>\n")
	}
	return b.String()[:n]
}

// cpuTime is the processor time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkLoad: pages that are not in memory, from a folder and an embedded table, for a
// visitor who wants no coding and for a browser.
func BenchmarkLoad(b *testing.B) {
	const pages, size = 400, 10 << 10
	site := newSite()
	site.delay = 0
	site.answers(func(w http.ResponseWriter, r *http.Request, _ int64) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Cache-Control", "public, max-age=86400")
		var n uint64
		_, _ = fmt.Sscanf(r.URL.Path, "/%d", &n)
		_, _ = w.Write([]byte(htmlPage(n, size)))
	})
	tb := newTable(b)
	warm := tb.node(tb.store("a"), nil).Handler(isr.Route{}, site)
	requests := make([]*http.Request, pages)
	for i := range requests {
		requests[i] = httptest.NewRequest(http.MethodGet, fmt.Sprintf("http://example.com/%d", i), http.NoBody)
		requests[i].Header.Set("Accept-Encoding", "gzip, deflate, br, zstd")
		w := &discard{header: make(http.Header)}
		for warm.ServeHTTP(w, requests[i]); w.header["Content-Encoding"] == nil; warm.ServeHTTP(w, requests[i]) {
			clear(w.header)
		}
	}
	for name, accept := range map[string]string{"plain": "identity", "browser": "gzip, deflate, br, zstd"} {
		b.Run(name, func(b *testing.B) {
			cold := tb.node(tb.store("b"), func(cfg *isr.Config) { cfg.Memory = 1 << 20 }).Handler(isr.Route{}, site)
			for _, r := range requests {
				r.Header.Set("Accept-Encoding", accept)
			}
			w := &discard{header: make(http.Header)}
			began, n := cpuTime(), 0
			b.ReportAllocs()
			for b.Loop() {
				clear(w.header)
				cold.ServeHTTP(w, requests[n*7%pages])
				n++
			}
			b.ReportMetric(float64(cpuTime()-began)/float64(n), "cpu-ns/op")
		})
	}
}
