package isr

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

func request(target, header string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, target, http.NoBody)
	for line := range strings.SplitSeq(header, "\n") {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Add(name, value)
		}
	}
	return r
}

func TestRouteValidate(t *testing.T) {
	good := Route{Vary: []string{"RSC"}, Query: []string{"page"}, IgnoreCookies: []string{"*"}, TenantHeader: "X-Site"}
	if err := good.Validate(); err != nil {
		t.Errorf("a good route: %v", err)
	}
	for _, bad := range []Route{
		{Revalidate: -1},
		{Vary: []string{"cookie"}},
		{Vary: []string{"Authorization"}},
		{Vary: []string{"no such"}},
		{Query: []string{""}},
		{IgnoreCookies: []string{""}},
		{TenantHeader: "no:such"},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

func TestVaryOnCookies(t *testing.T) {
	header := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {"Cookie"}}
	for _, c := range []struct {
		ignored, refused string
	}{
		{"theme", httpcache.RefusedVary},
		{"*", ""},
	} {
		if v := newRouteRules(Route{IgnoreCookies: []string{c.ignored}}).judge(store.Key{}, http.StatusOK, header, 1000, nil, time.Time{}); v.Refused != c.refused {
			t.Errorf("cookie %q ignored: refused %q, expected %q", c.ignored, v.Refused, c.refused)
		}
	}
}

// A route may reduce a header to its absence, and take back names of package wellknown.
func TestRouteValidateKeys(t *testing.T) {
	for _, good := range []Route{
		{KeyClasses: []KeyClass{
			{Header: "HX-Request", Values: []string{"", "true"}},
			{Header: "Turbo-Frame", Values: []string{""}},
			{Header: "X-Inertia", Values: []string{"", "*"}},
			{Header: "X-Part", Values: []string{"", "nav", "*"}},
			{Header: "X-Kind", Values: []string{"a", "*"}},
		}},
		{KeyClasses: []KeyClass{{Cookie: "cookieconsent_status", Values: []string{"deny", "allow"}}}},
		{Query: []string{"utm_campaign"}},
		{IgnoreCookies: []string{"!OptanonConsent"}},
		{IgnoreCookies: []string{"!Optanon*"}},
		{IgnoreCookies: []string{"!session", "*"}},
	} {
		if err := good.Validate(); err != nil {
			t.Errorf("%+v: %v", good, err)
		}
	}
	for _, bad := range []Route{
		{KeyClasses: []KeyClass{{Cookie: "a", Values: []string{"", "b"}}}},
		{KeyClasses: []KeyClass{{Header: "X-A", Values: []string{"b", ""}}}},
		{KeyClasses: []KeyClass{{Header: "Accept-Language", Values: []string{"", "en"}}}},
		{IgnoreCookies: []string{"!"}},
	} {
		if bad.Validate() == nil {
			t.Errorf("%+v is accepted", bad)
		}
	}
}

// An explanation has the key or the bypass of the request, and each bypass has a part.
func TestExplainedKeys(t *testing.T) {
	rt := Route{Query: []string{"utm_campaign"}, IgnoreCookies: []string{"!OptanonConsent"}, KeyClasses: []KeyClass{{Header: "X-Part", Values: []string{"", "nav", "*"}}}}
	for _, tt := range []struct{ target, header, key, bypass string }{
		{"http://h/?utm_campaign=5&gclid=1", "", "h/?utm_campaign=5", ""},
		{"http://h/?a=5", "", "", "query"},
		{"http://h/", "Cookie: OptanonAlertBoxClosed=1", "h/", ""},
		{"http://h/", "Cookie: OptanonConsent=1", "", "cookie"},
		{"http://h/", "X-Part: nav", "h/#x-part=nav", ""},
		{"http://h/", "X-Part: foot", "", "header"},
	} {
		e, err := rt.Explain(request(tt.target, tt.header))
		bypasses := slices.ContainsFunc(e.Parts, func(p Part) bool { return p.Use == PartBypass })
		if err != nil || e.Key.Text != tt.key || e.Bypass != tt.bypass || bypasses != (tt.bypass != "") || (e.Render != nil) != (tt.key != "") {
			t.Errorf("%s %s: explained as %+v, %v", tt.target, tt.header, e, err)
		}
	}
}

func TestVaryOnClasses(t *testing.T) {
	for vary, refused := range map[string]string{
		"Accept-Language, Cookie, X-Device": "",
		"User-Agent":                        httpcache.RefusedVary,
		"Traceparent":                       httpcache.RefusedVary,
	} {
		rt := Route{Vary: []string{"RSC"}, KeyClasses: []KeyClass{
			{Header: "accept-language", Values: []string{"en", "de"}},
			{Cookie: "ab", Values: []string{"a", "b"}},
			{Header: "X-Device", Values: []string{"desktop", "mobile"}},
		}}
		rt.Forward = []string{"Traceparent"}
		h := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {vary}}
		if v := newRouteRules(rt).judge(store.Key{}, http.StatusOK, h, 1000, nil, time.Time{}); v.Refused != refused {
			t.Errorf("Vary: %s is refused as %q, want %q", vary, v.Refused, refused)
		}
	}
}

