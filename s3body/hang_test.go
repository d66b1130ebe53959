package s3body_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// A bucket that accepts connections but does not respond causes an error in bounded
// time, even if the caller has no deadline.
func TestBucketThatHangs(t *testing.T) {
	t.Parallel()
	silent := roundTripper(func(r *http.Request) (*http.Response, error) {
		<-r.Context().Done()
		return nil, r.Context().Err()
	})
	for call, do := range map[string]func(context.Context, *s3body.Store) error{
		"Put":    func(ctx context.Context, s *s3body.Store) error { return s.Put(ctx, "bodies/1", []byte("x")) },
		"Open":   func(ctx context.Context, s *s3body.Store) error { _, _, err := s.Open(ctx, "bodies/1"); return err },
		"Stat":   func(ctx context.Context, s *s3body.Store) error { _, err := s.Stat(ctx, "bodies/1"); return err },
		"Delete": func(ctx context.Context, s *s3body.Store) error { return s.Delete(ctx, "bodies/1") },
		"List": func(ctx context.Context, s *s3body.Store) (last error) {
			for _, err := range s.List(ctx, "") {
				last = err
			}
			return last
		},
	} {
		t.Run(call, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				bodies := newStore(t, newClient("http://s3.test", "access", "secret", silent), "bucket")
				began := time.Now()
				err := do(t.Context(), bodies)
				if !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, store.ErrNotFound) {
					t.Errorf("%v, want a deadline that was exceeded", err)
				}
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("it took %v", took)
				}
				// The caller's cancellation is reported as such.
				ctx, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				if err := do(ctx, bodies); !errors.Is(err, context.Canceled) {
					t.Errorf("%v, want context.Canceled", err)
				}
			})
		})
	}
}

// A cutBody delivers part of a body, then fails or hangs.
type cutBody struct {
	io.Reader
	ctx   context.Context
	hangs bool
}

func (b *cutBody) Read(p []byte) (int, error) {
	n, err := b.Reader.Read(p)
	if n == 0 && err == io.EOF && b.hangs {
		<-b.ctx.Done()
		return 0, b.ctx.Err()
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (b *cutBody) Close() error { return nil }

// A download that is cut off or stalls resumes with another response, a bounded number
// of times.
func TestDownloadResumes(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789"), 10_000)
	for name, test := range map[string]struct {
		cuts    []int // bytes per response; later responses are complete
		hangs   bool
		changed bool
		whole   bool
	}{
		"cut once":             {cuts: []int{50_000}, whole: true},
		"cut twice":            {cuts: []int{50_000, 70_000}, whole: true},
		"cut at the beginning": {cuts: []int{0, 0}, whole: true},
		"cut earlier again":    {cuts: []int{50_000, 20_000}, whole: true},
		"cut three times":      {cuts: []int{10, 20, 30}},
		"stalls once":          {cuts: []int{50_000}, hangs: true, whole: true},
		"stalls twice":         {cuts: []int{50_000, 70_000}, hangs: true, whole: true},
		"stalls three times":   {cuts: []int{10, 20, 30}, hangs: true},
		"another object":       {cuts: []int{50_000}, changed: true},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var answers atomic.Int32
				transport := roundTripper(func(r *http.Request) (*http.Response, error) {
					i := int(answers.Add(1)) - 1
					part, response := body, &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r, ContentLength: int64(len(body))}
					if i > 0 && test.changed {
						part = bytes.ToUpper(append([]byte("x"), body[1:]...))
					}
					response.Header.Set("Content-Length", strconv.Itoa(len(body)))
					response.Body = io.NopCloser(bytes.NewReader(part))
					if i < len(test.cuts) {
						response.Body = &cutBody{Reader: bytes.NewReader(part[:test.cuts[i]]), ctx: r.Context(), hangs: test.hangs}
					}
					return response, nil
				})
				store := newStore(t, newClient("http://s3.test", "access", "secret", transport), "bucket")
				began := time.Now()
				r, _, err := store.Open(t.Context(), "bodies/1")
				if err != nil {
					t.Fatal(err)
				}
				defer r.Close()
				got, err := io.ReadAll(r)
				if !bytes.HasPrefix(body, got) {
					t.Error("the delivered bytes are not the body's")
				}
				if whole := err == nil && len(got) == len(body); whole != test.whole || err == nil && !whole {
					t.Errorf("%d of %d bytes, %v", len(got), len(body), err)
				}
				if n := answers.Load(); n > 3 {
					t.Errorf("%d requests", n)
				}
				if took := time.Since(began); took > 40*time.Second {
					t.Errorf("it took %v", took)
				}
			})
		})
	}
}

// A slow reader is not a stalled bucket.
func TestSlowReaderIsNotAStall(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		transport := roundTripper(func(r *http.Request) (*http.Response, error) {
			return &http.Response{
				StatusCode: http.StatusOK, Header: http.Header{"Content-Length": {"4"}}, ContentLength: 4,
				Request: r, Body: io.NopCloser(bytes.NewReader([]byte("body"))),
			}, nil
		})
		store := newStore(t, newClient("http://s3.test", "access", "secret", transport), "bucket")
		r, _, err := store.Open(t.Context(), "bodies/1")
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		for range 4 {
			time.Sleep(time.Minute)
			if n, err := r.Read(make([]byte, 1)); n != 1 {
				t.Fatalf("%d bytes, %v", n, err)
			}
		}
		if _, err := r.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("at the end: %v", err)
		}
	})
}
