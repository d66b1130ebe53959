package languages

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/internal/vocabulary"
	"github.com/facetheory/isr/isrtest"
)

// host is the host of all pages.
const host = "site.test"

// A site is isr serve on the table of a crew, with its own bucket. Its origin has no pages:
// every page that visitors get was published by the crew.
type site struct {
	url    string
	bucket string
	s3     *s3.Client
	visits atomic.Int64 // requests to the origin
}

// serve starts isr serve and stops it at the end of the test.
func (c *crew) serve(t *testing.T, flags ...string) *site {
	t.Helper()
	endpoint := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	binary := process.Binary(t, "../..")
	s := &site{bucket: c.table, s3: s3.New(s3.Options{
		BaseEndpoint: &endpoint, UsePathStyle: true, Region: region,
		Credentials: credentials.NewStaticCredentialsProvider(c.access, c.secret, ""),
	})}
	if _, err := s.s3.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: &s.bucket}); err != nil {
		t.Fatalf("create bucket %s: %v", s.bucket, err)
	}
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		s.visits.Add(1)
		http.Error(w, "the origin has no pages", http.StatusBadGateway)
	}))
	t.Cleanup(origin.Close)
	dir := t.TempDir()
	flags = append([]string{
		"serve", "--data", dir, "--listen", "127.0.0.1:0", "--host", host, "--host", "127.0.0.1",
		"--origin", origin.URL, "--table", c.table, "--bucket", s.bucket, "--region", region,
		"--dynamodb-endpoint", c.url, "--s3-endpoint", endpoint,
	}, flags...)
	cmd := exec.CommandContext(context.Background(), binary, flags...)
	cmd.Dir = dir
	cmd.Env = c.environment()
	var served *process.Process
	served, s.url = process.Serve(t, cmd, regexp.MustCompile(`msg="serving (http://[^"]+)"`))
	t.Cleanup(served.Kill)
	return s
}

// store writes the body of an entry under its body key.
func (s *site) store(t *testing.T, key, body string) {
	t.Helper()
	if _, err := s.s3.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &s.bucket, Key: aws.String(key), Body: bytes.NewReader([]byte(body)),
	}); err != nil {
		t.Fatal(err)
	}
}

// get requests a page from isr serve.
func (s *site) get(t *testing.T, path string) (status int, header http.Header, body string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.url+path, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	r.Host = host
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(text)
}

// expectServed expects visitors to get a generation, without a request to the origin.
func (s *site) expectServed(t *testing.T, path string, e vocabulary.Entry, body string) {
	t.Helper()
	status, header, got := s.get(t, path)
	if status != http.StatusOK || got != body || header.Get("ETag") != e.ETag {
		t.Errorf("%s: isr serve answers %d, ETag %s, %q (Cache-Status %s); want 200, ETag %s, %q",
			path, status, header.Get("ETag"), got, header.Get("Cache-Status"), e.ETag, body)
	}
	for name, values := range e.Header {
		if got := header.Values(name); len(got) != len(values) || got[0] != string(values[0]) {
			t.Errorf("%s: isr serve has %s: %q, want %q", path, name, got, values)
		}
	}
	if n := s.visits.Load(); n != 0 {
		t.Errorf("%s: the origin got %d requests, want 0", path, n)
	}
}

// awaitServed waits until visitors get a body: isr serve learns of it from the log.
func (s *site) awaitServed(t *testing.T, path, body string) {
	t.Helper()
	await(t, "isr serve to answer "+path+" with "+body, func() bool {
		_, _, got := s.get(t, path)
		return got == body
	})
}

// await polls until done returns true.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	for !done() {
		if time.Now().After(deadline) {
			t.Fatalf("timed out after %s waiting for %s", patience, what)
		}
		<-tick.C
	}
}
