package caddy_test

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/caddyconfig"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/encode/gzip"
	_ "github.com/caddyserver/caddy/v2/modules/caddyhttp/reverseproxy"
	_ "github.com/caddyserver/caddy/v2/modules/filestorage"
	"github.com/quic-go/quic-go/http3"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dynamostore"
	_ "github.com/facetheory/isr/integrations/caddy"
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

const patience = 5 * time.Minute

// An origin is the site behind Caddy.
type origin struct {
	*httptest.Server
	renders atomic.Int64
	down    atomic.Bool
	answer  atomic.Pointer[http.HandlerFunc] // nil: a page for a minute
}

func newOrigin(t *testing.T) *origin {
	o := new(origin)
	o.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n := o.renders.Add(1)
		if o.down.Load() {
			panic(http.ErrAbortHandler)
		}
		if h := o.answer.Load(); h != nil {
			(*h)(w, r)
			return
		}
		w.Header().Set("Cache-Control", "max-age=60")
		w.Header().Set("Cache-Tag", "pages")
		fmt.Fprintf(w, "%s %s %d for %q", r.Header.Get("X-Forwarded-Proto"), r.URL, n, r.Header.Get("Cookie"))
	}))
	t.Cleanup(o.Close)
	return o
}

func (o *origin) set(h http.HandlerFunc) { o.answer.Store(&h) }

// A site is a Caddy that runs in this process, of which there can be one at a time.
type site struct {
	t                  *testing.T
	folder, url, admin string
	global             string
	client             *http.Client
	roots              *x509.CertPool
	port               string
}

func free(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// start runs Caddy with the directives of a site at https://127.0.0.1; FOLDER in them is one of the test.
func start(t *testing.T, directives string) *site {
	t.Helper()
	s := &site{t: t, folder: t.TempDir()}
	address := free(t)
	_, s.port, _ = net.SplitHostPort(address)
	s.admin, s.url = "http://"+free(t), "https://localhost:"+s.port
	certificate, key, roots := certificates(t, s.folder)
	s.roots = roots
	s.global = fmt.Sprintf("{\n\tadmin %s\n\tauto_https off\n\tstorage file_system %s\n\tgrace_period 5s\n}\n%s {\n\ttls %s %s\n", strings.TrimPrefix(s.admin, "http://"), s.folder, s.url, certificate, key)
	s.client = &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, ForceAttemptHTTP2: true, DisableCompression: true}}
	s.load(directives)
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		if err := caddy.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// config returns the configuration as JSON.
func (s *site) config(directives string) ([]byte, error) {
	adapter := caddyconfig.GetAdapter("caddyfile")
	text := s.global + strings.ReplaceAll(directives, "FOLDER", filepath.Join(s.folder, "isr")) + "\n}\n"
	config, _, err := adapter.Adapt([]byte(text), nil)
	return config, err
}

func (s *site) load(directives string) {
	s.t.Helper()
	config, err := s.config(directives)
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// A visit is the response to a visitor.
type visit struct {
	status                  int
	proto, cache, text, age string
	header                  http.Header
}

func (s *site) get(client *http.Client, path string, header ...string) (visit, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url+path, nil)
	if err != nil {
		return visit{}, err
	}
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := client.Do(r)
	if err != nil {
		return visit{}, err
	}
	defer func() { _ = res.Body.Close() }()
	text, err := io.ReadAll(res.Body)
	return visit{res.StatusCode, res.Proto, res.Header.Get("Cache-Status"), string(text), res.Header.Get("Age"), res.Header}, err
}

func (s *site) visit(path string, header ...string) visit {
	s.t.Helper()
	v, err := s.get(s.client, path, header...)
	if err != nil {
		s.t.Fatal(err)
	}
	return v
}

func (s *site) purge(body string) (int, string) {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.admin+"/isr/purge", strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	text, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(text)
}

