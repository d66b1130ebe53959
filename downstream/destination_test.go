package downstream_test

import (
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/cloudfront"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/downstream"
	"github.com/facetheory/isr/store"
)

const secret = "s3cr3t-token"

func token() (string, error) { return secret, nil }

// A cdn is a server that speaks the purge protocol of one kind of destination.
type cdn struct {
	*httptest.Server

	mu       sync.Mutex
	requests []string // "METHOD host path | header: value | body"; guarded by mu
	answer   http.HandlerFunc
}

// A kind is how a destination is tested: how it is made, and what a success looks like.
type kind struct {
	open    func(t *testing.T, url string) downstream.Destination
	success http.HandlerFunc
	shown   []string // headers that requests are recorded with
}

var kinds = map[string]kind{
	"fastly": {
		open: func(_ *testing.T, url string) downstream.Destination {
			return downstream.NewFastly("SU1Z0isxPaozGVKXdv0eY", url, token)
		},
		success: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"status":"ok","id":"108-1391560174-974124"}`)
		},
		shown: []string{"Fastly-Key", "Fastly-Soft-Purge", "Surrogate-Key"},
	},
	"cloudflare": {
		open: func(_ *testing.T, url string) downstream.Destination {
			return downstream.NewCloudflare("023e105f4ecef8ad9ca31a8372d0c353", url, token)
		},
		success: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"success":true,"errors":[],"messages":[],"result":{"id":"023e105f4ecef8ad9ca31a8372d0c353"}}`)
		},
		shown: []string{"Authorization", "Content-Type"},
	},
	"isr": {
		open: func(_ *testing.T, url string) downstream.Destination { return downstream.NewISR(url, token) },
		success: func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, `{"receipt":42}`+"\n")
		},
		shown: []string{"Authorization", "Content-Type"},
	},
	"varnish": {
		open: func(_ *testing.T, url string) downstream.Destination { return downstream.NewVarnish(url, token) },
		success: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Purged", "1")
		},
		shown: []string{"Authorization", "Soft-Purge", "Xkey-Purge", "Xkey-Softpurge", "X-Ban-Url"},
	},
	"cloudfront": {
		open: func(t *testing.T, url string) downstream.Destination {
			return downstream.NewCloudFront(cloudFrontAt(url), "EDFDVBD632BHDS5", true)
		},
		success: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/xml")
			w.WriteHeader(http.StatusCreated)
			_, _ = io.WriteString(w, `<?xml version="1.0"?><Invalidation xmlns="http://cloudfront.amazonaws.com/doc/2020-05-31/"><CreateTime>2026-01-02T03:04:05Z</CreateTime><Id>I2J0I21PCUYOIK</Id><Status>InProgress</Status></Invalidation>`)
		},
	},
}

// cloudFrontAt returns the client of the AWS SDK, without its own retries.
func cloudFrontAt(url string) *cloudfront.Client {
	return cloudfront.New(cloudfront.Options{
		Region: "us-east-1", BaseEndpoint: &url, Credentials: credentials.NewStaticCredentialsProvider("id", secret, ""),
		Retryer: aws.NopRetryer{},
	})
}

// newCDN starts a server whose answers can be replaced.
func newCDN(t *testing.T, k kind) *cdn {
	t.Helper()
	c := &cdn{answer: k.success}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Errorf("read request: %v", err)
		}
		parts := []string{r.Method + " " + strings.Replace(r.Host, r.Context().Value(http.LocalAddrContextKey).(fmt.Stringer).String(), "", 1) + r.URL.RequestURI()}
		for _, name := range k.shown {
			if v := r.Header.Get(name); v != "" {
				parts = append(parts, name+": "+v)
			}
		}
		if len(body) > 0 {
			parts = append(parts, string(body))
		}
		c.mu.Lock()
		c.requests = append(c.requests, strings.Join(parts, " | "))
		answer := c.answer
		c.mu.Unlock()
		answer(w, r)
	}))
	t.Cleanup(c.Close)
	return c
}

