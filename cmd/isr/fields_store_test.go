package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/embedded"
	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

// sharedTable is a file with the embedded store served as DynamoDB.
const sharedTable = "dynamodb: {address: 127.0.0.1:0}\ndefaults: {revalidate: 1h}\n"

// tables returns a client of the embedded store.
func (s *fieldServer) tables(accessKey, secretKey string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: "local", BaseEndpoint: aws.String(s.logged(`serving DynamoDB on (http://[^"]+)`)), RetryMaxAttempts: 1,
		Credentials: credentials.NewStaticCredentialsProvider(accessKey, secretKey, ""),
	})
}

// row returns the first row of the embedded store whose sort key has a prefix.
func (s *fieldServer) row(sk string) map[string]types.AttributeValue {
	s.Helper()
	out, err := s.tables("any", "any").Scan(s.Context(), &dynamodb.ScanInput{TableName: aws.String(embedded.Table)})
	if err != nil {
		s.Fatal(err)
	}
	for _, item := range out.Items {
		if strings.HasPrefix(item["sk"].(*types.AttributeValueMemberS).Value, sk) {
			return item
		}
	}
	s.Fatalf("no row %s in %d rows", sk, len(out.Items))
	return nil
}

// expires returns in how many days a row expires.
func (s *fieldServer) expires(sk string) int {
	s.Helper()
	n, err := strconv.ParseInt(s.row(sk)["ttl"].(*types.AttributeValueMemberN).Value, 10, 64)
	if err != nil {
		s.Fatal(err)
	}
	return int(time.Until(time.Unix(n, 0)).Hours() / 24)
}

func cacheFieldTests() []fieldTest {
	kilobyte := strings.Repeat("x", 1000)
	return []fieldTest{
		{fields: "memory", file: "memory: 0\ndefaults: {revalidate: 1h}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			// A request during the end of the flight joins it.
			s.until("the page is stored", func() bool { return strings.HasPrefix(s.get("/").status, hit) })
			if err := os.RemoveAll(s.dir + "/data/bodies/bodies"); err != nil {
				s.Fatal(err)
			}
			s.expect("/", 200, "isr; fwd=") // from memory, it would be a hit
		}},
		{fields: "buffers", file: "buffers: 8MiB\nmetrics: {address: 127.0.0.1:0}", show: func(s *fieldServer) {
			s.contains(s.get(s.logged(`metrics on (http://[^"\s]+)`)).body, "isr_buffer_limit_bytes 8.388608e+06")
		}},
		{fields: "max_client_connections", file: "max_client_connections: 1\nmetrics: {address: 127.0.0.1:0}", show: func(s *fieldServer) {
			s.expect("/", 200, "isr; fwd=") // by a connection that stays open
			s.client.Transport = new(http.Transport)
			s.until("the first connection waits, and is closed for another", func() bool {
				v, err := s.try(http.MethodGet, "/")
				return err == nil && v.code == 200
			})
			s.contains(s.get(s.logged(`metrics on (http://[^"\s]+)`)).body, `isr_connections_closed_total{cause="reclaimed"} `)
			s.contains(s.get(s.logged(`metrics on (http://[^"\s]+)`)).body, "isr_connections 1\n")
		}},
		{fields: "min_uses", file: "min_uses: 2\ndefaults: {revalidate: 1h}", show: func(s *fieldServer) {
			s.contains(s.expect("/", 200, missed).status, "detail=min-uses")
			s.expect("/", 200, stored)
		}},
		{fields: "max_body", file: "max_body: 100B\ndefaults: {revalidate: 1h}", origin: answer(200, kilobyte), show: func(s *fieldServer) {
			s.expect("/", 200, missed)
			if v := s.expect("/", 200, "isr; fwd="); v.body != kilobyte {
				s.Errorf("got %s", v)
			}
		}},
		{fields: "max_header", file: "max_header: 1KiB\ndefaults: {revalidate: 1h}", origin: answer(200, "page", "X-Long", strings.Repeat("x", 1024)), show: func(s *fieldServer) {
			s.contains(s.expect("/", 200, missed).status, "detail=header-too-large")
		}},
		{fields: "max_tags", file: "max_tags: 2\ndefaults: {revalidate: 1h}", origin: answer(200, "page", "Cache-Tag", "a,b,c"), show: func(s *fieldServer) {
			s.contains(s.expect("/", 200, missed).status, "detail=tags")
		}},
		{fields: "lease", file: "lease: 12h\ndefaults: {revalidate: 1h}", origin: held, show: func(s *fieldServer) {
			go func() { _, _ = s.try(http.MethodGet, "/") }()
			s.until("the page is rendered", func() bool { return s.origin.count() == 1 })
			if text := s.isr("lease", s.url+"/"); !strings.Contains(text, " for 12h0m") && !strings.Contains(text, " for 11h59m") {
				s.Error(text)
			}
		}},
		{fields: "retention", file: sharedTable + "retention: 200d", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			if days := s.expires("META"); days < 199 || days > 202 { // a day more
				s.Errorf("the page expires in %d days", days)
			}
		}},
		{fields: "request_life", file: sharedTable + "request_life: 200d", show: func(s *fieldServer) {
			s.isr("regenerate", s.url+"/", "--idempotency-key", "once")
			if days := s.expires("REQ#"); days < 199 || days > 202 {
				s.Errorf("the request is kept for %d days", days)
			}
		}},
		{fields: "build", file: "build: one\ndefaults: {revalidate: 1h, stale: 1h}", show: func(s *fieldServer) {
			s.expect("/", 200, stored, "Host", "localhost")
			s.restart("build: one\ndefaults: {revalidate: 1h, stale: 1h}")
			s.expect("/", 200, hit+"; ttl=", "Host", "localhost")
			s.restart("build: two\ndefaults: {revalidate: 1h, stale: 1h}")
			s.contains(s.expect("/", 200, hit, "Host", "localhost").status, "detail=stale")
		}},
		fleet("poll", "poll: 10ms", func(s *fieldServer, f *cloud) {
			s.until("the log is read 25 times within 4s, and by default once in 200 ms or more", func() bool {
				before, began := f.calls.Load(), time.Now()
				s.until("the log is read", func() bool { return f.calls.Load() >= before+25 })
				return time.Since(began) < 4*time.Second
			})
		}),
		fleet("max_blind blind", "max_blind: 1s\nblind: refuse\npoll: 10ms\nstore: {table: pages, bucket: my-pages, dynamodb_endpoint: 'DYNAMODB', s3_endpoint: 'S3', create_table: true, require: true, timeout: 1s}", func(s *fieldServer, f *cloud) {
			s.expect("/", 200, stored)
			s.until("the server refuses to serve in less than 10s, which is the default", func() bool {
				began := time.Now()
				f.down.Store(true)
				s.until("the server refuses to serve", func() bool { return s.get("/").code == http.StatusServiceUnavailable })
				took := time.Since(began)
				f.down.Store(false) // also for the shutdown
				s.until("the server serves again", func() bool { return s.get("/").code == http.StatusOK })
				return took < 9900*time.Millisecond
			})
		}),
	}
}

