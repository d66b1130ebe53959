package s3body_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// What FaceTheory's runtime writes beside a body comes with it, by each way to read it.
func TestPresentation(t *testing.T) {
	t.Parallel()
	client := realClient(t, nil)
	bucket := makeBucket(t, client)
	want := store.Presentation{
		Status: "404", ContentType: "text/html; charset=utf-8", ContentSecurityPolicy: "default-src 'self'; script-src 'nonce-abc'",
	}
	if _, err := client.PutObject(t.Context(), &s3.PutObjectInput{
		Bucket: &bucket, Key: aws.String("isr/page/1.html"), Body: strings.NewReader("not found"),
		Metadata: map[string]string{
			"facetheory-status":                  want.Status,
			"facetheory-content-type":            want.ContentType,
			"facetheory-content-security-policy": want.ContentSecurityPolicy,
			"other":                              "1",
		},
	}); err != nil {
		t.Fatal(err)
	}
	bodies := newStore(t, client, bucket)
	if err := bodies.Put(t.Context(), "bodies/ours", []byte("ours")); err != nil {
		t.Fatal(err)
	}
	for key, want := range map[string]store.Presentation{
		"isr/page/1.html": want, "s3://" + bucket + "/isr/page/1.html": want, "bodies/ours": {},
	} {
		rd, _, err := bodies.Open(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if got := store.PresentationOf(rd); got != want {
			t.Errorf("Open %s: %+v, want %+v", key, got, want)
		}
		if err := rd.Close(); err != nil {
			t.Error(err)
		}
		info, err := bodies.Stat(t.Context(), key)
		if err != nil || info.Presentation != want {
			t.Errorf("Stat %s: %+v, %v; want %+v", key, info.Presentation, err, want)
		}
	}
}

// A download is not resumed with an object whose presentation has changed.
func TestPresentationChangesDuringADownload(t *testing.T) {
	t.Parallel()
	gets := 0
	api := fakeAPI{get: func() (*s3.GetObjectOutput, error) {
		gets++
		out := &s3.GetObjectOutput{
			ContentLength: aws.Int64(9), Metadata: map[string]string{"facetheory-status": "404"},
			Body: io.NopCloser(io.MultiReader(strings.NewReader("not"), iotest.ErrReader(errors.New("connection reset by peer")))),
		}
		if gets > 1 {
			out.Metadata, out.Body = nil, io.NopCloser(strings.NewReader("not found"))
		}
		return out, nil
	}}
	bodies, err := s3body.New(api, "bucket", s3body.Config{})
	if err != nil {
		t.Fatal(err)
	}
	rd, _, err := bodies.Open(t.Context(), "isr/page/1.html")
	if err != nil {
		t.Fatal(err)
	}
	defer rd.Close()
	if got, err := io.ReadAll(rd); err == nil || !strings.Contains(err.Error(), "changed") || gets != 2 {
		t.Errorf("read %q, %v, with %d requests; want an error", got, err, gets)
	}
}
