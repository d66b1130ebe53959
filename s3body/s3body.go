// Package s3body stores response bodies as objects in one bucket of S3, or of a
// compatible server with conditional writes.
//
// The problem: several machines render the same page and retry after lost replies,
// yet a body must be written once and never change.
//
// The model: a body's key is its object's key. One PutObject with "If-None-Match: *"
// creates the object; S3 executes it at most once per key (Amazon S3 User Guide,
// "Conditional writes"). A refusal may be caused by our own earlier attempt, so Put
// compares the existing object.
//
// The guarantees are S3's: strongly consistent reads and listings, durability
// once a write is acknowledged, and no partial objects. Each write carries a CRC-32
// checksum, which S3 verifies and stores, and which the SDK verifies on reads. A read
// delivers exactly the length that S3 stated, or an error.
//
// The policy needs s3:PutObject and s3:GetObject on the bucket's objects. Garbage
// collection also needs s3:DeleteObject, and s3:ListBucket on the bucket. Without
// s3:ListBucket, S3 answers a missing key with 403 instead of 404, and a second
// request tells the two cases apart (see denied.go). Grant s3:ListBucket if you can:
// then that request is conclusive. Otherwise it reads the object that
// [Store.CheckBucket] wrote: if that succeeds, a body whose read is still refused
// counts as missing, so permissions must not differ between objects.
//
// Every S3 call has its own deadline, so a bucket that accepts connections but does
// not respond causes an error in bounded time.
package s3body

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/store"
)

// API is the part of [*s3.Client] that the store uses, concurrently. The client is
// responsible for retries of single requests, endpoint and credentials;
// [Config.CallTimeout] bounds a call including its retries. Calls and response bodies
// must end when their context does.
type API interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	HeadObject(context.Context, *s3.HeadObjectInput, ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	DeleteObjects(context.Context, *s3.DeleteObjectsInput, ...func(*s3.Options)) (*s3.DeleteObjectsOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

var _ API = (*s3.Client)(nil)

// Config has optional settings. The zero value is useful.
type Config struct {
	// ExpectedBucketOwner is the 12-digit id of the AWS account that must own the
	// bucket; S3 refuses every request if another account does. Empty: any account.
	ExpectedBucketOwner string

	// CallTimeout bounds one call of the API including the client's retries, and how
	// long a download may receive nothing. A Put has one more second per MiB of its
	// body. Default: 10 seconds.
	CallTimeout time.Duration
}

// A Store is a [store.BodyStore] in an S3 bucket. It is safe for concurrent use.
type Store struct {
	api    API
	bucket string
	owner  *string // nil: any

	timeout time.Duration // Config.CallTimeout
	access  access
}

var (
	_ store.BodyStore    = (*Store)(nil)
	_ store.BatchDeleter = (*Store)(nil)
)

// New returns a store in the bucket. It makes no request; see [Store.CheckBucket].
func New(api API, bucket string, config Config) (*Store, error) {
	if api == nil {
		return nil, fmt.Errorf("s3body: the S3 client must not be nil")
	}
	if bucket == "" || strings.ContainsAny(bucket, "/ ") {
		return nil, fmt.Errorf("s3body: invalid bucket name %q", bucket)
	}
	s := &Store{api: api, bucket: bucket, timeout: config.CallTimeout}
	if s.timeout <= 0 {
		s.timeout = 10 * time.Second
	}
	if config.ExpectedBucketOwner != "" {
		s.owner = &config.ExpectedBucketOwner
	}
	return s, nil
}

// objectKey returns the key of an object to read: a body key, or the part after the
// bucket of "s3://bucket/key", the form in which other services store addresses.
func (s *Store) objectKey(key string) (string, error) {
	object := key
	if address, ok := strings.CutPrefix(key, "s3://"); ok {
		var bucket string
		bucket, object, _ = strings.Cut(address, "/")
		if bucket != s.bucket {
			return "", fmt.Errorf("s3body: %w: %q is not in bucket %q", store.ErrInvalidKey, key, s.bucket)
		}
	}
	if err := store.ValidBodyKey(object); err != nil {
		return "", fmt.Errorf("s3body: %w", err)
	}
	return object, nil
}
