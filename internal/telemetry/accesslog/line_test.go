package accesslog

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry"
	"github.com/facetheory/isr/store"
)

// exchange returns an exchange with all that a request may have, secrets included.
func exchange() *telemetry.Exchange {
	r := httptest.NewRequest(http.MethodGet, "https://Example.com:8443/news/a%20b?page=2&token=undeclared", http.NoBody)
	r.TLS = &tls.ConnectionState{}
	r.RemoteAddr = "[2001:db8::7]:4711"
	r.Header = http.Header{
		"User-Agent": {`curl/8 "quoted"`}, "Referer": {"https://user:password@example.org/from?q=searched#part"},
		"Cookie": {"session=of-cookie"}, "Authorization": {"Bearer of-header"}, "Proxy-Authorization": {"of-proxy"},
	}
	return &telemetry.Exchange{
		Report: isr.Report{
			Route: "/news/", Key: store.Key{Tenant: "acme", Text: "example.com/news/a%20b?page=2#rsc=1"},
			Forward: "stale", ForwardStatus: 200, Stored: true, Collapsed: true, Detail: "time",
			Age: 61500 * time.Millisecond, Generation: "20261123T170500.000-ab", Render: 1500 * time.Millisecond, LeaseWait: 20 * time.Millisecond,
		},
		Request: r, Start: time.Date(2026, 11, 23, 18, 5, 1, 234567000, time.FixedZone("CET", 3600)),
		Duration: 1612 * time.Millisecond, FirstByte: 1600 * time.Millisecond,
		Status: 200, Bytes: 5120, RequestID: "4bf92f35", TraceID: "0af7651916cd43dd8448eb211c80319c",
	}
}

// hit returns the exchange of a hit, of a visitor without header fields.
func hit() *telemetry.Exchange {
	r := httptest.NewRequest(http.MethodGet, "http://example.com/", http.NoBody)
	return &telemetry.Exchange{
		Report:  isr.Report{Route: "/", Key: store.Key{Text: "example.com/"}, Hit: true, Generation: "g", Age: time.Second},
		Request: r, Start: time.Date(2026, 11, 23, 17, 5, 1, 0, time.UTC), Duration: 123 * time.Microsecond, Status: 200, Bytes: 5,
	}
}

// written returns what a log writes of exchanges.
func written(t testing.TB, cfg Config, all ...*telemetry.Exchange) string {
	t.Helper()
	var out bytes.Buffer
	cfg.Output = &out
	l, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range all {
		l.Done(x)
	}
	l.Close()
	return out.String()
}

