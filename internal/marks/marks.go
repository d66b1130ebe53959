// Package marks has the purge marks that a process knows, by which it judges pages.
//
// A purge of a tag, a prefix, a tenant or the site writes one mark, whatever the number of
// pages that it covers. Each process keeps all marks in memory, and judges pages by them:
//
//	LOG ──► follower ──► Table ◄── Cache.Purge
//	                       │ version: one atomic load
//	hit ──► page ──► the state computed for that version ──► freshness
//	                       │ another version, or a mark has expired since
//	                       └──► look up the page's tenant, tags and prefixes
//
// A change of the table costs each page one look-up, at its next hit. No page is dropped
// from memory because of a mark.
package marks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/facetheory/isr/store"
)

// A mark is the newest purge of a tag, a prefix, a tenant or the site; zero: none.
type mark struct {
	seq, hardSeq int64
	at           int64        // when the newest purge was made, in epoch seconds
	later        *laterExpiry // nil: none
}

// A laterExpiry is a purge that allows stale pages until a given instant: from at on, seq
// is a hard purge.
type laterExpiry struct {
	seq int64
	at  time.Time
}

// merge adds another mark of the same target.
func (m mark) merge(o mark, now time.Time) mark {
	m.seq, m.hardSeq, m.at = max(m.seq, o.seq), max(m.hardSeq, o.hardSeq), max(m.at, o.at)
	if o.later != nil && (m.later == nil || o.later.seq >= m.later.seq) {
		if m.later != nil && !m.later.at.After(now) {
			m.hardSeq = max(m.hardSeq, m.later.seq) // it has taken effect already
		}
		m.later = o.later
	}
	return m
}

// absorbs reports whether m, whose target includes the target of o, covers all that o covers, at
// least as strictly.
func (m mark) absorbs(o mark) bool {
	return m.seq >= o.seq && m.hardSeq >= o.hardSeq && m.at >= o.at && (o.later == nil || m.hardSeq >= o.later.seq)
}

// A coverage is the merged state of the marks that cover a page.
type coverage struct {
	version uint64 // of the table
	state   store.PurgeState
	until   time.Time // when a mark that covers the page expires next; zero: never
}

func (c *coverage) add(m mark, now time.Time) {
	if m.seq == 0 && m.later == nil {
		return
	}
	s := store.PurgeState{Seq: m.seq, HardSeq: m.hardSeq, At: time.Unix(m.at, 0)}
	switch {
	case m.later == nil:
	case !m.later.at.After(now):
		s.HardSeq = max(s.HardSeq, m.later.seq)
	case c.until.IsZero() || m.later.at.Before(c.until):
		c.until = m.later.at
	}
	c.state = c.state.Merge(s)
}

// A markSet is a set of marks. It is not safe for concurrent use.
type markSet struct {
	site    mark
	tenants map[string]*tenantMarks
}

type tenantMarks struct {
	all      mark
	tags     map[string]mark
	prefixes []prefixMarks // by length
}

// prefixMarks are the marks of prefixes of one length. Most prefixes end in '/' or '#', so
// that ends rules out nearly all lengths without a look-up.
type prefixMarks struct {
	length int
	ends   [256 / 64]uint64 // the last bytes of the prefixes
	marks  map[string]mark
}

func (p *prefixMarks) mayHave(last byte) bool { return p.ends[last/64]&(1<<(last%64)) != 0 }

// add adds a mark, unless another one includes it, and removes those that it includes. A
// mark of an unknown kind covers all pages of its tenant.
func (s *markSet) add(m store.Mark, now time.Time) {
	n := mark{seq: m.Seq, hardSeq: m.HardSeq, at: m.At.Unix()}
	if m.ExpireSeq > 0 {
		n.later = &laterExpiry{m.ExpireSeq, m.ExpireAt}
	}
	target := m.Target
	if target.Kind == store.PurgeSite && target.Tenant == "" {
		s.site = s.site.merge(n, now)
		s.drop(s.site.absorbs)
		return
	}
	t := s.tenants[target.Tenant]
	if s.site.absorbs(n) || t != nil && t.all.absorbs(n) {
		return
	}
	if t == nil {
		t = &tenantMarks{}
		if s.tenants == nil {
			s.tenants = make(map[string]*tenantMarks)
		}
		s.tenants[target.Tenant] = t
	}
	switch target.Kind {
	case store.PurgeTag:
		if t.tags == nil {
			t.tags = make(map[string]mark)
		}
		t.tags[target.Value] = t.tags[target.Value].merge(n, now)
	case store.PurgePrefix:
		t.addPrefix(target.Value, n, now)
	default:
		t.all = t.all.merge(n, now)
		t.drop(t.all.absorbs)
	}
}

