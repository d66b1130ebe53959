package fill

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/bodies"
	"github.com/facetheory/isr/internal/generations"
	"github.com/facetheory/isr/internal/guard"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/page"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// entry describes the generation that a rendering made, to replace what was read under the
// lease.
func (s *Fill) entry(got render.Rendering, at timing, seq int64, rec store.Record) store.Entry {
	res := got.Response
	sum := sha256.Sum256(res.Body)
	digest := hex.EncodeToString(sum[:])
	e := s.draft(res.Status, res.Header, got.Verdict, at, seq)
	if e.ETag == "" {
		e.ETag = digestTag(digest)
	}
	e.GenerationID = s.e.newGenerationID()
	e.BodyKey = store.BodyPrefix(s.pk) + e.GenerationID
	e.Revalidate = s.window(got, at, rec, digest)
	if got.Verdict.StaleAsFresh {
		e.Stale = e.Revalidate
	}
	e.SHA256 = digest
	e.Length = int64(len(res.Body))
	e.RenderTime = max(at.took.Round(time.Millisecond), time.Millisecond)
	if got.Renews {
		e.GenerationID, e.BodyKey = rec.Entry.GenerationID, rec.Entry.BodyKey
		e.RenderTime = max(e.RenderTime, rec.Entry.RenderTime) // of the next render, which may send the page
	}
	e.Expires = generations.Expiry(e, s.e.Now(), s.e.Retention)
	return e
}

// draft is what the header of a response says of its entry. It has no entity tag if the
// response has none.
func (s *Fill) draft(status int, h http.Header, v httpcache.Verdict, at timing, seq int64) store.Entry {
	e := store.Entry{
		GeneratedAt: at.generatedAt,
		Revalidate:  wholeSeconds(v.Revalidate),
		Key:         s.Key.Text,
		Route:       s.Policy.Name,
		Status:      status,
		Tags:        v.Tags,
		Stale:       store.ClampInterval(v.Stale.Truncate(time.Second)),
		PurgeSeq:    seq,
		Build:       s.e.Node.Build(),
		InitialAge:  httpcache.InitialAge(h, at.generatedAt),
		Peer:        s.e.Peers.Own(),
	}
	e.Header, e.ETag = httpcache.StoredHeader(h), httpcache.ETagOf(h)
	return e
}

// window returns the freshness window of a rendering with this digest, which replaces what
// was read under the lease. It is shortened at random (see isr.Route.Jitter).
func (s *Fill) window(got render.Rendering, at timing, rec store.Record, digest string) time.Duration {
	window, read := wholeSeconds(got.Verdict.Revalidate), rec.Entry
	if !got.Verdict.RouteWindow || s.Policy.MaxWindow == 0 || read == nil || read.Revalidate == 0 {
		return s.e.shorten(window, s.Policy.Jitter)
	}
	next := min(max(read.Revalidate, s.Policy.MinWindow), s.Policy.MaxWindow)
	// A purge says that the content changes, and when: visitors did not find it stale, however
	// long the window. Of the content of other services nothing is known.
	if !read.Foreign && !read.CoveredBy(s.e.Node.RecordPurges(&s.f.State, s.Key, rec)) {
		changed := read.SHA256 != digest || read.Status != got.Response.Status
		next = s.Policy.NextWindow(read.Revalidate, max(at.generatedAt.Sub(read.GeneratedAt), 0), changed)
	}
	if next == read.Revalidate {
		return next // it is shortened already: many times the jitter would be a trend
	}
	return s.e.shorten(next, s.Policy.Jitter)
}

// wholeSeconds rounds a window down to what the table can store, at least one second.
func wholeSeconds(d time.Duration) time.Duration {
	return max(store.ClampInterval(d).Truncate(time.Second), time.Second)
}

// publishOptions are how a generation replaces what was read. A pin that has ended, or
// whose page cannot be served, does not prevent that.
func (s *Fill) publishOptions(read store.Record, next *store.Entry) store.PublishOptions {
	return store.PublishOptions{
		History:    s.Policy.History > 0,
		Keep:       s.Policy.History,
		Superseded: s.e.Now().Add(s.e.Retention),
		Unchanged:  read.Entry != nil && generations.SameContent(read.Entry, next),
		Unpin:      s.Unpin || !s.pinned(read),
		Key:        s.Key,
	}
}

