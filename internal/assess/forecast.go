package assess

import (
	"context"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/logreader"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

const (
	table = "pages"
	// tierBytes is the memory tier of the cache of a forecast. Pages beyond it are read from its store.
	tierBytes = 16 << 20
	// oftenRequested is after how many requests a page stays when others are left out, at first.
	oftenRequested = 4
	// maxRenders is how many renders of pages that are not requested often there are before half of these pages are left
	// out, which bounds the time: a render takes as long as a thousand requests whose outcome is known.
	maxRenders = 10_000
	// sampledAfter is after how many requests Options.Sample applies, so that pages that are requested often are known.
	sampledAfter = 10_000
	// everything is the threshold by which no page is left out.
	everything uint64 = math.MaxUint64
)

// epoch is when the log begins, by the clock of a forecast: in the past, so that no entry is from the future.
var epoch = time.Unix(1_000_000_000, 0)

// A forecast is one configuration of the cache, which answers the requests of the log.
type forecast struct {
	setting string
	site    *gateway.Site
	cache   *isr.Cache
	db      *localdynamo.DB
	bodies  *bodies
	table   *routing.Table
	routes  []gateway.SiteRoute

	start time.Time    // of the log
	now   atomic.Int64 // of its clock, in nanoseconds since epoch
	line  *logreader.Entry
	asked atomic.Int64 // how often the origin was asked for the present entry
	known outcomes     // of requests that the cache need not answer again
	// refreshesEarly: a hit may begin a render.
	refreshesEarly bool

	pages     map[uint64]*page // by the hashes of their keys
	maxPages  int
	threshold uint64  // keys with a larger hash are left out
	sample    float64 // Options.Sample
	often     int64   // after how many requests a page stays
	answered  int64   // requests
	renders   int64   // since pages were left out
	passed    counts  // requests without a key
	reasons   reasons // of what was not answered from the cache
	hits      series
}

// A counts counts requests.
type counts struct {
	requests, hits, stale, collapsed, origin, published int64
}

// A page is what is counted of one key.
type page struct {
	counts
	key   store.Key
	size  int64     // of the largest response
	limit uint64    // the threshold by which it is not left out: all pages with a smaller hash are counted as it is
	stays bool      // it was requested often
	until time.Time // when the response to the last miss ended
	rhythm
}

// weight returns for how many pages it stands.
func (p *page) weight() float64 { return math.MaxUint64 / float64(p.limit) }

// newForecasts returns the forecasts of all settings that differ, which the caller closes, also after an error.
func newForecasts(opts Options, p *parameters) (all []*forecast, err error) {
	for _, s := range settings(opts, p) {
		f := &forecast{
			setting: s.name, maxPages: opts.MaxPages, threshold: everything, sample: opts.Sample, often: oftenRequested,
			pages: make(map[uint64]*page), reasons: make(reasons), bodies: newBodies(), known: make(outcomes),
		}
		site, same := s.with(opts.Site, gateway.Origin{Handler: http.HandlerFunc(f.origin), Renders: -1, Failures: -1})
		if same && s.name != "" {
			continue
		}
		all = append(all, f)
		if err := f.open(site); err != nil {
			return all, err
		}
	}
	return all, nil
}

// open opens the cache.
func (f *forecast) open(site gateway.SiteConfig) error {
	quiet := slog.New(slog.DiscardHandler)
	f.db = localdynamo.OpenMemory(localdynamo.Options{Now: f.time, SweepInterval: -1})
	if err := dynamostore.CreateTable(context.Background(), f.db, table); err != nil {
		return err
	}
	tokens, random := new(atomic.Int64), locked(rand.New(rand.NewPCG(1, 2))) //nolint:gosec // the same forecast each time
	token := func() string { return fmt.Sprintf("%026d", tokens.Add(1)) }
	meta, err := dynamostore.New(f.db, table, dynamostore.Config{Owner: "assess", Now: f.time, NewToken: token, Random: random, Leases: f.db.Volatile(), Local: true, Logger: quiet})
	if err != nil {
		return err
	}
	f.cache, err = isr.New(meta, f.bodies, isr.Config{
		Memory: tierBytes, Now: f.time, Poll: -1, StoreTimeout: time.Hour, Logger: quiet, Random: random, NewToken: token,
		RenderTimeout: time.Hour, Lease: time.Hour,
	})
	if err != nil {
		return err
	}
	site.Logger, site.Answered, site.Send = quiet, nil, nil
	for i := range site.Routes {
		// It would purge by the monotonic clock: see purge.
		site.Routes[i].Route.UnsafeRequests = isr.UnsafeIgnore
		f.refreshesEarly = f.refreshesEarly || site.Routes[i].Route.EarlyRefresh > 0
	}
	f.routes = site.Routes
	patterns := make([]string, len(site.Routes))
	for i, r := range site.Routes {
		patterns[i] = r.Pattern
	}
	if f.table, err = routing.New(patterns); err != nil {
		return err
	}
	f.site, err = gateway.NewSite(f.cache, site)
	return err
}

func locked(r *rand.Rand) func() uint64 {
	var mu sync.Mutex
	return func() uint64 {
		mu.Lock()
		defer mu.Unlock()
		return r.Uint64()
	}
}

func (f *forecast) close() {
	if f.site != nil {
		f.site.Close()
	}
	if f.cache != nil {
		_ = f.cache.Close(context.Background()) // nothing is in progress
	}
	_ = f.db.Close() // in memory
}

// time is the clock of the cache.
func (f *forecast) time() time.Time { return epoch.Add(time.Duration(f.now.Load())) }

// run answers the requests of all batches.
func (f *forecast) run(ctx context.Context, batches <-chan []request) error {
	for batch := range batches {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		for i := range batch {
			if err := f.answer(ctx, &batch[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// answer answers one request.
func (f *forecast) answer(ctx context.Context, q *request) error {
	e := &q.Entry
	came := e.Time.Add(-e.Took)
	if f.start.IsZero() {
		f.start = came
	}
	f.now.Store(max(f.now.Load(), int64(came.Sub(f.start))))
	if f.answered++; f.answered == sampledAfter && f.sample > 0 && f.sample < 1 {
		f.leaveOut(f.sample, false)
	}
	if f.repeat(q) {
		return nil
	}
	r, err := f.request(ctx, e)
	if err != nil {
		f.pass(e, "bad-request", 0)
		return nil
	}
	if f.judge(q, r) {
		return nil
	}
	f.line = e
	f.asked.Store(0)
	w := &writer{header: make(http.Header)}
	f.site.ServeHTTP(w, r)
	if err := f.cache.Settle(ctx); err != nil {
		return err
	}
	f.count(e, &w.report)
	f.remember(q, w)
	return nil
}

// request returns the request of an entry.
func (f *forecast) request(ctx context.Context, e *logreader.Entry) (*http.Request, error) {
	u, err := url.ParseRequestURI(e.URI)
	if err != nil {
		return nil, err
	}
	r := &http.Request{
		Method: e.Method, URL: u, Host: e.Host, RequestURI: e.URI, Header: make(http.Header), Body: http.NoBody,
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, RemoteAddr: "192.0.2.1:1024",
	}
	if !storable(e.Status) && (e.Method == http.MethodGet || e.Method == http.MethodHead) {
		r.Header.Set("Cache-Control", "only-if-cached")
	}
	return r.WithContext(ctx), nil
}

// storable reports whether a response with a status may be one of a page, for all visitors. 206 and 304 are
// responses of a page to one visitor.
func storable(status int) bool {
	switch status {
	case http.StatusOK, http.StatusNonAuthoritativeInfo, http.StatusNoContent, http.StatusPartialContent, http.StatusNotModified,
		http.StatusMultipleChoices, http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect,
		http.StatusPermanentRedirect, http.StatusNotFound, http.StatusGone:
		return true
	}
	return false
}

// largestBody is the size from which a response has a Content-Length, so that the cache knows that it does not
// store it.
const largestBody = isr.DefaultMaxBody

// origin is the site: it answers with what the log has. The body has one byte, as its content is not known.
func (f *forecast) origin(w http.ResponseWriter, _ *http.Request) {
	f.asked.Add(1)
	h, status := w.Header(), f.line.Status
	h.Set("Content-Type", "text/html; charset=utf-8")
	if f.line.CacheControl != "" {
		h.Set("Cache-Control", f.line.CacheControl)
	}
	if f.line.SetsCookie {
		h.Set("Set-Cookie", "id=1")
	}
	switch status {
	case http.StatusNotModified, http.StatusPartialContent: // what a render gets
		status = http.StatusOK
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther, http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		h.Set("Location", "/")
	}
	if f.line.Bytes > largestBody {
		h.Set("Content-Length", strconv.FormatInt(f.line.Bytes, 10))
	}
	w.WriteHeader(status)
	if status != http.StatusNoContent && status >= 200 {
		_, _ = w.Write([]byte("x")) // of a page
	}
}

// A writer discards a response, and has its report.
type writer struct {
	header http.Header
	report isr.Report
}

func (w *writer) Header() http.Header         { return w.header }
func (w *writer) WriteHeader(int)             {}
func (w *writer) Write(b []byte) (int, error) { return len(b), nil }
func (w *writer) Report() *isr.Report         { return &w.report }

// hash returns the hash of a key, by which pages are left out. All its bits depend on all of the key.
func hash(k store.Key) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(k.Text)) // never fails
	x := h.Sum64()
	x = (x ^ x>>33) * 0xff51afd7ed558ccd // the finalizer of MurmurHash3
	x = (x ^ x>>33) * 0xc4ceb9fe1a85ec53
	return x ^ x>>33
}

// judge answers a request without the cache if its page tells how. ok is false if the cache is to answer it: also if its
// page is new.
func (f *forecast) judge(q *request, r *http.Request) (ok bool) {
	if f.sample == 1 && f.threshold == everything {
		return false
	}
	at, err := f.table.FindRequest(r)
	if err != nil {
		return false
	}
	explained, err := f.routes[at].Route.Explain(r)
	if err != nil || explained.Bypass != "" {
		return false
	}
	h := hash(explained.Key)
	switch p := f.pages[h]; {
	case p != nil && !f.refreshesEarly: // a hit may begin a render
		f.known.set(q.id, outcome{is: ofPage, page: p})
		return f.repeatPage(p, q)
	case p == nil && h > f.threshold:
		f.known.set(q.id, outcome{is: leftOut})
		return true
	}
	return false
}

// count counts an answered request.
func (f *forecast) count(e *logreader.Entry, report *isr.Report) {
	asked, stale := f.asked.Load(), report.Hit && report.Detail == "stale"
	if !storable(e.Status) && asked == 0 && (!report.Hit || stale) {
		asked = 1 // only-if-cached has kept the cache from asking
	}
	if report.Key == (store.Key{}) || report.Forward == "bypass" || report.Forward == "method" {
		f.pass(e, report.Detail, asked)
		return
	}
	h := hash(report.Key)
	p := f.pages[h]
	if p == nil {
		for crowded := false; len(f.pages) >= f.maxPages; crowded = true {
			f.leaveOut(half, crowded)
		}
		if h > f.threshold {
			f.forget(report.Key)
			return
		}
		p = &page{key: report.Key, limit: f.threshold}
		f.pages[h] = p
	}
	if !p.stays {
		f.renders += asked
	}
	if f.renders > maxRenders && f.sample == 0 {
		f.leaveOut(half, false)
		if f.pages[h] != p {
			return
		}
	}
	f.requested(p, e)
	p.origin += asked
	now := f.time()
	if report.Stored || stale && asked > 0 {
		p.published++
	}
	switch {
	case report.Hit && (stale || !now.Before(p.until)):
		p.hits++
		f.hits.add(e.Time, p.weight())
		if stale {
			p.stale++
		}
	case report.Hit:
		p.collapsed++ // the response that it is answered from was not there yet
		f.reasons.add("collapsed", p.key.Text, p.weight())
	default:
		f.reasons.add(f.reasonOf(e, p, report), p.key.Text, p.weight())
		if asked > 0 {
			p.until = now.Add(e.Took)
		}
	}
}

// requested counts a request for a page.
func (f *forecast) requested(p *page, e *logreader.Entry) {
	p.requests++
	p.stays = p.stays || p.requests >= f.often
	p.size = max(p.size, e.Bytes)
}

// reasonOf returns why a request for a page was not answered from the cache.
func (f *forecast) reasonOf(e *logreader.Entry, p *page, report *isr.Report) string {
	switch {
	case !storable(e.Status):
		return "status"
	case report.Detail != "" && report.Detail != "negative":
		return report.Detail
	case p.requests == 1:
		return "first"
	}
	return "expired"
}

// pass counts a request that reaches the origin without a page.
func (f *forecast) pass(e *logreader.Entry, reason string, asked int64) {
	f.passed.requests++
	f.passed.origin += max(asked, 1)
	path, _, _ := strings.Cut(e.URI, "?")
	f.reasons.add(reason, e.Host+path, 1)
}

// half is the part of the pages that stay when there are too many.
const half = 0.5

// leaveOut leaves out all but a part of the pages. Pages that were requested often stay, unless there are too many of
// them.
//
// Each page has a threshold of its own for its hash, its limit, which is at least the threshold for new pages. So a
// page that was left out does not come back, and whether a page stays depends on nothing but its hash and its past.
func (f *forecast) leaveOut(part float64, crowded bool) {
	f.threshold = max(uint64(part*float64(f.threshold)), 1)
	f.renders = 0
	clear(f.known)
	var gone []store.Key
	for h, p := range f.pages {
		switch {
		case !p.stays:
			p.limit = f.threshold
		case crowded:
			p.limit = max(uint64(part*float64(p.limit)), f.threshold)
		}
		if h <= p.limit {
			continue
		}
		delete(f.pages, h)
		gone = append(gone, p.key)
	}
	f.forget(gone...)
	if len(f.pages) > f.maxPages/2 {
		f.often *= 2
	}
}

// forget deletes pages from the stores.
func (f *forecast) forget(keys ...store.Key) {
	prefixes := make(map[string]bool)
	for _, k := range keys {
		pk := store.HashedPartition(k)
		prefixes[store.BodyPrefix(pk)] = true
		for _, row := range []string{"META", "LOCK"} {
			_, _ = f.db.DeleteItem(context.Background(), &dynamodb.DeleteItemInput{TableName: aws.String(table), Key: map[string]types.AttributeValue{
				"pk": &types.AttributeValueMemberS{Value: pk}, "sk": &types.AttributeValueMemberS{Value: row},
			}}) // in memory
		}
	}
	f.bodies.forget(prefixes)
}