// A vectorHeader is a header of spec/vectors/storable.json.
type vectorHeader map[string][]vectorLine

// A vectorLine is text, {"base64": …}, or {"repeat": …, "times": …}.
type vectorLine string

func (l *vectorLine) UnmarshalJSON(text []byte) error {
	var repeated struct {
		Repeat string `json:"repeat"`
		Times  int    `json:"times"`
	}
	if json.Unmarshal(text, &repeated) == nil && repeated.Times > 0 {
		*l = vectorLine(strings.Repeat(repeated.Repeat, repeated.Times))
		return nil
	}
	return (*vocabulary.HeaderValue)(l).UnmarshalJSON(text)
}

func (h vectorHeader) header() http.Header {
	header := make(http.Header, len(h))
	for name, lines := range h {
		for _, l := range lines {
			header.Add(name, string(l))
		}
	}
	return header
}

// storableVectors is spec/vectors/storable.json; see spec/README.md.
func storableVectors(t *testing.T, lists any) {
	t.Helper()
	text, err := os.ReadFile("spec/vectors/storable.json")
	if err == nil {
		err = json.Unmarshal(text, lists)
	}
	if err != nil {
		t.Fatal(err)
	}
}

type storableResponse struct {
	Name   string `json:"name"`
	Config struct {
		OptIn        string `json:"opt_in"`
		Stale        int64  `json:"stale_seconds"`
		StaleIfError int64  `json:"stale_if_error_seconds"`
		MaxBody      int64  `json:"max_body_bytes"`
		MaxHeader    int64  `json:"max_header_bytes"`
		MaxTags      int    `json:"max_tags"`
	} `json:"config"`
	Requested int64        `json:"requested_ms"`
	Status    int          `json:"status"`
	Headers   vectorHeader `json:"headers"`
	storableAnswer
}

type storableAnswer struct {
	Verdict      string   `json:"verdict"`
	Reason       string   `json:"reason"`
	Withdraws    bool     `json:"withdraws"`
	Fresh        int64    `json:"fresh_seconds"`
	Stale        int64    `json:"stale_seconds"`
	StaleIfError int64    `json:"stale_if_error_seconds"`
	Age          int64    `json:"age_seconds"`
	Tags         []string `json:"tags"`
}

func (a storableAnswer) equal(b storableAnswer) bool {
	return a.Verdict == b.Verdict && a.Reason == b.Reason && a.Withdraws == b.Withdraws && a.Fresh == b.Fresh &&
		a.Stale == b.Stale && a.StaleIfError == b.StaleIfError && a.Age == b.Age && slices.Equal(a.Tags, b.Tags)
}

