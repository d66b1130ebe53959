package s3body_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// Responses that the real server does not give come from a small HTTP server and are
// parsed by the real SDK.

func TestErrorCodesOfReads(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		status  int
		code    string
		missing bool
	}{
		{404, "NoSuchKey", true},
		{403, "AccessDenied", false}, // to every request
		{404, "NoSuchBucket", false},
		{404, "XAdminUserNotFound", false},
		{403, "InvalidAccessKeyId", false},
		{403, "SignatureDoesNotMatch", false},
		{400, "ExpiredToken", false},
		{400, "InvalidRequest", false},
	} {
		t.Run(test.code, func(t *testing.T) {
			bodies := answering(t, func(w http.ResponseWriter, r *http.Request) { writeError(w, r, test.status, test.code) })
			_, _, err := bodies.Open(t.Context(), "bodies/1")
			if err == nil || errors.Is(err, store.ErrNotFound) != test.missing {
				t.Errorf("Open: %v; missing should be %v", err, test.missing)
			}
		})
	}
	// A response to HEAD has no body, so no error code.
	for status, missing := range map[int]bool{403: false, 404: true, 400: false, 301: false} {
		bodies := answering(t, func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) })
		_, err := bodies.Stat(t.Context(), "bodies/1")
		if err == nil || errors.Is(err, store.ErrNotFound) != missing {
			t.Errorf("Stat answered with %d: %v; missing should be %v", status, err, missing)
		}
	}
}

func TestShortBody(t *testing.T) {
	t.Parallel()
	store := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "half of it") // the server then closes the connection
	})
	r, length, err := store.Open(t.Context(), "bodies/1")
	if err != nil || length != 100 {
		t.Fatalf("Open: length %d, %v", length, err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if !errors.Is(err, io.ErrUnexpectedEOF) || string(got) != "half of it" {
		t.Errorf("read %q, %v; want io.ErrUnexpectedEOF", got, err)
	}
	if err == nil || !strings.Contains(err.Error(), "10 of 100") {
		t.Errorf("the error does not say how much was read: %v", err)
	}
}

func TestOpenRequiresALength(t *testing.T) {
	t.Parallel()
	store := answering(t, func(w http.ResponseWriter, r *http.Request) {
		w.(http.Flusher).Flush() // the response becomes chunked
		_, _ = io.WriteString(w, "endless")
	})
	if _, _, err := store.Open(t.Context(), "bodies/1"); err == nil {
		t.Error("a body without a length is accepted")
	}
}

func TestLongBody(t *testing.T) {
	t.Parallel()
	for _, stated := range []int64{0, 4} {
		store := newStore(t, fakeAPI{get: func() (*s3.GetObjectOutput, error) {
			return &s3.GetObjectOutput{ContentLength: aws.Int64(stated), Body: io.NopCloser(strings.NewReader("body and more"))}, nil
		}}, "bucket")
		r, _, err := store.Open(t.Context(), "bodies/1")
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(r)
		if err == nil || int64(len(got)) != stated {
			t.Errorf("of a stated length of %d, %d bytes were delivered: %v", stated, len(got), err)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestConflictIsRetried(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		conflicts int
		code      string
		puts      int
		ok        bool
	}{
		{3, "ConditionalRequestConflict", 4, true},
		{1, "OperationAborted", 2, true},
		{1000, "ConditionalRequestConflict", 8, false},
		{1000, "BucketAlreadyExists", 1, false},
	} {
		synctest.Test(t, func(t *testing.T) {
			puts := 0
			store := newStore(t, fakeAPI{put: func() (*s3.PutObjectOutput, error) {
				if puts++; puts <= test.conflicts {
					return nil, answer(http.StatusConflict, test.code)
				}
				return &s3.PutObjectOutput{}, nil
			}}, "bucket")
			err := store.Put(t.Context(), "bodies/1", []byte("x"))
			if (err == nil) != test.ok || puts != test.puts {
				t.Errorf("%d times %s: %d requests, %v", test.conflicts, test.code, puts, err)
			}
		})
	}
}

// A Put whose reply is lost is settled by reading the object.
func TestPutWithLostReply(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		there string // what a GET returns; empty: 404
		want  error  // nil for success; errors.ErrUnsupported for any other error
	}{
		{"the same body exists", "mine", nil},
		{"another body exists", "not mine", store.ErrExists},
		{"another body of the same length exists", "mind", store.ErrExists},
		{"no body exists", "", errors.ErrUnsupported},
	} {
		t.Run(test.name, func(t *testing.T) {
			bodies := answering(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case r.Method == http.MethodPut:
					panic(http.ErrAbortHandler) // the connection is reset
				case test.there == "":
					writeError(w, r, http.StatusNotFound, "NoSuchKey")
				default:
					_, _ = io.WriteString(w, test.there)
				}
			})
			err := bodies.Put(t.Context(), "bodies/1", []byte("mine"))
			switch {
			case errors.Is(test.want, errors.ErrUnsupported):
				if err == nil || errors.Is(err, store.ErrExists) {
					t.Errorf("Put: %v, want the error of the connection", err)
				}
			case !errors.Is(err, test.want):
				t.Errorf("Put: %v, want %v", err, test.want)
			}
		})
	}
}

func TestConflictRetryStopsWithTheContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		store := newStore(t, fakeAPI{put: func() (*s3.PutObjectOutput, error) {
			return nil, answer(http.StatusConflict, "ConditionalRequestConflict")
		}}, "bucket")
		if err := store.Put(ctx, "bodies/1", []byte("x")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Put: %v, want context.DeadlineExceeded", err)
		}
	})
}

// After a 412, a 403 to the read means denied, not missing; a 404 means that the
// object was deleted in between.
func TestUnreadableExistingBodyIsDenied(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		puts := 0
		api := fakeAPI{
			put: func() (*s3.PutObjectOutput, error) {
				if puts++; puts > 2 {
					return &s3.PutObjectOutput{}, nil
				}
				return nil, answer(http.StatusPreconditionFailed, "PreconditionFailed")
			},
			get: func() (*s3.GetObjectOutput, error) { return nil, answer(http.StatusForbidden, "AccessDenied") },
		}
		err := newStore(t, api, "bucket").Put(t.Context(), "bodies/1", []byte("x"))
		if !errors.Is(err, store.ErrDenied) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) || puts != 1 {
			t.Errorf("a body that cannot be compared: %v after %d requests", err, puts)
		}
		puts = 0
		api.get = func() (*s3.GetObjectOutput, error) { return nil, answer(http.StatusNotFound, "NoSuchKey") }
		if err := newStore(t, api, "bucket").Put(t.Context(), "bodies/1", []byte("x")); err != nil || puts != 3 {
			t.Errorf("a body that was deleted again: %v after %d requests", err, puts)
		}
	})
}

func TestTruncatedListingWithoutToken(t *testing.T) {
	t.Parallel()
	store := answering(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `<ListBucketResult><IsTruncated>true</IsTruncated><Contents><Key>a</Key></Contents></ListBucketResult>`)
	})
	for _, err := range store.List(t.Context(), "") {
		if err == nil {
			t.Error("a body was listed")
		}
	}
}

// TestListingHasTheBucketsTime: ages of bodies are by the clock of the bucket, which has
// written their times, whatever this machine's clock says.
func TestListingHasTheBucketsTime(t *testing.T) {
	t.Parallel()
	bucket := time.Date(2031, 5, 6, 7, 8, 9, 0, time.UTC)
	dated := true
	bodies := answering(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Date"] = nil // the server's own
		if dated {
			w.Header().Set("Date", bucket.Format(http.TimeFormat))
		}
		_, _ = io.WriteString(w, `<ListBucketResult><Contents><Key>bodies/a</Key><LastModified>2031-05-06T06:00:00Z</LastModified></Contents></ListBucketResult>`)
	})
	for _, want := range []time.Time{bucket, {}} {
		for info, err := range bodies.List(t.Context(), "") {
			if err != nil || !info.ListedAt.Equal(want) || info.ModifiedAt.IsZero() {
				t.Errorf("%+v, %v; want it listed at %s", info, err, want)
			}
		}
		dated = false
	}
}

// answering returns a store whose server answers every request with handler.
func answering(t *testing.T, handler http.HandlerFunc) *s3body.Store {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return newStore(t, newClient(server.URL, "access", "secret", nil), "bucket")
}

func writeError(w http.ResponseWriter, r *http.Request, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	if r.Method != http.MethodHead {
		_, _ = fmt.Fprintf(w, "<Error><Code>%s</Code><Message>The message\nof %s</Message></Error>", code, code)
	}
}

// answer returns an error as the SDK does.
func answer(status int, code string) error {
	return &awshttp.ResponseError{ResponseError: &smithyhttp.ResponseError{
		Response: &smithyhttp.Response{Response: &http.Response{StatusCode: status}},
		Err:      &smithy.GenericAPIError{Code: code, Message: "scripted"},
	}}
}

// A fakeAPI answers with the test's functions; other calls panic.
type fakeAPI struct {
	s3body.API
	put func() (*s3.PutObjectOutput, error)
	get func() (*s3.GetObjectOutput, error)
}

func (f fakeAPI) PutObject(_ context.Context, in *s3.PutObjectInput, _ ...func(*s3.Options)) (*s3.PutObjectOutput, error) {
	if aws.ToString(in.IfNoneMatch) != "*" {
		return nil, errors.New("a put that could overwrite")
	}
	return f.put()
}

func (f fakeAPI) GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	return f.get()
}
