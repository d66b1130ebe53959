package admin

import (
	"cmp"
	"context"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// The store can list pages in no order, and only all of them. Searches are therefore answered
// from an index in memory: a copy of what they need of each page, some 300 bytes, which is read
// in the background while people search. A search never waits for the store, and returns the age
// of its answer.
const (
	// maxIndexed bounds the pages of the index.
	maxIndexed = 250_000
	// indexAge is how old the index may be before it is read again, and indexShare the part
	// of the time that reading may take: on a table that takes a minute to read, it is read
	// every 20 minutes.
	indexAge   = 15 * time.Second
	indexShare = 20
	// changedAge is indexAge after a change that this API made.
	changedAge = 2 * time.Second
	// indexIdle is how long after the last search the index is dropped.
	indexIdle = 15 * time.Minute
	// indexTime bounds reading the table.
	indexTime = 10 * time.Minute
	// partEvery is how often a part of the first index is shown.
	partEvery = time.Second
)

// An indexedPage is what searches need of a page. Times are Unix seconds; 0 is none.
type indexedPage struct {
	key       store.Key
	partition string // only if the key is not known, see API.partitionOf
	lower     string // the text of the key
	route     string
	tags      []string
	owner     string // of the lease
	state     string // when it was read
	bytes     int64

	generated, freshUntil, staleUntil int64
	pinnedUntil, leaseUntil           int64

	status      int16
	failures    int16 // consecutive, by the back-off row
	quarantined bool
}

// stateAt returns the state at a time: what is fresh becomes stale, and then expires.
func (p *indexedPage) stateAt(now int64) string {
	fresh := store.Fresh.String()
	switch {
	case p.state != fresh && p.state != store.Stale.String(), p.pinnedUntil > now && p.state == fresh:
		return p.state
	case p.state == fresh && now < p.freshUntil:
		return fresh
	case now < p.staleUntil:
		return store.Stale.String()
	}
	return store.Expired.String()
}

// An indexState is the index as it is shown. It does not change.
type indexState struct {
	pages     []indexedPage // sorted by tenant and key
	asOf      time.Time     // when it was begun to be read; zero: never
	took      time.Duration
	complete  bool
	truncated bool
	problem   string // why it could not be read again
}

// An index keeps the copy of the pages. It is safe for concurrent use.
type index struct {
	a     *API
	shown atomic.Pointer[indexState]

	background sync.WaitGroup // of read

	mu      sync.Mutex
	reading bool        // guarded by mu
	tried   time.Time   // guarded by mu: when it was read last, or could not be
	changed bool        // guarded by mu: there was a change since
	stopped bool        // guarded by mu
	idle    *time.Timer // guarded by mu: drops the index; nil before the first search
}

func newIndex(a *API) *index {
	x := &index{a: a}
	x.shown.Store(new(indexState))
	return x
}

// look returns the index as it is, without a search.
func (x *index) look() *indexState { return x.shown.Load() }

// search returns the index as it is, and has it read again in the background if it is old.
// reading reports whether it is being read.
func (x *index) search() (shown *indexState, reading bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.idle == nil {
		x.idle = time.AfterFunc(indexIdle, x.drop)
	}
	x.idle.Reset(indexIdle)
	shown = x.shown.Load()
	pause := max(indexAge, shown.took*indexShare)
	if x.changed {
		pause = max(changedAge, shown.took)
	}
	if !x.reading && !x.stopped && (x.tried.IsZero() || time.Since(x.tried) >= pause) {
		x.reading, x.changed, x.tried = true, false, time.Now()
		x.background.Go(x.read)
	}
	return shown, x.reading
}

// stop waits for the reading of an API that is closed, after which there is none.
func (x *index) stop() {
	x.mu.Lock()
	x.stopped = true
	x.mu.Unlock()
	x.background.Wait()
}

// touch notes that pages have changed.
func (x *index) touch() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.changed = true
}

// drop frees the memory of an index that is not used.
func (x *index) drop() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.shown.Store(new(indexState))
	x.tried = time.Time{}
}

