package storable_test

import (
	"cmp"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/textproto"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/cachekey"
	"github.com/facetheory/isr/internal/httpcache"
	"github.com/facetheory/isr/internal/storable"
	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/store"
)

// newJudge returns a judge of a route with rules of keys.
func newJudge(keys cachekey.Rules) *storable.Judge {
	return storable.New(storable.Rules{Keys: keys, MaxTags: 1, Responses: httpcache.Rules{MaxBody: 1000}})
}

func TestVaryOnCookies(t *testing.T) {
	header := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {"Cookie"}}
	for _, c := range []struct {
		ignored, refused string
	}{
		{"theme", httpcache.RefusedVary},
		{"*", ""},
	} {
		if v := newJudge(cachekey.Rules{IgnoreCookies: []string{c.ignored}}).Verdict(store.Key{}, http.StatusOK, header, nil, time.Time{}); v.Refused != c.refused {
			t.Errorf("cookie %q ignored: refused %q, expected %q", c.ignored, v.Refused, c.refused)
		}
	}
}

func TestVaryOnClasses(t *testing.T) {
	for vary, refused := range map[string]string{
		"Accept-Language, Cookie, X-Device": "",
		"User-Agent":                        httpcache.RefusedVary,
		"Traceparent":                       httpcache.RefusedVary,
	} {
		rules := cachekey.Rules{Vary: []string{"RSC"}, Classes: []cachekey.Class{
			{Header: "accept-language", Values: []string{"en", "de"}},
			{Cookie: "ab", Values: []string{"a", "b"}},
			{Header: "X-Device", Values: []string{"desktop", "mobile"}},
		}}
		rules.Forward = []string{"Traceparent"}
		h := http.Header{"Cache-Control": {"s-maxage=60"}, "Vary": {vary}}
		if v := newJudge(rules).Verdict(store.Key{}, http.StatusOK, h, nil, time.Time{}); v.Refused != refused {
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
	text, err := os.ReadFile("../../spec/vectors/storable.json")
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

// answer judges the response of a vector as a route does with the defaults of the cache.
func (v *storableResponse) answer() storableAnswer {
	j := storable.New(storable.Rules{
		MaxTags: cmp.Or(v.Config.MaxTags, isr.DefaultMaxTags),
		Responses: httpcache.Rules{
			Stale: time.Duration(v.Config.Stale) * time.Second, StaleIfError: time.Duration(v.Config.StaleIfError) * time.Second,
			Strict: v.Config.OptIn == "strict", MaxHeader: v.Config.MaxHeader, MaxBody: cmp.Or(v.Config.MaxBody, isr.DefaultMaxBody),
		},
	})
	var requested time.Time
	if v.Requested > 0 {
		requested = time.UnixMilli(v.Requested).UTC()
	}
	h := v.Headers.header()
	verdict := j.Verdict(store.Key{Text: "example.com/a"}, v.Status, h, nil, requested)
	a := storableAnswer{Withdraws: verdict.Withdraws, Age: int64(httpcache.InitialAge(h, requested) / time.Second)}
	switch {
	case verdict.Failed:
		a.Verdict = "failed"
	case verdict.Refused != "":
		a.Verdict, a.Reason = "refused", verdict.Refused
	default:
		a.Verdict, a.Tags = "stored", verdict.Tags
		a.Fresh, a.Stale = int64(verdict.Revalidate/time.Second), int64(verdict.Stale/time.Second)
		a.StaleIfError = int64(j.Responses.StaleIfErrorOf(200, httpcache.StoredHeader(h)) / time.Second)
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
		p := cachekey.New(cachekey.Rules{Query: []string{"page"}, IgnoreCookies: v.IgnoreCookies})
		r := httptest.NewRequest(v.Method, "http://example.com"+v.Target, nil)
		for name, lines := range v.Headers.header() {
			r.Header[textproto.CanonicalMIMEHeaderKey(name)] = lines
		}
		k, bypass, err := p.Key(r)
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
			if got := new(storable.Judge).ServableOnError(e, state, purges, now); state != store.Expired || got != c.want {
				t.Errorf("%s, %v; want expired, %v", state, got, c.want)
			}
		})
	}
}
