package isr

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/changelog"
	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/fleet"
	"github.com/facetheory/isr/internal/marks"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/singleflight"
	"github.com/facetheory/isr/store"
)

// A page that this process has purged while it rendered it without the store is not kept, even
// if the render began at the instant of the purge. Package isrtest/simulator found one that was
// served from memory.
func TestUnpublishedPageOfAPurgedRenderIsNotKept(t *testing.T) {
	now := time.Now()
	k := store.Key{Text: "h/"}
	newFlights := func() *fill.Flights { return singleflight.New[*fill.Flight](func() {}, func() {}) }
	c := &Cache{now: time.Now, unpublished: newFlights(), flights: newFlights()}
	c.follower, c.peers = changelog.New(t.Context(), changelog.Options{Poll: -1}), fleet.NewPeers(nil)
	c.cfg.Memory = 16 << 20
	var err error
	c.node, err = newNode(c)
	if err != nil {
		t.Fatal(err)
	}
	keep := func(purge bool) *page.Page {
		purged := make(chan struct{})
		f, _ := c.unpublished.Join(k, func() *fill.Flight { return new(fill.Flight) }, func(f *fill.Flight) {
			<-purged
			e := store.Entry{Status: 200, GeneratedAt: now, Revalidate: time.Minute, PurgeSeq: 1}
			c.node.Unpublished.Put(page.New(k, e, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, nil, new(page.View)), &f.State)
		})
		if purge {
			m := store.Mark{Seq: 2, At: now.Truncate(time.Second)}
			c.learn(k, m.State(m.At))
		}
		close(purged)
		<-f.Done()
		return c.node.Unpublished.Get(k)
	}
	if keep(true) != nil {
		t.Error("a page that was purged during its render is kept")
	}
	if keep(false) == nil {
		t.Error("a page that was not purged is not kept")
	}
}

// A sink is a ResponseWriter without costs.
type sink struct{ header http.Header }

func (s *sink) Header() http.Header { return s.header }

func (s *sink) WriteHeader(int) {}

func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// newMarks returns marks of tags, and of prefixes of 80 lengths: three quarters of pages with
// their variants, as purges of URLs write them, and a quarter of folders.
func newMarks(n int) []store.Mark {
	list := make([]store.Mark, n)
	for i := range list {
		target := PurgeTag("", fmt.Sprintf("product-%d", i))
		switch name := fmt.Sprintf("example.com/shop/%0*d", 1+i/2%80, i); i % 8 {
		case 1, 3, 5:
			target = PurgePrefix("", name+"#")
		case 7:
			target = PurgePrefix("", name+"/")
		}
		list[i] = store.Mark{Target: target, Seq: int64(i + 1), At: time.Now()}
	}
	return list
}

// BenchmarkMarks: what marks add to a hit of a page with ten tags, beside a cache without
// marks in the same run; also for the first hit after each change of the marks. It compares
// the fastest of many rounds, since other work on the machine only adds, and fails beyond a
// microsecond.
func BenchmarkMarks(b *testing.B) {
	c, err := New(nil, nil, Config{Poll: -1})
	if err != nil {
		b.Fatal(err)
	}
	k := store.Key{Text: "example.com/shop/clothes/trousers/1234567890"}
	e := store.Entry{GeneratedAt: time.Now(), Revalidate: time.Hour, Status: 200, PurgeSeq: 1 << 40}
	for i := range 10 {
		e.Tags = append(e.Tags, fmt.Sprintf("product-%d", 1000*i))
	}
	c.node.Put(page.New(k, e, store.PurgeState{}, page.Interval{Began: time.Now(), Ended: time.Now()}, []byte("page"), new(page.View)), new(singleflight.State))
	h := c.Handler(Route{}, http.NotFoundHandler())
	r := httptest.NewRequest(http.MethodGet, "http://"+k.Text, http.NoBody)
	w := &sink{make(http.Header)}
	hits := func(b *testing.B, before func()) float64 {
		b.ReportAllocs()
		const round = 200
		best, began := time.Hour, time.Now()
		for n := 1; b.Loop(); n++ {
			before()
			clear(w.header)
			h.ServeHTTP(w, r)
			if n%round == 0 {
				now := time.Now()
				best, began = min(best, now.Sub(began)), now
			}
		}
		if w.header["Age"] == nil {
			b.Fatal("not a hit")
		}
		b.ReportMetric(float64(best)/round, "best-ns/op")
		return float64(best) / round
	}
	var without float64
	compare := func(b *testing.B, with float64) {
		b.ReportMetric(with-without, "added-ns/op")
		if with-without > 1000 {
			b.Errorf("marks add %.0f ns to a hit", with-without)
		}
	}
	b.Run("none", func(b *testing.B) { without = hits(b, func() {}) })
	for _, n := range []int{10_000, 100_000} {
		c.node.Marks = marks.Table{}
		c.node.Marks.Apply(time.Now(), newMarks(n)...)
		b.Run(fmt.Sprint(n), func(b *testing.B) { compare(b, hits(b, func() {})) })
		b.Run(fmt.Sprint(n, " after a change"), func(b *testing.B) {
			p := c.node.Get(k)
			compare(b, hits(b, func() { p.Marked = marks.Memo{} }))
		})
	}
}

// A mark takes about 100 bytes of memory beside its text.
func TestBytesPerMark(t *testing.T) {
	const n = 100_000
	list := newMarks(n)
	texts := 0
	for _, m := range list {
		texts += len(m.Target.Value)
	}
	inUse := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	var table marks.Table
	before := inUse()
	table.Apply(time.Now(), list...)
	per := float64(inUse()-before) / n
	t.Logf("%.0f bytes per mark, beside %d bytes of text on average", per, texts/n)
	if per > 110 {
		t.Errorf("%.0f bytes per mark", per)
	}
	runtime.KeepAlive(list)
	runtime.KeepAlive(&table)
}
