package leak

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/backoff"
	"github.com/facetheory/isr/internal/httpcache"
)

// A subject is a page under examination.
type subject struct {
	e     *examination
	u     *url.URL
	probe *url.URL // bypasses the cache, if the site does not ignore the parameter
	rough bool     // compare without numbers and tokens
	// What the cache gives for u: in this order: A, anonymous, B, A, anonymous, B.
	a, anonymous, b []*answer
}

// parameter is the query parameter of probes.
const parameter = "isr-doctor"

// examine examines a page. An error ends the run: ctx has ended, or the first page cannot be
// examined.
func (e *examination) examine(ctx context.Context, u *url.URL) error {
	s := &subject{e: e, u: u, probe: withParameter(u)}
	err := s.visit(ctx)
	if err == nil {
		err = s.check(ctx)
	}
	first := len(e.report.Pages) == 0
	if n := len(s.anonymous); n > 0 {
		last := s.anonymous[n-1]
		e.report.Pages = append(e.report.Pages, Page{u.String(), last.status, last.cache.text, s.cached() != nil})
	}
	switch {
	case err == nil, ctx.Err() == nil && !first:
		if err != nil {
			e.find(Note, "failed", u, "", "the page could not be examined: "+err.Error(), "request it with curl -i, and look into the log of isr")
		}
		return nil
	}
	return err
}

func withParameter(u *url.URL) *url.URL {
	probe := *u
	if probe.RawQuery != "" {
		probe.RawQuery += "&"
	}
	probe.RawQuery += parameter + "=" + rand.Text()
	return &probe
}

// Visits of a page whose storing is under way or has just failed are repeated.
const (
	visits     = 2
	maxVisits  = 5
	visitPause = time.Second
)

// visit requests the page as everyone, in turns: what the cache stores of A's request, B and
// anonymous visitors get next.
func (s *subject) visit(ctx context.Context) error {
	for n := 0; n < visits || n < maxVisits && s.unsettled(); n++ {
		if n >= visits {
			if err := backoff.Wait(ctx, visitPause); err != nil {
				return err
			}
		}
		for _, who := range []struct {
			header  http.Header
			answers *[]*answer
		}{{s.e.A, &s.a}, {nil, &s.anonymous}, {s.e.B, &s.b}} {
			got, err := s.plain(ctx, who.header)
			if err != nil {
				return err
			}
			if got.cache.text == "" && len(s.e.report.Pages) == 0 {
				return fmt.Errorf("%w (%s has the status %d)", ErrNoCache, s.u, got.status)
			}
			*who.answers = append(*who.answers, got)
		}
	}
	s.e.follow(s.u, s.anonymous[1])
	return nil
}

// unsettled reports whether the page is not cached for a reason that may pass within seconds,
// such as a store that is slow.
func (s *subject) unsettled() bool {
	return s.cached() == nil && slices.Contains([]string{"unpublished", "timeout", "held", "origin-busy"}, s.anonymous[len(s.anonymous)-1].cache.detail)
}

func (s *subject) plain(ctx context.Context, h http.Header) (*answer, error) {
	return s.e.client.get(ctx, s.u, "", h)
}

// direct returns what the site gives, not the cache; nil if that cannot be found out.
func (s *subject) direct(ctx context.Context, h http.Header) (*answer, error) {
	if s.e.Origin == nil {
		got, err := s.e.client.get(ctx, s.probe, "", h)
		if err != nil || !got.cache.bypass {
			return nil, err
		}
		return got, nil
	}
	return s.atOrigin(ctx, s.u, h)
}

// atOrigin requests a page of the origin, as isr does.
func (s *subject) atOrigin(ctx context.Context, u *url.URL, h http.Header) (*answer, error) {
	at := *s.e.Origin
	at.Path, at.RawPath, at.RawQuery = u.Path, u.RawPath, u.RawQuery
	h = h.Clone()
	if h == nil {
		h = make(http.Header)
	}
	h.Set("X-Forwarded-Host", u.Host)
	h.Set("X-Forwarded-Proto", u.Scheme)
	host := ""
	if at.Scheme == "http" {
		host = u.Host
	}
	return s.e.client.get(ctx, &at, host, h)
}

