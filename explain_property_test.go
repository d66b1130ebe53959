package isr_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/budget"
	"github.com/facetheory/isr/store"
)

// A modes site answers each path as its mode says, and every visitor alike.
type modes struct {
	mu      sync.Mutex
	renders int               // guarded by mu
	byPath  map[string]string // guarded by mu
	// atOnce makes renders take no time, so that nothing changes between an explanation and
	// its request.
	atOnce atomic.Bool
}

func (m *modes) set(path, mode string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.byPath[path] = mode
}

func (m *modes) rendered() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.renders
}

// next counts a render, and returns the mode of its path.
func (m *modes) next(path string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.renders++
	return strings.Split(m.byPath[path], "|")
}

// responses are the modes: lines of a header, of which the first is the status.
var responses = []string{
	"200|Cache-Control: public, max-age=60, stale-while-revalidate=600",
	"200|Cache-Control: s-maxage=5, stale-while-revalidate=600, stale-if-error=6000",
	"200|Cache-Control: max-age=5|Etag: \"v\"",
	"200|Cache-Control: max-age=60|Vary: X-A",
	"200|Cache-Control: max-age=60|Vary: X-A, X-B",
	"200|Cache-Control: max-age=60|Cache-Status: Upstream; hit",
	"200|Cache-Control: private",
	"200|Cache-Control: no-store|Set-Cookie: a=b",
	"200|X-Nothing: said",
	"200|Cache-Control: max-age=60|Content-Type: text/html|X-Bad: 1", // rejected by its text
	"404|Cache-Control: max-age=30",
	"404|X-Nothing: said",
	"302|Location: /|Cache-Control: max-age=60",
	"500|Cache-Control: no-store",
	"503|Retry-After: 7",
	"401|X-Nothing: said",
}

func (m *modes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	lines := m.next(r.URL.Path)
	if !m.atOnce.Load() {
		time.Sleep(time.Second)
	}
	for _, line := range lines[1:] {
		name, value, _ := strings.Cut(line, ": ")
		w.Header().Add(name, value)
	}
	if tag := w.Header().Get("Etag"); tag != "" && r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	status := 0
	_, _ = fmt.Sscan(lines[0], &status)
	w.WriteHeader(status)
	if w.Header().Get("X-Bad") != "" {
		fmt.Fprint(w, "Fatal error")
		return
	}
	fmt.Fprint(w, "a page")
}

// A downStore is a store that does not answer while down is set.
type downStore struct {
	store.MetaStore
	down atomic.Bool
}

var errStoreDown = errors.New("the store is down")

func (d *downStore) Read(ctx context.Context, pk string) (store.Record, error) {
	if d.down.Load() {
		return store.Record{}, errStoreDown
	}
	return d.MetaStore.Read(ctx, pk)
}

func (d *downStore) ReadSerializable(ctx context.Context, pk string) (store.Record, error) {
	if d.down.Load() {
		return store.Record{}, errStoreDown
	}
	return d.MetaStore.ReadSerializable(ctx, pk)
}

func (d *downStore) Changes(ctx context.Context, after int64) (store.Sequence, []store.Change, error) {
	if d.down.Load() {
		return store.Sequence{}, nil, errStoreDown
	}
	return d.MetaStore.Changes(ctx, after)
}

func (d *downStore) Sequence(ctx context.Context) (store.Sequence, error) {
	if d.down.Load() {
		return store.Sequence{}, errStoreDown
	}
	return d.MetaStore.Sequence(ctx)
}

// A turnOfEvents is something that happens in the test: a request is explained and served.
type turnOfEvents struct {
	what   string // request, or what changes before the next request
	path   string
	mode   string
	hard   bool
	time   time.Duration
	method string
	header []string
	query  string
}

// often draws the first value in nine cases of ten, and one of all otherwise.
func often[T any](t *rapid.T, label string, values ...T) T {
	if rapid.IntRange(0, 9).Draw(t, label+" often") != 9 {
		return values[0]
	}
	return rapid.SampledFrom(values).Draw(t, label)
}

