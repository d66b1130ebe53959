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
	client := realClient(t, nil)
	bucket := makeBucket(t, client)
	for range 2 { // the second finds the object of the first
		if err := newStore(t, client, bucket).CheckBucket(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

func TestCheckBucketFindsWhatIsWrong(t *testing.T) {
	client := realClient(t, nil)
	bucket := makeBucket(t, client)
	endpoint := isrtest.Engine(t, "ISR_TEST_S3", "S3 server")
	access, secret := os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY")

	taken := makeBucket(t, client)
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &taken, Key: aws.String("isr-check"), Body: strings.NewReader("somebody else's"),
	}); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name, bucket, want string
		client             *s3.Client
	}{
		{"no bucket", "there-is-no-such-bucket", "create it, or correct its name", client},
		{"wrong secret", bucket, "credentials are refused", newClient(endpoint, access, secret+"x", nil)},
		{"unknown access key", bucket, "credentials are refused", newClient(endpoint, access+"x", secret, nil)},
		{"no server", bucket, "cannot connect to S3", newClient("http://127.0.0.1:1", access, secret, nil)},
		{"object not ours", taken, "delete it", client},
	} {
		t.Run(test.name, func(t *testing.T) {
			mustAdvise(t, newStore(t, test.client, test.bucket), test.bucket, test.want)
		})
	}
}

func TestCheckBucketUnderstandsAnswers(t *testing.T) {
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
	store := newStore(t, s3.New(s3.Options{
		Region:       "us-east-1",
		BaseEndpoint: aws.String("http://127.0.0.1:1"),
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{}, errors.New("none found")
		}),
	}), "bucket")
	mustAdvise(t, store, "bucket", "set AWS_ACCESS_KEY_ID")
}

// TestCheckBucketFindsAServerThatOverwrites: without conditional writes, bodies
// would not be immutable.
func TestCheckBucketFindsAServerThatOverwrites(t *testing.T) {
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
		t.Fatal("nothing was found wrong")
	}
	if message := err.Error(); !strings.Contains(message, want) || !strings.Contains(message, bucket) || strings.Contains(message, "\n") {
		t.Errorf("the message should be one line, name %s and say %q: %s", bucket, want, message)
	}
	t.Log(err)
}