// cached returns the last anonymous response that came from a cache; nil if none did.
func (s *subject) cached() *answer {
	for _, got := range slices.Backward(s.anonymous) {
		if got.cache.hit {
			return got
		}
	}
	return nil
}

// same reports whether two responses show the same page.
func (s *subject) same(a, b *answer) bool { return a.content(s.rough) == b.content(s.rough) }

// check makes the findings of a page.
func (s *subject) check(ctx context.Context) error {
	s.checkHits()
	shared := s.cached()
	if shared == nil {
		s.notCached()
	}
	site, err := s.learn(ctx)
	if err != nil {
		return err
	}
	s.checkCanaries(site)
	if len(s.e.report.Pages) == 0 { // it is about the proxies in front, not about a page
		if err := s.checkForwardedHost(ctx); err != nil {
			return err
		}
	}
	if err := s.checkInjection(ctx); err != nil || shared == nil {
		return err
	}
	switch {
	case site == nil:
		s.e.find(Note, "unstable", s.u, "", "what the site itself gives is not known: a query parameter does not bypass the cache",
			"give the address of the site: --origin http://127.0.0.1:3000")
		return nil
	case !site.stable:
		s.e.find(Note, "unstable", s.u, "", "the site answers differently each time, so that only texts of A and B were looked for",
			"give texts that only their pages have: --canary-a NAME --canary-b NAME")
		return nil
	}
	if err := s.checkIdentities(ctx, shared, site); err != nil {
		return err
	}
	if err := s.checkHeaders(ctx, shared, site); err != nil {
		return err
	}
	return s.checkQuery(ctx, shared, site)
}

// A siteView is what the site itself gives.
type siteView struct {
	anonymous, a, b *answer
	stable          bool // it gives everyone the same page twice
}

// learn finds out what the site itself gives; nil if that is not known.
func (s *subject) learn(ctx context.Context) (*siteView, error) {
	// In turns: a page that changes with time must not seem to change with the identity.
	var got []*answer
	for _, h := range []http.Header{nil, s.e.A, s.e.B, nil, s.e.A, s.e.B} {
		next, err := s.direct(ctx, h)
		if err != nil || next == nil {
			return nil, err
		}
		got = append(got, next)
	}
	stable := func() bool { return s.same(got[0], got[3]) && s.same(got[1], got[4]) && s.same(got[2], got[5]) }
	s.rough = !stable()
	return &siteView{anonymous: got[0], a: got[1], b: got[2], stable: stable()}, nil
}

// differs reports whether the site itself gives another page for headers than without, and
// does so again.
func (s *subject) differs(ctx context.Context, h http.Header, site *siteView) (bool, error) {
	for range 2 {
		for _, try := range []struct {
			header http.Header
			same   bool
		}{{h, false}, {nil, true}} {
			got, err := s.direct(ctx, try.header)
			if err != nil || got == nil || s.same(got, site.anonymous) != try.same {
				return false, err
			}
		}
	}
	return true, nil
}

// formToken matches the names of the tokens of forms against cross-site request forgery.
var formToken = regexp.MustCompile(`(?i)<(?:input|meta)[^>]+name=["']?(csrf[\w-]*|_csrf\w*|_token|authenticity_token|__RequestVerificationToken|xsrf[\w-]*)["' ]`)

