package storable

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"slices"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/store"
)

// An Obstacle keeps a response from being stored. It has the fields of isr.Obstacle, which documents them.
type Obstacle struct {
	Detail, What, Advice, RFC string
}

// ObstacleOf describes an obstacle by its detail of Cache-Status, and by what forbids the response to be stored. The settings of
// its advice are in angle brackets, for [details.Naming.Advice].
func ObstacleOf(detail, what string) Obstacle {
	d, _ := details.Marked(detail)
	return Obstacle{Detail: detail, What: what, Advice: d.Advice, RFC: d.RFC}
}

// maxObstacles is how many obstacles are listed. There are fewer kinds.
const maxObstacles = 20

// Obstacles returns all that keeps a response from being stored, each with advice that ends it. An
// obstacle without such advice is the last. failed is the detail of a failed render.
func (j *Judge) Obstacles(k store.Key, status int, sent http.Header, requested time.Time, failed string) (all []Obstacle) {
	t := (&trial{j, k, status, sent, requested}).clone()
	for range maxObstacles {
		v := t.verdict()
		if !v.Failed && v.Refused == "" {
			break
		}
		o, next := t.remedied(v, failed)
		all = append(all, o)
		if next == nil {
			break
		}
		t = next
	}
	return all
}

// A trial is a response with the rules that it is judged by. Remedies change copies of it.
type trial struct {
	by        *Judge
	key       store.Key
	status    int
	header    http.Header
	requested time.Time
}

func (t *trial) verdict() httpcache.Verdict {
	return t.by.Verdict(t.key, t.status, t.header, nil, t.requested)
}

// clone returns a copy that remedies may change.
func (t *trial) clone() *trial {
	by := *t.by
	by.Responses.Statuses, by.Responses.Negative = slices.Clone(by.Responses.Statuses), maps.Clone(by.Responses.Negative)
	return &trial{&by, t.key, t.status, t.header.Clone(), t.requested}
}

// with returns a copy that a change was made to.
func (t *trial) with(change func(*trial)) *trial {
	changed := t.clone()
	change(changed)
	return changed
}

// ends reports whether a change ends a refusal.
func (t *trial) ends(refused httpcache.Verdict, change func(*trial)) bool {
	v := t.with(change).verdict()
	return v.Refused != refused.Refused || v.Failed != refused.Failed
}

// A remedy is advice with its simulation.
type remedy struct {
	advice string
	// ways are what the advice leaves the choice of. Each of them ends the refusal, else the advice
	// is not given.
	ways []func(*trial)
	// carry is what is done to find the obstacles behind this one; nil means the first of ways.
	carry func(*trial)
}

// remedied describes a refusal, with the first advice that ends it, and returns the response after
// that; nil if there is none.
func (t *trial) remedied(v httpcache.Verdict, failed string) (o Obstacle, next *trial) {
	o = ObstacleOf(cmp.Or(v.Refused, failed), t.forbidding(v))
	for _, r := range t.remedies(v, o.Advice) {
		if slices.ContainsFunc(r.ways, func(way func(*trial)) bool { return !t.ends(v, way) }) {
			continue
		}
		o.Advice = r.advice
		if r.carry == nil {
			return o, t.with(r.ways[0])
		}
		return o, t.with(r.carry)
	}
	o.Advice = ""
	return o, nil
}