func TestJSON(t *testing.T) {
	got := written(t, Config{}, exchange(), hit())
	want := `{"time":"2026-11-23T17:05:01.234567Z","client.address":"2001:db8::7","http.request.method":"GET","url.scheme":"https","server.address":"Example.com","server.port":"8443","url.path":"/news/a%20b","url.query":"page=2","network.protocol.version":"1.1","http.route":"/news/","http.response.status_code":200,"http.response.body.size":5120,"http.server.request.duration":1.612000,"user_agent.original":"curl/8 \"quoted\"","http.request.header.referer":"https://example.org/from","isr.cache":"stale","isr.reason":"time","isr.stored":true,"isr.collapsed":true,"isr.forward_status":200,"isr.age":61,"isr.generation":"20261123T170500.000-ab","isr.first_byte":1.600000,"isr.render":1.500000,"isr.lease_wait":0.020000,"isr.request_id":"4bf92f35","trace_id":"0af7651916cd43dd8448eb211c80319c"}
{"time":"2026-11-23T17:05:01.000000Z","client.address":"192.0.2.1","http.request.method":"GET","url.scheme":"http","server.address":"example.com","url.path":"/","network.protocol.version":"1.1","http.route":"/","http.response.status_code":200,"http.response.body.size":5,"http.server.request.duration":0.000123,"isr.cache":"hit","isr.age":1,"isr.generation":"g"}
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Addresses are masked or left out, also those that are none.
func TestClientAddress(t *testing.T) {
	for _, c := range []struct{ remote, full, masked string }{
		{"192.0.2.129:4711", "192.0.2.129", "192.0.2.0"},
		{"192.0.2.129", "192.0.2.129", "192.0.2.0"},
		{"[2001:db8:1:2:3:4:5:6]:4711", "2001:db8:1:2:3:4:5:6", "2001:db8:1::"},
		{"[fe80::1%eth0]:4711", "fe80::1%eth0", "fe80::"},
		{"[::ffff:192.0.2.129]:4711", "::ffff:192.0.2.129", "192.0.2.0"},
		{"unix:192.0.2", "unix", ""},
		{"", "", ""},
	} {
		for address, want := range map[Address]string{"": c.full, AddressFull: c.full, AddressMasked: c.masked, AddressNone: ""} {
			if got := address.clientOf(c.remote); got != want {
				t.Errorf("%q of %q is %q, want %q", address, c.remote, got, want)
			}
		}
	}
	x := exchange()
	if got := written(t, Config{ClientAddress: AddressMasked}, x); !strings.Contains(got, `"client.address":"2001:db8::",`) {
		t.Error(got)
	}
	if got := written(t, Config{ClientAddress: AddressNone, Format: Text}, x); !strings.HasPrefix(got, "- - - [") {
		t.Error(got)
	}
	if got := written(t, Config{ClientAddress: AddressNone}, x); strings.Contains(got, "client.address") {
		t.Error(got)
	}
	if _, err := New(Config{Output: io.Discard, ClientAddress: "hashed"}); err == nil || !strings.Contains(err.Error(), "full, masked or none") {
		t.Errorf("an unknown setting: %v", err)
	}
}

func TestText(t *testing.T) {
	got := written(t, Config{Format: Text}, exchange(), hit())
	want := `2001:db8::7 - - [23/Nov/2026:17:05:01 +0000] "GET /news/a%20b?page=2 HTTP/1.1" 200 5120 "https://example.org/from" "curl/8 \x22quoted\x22" host=Example.com route="/news/" cache=stale reason=time age=61 generation=20261123T170500.000-ab duration=1.612000 render=1.500000 lease_wait=0.020000 request_id=4bf92f35 trace_id=0af7651916cd43dd8448eb211c80319c
192.0.2.1 - - [23/Nov/2026:17:05:01 +0000] "GET / HTTP/1.1" 200 5 "-" "-" host=example.com route="/" cache=hit reason=- age=1 generation=g duration=0.000123 render=0.000000 lease_wait=0.000000 request_id=- trace_id=-
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// The documentation has each field.
func TestDocumentation(t *testing.T) {
	text, err := os.ReadFile("../../../docs/logs.md")
	if err != nil {
		t.Fatal(err)
	}
	x, h := exchange(), hit()
	x.Aborted = true
	for i := range 1000 { // until a hit is in the sample
		for l := range strings.Lines(written(t, Config{SampleHits: 2}, x, h)) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(l), &fields); err != nil {
				t.Fatal(err)
			}
			for name := range fields {
				if !strings.Contains(string(text), "`"+name+"`") {
					t.Errorf("docs/logs.md has no %s", name)
				}
			}
			if fields["isr.sample_rate"] != nil {
				return
			}
		}
		if i == 999 {
			t.Error("no hit is in the sample")
		}
	}
}

func TestLineHasNoSecrets(t *testing.T) {
	for _, format := range []Format{JSON, Text} {
		x := exchange()
		unprojected := exchange()
		unprojected.Key = store.Key{}
		got := written(t, Config{Format: format}, x, unprojected)
		for _, secret := range []string{"undeclared", "of-cookie", "of-header", "of-proxy", "password", "searched", "rsc=1"} {
			if strings.Contains(got, secret) {
				t.Errorf("%s: %q is in\n%s", format, secret, got)
			}
		}
		if strings.Count(got, "page=2") != 1 {
			t.Errorf("%s: the declared query is not in the line of its page alone:\n%s", format, got)
		}
	}
}

func TestReferer(t *testing.T) {
	for referer, want := range map[string]string{
		"":                             "",
		"https://a.example/b?c":        "https://a.example/b",
		"https://a.example#c@d":        "https://a.example",
		"https://u@a.example":          "https://a.example",
		"https://u:p@q@a.example/b@c":  "https://a.example/b@c",
		"android-app://com.example/?a": "android-app://com.example/",
		"//u:p@a.example/b":            "//a.example/b",
		"u:p@a.example/b@c":            "a.example/b@c",
		"no URL":                       "no URL",
	} {
		if got := withoutQuery(referer); got != want {
			t.Errorf("%q: got %q, want %q", referer, got, want)
		}
	}
}