// checkHits looks at each response that came from a cache.
func (s *subject) checkHits() {
	found := make(map[string]bool)
	once := func(severity Severity, kind, subject, problem, do string) {
		if !found[kind+subject] {
			found[kind+subject] = true
			s.e.find(severity, kind, s.u, subject, problem, do)
		}
	}
	for _, got := range slices.Concat(s.a, s.anonymous, s.b) {
		if !got.cache.hit {
			continue
		}
		for _, line := range got.header["Set-Cookie"] {
			name, _, _ := strings.Cut(line, "=")
			once(Leak, "set-cookie", name, "a cached response sets the cookie "+name+": all visitors get the same value, such as one session",
				"send Cache-Control: private with responses that set cookies, or set the cookie at another URL; look for a cache in front of isr that ignores Set-Cookie")
		}
		d := httpcache.ParseDirectives(got.header["Cache-Control"])
		for _, name := range []string{"private", "no-store"} {
			if d.Has(name) && len(got.header["Cdn-Cache-Control"]) == 0 {
				once(Leak, "private", name, "a response with Cache-Control: "+name+" came from a shared cache",
					"find the cache that ignores "+name+" in Cache-Status; if it is a rule of yours for browsers only, use cache_control: max-age=0 instead")
			}
		}
		if match := formToken.FindSubmatch(got.body); match != nil {
			once(Wrong, "form-token", string(match[1]), "a cached page has a form token ("+string(match[1])+") that one render has made: forms of other visitors fail, or are not protected",
				"load the token from an uncached URL, or cache: off for this path")
		}
		if len(httpcache.Nonces(got.header["Content-Security-Policy"])) > 0 {
			once(Wrong, "nonce", "Content-Security-Policy", "a cached page has the nonce of one render in its Content-Security-Policy: whoever reads it can have scripts run in the page for other visitors",
				"allow scripts by their hashes, or by 'self', on cached pages; or cache: off for this path")
		}
	}
}

// checkCanaries looks for A's texts in what others got, and for B's. Texts that the site shows
// to everyone belong to neither.
func (s *subject) checkCanaries(site *siteView) {
	for _, c := range []struct {
		owner, text string
		others      []*answer
	}{
		{"A", s.e.CanaryA, slices.Concat(s.anonymous, s.b)},
		{"B", s.e.CanaryB, slices.Concat(s.anonymous, s.a)},
	} {
		if c.text == "" || site != nil && site.anonymous.mentions(c.text) {
			continue
		}
		if slices.ContainsFunc(c.others, func(got *answer) bool { return got.mentions(c.text) }) {
			s.e.find(Leak, "canary", s.u, c.owner, "others get a page that was made for "+c.owner+": it has the text "+shorten(c.text),
				"find what carries the identity to the site in renders: a header in forward, or a cookie or query parameter; put it in the key, or cache: off for this path; then isr purge --all")
		}
	}
}

func shorten(text string) string {
	if len(text) > 40 {
		return text[:40] + "..."
	}
	return text
}

// checkInjection requests a probe with odd headers, and then without: what is left of them was
// stored. The probe has a URL of its own, so that no visitor gets it.
func (s *subject) checkInjection(ctx context.Context) error {
	canaries, h := make(map[string]string), make(http.Header)
	for _, name := range []string{"X-Forwarded-Host", "X-Host", "X-Forwarded-Server", "Origin", "Referer", "User-Agent", "X-Original-Url", "X-Rewrite-Url"} {
		canaries[name] = "isrdoctor" + strings.ToLower(rand.Text())
		switch name {
		case "Origin", "Referer":
			h.Set(name, "https://"+canaries[name]+".invalid")
		case "X-Original-Url", "X-Rewrite-Url":
			h.Set(name, "/"+canaries[name])
		default:
			h.Set(name, canaries[name]+".invalid")
		}
	}
	at := withParameter(s.u)
	if _, err := s.e.client.get(ctx, at, "", h); err != nil {
		return err
	}
	clean, err := s.e.client.get(ctx, at, "", nil)
	if err != nil {
		return err
	}
	for name, canary := range canaries {
		if clean.mentions(canary) {
			s.e.find(Leak, "injected", s.u, name, "a visitor can put text into a page that others get, by the request header "+name,
				"remove "+name+" from forward, or put it in the key: headers: ["+name+"]; find caches in front of isr that do not have it in their key")
		}
	}
	return nil
}

