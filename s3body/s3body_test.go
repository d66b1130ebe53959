package s3body_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

func TestBodyStore(t *testing.T) {
	t.Parallel()
	client := realClient(t, nil)
	isrtest.BodyStore(t, func(t *testing.T) store.BodyStore {
		return newStore(t, client, makeBucket(t, client))
	})
}

// TestLostReply: the SDK retries a request whose first reply was lost, once with the
// request executed and once without.
func TestLostReply(t *testing.T) {
	t.Parallel()
	plain := realClient(t, nil)
	bucket := makeBucket(t, plain)
	for _, test := range []struct {
		name    string
		applied bool
		there   string // content that another writer put before
		want    error
	}{
		{"applied", true, "", nil},
		{"not-applied", false, "", nil},
		{"same-body-there", true, "body", nil},
		{"other-body-there", true, "BODY", store.ErrExists},
		{"longer-body-there", false, "body and more", store.ErrExists},
	} {
		t.Run(test.name, func(t *testing.T) {
			if test.there != "" {
				if err := newStore(t, plain, bucket).Put(t.Context(), test.name, []byte(test.there)); err != nil {
					t.Fatal(err)
				}
			}
			lossy := &lossyTransport{applied: test.applied, lose: 1}
			err := newStore(t, realClient(t, lossy), bucket).Put(t.Context(), test.name, []byte("body"))
			if !errors.Is(err, test.want) {
				t.Errorf("Put: %v, want %v", err, test.want)
			}
			if lossy.lose != 0 {
				t.Error("no reply was lost")
			}
			want := "body"
			if test.there != "" {
				want = test.there
			}
			if got := read(t, newStore(t, plain, bucket), test.name); got != want {
				t.Errorf("the object holds %q, want %q", got, want)
			}
		})
	}
}

// A lossyTransport loses the replies to the first PUTs.
type lossyTransport struct {
	applied bool // the server receives the request nevertheless
	lose    int  // replies still to lose; the tests put one body at a time
}

func (l *lossyTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || l.lose == 0 {
		return http.DefaultTransport.RoundTrip(r)
	}
	l.lose--
	if l.applied {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		if err := response.Body.Close(); err != nil {
			return nil, err
		}
	}
	return nil, errors.New("connection reset by peer")
}

// TestDamagedUpload changes a byte of an upload: the server verifies the checksum and
// stores nothing.
func TestDamagedUpload(t *testing.T) {
	t.Parallel()
	plain := realClient(t, nil)
	bucket := makeBucket(t, plain)
	damaging := roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Header.Get("X-Amz-Checksum-Crc32") == "" || strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
			t.Errorf("the checksum is not in a header: %v", r.Header)
		}
		r.Body = io.NopCloser(strings.NewReader("bady"))
		return http.DefaultTransport.RoundTrip(r)
	})
	if err := newStore(t, realClient(t, damaging), bucket).Put(t.Context(), "bodies/1", []byte("body")); err == nil {
		t.Error("a damaged body was accepted")
	}
	if _, err := newStore(t, plain, bucket).Stat(t.Context(), "bodies/1"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("after a damaged upload: %v, want ErrNotFound", err)
	}
}

// TestDamagedDownload changes a byte of a download.
func TestDamagedDownload(t *testing.T) {
	t.Parallel()
	plain := realClient(t, nil)
	bucket := makeBucket(t, plain)
	if err := newStore(t, plain, bucket).Put(t.Context(), "bodies/1", []byte("body")); err != nil {
		t.Fatal(err)
	}
	damaging := roundTripper(func(r *http.Request) (*http.Response, error) {
		response, err := http.DefaultTransport.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		body, err := io.ReadAll(response.Body)
		if err = errors.Join(err, response.Body.Close()); err != nil {
			return nil, err
		}
		response.Body = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(body, []byte("body"), []byte("bady"))))
		return response, nil
	})
	r, length, err := newStore(t, realClient(t, damaging), bucket).Open(t.Context(), "bodies/1")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	// A reader that trusts the stated length stops there.
	if _, err := io.ReadFull(r, make([]byte, length)); err == nil {
		if _, err = r.Read(make([]byte, 1)); err == io.EOF {
			t.Error("a damaged body was delivered without an error")
		}
	}
}