func turns() *rapid.Generator[turnOfEvents] {
	return rapid.Custom(func(t *rapid.T) turnOfEvents {
		return turnOfEvents{
			what:   rapid.SampledFrom([]string{"request", "request", "request", "request", "request", "request", "wait", "wait", "mode", "purge", "hold", "pin", "unpin", "other", "begin", "down", "up", "up"}).Draw(t, "what"),
			path:   often(t, "path", "/a", "/b"),
			mode:   rapid.SampledFrom(responses).Draw(t, "mode"),
			hard:   rapid.Bool().Draw(t, "hard"),
			time:   rapid.SampledFrom([]time.Duration{time.Minute, 4 * time.Second, time.Second, 0, time.Hour}).Draw(t, "time"),
			method: often(t, "method", "GET", "HEAD", "POST"),
			header: rapid.SliceOfN(rapid.SampledFrom([]string{
				"Accept: text/html", "X-C: 1", "X-D: 1", "X-E: 1", "X-F: 1", "X-G: 1", "X-H: 1", "X-A: 1", "X-B: 2", "Cookie: session=secret", "Cookie: _ga=1; ab=b", "Authorization: Bearer secret", "Cache-Control: no-cache", "Cache-Control: max-age=2",
				"Cache-Control: only-if-cached", "Cache-Control: max-stale=100000", "Accept-Language: de", "X-Tenant: t", "ISR-Min-Seq: 1", "Connection: authorization", "Range: bytes=0-1", "X-Part: nav", "X-Part: foot",
			}), 0, 2).Draw(t, "header"),
			query: often(t, "query", "", "?p=1", "?utm_source=x", "?other=1"),
		}
	})
}

func routes() *rapid.Generator[isr.Route] {
	return rapid.Custom(func(t *rapid.T) isr.Route {
		return isr.Route{
			Off:           often(t, "off", false, true),
			Revalidate:    rapid.SampledFrom([]time.Duration{0, 10 * time.Second}).Draw(t, "revalidate"),
			Stale:         rapid.SampledFrom([]time.Duration{time.Hour, 0, -1}).Draw(t, "stale"),
			StaleIfError:  rapid.SampledFrom([]time.Duration{0, 10 * time.Hour}).Draw(t, "stale if error"),
			Policy:        rapid.SampledFrom([]isr.Policy{isr.ServeStale, isr.Wait}).Draw(t, "policy"),
			ObeyRequests:  rapid.Bool().Draw(t, "obey"),
			StoreNegative: rapid.Bool().Draw(t, "store negative"),
			VaryAuto:      rapid.Bool().Draw(t, "vary auto"),
			MaxVariants:   rapid.IntRange(0, 1).Draw(t, "variants"),
			Query:         []string{"p"},
			KeyClasses:    []isr.KeyClass{{Header: "Accept-Language", Values: []string{"en", "de"}}, {Cookie: "ab", Values: []string{"a", "b"}}, {Header: "X-Part", Values: []string{"", "nav", "*"}}},
			Reject:        isr.Reject{With: []string{"Fatal error"}, Status: rapid.Bool().Draw(t, "reject status")},
		}
	})
}

func (e turnOfEvents) request() *http.Request {
	r := httptest.NewRequest(e.method, "http://example.com"+e.path+e.query, http.NoBody)
	for _, line := range e.header {
		name, value, _ := strings.Cut(line, ": ")
		r.Header.Add(name, value)
	}
	return r
}

var (
	ttl           = regexp.MustCompile(`; ttl=-?\d+`)
	forwardStatus = regexp.MustCompile(`; fwd-status=\d+`)
)

// TestExplainIsServe: what is explained of a request, with what its renderer answers, is what it
// gets, whatever the route, the request and the state of the page; and explaining changes
// nothing.
func TestExplainIsServe(t *testing.T) {
	seen := make(map[string]int)
	rapid.Check(t, func(rt *rapid.T) {
		route, uses := routes().Draw(rt, "route"), often(rt, "uses", 1, 2)
		blind := rapid.SampledFrom([]isr.BlindPolicy{isr.BlindServe, isr.BlindRefuse}).Draw(rt, "blind")
		story := rapid.SliceOfN(turns(), 5, 30).Draw(rt, "story")
		var failure string
		synctest.Test(t, func(t *testing.T) {
			failure = (&explained{route: route, uses: uses, blind: blind, seen: seen}).run(t, story)
		})
		if failure != "" {
			rt.Fatal(failure)
		}
	})
	t.Log(seen)
	for _, verdict := range []isr.Verdict{isr.VerdictHit, isr.VerdictStale, isr.VerdictMiss, isr.VerdictBypass, isr.VerdictError, isr.VerdictRefused} {
		if seen[string(verdict)] == 0 {
			t.Errorf("no request was a %s", verdict)
		}
	}
}

type explained struct {
	route isr.Route
	uses  int
	blind isr.BlindPolicy
	seen  map[string]int
}