// checkIdentities compares what A and B get with what the site has for them.
func (s *subject) checkIdentities(ctx context.Context, shared *answer, site *siteView) error {
	for _, who := range []struct {
		name   string
		header http.Header
		own    *answer   // from the site
		got    []*answer // from the cache
	}{{"A", s.e.A, site.a, s.a}, {"B", s.e.B, site.b, s.b}} {
		last := who.got[len(who.got)-1]
		switch {
		case s.same(who.own, site.anonymous):
		case s.same(shared, who.own) && !s.same(shared, site.anonymous):
			s.e.find(Leak, "personal", s.u, who.name, "visitors without an identity get the page of "+who.name+" from the cache",
				"find what carries the identity to the site in renders: a header in forward, or a cookie; put it in the key, or cache: off for this path; then isr purge --all")
			return nil
		case last.cache.hit && s.same(last, shared):
			names, err := s.decisive(ctx, who.header, site)
			if err != nil {
				return err
			}
			s.e.find(Wrong, "personal", s.u, names, who.name+" gets the cached page of everyone, but the site has another one for "+who.name+", because of "+names,
				"remove the cookie from ignore_cookies, so that requests with it pass through; or put it in the key, reduced to classes (cookies: {NAME: [a, b]}); or load what is personal by a script")
			return nil
		}
	}
	return nil
}

// maxDecisive bounds the cookies and headers of an identity that are tried one by one.
const maxDecisive = 8

