package isr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"strings"

	"github.com/facetheory/isr/internal/fill"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// Bounds of [Reject].
const (
	maxRejectTexts = 32
	maxRejectText  = 1024
)

// ErrRejected: the generation is suspicious by the rules of its route (see [Reject]).
var ErrRejected = fill.ErrRejected

// rejects returns why a response is suspicious as the next generation; empty if it is not.
// current is the generation that it is compared with, whose body stored reads; nil if there is none.
func (b *routeRules) rejects(res *render.Response, current *store.Entry, stored func() ([]byte, error)) string {
	if why := b.Reject.byTexts(res); why != "" {
		return why
	}
	if current == nil || current.Foreign || current.Withdrawn {
		return ""
	}
	if why := b.Reject.byComparison(res, current); why != "" {
		return why
	}
	if b.Reject.Truncated && isTruncated(res, current, stored) {
		return "it lacks </html>, which the current generation has"
	}
	return ""
}

func (r *Reject) byTexts(res *render.Response) string {
	if len(r.Without) == 0 && len(r.With) == 0 {
		return ""
	}
	if !isHTML(res.Header, res.Body) {
		return ""
	}
	for _, text := range r.With {
		if bytes.Contains(res.Body, []byte(text)) {
			return fmt.Sprintf("it has the text %q", text)
		}
	}
	if res.Status/100 != 2 || res.Status == http.StatusNoContent {
		return ""
	}
	for _, text := range r.Without {
		if !bytes.Contains(res.Body, []byte(text)) {
			return fmt.Sprintf("it lacks the text %q", text)
		}
	}
	return ""
}

func (r *Reject) byComparison(res *render.Response, current *store.Entry) string {
	if res.Status/100 != current.Status/100 {
		if r.Status {
			return fmt.Sprintf("its status is %d; the status of the current generation is %d", res.Status, current.Status)
		}
		return ""
	}
	if n := len(res.Body); float64(n) < r.SmallerThan*float64(current.Length) {
		return fmt.Sprintf("it has %d bytes, the current generation %d", n, current.Length)
	}
	if now, before := mediaType(res.Header, res.Body), mediaType(current.Header, nil); r.ContentType && before != "" && now != before {
		return fmt.Sprintf("its content type is %q; the content type of the current generation is %q", now, before)
	}
	stored := httpcache.StoredHeader(res.Header)
	for _, name := range r.LostHeaders {
		if name = http.CanonicalHeaderKey(name); len(current.Header[name]) > 0 && len(stored[name]) == 0 {
			return fmt.Sprintf("it lacks the header %s, which the current generation has", name)
		}
	}
	return ""
}

// isTruncated reports whether an HTML page has lost its end. A rule for all pages would reject parts of pages, which
// scripts request, and files that prove the ownership of a site. The stored body is read only if the new one has no end.
func isTruncated(res *render.Response, current *store.Entry, stored func() ([]byte, error)) bool {
	if res.Status/100 != 2 || current.Status/100 != 2 || !isHTML(res.Header, res.Body) || !isHTML(current.Header, nil) || hasEnd(res.Body) {
		return false
	}
	before, err := stored()
	return err == nil && hasEnd(before)
}

// hasEnd reports whether a text has the tag </html>, in any case. Comments may follow it.
func hasEnd(text []byte) bool {
	const end = "</html"
	for {
		i := bytes.LastIndex(text, []byte("</"))
		if i < 0 {
			return false
		}
		if len(text)-i >= len(end) && strings.EqualFold(string(text[i:i+len(end)]), end) {
			return true
		}
		text = text[:i]
	}
}

// isHTML reports whether a response is an HTML page.
func isHTML(h http.Header, body []byte) bool {
	kind := mediaType(h, body)
	return kind == "text/html" || kind == "application/xhtml+xml"
}

// mediaType returns the media type of a response in lower case; of one that does not state
// it, what browsers would take the body for.
func mediaType(h http.Header, body []byte) string {
	text := h.Get("Content-Type")
	if text == "" && len(body) > 0 {
		text = http.DetectContentType(body)
	}
	kind, _, err := mime.ParseMediaType(text)
	if err != nil {
		kind, _, _ = strings.Cut(strings.ToLower(text), ";")
	}
	return strings.TrimSpace(kind)
}

// Quarantined returns the generation of a page that was rejected last. It is kept for a week.
// Errors wrap [store.ErrNotQuarantined] if there is none, or are the store's own.
func (c *Cache) Quarantined(ctx context.Context, k store.Key) (store.Quarantined, error) {
	pk, err := c.partition(k)
	if err != nil {
		return store.Quarantined{}, err
	}
	q, err := c.meta.Quarantined(ctx, pk)
	if err != nil {
		return store.Quarantined{}, fmt.Errorf("reading the quarantine of %s: %w", k, err)
	}
	return q, nil
}