// received returns the requests since the last call.
func (c *cdn) received() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.requests
	c.requests = nil
	return all
}

func (c *cdn) answers(h http.HandlerFunc) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answer = h
}

// status answers with a status and headers.
func status(code int, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, "no luck with "+secret)
	}
}

func tag(value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeTag, Value: value}
}

func page(value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeKey, Value: value}
}

func prefix(value string) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgePrefix, Value: value}
}

// TestFailures: how every destination fails, in all the ways that HTTP has, and that it
// succeeds afterwards.
func TestFailures(t *testing.T) {
	t.Parallel()
	batch := downstream.Batch{ID: "b1", Targets: []store.PurgeTarget{tag("product-1")}}
	for name, k := range kinds {
		for failure, test := range map[string]struct {
			answer    http.HandlerFunc
			permanent bool
			busy      bool
			after     time.Duration
			skip      string // a kind that has no such failure
		}{
			"rate limit":                {status(429, "Retry-After", "7"), false, true, 7 * time.Second, ""},
			"rate limit without time":   {status(429), false, true, 0, ""},
			"rate limit of ten years":   {status(429, "Retry-After", "315360000"), false, true, time.Hour, ""},
			"rate limit, malformed":     {status(429, "Retry-After", "soon"), false, true, 0, ""},
			"internal error":            {status(500), false, false, 0, ""},
			"unavailable":               {status(503, "Retry-After", "3"), false, false, 3 * time.Second, ""},
			"wrong token":               {status(401), false, false, time.Minute, "cloudfront"},
			"unknown service":           {status(404), false, false, time.Minute, "cloudfront"},
			"rejected":                  {status(400), true, false, 0, "cloudfront"},
			"hang":                      {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, false, false, 0, ""},
			"closed":                    {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, false, false, 0, ""},
			"ends within the response":  {partial, false, false, 0, "varnish"},
			"endless":                   {endless, false, false, 0, "cloudfront"},
			"another page":              {another, false, false, time.Minute, "cloudfront fastly cloudflare"},
			"another page of that host": {another, false, false, 0, "cloudfront fastly isr varnish"},
		} {
			if strings.Contains(test.skip, name) {
				continue
			}
			t.Run(name+"/"+failure, func(t *testing.T) {
				t.Parallel()
				server := newCDN(t, k)
				server.answers(test.answer)
				d := k.open(t, server.URL)
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				if failure == "hang" {
					ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
				}
				err := d.Deliver(ctx, batch)
				cancel()
				check(t, err, test.permanent, test.busy, test.after)
				server.answers(k.success)
				if err := d.Deliver(t.Context(), batch); err != nil {
					t.Errorf("the next delivery: %v", err)
				}
			})
		}
	}
}

// check checks the class of an error, and that the token is not in it.
func check(t *testing.T, err error, permanent, busy bool, after time.Duration) {
	t.Helper()
	if err == nil {
		t.Fatal("Deliver: no error")
	}
	if strings.Contains(err.Error(), secret) {
		t.Errorf("the error tells the token: %v", err)
	}
	if _, ok := errors.AsType[*downstream.PermanentError](err); ok != permanent {
		t.Fatalf("Deliver: %v (%T), permanent: %t", err, err, ok)
	}
	if permanent {
		return
	}
	retry, ok := errors.AsType[*downstream.RetryError](err)
	if !ok {
		t.Fatalf("Deliver: %v (%T), want a RetryError", err, err)
	}
	if retry.Busy != busy || retry.After != after {
		t.Errorf("Deliver: %v, busy %t, after %s; want %t, %s", err, retry.Busy, retry.After, busy, after)
	}
}

func partial(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "100")
	_, _ = io.WriteString(w, `{"succ`)
}

func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("X-Purged", "1")
	chunk := []byte(strings.Repeat(" ", 64<<10))
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}

// another is a page of a site that was reached instead of the API.
func another(w http.ResponseWriter, _ *http.Request) {
	_, _ = io.WriteString(w, "<!doctype html><title>Welcome</title>")
}