func (x *explained) run(t *testing.T, story []turnOfEvents) (failure string) {
	tb := newTable(t)
	x.route.Budget = tb.budget(budget.Config{Failures: 3})
	meta := &downStore{MetaStore: tb.store("a")}
	site := &modes{byPath: map[string]string{"/a": responses[0], "/b": responses[3]}}
	change := func(cfg *isr.Config) { cfg.MinUses, cfg.Blind = x.uses, x.blind }
	cache := tb.node(meta, change)
	h := cache.Handler(x.route, site)
	other := tb.node(tb.store("b"), change).Handler(x.route, site)
	var visitors sync.WaitGroup
	defer visitors.Wait()
	defer meta.down.Store(false)
	for i, e := range story {
		key := store.Key{Text: "example.com" + e.path}
		switch e.what {
		case "down", "up":
			meta.down.Store(e.what == "down")
		case "wait":
			time.Sleep(e.time)
		case "mode":
			site.set(e.path, e.mode)
		case "purge":
			_, err := cache.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgePrefix("", "example.com"+e.path)}, Hard: e.hard})
			if err != nil && !errors.Is(err, errStoreDown) {
				return err.Error()
			}
		case "hold":
			_, _ = tb.store("c").Acquire(t.Context(), store.HashedPartition(key), max(e.time, 5*time.Second), nil) // may be held
		case "pin":
			_, _ = cache.Pin(t.Context(), key, e.time+time.Second) // there may be no page
		case "unpin":
			_, _ = cache.Unpin(t.Context(), key)
		case "other":
			other.ServeHTTP(httptest.NewRecorder(), e.request())
		case "begin":
			r := e.request()
			r.Method = http.MethodGet
			visitors.Go(func() { h.ServeHTTP(httptest.NewRecorder(), r) })
			synctest.Wait()
		case "request":
			if failure := x.compare(t, tb, cache, h, site, e); failure != "" {
				return fmt.Sprintf("step %d of %+v: %s", i, story, failure)
			}
		}
	}
	return ""
}

// compare explains a request, without and with its render, and serves it.
func (x *explained) compare(t *testing.T, tb *table, cache *isr.Cache, h http.Handler, site *modes, e turnOfEvents) string {
	synctest.Wait()
	rows := func() (all []store.Record) {
		for _, path := range []string{"/a", "/b"} {
			rec, err := tb.store("reader").Read(t.Context(), store.HashedPartition(store.Key{Text: "example.com" + path}))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, rec)
		}
		return all
	}
	before, renders := rows(), site.rendered()
	plain := h.(isr.Explainer).Explain(e.request(), false)
	if site.rendered() != renders || !reflect.DeepEqual(rows(), before) {
		return fmt.Sprintf("explaining has rendered %d times, or changed the store", site.rendered()-renders)
	}
	if text := fmt.Sprintf("%+v", plain); strings.Contains(text, "secret") {
		return "the explanation has a secret: " + text
	}
	w, r := httptest.NewRecorder(), e.request()
	site.atOnce.Store(true)
	fetched := h.(isr.Explainer).Explain(e.request(), true)
	site.atOnce.Store(false)
	h.ServeHTTP(w, r)
	x.seen[string(fetched.Verdict)]++
	x.seen[fetched.CacheStatus]++
	members := strings.Split(strings.Join(w.Header()["Cache-Status"], ", "), ", ")
	got := ttl.ReplaceAllString(members[len(members)-1], "")
	for _, d := range []isr.Decision{plain, fetched} {
		real := got
		switch {
		case len(d.Memory.StoresDown) > 0 && len(cache.StoresDown()) == 0:
			x.seen["stores answer again"]++ // since the first of two renders
			continue
		case d.Open && (d.Verdict != isr.VerdictBypass || d.Fetched != nil):
			x.seen["open"]++
			continue
		case d.Open:
			real = forwardStatus.ReplaceAllString(got, "")
		case d.Status != 0 && d.Status != w.Code && w.Code != http.StatusPartialContent:
			return fmt.Sprintf("the status is %d, explained as %d", w.Code, d.Status)
		}
		if d.CacheStatus != real {
			return fmt.Sprintf("%s %s %v (%+v)\n served: %s\n explained (fetch: %t): %s\n because: %q\n memory: %+v", e.method, e.path+e.query, e.header, x.route, got, d.Fetched != nil, d.CacheStatus, d.Reasons, d.Memory)
		}
	}
	return ""
}