// A cloud is DynamoDB and S3 for a server.
type cloud struct {
	tables *localdynamo.DB
	calls  atomic.Int64 // to DynamoDB
	delay  atomic.Int64 // of each of them, in nanoseconds
	down   atomic.Bool  // DynamoDB does not answer
	bucket *bucket
	region atomic.Pointer[string] // in the signature of the last call
}

// start serves the cloud at DYNAMODB and S3.
func (c *cloud) start(s *fieldServer) {
	c.tables = localdynamo.OpenMemory(localdynamo.Options{})
	s.Cleanup(func() { _ = c.tables.Close() })
	handler, err := wire.New(c.tables, wire.Config{Intercept: func(context.Context, wire.Call, func()) error {
		c.calls.Add(1)
		time.Sleep(time.Duration(c.delay.Load()))
		if c.down.Load() {
			return errors.New("the connection is broken")
		}
		return nil
	}})
	if err != nil {
		s.Fatal(err)
	}
	tables := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scope := r.Header.Get("Authorization")
		c.region.Store(&scope)
		handler.ServeHTTP(w, r)
	}))
	c.bucket = &bucket{objects: make(map[string][]byte)}
	objects := httptest.NewServer(c.bucket)
	s.Cleanup(tables.Close)
	s.Cleanup(objects.Close)
	s.replace("DYNAMODB", tables.URL)
	s.replace("S3", objects.URL)
}

// fleet returns a test of a server with a cloud.
func fleet(fields, file string, show func(*fieldServer, *cloud)) fieldTest {
	c := &cloud{}
	if !strings.Contains(file, "store:") {
		file += "\nstore: {table: pages, bucket: my-pages, dynamodb_endpoint: 'DYNAMODB', s3_endpoint: 'S3', create_table: true, require: true}"
	}
	return fieldTest{fields: fields, file: file + "\ndefaults: {revalidate: 1h, stale: 1h}", prepare: c.start, show: func(s *fieldServer) { show(s, c) }}
}

// withOrigin is a test with another site.
func withOrigin(site siteHandler, t fieldTest) fieldTest {
	t.origin = site
	return t
}

// A bucket is as much of S3 as a server needs to write and read bodies.
type bucket struct {
	mu      sync.Mutex
	objects map[string][]byte // guarded by mu; by their paths
}

func (b *bucket) paths() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return strings.Join(slices.Sorted(maps.Keys(b.objects)), " ")
}

func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	body, found := b.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodPut && found:
		w.WriteHeader(http.StatusPreconditionFailed)
		fmt.Fprint(w, "<Error><Code>PreconditionFailed</Code></Error>")
	case r.Method == http.MethodPut:
		body, _ = io.ReadAll(r.Body)
		b.objects[r.URL.Path] = body
	case r.Method == http.MethodGet && found:
		_, _ = w.Write(body)
	default:
		w.WriteHeader(http.StatusNotFound)
	}
}

