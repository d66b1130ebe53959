package isr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// Reject says which generations of a page are suspicious. Such a generation is not
// published: it counts as a failed render, with the back-off of one, and the current
// generation stays, for as long as it may be served in place of a failure (its stale
// window, or its stale-if-error). It is kept in quarantine, where [Cache.Quarantined] finds
// it and [Cache.AcceptQuarantined] publishes it. Cache-Status has detail=rejected.
//
// A generation is compared with the current one only while that may be served: once it may
// not, for example because it was purged hard, and for a page that has none, the texts alone
// decide. Responses that must not be stored, such as 403 or Cache-Control: private, are not
// judged: they withdraw the page.
type Reject struct {
	// SmallerThan rejects a body that is smaller than this part of the current one, if
	// both have a status of one class: 0.5 rejects one of less than half its size. Between
	// 0, which rejects none, and 1.
	SmallerThan float64
	// Without rejects a page with a status of 200 to 299 that lacks one of these texts, such
	// as "</html>", With one that has one of them, such as "Fatal error", whatever its
	// status. Texts are compared byte by byte, after decoding a content coding. Only bodies
	// of the content types text/html and application/xhtml+xml are searched. At most 32
	// texts each, of 1 to 1,024 bytes.
	Without, With []string
	// Status rejects a status of another class (2xx, 3xx, 4xx) than the current one, such as
	// a 404 or a redirect in place of a page.
	Status bool
	// ContentType rejects another media type than the current one. Parameters such as
	// charset do not matter.
	ContentType bool
	// LostHeaders rejects a response without one of these fields if the current one has it
	// and both have a status of one class. At most 32 names.
	LostHeaders []string
}

// Bounds of [Reject].
const (
	maxRejectTexts = 32
	maxRejectText  = 1024
)

// ErrRejected: the generation is suspicious by the rules of its route (see [Reject]).
var ErrRejected = errors.New("the generation was rejected")

func (rt Route) validateReject() error {
	var errs []error
	if r := rt.Reject.SmallerThan; !(r >= 0 && r <= 1) { // as NaN is neither
		errs = append(errs, configErrorf("Reject", "must have a SmallerThan between 0 and 1 (got %v)", r))
	}
	for _, texts := range [][]string{rt.Reject.Without, rt.Reject.With} {
		if n := len(texts); n > maxRejectTexts {
			errs = append(errs, configErrorf("Reject", "must have at most %d texts of a kind (got %d)", maxRejectTexts, n))
		}
		for _, text := range texts {
			if text == "" || len(text) > maxRejectText || !utf8.ValidString(text) {
				errs = append(errs, configErrorf("Reject", "must have texts of 1 to %d bytes of UTF-8 (got %.100q)", maxRejectText, text))
			}
		}
	}
	for _, text := range rt.Reject.With {
		if slices.Contains(rt.Reject.Without, text) {
			errs = append(errs, configErrorf("Reject", "must not have the text %.100q in With and in Without", text))
		}
	}
	if n := len(rt.Reject.LostHeaders); n > maxRejectTexts {
		errs = append(errs, configErrorf("Reject", "must have at most %d LostHeaders (got %d)", maxRejectTexts, n))
	}
	for _, name := range rt.Reject.LostHeaders {
		if !validHeaderName(name) {
			errs = append(errs, configErrorf("Reject", "must have LostHeaders that are names of header fields (got %.100q)", name))
		}
	}
	return errors.Join(errs...)
}

// rejects returns why a response is suspicious as the next generation; empty if it is not.
// current is the generation that it is compared with; nil without.
func (p *projector) rejects(res *response, current *store.Entry) string {
	if why := p.Reject.byTexts(res); why != "" {
		return why
	}
	if current == nil || current.Foreign || current.Withdrawn {
		return ""
	}
	return p.Reject.byComparison(res, current)
}

func (r *Reject) byTexts(res *response) string {
	if len(r.Without) == 0 && len(r.With) == 0 {
		return ""
	}
	if kind := mediaType(res.header, res.body); kind != "text/html" && kind != "application/xhtml+xml" {
		return ""
	}
	for _, text := range r.With {
		if bytes.Contains(res.body, []byte(text)) {
			return fmt.Sprintf("it has the text %q", text)
		}
	}
	if res.status/100 != 2 || res.status == http.StatusNoContent {
		return ""
	}
	for _, text := range r.Without {
		if !bytes.Contains(res.body, []byte(text)) {
			return fmt.Sprintf("it lacks the text %q", text)
		}
	}
	return ""
}

func (r *Reject) byComparison(res *response, current *store.Entry) string {
	if res.status/100 != current.Status/100 {
		if r.Status {
			return fmt.Sprintf("its status is %d, that of the current generation %d", res.status, current.Status)
		}
		return ""
	}
	if n := len(res.body); float64(n) < r.SmallerThan*float64(current.Length) {
		return fmt.Sprintf("it has %d bytes, the current generation %d", n, current.Length)
	}
	if now, before := mediaType(res.header, res.body), mediaType(current.Header, nil); r.ContentType && before != "" && now != before {
		return fmt.Sprintf("its content type is %q, that of the current generation %q", now, before)
	}
	stored := httpcache.StoredHeader(res.header)
	for _, name := range r.LostHeaders {
		if name = http.CanonicalHeaderKey(name); len(current.Header[name]) > 0 && len(stored[name]) == 0 {
			return fmt.Sprintf("it lacks the header %s, which the current generation has", name)
		}
	}
	return ""
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

// suspicious returns why the route rejects what was rendered; empty if it does not.
func (s *search) suspicious(rec store.Record, got rendering) string {
	var current *store.Entry
	purges, now := s.purges(rec), s.c.now()
	if servableOnError(rec.Entry, store.Freshness(rec.Entry, purges, now), purges, now) {
		current = rec.Entry
	}
	return s.route.rejects(got.response, current)
}

// reject ends a render whose result is suspicious: it is quarantined, and counts as a
// failure. If we crash before the back-off, the lease expires, and the page is rendered
// again.
func (s *search) reject(ctx, held context.Context, lease store.Lease, rec store.Record, next store.Entry, got rendering, why string, took time.Duration) outcome {
	if rec.Entry != nil || !isNegative(next.Status) { // invented URLs leave no rows
		if err := s.quarantine(held, lease, next, got.response.body, why); err != nil {
			s.c.complaints.log("failed to keep a rejected generation", "key", s.key.String(), "error", err)
		}
	}
	s.c.log.Warn("rejected a generation; the current one stays", "key", s.key.String(), "reason", why,
		"status", next.Status, "bytes", next.Length, "generation", next.GenerationID)
	return s.failed(ctx, lease, rec, rendering{failure: fmt.Errorf("%w: %s", ErrRejected, why)}, took)
}

// failureDetail is the reason in Cache-Status for a render that has failed.
func failureDetail(cause error) string {
	if errors.Is(cause, ErrRejected) {
		return detailRejected
	}
	return detailFailed
}