// decisive returns the names of the cookies and headers of an identity that change what the
// site gives.
func (s *subject) decisive(ctx context.Context, h http.Header, site *siteView) (string, error) {
	var names, all []string
	parts := make(map[string]http.Header)
	for name, values := range h {
		if name != "Cookie" {
			parts["the header "+name] = http.Header{name: values}
			continue
		}
		for pair := range strings.SplitSeq(strings.Join(values, "; "), ";") {
			if cookie, _, found := strings.Cut(strings.TrimSpace(pair), "="); found {
				parts["the cookie "+cookie] = http.Header{"Cookie": {strings.TrimSpace(pair)}}
			}
		}
	}
	for name := range parts {
		all = append(all, name)
	}
	slices.Sort(all)
	for _, name := range all[:min(len(all), maxDecisive)] {
		differs, err := s.differs(ctx, parts[name], site)
		if err != nil {
			return "", err
		}
		if differs {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		names = all
	}
	return strings.Join(names, ", "), nil
}

// A variation is a header by which sites commonly choose a page, with the headers that the same
// client sends beside it.
type variation struct {
	name   string
	header http.Header
}

// explained reports whether one of the headers was found before.
func (v variation) explained(found map[string]bool) bool {
	for name := range v.header {
		if found[name] {
			return true
		}
	}
	return false
}

// variations returns groups of variations. The site gets each group in one request first. The
// headers of scripts are in groups of their own, since a site that answers one of them may refuse
// it beside another one, such as a part of a page and a whole one.
func variations() [][]variation {
	one := func(name, value string) variation { return variation{name, http.Header{name: {value}}} }
	return [][]variation{
		{
			one("Accept-Language", "fr-FR, fr;q=0.9, de;q=0.8, es;q=0.7, it;q=0.6, nl;q=0.5, pt;q=0.4, pl;q=0.3, ru;q=0.2, ja;q=0.1"), one("User-Agent", mobile), one("Accept", "application/json"), one("Origin", "https://isr-doctor.invalid"),
			one("Save-Data", "on"), one("Sec-Ch-Ua-Mobile", "?1"), one("X-Requested-With", "XMLHttpRequest"),
		},
		// A site may look at the first language only.
		{one("Accept-Language", "de-AT, de;q=0.9")},
		{one("Accept-Language", "es-ES, es;q=0.9")},
		{one("Accept-Language", "pt-BR, pt;q=0.9")},
		{one("Accept-Language", "zh-CN, zh;q=0.9")},
		{one("Accept-Language", "ja")},
		{one("Hx-Request", "true")},
		{{"Hx-Boosted", http.Header{"Hx-Request": {"true"}, "Hx-Boosted": {"true"}}}},
		{one("X-Inertia", "true")},
		{one("Turbo-Frame", "isr-doctor"), one("Rsc", "1"), one("X-Pjax", "true"), one("X-Up-Target", "main")},
		{one("Accept", "text/vnd.turbo-stream.html, text/html")},
		{one("Sec-Fetch-Dest", "empty"), one("Sec-Fetch-Mode", "cors"), one("X-Moz", "prefetch"), one("Purpose", "prefetch"), one("Sec-Purpose", "prefetch")},
	}
}

// checkHeaders finds headers on which the site's answer depends, and the key does not.
func (s *subject) checkHeaders(ctx context.Context, shared *answer, site *siteView) error {
	found := make(map[string]bool)
	for _, group := range variations() {
		if err := s.checkGroup(ctx, group, found, shared, site); err != nil {
			return err
		}
	}
	return nil
}

// checkGroup is checkHeaders for a group of variations. found has the names that were found.
func (s *subject) checkGroup(ctx context.Context, group []variation, found map[string]bool, shared *answer, site *siteView) error {
	all := make(http.Header)
	for _, v := range group {
		maps.Copy(all, v.header)
	}
	if differs, err := s.differs(ctx, all, site); err != nil || !differs {
		return err
	}
	for _, v := range group {
		differs := true // of a single one, it was found above
		var err error
		if len(group) > 1 {
			differs, err = s.differs(ctx, v.header, site)
		}
		if err != nil {
			return err
		}
		if !differs || v.explained(found) {
			continue
		}
		got, err := s.plain(ctx, v.header)
		if err != nil {
			return err
		}
		if got.cache.hit && s.same(got, shared) {
			found[v.name] = true
			s.e.find(Wrong, "key", s.u, v.name, "the site's answer depends on the request header "+v.name+", and the cache gives everyone the same page", keyAdvice(v.name))
		}
	}
	return nil
}

// checkQuery compares a page with the one without its query, at the site and in the cache.
func (s *subject) checkQuery(ctx context.Context, shared *answer, site *siteView) error {
	if s.e.Origin == nil || s.u.RawQuery == "" {
		return nil
	}
	bare := *s.u
	bare.RawQuery = ""
	own, err := s.atOrigin(ctx, &bare, nil)
	if err != nil || s.same(own, site.anonymous) {
		return err
	}
	got, err := s.e.client.get(ctx, &bare, "", nil)
	if err == nil && s.same(got, shared) && (got.cache.hit || shared.cache.hit) {
		s.e.find(Wrong, "query", s.u, s.u.RawQuery, "the site's answer depends on the query, and the cache gives the page without it",
			"put its parameters in the key (query: [NAME]) and remove them from ignore_query")
	}
	return err
}

// notCached notes why a page is not cached.
func (s *subject) notCached() {
	last := s.anonymous[len(s.anonymous)-1]
	switch {
	case last.cache.text == "":
		s.e.find(Note, "failed", s.u, "", "the response has no Cache-Status of isr", "look for another server that answers for this path")
	case last.status >= http.StatusInternalServerError:
		s.e.find(Note, "failed", s.u, last.cache.detail, "the site answers with status "+http.StatusText(last.status), "look into the log of the site")
	default:
		problem, do := WhyNotCached(last.cache.detail)
		s.e.find(Note, "not-cached", s.u, last.cache.detail, problem, do)
	}
}