func await(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

// Pages are cached for visitors over HTTP/1.1, HTTP/2 and HTTP/3 alike, and purged by the admin API.
func TestSite(t *testing.T) {
	o := newOrigin(t)
	s := start(t, "isr {\n data FOLDER\n query page\n}\nencode gzip\nreverse_proxy "+o.Listener.Addr().String())
	first := s.visit("/a?page=1&utm_source=x")
	if first.status != 200 || first.text != `https /a?page=1 1 for ""` || !strings.Contains(first.cache, "stored") || first.proto != "HTTP/2.0" {
		t.Fatalf("%+v", first)
	}
	h1 := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots, NextProtos: []string{"http/1.1"}}}}
	defer h1.CloseIdleConnections()
	h3 := &http3.Transport{TLSClientConfig: &tls.Config{RootCAs: s.roots}}
	defer func() { _ = h3.Close() }()
	for proto, client := range map[string]*http.Client{"HTTP/1.1": h1, "HTTP/2.0": s.client, "HTTP/3.0": {Timeout: patience, Transport: h3}} {
		v, err := s.get(client, "/a?page=1")
		if err != nil || v.text != first.text || !strings.Contains(v.cache, "isr; hit") || v.proto != proto {
			t.Errorf("%s: %+v, %v", proto, v, err)
		}
	}
	if v := s.visit("/a?page=1", "Accept-Encoding", "gzip"); v.status != 200 || len(v.header["Content-Encoding"]) > 1 {
		t.Errorf("encoded twice: %v", v.header)
	}
	for _, body := range []string{`{"targets":[{"tag":"pages"}],"hard":true}`, `{"targets":[{"url":"` + s.url + `/a?page=1"}],"hard":true}`, `{"targets":[{"all":true}],"hard":true}`} {
		before := s.visit("/a?page=1")
		if status, text := s.purge(body); status != 200 || !strings.Contains(text, `"stores":1`) {
			t.Fatalf("%s: %d %s", body, status, text)
		}
		if after := s.visit("/a?page=1"); after.text == before.text {
			t.Errorf("%s: %+v", body, after)
		}
	}
	for body, want := range map[string]string{`{}`: "expected 1 to", `{"targets":[{"tag":""}]}`: "target 1", `{"tags":["a"]}`: "unknown field", `{"targets":[{"all":true,"tag":"x"}]}`: "target 1"} {
		if status, text := s.purge(body); status != 400 || !strings.Contains(text, want) {
			t.Errorf("%s: %d %s, want %s", body, status, text, want)
		}
	}
}

// No visitor gets a page that was made for another.
func TestTwoIdentities(t *testing.T) {
	o := newOrigin(t)
	s := start(t, "isr {\n data FOLDER\n}\nreverse_proxy "+o.Listener.Addr().String())
	for _, user := range []string{"session=a", "session=b"} {
		for range 2 {
			v := s.visit("/account", "Cookie", user)
			if !strings.Contains(v.text, fmt.Sprintf("for %q", user)) || !strings.Contains(v.cache, "detail=cookie") {
				t.Errorf("%s: %+v", user, v)
			}
		}
	}
	if v := s.visit("/account"); !strings.HasSuffix(v.text, `for ""`) {
		t.Errorf("anonymous: %+v", v)
	}
	// A header that is not in the key does not reach a page.
	o.set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, r.Header.Get("X-Injected"), r.Header.Get("X-Forwarded-For"))
	})
	if v := s.visit("/shared", "X-Injected", "evil", "X-Forwarded-For", "203.0.113.9"); v.text != "0.0.0.0" {
		t.Errorf("injected: %+v", v)
	}
}

// A stale page is served while the origin is down, and errors are not stored.
func TestOriginIsDown(t *testing.T) {
	o := newOrigin(t)
	o.set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=1")
		fmt.Fprint(w, "good")
	})
	s := start(t, "isr {\n data FOLDER\n stale 1h\n}\nreverse_proxy "+o.Listener.Addr().String())
	s.visit("/")
	o.down.Store(true)
	await(t, "a stale page", func() bool { return strings.Contains(s.visit("/").cache, "detail=stale") })
	for range 5 {
		if v := s.visit("/"); v.text != "good" {
			t.Errorf("%+v", v)
		}
	}
	if v := s.visit("/missing"); v.status != http.StatusBadGateway {
		t.Errorf("without a page: %+v", v)
	}
	o.down.Store(false)
	await(t, "a new page", func() bool { return strings.Contains(s.visit("/missing").text, "good") })
}

// A new page is streamed to its visitor, and one that breaks off is not stored.
func TestStreams(t *testing.T) {
	o := newOrigin(t)
	rest := make(chan struct{})
	o.set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=60")
		fmt.Fprint(w, "first ")
		_ = http.NewResponseController(w).Flush()
		if r.URL.Path == "/broken" {
			panic(http.ErrAbortHandler)
		}
		<-rest
		fmt.Fprint(w, "last")
	})
	s := start(t, "isr {\n data FOLDER\n}\nreverse_proxy "+o.Listener.Addr().String()+" {\n flush_interval -1\n}")
	res, err := s.client.Get(s.url + "/")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	begin := make([]byte, 6)
	if _, err := io.ReadFull(res.Body, begin); err != nil || string(begin) != "first " {
		t.Fatalf("%q, %v", begin, err)
	}
	close(rest)
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != "last" {
		t.Errorf("%q, %v", text, err)
	}
	if v := s.visit("/"); v.text != "first last" || !strings.Contains(v.cache, "hit") {
		t.Errorf("%+v", v)
	}
	for range 2 {
		if v, err := s.get(s.client, "/broken"); err == nil && v.status == 200 && strings.Contains(v.cache, "hit") {
			t.Errorf("stored in part: %+v", v)
		}
	}
}