// forbidding names what a response is refused for.
func (t *trial) forbidding(v httpcache.Verdict) string {
	h := t.header
	_, field := httpcache.Governing(h)
	switch v.Refused {
	case "", httpcache.RefusedStatus:
		return fmt.Sprintf("status %d", t.status)
	case httpcache.RefusedPrivate, httpcache.RefusedNoStore, httpcache.RefusedNoCache:
		return field + ": " + v.Refused
	case httpcache.RefusedMalformed:
		return fmt.Sprintf("%s: %.200s", field, strings.Join(controls(h), ", "))
	case httpcache.RefusedSetCookie:
		return "Set-Cookie: " + strings.Join(Telling(h)["Set-Cookie"], ", ")
	case httpcache.RefusedVary:
		covered := t.by.Mapper.Allowed(h)
		var names []string
		for _, line := range h["Vary"] {
			for name := range httpcache.Members(line) {
				if c := textproto.CanonicalMIMEHeaderKey(name); c != "Accept-Encoding" && c != "Host" && !covered(c) {
					names = append(names, name)
				}
			}
		}
		return "Vary: " + strings.Join(names, ", ")
	case httpcache.RefusedCoding:
		return "Content-Encoding: " + strings.Join(h["Content-Encoding"], ", ")
	case httpcache.RefusedStream:
		return "Content-Type: " + h.Get("Content-Type")
	case httpcache.RefusedTooLarge:
		return fmt.Sprintf("Content-Length: %d, at most %d bytes are stored", httpcache.DeclaredLength(h), t.by.Responses.MaxBody)
	case httpcache.RefusedTags, httpcache.RefusedHeader, httpcache.RefusedSelfRedirect, httpcache.RefusedOld:
		return v.Cause.Error()
	}
	if lines := controls(h); len(lines) > 0 {
		return fmt.Sprintf("%s: %.200s, which grants no freshness", field, strings.Join(lines, ", "))
	}
	if len(h["Expires"]) > 0 {
		return "Expires: " + h.Get("Expires") + ", which grants no freshness"
	}
	return "no s-maxage, max-age or Expires"
}

// controls returns the lines of the fields that may govern a response.
func controls(h http.Header) []string {
	return slices.Concat(h["Cdn-Cache-Control"], h["Surrogate-Control"], h["Cache-Control"])
}

// remedies returns what may end a refusal, the best first. usual is the advice of its detail.
func (t *trial) remedies(v httpcache.Verdict, usual string) []remedy {
	if v.Failed {
		return []remedy{{advice: usual, ways: []func(*trial){answersOK}}}
	}
	switch v.Refused {
	case httpcache.RefusedStatus:
		return t.statusRemedies(usual)
	case httpcache.RefusedPrivate, httpcache.RefusedNoStore, httpcache.RefusedNoCache:
		return t.directiveRemedies(v.Refused, usual)
	case httpcache.RefusedMalformed:
		return []remedy{{advice: usual, ways: []func(*trial){closeQuotes}}, {advice: "send Cache-Control: public, s-maxage=60 instead of the malformed field", ways: []func(*trial){setAlone}}}
	case httpcache.RefusedNoFreshness:
		return t.freshnessRemedies(usual)
	case httpcache.RefusedOld:
		return t.ageRemedies()
	case httpcache.RefusedVary:
		return t.varyRemedies(usual)
	case httpcache.RefusedTooLarge:
		return t.bodyRemedies(usual)
	case httpcache.RefusedHeader:
		return t.headerRemedies(usual)
	case httpcache.RefusedTags:
		return t.tagRemedies(v)
	case httpcache.RefusedSelfRedirect:
		return []remedy{{advice: usual, ways: []func(*trial){answersOK}}}
	case httpcache.RefusedSetCookie:
		return []remedy{{advice: usual, ways: []func(*trial){removing("Set-Cookie", "Set-Cookie2")}}}
	case httpcache.RefusedCoding:
		return []remedy{{advice: usual, ways: []func(*trial){removing("Content-Encoding")}}}
	case httpcache.RefusedStream:
		return []remedy{{advice: usual, ways: []func(*trial){removing("Content-Type")}}}
	}
	return nil
}

// answersOK has the site answer with the page.
func answersOK(t *trial) {
	t.status = http.StatusOK
	delete(t.header, "Location")
}

func removing(names ...string) func(*trial) {
	return func(t *trial) {
		for _, name := range names {
			delete(t.header, name)
		}
	}
}

// setAlone has the site send s-maxage in Cache-Control, and no field that takes precedence.
func setAlone(t *trial) {
	removing("Cdn-Cache-Control", "Surrogate-Control")(t)
	t.header["Cache-Control"] = []string{"public, s-maxage=60"}
}

// setShared has the site send s-maxage in Cache-Control.
func setShared(t *trial) { t.header["Cache-Control"] = []string{"public, s-maxage=60"} }

func closeQuotes(t *trial) {
	for _, field := range []string{"Cache-Control", "Cdn-Cache-Control", "Surrogate-Control"} {
		for i, line := range t.header[field] {
			if httpcache.ParseDirectives([]string{line}).Malformed() {
				t.header[field][i] = line + `"`
			}
		}
	}
}

