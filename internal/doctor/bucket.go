package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/s3body"
)

// BucketAPI is the part of S3 that [Bucket] uses. *s3.Client implements it.
type BucketAPI interface {
	s3body.API
	GetBucketVersioning(context.Context, *s3.GetBucketVersioningInput, ...func(*s3.Options)) (*s3.GetBucketVersioningOutput, error)
	GetBucketLifecycleConfiguration(context.Context, *s3.GetBucketLifecycleConfigurationInput, ...func(*s3.Options)) (*s3.GetBucketLifecycleConfigurationOutput, error)
	GetPublicAccessBlock(context.Context, *s3.GetPublicAccessBlockInput, ...func(*s3.Options)) (*s3.GetPublicAccessBlockOutput, error)
	GetBucketPolicyStatus(context.Context, *s3.GetBucketPolicyStatusInput, ...func(*s3.Options)) (*s3.GetBucketPolicyStatusOutput, error)
}

var _ BucketAPI = (*s3.Client)(nil)

// deleteKey is the key of an object that is never written, whose deletion tries a permission.
const deleteKey = "isr-check-delete"

// Bucket examines the bucket. As a server does at its start, it writes the object isr-check,
// which stays.
func Bucket(api BucketAPI, bodies *s3body.Store, name string) Check {
	return Check{Name: "bucket", Run: func(ctx context.Context) []Finding {
		b := bucketCheck{api: api, name: name}
		if err := bodies.CheckBucket(ctx); err != nil {
			b.fault(err)
			return b.found // the other requests would fail in the same way
		}
		var asking sync.WaitGroup
		for _, ask := range []func(context.Context){b.versioning, b.lifecycle, b.public, b.list} {
			asking.Go(func() { ask(ctx) })
		}
		asking.Wait()
		b.summarize()
		return b.found
	}}
}

type bucketCheck struct {
	api  BucketAPI
	name string

	mu     sync.Mutex
	found  []Finding // guarded by mu
	unseen []string  // guarded by mu: permissions without which settings were not seen
}

func (b *bucketCheck) add(s Severity, what, do string, evidence ...string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.found = append(b.found, Finding{Severity: s, What: "bucket " + b.name + ": " + what, Evidence: evidence, Do: do})
}

// fault reports an error of CheckBucket.
func (b *bucketCheck) fault(err error) {
	if d, ok := deniedAction(err); ok && d.action != "the action" {
		f := d.finding("bucket " + b.name)
		b.add(Fault, strings.TrimPrefix(f.What, "bucket "+b.name+": "), f.Do)
		return
	}
	var known *s3body.BucketError
	if errors.As(err, &known) {
		var evidence []string
		if cause := known.Unwrap(); cause != nil {
			evidence = []string{cause.Error()}
		}
		b.add(Fault, known.Problem, known.Do, evidence...)
		return
	}
	b.add(Fault, "it cannot be used", "see the AWS configuration: aws sts get-caller-identity", err.Error())
}

// missing records a setting that could not be read. Servers other than AWS do not have all.
func (b *bucketCheck) missing(action string, err error) {
	if _, denied := deniedAction(err); denied {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.unseen = append(b.unseen, action)
	}
}

func (b *bucketCheck) versioning(ctx context.Context) {
	out, err := b.api.GetBucketVersioning(ctx, &s3.GetBucketVersioningInput{Bucket: &b.name})
	switch {
	case err != nil:
		b.missing("s3:GetBucketVersioning", err)
	case out.Status == types.BucketVersioningStatusEnabled:
		b.add(Warning, "versioning is on: deleted bodies stay, and cost as before",
			"aws s3api put-bucket-versioning --bucket "+b.name+" --versioning-configuration Status=Suspended, and a lifecycle rule with NoncurrentVersionExpiration")
	case out.Status == "": // a deletion leaves no marker
		if _, err := b.api.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: aws.String(deleteKey)}); err != nil {
			if _, denied := deniedAction(err); denied {
				b.add(Warning, "the permission s3:DeleteObject is missing, so that isr gc can delete nothing", `add "s3:DeleteObject" to the actions of the role's policy, on arn:aws:s3:::`+b.name+"/*")
			}
		}
	}
}