// TestRedirects: the token is not sent to where a redirect points.
func TestRedirects(t *testing.T) {
	t.Parallel()
	for name, k := range kinds {
		if name == "cloudfront" {
			continue // the AWS SDK signs each request for its host
		}
		thief := newCDN(t, k)
		server := newCDN(t, k)
		server.answers(func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, thief.URL, http.StatusTemporaryRedirect)
		})
		err := k.open(t, server.URL).Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: []store.PurgeTarget{tag("a")}})
		check(t, err, false, false, time.Minute)
		if !strings.Contains(err.Error(), "redirect") {
			t.Errorf("%s: %v, want it to say that redirects are not followed", name, err)
		}
		if got := thief.received(); len(got) > 0 {
			t.Errorf("%s: the redirect was followed: %q", name, got)
		}
	}
}

// TestTokenFails: without its token nothing is sent.
func TestTokenFails(t *testing.T) {
	t.Parallel()
	server := newCDN(t, kinds["fastly"])
	d := downstream.NewFastly("S1", server.URL, func() (string, error) { return "", errors.New("open token file: gone") })
	err := d.Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: []store.PurgeTarget{tag("a")}})
	check(t, err, false, false, time.Minute)
	if got := server.received(); len(got) > 0 {
		t.Errorf("sent %q", got)
	}
}