func (t *tenantMarks) addPrefix(prefix string, m mark, now time.Time) {
	i, found := slices.BinarySearchFunc(t.prefixes, len(prefix), func(p prefixMarks, n int) int { return p.length - n })
	if !found {
		t.prefixes = slices.Insert(t.prefixes, i, prefixMarks{length: len(prefix), marks: make(map[string]mark)})
	}
	p := &t.prefixes[i]
	if n := len(prefix); n > 0 {
		last := prefix[n-1]
		p.ends[last/64] |= 1 << (last % 64)
	}
	p.marks[prefix] = p.marks[prefix].merge(m, now)
}

// drop removes the marks of all tenants that are to go.
func (s *markSet) drop(gone func(mark) bool) {
	maps.DeleteFunc(s.tenants, func(_ string, t *tenantMarks) bool {
		if gone(t.all) {
			t.all = mark{}
		}
		t.drop(gone)
		return t.all == mark{} && len(t.tags) == 0 && len(t.prefixes) == 0
	})
}

func (t *tenantMarks) drop(gone func(mark) bool) {
	of := func(_ string, m mark) bool { return gone(m) }
	maps.DeleteFunc(t.tags, of)
	t.prefixes = slices.DeleteFunc(t.prefixes, func(p prefixMarks) bool {
		maps.DeleteFunc(p.marks, of)
		return len(p.marks) == 0
	})
}

// count returns how many marks there are.
func (s *markSet) count() (n int) {
	add := func(m mark) {
		if m != (mark{}) {
			n++
		}
	}
	add(s.site)
	for _, t := range s.tenants {
		add(t.all)
		n += len(t.tags)
		for _, p := range t.prefixes {
			n += len(p.marks)
		}
	}
	return n
}

func (s *markSet) empty() bool { return s.site == mark{} && len(s.tenants) == 0 }

// covering returns the merged state of the marks that cover a page with these tags.
func (s *markSet) covering(k store.Key, tags []string, now time.Time) (c coverage) {
	c.add(s.site, now)
	t := s.tenants[k.Tenant]
	if t == nil {
		return c
	}
	c.add(t.all, now)
	if len(t.tags) > 0 {
		for _, tag := range tags {
			c.add(t.tags[tag], now)
		}
	}
	for i := range t.prefixes {
		p := &t.prefixes[i]
		if p.length > len(k.Text) {
			break
		}
		if p.length == 0 || p.mayHave(k.Text[p.length-1]) {
			c.add(p.marks[k.Text[:p.length]], now)
		}
	}
	return c
}

// newerThan yields the marks with a higher sequence.
func (s *markSet) newerThan(seq int64, yield func(store.PurgeTarget, mark)) {
	some := func(kind store.PurgeKind, tenant, value string, m mark) {
		if m.seq > seq {
			yield(store.PurgeTarget{Kind: kind, Tenant: tenant, Value: value}, m)
		}
	}
	some(store.PurgeSite, "", "", s.site)
	for tenant, t := range s.tenants {
		some(store.PurgeTenant, tenant, "", t.all)
		for tag, m := range t.tags {
			some(store.PurgeTag, tenant, tag, m)
		}
		for _, p := range t.prefixes {
			for prefix, m := range p.marks {
				some(store.PurgePrefix, tenant, prefix, m)
			}
		}
	}
}

func (m mark) external(target store.PurgeTarget) store.Mark {
	out := store.Mark{Target: target, Seq: m.seq, HardSeq: m.hardSeq, At: time.Unix(m.at, 0)}
	if m.later != nil {
		out.ExpireSeq, out.ExpireAt = m.later.seq, m.later.at
	}
	return out
}

