package s3body_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/s3body"
	"github.com/facetheory/isr/store"
)

// A permission is the responses of a bucket under a policy, and whether the body
// exists.
type permission struct {
	list   int // status of ListObjectsV2
	check  int // status of a read of isr-check
	read   int // status of the first read of the body
	again  int // status of the second
	exists bool
}

// serve answers as S3 does under the permission.
func (p *permission) serve(reads *atomic.Int32) http.HandlerFunc {
	refuse := func(w http.ResponseWriter, r *http.Request, status int) {
		code := map[int]string{403: "AccessDenied", 404: "NoSuchKey"}[status]
		if code == "" {
			code = "InternalError"
		}
		writeError(w, r, status, code)
	}
	return func(w http.ResponseWriter, r *http.Request) {
		status, body := 0, "body"
		switch {
		case r.URL.Query().Get("list-type") == "2":
			status = p.list
			body = "<ListBucketResult></ListBucketResult>"
			if p.exists {
				body = "<ListBucketResult><Contents><Key>" + r.URL.Query().Get("prefix") + "</Key></Contents></ListBucketResult>"
			}
		case strings.HasSuffix(r.URL.Path, "/isr-check"):
			status = p.check
		case reads.Add(1) == 1:
			status = p.read
		default:
			status = p.again
		}
		if status != http.StatusOK {
			refuse(w, r, status)
			return
		}
		_, _ = w.Write([]byte(body))
	}
}

// A 403 means missing only if a second look confirms it.
func TestDeniedIsNotNotFound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		permission
		want error // nil: the body is read; context.Canceled: any other error
	}{
		"everything is denied":            {permission{list: 403, check: 403, read: 403}, store.ErrDenied},
		"the listing has it":              {permission{list: 200, check: 200, read: 403, exists: true}, store.ErrDenied},
		"the listing does not have it":    {permission{list: 200, check: 403, read: 403}, store.ErrNotFound},
		"reads are permitted":             {permission{list: 403, check: 200, read: 403, again: 403}, store.ErrNotFound},
		"it was refused for a moment":     {permission{list: 403, check: 200, read: 403, again: 200}, nil},
		"refused, then gone":              {permission{list: 403, check: 200, read: 403, again: 404}, store.ErrNotFound},
		"refused, then the server failed": {permission{list: 403, check: 200, read: 403, again: 400}, context.Canceled},
		"the listing fails":               {permission{list: 400, check: 200, read: 403, again: 403}, store.ErrDenied},
		"the check object is missing":     {permission{list: 403, check: 404, read: 403, again: 403}, store.ErrDenied},
		"a 404 needs no second look":      {permission{list: 400, check: 400, read: 404}, store.ErrNotFound},
		"the server fails, and is no 403": {permission{list: 200, check: 200, read: 400, again: 400}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			calls := map[string]func(*s3body.Store) error{
				"Open": func(s *s3body.Store) error {
					r, _, err := s.Open(t.Context(), "bodies/1")
					if err == nil {
						err = r.Close()
					}
					return err
				},
				"Stat": func(s *s3body.Store) error { _, err := s.Stat(t.Context(), "bodies/1"); return err },
			}
			for call, do := range calls {
				reads := new(atomic.Int32)
				err := do(answering(t, test.serve(reads)))
				for _, sentinel := range []error{store.ErrDenied, store.ErrNotFound} {
					if errors.Is(err, sentinel) != (test.want == sentinel) {
						t.Errorf("%s: %v, want %v", call, err, test.want)
					}
				}
				if (err == nil) != (test.want == nil) {
					t.Errorf("%s: %v, want %v", call, err, test.want)
				}
			}
		})
	}
}

// Refused writes, deletions and listings are denied as well.
func TestOtherCallsAreDenied(t *testing.T) {
	t.Parallel()
	bodies := answering(t, func(w http.ResponseWriter, r *http.Request) { writeError(w, r, 403, "AccessDenied") })
	var listed error
	for _, err := range bodies.List(t.Context(), "") {
		listed = err
	}
	for call, err := range map[string]error{
		"Put": bodies.Put(t.Context(), "bodies/1", []byte("x")), "Delete": bodies.Delete(t.Context(), "bodies/1"), "List": listed,
	} {
		if !errors.Is(err, store.ErrDenied) {
			t.Errorf("%s: %v, want ErrDenied", call, err)
		}
	}
}

