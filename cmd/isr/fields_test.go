package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/testbed"
)

// A fieldTest shows what fields of the configuration file do on a running server, on which
// the effect would be another without them.
type fieldTest struct {
	fields string // names of schemaFields, separated by spaces
	// file is isr.yaml, to which startFields adds what it does not have. ORIGIN is the URL of
	// the site, DIR a folder of the test, and FREE an address that is free.
	file string
	// settings are settings of a route, instead of file. They are tested twice: as defaults,
	// and as settings of a route.
	settings string
	origin   siteHandler // nil: a page that names the request that it answers
	prepare  func(*fieldServer)
	show     func(*fieldServer)
}

// TestFields shows the effect of each field of the configuration file on a running server. A
// field of the schema without a test fails.
func TestFields(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "test")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "test")
	t.Setenv("AWS_REGION", "eu-central-1")
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	tests := slices.Concat(routeFields(), protectionFields(), siteFields(), cacheFieldTests(), storeFieldTests(), operationFieldTests(), telemetryFieldTests(), acmeFields(), trafficFields(), []fieldTest{peerField(), regenerateTest()})
	missing := schemaFields(t)
	for _, tt := range tests {
		for _, field := range strings.Fields(tt.fields) {
			if _, ok := missing[field]; !ok {
				t.Errorf("the schema has no field %s", field)
			}
			missing[field] = true
		}
	}
	for field, tested := range missing {
		if !tested {
			t.Errorf("%s has no test: add one that shows its effect on a running server", field)
		}
	}
	for _, tt := range tests {
		name, _, _ := strings.Cut(tt.fields, " ")
		run := func(name, file string) {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				tt.show(startFields(t, file, tt.origin, tt.prepare))
			})
		}
		if tt.settings == "" {
			run(name, tt.file)
			continue
		}
		run(name, tt.file+"\ndefaults: {"+tt.settings+"}")
		run(strings.Replace(name, "defaults", "routes", 1), tt.file+"\nroutes: [{match: /, "+tt.settings+"}]")
	}
}

// schemaFields returns the fields of the schema: listen[].address, origins.NAME.url, … A
// route has the fields of defaults, which are not repeated.
func schemaFields(t *testing.T) map[string]bool {
	t.Helper()
	type schema struct {
		Properties           map[string]json.RawMessage
		Items                json.RawMessage
		AdditionalProperties json.RawMessage
	}
	fields := make(map[string]bool)
	var walk func(path string, text json.RawMessage) bool
	walk = func(path string, text json.RawMessage) bool {
		var s schema
		if json.Unmarshal(text, &s) != nil {
			return false // additionalProperties: false
		}
		for name, property := range s.Properties {
			at := strings.TrimPrefix(path+"."+name, ".")
			if !walk(at, property) {
				fields[at] = false
			}
		}
		return len(s.Properties) > 0 || walk(path+"[]", s.Items) || walk(path+".NAME", s.AdditionalProperties)
	}
	walk("", config.Schema())
	maps.DeleteFunc(fields, func(name string, _ bool) bool {
		_, setting := fields["defaults."+strings.TrimPrefix(name, "routes[].")]
		return setting && strings.HasPrefix(name, "routes[].")
	})
	if len(fields) < 90 || !slices.Contains(slices.Collect(maps.Keys(fields)), "defaults.negative.404") {
		t.Fatalf("found the fields %v", fields)
	}
	return fields
}

// A fieldServer is a running isr serve with a configuration file, in this process, and its
// site.
type fieldServer struct {
	*testing.T
	dir    string
	url    string // of the first listener
	origin *countedSite
	log    *testbed.Log
	client *http.Client
	texts  []string // to replace in the file, in pairs
	args   []string // further arguments
	file   string   // the present one

	stop func()          // begins the shutdown
	done <-chan struct{} // closed after it
	exit int             // once done
}

// A siteHandler answers the nth request to a site, from 1 on.
type siteHandler func(s *countedSite, n int, w http.ResponseWriter, r *http.Request)