// maxLookUps bounds the concurrent reads of fills in this process, except those under
// a lease. After a gap in the log every page in memory is read again when it is next
// requested, which may be all at once; this protects the table and its connections.
const maxLookUps = 128

// lookUp calls read once fewer than maxLookUps are in progress. Waiting for that counts
// as waiting for the store: the countdown of visitors runs, and the wait is bounded by the
// deadline of a read.
func (s *Fill) lookUp(ctx context.Context) (store.Record, error) {
	timer := time.NewTimer(guard.TableTimeout)
	defer timer.Stop()
	select {
	case s.e.lookUps <- struct{}{}:
		defer func() { <-s.e.lookUps }()
		return s.read(ctx)
	case <-timer.C:
		return store.Record{}, fmt.Errorf("reading %s: %d other reads are in progress: %w", s.Key, maxLookUps, guard.ErrSlow)
	case <-ctx.Done():
		return store.Record{}, context.Cause(ctx)
	}
}

// read reads the record of the page, and repeats that if the page was invalidated during the read.
func (s *Fill) read(ctx context.Context) (rec store.Record, err error) {
	for again := true; again; again = s.e.Node.OutdatedDuring(&s.f.State, s.latest) {
		s.asOf = s.e.Follower.Committed()
		if rec, s.latest, err = s.e.Node.Read(ctx, s.Key, s.pk); err != nil {
			return store.Record{}, err
		}
	}
	if rec.Malformed != nil {
		s.e.Log.Warn("a malformed row counts as missing", "key", s.Key.String(), "pk", s.pk, "error", rec.Malformed)
	}
	s.adapt(&rec)
	s.f.found(rec)
	return rec, nil
}

// adapt completes a record by what this process knows.
func (s *Fill) adapt(rec *store.Record) {
	if e := rec.Entry; e != nil && e.Foreign {
		// Another service's row has no stale window: the route's applies.
		foreign := *e
		foreign.Stale = s.Policy.ForeignStale
		rec.Entry = &foreign
	}
	s.ended = s.withdrawnHere(rec.Entry)
	if s.ended || s.redirectsToItself(rec.Entry) {
		gone := *rec.Entry
		gone.Withdrawn = true
		rec.Entry = &gone
	}
	rec.Purges = s.f.Known(rec.Purges)
}

// redirectsToItself reports whether an entry is a redirect to its own key: one of an older version, or
// of another service. It counts as missing, even if it is pinned.
func (s *Fill) redirectsToItself(e *store.Entry) bool {
	if e == nil || e.Withdrawn {
		return false
	}
	_, itself := s.Policy.Keys.SelfRedirect(s.Key, e.Status, e.Header)
	return itself
}

// keep puts a page that was just read, or published, into memory. If it may be older
// than a page that was served already, or newer than one that will be, the page is
// reloaded, so that no later visitor gets an older one. ErrPurged: the page was purged
// since it was read, and must not be served.
func (s *Fill) keep(p *page.Page) error {
	clear := s.e.Node.Put(p, &s.f.State)
	known := s.f.Known(p.Purges)
	if !clear || known.Seq > p.Purges.Seq {
		s.e.Node.Invalidate(p.Key)
	}
	if s.e.Node.State(&s.f.State, p, s.e.Now()) == store.Purged {
		return store.ErrPurged
	}
	return nil
}

// load makes a page of the record that was read last, and keeps it in memory. It takes
// the body from memory if possible, even from a dropped page. ErrPurged: the page was
// purged since it was read.
func (s *Fill) load(ctx context.Context, rec store.Record) (p *page.Page, err error) {
	e := *rec.Entry // a copy, which reading the body of another service's page completes
	if p := s.e.Node.Get(s.Key); p != nil && page.SameEntry(&p.Entry, &e) && p.Purges == rec.Purges && !s.e.Follower.LateFor(p.Read.AsOf, s.e.Now()) {
		return p, nil
	}
	if last := s.e.Node.Last(s.Key); last != nil && page.SameBody(&last.Entry, &e) {
		p = page.New(s.Key, e, rec.Purges, s.latest, last.Body(), s.Policy.View)
		p.Inherit(last)
	} else if p, err = s.detached(ctx, rec, s.latest); err != nil {
		return nil, err
	} else if p == nil {
		addCoding := s.e.Encoder.Prefetch(ctx, rec.Entry, s.Policy.View, s.Accept)
		body, err := s.body(ctx, rec, &e)
		if err != nil {
			return nil, err
		}
		p = page.New(s.Key, e, rec.Purges, s.latest, body, s.Policy.View)
		addCoding(p)
	}
	p.Stored = !e.Foreign
	return p, s.keep(p)
}

