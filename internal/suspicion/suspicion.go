// Package suspicion decides whether a response may replace the current generation of a page.
//
// The problem: an origin that fails often answers with a status of success: a page that is cut off, an error message in
// the layout of the site, an empty list. Such a page would replace a good one, on all nodes, for as long as it is fresh.
//
// The model: the owner of a site declares Rules. Some look at the response alone, others compare it with the current
// generation. A response that breaks one of them is suspicious, for a reason that is made for people.
//
// Guarantees:
//   - Without rules nothing is suspicious, and rules that compare find nothing if there is no generation of ours to
//     compare with: the first page is always accepted by them.
//   - The stored body is read only if a rule needs it.
package suspicion

import (
	"bytes"
	"fmt"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/render"
	"github.com/facetheory/isr/store"
)

// Rules say which generations of a page are suspicious (see isr.Reject, whose fields these are).
type Rules struct {
	SmallerThan   float64
	Without, With []string
	Status        bool
	ContentType   bool
	LostHeaders   []string
	Truncated     bool
}

// Bounds of [Rules].
const (
	maxRejectTexts = 32
	maxRejectText  = 1024
)

// Validate calls report for each rule that is invalid, with the field of isr.Route and what is wrong.
func (r Rules) Validate(report func(field, format string, args ...any)) {
	if least := r.SmallerThan; !(least >= 0 && least <= 1) { // as NaN is neither
		report("Reject", "must have a SmallerThan between 0 and 1 (got %v)", least)
	}
	for _, texts := range [][]string{r.Without, r.With} {
		if n := len(texts); n > maxRejectTexts {
			report("Reject", "must have at most %d texts of a kind (got %d)", maxRejectTexts, n)
		}
		for _, text := range texts {
			if text == "" || len(text) > maxRejectText || !utf8.ValidString(text) {
				report("Reject", "must have texts of 1 to %d bytes of UTF-8 (got %.100q)", maxRejectText, text)
			}
		}
	}
	for _, text := range r.With {
		if slices.Contains(r.Without, text) {
			report("Reject", "must not have the text %.100q in With and in Without", text)
		}
	}
	if n := len(r.LostHeaders); n > maxRejectTexts {
		report("Reject", "must have at most %d LostHeaders (got %d)", maxRejectTexts, n)
	}
	for _, name := range r.LostHeaders {
		if !httpcache.IsToken(name) {
			report("Reject", "must have LostHeaders that are names of header fields (got %.100q)", name)
		}
	}
}

// ReadsText reports whether a rule searches the text of a response.
func (r Rules) ReadsText() bool { return len(r.Without)+len(r.With) > 0 }

// Why returns why a response is suspicious as the next generation of a page; empty if it is not. current is the
// generation that it is compared with, whose body stored reads; nil if there is none. It is safe for concurrent use.
func (r Rules) Why(res *render.Response, current *store.Entry, stored func() ([]byte, error)) string {
	if why := r.byTexts(res); why != "" {
		return why
	}
	if current == nil || current.Foreign || current.Withdrawn {
		return ""
	}
	if why := r.byComparison(res, current); why != "" {
		return why
	}
	if r.Truncated && isTruncated(res, current, stored) {
		return "it lacks </html>, which the current generation has"
	}
	return ""
}

func (r Rules) byTexts(res *render.Response) string {
	if !r.ReadsText() || !isHTML(res.Header, res.Body) {
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

func (r Rules) byComparison(res *render.Response, current *store.Entry) string {
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
