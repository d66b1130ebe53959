package survey

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/html"

	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/visit"
	"github.com/facetheory/isr/internal/wellknown"
)

// A Page is what a response declares about caching.
type Page struct {
	Path   string
	Status int
	Type   string // the media type
	Took   time.Duration
	Bytes  int
	// Stated is the freshness window that the response states; 0 if it states none.
	Stated time.Duration
	// Refused is why the response must not be stored, a detail of Cache-Status; empty if it may be, for a route with a
	// freshness window.
	Refused string
	// Cookies are the names of the cookies that it sets, except cookies that isr ignores anyway.
	Cookies []string
	Vary    []string
}

// pageOf reads the response of a path.
func pageOf(target string, a *visit.Answer) Page {
	media, _, _ := strings.Cut(a.Header.Get("Content-Type"), ";")
	p := Page{Path: target, Status: a.Status, Type: media, Took: a.Took, Bytes: len(a.Body)}
	// A window of an hour stands for the one that the file will have.
	v := httpcache.Rules{Revalidate: time.Hour, MaxBody: visit.MaxBody, InKey: func(string) bool { return true }}.Judge(a.Status, a.Header)
	p.Refused = v.Refused
	if !v.RouteWindow {
		p.Stated = v.Revalidate
	}
	for _, c := range (&http.Response{Header: a.Header}).Cookies() {
		if wellknown.Cookie(c.Name) == "" {
			p.Cookies = append(p.Cookies, c.Name)
		}
	}
	for _, line := range a.Header["Vary"] {
		for name := range httpcache.Members(line) {
			p.Vary = append(p.Vary, http.CanonicalHeaderKey(name))
		}
	}
	return p
}

// canonicalHost returns the host of the canonical URL that a page names (RFC 6596); empty if it names none, or a
// machine.
func canonicalHost(a *visit.Answer) (host string, https bool) {
	if !a.IsHTML() {
		return "", false
	}
	for z := html.NewTokenizer(bytes.NewReader(a.Body)); ; {
		switch z.Next() {
		case html.ErrorToken:
			return "", false
		case html.StartTagToken, html.SelfClosingTagToken:
			t := z.Token()
			if t.Data == "body" {
				return "", false
			}
			var rel, href string
			for _, attr := range t.Attr {
				switch attr.Key {
				case "rel":
					rel = attr.Val
				case "href":
					href = attr.Val
				}
			}
			if t.Data != "link" || !strings.EqualFold(rel, "canonical") {
				continue
			}
			u, err := url.Parse(href)
			if err != nil || u.Host == "" || isAddress(u.Hostname()) {
				return "", false
			}
			return u.Host, u.Scheme == "https"
		}
	}
}
