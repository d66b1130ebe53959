package e2e

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

// A switched server can be stopped and started again. While it is stopped, connections to its
// address are refused.
type switched struct {
	handler http.Handler
	address string

	mu     sync.Mutex
	server *http.Server
}

func newSwitched(t *testing.T, h http.Handler) *switched {
	t.Helper()
	s := &switched{handler: h, address: freeAddress(t)}
	t.Cleanup(s.stop)
	return s
}

func (s *switched) url() string { return "http://" + s.address }

func (s *switched) start(t *testing.T) {
	t.Helper()
	var l net.Listener
	await(t, "the address "+s.address, patience, func() (ok bool) {
		var err error
		l, err = net.Listen("tcp", s.address)
		return err == nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.server = &http.Server{Handler: s.handler, ReadHeaderTimeout: patience}
	go func(server *http.Server) { _ = server.Serve(l) }(s.server)
}

func (s *switched) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.server != nil {
		_ = s.server.Close()
		s.server = nil
	}
}

// A weather is a DynamoDB and an S3 that can be stopped, with faults in calls to DynamoDB.
type weather struct {
	dynamodb, s3 *switched
	bucket       string
	intercept    atomic.Pointer[wire.Interceptor]
}

func newWeather(t *testing.T) *weather {
	t.Helper()
	w := &weather{bucket: "isr-e2e-" + strings.ToLower(rand.Text())}
	behind := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	target, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	db := localdynamo.OpenMemory(localdynamo.Options{})
	t.Cleanup(func() { _ = db.Close() })
	handler, err := wire.New(db, wire.Config{Intercept: func(ctx context.Context, call wire.Call, apply func()) error {
		if fn := w.intercept.Load(); fn != nil {
			return (*fn)(ctx, call, apply)
		}
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	w.dynamodb = newSwitched(t, handler)
	// The host is part of the signature.
	w.s3 = newSwitched(t, &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target); r.Out.Host = r.In.Host }})
	client := s3.New(s3.Options{BaseEndpoint: &behind, UsePathStyle: true, Region: region, Credentials: w.credentials()})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(w.bucket)}); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *weather) credentials() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY"), "")
}

func (w *weather) settings(t *testing.T, args ...string) settings {
	t.Helper()
	return settings{
		dir: t.TempDir(),
		store: []string{
			"--table", "isr", "--bucket", w.bucket, "--region", region,
			"--dynamodb-endpoint", w.dynamodb.url(), "--s3-endpoint", w.s3.url(),
		},
		args: append([]string{"--create-table"}, args...),
		env: []string{
			"AWS_ACCESS_KEY_ID=" + os.Getenv("ISR_TEST_S3_ACCESS_KEY"), "AWS_SECRET_ACCESS_KEY=" + os.Getenv("ISR_TEST_S3_SECRET_KEY"),
			"ISR_STORE_TIMEOUT=300ms", // which is what these tests are about
		},
	}
}

func (w *weather) up(t *testing.T) {
	t.Helper()
	w.dynamodb.start(t)
	w.s3.start(t)
}

func (w *weather) down() {
	w.dynamodb.stop()
	w.s3.stop()
}

// storeBound is how long a visit may take if rendering takes no time: --store-timeout and the
// delays of a busy machine. Waiting for the stores would take longer: the SDK retries refused
// connections for 8 s, and a slow call takes slowCall.
const (
	storeBound = 3 * time.Second
	slowCall   = 4 * time.Second // less than the SDK waits for an answer
)

func within(d time.Duration) func(reply) bool {
	return func(r reply) bool { return r.status == http.StatusOK && r.took < d }
}

// ready requests /readyz.
func ready(t *testing.T, g *gateway) (code int, status, reasons string) {
	t.Helper()
	found := regexp.MustCompile(`msg="health on (http://[^"]+)"`).FindStringSubmatch(g.process.Log())
	r := get(t, found[1])
	var report struct {
		Status  string
		Reasons []string
	}
	if err := json.Unmarshal([]byte(r.body), &report); err != nil {
		t.Fatalf("/readyz answers %q: %v", r.body, err)
	}
	return r.status, report.Status, strings.Join(report.Reasons, "; ")
}

// A server that starts during an outage of its stores serves without them, logs that once,
// creates the table when they answer, and stores pages from then on.
func TestStartsWithoutStores(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	w := newWeather(t)
	g := serve(t, w.settings(t, "--health", "127.0.0.1:0"), o)
	expectAll(t, "a page without stores", storm(t, 30, coldPages(g.url, 10)...), within(storeBound))
	if r := get(t, g.url+"/"); !within(storeBound)(r) || !strings.Contains(r.cache(), "store-error") {
		t.Errorf("without stores: %s", r)
	}
	if code, status, reasons := ready(t, g); code != 200 || status != "degraded" || !strings.Contains(reasons, "the stores are not used") {
		t.Errorf("/readyz: %d %s: %s", code, status, reasons)
	}
	if n := len(regexp.MustCompile("(failed to reach stores|stores do not answer yet): serving without them").FindAllString(g.process.Log(), -1)); n != 1 {
		t.Errorf("the log says %d times that the stores are unreachable", n)
	}
	w.up(t)
	g.process.Await(t, "the stores to be used", patience, func() bool { return strings.Contains(g.process.Log(), "using them from now on") })
	await(t, "a page to be stored", patience, func() bool {
		get(t, g.url+"/")
		p, err := json.Marshal(g.ls(t))
		return err == nil && strings.Contains(string(p), `"key":"`+host+`/"`)
	})
	await(t, "/readyz without reasons", patience, func() bool {
		code, status, reasons := ready(t, g)
		return code == 200 && status == "ready" && reasons == ""
	})
}