// A countedSite is a site that notes what it is asked for.
type countedSite struct {
	*httptest.Server
	mu       sync.Mutex
	requests []*http.Request // guarded by mu
	// hold delays handlers that wait for it until release.
	hold    chan struct{}
	release func()
}

// wait waits until the site is released, or the request canceled.
func (s *countedSite) wait(r *http.Request) {
	select {
	case <-s.hold:
	case <-r.Context().Done():
	}
}

func newCountedSite(t *testing.T, h siteHandler) *countedSite {
	s := &countedSite{hold: make(chan struct{})}
	s.release = sync.OnceFunc(func() { close(s.hold) })
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.requests = append(s.requests, r)
		n := len(s.requests)
		s.mu.Unlock()
		if h != nil {
			h(s, n, w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, "render %d", n)
	}))
	t.Cleanup(s.Close)
	t.Cleanup(s.release)
	return s
}

// count returns how many requests have arrived.
func (s *countedSite) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.requests)
}

// last returns the last request.
func (s *countedSite) last() *http.Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests[len(s.requests)-1]
}

// startFields starts a server, which ends with the test.
func startFields(t *testing.T, file string, origin siteHandler, prepare func(*fieldServer)) *fieldServer {
	t.Helper()
	s := newFieldServer(t, origin)
	if prepare != nil {
		prepare(s)
	}
	s.start(file)
	return s
}

