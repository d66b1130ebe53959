package store

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"
)

// Bounds of the outbox.
const (
	// MaxDestinations is how many downstream caches one change is delivered to at most.
	MaxDestinations = 8
	// FailedJobLife is how long a failed job is kept.
	FailedJobLife = 30 * 24 * time.Hour
	// maxDestinationName is the length of the longest name of a destination.
	maxDestinationName = 32
)

// ErrNoJob: the outbox has no such job; it was delivered, dropped or never written.
var ErrNoJob = errors.New("no such job in the outbox")

// ValidDestination returns an error wrapping [ErrInvalidInput] unless the name of a
// downstream cache matches ^[a-z][a-z0-9-]{0,31}$.
func ValidDestination(name string) error {
	ok := name != "" && len(name) <= maxDestinationName && 'a' <= name[0] && name[0] <= 'z'
	for _, c := range name {
		ok = ok && ('a' <= c && c <= 'z' || '0' <= c && c <= '9' || c == '-')
	}
	if !ok {
		return fmt.Errorf("%w: the name %.40q of a downstream cache must be 1 to %d lower-case letters, digits and '-', and begin with a letter", ErrInvalidInput, name, maxDestinationName)
	}
	return nil
}

// ValidDestinations returns an error wrapping [ErrInvalidInput] unless the names are valid
// and at most [MaxDestinations].
func ValidDestinations(names []string) error {
	if len(names) > MaxDestinations {
		return fmt.Errorf("%w: %d downstream caches, at most %d are allowed", ErrInvalidInput, len(names), MaxDestinations)
	}
	for _, name := range names {
		if err := ValidDestination(name); err != nil {
			return err
		}
	}
	return nil
}

// OutboxPartition returns the partition key of the lease under which the jobs of a
// destination are delivered.
func OutboxPartition(destination string) string { return "JOB#outbox/" + destination }

// A Job is the delivery of one or more purges, which were committed together, to one
// downstream cache. Destination and Seq identify it at a time; Enqueue may replace it by one
// with more targets.
type Job struct {
	// Destination is the name of the downstream cache.
	Destination string
	// Seq is the sequence of the change in the log.
	Seq int64
	// Token distinguishes the job from others with its Destination and Seq, in this table or
	// in another one. It is random; empty if a version of isr without it wrote the job.
	Token string
	// Targets are what is to be purged.
	Targets []JobTarget
	// CreatedAt is when the change was made.
	CreatedAt time.Time
	// Attempts counts failed deliveries, and Error is why the latest one failed.
	Attempts int
	Error    string
	// NextAt is when the next delivery is due; zero: at once.
	NextAt time.Time
	// Failed: it is not delivered any more, since FailedAt, unless an operator retries it.
	Failed   bool
	FailedAt time.Time
	// Malformed is why the row cannot be read; it names the row and the attribute. The job
	// stands for an unknown purge: its only target is a hard purge of everything.
	Malformed error
}

// A JobTarget is a target, and how it was purged.
type JobTarget struct {
	PurgeTarget
	// Hard: copies must not be served again.
	Hard bool
}

// ID returns the text that identifies a job for people: "cdn/42".
func (j Job) ID() string { return fmt.Sprintf("%s/%d", j.Destination, j.Seq) }

// An OutboxStore lists the deliveries to downstream caches. Changes write the jobs in their
// own transactions (see [Purge], [Assertion] and [PublishOptions]); Enqueue writes the jobs of
// changes by other programs. A job is delivered at least once: deleting it comes after the
// delivery. It keeps the contract of [MetaStore].
type OutboxStore interface {
	// Enqueue writes the jobs of a destination for the changes of the log whose writers wrote
	// none: clients in other languages, and processes without the destination. The outbox
	// has a cursor in the log for each destination, so each change is enqueued once,
	// however many processes call Enqueue. The first call sets the cursor to the end of the
	// log. If rows of the log are missing or malformed, there is one job: a hard purge of
	// everything. After an error a part may have been enqueued.
	Enqueue(ctx context.Context, destination string) error
	// PendingJobs returns the oldest pending jobs of a destination, at least one if there
	// are any and at most limit, by a strongly consistent read.
	PendingJobs(ctx context.Context, destination string, limit int) ([]Job, error)
	// Outbox yields all jobs, pending and failed, of all destinations, by strongly
	// consistent reads of some hundred rows, and ends after the first error.
	Outbox(ctx context.Context) iter.Seq2[Job, error]
	// FinishJobs deletes pending jobs, which have been delivered. Missing jobs, and jobs that
	// another one has replaced (by their Token), are no error, and the other one stays. After
	// an error some may have been deleted.
	FinishJobs(ctx context.Context, jobs []Job) error
	// DelayJob records a failed delivery of a pending job: it stores Attempts, Error and
	// NextAt. It does nothing if the job is gone or replaced.
	DelayJob(ctx context.Context, j Job) error
	// FailJob makes a pending job a failed one, with its Attempts, Error and FailedAt, for
	// [FailedJobLife]. It does nothing if the job is gone or replaced.
	FailJob(ctx context.Context, j Job) error
	// RetryJob makes a job pending, due at once, with no attempts. It returns
	// [ErrNoJob] if there is no such job.
	RetryJob(ctx context.Context, destination string, seq int64) error
	// DropJob deletes a job, pending or failed. It returns [ErrNoJob] if there is no such
	// job.
	DropJob(ctx context.Context, destination string, seq int64) error
}