func storeFieldTests() []fieldTest {
	half := strings.Repeat("0123456789abcdef", 20_000) // of an eighth
	return []fieldTest{
		{fields: "store.data", file: "store: {data: DIR/another}", show: func(s *fieldServer) {
			if _, err := os.Stat(s.dir + "/another/table.db"); err != nil {
				s.Error(err)
			}
		}},
		{fields: "store.disk", file: "store: {data: DIR/data, disk: 1MiB}\ndefaults: {revalidate: 1h}", origin: answer(200, half), show: func(s *fieldServer) {
			n := 0
			s.until("the store is full", func() bool {
				n++
				return strings.Contains(s.get(fmt.Sprint("/", n)).status, "detail=no-room")
			})
		}},
		fleet("store.table store.bucket store.dynamodb_endpoint store.s3_endpoint store.create_table", "", func(s *fieldServer, c *cloud) {
			s.expect("/", 200, stored)
			out, err := c.tables.ListTables(s.Context(), &dynamodb.ListTablesInput{})
			if err != nil || !slices.Equal(out.TableNames, []string{"pages"}) {
				s.Errorf("the tables are %v, %v", out, err)
			}
			s.contains(c.bucket.paths(), "/my-pages/bodies/")
		}),
		withOrigin(answer(200, half), fleet("store.cache_dir store.cache_size", "store: {table: pages, bucket: my-pages, dynamodb_endpoint: 'DYNAMODB', s3_endpoint: 'S3', create_table: true, require: true, cache_dir: DIR/cache, cache_size: 3MiB}", func(s *fieldServer, _ *cloud) {
			kept := func() (files []string) {
				files, _ = filepath.Glob(s.dir + "/cache/??/*")
				return files
			}
			for i := range 12 { // 3.8 MB
				s.expect(fmt.Sprint("/", i), 200, stored)
				s.until("the body is kept, or others made room", func() bool { return len(kept()) > min(i, 7) })
			}
			s.until("the size is kept", func() bool { return len(kept()) <= 9 })
		})),
		fleet("store.region", "store: {table: pages, bucket: my-pages, region: eu-north-1, dynamodb_endpoint: 'DYNAMODB', s3_endpoint: 'S3', create_table: true, require: true}", func(s *fieldServer, c *cloud) {
			s.contains(*c.region.Load(), "/eu-north-1/dynamodb/") // by default the region of AWS_REGION
		}),
		{fields: "store.require", file: "public_scheme: http", show: func(s *fieldServer) {
			s.stop()
			<-s.done
			s.begin("store: {table: pages, bucket: my-pages, dynamodb_endpoint: 'http://127.0.0.1:1', s3_endpoint: 'http://127.0.0.1:1', require: true}")
			<-s.done // without require, it would serve
			if s.exit != 1 || !strings.Contains(s.log.String(), "DynamoDB does not answer") {
				s.Errorf("ended with %d: %s", s.exit, s.log)
			}
		}},
		fleet("store.timeout", "store: {table: pages, bucket: my-pages, dynamodb_endpoint: 'DYNAMODB', s3_endpoint: 'S3', create_table: true, require: true, timeout: 1ms}", func(s *fieldServer, c *cloud) {
			c.delay.Store(int64(50 * time.Millisecond))
			s.contains(s.expect("/", 200, missed).status, "detail=store-error") // by default the store has 300 ms
		}),
		{fields: "store.guards", file: sharedTable + "store: {data: DIR/data, guards: version}", show: func(s *fieldServer) {
			s.expect("/", 200, stored)
			s.isr("regenerate", s.url+"/")
			if v, ok := s.row("META")["version"].(*types.AttributeValueMemberN); !ok || v.Value != "2" {
				s.Errorf("the version is %v", v)
			}
		}},
		{fields: "dynamodb.address", file: sharedTable, show: func(s *fieldServer) {
			if out, err := s.tables("any", "any").ListTables(s.Context(), &dynamodb.ListTablesInput{}); err != nil || len(out.TableNames) != 1 {
				s.Errorf("%v, %v", out, err)
			}
		}},
		{
			fields: "dynamodb.access_key dynamodb.secret_key", file: "dynamodb: {address: 127.0.0.1:0, access_key: {file: DIR/access}, secret_key: {file: DIR/secret}}",
			prepare: func(s *fieldServer) {
				s.write("access", "the-access-key")
				s.write("secret", "the-secret-key-of-this-test")
			},
			show: func(s *fieldServer) {
				for keys, allowed := range map[[2]string]bool{
					{"the-access-key", "the-secret-key-of-this-test"}: true,
					{"the-access-key", "another-secret-key"}:          false,
					{"another", "the-secret-key-of-this-test"}:        false,
				} {
					if _, err := s.tables(keys[0], keys[1]).ListTables(s.Context(), &dynamodb.ListTablesInput{}); (err == nil) != allowed {
						s.Errorf("%v: %v", keys, err)
					}
				}
			},
		},
	}
}