// DiffQuarantined compares the current generation of a page with the one in quarantine, as
// Diff does. Errors are Quarantined's, and wrap [store.ErrNoVersion] if the page has no
// current generation.
func (c *Cache) DiffQuarantined(ctx context.Context, k store.Key) (Diff, error) {
	q, err := c.Quarantined(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	versions, err := c.Versions(ctx, k)
	if err != nil {
		return Diff{}, err
	}
	d := Diff{To: Version{Entry: q.Entry}}
	if d.From, err = current(versions); err != nil {
		return Diff{}, fmt.Errorf("comparing the quarantined generation of %s: %w", k, err)
	}
	d.Fields = diffFields(&d.From.Entry, &d.To.Entry)
	return d, c.diffBodies(ctx, &d)
}

// AcceptQuarantined publishes the generation of a page that is in quarantine, and returns the
// new current entry. generation is its id, or a prefix of it; empty: whichever is there. It is
// as old as its render, so that it may be regenerated at once; what is rendered then is
// compared with it. Other nodes follow within a poll of the log.
//
// Errors wrap [store.ErrNotQuarantined]: there is no such generation; [store.ErrMoved]: a newer
// one was published since it was rendered; [store.ErrPurged]: it was purged hard;
// [store.ErrPinned]; [ErrNoBody]; or they are a [*store.HeldError] while the page is being
// regenerated, or the store's own.
func (c *Cache) AcceptQuarantined(ctx context.Context, k store.Key, generation string) (store.Entry, error) {
	e, err := c.accept(ctx, k, generation)
	if err != nil {
		return store.Entry{}, fmt.Errorf("accepting the quarantined generation of %s: %w", k, err)
	}
	c.log.Info("accepted a quarantined generation", "key", k.String(), "generation", e.GenerationID)
	return e, nil
}

func (c *Cache) accept(ctx context.Context, k store.Key, generation string) (e store.Entry, err error) {
	pk, err := c.partition(k)
	if err != nil {
		return store.Entry{}, err
	}
	if _, err := c.meta.Quarantined(ctx, pk); err != nil {
		return store.Entry{}, err // before the back-off is broken
	}
	lease, err := c.acquireNow(ctx, pk)
	if err != nil {
		return store.Entry{}, err
	}
	release := c.hold(k, "", nil)
	defer func() { release(errors.Is(err, store.ErrLeaseLost)) }()
	defer c.node.Invalidate(k)
	e, err = c.publishQuarantined(ctx, k, pk, lease, generation)
	if err != nil {
		settle, cancel := fill.Settling(ctx)
		defer cancel()
		return store.Entry{}, errors.Join(err, c.meta.Release(settle, lease))
	}
	c.node.Negative.Forget(k)
	c.node.Unpublished.Forget(k)
	if err := c.meta.DropQuarantined(ctx, pk, e.GenerationID); err != nil {
		c.log.Warn("failed to delete an accepted generation from quarantine; it stays until it expires", "key", k.String(), "error", err)
	}
	return e, nil
}

// acquireNow acquires a lease, also during a back-off.
func (c *Cache) acquireNow(ctx context.Context, pk string) (store.Lease, error) {
	lease, err := c.meta.Acquire(ctx, pk, c.cfg.Lease, nil)
	var held *store.HeldError
	if !errors.As(err, &held) || !held.Lock.IsBackOff() {
		return lease, err
	}
	rec, err := c.meta.Read(ctx, pk)
	if err != nil {
		return nil, err
	}
	if rec.Lock != nil && rec.Lock.IsBackOff() {
		if err := c.meta.BreakLease(ctx, rec); err != nil && !errors.Is(err, store.ErrMoved) {
			return nil, err
		}
	}
	return c.meta.Acquire(ctx, pk, c.cfg.Lease, nil)
}

func (c *Cache) publishQuarantined(ctx context.Context, k store.Key, pk string, lease store.Lease, generation string) (store.Entry, error) {
	rec, _, err := c.node.Read(ctx, k, pk)
	if err != nil {
		return store.Entry{}, err
	}
	// Read under the lease: its body is not collected before the lease ends.
	q, err := c.meta.Quarantined(ctx, pk)
	if err != nil {
		return store.Entry{}, err
	}
	e := q.Entry
	if !strings.HasPrefix(e.GenerationID, generation) {
		return store.Entry{}, fmt.Errorf("%w: %q; the one there is %s", store.ErrNotQuarantined, generation, e.GenerationID)
	}
	if rec.Entry != nil && rec.Entry.GeneratedAt.After(e.GeneratedAt) {
		return store.Entry{}, fmt.Errorf("%w: generation %s was rendered later", store.ErrMoved, rec.Entry.GenerationID)
	}
	covering, err := c.meta.Covering(ctx, k, e.Tags)
	if err != nil {
		return store.Entry{}, err
	}
	if store.Freshness(&e, rec.Purges.Merge(covering), c.now()) == store.Purged {
		return store.Entry{}, store.ErrPurged
	}
	if err := c.engine.CheckBody(ctx, e); err != nil {
		return store.Entry{}, err
	}
	e.Expires = fill.Expiry(e, c.now(), c.cfg.Retention)
	if err := c.engine.ListVariant(ctx, k, e.Expires); err != nil {
		return store.Entry{}, err
	}
	return c.meta.Publish(ctx, lease, rec, e, store.PublishOptions{
		History: q.Keep > 0, Keep: q.Keep, Superseded: c.now().Add(c.cfg.Retention), Reload: true, Key: k,
	})
}

// DropQuarantined deletes the generation of a page that is in quarantine. It is no error if
// there is none.
func (c *Cache) DropQuarantined(ctx context.Context, k store.Key) error {
	q, err := c.Quarantined(ctx, k)
	if errors.Is(err, store.ErrNotQuarantined) {
		return nil
	}
	if err != nil {
		return err
	}
	return c.meta.DropQuarantined(ctx, q.PK, q.Entry.GenerationID)
}