func newFieldServer(t *testing.T, origin siteHandler) *fieldServer {
	t.Helper()
	transport := &http.Transport{DisableCompression: true}
	t.Cleanup(transport.CloseIdleConnections)
	return &fieldServer{
		T: t, dir: t.TempDir(), origin: newCountedSite(t, origin),
		client: &http.Client{
			Transport: transport, Timeout: fieldPatience,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// fieldPatience bounds each wait of these tests.
const fieldPatience = 5 * time.Minute

// replace has a text of the file replaced.
func (s *fieldServer) replace(text, by string) { s.texts = append(s.texts, text, by) }

// complete adds to a file what a server needs and it does not have.
func (s *fieldServer) complete(file string) string {
	s.Helper()
	for section, text := range map[string]string{
		"listen": "[{address: 127.0.0.1:0}]", "origins": "{site: {url: ORIGIN}}", "store": "{data: DIR/data}", "admin": "{address: none}",
	} {
		if !regexp.MustCompile(`(?m)^` + section + `:`).MatchString(file) {
			file += "\n" + section + ": " + text
		}
	}
	if strings.Contains(file, "store: {table") {
		file = strings.Replace(file, "store: {", "store: {data: DIR/data, ", 1)
	}
	if !regexp.MustCompile(`(?m)^store: \{.*timeout:`).MatchString(file) {
		file = strings.Replace(file, "store: {", "store: {timeout: 1m, ", 1) // of a busy machine
	}
	file = strings.NewReplacer(append(s.texts, "ORIGIN", s.origin.URL, "DIR", s.dir)...).Replace(file)
	for strings.Contains(file, "FREE") {
		address, err := testbed.FreeAddress()
		if err != nil {
			s.Fatal(err)
		}
		file = strings.Replace(file, "FREE", address, 1)
	}
	return file + "\n"
}

// begin starts the server with a file, without waiting until it serves.
func (s *fieldServer) begin(file string) {
	s.Helper()
	s.file = s.complete(file)
	path := s.write("isr.yaml", s.file)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	s.log, s.stop, s.done = new(testbed.Log), cancel, done
	go func() {
		defer close(done)
		s.exit = execute(ctx, append([]string{"serve", "--config", path}, s.args...), &cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: s.log})
	}()
	s.Cleanup(func() {
		s.origin.release() // renders end before the server does
		cancel()
		select {
		case <-done:
		case <-time.After(fieldPatience):
			s.Errorf("the server does not stop: %s", s.log)
		}
	})
}

// start starts the server and waits until it serves.
func (s *fieldServer) start(file string) {
	s.Helper()
	s.begin(file)
	s.until("the server serves", func() bool {
		select {
		case <-s.done:
			s.Fatalf("the server has ended with %d: %s", s.exit, s.log)
		default:
		}
		s.url = s.logged(`serving (https?://[^",]+)`)
		return s.url != ""
	})
}

// restart starts the server again with another file.
func (s *fieldServer) restart(file string) {
	s.Helper()
	s.stop()
	<-s.done
	s.client.CloseIdleConnections()
	s.start(file)
}

// logged returns the first group of an expression in the log; empty if there is no match.
func (s *fieldServer) logged(expression string) string {
	m := regexp.MustCompile(expression).FindStringSubmatch(s.log.String())
	if m == nil {
		return ""
	}
	return m[1]
}

// until polls a condition. These tests wait only here.
func (s *fieldServer) until(what string, done func() bool) {
	s.Helper()
	for began := time.Now(); !done(); time.Sleep(5 * time.Millisecond) {
		if time.Since(began) > fieldPatience {
			s.Fatalf("waited in vain until %s; log: %s", what, s.log)
		}
	}
}

// A visit is a response.
type visit struct {
	code   int
	status string // Cache-Status
	header http.Header
	body   string
}

func (v visit) String() string { return fmt.Sprintf("%d %q %.100q", v.code, v.status, v.body) }

// do sends a request with headers in pairs. A URL may be a path.
func (s *fieldServer) do(method, url string, headers ...string) visit {
	s.Helper()
	v, err := s.try(method, url, headers...)
	if err != nil {
		s.Fatalf("%v; log: %s", err, s.log)
	}
	return v
}

func (s *fieldServer) try(method, url string, headers ...string) (visit, error) {
	if strings.HasPrefix(url, "/") {
		url = s.url + url
	}
	r, err := http.NewRequestWithContext(s.Context(), method, url, http.NoBody)
	if err != nil {
		return visit{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
		if headers[i] == "Host" {
			r.Host = headers[i+1]
		}
	}
	res, err := s.client.Do(r)
	if err != nil {
		return visit{}, err
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	return visit{res.StatusCode, res.Header.Get("Cache-Status"), res.Header, string(body)}, err
}

func (s *fieldServer) get(url string, headers ...string) visit {
	s.Helper()
	return s.do(http.MethodGet, url, headers...)
}

// expect sends a GET request and compares the code and the beginning of Cache-Status.
func (s *fieldServer) expect(url string, code int, status string, headers ...string) visit {
	s.Helper()
	v := s.get(url, headers...)
	if v.code != code || !strings.HasPrefix(v.status, status) {
		s.Errorf("%s %q: got %s; expected %d %q", url, headers, v, code, status)
	}
	return v
}

// The beginnings of Cache-Status.
const (
	missed   = "isr; fwd=miss; fwd-status=200"
	stored   = missed + "; stored"
	hit      = "isr; hit"
	bypassed = "isr; fwd=bypass"
)

// isr executes a command that talks to the server, and returns its output.
func (s *fieldServer) isr(args ...string) string {
	s.Helper()
	out, err, code := s.command(args...)
	if code != 0 {
		s.Fatalf("isr %s: exit code %d, %s", strings.Join(args, " "), code, err)
	}
	return out
}

// isrFails executes a command that fails, and returns the error.
func (s *fieldServer) isrFails(args ...string) string {
	s.Helper()
	_, err, code := s.command(args...)
	if code == 0 {
		s.Errorf("isr %s does not fail", strings.Join(args, " "))
	}
	return err
}

func (s *fieldServer) command(args ...string) (output, problem string, code int) {
	var out, err bytes.Buffer
	code = execute(s.Context(), append(args, "--data", filepath.Join(s.dir, "data")), &cli.Streams{In: strings.NewReader(""), Out: &out, Err: &err})
	return out.String(), err.String(), code
}

// contains fails unless a text contains a part.
func (s *fieldServer) contains(text, part string) {
	s.Helper()
	if !strings.Contains(text, part) {
		s.Errorf("%q does not contain %q", text, part)
	}
}

// write writes a file and returns its path.
func (s *fieldServer) write(name, text string) string {
	s.Helper()
	path := filepath.Join(s.dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.Fatal(err)
	}
	return path
}