// A log is read in terminals: what a visitor sends must not steer them.
func TestTerminal(t *testing.T) {
	x := exchange()
	x.Request.Header.Set("User-Agent", "a\u009b31m\u202eb\x7f\x1b\xffé")
	for format, want := range map[Format]string{
		JSON: `"a\uFFFD31m\uFFFDb\uFFFD\u001b\uFFFDé"`,
		Text: `"a\xc2\x9b31m\xe2\x80\xaeb\x7f\x1b\xff\xc3\xa9"`,
	} {
		want = strings.ReplaceAll(want, `\uFFFD`, "\uFFFD")
		if got := written(t, Config{Format: format}, x); !strings.Contains(got, want) {
			t.Errorf("%s: %q is not in\n%q", format, want, got)
		}
	}
}

// Whatever a visitor sends, a line is one line, is valid and is bounded.
func FuzzLine(f *testing.F) {
	f.Add("GET", "/a\x00b", "example.com", "curl\n\"\\", "https://a/?b", "192.0.2.1:1")
	f.Add("\xff\xfe", "/\u2028<&>", "[::1", "", "x://@", "")
	f.Fuzz(func(t *testing.T, method, path, host, agent, referer, remote string) {
		x := exchange()
		r := x.Request.Clone(context.Background())
		r.Method, r.URL.Path, r.URL.RawPath, r.Host, r.RemoteAddr = method, path, "", host, remote
		r.Header = http.Header{"User-Agent": {agent}, "Referer": {referer}}
		x.Request = r
		x.Key.Text, x.Route, x.Generation, x.RequestID = host+"/?"+agent, path, referer, agent
		var line map[string]any
		text := written(t, Config{}, x)
		if err := json.Unmarshal([]byte(text), &line); err != nil || !utf8.ValidString(text) {
			t.Errorf("%v: %q", err, text)
		}
		for _, text := range []string{text, written(t, Config{Format: Text}, x)} {
			if strings.Count(text, "\n") != 1 || strings.ContainsFunc(text[:len(text)-1], func(r rune) bool { return r < ' ' }) || len(text) > 48<<10 {
				t.Errorf("got %d bytes: %.200q", len(text), text)
			}
		}
	})
}

func BenchmarkHit(b *testing.B) {
	x := hit()
	x.Request.Header.Set("User-Agent", "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/130.0.0.0 Safari/537.36")
	x.RequestID = "4bf92f3577b34da6a3ce929d0e0e4736"
	for name, cfg := range map[string]Config{"json": {}, "text": {Format: Text}, "one in 100": {SampleHits: 100}} {
		b.Run(name, func(b *testing.B) {
			cfg.Output = io.Discard
			l, err := New(cfg)
			if err != nil {
				b.Fatal(err)
			}
			defer l.Close()
			b.ReportAllocs()
			for b.Loop() {
				l.Done(x)
			}
		})
	}
	// What it is compared with: the same fields by slog, which neither buffers nor drops.
	b.Run("slog", func(b *testing.B) {
		log := slog.New(slog.NewJSONHandler(io.Discard, nil))
		b.ReportAllocs()
		for b.Loop() {
			l := newLine(x, 1, AddressFull)
			log.LogAttrs(b.Context(), slog.LevelInfo, "", slog.String("client.address", l.client), slog.String("http.request.method", l.method),
				slog.String("url.scheme", l.scheme), slog.String("server.address", l.host), slog.String("url.path", l.path),
				slog.String("network.protocol.version", l.protocol), slog.String("http.route", l.Route), slog.Int("http.response.status_code", l.Status),
				slog.Int64("http.response.body.size", l.Bytes), slog.Float64("http.server.request.duration", l.Duration.Seconds()),
				slog.String("user_agent.original", l.agent), slog.String("isr.cache", l.cache), slog.Int64("isr.age", int64(l.Age/time.Second)),
				slog.String("isr.generation", l.Generation), slog.String("isr.request_id", l.RequestID))
		}
	})
}
