package s3body_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/s3body"
)

func TestCheckBucket(t *testing.T) {
	t.Parallel()
	client := realClient(t, nil)
	bucket := makeBucket(t, client)
	for range 2 { // the second call finds the object of the first
		if err := newStore(t, client, bucket).CheckBucket(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckBucketNamesTheFault(t *testing.T) {
	t.Parallel()
	client := realClient(t, nil)
	bucket := makeBucket(t, client)
	endpoint := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	access, secret := os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY")

	taken := makeBucket(t, client)
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &taken, Key: aws.String("isr-check"), Body: strings.NewReader("written by another program"),
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, bucket, want string
		client             *s3.Client
	}{
		{"no bucket", "there-is-no-such-bucket", "create it, or correct its name", client},
		{"wrong secret", bucket, "AWS refused the credentials", newClient(endpoint, access, secret+"x", nil)},
		{"unknown access key", bucket, "AWS refused the credentials", newClient(endpoint, access+"x", secret, nil)},
		{"no server", bucket, "cannot connect to S3", newClient("http://127.0.0.1:1", access, secret, nil)},
		{"object not ours", taken, "delete it", client},
	} {
		t.Run(test.name, func(t *testing.T) {
			mustAdvise(t, newStore(t, test.client, test.bucket), test.bucket, test.want)
		})
	}
}

func TestCheckBucketExplainsErrorCodes(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		code   string
		status int
		want   string
	}{
		{"AccessDenied", 403, "allow s3:PutObject and s3:GetObject"},
		{"PermanentRedirect", 301, "another region"},
		{"ExpiredToken", 400, "renew"},
		{"RequestTimeTooSkewed", 403, "clock"},
		{"EntityTooSmall", 400, "EntityTooSmall"},
	} {
		t.Run(test.code, func(t *testing.T) {
			store := answering(t, func(w http.ResponseWriter, r *http.Request) { writeError(w, r, test.status, test.code) })
			mustAdvise(t, store, "bucket", test.want)
		})
	}
}

func TestCheckBucketWithoutCredentials(t *testing.T) {
	t.Parallel()
	store := newStore(t, s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://127.0.0.1:1"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("no provider")
		}),
	}), "bucket")
	mustAdvise(t, store, "bucket", "set AWS_ACCESS_KEY_ID")
}

// Without conditional writes, bodies would not be immutable.
func TestCheckBucketRequiresConditionalWrites(t *testing.T) {
	t.Parallel()
	var content []byte
	store := answering(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPut {
			content, _ = io.ReadAll(r.Body)
			return
		}
		_, _ = w.Write(content)
	})
	mustAdvise(t, store, "bucket", "ignores If-None-Match")
}

func mustAdvise(t *testing.T, store *s3body.Store, bucket, want string) {
	t.Helper()
	err := store.CheckBucket(t.Context())
	if err == nil {
		t.Fatal("CheckBucket: no error")
	}
	if message := err.Error(); !strings.Contains(message, want) || !strings.Contains(message, bucket) || strings.Contains(message, "\n") {
		t.Errorf("the error is not one line that names %s and contains %q: %s", bucket, want, message)
	}
	t.Log(err)
}