func (b *bucketCheck) list(ctx context.Context) {
	_, err := b.api.ListObjectsV2(ctx, &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(deleteKey), MaxKeys: aws.Int32(1)})
	if _, denied := deniedAction(err); denied {
		b.add(Warning, "the permission s3:ListBucket is missing: a lost body cannot be told from a lost permission, and isr gc cannot list", `add "s3:ListBucket" to the actions of the role's policy, on arn:aws:s3:::`+b.name)
	}
}

func (b *bucketCheck) lifecycle(ctx context.Context) {
	out, err := b.api.GetBucketLifecycleConfiguration(ctx, &s3.GetBucketLifecycleConfigurationInput{Bucket: &b.name})
	var coded smithy.APIError
	if err != nil && !(errors.As(err, &coded) && coded.ErrorCode() == "NoSuchLifecycleConfiguration") {
		b.missing("s3:GetLifecycleConfiguration", err)
		return
	}
	aborts := false
	if out != nil {
		for _, rule := range out.Rules {
			if rule.Status != types.ExpirationStatusEnabled {
				continue
			}
			aborts = aborts || rule.AbortIncompleteMultipartUpload != nil
			if e := rule.Expiration; e != nil && (e.Days != nil || e.Date != nil) {
				b.add(Fault, fmt.Sprintf("the lifecycle rule %q deletes objects by age, and with them bodies of pages that are still served", aws.ToString(rule.ID)),
					"remove its Expiration; isr gc deletes what no page needs")
			}
		}
	}
	if !aborts {
		b.add(Note, "no lifecycle rule aborts incomplete multipart uploads; isr makes none, but other programs may", "add a rule with AbortIncompleteMultipartUpload: {DaysAfterInitiation: 7}")
	}
}

func (b *bucketCheck) public(ctx context.Context) {
	status, err := b.api.GetBucketPolicyStatus(ctx, &s3.GetBucketPolicyStatusInput{Bucket: &b.name})
	switch {
	case err != nil:
		b.missing("s3:GetBucketPolicyStatus", err)
	case status.PolicyStatus != nil && aws.ToBool(status.PolicyStatus.IsPublic):
		b.add(Fault, "its policy makes it public: everyone can read all stored pages", "aws s3api put-public-access-block --bucket "+b.name+" --public-access-block-configuration BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true")
	}
	block, err := b.api.GetPublicAccessBlock(ctx, &s3.GetPublicAccessBlockInput{Bucket: &b.name})
	var coded smithy.APIError
	switch none := errors.As(err, &coded) && coded.ErrorCode() == "NoSuchPublicAccessBlockConfiguration"; {
	case err != nil && !none:
		b.missing("s3:GetBucketPublicAccessBlock", err)
	case none || !blocksAll(block.PublicAccessBlockConfiguration):
		b.add(Warning, "public access is not blocked", "aws s3api put-public-access-block --bucket "+b.name+" --public-access-block-configuration BlockPublicAcls=true,IgnorePublicAcls=true,BlockPublicPolicy=true,RestrictPublicBuckets=true")
	}
}

func blocksAll(c *types.PublicAccessBlockConfiguration) bool {
	return c != nil && aws.ToBool(c.BlockPublicAcls) && aws.ToBool(c.IgnorePublicAcls) && aws.ToBool(c.BlockPublicPolicy) && aws.ToBool(c.RestrictPublicBuckets)
}

// summarize sorts what concurrent requests have found.
func (b *bucketCheck) summarize() {
	slices.SortFunc(b.found, func(x, y Finding) int { return strings.Compare(x.What, y.What) })
	if len(b.unseen) > 0 {
		slices.Sort(b.unseen)
		b.found = append(b.found, Finding{
			Severity: Note, What: fmt.Sprintf("bucket %s: some settings were not examined", b.name), Evidence: []string{"not permitted: " + strings.Join(b.unseen, ", ")},
			Do: "nothing for isr, which does not need them; to have them examined, run isr doctor with credentials that may read them",
		})
	}
	if !slices.ContainsFunc(b.found, func(f Finding) bool { return f.Severity == Fault || f.Severity == Warning }) {
		b.found = slices.Insert(b.found, 0, Finding{Severity: OK, What: b.name + ": written, read, and protected from overwriting (If-None-Match)"})
	}
}