// A slowBucket replaces the SDK; each call takes 10 ms.
type slowBucket struct {
	s3body.API
	reads, lists, checks atomic.Int32
	readable             atomic.Bool
}

func (b *slowBucket) GetObject(_ context.Context, in *s3.GetObjectInput, _ ...func(*s3.Options)) (*s3.GetObjectOutput, error) {
	time.Sleep(10 * time.Millisecond)
	if aws.ToString(in.Key) != "isr-check" {
		b.reads.Add(1)
		return nil, answer(http.StatusForbidden, "AccessDenied")
	}
	b.checks.Add(1)
	if !b.readable.Load() {
		return nil, answer(http.StatusForbidden, "AccessDenied")
	}
	return &s3.GetObjectOutput{ContentLength: aws.Int64(0), Body: http.NoBody}, nil
}

func (b *slowBucket) ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error) {
	time.Sleep(10 * time.Millisecond)
	b.lists.Add(1)
	return nil, answer(http.StatusForbidden, "AccessDenied")
}

// Concurrent refused reads share their second look.
func TestSecondLooksAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		bucket := &slowBucket{}
		bodies := newStore(t, bucket, "bucket")
		storm := func(want error) {
			errs := make(chan error)
			for range 100 {
				go func() {
					_, _, err := bodies.Open(t.Context(), "bodies/1")
					errs <- err
				}()
			}
			for range 100 {
				if err := <-errs; !errors.Is(err, want) {
					t.Errorf("Open: %v, want %v", err, want)
				}
			}
		}
		storm(store.ErrDenied)
		if got := bucket.checks.Load(); got > 2 {
			t.Errorf("%d looks at the check object for 100 reads", got)
		}
		// The verdict is cached.
		lists, checks := bucket.lists.Load(), bucket.checks.Load()
		storm(store.ErrDenied)
		if l, c := bucket.lists.Load(), bucket.checks.Load(); l != lists || c != checks {
			t.Errorf("%d listings and %d looks within the life of the verdict", l-lists, c-checks)
		}
		// After deniedFor it is not: now reads are permitted, and the body is missing.
		time.Sleep(3 * time.Second)
		bucket.readable.Store(true)
		storm(store.ErrNotFound)
		// Permission is never cached: it may have been revoked since.
		bucket.readable.Store(false)
		storm(store.ErrDenied)
		if got := bucket.checks.Load(); got > 8 {
			t.Errorf("%d looks at the check object for 400 reads", got)
		}
	})
}

// TestPolicies asks a real server through an anonymous client that a bucket policy
// permits some actions.
func TestPolicies(t *testing.T) {
	t.Parallel()
	client := realClient(t, nil)
	for name, test := range map[string]struct {
		actions         []string
		present, absent error
	}{
		"nothing":      {nil, store.ErrDenied, store.ErrDenied},
		"list":         {[]string{"s3:ListBucket"}, store.ErrDenied, store.ErrNotFound},
		"get":          {[]string{"s3:GetObject"}, nil, store.ErrNotFound},
		"get and list": {[]string{"s3:GetObject", "s3:ListBucket"}, nil, store.ErrNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			bucket := makeBucket(t, client)
			owner := newStore(t, client, bucket)
			if err := owner.CheckBucket(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := owner.Put(t.Context(), "bodies/there", []byte("x")); err != nil {
				t.Fatal(err)
			}
			permit(t, client, bucket, test.actions)
			for key, want := range map[string]error{"bodies/there": test.present, "bodies/gone": test.absent} {
				// A new store for each: it caches denials.
				r, _, err := newStore(t, anonymousClient(t), bucket).Open(t.Context(), key)
				if err == nil {
					err = r.Close()
				}
				if !errors.Is(err, want) {
					t.Errorf("Open(%s): %v, want %v", key, err, want)
				}
				if _, err := newStore(t, anonymousClient(t), bucket).Stat(t.Context(), key); !errors.Is(err, want) {
					t.Errorf("Stat(%s): %v, want %v", key, err, want)
				}
			}
		})
	}
}