// answer judges the response of a vector as a route does.
func (v *storableResponse) answer() storableAnswer {
	rt := Route{Stale: time.Duration(v.Config.Stale) * time.Second, StaleIfError: time.Duration(v.Config.StaleIfError) * time.Second}
	if v.Config.OptIn == "strict" {
		rt.OptIn = OptInStrict
	}
	p := newRouteRules(rt)
	if v.Config.MaxHeader > 0 {
		p.rules.MaxHeader = v.Config.MaxHeader
	}
	if v.Config.MaxTags > 0 {
		p.maxTags = v.Config.MaxTags
	}
	maxBody := int64(DefaultMaxBody)
	if v.Config.MaxBody > 0 {
		maxBody = v.Config.MaxBody
	}
	var requested time.Time
	if v.Requested > 0 {
		requested = time.UnixMilli(v.Requested).UTC()
	}
	h := v.Headers.header()
	verdict := p.judge(store.Key{Text: "example.com/a"}, v.Status, h, maxBody, nil, requested)
	a := storableAnswer{Withdraws: verdict.Withdraws, Age: int64(httpcache.InitialAge(h, requested) / time.Second)}
	switch {
	case verdict.Failed:
		a.Verdict = "failed"
	case verdict.Refused != "":
		a.Verdict, a.Reason = "refused", verdict.Refused
	default:
		a.Verdict, a.Tags = "stored", verdict.Tags
		a.Fresh, a.Stale = int64(verdict.Revalidate/time.Second), int64(verdict.Stale/time.Second)
		a.StaleIfError = int64(p.rules.StaleIfErrorOf(200, httpcache.StoredHeader(h)) / time.Second)
	}
	return a
}

// TestStorableResponses compares the judgement of a route with spec/vectors/storable.json.
func TestStorableResponses(t *testing.T) {
	var f struct {
		Responses []storableResponse `json:"responses"`
	}
	storableVectors(t, &f)
	for _, v := range f.Responses {
		if got := v.answer(); !got.equal(v.storableAnswer) {
			t.Errorf("%s: status %d, %.300v: got %+v, want %+v", v.Name, v.Status, v.Headers, got, v.storableAnswer)
		}
	}
}

// TestStorableFields compares what an entry keeps of a header with spec/vectors/storable.json.
func TestStorableFields(t *testing.T) {
	var f struct {
		Fields []struct {
			Name    string       `json:"name"`
			Headers vectorHeader `json:"headers"`
			Stored  vectorHeader `json:"stored"`
			ETag    string       `json:"etag"`
		} `json:"fields"`
	}
	storableVectors(t, &f)
	for _, v := range f.Fields {
		h := v.Headers.header()
		stored, etag := httpcache.StoredHeader(h), httpcache.ETagOf(h)
		if want := v.Stored.header(); !maps.EqualFunc(stored, want, slices.Equal) {
			t.Errorf("%s: stored %.300q, want %.300q", v.Name, stored, want)
		}
		if etag != v.ETag {
			t.Errorf("%s: entity tag %.300q, want %.300q", v.Name, etag, v.ETag)
		}
	}
}

// TestStorableRequests compares the projection of requests with spec/vectors/storable.json.
func TestStorableRequests(t *testing.T) {
	var f struct {
		Requests []struct {
			Name          string       `json:"name"`
			Method        string       `json:"method"`
			Target        string       `json:"target"`
			Headers       vectorHeader `json:"headers"`
			IgnoreCookies []string     `json:"ignore_cookies"`
			Bypass        string       `json:"bypass"`
			Key           string       `json:"key"`
		} `json:"requests"`
	}
	storableVectors(t, &f)
	for _, v := range f.Requests {
		p := newRouteRules(Route{Query: []string{"page"}, IgnoreCookies: v.IgnoreCookies})
		r := httptest.NewRequest(v.Method, "http://example.com"+v.Target, nil)
		for name, lines := range v.Headers.header() {
			r.Header[textproto.CanonicalMIMEHeaderKey(name)] = lines
		}
		k, bypass, err := p.keys.Key(r)
		if err != nil || bypass != v.Bypass || k.Text != v.Key {
			t.Errorf("%s: key %q, bypass %q (%v); want %q, %q", v.Name, k.Text, bypass, err, v.Key, v.Bypass)
		}
	}
}