// A Table has what this process knows of purges of more than one page. The zero value is
// empty. All methods are safe for concurrent use.
type Table struct {
	lifetime atomic.Int64 // of marks, in nanoseconds; 0: SEQ has none, or was not read yet

	// version is 0 while there are no marks, and changes with them.
	version atomic.Uint64 // written under mu
	mu      sync.RWMutex
	set     markSet   // guarded by mu
	swept   time.Time // guarded by mu: when marks that have ended were last removed
}

// sweepEvery is how often marks whose lifetime has ended are removed.
const sweepEvery = time.Hour

// Apply adds marks.
func (t *Table) Apply(now time.Time, marks ...store.Mark) {
	if len(marks) == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, m := range marks {
		t.set.add(m, now)
	}
	t.sweepLocked(now)
	t.version.Add(1)
}

// Load replaces all marks by the marks of the store, read after the sequence upTo, so that
// marks that were deleted disappear. recent are the newest changes up to that sequence, whose
// marks the read may have missed. Marks with a higher sequence, which were made during the read,
// stay. If the store fails, nothing changes.
func (t *Table) Load(ctx context.Context, from store.PurgeStore, recent []store.Change, upTo int64, now func() time.Time) error {
	var next markSet
	for m, err := range from.Marks(ctx) {
		if err != nil {
			return err
		}
		next.add(m, now())
	}
	for _, change := range recent {
		for _, m := range change.Marks {
			next.add(m, now())
		}
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set.newerThan(upTo, func(target store.PurgeTarget, m mark) { next.add(m.external(target), now()) })
	if t.version.Load() > 0 || !next.empty() {
		t.set = next
		t.version.Add(1)
	}
	return nil
}

// sweepLocked removes the marks whose lifetime has ended: the entries that they cover
// have expired (see [store.Entry.OutlivesMarks]). Callers must hold mu.
func (t *Table) sweepLocked(now time.Time) {
	lifetime := time.Duration(t.lifetime.Load())
	if lifetime == 0 || now.Sub(t.swept) < sweepEvery {
		return
	}
	t.swept = now
	ended := now.Add(-lifetime).Unix()
	t.set.drop(func(m mark) bool { return m.at < ended && (m.later == nil || m.later.at.Before(now)) })
}

// Len returns how many marks there are.
func (t *Table) Len() int {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.set.count()
}

// Covering returns the merged state of the marks that cover a page with these tags.
func (t *Table) Covering(k store.Key, tags []string, now time.Time) store.PurgeState {
	return t.compute(k, tags, now).state
}

func (t *Table) compute(k store.Key, tags []string, now time.Time) coverage {
	if t.version.Load() == 0 {
		return coverage{}
	}
	t.mu.RLock()
	defer t.mu.RUnlock()
	c := t.set.covering(k, tags, now)
	c.version = t.version.Load()
	return c
}

// A Memo keeps what covers one page. The zero value is empty.
type Memo struct {
	last atomic.Pointer[coverage]
}

// Recall is [Table.Covering] for the page of a memo, which keeps the result. It is on the hit
// path: unless the table has changed since, it takes no lock and allocates nothing.
func (t *Table) Recall(m *Memo, k store.Key, tags []string, now time.Time) store.PurgeState {
	version := t.version.Load()
	if version == 0 {
		return store.PurgeState{}
	}
	known := m.last.Load()
	if known == nil || known.version != version || !known.until.IsZero() && !known.until.After(now) {
		known = new(t.compute(k, tags, now))
		m.last.Store(known)
	}
	return known.state
}

// Note records the lifetime in SEQ, which never decreases.
func (t *Table) Note(seq store.Sequence) {
	for old := t.lifetime.Load(); old < int64(seq.MarkLifetime); old = t.lifetime.Load() {
		if t.lifetime.CompareAndSwap(old, int64(seq.MarkLifetime)) {
			return
		}
	}
}

// Lifetime returns how long marks live, as far as is known; 0 if it is not. It is on the hit
// path.
func (t *Table) Lifetime() time.Duration { return time.Duration(t.lifetime.Load()) }