// removeDirective removes a directive from the fields that state it.
func removeDirective(h http.Header, directive string) {
	for _, field := range []string{"Cache-Control", "Cdn-Cache-Control", "Surrogate-Control"} {
		var kept []string
		for _, line := range h[field] {
			for member := range httpcache.Members(line) {
				if name, _, _ := strings.Cut(member, "="); !strings.EqualFold(strings.TrimSpace(name), directive) {
					kept = append(kept, member)
				}
			}
		}
		if len(kept) == 0 {
			delete(h, field)
		} else {
			h[field] = []string{strings.Join(kept, ", ")}
		}
	}
}

func (t *trial) statusRemedies(usual string) []remedy {
	all := []remedy{{advice: "remove must-understand", ways: []func(*trial){func(t *trial) { removeDirective(t.header, "must-understand") }}}}
	if _, set := t.by.Responses.Negative[t.status]; set {
		all = append(all, remedy{
			advice: fmt.Sprintf("give the status a window in negative of the route (%d: 10s): it is zero", t.status),
			ways:   []func(*trial){func(t *trial) { t.by.Responses.Negative[t.status] = 10 * time.Second }},
		})
	}
	if httpcache.MayBeStored(t.status) {
		all = append(all, remedy{
			advice: usual, ways: []func(*trial){func(t *trial) { t.by.Responses.Statuses = append(t.by.Responses.Statuses, t.status) }},
			carry: func(t *trial) {
				answersOK(t)
				removeDirective(t.header, "must-understand")
			},
		})
	}
	return append(all, remedy{advice: "let the site answer 200 to requests without a range, a condition and credentials: this status is never stored", ways: []func(*trial){answersOK}})
}

func (t *trial) directiveRemedies(directive, usual string) []remedy {
	_, field := httpcache.Governing(t.header)
	carry := func(t *trial) { removeDirective(t.header, directive) }
	return []remedy{
		{advice: usual, ways: []func(*trial){setShared}, carry: carry},
		{advice: "if the page is the same for all visitors, send s-maxage=60 or max-age=60 in " + field + ", which takes precedence over Cache-Control", ways: []func(*trial){func(t *trial) { t.header[http.CanonicalHeaderKey(field)] = []string{"max-age=60"} }}, carry: carry},
		{advice: "remove the directive", ways: []func(*trial){carry}},
	}
}

func (t *trial) freshnessRemedies(usual string) []remedy {
	_, field := httpcache.Governing(t.header)
	byRoute := func(t *trial) { t.by.Responses.Revalidate = time.Minute }
	return []remedy{
		{advice: usual, ways: []func(*trial){setShared, byRoute}},
		{advice: "send Cache-Control: s-maxage=60; the window of the route (<revalidate>) applies only to responses that state none", ways: []func(*trial){setShared}},
		{advice: "send max-age=60 in " + field + ", which takes precedence over Cache-Control", ways: []func(*trial){func(t *trial) { t.header[http.CanonicalHeaderKey(field)] = []string{"max-age=60"} }}},
		{advice: "give the status a window in negative of the route", ways: []func(*trial){func(t *trial) {
			t.by.Responses.Negative = map[int]time.Duration{t.status: 10 * time.Second}
		}}},
	}
}

// ageRemedies are for a response that Date or Age makes too old.
func (t *trial) ageRemedies() []remedy {
	young := removing("Age")
	const setClock = "correct the clock of the site (NTP), or the Date that it sends"
	const askSite = "a cache behind isr has kept the response: give the address of the site itself as the origin, or have that cache keep it for a shorter time"
	return []remedy{
		{advice: askSite, ways: []func(*trial){young}},
		{advice: setClock, ways: []func(*trial){setClocks}},
		{advice: setClock + "; and " + askSite, ways: []func(*trial){func(t *trial) {
			setClocks(t)
			young(t)
		}}},
	}
}

// setClocks has a site with a wrong clock send the Date of the request, and an Expires as long after it
// as before.
func setClocks(t *trial) {
	date, dated := httpcache.ParseDate(t.header.Get("Date"))
	if expires, ok := httpcache.ParseDate(t.header.Get("Expires")); ok && dated {
		t.header["Expires"] = []string{expires.Add(t.requested.Sub(date)).UTC().Format(http.TimeFormat)}
	}
	t.header["Date"] = []string{t.requested.UTC().Format(http.TimeFormat)}
}

