package isr

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// entry describes the generation that a rendering made, to replace what was read under the
// lease.
func (s *search) entry(got rendering, at timing, seq int64, rec store.Record) store.Entry {
	res := got.response
	sum := sha256.Sum256(res.body)
	digest := hex.EncodeToString(sum[:])
	etag := res.header.Get("Etag")
	if !httpcache.ValidETag(etag) {
		etag = `"` + digest[:32] + `"`
	}
	id := s.c.newGenerationID()
	e := store.Entry{
		BodyKey:      store.BodyPrefix(s.pk) + id,
		GeneratedAt:  at.generatedAt,
		Revalidate:   s.window(got, at, rec, digest),
		ETag:         etag,
		GenerationID: id,
		Key:          s.key.Text,
		Route:        s.route.Name,
		Status:       res.status,
		Header:       httpcache.StoredHeader(res.header),
		SHA256:       digest,
		Length:       int64(len(res.body)),
		Tags:         got.verdict.Tags,
		Stale:        store.ClampInterval(got.verdict.Stale.Truncate(time.Second)),
		PurgeSeq:     seq,
		Build:        s.c.marks.build.Load(),
		InitialAge:   httpcache.Age(res.header),
		RenderTime:   max(at.took.Round(time.Millisecond), time.Millisecond),
	}
	e.Expires = expiry(e, s.c.now(), s.c.cfg.Retention)
	return e
}

// newGenerationID returns an id that is unique and sorts by time: ids of one page sort
// in the order in which they are published, since a publish takes more than a
// microsecond.
func (c *Cache) newGenerationID() string {
	return c.now().UTC().Format("20060102T150405.000000Z") + "-" + strings.ToLower(c.cfg.NewToken())
}

// wholeSeconds rounds a window down to what the table can store, at least one second.
func wholeSeconds(d time.Duration) time.Duration {
	return max(store.ClampInterval(d).Truncate(time.Second), time.Second)
}

// shorten takes a random part of at most share off a freshness window, in whole
// seconds, so that pages that were published together do not expire together. The
// result is stored, and all headers sent to clients follow from it.
func (c *Cache) shorten(window time.Duration, share float64) time.Duration {
	most := uint64(window.Seconds() * share)
	return window - time.Duration(c.below(most+1))*time.Second
}

// expiry is when the table may delete an entry: a day after the latest of its stale
// window, its pin and the retention; zero, which is never, if it is pinned for ever. A
// negative answer is not retained beyond its windows.
func expiry(e store.Entry, now time.Time, retention time.Duration) time.Time {
	if !e.PinnedUntil.Before(store.Forever()) {
		return time.Time{}
	}
	if isNegative(e.Status) {
		retention = 0
	}
	t := now.Add(retention)
	if e.StaleUntil().After(t) {
		t = e.StaleUntil()
	}
	if e.PinnedUntil.After(t) {
		t = e.PinnedUntil
	}
	return t.Add(24 * time.Hour).Truncate(time.Second)
}

// publishOptions are how a generation replaces what was read. A pin that has ended, or
// whose page cannot be served, does not prevent that.
func (s *search) publishOptions(read store.Record, next *store.Entry) store.PublishOptions {
	return store.PublishOptions{
		History:    s.route.History > 0,
		Keep:       s.route.History,
		Superseded: s.c.now().Add(s.c.cfg.Retention),
		Unchanged:  read.Entry != nil && sameContent(read.Entry, next),
		Unpin:      s.unpin || !s.pinned(read),
		Key:        s.key,
	}
}

// sameContent reports whether two generations look the same to visitors.
func sameContent(a, b *store.Entry) bool {
	return !a.Foreign && a.SHA256 == b.SHA256 && a.Length == b.Length && a.Status == b.Status && a.ETag == b.ETag &&
		slices.Equal(a.Tags, b.Tags) && maps.EqualFunc(a.Header, b.Header, slices.Equal)
}

// sameBody reports whether two entries have the same immutable body. Other services may
// write new content under an old key; this package never does.
func sameBody(a, b *store.Entry) bool {
	return !a.Foreign && !b.Foreign && a.BodyKey == b.BodyKey && a.SHA256 == b.SHA256
}

// sameEntry reports whether two readings are of one generation, unchanged.
func sameEntry(a, b *store.Entry) bool {
	return a.Version == b.Version && a.GenerationID == b.GenerationID && a.Foreign == b.Foreign &&
		a.BodyKey == b.BodyKey && a.GeneratedAt.Equal(b.GeneratedAt) && a.Revalidate == b.Revalidate && a.Stale == b.Stale && a.ETag == b.ETag
}
