package doctor_test

import (
	"bufio"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/doctor"
)

// closed is an address at which nothing listens.
func closed(t *testing.T) string {
	t.Helper()
	server := httptest.NewServer(http.NotFoundHandler())
	server.Close()
	return server.URL
}

// speaking returns the URL of a server that sends a text to each request, and hangs up.
func speaking(t *testing.T, text string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = bufio.NewReader(c).ReadString('\n') // of the request
			_, _ = c.Write([]byte(text))
			_ = c.Close()
		}
	}()
	return "http://" + l.Addr().String()
}

func TestBrokenOrigins(t *testing.T) {
	t.Parallel()
	fresh := func(h http.Header) { h.Set("Cache-Control", "s-maxage=60") }
	with := func(name, value string) func(http.Header) {
		return func(h http.Header) {
			fresh(h)
			h.Set(name, value)
		}
	}
	for name, test := range map[string]struct {
		header   func(http.Header)
		change   func(t *testing.T, o *doctor.Origin)
		severity doctor.Severity
		want     []string
	}{
		"unreachable":        {fresh, func(t *testing.T, o *doctor.Origin) { o.URLs = []string{closed(t)} }, doctor.Fault, []string{"cannot be reached (TCP)", "connection refused", "start the site"}},
		"one address of two": {fresh, func(t *testing.T, o *doctor.Origin) { o.URLs = append(o.URLs, closed(t)) }, doctor.Warning, []string{"cannot be reached (TCP)", "other addresses answer"}},
		"unknown host":       {fresh, func(_ *testing.T, o *doctor.Origin) { o.URLs = []string{"http://origin.invalid"} }, doctor.Fault, []string{"cannot be reached (DNS)", "DNS record"}},
		"TLS without TLS":    {fresh, func(_ *testing.T, o *doctor.Origin) { o.URLs[0] = "https" + o.URLs[0][len("http"):] }, doctor.Fault, []string{"(TLS)", "use http://"}},
		"unknown certificate": {fresh, func(t *testing.T, o *doctor.Origin) {
			server := httptest.NewTLSServer(http.NotFoundHandler())
			t.Cleanup(server.Close)
			o.URLs = []string{server.URL}
		}, doctor.Fault, []string{"(TLS)", "openssl s_client -connect 127.0.0.1:"}},
		"no freshness":           {func(http.Header) {}, nil, doctor.Warning, []string{"the page / is not cached: the response does not say how long it is fresh", "GET / → 200, no Cache-Control, no Expires, no Vary", "s-maxage=60, or set revalidate: 60s"}},
		"freshness of the route": {func(http.Header) {}, func(_ *testing.T, o *doctor.Origin) { o.Revalidate = 60 }, doctor.OK, []string{"its pages can be cached"}},
		"cookies":                {with("Set-Cookie", "session=S3cret; Path=/"), nil, doctor.Warning, []string{"the response sets a cookie", "1 Set-Cookie (session)"}},
		"private":                {with("Cache-Control", "private"), nil, doctor.Warning, []string{"private"}},
		"vary":                   {with("Vary", "Accept-Language"), nil, doctor.Warning, []string{"Vary names a header that is not in the key", "Vary: Accept-Language"}},
		"vary in the key":        {with("Vary", "Accept-Language"), func(_ *testing.T, o *doctor.Origin) { o.Headers = []string{"accept-language"} }, doctor.OK, []string{"can be cached"}},
		"a cache before it":      {with("Age", "30"), nil, doctor.Note, []string{"comes from another cache behind isr", "Age: 30"}},
		"no date":                {func(h http.Header) { fresh(h); h["Date"] = nil }, nil, doctor.Note, []string{"has no Date"}},
		"health":                 {fresh, func(_ *testing.T, o *doctor.Origin) { o.Health = "/none\x7f" }, doctor.Fault, []string{"the health check of"}},
		"a large header":         {with("X-Long", strings.Repeat("x", 70_000)), nil, doctor.Warning, []string{"its header is too large", "at most 65536 are stored", "raise max_header"}},
		"a large header allowed": {with("X-Long", strings.Repeat("x", 70_000)), func(_ *testing.T, o *doctor.Origin) { o.MaxHeader = 100 << 10 }, doctor.OK, []string{"can be cached"}},
		"cache off":              {fresh, func(_ *testing.T, o *doctor.Origin) { o.Off = true }, doctor.Note, []string{"cache: off"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := site(t, test.header)
			if test.change != nil {
				test.change(t, &o)
			}
			mustFind(t, test.severity, doctor.OriginCheck(o), test.want...)
		})
	}
}

func TestOriginStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]struct {
		severity doctor.Severity
		text     string
	}{
		500: {doctor.Fault, "fails to render /"},
		404: {doctor.Note, "answers with status 404"},
		302: {doctor.Note, "answers with status 302"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "/login")
			w.WriteHeader(status)
		}))
		defer server.Close()
		mustFind(t, want.severity, doctor.OriginCheck(doctor.Origin{Name: "site", URLs: []string{server.URL}, Path: "/"}), want.text)
	}
}

// A site that insists on https redirects renders to themselves, unless they state https.
func TestOriginThatInsistsOnHTTPS(t *testing.T) {
	t.Parallel()
	location := "https://example.com/"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "s-maxage=60")
		if r.Header.Get("X-Forwarded-Proto") != "https" {
			w.Header().Set("Location", location)
			w.WriteHeader(http.StatusMovedPermanently)
		}
	}))
	defer server.Close()
	o := doctor.Origin{Name: "site", URLs: []string{server.URL}, Host: "example.com", Path: "/"}
	mustFind(t, doctor.Warning, doctor.OriginCheck(o), "redirects to another spelling of the URL, or to its other scheme", "GET / → 301, Location: https://example.com/", "set public_scheme: https")
	o.Scheme = "https"
	mustFind(t, doctor.OK, doctor.OriginCheck(o), "can be cached")
	o.Scheme, location = "http", "https://www.example.com/"
	mustFind(t, doctor.Note, doctor.OriginCheck(o), "answers with status 301")
}

// Trusted proxies that contradict the scheme of renders are a warning with what to change.
func TestSchemeOfProxies(t *testing.T) {
	t.Parallel()
	p := doctor.Process{Running: true, Requests: 1, Scheme: "proxies state https", SchemeAdvice: "set public_scheme: https"}
	mustFind(t, doctor.Warning, doctor.Proxies(p), "proxies state https", "set public_scheme: https")
}

// What answers, but not by HTTP, is told from a site that hangs up and from one that is silent.
func TestOriginThatSpeaksNoHTTP(t *testing.T) {
	t.Parallel()
	for answer, want := range map[string]string{
		"SSH-2.0-OpenSSH_9.2\r\n":             "does not speak HTTP",
		"":                                    "closes them without a complete answer",
		"HTTP/1.1 200 OK\r\nno field\r\n\r\n": "does not speak HTTP",
	} {
		mustFind(t, doctor.Fault, doctor.OriginCheck(doctor.Origin{Name: "site", URLs: []string{speaking(t, answer)}, Path: "/"}), "cannot be reached", want)
	}
}

// The clock of an origin is compared by its Date; a response from a cache by its Age too.
func TestSkewedClock(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration, age string) doctor.Check {
		o := site(t, func(h http.Header) {
			h.Set("Date", time.Now().Add(d).UTC().Format(http.TimeFormat))
			if age != "" {
				h.Set("Age", age)
			}
		})
		return doctor.Clocks([]doctor.Clock{o.ClockOf(o.URLs[0])}, time.Now)
	}
	mustFind(t, doctor.OK, at(0, ""), "agrees with http://127.0.0.1:")
	mustFind(t, doctor.OK, at(-time.Hour, "3600"), "agrees with")
	mustFind(t, doctor.Warning, at(10*time.Second, ""), "behind http://127.0.0.1:", "timedatectl set-ntp true")
	mustFind(t, doctor.Fault, at(-90*time.Minute-30*time.Second, ""), "the clock of this machine is 1h30m", "s ahead of http") // Date has whole seconds
	mustFind(t, doctor.Note, doctor.Clocks([]doctor.Clock{doctor.Origin{Path: "/"}.ClockOf(closed(t))}, time.Now), "cannot be compared")
	mustFind(t, doctor.OK, doctor.Clocks(nil, time.Now), "no other clock")
}
