package downstream

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/cloudfront"
	"github.com/aws/aws-sdk-go-v2/service/cloudfront/types"
	"github.com/aws/smithy-go"
)

// Bounds of CloudFront's invalidations. Up to 3,000 paths of a distribution, and 15 with
// a wildcard, may be in progress. Source: CloudFront Developer Guide, "Concurrent
// invalidation request maximum", "What you need to know when invalidating tags".
const (
	cloudFrontPaths     = 1000
	cloudFrontWildcards = 10
	cloudFrontTagLength = 256
	// cloudFrontBusy is when to try again if too many invalidations are in progress. They
	// usually complete within a minute.
	cloudFrontBusy = 30 * time.Second
)

// A CloudFrontAPI is the part of CloudFront that is used. *cloudfront.Client implements it.
type CloudFrontAPI interface {
	CreateInvalidation(context.Context, *cloudfront.CreateInvalidationInput, ...func(*cloudfront.Options)) (*cloudfront.CreateInvalidationOutput, error)
}

// CloudFront is a distribution of Amazon CloudFront. All invalidations are hard. They
// name paths without a host: an invalidation covers all hosts of the distribution.
type CloudFront struct {
	api          CloudFrontAPI
	distribution string
	tags         bool
}

// NewCloudFront returns a distribution. tags: it has a CacheTagConfig, so that tags can
// be invalidated; otherwise the purge of a tag invalidates everything.
func NewCloudFront(api CloudFrontAPI, distribution string, tags bool) *CloudFront {
	return &CloudFront{api: api, distribution: distribution, tags: tags}
}

// Limits implements [Destination].
func (c *CloudFront) Limits() Limits { return Limits{Targets: cloudFrontPaths, Debounce: time.Second} }

// Deliver implements [Destination]. CallerReference is derived from the batch: CloudFront
// recognises a repetition, and creates (and bills) no second invalidation. It remembers
// references without limit, so the references of two jobs must never be equal.
func (c *CloudFront) Deliver(ctx context.Context, b Batch) error {
	for _, paths := range c.paths(selectionOf(b.Targets)) {
		if err := c.invalidate(ctx, b.part(paths...), paths); err != nil {
			return err
		}
	}
	return nil
}

// paths returns the paths of each invalidation.
func (c *CloudFront) paths(s selection) [][]string {
	if s.all || len(s.tags) > 0 && (!c.tags || !allPrintable(s.tags, cloudFrontTagLength, ",")) || len(s.hosts) > 0 {
		return [][]string{{"/*"}}
	}
	var exact, wildcards []string
	for _, tag := range s.tags {
		exact = append(exact, "#"+tag)
	}
	for _, page := range s.pages {
		// A '*' at the end of a path that is not percent-encoded is a wildcard.
		exact = append(exact, strings.ReplaceAll(page.path, "*", "%2A"))
	}
	for _, p := range s.prefixes {
		wildcards = append(wildcards, strings.ReplaceAll(p.path, "*", "%2A")+"*")
	}
	if len(wildcards) > cloudFrontWildcards {
		return [][]string{{"/*"}}
	}
	all := slices.Compact(slices.Sorted(slices.Values(append(exact, wildcards...)))) // one path on several hosts
	return slices.Collect(slices.Chunk(all, cloudFrontPaths))
}

func (c *CloudFront) invalidate(ctx context.Context, reference string, paths []string) error {
	ctx, cancel := context.WithTimeout(ctx, requestTime)
	defer cancel()
	_, err := c.api.CreateInvalidation(ctx, &cloudfront.CreateInvalidationInput{
		DistributionId: &c.distribution,
		InvalidationBatch: &types.InvalidationBatch{
			CallerReference: &reference,
			Paths:           &types.Paths{Items: paths, Quantity: aws.Int32(int32(len(paths)))},
		},
	})
	return cloudFrontError(err)
}

// cloudFrontError classifies an error of CreateInvalidation.
func cloudFrontError(err error) error {
	if err == nil {
		return nil
	}
	code := ""
	if e, ok := errors.AsType[smithy.APIError](err); ok {
		code = e.ErrorCode()
	}
	after := time.Duration(0)
	if e, ok := errors.AsType[*awshttp.ResponseError](err); ok && e.Response != nil {
		after = retryAfter(e.Response.Header.Get("Retry-After"), time.Now())
		if e.HTTPStatusCode() == http.StatusTooManyRequests {
			code = "Throttling"
		}
	}
	err = fmt.Errorf("create invalidation: %w", err)
	switch code {
	case "InvalidationBatchAlreadyExists":
		return nil // the reference is a hash of the paths: they are being invalidated
	case "TooManyInvalidationsInProgress":
		return &RetryError{After: max(after, cloudFrontBusy), Busy: true, Err: err}
	case "Throttling", "ThrottlingException", "RequestLimitExceeded":
		return &RetryError{After: after, Busy: true, Err: err}
	case "InvalidArgument", "BatchTooLarge", "InconsistentQuantities", "MissingBody", "MalformedInput":
		return &PermanentError{err}
	case "AccessDenied", "NoSuchDistribution", "SignatureDoesNotMatch", "InvalidClientTokenId", "ExpiredToken":
		return &RetryError{After: configurationRetry, Err: err}
	}
	return &RetryError{After: after, Err: err}
}