// TestRequests: what each destination sends for each kind of target.
func TestRequests(t *testing.T) {
	t.Parallel()
	everything := store.PurgeTarget{Kind: store.PurgeSite}
	const fastly, cf = "POST /service/SU1Z0isxPaozGVKXdv0eY", "POST /zones/023e105f4ecef8ad9ca31a8372d0c353/purge_cache | Authorization: Bearer s3cr3t-token | Content-Type: application/json | "
	const key, auth = " | Fastly-Key: s3cr3t-token", " | Authorization: Bearer s3cr3t-token"
	const isr = "POST /-/purge | Authorization: Bearer s3cr3t-token | Content-Type: application/json | "
	for name, test := range map[string]struct {
		targets []store.PurgeTarget
		hard    bool
		want    map[string][]string
	}{
		"tags": {[]store.PurgeTarget{tag("b"), tag("a"), tag("b")}, false, map[string][]string{
			"fastly":     {fastly + "/purge" + key + " | Fastly-Soft-Purge: 1 | Surrogate-Key: a b"},
			"cloudflare": {cf + `{"tags":["a","b"]}`},
			"isr":        {isr + `{"targets":[{"tag":"b"},{"tag":"a"}],"mode":"soft"}`},
			"varnish":    {"PURGE /" + auth + " | Xkey-Softpurge: a b"},
			"cloudfront": {"#a #b"},
		}},
		"hard": {[]store.PurgeTarget{tag("a"), page("example.com/news?page=2#rsc=1"), prefix("example.com/news?page=2#")}, true, map[string][]string{
			"fastly":     {fastly + "/purge" + key + " | Surrogate-Key: a", "POST /purge/example.com/news?page=2" + key},
			"cloudflare": {cf + `{"tags":["a"]}`, cf + `{"files":["https://example.com/news?page=2"]}`},
			"isr":        {isr + `{"targets":[{"tag":"a"},{"url":"example.com/news?page=2#rsc=1"},{"prefix":"example.com/news?page=2#"}],"mode":"hard"}`},
			"varnish":    {"PURGE /" + auth + " | Xkey-Purge: a", "PURGE example.com/news?page=2" + auth},
			"cloudfront": {"#a /news?page=2"},
		}},
		"soft page": {[]store.PurgeTarget{page("example.com/")}, false, map[string][]string{
			"fastly":     {"POST /purge/example.com/" + key + " | Fastly-Soft-Purge: 1"},
			"cloudflare": {cf + `{"files":["https://example.com/"]}`},
			"isr":        {isr + `{"targets":[{"url":"example.com/"}],"mode":"soft"}`},
			"varnish":    {"PURGE example.com/" + auth + " | Soft-Purge: 1"},
			"cloudfront": {"/"},
		}},
		"prefixes": {[]store.PurgeTarget{prefix("example.com/blog/"), prefix("example.com/a/b"), prefix("b.example/p?q=")}, true, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"prefixes":["b.example/p","example.com/a","example.com/blog"]}`},
			"isr":        {isr + `{"targets":[{"prefix":"example.com/blog/"},{"prefix":"example.com/a/b"},{"prefix":"b.example/p?q="}],"mode":"hard"}`},
			"varnish":    {"BAN /" + auth + ` | X-Ban-Url: ^b\.example/p\?q=`, "BAN /" + auth + ` | X-Ban-Url: ^example\.com/a/b`, "BAN /" + auth + ` | X-Ban-Url: ^example\.com/blog/`},
			"cloudfront": {"/a/b* /blog/* /p?q=*"},
		}},
		"host": {[]store.PurgeTarget{prefix("example.com/")}, false, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"hosts":["example.com"]}`},
			"isr":        {isr + `{"targets":[{"prefix":"example.com/"}],"mode":"soft"}`},
			"varnish":    {"BAN /" + auth + ` | X-Ban-Url: ^example\.com/`},
			"cloudfront": {"/*"},
		}},
		"everything": {[]store.PurgeTarget{tag("a"), everything}, false, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"purge_everything":true}`},
			"isr":        {isr + `{"targets":[{"tag":"a"},{"all":true}],"mode":"soft"}`},
			"varnish":    {"BAN /" + auth + " | X-Ban-Url: ."},
			"cloudfront": {"/*"},
		}},
		"tenants": {[]store.PurgeTarget{{Kind: store.PurgeTag, Tenant: "acme", Value: "a"}, {Kind: store.PurgeTenant, Tenant: "beta"}, tag("a")}, false, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"purge_everything":true}`},
			"isr":        {isr + `{"targets":[{"tenant":"beta"},{"tag":"a"}],"mode":"soft"}`, isr + `{"targets":[{"tag":"a"}],"mode":"soft","tenant":"acme"}`},
			"varnish":    {"BAN /" + auth + " | X-Ban-Url: ."},
			"cloudfront": {"/*"},
		}},
		"half a host": {[]store.PurgeTarget{prefix("exam")}, true, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"purge_everything":true}`},
			"isr":        {isr + `{"targets":[{"prefix":"exam"}],"mode":"hard"}`},
			"varnish":    {"BAN /" + auth + " | X-Ban-Url: ."},
			"cloudfront": {"/*"},
		}},
		"a tag that no header could carry": {[]store.PurgeTarget{tag("two words")}, true, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"purge_everything":true}`},
			"isr":        {isr + `{"targets":[{"tag":"two words"}],"mode":"hard"}`},
			"varnish":    {"BAN /" + auth + " | X-Ban-Url: ."},
			"cloudfront": {"/*"},
		}},
		"characters with a meaning": {[]store.PurgeTarget{prefix(`example.com/a" || obj.status != "/.*`), page("example.com/a*")}, true, map[string][]string{
			"fastly":     {fastly + "/purge_all" + key},
			"cloudflare": {cf + `{"prefixes":["example.com/a\" || obj.status != \""]}`, cf + `{"files":["https://example.com/a*"]}`},
			"isr":        {isr + `{"targets":[{"prefix":"example.com/a\" || obj.status != \"/.*"},{"url":"example.com/a*"}],"mode":"hard"}`},
			"varnish":    {"BAN /" + auth + ` | X-Ban-Url: ^example\.com/a%22%20\|\|%20obj\.status%20!=%20%22/\.\*`, "PURGE example.com/a*" + auth},
			"cloudfront": {`/a" || obj.status != "/.%2A* /a%2A`},
		}},
	} {
		for name2, k := range kinds {
			t.Run(name+"/"+name2, func(t *testing.T) {
				t.Parallel()
				server := newCDN(t, k)
				if err := k.open(t, server.URL).Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: test.targets, Hard: test.hard}); err != nil {
					t.Fatal(err)
				}
				got := server.received()
				if name2 == "cloudfront" {
					for i, r := range got {
						_, paths := invalidation(t, r)
						got[i] = strings.Join(paths, " ")
					}
				}
				if d := cmp.Diff(test.want[name2], got); d != "" {
					t.Errorf("requests (-want +got):\n%s", d)
				}
			})
		}
	}
}