// Caddy opens a new configuration before it closes the previous one: both use one embedded store, no
// request fails, and pages stay.
func TestReloadUnderLoad(t *testing.T) {
	o := newOrigin(t)
	directives := "isr {\n data FOLDER\n}\nreverse_proxy " + o.Listener.Addr().String()
	s := start(t, directives)
	s.visit("/")
	var visitors sync.WaitGroup
	ctx, stop := context.WithCancel(t.Context())
	var visits atomic.Int64
	for range 4 {
		visitors.Go(func() {
			for ctx.Err() == nil {
				if v, err := s.get(s.client, "/"); err != nil || v.status != 200 || !strings.Contains(v.text, " / 1 for") {
					t.Errorf("%+v, %v", v, err)
					return
				}
				visits.Add(1)
			}
		})
	}
	for i := range 5 {
		s.load(fmt.Sprintf("isr {\n data FOLDER\n stale %dm\n}\nheader X-Load %d\nreverse_proxy %s", i+1, i, o.Listener.Addr()))
		seen := visits.Load()
		await(t, "visits after a reload", func() bool { return visits.Load() > seen+20 || t.Failed() })
	}
	stop()
	visitors.Wait()
	if n := o.renders.Load(); n != 1 {
		t.Errorf("%d renders", n)
	}
}

// The folder stays within its bound: pages leave it, and new ones are stored. A reload can change the
// bound, which is the smallest of the directives.
func TestDisk(t *testing.T) {
	const pages, fit = 40, 9 // of 100 KiB, and as many as are in 1 MiB
	o := newOrigin(t)
	o.set(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "max-age=3600")
		_, _ = w.Write(make([]byte, 100<<10))
	})
	directives := func(disk string) string {
		return "isr {\n data FOLDER\n disk " + disk + "\n memory 64KiB\n}\nreverse_proxy " + o.Listener.Addr().String()
	}
	s := start(t, directives("1MiB"))
	visitAll := func() {
		for i := range pages {
			if v := s.visit(fmt.Sprint("/", i)); v.status != 200 || len(v.text) != 100<<10 {
				t.Fatalf("page %d: status %d, %d bytes (%s)", i, v.status, len(v.text), v.cache)
			}
		}
	}
	stored := func() (n int) {
		for i := range pages {
			if s.visit(fmt.Sprint("/", i), "Cache-Control", "only-if-cached").status == http.StatusOK {
				n++
			}
		}
		return n
	}
	visitAll()
	await(t, "room", func() bool { return stored() <= fit })
	n := 0
	await(t, "a new page to be stored", func() bool {
		n++
		return strings.Contains(s.visit(fmt.Sprint("/new/", n)).cache, "stored")
	})
	s.load(directives("64MiB"))
	await(t, "all pages to be stored", func() bool {
		visitAll()
		return stored() == pages
	})
	s.load("handle /other/* {\n" + directives("64MiB") + "\n}\nhandle {\n" + directives("1MiB") + "\n}")
	await(t, "room by the smallest bound", func() bool { return stored() <= fit })
}

// Two spellings of a folder are one store.
func TestSpellings(t *testing.T) {
	o := newOrigin(t)
	s := start(t, "isr {\n data FOLDER\n}\nreverse_proxy "+o.Listener.Addr().String())
	first := s.visit("/")
	s.load("isr {\n data FOLDER/./x/..\n}\nreverse_proxy " + o.Listener.Addr().String())
	if v := s.visit("/"); v.text != first.text {
		t.Errorf("%+v, want the page of %+v", v, first)
	}
}

// Two sites share one store, and a store that is open elsewhere is an error that names the remedy.
func TestStores(t *testing.T) {
	o := newOrigin(t)
	s := start(t, "handle /a* {\n isr {\n data FOLDER\n name a\n}\n reverse_proxy "+o.Listener.Addr().String()+"\n}\nhandle {\n isr {\n data FOLDER\n name b\n}\n reverse_proxy "+o.Listener.Addr().String()+"\n}")
	for _, path := range []string{"/a", "/b"} {
		s.visit(path)
		if v := s.visit(path); !strings.Contains(v.cache, "hit") {
			t.Errorf("%+v", v)
		}
	}
	if _, err := os.Stat(filepath.Join(s.folder, "isr", "table.db")); err != nil {
		t.Error(err)
	}
}