func TestForeignAddresses(t *testing.T) {
	t.Parallel()
	client := realClient(t, nil)
	bucket := makeBucket(t, client)
	bodies := newStore(t, client, bucket)
	if err := bodies.Put(t.Context(), "other/service/page.html", []byte("page")); err != nil {
		t.Fatal(err)
	}
	address := "s3://" + bucket + "/other/service/page.html"
	if got := read(t, bodies, address); got != "page" {
		t.Errorf("%s holds %q", address, got)
	}
	info, err := bodies.Stat(t.Context(), address)
	if err != nil || info.Key != address || info.Length != 4 {
		t.Errorf("Stat(%q): %+v, %v", address, info, err)
	}
	if _, err := bodies.Stat(t.Context(), address+"x"); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("a missing address: %v, want ErrNotFound", err)
	}
	for _, address := range []string{
		"s3://other-bucket/other/service/page.html", "s3://" + bucket + "x/other/service/page.html", "s3://" + bucket,
		"s3://" + bucket + "/", "s3:///x", "s3://", "s3://" + bucket + "/../" + bucket + "/x", "S3://" + bucket + "/x",
	} {
		if _, _, err := bodies.Open(t.Context(), address); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("Open(%q): %v, want ErrInvalidKey", address, err)
		}
		if _, err := bodies.Stat(t.Context(), address); !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("Stat(%q): %v, want ErrInvalidKey", address, err)
		}
	}
	for call, err := range map[string]error{
		"Put":    bodies.Put(t.Context(), address, []byte("page")),
		"Delete": bodies.Delete(t.Context(), address),
	} {
		if !errors.Is(err, store.ErrInvalidKey) {
			t.Errorf("%s of another service's address: %v, want ErrInvalidKey", call, err)
		}
	}
}

func TestNewRejectsInvalidBuckets(t *testing.T) {
	t.Parallel()
	for _, bucket := range []string{"", "a/b", "a b", "s3://bucket"} {
		if _, err := s3body.New(s3.New(s3.Options{}), bucket, s3body.Config{}); err == nil {
			t.Errorf("New accepts the bucket %q", bucket)
		}
	}
	if _, err := s3body.New(nil, "bucket", s3body.Config{}); err == nil {
		t.Error("New accepts a nil client")
	}
}

// realClient returns a client of the real S3 server that ./test starts.
func realClient(t *testing.T, transport http.RoundTripper) *s3.Client {
	t.Helper()
	endpoint := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	return newClient(endpoint, os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY"), transport)
}

func newClient(endpoint, access, secret string, transport http.RoundTripper) *s3.Client {
	if transport == nil {
		transport = http.DefaultTransport
	}
	return s3.New(s3.Options{
		BaseEndpoint: &endpoint,
		UsePathStyle: true,
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider(access, secret, ""),
		HTTPClient:   &http.Client{Transport: transport},
		Retryer:      retry.NewStandard(func(o *retry.StandardOptions) { o.MaxBackoff = 20 * time.Millisecond }),
	})
}

// makeBucket creates a bucket for one test. The server and its data end with
// ./test.
func makeBucket(t *testing.T, client *s3.Client) string {
	t.Helper()
	bucket := "bodies-" + strings.ToLower(rand.Text())
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(bucket)}); err != nil {
		t.Fatal(err)
	}
	return bucket
}

func newStore(t *testing.T, api s3body.API, bucket string) *s3body.Store {
	t.Helper()
	store, err := s3body.New(api, bucket, s3body.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

func read(t *testing.T, store *s3body.Store, key string) string {
	t.Helper()
	r, _, err := store.Open(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	body, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(body)
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// anonymousClient returns a client of the real S3 server without credentials.
func anonymousClient(t *testing.T) *s3.Client {
	t.Helper()
	endpoint := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	return s3.New(s3.Options{BaseEndpoint: &endpoint, UsePathStyle: true, Region: "us-east-1", Credentials: aws.AnonymousCredentials{}})
}

// permit allows everyone some actions in a bucket.
func permit(t *testing.T, client *s3.Client, bucket string, actions []string) {
	t.Helper()
	if len(actions) == 0 {
		return
	}
	var statements []map[string]any
	for _, action := range actions {
		resource := "arn:aws:s3:::" + bucket
		if action != "s3:ListBucket" {
			resource += "/*"
		}
		statements = append(statements, map[string]any{"Effect": "Allow", "Principal": "*", "Action": action, "Resource": resource})
	}
	policy, err := json.Marshal(map[string]any{"Version": "2012-10-17", "Statement": statements})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutBucketPolicy(t.Context(), &s3.PutBucketPolicyInput{Bucket: &bucket, Policy: aws.String(string(policy))}); err != nil {
		t.Fatal(err)
	}
}