// body reads the body of a record, whose entry is e. A body that repeatedly cannot be read counts as
// missing, so that the page is rendered and published with a new one; but not while the
// page is pinned, since the body may become readable again and the pin would be lost.
func (s *Fill) body(ctx context.Context, rec store.Record, e *store.Entry) ([]byte, error) {
	if !e.Foreign && e.BodyKey == s.noBody {
		return nil, fmt.Errorf("%w: %s (found earlier)", bodies.ErrMissing, e.BodyKey)
	}
	body, err := s.e.Reader.Read(ctx, s.Key, e)
	if errors.Is(err, bodies.ErrUnreadable) && !s.pinned(rec) {
		err = fmt.Errorf("%w: %w", bodies.ErrMissing, err)
	}
	if errors.Is(err, bodies.ErrMissing) {
		s.e.Log.Warn("an entry without its body counts as missing", "key", s.Key.String(), "body", e.BodyKey, "error", err)
	}
	return body, err
}

// recall returns the page of a stub that a visitor may get without a look at the table; nil
// if there is none. It reads the body from the store.
func (s *Fill) recall(ctx context.Context) *page.Page {
	if s.Force || s.Early != nil || s.MinSeq > 0 || s.Claim != nil {
		return nil
	}
	o, now := s.e.Node.Stub(s.Key), s.e.Now()
	if o == nil {
		return nil
	}
	if p := o.Page(new(page.Memory), s.Key); s.e.Follower.LateFor(p.Read.AsOf, now) || s.e.Blind(now) || s.e.Node.State(&s.f.State, p, now) != store.Fresh {
		return nil
	}
	rec, read := o.Record()
	if p, err := s.detached(ctx, rec, read); p != nil || err != nil {
		if p == nil {
			return nil // the fill goes on, and finds the reason
		}
		o.Share(p)
		return p
	}
	addCoding := func(*page.Page) {}
	if _, absent := o.Codings(); !absent {
		addCoding = s.e.Encoder.Prefetch(ctx, rec.Entry, s.Policy.View, s.Accept)
	}
	body, err := s.e.Reader.ReadOnce(ctx, s.Key, rec.Entry)
	if err != nil {
		return nil // the fill goes on, and finds the reason
	}
	p, err := s.e.Node.Restore(s.Key, o, *rec.Entry, body, s.Policy.View, addCoding)
	if err != nil || s.e.Node.IsDropped(p) {
		return nil
	}
	return p
}

// newGenerationID returns an id that is unique and sorts by time: ids of one page sort
// in the order in which they are published, since a publish takes more than a
// microsecond.
func (e *Engine) newGenerationID() string {
	return e.Now().UTC().Format("20060102T150405.000000Z") + "-" + strings.ToLower(e.NewToken())
}

// Shorten takes a random part of at most share off a freshness window, in whole
// seconds, so that pages that were published together do not expire together. The
// result is stored, and all headers sent to clients follow from it.
func (e *Engine) shorten(window time.Duration, share float64) time.Duration {
	most := uint64(window.Seconds() * share)
	return window - time.Duration(e.Below(most+1))*time.Second
}

// newUnpublishedPage makes the page of an entry that is not in the store. It is as old
// as its render.
func newUnpublishedPage(k store.Key, e store.Entry, at timing, body []byte, as *page.View) *page.Page {
	return page.New(k, e, store.PurgeState{}, page.Interval{Began: at.began, Ended: at.began.Add(at.took)}, body, as)
}

// pinned reports whether an entry must not be replaced: its pin lasts, no purge covers
// it, and its body exists.
func (s *Fill) pinned(rec store.Record) bool {
	e, now := rec.Entry, s.e.Now()
	return e != nil && e.PinnedUntil.After(now) && (e.BodyKey != s.noBody || s.unread) && store.Freshness(e, s.e.Node.RecordPurges(&s.f.State, s.Key, rec), now) == store.Fresh
}

// refusedByPin reports, before anything is rendered, whether a pin would refuse the
// publish. Only forced regenerations reach this.
func (s *Fill) refusedByPin(rec store.Record) bool {
	return s.Force && !s.Unpin && s.pinned(rec)
}
