package assess

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
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
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/store"
)

const (
	table = "pages"
	// tierBytes is what the memory tier of the cache of a forecast has for each page. Pages beyond it are read from its
	// store.
	tierBytes = 512
	// pageMemory is the part of Options.Memory for each page of a forecast. It needs about half of it; the rest is for the
	// garbage collector, and for what does not depend on the number of pages. The forecast of the configuration itself has
	// as many pages as comparedPages others.
	pageMemory    = 10 << 10
	comparedPages = 4
	// renderCost is the cost of a render, if that of another answer of the cache is 1.
	renderCost = 16
	// sampledAfter is after how many requests Options.Sample applies, so that it is known how often pages are requested.
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
	meta    *recorder
	bodies  *bodies
	keying  int // its index in found

	start time.Time    // of the log
	now   atomic.Int64 // of its clock, in nanoseconds since epoch
	line  *logreader.Entry
	asked atomic.Int64 // how often the origin was asked for the present entry
	// refreshesEarly: a hit may begin a render.
	refreshesEarly bool

	pages     map[uint64]*page // by the hashes of their keys
	threshold uint64           // keys with a larger hash are left out
	sample    float64          // Options.Sample
	bounds
	answered  int64   // requests
	spent     int64   // what the answers of the cache have cost
	spentThen int64   // when pages were left out
	passed    counts  // requests without a key
	reasons   reasons // of what was not answered from the cache; nil except of the configuration itself
	hits      series
}

// bounds are what a forecast may use.
type bounds struct {
	maxPages int
	// There are so many renders at first, and one more for so many requests, before half of the pages are left out.
	firstRenders, everyRender int64
}

// boundsOf returns the bounds of the forecast of the configuration itself, and those of each of n others.
func boundsOf(memory int64, n int) (itself, compared bounds) {
	pages := int(memory / pageMemory)
	each := max(pages/(comparedPages+n), 1)
	return bounds{comparedPages * each, 10_000, 200}, bounds{each, 6_000, 800}
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
	until time.Time // when the response to the last miss ended
	rhythm
}

// weight returns for how many pages it stands.
func (p *page) weight() float64 { return math.MaxUint64 / float64(p.limit) }

// newForecasts returns the forecasts of all settings that differ, which the caller closes, also after an error, and their
// keyings.
func newForecasts(opts Options, p *parameters) (all []*forecast, keyings []*keying, err error) {
	others := settings(opts, p)
	itself, compared := boundsOf(opts.Memory, len(others)-1)
	for _, s := range others {
		f := &forecast{
			setting: s.name, bounds: compared, threshold: everything, sample: opts.Sample,
			pages: make(map[uint64]*page), bodies: newBodies(),
		}
		if s.name == "" {
			f.bounds, f.reasons = itself, make(reasons)
		}
		site, same := s.with(opts.Site, gateway.Origin{Handler: http.HandlerFunc(f.origin), Renders: -1, Failures: -1})
		if same && s.name != "" {
			continue
		}
		all = append(all, f)
		if err := f.open(site); err != nil {
			return all, nil, err
		}
		f.keying = slices.IndexFunc(keyings, func(k *keying) bool { return k.isOf(site.Routes) })
		if f.keying < 0 {
			k, err := newKeying(site.Routes)
			if err != nil {
				return all, nil, err
			}
			f.keying, keyings = len(keyings), append(keyings, k)
		}
	}
	return all, keyings, nil
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
	f.meta = &recorder{Store: meta}
	f.cache, err = isr.New(f.meta, f.bodies, isr.Config{
		Memory: int64(f.maxPages) * tierBytes, Now: f.time, Poll: -1, StoreTimeout: time.Hour, Logger: quiet, Random: random, NewToken: token,
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
		f.leaveOut(f.sample)
	}
	if f.repeat(q) {
		return nil
	}
	r, err := newRequest(e)
	if err != nil {
		f.pass(e, "bad-request", 0)
		return nil
	}
	if !storable(e.Status) && (e.Method == http.MethodGet || e.Method == http.MethodHead) {
		r.Header.Set("Cache-Control", "only-if-cached")
	}
	f.line = e
	f.asked.Store(0)
	f.meta.published.Store(nil)
	w := &writer{header: make(http.Header)}
	f.site.ServeHTTP(w, r.WithContext(ctx))
	if err := f.cache.Settle(ctx); err != nil {
		return err
	}
	f.spent += 1 + renderCost*f.asked.Load()
	f.count(e, &w.report)
	f.remember(e, &w.report)
	return nil
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

// count counts an answered request.
func (f *forecast) count(e *logreader.Entry, report *isr.Report) {
	asked, stale := f.asked.Load(), report.Hit && report.Detail == "stale"
	if !storable(e.Status) && asked == 0 && (!report.Hit || stale) {
		asked = 1 // only-if-cached has kept the cache from asking
	}
	if report.Key == (store.Key{}) || report.Forward == "bypass" || report.Forward == "method" {
		f.pass(e, cmp.Or(report.Detail, report.Forward), asked)
		return
	}
	h := hash(report.Key)
	for f.pages[h] == nil && len(f.pages) >= f.maxPages || f.overspent() {
		f.leaveOut(half)
	}
	p := f.pages[h]
	if p == nil {
		if h > f.threshold {
			f.forget(report.Key)
			return
		}
		p = &page{key: report.Key, limit: f.threshold}
		f.pages[h] = p
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

// overspent reports whether pages are to be left out, because the answers of the cache cost too much. What was left out
// before is given time to have an effect.
func (f *forecast) overspent() bool {
	return f.sample == 0 && f.spent > renderCost*(f.firstRenders+f.answered/f.everyRender) && f.spent-f.spentThen > renderCost*f.firstRenders/8
}

// requested counts a request for a page.
func (f *forecast) requested(p *page, e *logreader.Entry) {
	p.requests++
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

// leaveOut leaves out all but a part of the pages. A page that was requested n times is n times as likely to stay as one
// that was requested once: sampling with probabilities in proportion to size.
//
// Each page has a threshold of its own for its hash, its limit, which is at least the threshold for new pages. So a
// page that was left out does not come back, and whether a page stays depends on nothing but its hash and its past.
func (f *forecast) leaveOut(part float64) {
	f.threshold = max(uint64(part*float64(f.threshold)), 1)
	f.spentThen = f.spent
	var gone []store.Key
	for h, p := range f.pages {
		if of := float64(f.threshold) * float64(p.requests); of < float64(p.limit) {
			p.limit = max(uint64(of), f.threshold)
		}
		if h <= p.limit {
			continue
		}
		delete(f.pages, h)
		gone = append(gone, p.key)
	}
	f.forget(gone...)
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