// invalidation returns the reference and the paths of a recorded invalidation.
func invalidation(t *testing.T, request string) (reference string, paths []string) {
	t.Helper()
	line, body, ok := strings.Cut(request, " | ")
	if !ok || line != "POST /2020-05-31/distribution/EDFDVBD632BHDS5/invalidation" {
		t.Fatalf("unexpected request %q", request)
	}
	var in struct {
		CallerReference string
		Paths           struct {
			Quantity int
			Items    struct{ Path []string }
		}
	}
	if err := xml.Unmarshal([]byte(body), &in); err != nil {
		t.Fatal(err)
	}
	if in.Paths.Quantity != len(in.Paths.Items.Path) {
		t.Errorf("quantity %d of %d paths", in.Paths.Quantity, len(in.Paths.Items.Path))
	}
	return in.CallerReference, in.Paths.Items.Path
}

// TestLargeBatches: no request has more than the API allows, and everything is sent.
func TestLargeBatches(t *testing.T) {
	t.Parallel()
	var tags []store.PurgeTarget
	for i := range 2500 {
		tags = append(tags, tag(fmt.Sprintf("tag-%04d", i)))
	}
	count := map[string]func(request string) int{
		"fastly":     func(r string) int { return strings.Count(r, "tag-") },
		"cloudflare": func(r string) int { return strings.Count(r, "tag-") },
		"isr":        func(r string) int { return strings.Count(r, "tag-") },
		"varnish":    func(r string) int { return strings.Count(r, "tag-") },
		"cloudfront": func(r string) int { return strings.Count(r, "<Path>#tag-") },
	}
	most := map[string]int{"fastly": 256, "cloudflare": 100, "isr": store.MaxPurgeTargets, "varnish": 64, "cloudfront": 1000}
	for name, k := range kinds {
		server := newCDN(t, k)
		if err := k.open(t, server.URL).Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: tags}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		sum := 0
		for _, r := range server.received() {
			n := count[name](r)
			if n > most[name] || n == 0 {
				t.Errorf("%s: %d tags in one request, at most %d are allowed", name, n, most[name])
			}
			sum += n
		}
		if sum != len(tags) {
			t.Errorf("%s: sent %d of %d tags", name, sum, len(tags))
		}
	}
}

// TestPartialSuccess: a failure after the first of several requests is an error, and the
// repetition sends all of them again.
func TestPartialSuccess(t *testing.T) {
	t.Parallel()
	batch := downstream.Batch{ID: "b1", Targets: []store.PurgeTarget{tag("a"), page("example.com/a")}}
	for name, k := range kinds {
		if name == "cloudfront" || name == "isr" {
			continue // one request
		}
		server := newCDN(t, k)
		requests := 0
		server.answers(func(w http.ResponseWriter, r *http.Request) {
			if requests++; requests == 2 {
				status(503)(w, r)
				return
			}
			k.success(w, r)
		})
		d := k.open(t, server.URL)
		check(t, d.Deliver(t.Context(), batch), false, false, 0)
		first := server.received()
		if err := d.Deliver(t.Context(), batch); err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, server.received()); d != "" || len(first) != 2 {
			t.Errorf("%s: the repetition differs:\n%s", name, d)
		}
	}
}

// TestErrorsWithinSuccess: responses of status 200 that report a failure.
func TestErrorsWithinSuccess(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"cloudflare": `{"success":false,"errors":[{"code":1107,"message":"zone is locked"}],"result":null}`,
		"isr":        `{"targets":1}` + "\n" + `{"error":{"code":"store_failed","message":"zone is locked"}}`,
	} {
		server := newCDN(t, kinds[name])
		server.answers(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) })
		err := kinds[name].open(t, server.URL).Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: []store.PurgeTarget{tag("a")}})
		check(t, err, false, false, 0)
		if !strings.Contains(err.Error(), "zone is locked") {
			t.Errorf("%s: %v, want the reason", name, err)
		}
	}
}