// Mistakes are errors of the configuration, which name what was expected.
func TestInvalidConfigurations(t *testing.T) {
	s := &site{t: t, folder: t.TempDir(), global: "{\n\tadmin off\n}\nhttp://localhost:9 {\n"}
	for directive, want := range map[string]string{
		"isr x":                                     "wrong argument count",
		"isr {\n unknown 1\n}":                      "unknown subdirective unknown",
		"isr {\n stale soon\n}":                     "expected a time such as",
		"isr {\n memory lots\n}":                    "expected one such as 512KiB",
		"isr {\n disk 1KiB\n}":                      "at least 1MiB",
		"isr {\n table t\n bucket b\n disk 1GiB\n}": "embedded store",
		"isr {\n query\n}":                          "wrong argument count",
		"isr {\n data FOLDER\n table t\n}":          "give one of them",
		"isr {\n table t\n}":                        "table and bucket belong together",
		"isr {\n region eu-west-1\n}":               "need table and bucket",
		"isr {\n data FOLDER\n query \"a b\" *\n stale -1s\n codings lzma\n}": "lzma",
		"isr {\n data FOLDER\n lease 1ms\n}":                                  "Lease",
	} {
		config, err := s.config(directive)
		if err == nil {
			var cfg caddy.Config
			if err = caddy.StrictUnmarshalJSON(config, &cfg); err == nil {
				err = caddy.Validate(&cfg)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", directive, err, want)
		}
	}
}

// certificates writes a certificate for localhost, and returns its files and the pool that has its root.
func certificates(t *testing.T, folder string) (certificate, key string, roots *x509.CertPool) {
	t.Helper()
	certificate, key, roots = filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem"), x509.NewCertPool()
	testbed.WriteCertificate(t, certificate, key, 1, "localhost")
	text, err := os.ReadFile(certificate)
	if err != nil || !roots.AppendCertsFromPEM(text) {
		t.Fatal(err)
	}
	return certificate, key, roots
}

// Servers that share a table and a bucket share pages, and purges by others are seen.
func TestSharedStores(t *testing.T) {
	endpoint, bucketEndpoint := isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local"), isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	t.Setenv("AWS_ACCESS_KEY_ID", os.Getenv("ISR_TEST_S3_ACCESS_KEY"))
	t.Setenv("AWS_SECRET_ACCESS_KEY", os.Getenv("ISR_TEST_S3_SECRET_KEY"))
	keys := credentials.NewStaticCredentialsProvider(os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY"), "")
	ddb := dynamodb.New(dynamodb.Options{BaseEndpoint: &endpoint, Region: "us-east-1", Credentials: keys})
	buckets := s3.New(s3.Options{BaseEndpoint: &bucketEndpoint, Region: "us-east-1", Credentials: keys, UsePathStyle: true})
	name := "caddy-" + strings.ToLower(rand.Text())
	testbed.DropTable(t, ddb, name)
	if err := dynamostore.CreateTable(t.Context(), ddb, name); err != nil {
		t.Fatal(err)
	}
	if _, err := buckets.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &name}); err != nil {
		t.Fatal(err)
	}
	meta, err := dynamostore.New(ddb, name, dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	bodies, err := s3body.New(buckets, name, s3body.Config{})
	if err != nil {
		t.Fatal(err)
	}
	other, err := isr.New(meta, bodies, isr.Config{StoreTimeout: time.Minute, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close(context.Background()) }()
	o := newOrigin(t)
	s := start(t, fmt.Sprintf("isr {\n table %s\n bucket %s\n region us-east-1\n dynamodb_endpoint %s\n s3_endpoint %s\n}\nreverse_proxy %s", name, name, endpoint, bucketEndpoint, o.Listener.Addr()))
	first := s.visit("/")
	handler := other.Handler(isr.Route{Name: "caddy"}, http.NotFoundHandler())
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodGet, s.url+"/", nil)
	if handler.ServeHTTP(w, r); w.Body.String() != first.text {
		t.Errorf("another server: %d %q, %q", w.Code, w.Header().Get("Cache-Status"), w.Body)
	}
	if _, err := other.Purge(t.Context(), isr.Purge{Targets: []store.PurgeTarget{isr.PurgeTag("", "pages")}, Hard: true}); err != nil {
		t.Fatal(err)
	}
	await(t, "the purge", func() bool { return s.visit("/").text != first.text })
	// A table that does not exist is an error of the configuration.
	config, err := s.config(fmt.Sprintf("isr {\n table %s-missing\n bucket %s\n region us-east-1\n dynamodb_endpoint %s\n s3_endpoint %s\n}", name, name, endpoint, bucketEndpoint))
	if err == nil {
		err = caddy.Load(config, true)
	}
	if err == nil || !strings.Contains(err.Error(), "-missing") {
		t.Error(err)
	}
	if v := s.visit("/"); v.status != 200 {
		t.Errorf("after a configuration that failed: %+v", v)
	}
}