func (t *trial) varyRemedies(usual string) []remedy {
	var names []string
	for _, n := range httpcache.NominatedBy("", t.header["Vary"]) {
		if !t.by.Mapper.Allowed(t.header)(n.Name) {
			names = append(names, n.Name)
		}
	}
	remove := removing("Vary")
	declare := func(t *trial) {
		vary := slices.Clone(t.by.Keys.Vary)
		for _, name := range names {
			if mayDeclare(name) {
				vary = append(vary, name)
			}
		}
		t.by.Keys.Vary = vary
		t.by.Mapper = cachekey.New(t.by.Keys)
	}
	learn := func(t *trial) {
		t.by.Keys.VaryAuto = true
		t.by.Mapper = cachekey.New(t.by.Keys)
	}
	return []remedy{
		{advice: usual, ways: []func(*trial){remove, declare, learn}},
		{advice: "put the header in the key (<headers: [NAME]>), best reduced to classes (headers: {NAME: [a, b]}), or remove it from Vary; it has too many values to be learned", ways: []func(*trial){remove, declare}},
		{advice: "remove " + strings.Join(names, ", ") + " from Vary: it cannot be put in the key; a Vary: Cookie means that the site reads cookies for this page, and a Vary: * that it may depend on anything", ways: []func(*trial){remove}},
	}
}

// mayDeclare reports whether a header may be declared to be in the key.
func mayDeclare(name string) bool {
	valid := name != "*"
	(&cachekey.Rules{Vary: []string{name}}).Validate(func(string, string, ...any) { valid = false })
	return valid
}

func (t *trial) bodyRemedies(usual string) []remedy {
	carry := removing("Content-Length")
	return []remedy{
		{advice: usual, ways: []func(*trial){func(t *trial) { t.by.Responses.MaxBody = MaxMaxBody }}, carry: carry},
		{advice: "turn the cache off for such responses (cache: off): max_body is at most 1GiB", ways: []func(*trial){carry}},
	}
}

func (t *trial) headerRemedies(usual string) []remedy {
	raise := func(t *trial) { t.by.Responses.MaxHeader = MaxMaxHeader }
	shorten := func(t *trial) {
		maps.DeleteFunc(t.header, func(name string, values []string) bool {
			return httpcache.HeaderSize(http.Header{name: values}) > MinMaxHeader/2 && Telling(http.Header{name: values})[name] == nil
		})
	}
	return []remedy{
		{advice: usual, ways: []func(*trial){raise}},
		{advice: "send less in the header: max_header is at most 128KiB", ways: []func(*trial){shorten}},
	}
}

func (t *trial) tagRemedies(v httpcache.Verdict) []remedy {
	raise := func(t *trial) { t.by.Responses.MaxHeader, t.by.MaxTags = MaxMaxHeader, MaxMaxTags }
	remove := removing("Cache-Groups", "Cache-Tag", "Surrogate-Key", "X-Next-Cache-Tags")
	correct := remedy{advice: "correct the tags: without one of them a purge would miss the page", ways: []func(*trial){remove}}
	if !errors.Is(v.Cause, errManyTags) {
		return []remedy{correct}
	}
	return []remedy{
		{advice: "raise <max_tags> or <max_header>, whichever the page exceeds, or send fewer tags", ways: []func(*trial){raise, remove}, carry: remove},
		{advice: "send fewer tags: max_tags is at most 2048, and max_header 128KiB", ways: []func(*trial){remove}},
	}
}

// Telling returns the fields of a response that decide about caching.
func Telling(h http.Header) http.Header {
	out := make(http.Header)
	for _, name := range []string{
		"Age", "Cache-Control", "Cache-Groups", "Cache-Status", "Cache-Tag", "Cdn-Cache-Control", "Content-Encoding", "Content-Length", "Content-Type", "Date", "Etag", "Expires",
		"Last-Modified", "Location", "Pragma", "Retry-After", "Surrogate-Control", "Surrogate-Key", "Vary", "X-Next-Cache-Tags",
	} {
		if values := h[name]; len(values) > 0 {
			out[name] = slices.Clone(values)
		}
	}
	for _, name := range []string{"Set-Cookie", "Set-Cookie2"} {
		for _, line := range h[name] {
			cookie, _, _ := strings.Cut(line, "=")
			out.Add(name, strings.TrimSpace(cookie)+"=…")
		}
	}
	return out
}