// TestCloudFrontErrors: the documented errors of CreateInvalidation.
func TestCloudFrontErrors(t *testing.T) {
	t.Parallel()
	k := kinds["cloudfront"]
	for code, test := range map[string]struct {
		status          int
		permanent, busy bool
		after           time.Duration
		ok              bool
	}{
		"TooManyInvalidationsInProgress":  {400, false, true, 30 * time.Second, false},
		"Throttling":                      {400, false, true, 0, false},
		"AccessDenied":                    {403, false, false, time.Minute, false},
		"NoSuchDistribution":              {404, false, false, time.Minute, false},
		"InvalidArgument":                 {400, true, false, 0, false},
		"BatchTooLarge":                   {413, true, false, 0, false},
		"InternalError":                   {500, false, false, 0, false},
		"InvalidationBatchAlreadyExists":  {409, false, false, 0, true},
		"SomethingThatWasNotThereIn2026X": {400, false, false, 0, false},
	} {
		server := newCDN(t, k)
		server.answers(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/xml")
			w.WriteHeader(test.status)
			_, _ = fmt.Fprintf(w, `<?xml version="1.0"?><ErrorResponse xmlns="http://cloudfront.amazonaws.com/doc/2020-05-31/"><Error><Type>Sender</Type><Code>%s</Code><Message>no</Message></Error><RequestId>r</RequestId></ErrorResponse>`, code)
		})
		err := k.open(t, server.URL).Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: []store.PurgeTarget{tag("a")}})
		if test.ok {
			if err != nil {
				t.Errorf("%s: %v", code, err)
			}
			continue
		}
		t.Log(code)
		check(t, err, test.permanent, test.busy, test.after)
	}
}

// TestCloudFrontReference: a repetition has the same reference, so that CloudFront creates
// no second invalidation; other jobs and other paths have others.
func TestCloudFrontReference(t *testing.T) {
	t.Parallel()
	server := newCDN(t, kinds["cloudfront"])
	d := kinds["cloudfront"].open(t, server.URL)
	seen := make(map[string]string)
	for i, b := range []downstream.Batch{
		{ID: "b1", Targets: []store.PurgeTarget{tag("a")}},
		{ID: "b1", Targets: []store.PurgeTarget{tag("a"), tag("a")}},
		{ID: "b2", Targets: []store.PurgeTarget{tag("a")}},
		{ID: "b1", Targets: []store.PurgeTarget{tag("b")}},
	} {
		if err := d.Deliver(t.Context(), b); err != nil {
			t.Fatal(err)
		}
		reference, paths := invalidation(t, server.received()[0])
		content := b.ID + " " + strings.Join(paths, " ")
		if before, ok := seen[reference]; ok != (i == 1) || ok && before != content {
			t.Errorf("the reference of %q was seen: %t (for %q)", content, ok, before)
		}
		seen[reference] = content
	}
}

// TestCloudFrontWithoutTags: a distribution that reads no tags is invalidated as a whole;
// so are more prefixes than CloudFront accepts at a time.
func TestCloudFrontWithoutTags(t *testing.T) {
	t.Parallel()
	server := newCDN(t, kinds["cloudfront"])
	var prefixes []store.PurgeTarget
	for i := range 20 {
		prefixes = append(prefixes, prefix(fmt.Sprintf("example.com/%d/", i)))
	}
	for _, targets := range [][]store.PurgeTarget{{tag("a"), page("example.com/a")}, prefixes} {
		d := downstream.NewCloudFront(cloudFrontAt(server.URL), "EDFDVBD632BHDS5", false)
		if err := d.Deliver(t.Context(), downstream.Batch{ID: "b1", Targets: targets}); err != nil {
			t.Fatal(err)
		}
		if _, paths := invalidation(t, server.received()[0]); len(paths) != 1 || paths[0] != "/*" {
			t.Errorf("invalidated %q, want everything", paths)
		}
	}
}