// Stores that are configured incorrectly when the outage ends are reported and not used.
func TestStartsWithoutStoresThatAreWrong(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/", page(3600, 0))
	w := newWeather(t)
	s := w.settings(t, "--health", "127.0.0.1:0")
	s.args = s.args[1:] // without --create-table
	g := serve(t, s, o)
	w.up(t)
	g.process.Await(t, "the mistake to be told", patience, func() bool { return strings.Contains(g.process.Log(), "fail the check") })
	if code, status, reasons := ready(t, g); code != 200 || status != "degraded" || !strings.Contains(reasons, "isr table create") {
		t.Errorf("/readyz: %d %s: %s", code, status, reasons)
	}
	if r := get(t, g.url+"/"); r.status != http.StatusOK {
		t.Errorf("with wrong stores: %s", r)
	}
}

// An outage costs each visitor at most the bound, and two log lines for each store: that it
// began, and that it ended, with the number of affected requests.
func TestOutage(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/cold/", page(3600, 0))
	o.set("/warm", page(3600, 0))
	w := newWeather(t)
	w.up(t)
	g := serve(t, w.settings(t), o)
	get(t, g.url+"/warm")
	w.down()
	const pages = 60
	first := storm(t, pages, coldPages(g.url, pages)...)
	expectAll(t, "a cold page in the outage", first, within(storeBound))
	if r := get(t, g.url+"/warm"); !r.hit() {
		t.Errorf("a page in memory: %s", r)
	}
	g.process.Await(t, "the outage to be noticed", patience, func() bool { return strings.Contains(g.process.Log(), "its circuit breaker opens") })
	known := storm(t, pages, coldPages(g.url+"/cold", pages)...)
	expectAll(t, "a cold page once the outage is known", known, within(storeBound))
	t.Logf("cold pages without stores: 95 of 100 within %s at first, %s once the outage is known", percentile(first, 95), percentile(known, 95))
	w.up(t)
	g.process.Await(t, "the end of the outage", 2*patience, func() bool { return strings.Contains(g.process.Log(), "its circuit breaker closes") })
	for line, most := range map[string]int{`circuit breaker opens.*store=table`: 1, `circuit breaker closes.*store=table affected=\d\d+ `: 1, `level=ERROR`: 6} {
		if n := len(regexp.MustCompile(line).FindAllString(g.process.Log(), -1)); n == 0 || n > most {
			t.Errorf("the log has %d lines %q, expected 1 to %d", n, line, most)
		}
	}
	for i := range pages {
		if n := o.count(fmt.Sprintf("/cold/%d", i)); n != 1 {
			t.Errorf("/cold/%d was rendered %d times", i, n)
		}
	}
	await(t, "pages to be stored again", patience, func() bool {
		return strings.Contains(get(t, g.url+"/cold/again").cache(), "hit; ttl")
	})
}

// Inspecting pages neither writes to the bucket nor reads from it.
func TestListNeedsNoBucket(t *testing.T) {
	t.Parallel()
	o := newOrigin(t)
	o.set("/page", page(3600, 0))
	w := newWeather(t)
	w.up(t)
	g := serve(t, w.settings(t), o)
	get(t, g.url+"/page")
	await(t, "the page to be stored", patience, func() bool { return len(g.stored(t)) == 1 })
	w.s3.stop()
	if pages := g.stored(t); len(pages) != 1 {
		t.Errorf("without the bucket: %v", pages)
	}
}

// Brown-outs: every tenth call to DynamoDB takes seconds or is throttled. No visitor waits
// longer than the bound, and no page is rendered twice.
func TestBrownOuts(t *testing.T) {
	t.Parallel()
	for name, trouble := range map[string]func(ctx context.Context) error{
		"slow": func(ctx context.Context) error {
			timer := time.NewTimer(slowCall)
			defer timer.Stop()
			select {
			case <-timer.C:
			case <-ctx.Done():
			}
			return nil
		},
		"throttled": func(context.Context) error {
			return &types.ThrottlingException{Message: aws.String("Rate exceeded")}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := newOrigin(t)
			o.set("/cold/", page(3600, 0))
			w := newWeather(t)
			w.up(t)
			g := serve(t, w.settings(t), o)
			var calls atomic.Int64
			fn := wire.Interceptor(func(ctx context.Context, _ wire.Call, _ func()) error {
				if calls.Add(1)%10 != 0 {
					return nil
				}
				return trouble(ctx)
			})
			w.intercept.Store(&fn)
			const pages, rounds = 40, 3
			for range rounds {
				expectAll(t, "a page in a brown-out", storm(t, pages, coldPages(g.url, pages)...), within(storeBound))
			}
			w.intercept.Store(nil)
			// A flight may run out of attempts: its page is stored on the next request.
			await(t, "nearly all pages to be stored", 3*patience, func() bool { return len(g.stored(t)) >= pages*9/10 })
			twice := 0
			for i := range pages {
				if n := o.count(fmt.Sprintf("/cold/%d", i)); n != 1 {
					twice++
					t.Errorf("/cold/%d was rendered %d times", i, n)
				}
			}
			t.Logf("%d calls of DynamoDB; %d of %d pages were rendered more than once", calls.Load(), twice, pages)
		})
	}
}
