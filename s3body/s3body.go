// Package s3body keeps response bodies as objects in one S3 bucket, or in one of
// any server that speaks S3 and has conditional writes.
//
// The problem: several machines render the same page, retries follow replies that
// were lost, and a body must nevertheless be written once and never change.
//
// The model: the key of a body is the key of its object. An object is made by
// one PutObject with "If-None-Match: *", which S3 carries out at most once per
// key (Amazon S3 User Guide, "Conditional writes"). A refusal may be the echo of
// our own earlier attempt, so it is settled by comparing what is there.
//
// The guarantees are those of S3: strong consistency of reads and listings after
// a write, durability once a write is acknowledged, and no partial objects. A
// checksum (CRC-32) goes with each write, which S3 verifies and keeps, and
// which the SDK verifies when it reads; no read delivers more or less than
// the length that S3 stated.
//
// The policy needs s3:PutObject and s3:GetObject on the bucket's objects; garbage
// collection also needs s3:DeleteObject, and s3:ListBucket on the bucket. Without
// s3:ListBucket, S3 answers 403 and not 404 for a key that is not there. A
// second look tells the two apart (see denied.go): grant s3:ListBucket where you
// can, for then it is a definite one. Without it, the look is at the object that
// [Store.CheckBucket] leaves: if that can be read, a body whose read
// is still refused counts as missing; so permissions must not differ between objects.
//
// Every call of S3 has a deadline of its own, so that a bucket that accepts
// connections and does not answer is an error in bounded time.
package s3body

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/store"
)

// API is what the store needs of an S3 client; [*s3.Client] has it. It is used
// concurrently. Retries of single requests, endpoint and credentials are the
// client's; [Config.CallTimeout] bounds a call with all of its retries. Calls and
// bodies must end when their context does.
type API interface {
	PutObject(context.Context, *s3.PutObjectInput, ...func(*s3.Options)) (*s3.PutObjectOutput, error)
	GetObject(context.Context, *s3.GetObjectInput, ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	HeadObject(context.Context, *s3.HeadObjectInput, ...func(*s3.Options)) (*s3.HeadObjectOutput, error)
	DeleteObject(context.Context, *s3.DeleteObjectInput, ...func(*s3.Options)) (*s3.DeleteObjectOutput, error)
	ListObjectsV2(context.Context, *s3.ListObjectsV2Input, ...func(*s3.Options)) (*s3.ListObjectsV2Output, error)
}

var _ API = (*s3.Client)(nil)

// Config has what a store may be told. The zero value is useful.
type Config struct {
	// ExpectedBucketOwner is the 12-digit number of the AWS account that must
	// own the bucket; S3 refuses every request if another does. Empty: any.
	ExpectedBucketOwner string

	// CallTimeout bounds one call of the API, with the retries that the client
	// makes in it, and how long a download may deliver nothing. A Put has a second more
	// for each MiB of its body. Default: 10 seconds.
	CallTimeout time.Duration
}

// A Store is an [store.BodyStore] in an S3 bucket. It is safe for concurrent use.
type Store struct {
	api    API
	bucket string
	owner  *string // nil: any

	timeout time.Duration // Config.CallTimeout
	access  access
}

var _ store.BodyStore = (*Store)(nil)

// New returns a store in the bucket. It makes no request; see [Store.CheckBucket].
func New(api API, bucket string, config Config) (*Store, error) {
	if api == nil {
		return nil, fmt.Errorf("s3body: the S3 client is nil")
	}
	if bucket == "" || strings.ContainsAny(bucket, "/ ") {
		return nil, fmt.Errorf("s3body: %q cannot be the name of a bucket", bucket)
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

// objectKey is the key of the object that a reader asks for: a body key as it
// is, or what follows the bucket in "s3://bucket/key", which is how other services
// write their addresses.
func (s *Store) objectKey(key string) (string, error) {
	object := key
	if address, ok := strings.CutPrefix(key, "s3://"); ok {
		var bucket string
		bucket, object, _ = strings.Cut(address, "/")
		if bucket != s.bucket {
			return "", fmt.Errorf("s3body: %w: %q is not in the bucket %q", store.ErrInvalidKey, key, s.bucket)
		}
	}
	if err := store.ValidBodyKey(object); err != nil {
		return "", fmt.Errorf("s3body: %w", err)
	}
	return object, nil
}