// read reads all pages and shows them.
func (x *index) read() {
	ctx, cancel := context.WithTimeout(context.Background(), indexTime)
	defer cancel()
	defer context.AfterFunc(x.a.closed, cancel)()
	began := time.Now()
	next, err := x.readPages(ctx, began)
	if err == nil {
		next.sort()
		next.took = time.Since(began)
		next.complete = true
	} else {
		kept := *x.shown.Load()
		kept.problem = describe(err).Message
		next = &kept
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.reading, x.tried = false, time.Now()
	x.shown.Store(next)
}

func (x *index) readPages(ctx context.Context, began time.Time) (*indexState, error) {
	a := x.a
	quarantined, err := x.readQuarantine(ctx)
	if err != nil {
		return nil, err
	}
	marks, err := a.readMarks(ctx)
	if err != nil {
		return nil, err
	}
	failing := a.cache.FailingKeys()
	texts := make(map[string]string)
	next := &indexState{asOf: began}
	shown := began
	for listed, err := range a.store.List(ctx) {
		if err != nil {
			return nil, err
		}
		p, ok := a.listed(listed, marks, failing)
		if !ok {
			continue
		}
		if len(next.pages) == maxIndexed {
			next.truncated = true
			break
		}
		one := indexed(listed, p, texts)
		one.quarantined = quarantined[listed.PK]
		next.pages = append(next.pages, one)
		if now := time.Now(); now.Sub(shown) > partEvery && !x.shown.Load().complete {
			shown = now
			part := &indexState{pages: slices.Clone(next.pages), asOf: began}
			part.sort()
			x.shown.Store(part)
		}
	}
	return next, nil
}

// readQuarantine returns the partitions of the pages that have a generation in quarantine.
func (x *index) readQuarantine(ctx context.Context) (map[string]bool, error) {
	found := make(map[string]bool)
	for q, err := range x.a.store.AllQuarantined(ctx) {
		if err != nil {
			return nil, err
		}
		if len(found) < maxIndexed {
			found[x.a.cfg.Partition(store.Key{Tenant: q.Tenant, Text: q.Entry.Key})] = true
		}
	}
	return found, nil
}

// sort sorts the pages by tenant and key.
func (s *indexState) sort() {
	slices.SortFunc(s.pages, func(a, b indexedPage) int {
		return cmp.Or(cmp.Compare(a.key.Tenant, b.key.Tenant), cmp.Compare(a.key.Text, b.key.Text), cmp.Compare(a.partition, b.partition))
	})
}

// indexed returns what searches need of a page. Texts that many pages share are kept once, in
// texts.
func indexed(listed store.ListedPage, p Page, texts map[string]string) indexedPage {
	share := func(text string) string {
		if shared, ok := texts[text]; ok {
			return shared
		}
		text = strings.Clone(text)
		texts[text] = text
		return text
	}
	one := indexedPage{
		key: store.Key{Tenant: share(store.TenantOf(listed.PK)), Text: strings.Clone(p.Key)}, route: share(p.Route), owner: share(p.LeaseOwner), state: p.State,
		status: int16(min(p.Status, math.MaxInt16)), failures: int16(min(p.LeaseFailures, math.MaxInt16)), bytes: p.BodyBytes,
		generated: seconds(p.GeneratedAt), pinnedUntil: seconds(p.PinnedUntil), leaseUntil: seconds(p.LeaseUntil),
	}
	if listed.Record.Entry == nil && one.key.Tenant != "" {
		one.key.Text = strings.TrimPrefix(one.key.Text, one.key.Tenant+":") // the form of Key.String
	}
	if p.Key == "" {
		one.partition = strings.Clone(listed.PK)
	}
	one.lower = strings.ToLower(one.key.Text) // the same text if it has no capitals
	if e := listed.Record.Entry; e != nil {
		one.freshUntil, one.staleUntil = seconds(e.FreshUntil()), seconds(e.StaleUntil())
	}
	for _, tag := range p.Tags {
		one.tags = append(one.tags, share(tag))
	}
	return one
}

// seconds returns a time in Unix seconds, 0 if there is none.
func seconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// partitionOf returns the partition key of an indexed page.
func (a *API) partitionOf(p *indexedPage) string {
	if p.partition != "" {
		return p.partition
	}
	return a.cfg.Partition(p.key)
}

// listed describes a page of a list; ok is false for the purge of a page that is not stored.
func (a *API) listed(listed store.ListedPage, marks marks, failing map[string]store.Key) (p Page, ok bool) {
	rec := listed.Record
	if rec.Entry == nil && rec.Lock == nil && rec.Malformed == nil && rec.Purges.Seq > 0 {
		return Page{}, false
	}
	if e := rec.Entry; e != nil {
		k := store.Key{Tenant: store.TenantOf(listed.PK), Text: e.Key}
		rec.Purges = rec.Purges.Merge(marks.covering(k, e.Tags, a.cfg.Now()))
	}
	p = a.describe(listed.PK, rec)
	if k, known := failing[listed.PK]; known && p.Key == "" {
		p.Key = k.String() // its back-off row has no key
	}
	return p, true
}
