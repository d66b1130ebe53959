package trigger_test

import (
	"bufio"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/trigger"
)

const secret = "It's a Secret to Everybody" // of GitHub's documentation

// A site serves one hook, over real connections, at a fixed time.
type site struct {
	*fixture
	server *httptest.Server
	now    time.Time
}

// newSite serves the hook "cms" of a provider.
func newSite(t *testing.T, provider trigger.Provider, key string, templates ...string) *site {
	t.Helper()
	s := &site{fixture: newFixture(t, trigger.Config{Window: time.Millisecond}), now: time.Now()}
	hook := trigger.Hook{Name: "cms", Provider: provider, Secrets: secrets(t, key)}
	for _, text := range templates {
		template, err := trigger.ParseTemplate(text)
		if err != nil {
			t.Fatal(err)
		}
		hook.Targets = append(hook.Targets, template)
	}
	s.serve(t, hook)
	return s
}

func (s *site) serve(t *testing.T, hook trigger.Hook) {
	t.Helper()
	hooks, err := trigger.NewHooks(s.Debouncer, []trigger.Hook{hook}, func() time.Time { return s.now }, slog.New(slog.NewTextHandler(s.log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	s.server = httptest.NewServer(hooks.Before(http.NotFoundHandler()))
	t.Cleanup(s.server.Close)
}

func secrets(t *testing.T, keys ...string) (all []trigger.Secret) {
	t.Helper()
	for _, key := range keys {
		s, err := trigger.NewSecret(key)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	return all
}

func mac(key, text string) []byte {
	m := hmac.New(sha256.New, []byte(key))
	m.Write([]byte(text))
	return m.Sum(nil)
}

// gitHub returns the header that GitHub sends.
func gitHub(key, delivery, body string) http.Header {
	return header("Content-Type", "application/json", "X-GitHub-Delivery", delivery,
		"X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(key, body)))
}

func header(pairs ...string) http.Header {
	h := make(http.Header)
	for i := 0; i < len(pairs); i += 2 {
		h.Add(pairs[i], pairs[i+1])
	}
	return h
}

// post sends a webhook to the hook cms.
func (s *site) post(t *testing.T, h http.Header, body string) (status int, reply string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.server.URL+"/-/hooks/cms", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = h
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

// targets returns what was purged.
func (s *site) targets() (all []string) {
	for _, p := range s.purger.made() {
		for _, t := range p.Targets {
			all = append(all, t.String())
		}
	}
	return all
}

// payload is what the templates of the tests are filled with.
var payload = `{
	"id": 9007199254740993, "slug": {"current": "red shoes/50%?"}, "path": "/news/ä b", "draft": false, "none": null, "empty": "",
	"url": "https://Example.com:443/a?b=1", "site": "acme", "fields": {"a.b": {"en/US": "x~y"}, "*": "star"}, "items": [{"sku": "S1"}, {"sku": "S2"}], "host": "Example.COM",
	"tenants": ["x", "y"], "urls": ["https://example.com/a", "https://example.com/b c"], "none_of": [], "mixed": ["a", {}], "many": [` + strings.Repeat("1, ", store.MaxPurgeTargets) + `1],
	"encoded": "/Pr%C3%A9s/é", "marks": "a(1),b;c", "typed": " https://münchen.example/Prés x#top"
}`

func TestTemplatesSelectTargets(t *testing.T) {
	for template, want := range map[string]string{
		"tag:product-{payload.id}":                           "tag product-9007199254740993",
		"tag:{payload.items.1.sku}+{payload.items.0.sku}":    "tag S2+S1",
		"tag:{/fields/a.b/en~1US}":                           "tag x~y",
		"tag:draft-{payload.draft}":                          "tag draft-false",
		"tag@{payload.site}:a:b":                             "tag a:b of tenant acme",
		"url:https://example.com/p/{payload.slug.current}":   "key example.com/p/red%20shoes/50%25%3F",
		"url:https://example.com/p?s={payload.slug.current}": "key example.com/p?s=red%20shoes%2F50%25%3F",
		"url:https://example.com{payload.path}":              "key example.com/news/%C3%A4%20b",
		"url:https://example.com{payload.encoded}":           "key example.com/Pr%C3%A9s/%C3%A9",
		"url:https://example.com/p?s={payload.encoded}":      "key example.com/p?s=%2FPr%C3%A9s%2F%C3%A9",
		"url:https://example.com/{payload.marks}":            "key example.com/a(1),b;c",
		"url:{payload.typed}":                                "key xn--mnchen-3ya.example/Pr%C3%A9s%20x",
		"prefix:https://example.com{payload.encoded}":        "prefix example.com/Pr%C3%A9s/%C3%A9",
		"url:{payload.url}":                                  "key example.com/a?b=1",
		"url@acme:example.com/":                              "key example.com/ of tenant acme",
		"prefix:example.com/blog/":                           "prefix example.com/blog/",
		"prefix:https://{payload.host}/blog/":                "prefix example.com/blog/",
		"host:{payload.host}":                                "prefix example.com/",
		"tenant:{payload.site}":                              "tenant of tenant acme",
		"all":                                                "site",
		"tag:sku-{payload.items.*.sku}":                      "tag sku-S1, tag sku-S2",
		"tag@{payload.tenants.*}:a":                          "tag a of tenant x, tag a of tenant y",
		"url:{payload.urls.*}":                               "key example.com/a, key example.com/b%20c",
		"tag:{/fields/*}":                                    "tag star",
	} {
		s := newSite(t, trigger.GitHub, secret, template)
		status, reply := s.post(t, gitHub(secret, "1", payload), payload)
		if got := strings.Join(s.targets(), ", "); status != 200 || got != want {
			t.Errorf("%s: got %d %q, purged %q, want %q", template, status, reply, got, want)
		}
	}
}

// A list that is empty purges nothing beside the other targets, and cannot be a whole message.
func TestEmptyListsOfTargets(t *testing.T) {
	s := newSite(t, trigger.GitHub, secret, "tag:{payload.none_of.*}", "tag:{payload.id}")
	if status, reply := s.post(t, gitHub(secret, "1", payload), payload); status != 200 || strings.Join(s.targets(), ", ") != "tag 9007199254740993" {
		t.Errorf("%d %s, purged %v", status, reply, s.targets())
	}
	s = newSite(t, trigger.GitHub, secret, "tag:{payload.none_of.*}")
	if status, reply := s.post(t, gitHub(secret, "1", payload), payload); status != 422 || !strings.Contains(reply, "the message has no targets") {
		t.Errorf("%d %s", status, reply)
	}
}

// A generic sender can try its secret and the targets without purging.
func TestPing(t *testing.T) {
	ping := func(s *site, key, body string) (status int, reply string) {
		at := strconv.FormatInt(s.now.Unix(), 10)
		return s.post(t, header("Content-Type", "application/json", "X-ISR-Event", "ping", "X-ISR-Timestamp", at,
			"X-ISR-Signature", "sha256="+hex.EncodeToString(mac(key, at+"."+body))), body)
	}
	s := newSite(t, trigger.Generic, secret, "tag:{payload.tags.*}")
	for _, test := range []struct {
		key, body, want string
		status          int
	}{
		{secret, `{"tags": ["a", "b"]}`, `"targets":["tag a","tag b"],"message":"pong`, 200},
		{secret, `{"tags": []}`, `"message":"pong`, 200},
		{secret, `{"tag": "a"}`, `\"tags\" is missing`, 422},
		{"another secret of 16 bytes", `{"tags": ["a"]}`, "made with another secret", 401},
	} {
		if status, reply := ping(s, test.key, test.body); status != test.status || !strings.Contains(reply, test.want) {
			t.Errorf("%s: %d %s; want %d with %s", test.body, status, reply, test.status, test.want)
		}
	}
	if got := s.targets(); got != nil {
		t.Errorf("pings have purged %v", got)
	}
}

// The sender is told, and so is the log, if no page was stored of a URL.
func TestWebhooksForPagesThatAreNotStored(t *testing.T) {
	s := newSite(t, trigger.GitHub, secret, "url:example.com/missing", "url:example.com/a")
	status, reply := s.post(t, gitHub(secret, "1", payload), payload)
	if status != 200 || !strings.Contains(reply, `"not_stored":["example.com/missing"]`) || !strings.Contains(s.log.String(), "not_stored=[example.com/missing]") {
		t.Errorf("%d %s\n%s", status, reply, s.log)
	}
	s = newSite(t, trigger.GitHub, secret, "url:example.com/a", "tag:missing")
	if status, reply := s.post(t, gitHub(secret, "1", payload), payload); status != 200 || strings.Contains(reply, "not_stored") {
		t.Errorf("%d %s", status, reply)
	}
}

func TestPayloadsWithoutTargetAreRefused(t *testing.T) {
	for template, want := range map[string]string{
		"tag:{payload.sku}":                 "the payload has no {payload.sku}: \\\"sku\\\" is missing",
		"tag:{payload.slug.next.x}":         "\\\"slug.next\\\" is missing",
		"tag:{payload.id.x}":                "\\\"id.x\\\" is missing",
		"tag:{payload.items.2.sku}":         "\\\"items.2\\\" is missing",
		"tag:{payload.items.-1.sku}":        "\\\"items.-1\\\" is missing",
		"tag:{payload.none}":                "{payload.none} of the payload is null; expected a string, a number or a boolean",
		"tag:{payload.items}":               "{payload.items} of the payload is an array",
		"tag:{payload.slug}":                "{payload.slug} of the payload is an object",
		"tag:{payload.empty}":               "{payload.empty} of the payload is empty",
		"tag@{payload.path}:x":              "tenant",
		"host:{payload.url}":                "has a path; give only example.com",
		"prefix:{payload.host}":             "must begin with a host and a slash",
		"url:https://exa mple/{payload.id}": "does not begin with a host name",
		"tag:{payload.gone.*}":              "\\\"gone\\\" is missing",
		"tag:{payload.path.*}":              "\\\"path\\\" of the payload is a single value; expected an array",
		"tag:{payload.slug.*.current}":      "\\\"slug\\\" of the payload is an object; expected an array",
		"tag:{payload.items.*}":             "{payload.items.*} of the payload is an object",
		"tag:{payload.mixed.*}":             "{payload.mixed.*} of the payload is an object",
		"tag:{payload.many.*}":              "\\\"many\\\" of the payload has 91 elements; at most 90 can be purged together",
	} {
		s := newSite(t, trigger.GitHub, secret, "tag:ok", template)
		status, reply := s.post(t, gitHub(secret, "1", payload), payload)
		if status != 422 || !strings.Contains(reply, want) || !strings.Contains(reply, strconv.Quote(template)[1:6]) {
			t.Errorf("%s: got %d %s, want 422 with %q", template, status, reply, want)
		}
		if got := s.targets(); got != nil {
			t.Errorf("%s: purged %v, want nothing", template, got)
		}
	}
}

// The examples of the providers' documentation and test suites.
func TestSignaturesOfProviders(t *testing.T) {
	at := time.UnixMilli(1633519811129)
	contentful := strings.Repeat("a", 64)
	body := `{"sys":{"id":"42"}}`
	signedHeaders := "x-contentful-signed-headers,x-contentful-timestamp,x-contentful-topic"
	canonical := "POST\n/-/hooks/cms\nx-contentful-signed-headers:" + signedHeaders +
		";x-contentful-timestamp:1633519811129;x-contentful-topic:ContentManagement.Entry.publish\n" + body
	for name, test := range map[string]struct {
		provider    trigger.Provider
		key, body   string
		header      http.Header
		id          string // of the message, as logged
		wantInReply string
	}{
		// docs.github.com, "Validating webhook deliveries": test values.
		"github": {trigger.GitHub, secret, "Hello, World!", header("X-GitHub-Delivery", "72d3162e",
			"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"), "", "expected the Content-Type application/json"},
		"github ping": {trigger.GitHub, secret, "Hello, World!", header("X-GitHub-Delivery", "72d3162e", "X-GitHub-Event", "ping",
			"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"), "", "pong"},
		"sanity": {trigger.Sanity, "sanity-test-secret", `{"_id":"resume"}`, header("Content-Type", "application/json",
			"Sanity-Webhook-Signature", "t=1633519811129, v1="+base64.RawURLEncoding.EncodeToString(mac("sanity-test-secret", `1633519811129.{"_id":"resume"}`)),
			"Idempotency-Key", "evt-1"), "evt-1", "receipt"},
		"contentful": {trigger.Contentful, contentful, body, header("Content-Type", "application/vnd.contentful.management.v1+json",
			"X-Contentful-Signed-Headers", signedHeaders, "X-Contentful-Timestamp", "1633519811129", "X-Contentful-Topic", "ContentManagement.Entry.publish",
			"X-Contentful-Signature", hex.EncodeToString(mac(contentful, canonical)), "X-Contentful-Idempotency-Key", "0f"), "0f", "receipt"},
		"shopify": {trigger.Shopify, secret, body, header("Content-Type", "application/json", "X-Shopify-Webhook-Id", "b54557e4",
			"X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac(secret, body))), "mac:" + hex.EncodeToString(mac(secret, body)), "receipt"},
		"generic": {trigger.Generic, secret, body, header("Content-Type", "application/json", "X-ISR-Timestamp", "1633519811",
			"X-ISR-Delivery", "d-1", "X-ISR-Signature", "sha256="+hex.EncodeToString(mac(secret, "1633519811."+body))), "d-1", "receipt"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, test.provider, test.key, "tag:a")
			s.now = at.Add(time.Minute)
			_, reply := s.post(t, test.header, test.body)
			if !strings.Contains(reply, test.wantInReply) || test.id != "" && !strings.Contains(s.log.String(), "id="+test.id+" ") {
				t.Errorf("got %s, want %q; logged %s, want the id %q", reply, test.wantInReply, s.log, test.id)
			}
			if status, reply := s.post(t, test.header, test.body+" "); status != 401 {
				t.Errorf("changed body: got %d %s, want 401", status, reply)
			}
			bare := test.header.Clone()
			for name := range bare {
				if strings.Contains(name, "Signature") || strings.Contains(name, "Hmac") {
					bare.Del(name)
				}
			}
			if status, reply := s.post(t, bare, test.body); status != 401 || !strings.Contains(reply, "expected one header") {
				t.Errorf("no signature: got %d %s, want 401 that names the header", status, reply)
			}
		})
	}
}

// A captured request of a provider that signs no time purges nothing, whatever id it is sent with; another
// message does.
func TestReplaysWithAnotherIDPurgeNothing(t *testing.T) {
	for provider, signed := range map[trigger.Provider]func(id, body string) http.Header{
		trigger.GitHub: func(id, body string) http.Header { return gitHub(secret, id, body) },
		trigger.Shopify: func(id, body string) http.Header {
			return header("Content-Type", "application/json", "X-Shopify-Webhook-Id", id,
				"X-Shopify-Hmac-Sha256", base64.StdEncoding.EncodeToString(mac(secret, body)))
		},
	} {
		t.Run(string(provider), func(t *testing.T) {
			s := newSite(t, provider, secret, "tag:a")
			for _, c := range []struct {
				id, body string
				purges   int
			}{{"1", `{"n":1}`, 1}, {"1", `{"n":1}`, 1}, {"2", `{"n":1}`, 1}, {"", `{"n":1}`, 1}, {"1", `{"n":2}`, 2}} {
				h := signed(c.id, c.body)
				if c.id == "" {
					h.Del("X-GitHub-Delivery")
					h.Del("X-Shopify-Webhook-Id")
				}
				if status, reply := s.post(t, h, c.body); status != http.StatusOK {
					t.Errorf("%+v: got %d %s, want 200", c, status, reply)
				}
				if purged := len(s.purger.made()); purged != c.purges {
					t.Errorf("%+v: %d purges", c, purged)
				}
			}
		})
	}
}

func TestReplaysAreRefusedAfterWindow(t *testing.T) {
	signed := time.Now().Truncate(time.Second)
	milliseconds := strconv.FormatInt(signed.UnixMilli(), 10)
	const body = `{"a":1}`
	contentful := "x-contentful-signed-headers:x-contentful-signed-headers,x-contentful-timestamp;x-contentful-timestamp:" + milliseconds
	for provider, test := range map[trigger.Provider]struct {
		window time.Duration
		header http.Header
	}{
		trigger.Generic: {5 * time.Minute, header("X-ISR-Timestamp", strconv.FormatInt(signed.Unix(), 10),
			"X-ISR-Signature", "sha256="+hex.EncodeToString(mac(secret, fmt.Sprint(signed.Unix(), ".", body))))},
		trigger.Sanity: {time.Hour, header("Sanity-Webhook-Signature",
			"t="+milliseconds+",v1="+base64.RawURLEncoding.EncodeToString(mac(secret, milliseconds+"."+body)))},
		trigger.Contentful: {5 * time.Minute, header("X-Contentful-Timestamp", milliseconds,
			"X-Contentful-Signed-Headers", "x-contentful-signed-headers,x-contentful-timestamp",
			"X-Contentful-Signature", hex.EncodeToString(mac(secret, "POST\n/-/hooks/cms\n"+contentful+"\n"+body)))},
	} {
		test.header.Set("Content-Type", "application/json")
		for _, at := range []struct {
			age  time.Duration
			want int
		}{{test.window - time.Second, 200}, {test.window + time.Second, 401}, {-4 * time.Minute, 200}, {-6 * time.Minute, 401}} {
			s := newSite(t, provider, secret, "tag:a")
			s.now = signed.Add(at.age)
			if status, reply := s.post(t, test.header, body); status != at.want {
				t.Errorf("%s, after %v: got %d %s, want %d", provider, at.age, status, reply, at.want)
			}
		}
		s := newSite(t, provider, secret, "tag:a")
		s.now = signed
		s.post(t, test.header, body)
		if _, reply := s.post(t, test.header, body); !strings.Contains(reply, `"duplicate":true`) || len(s.targets()) != 1 {
			t.Errorf("%s, replay within the window: got %s, purged %v, want a duplicate", provider, reply, s.targets())
		}
	}
}

func TestContentfulMustSignTimestamp(t *testing.T) {
	now := strconv.FormatInt(time.Now().UnixMilli(), 10)
	s := newSite(t, trigger.Contentful, secret, "tag:a")
	h := header("Content-Type", "application/json", "X-Contentful-Timestamp", now, "X-Contentful-Signed-Headers", "x-contentful-signed-headers",
		"X-Contentful-Signature", hex.EncodeToString(mac(secret, "POST\n/-/hooks/cms\nx-contentful-signed-headers:x-contentful-signed-headers\n{}")))
	if status, reply := s.post(t, h, "{}"); status != 401 || !strings.Contains(reply, "must list x-contentful-timestamp") {
		t.Errorf("got %d %s, want 401", status, reply)
	}
}

func TestMalformedSignaturesAreRefused(t *testing.T) {
	for name, test := range map[string]struct {
		provider trigger.Provider
		header   http.Header
	}{
		"two signatures":   {trigger.GitHub, header("X-Hub-Signature-256", "sha256=aa", "X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(secret, "{}")))},
		"no prefix":        {trigger.GitHub, header("X-Hub-Signature-256", hex.EncodeToString(mac(secret, "{}")))},
		"short":            {trigger.GitHub, header("X-Hub-Signature-256", "sha256="+hex.EncodeToString(mac(secret, "{}"))[:62])},
		"empty":            {trigger.GitHub, header("X-Hub-Signature-256", "sha256=")},
		"sha1":             {trigger.GitHub, header("X-Hub-Signature", "sha1=00")},
		"not base64":       {trigger.Shopify, header("X-Shopify-Hmac-Sha256", "!!")},
		"sanity v5":        {trigger.Sanity, header("Sanity-Webhook-Signature", "t=1633519811129,v5=AA")},
		"sanity time":      {trigger.Sanity, header("Sanity-Webhook-Signature", "t=99999999999999999999,v1=AA")},
		"generic no time":  {trigger.Generic, header("X-ISR-Signature", "sha256="+hex.EncodeToString(mac(secret, "{}")))},
		"generic bad time": {trigger.Generic, header("X-ISR-Timestamp", "now", "X-ISR-Signature", "sha256=00")},
		"unnamed headers":  {trigger.Contentful, header("X-Contentful-Timestamp", "1", "X-Contentful-Signature", "00")},
	} {
		s := newSite(t, test.provider, secret, "tag:a")
		if status, reply := s.post(t, test.header, "{}"); status != 401 || strings.Contains(reply, secret) {
			t.Errorf("%s: got %d %s, want 401", name, status, reply)
		}
		if strings.Contains(s.log.String(), secret) || !strings.Contains(s.log.String(), "webhook refused") {
			t.Errorf("%s: logged %s", name, s.log)
		}
	}
}

func TestTwoSecretsWhileOneIsReplaced(t *testing.T) {
	s := newSite(t, trigger.GitHub, secret, "tag:a")
	template, _ := trigger.ParseTemplate("tag:a")
	s.serve(t, trigger.Hook{Name: "cms", Provider: trigger.GitHub, Secrets: secrets(t, "the-new-secret-1", "the-old-secret-2"), Targets: []trigger.Template{template}})
	for key, want := range map[string]int{"the-new-secret-1": 200, "the-old-secret-2": 200, "the-lost-secret-3": 401} {
		if status, reply := s.post(t, gitHub(key, key, "{}"), "{}"); status != want {
			t.Errorf("%s: got %d %s, want %d", key, status, reply, want)
		}
	}
}

func TestSecretsDoNotPrint(t *testing.T) {
	s := secrets(t, secret)[0]
	if text := fmt.Sprintf("%v %+v %#v %s %q", s, s, s, s, s); strings.Contains(text, "Secret to") {
		t.Errorf("printed %s", text)
	}
	if _, err := trigger.NewSecret("short-secret"); err == nil || strings.Contains(err.Error(), "short-secret") {
		t.Errorf("got %v, want an error without the secret", err)
	}
}

func TestBadRequests(t *testing.T) {
	deep := strings.Repeat("[", 500_000)
	signed := func(body string) http.Header { return gitHub(secret, "1", body) }
	form := signed("payload=1")
	form.Set("Content-Type", "application/x-www-form-urlencoded")
	long := signed("{}")
	long.Set("X-GitHub-Delivery", strings.Repeat("x", 257))
	for name, test := range map[string]struct {
		header http.Header
		body   string
		status int
		want   string
	}{
		"not JSON":      {signed("{]"), "{]", 400, "the body is not JSON: invalid character"},
		"empty":         {signed(""), "", 400, "not JSON"},
		"two values":    {signed("{} {}"), "{} {}", 400, "found more after it"},
		"deep":          {signed(deep), deep, 400, "exceeded max depth"},
		"form":          {form, "payload=1", 415, "application/x-www-form-urlencoded"},
		"too large":     {signed("x"), strings.Repeat(" ", 1<<20+1), 413, "more than 1048576 bytes"},
		"unsigned deep": {header(), deep, 401, "X-Hub-Signature-256"},
		"long id":       {long, "{}", 401, "the message id has 257 bytes"},
	} {
		s := newSite(t, trigger.GitHub, secret, "tag:a")
		if status, reply := s.post(t, test.header, test.body); status != test.status || !strings.Contains(reply, test.want) {
			t.Errorf("%s: got %d %s, want %d with %q", name, status, reply, test.status, test.want)
		}
		if got := s.targets(); got != nil {
			t.Errorf("%s: purged %v", name, got)
		}
	}
}

func TestHooksAndMethodsThatDoNotExist(t *testing.T) {
	s := newSite(t, trigger.GitHub, secret, "tag:a")
	for path, want := range map[string]string{"/-/hooks/shop": "404", "/-/hooks/": "404", "/-/hooks/cms": "405 POST", "/page": "404"} {
		response, err := http.Get(s.server.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if got := strings.TrimSpace(fmt.Sprint(response.StatusCode, " ", response.Header.Get("Allow"))); got != want {
			t.Errorf("GET %s: got %s, want %s", path, got, want)
		}
	}
}

func TestErrorsOfPurges(t *testing.T) {
	for want, err := range map[string]error{
		"409": fmt.Errorf("x: %w", store.ErrPinned), "503": errors.New("the store does not answer"), "503 ": trigger.ErrBusy, "422": store.ErrInvalidInput,
	} {
		s := newSite(t, trigger.GitHub, secret, "tag:a")
		s.purger.failWith(func(isr.Purge) error { return err })
		status, reply := s.post(t, gitHub(secret, "1", "{}"), "{}")
		if strconv.Itoa(status) != strings.TrimSpace(want) {
			t.Errorf("%v: got %d %s, want %s", err, status, reply, want)
		}
		s.purger.failWith(nil)
		if status, reply := s.post(t, gitHub(secret, "1", "{}"), "{}"); status != 200 || !strings.Contains(reply, `"receipt":1`) {
			t.Errorf("%v: next delivery: got %d %s, want that it is purged", err, status, reply)
		}
	}
}

// Clients that send slowly occupy a part of the places, and are cut off in the end.
func TestSlowBodiesLeaveRoom(t *testing.T) {
	t.Parallel() // takes the time limit of a body
	s := newSite(t, trigger.GitHub, secret, "tag:a")
	slow := func() net.Conn {
		c, err := net.Dial("tcp", s.server.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
		if _, err := io.WriteString(c, "POST /-/hooks/cms HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		return c
	}
	var all []net.Conn
	for range 16 {
		all = append(all, slow())
	}
	// The requests arrive in any order: at some point all places of this client are taken.
	deadline := time.Now().Add(8 * time.Second)
	for {
		status, reply := s.post(t, gitHub(secret, "1", "{}"), "{}")
		if status == 503 {
			break
		}
		if status != 200 || time.Now().After(deadline) {
			t.Fatalf("got %d %s, want 503 while 16 bodies of this client are read", status, reply)
		}
	}
	response, err := http.ReadResponse(bufio.NewReader(all[0]), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusRequestTimeout {
		t.Errorf("slow body: got %s, want 408", response.Status)
	}
}

func TestInvalidHooks(t *testing.T) {
	f := newFixture(t, trigger.Config{})
	template, _ := trigger.ParseTemplate("tag:a")
	good := trigger.Hook{Name: "cms", Provider: trigger.GitHub, Secrets: secrets(t, secret), Targets: []trigger.Template{template}}
	for want, change := range map[string]func(*trigger.Hook){
		`"a/b" is not the name of a hook`:   func(h *trigger.Hook) { h.Name = "a/b" },
		"hook cms has 0 secrets":            func(h *trigger.Hook) { h.Secrets = nil },
		"hook cms has 3 secrets":            func(h *trigger.Hook) { h.Secrets = secrets(t, secret, secret, secret) },
		"hook cms has 0 targets":            func(h *trigger.Hook) { h.Targets = nil },
		"hook cms has 33 targets; expected": func(h *trigger.Hook) { h.Targets = make([]trigger.Template, 33) },
	} {
		bad := good
		change(&bad)
		if _, err := trigger.NewHooks(f.Debouncer, []trigger.Hook{bad}, time.Now, slog.Default()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %q", err, want)
		}
	}
	if _, err := trigger.NewHooks(f.Debouncer, []trigger.Hook{good, good}, time.Now, slog.Default()); err == nil || !strings.Contains(err.Error(), "two hooks are named cms") {
		t.Errorf("got %v, want that the names are equal", err)
	}
}