// A page that outlives purge marks may have been purged hard, and nothing knows of that any more:
// neither stale-if-error nor a pin that has ended lets visitors have it instead of a failure.
func TestServableOnErrorOutlivesMarks(t *testing.T) {
	const lifetime = 90 * 24 * time.Hour
	now := time.Now()
	for name, c := range map[string]struct {
		age    time.Duration
		pinned time.Duration // when its pin ended, before now; 0: it was never pinned
		marks  time.Duration
		want   bool
	}{
		"within the life of marks":         {age: lifetime / 2, marks: lifetime, want: true},
		"beyond it":                        {age: lifetime + time.Hour, marks: lifetime},
		"in the margin of its last day":    {age: lifetime - time.Hour, marks: lifetime},
		"nothing was ever purged":          {age: lifetime + time.Hour, want: true},
		"pinned, within the life of marks": {age: lifetime / 2, pinned: time.Hour, marks: lifetime, want: true},
		"pinned, beyond it":                {age: lifetime + time.Hour, pinned: time.Hour, marks: lifetime},
	} {
		t.Run(name, func(t *testing.T) {
			e := &store.Entry{
				GeneratedAt: now.Add(-c.age), Revalidate: time.Minute, Status: http.StatusOK, PurgeSeq: 5,
				Header: http.Header{"Cache-Control": {"max-age=60, stale-if-error=31536000"}},
			}
			if c.pinned > 0 {
				e.PinnedUntil = now.Add(-c.pinned)
			}
			purges := store.PurgeState{MarkLifetime: c.marks}
			state := store.Freshness(e, purges, now)
			if got := new(routeRules).servableOnError(e, state, purges, now); state != store.Expired || got != c.want {
				t.Errorf("%s, %v; want expired, %v", state, got, c.want)
			}
		})
	}
}

// Each detail of Cache-Status, and each value of its fwd, has a description.
func TestEveryDetailIsDescribed(t *testing.T) {
	words := 0
	for file, prefix := range map[string]string{
		"answer.go": "detail", "internal/fill/outcome.go": "Detail", "internal/cachekey/key.go": "Bypass", "internal/httpcache/storable.go": "Refused", "internal/httpcache/cachestatus.go": "Forward",
	} {
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			spec, ok := n.(*ast.ValueSpec)
			if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, prefix) {
				return true
			}
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.STRING {
				word, _ := strconv.Unquote(value.Value)
				words++
				if d, ok := details.Of(word); !ok || d.Meaning == "" {
					t.Errorf("%s in %s: %q has no description in internal/details", spec.Names[0].Name, file, word)
				}
			}
			return true
		})
	}
	if words < 45 {
		t.Errorf("found only %d details: their constants have moved", words)
	}
	if d, ok := details.Of(""); ok {
		t.Errorf("an empty detail means %+v", d)
	}
}

func TestValidateReject(t *testing.T) {
	for _, bad := range []Reject{
		{SmallerThan: -0.1},
		{SmallerThan: 1.01},
		{Without: []string{""}},
		{With: []string{strings.Repeat("x", 1025)}},
		{With: []string{"\xff"}},
		{With: make([]string, 33)},
		{With: []string{"a"}, Without: []string{"a"}},
		{LostHeaders: []string{"a b"}},
	} {
		if err := (Route{Reject: bad}).Validate(); err == nil || !strings.HasPrefix(err.Error(), "isr: Reject") {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func FuzzMinSeq(f *testing.F) {
	for _, s := range []string{"17", "-1", "+1", "007", "9223372036854775808", "1_0", "", " 1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		seq, err := parseMinSeq([]string{s})
		if err == nil && (seq < 0 || strconv.FormatInt(seq, 10) != strings.TrimLeft(s, "0") && seq != 0 || strings.Trim(s, "0123456789") != "") {
			t.Fatalf("%q is %d", s, seq)
		}
	})
}
