package dynamostore

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

const (
	pkOutbox = "OUTBOX"
	// Sort keys continue with the destination, '#' and the sequence, so that the pending
	// jobs of one destination are one range, without the jobs of others and failed ones.
	jobRowPrefix = "JOB#"
	failedPrefix = "FAILED#"

	maxJobError = 1024 // bytes of the stored error

	// maxFinishing is how many jobs FinishJobs deletes at a time.
	maxFinishing = 16
)

// jobRow is a delivery to a downstream cache.
type jobRow struct {
	location

	// ID belongs to the transaction that wrote the job, like a log row's. It distinguishes
	// jobs that had the same key, in this table or in another one.
	ID       laxText     `theorydb:"attr:id,omitempty"`
	Targets  []jobTarget `theorydb:"attr:targets"`
	Created  instant     `theorydb:"attr:created_at"`
	Attempts count       `theorydb:"attr:attempts,omitempty"`
	NextAt   horizon     `theorydb:"attr:next_at,omitempty"`
	Error    string      `theorydb:"attr:error,omitempty"`
	FailedAt horizon     `theorydb:"attr:failed_at,omitempty"`
	TTL      horizon     `theorydb:"ttl,attr:ttl,omitempty"` // of a failed job
}

// jobTarget is a target of a purge.
type jobTarget struct {
	Kind   string `theorydb:"attr:kind"`
	Tenant string `theorydb:"attr:tenant,omitempty"`
	Value  string `theorydb:"attr:value,omitempty"`
	Hard   flag   `theorydb:"attr:hard,omitempty"`
}

var requiredOfJob = []required{{attrCreated, expectedInstant}}

// jobKey returns the sort key of a job, pending or failed.
func jobKey(prefix, destination string, seq int64) string {
	return fmt.Sprintf("%s%s#%020d", prefix, destination, seq)
}

// pageTarget returns the target of one page, for a job.
func pageTarget(k store.Key) store.PurgeTarget {
	return store.PurgeTarget{Kind: store.PurgeKey, Tenant: k.Tenant, Value: k.Text}
}

// deliver adds targets to the jobs of destinations. All changes of a transaction share
// one job for each destination, because they share a sequence.
func (w *logWrites) deliver(destinations []string, hard bool, targets ...store.PurgeTarget) {
	if w.jobs == nil && len(destinations) > 0 {
		w.jobs = make(map[string][]jobTarget)
	}
	for _, d := range destinations {
		for _, t := range targets {
			w.jobs[d] = addJobTarget(w.jobs[d], jobTarget{string(t.Kind), t.Tenant, t.Value, flag(hard)})
		}
	}
}

// addJobTarget adds a target. Of the same target, soft and hard, the hard one remains.
func addJobTarget(targets []jobTarget, t jobTarget) []jobTarget {
	for i, known := range targets {
		if hard := known.Hard || t.Hard; known.Kind == t.Kind && known.Tenant == t.Tenant && known.Value == t.Value {
			targets[i].Hard = hard
			return targets
		}
	}
	return append(targets, t)
}

// jobActions returns the puts of the jobs. id is the id of the log row.
func (w *logWrites) jobActions(id string) []action {
	var actions []action
	for _, d := range slices.Sorted(maps.Keys(w.jobs)) {
		row := &jobRow{location: w.store.at(pkOutbox, jobKey(jobRowPrefix, d, w.next())), ID: laxText(id), Targets: w.jobs[d], Created: instant(w.now)}
		// No condition: the transaction that advances SEQ to the sequence owns the row.
		a := put(onJob, row)
		a.item = itemKey{row.PK, row.SK}
		actions = append(actions, a)
	}
	return actions
}

// PendingJobs implements [store.OutboxStore]. It costs a read unit for about 20 jobs of a
// target each. It reads one result page of at most 1 MB.
func (s *Store) PendingJobs(ctx context.Context, destination string, limit int) ([]store.Job, error) {
	ctx = s.metered(ctx, "outbox")
	if err := store.ValidDestination(destination); err != nil {
		return nil, err
	}
	pending := s.withPrefix(pkOutbox, jobRowPrefix+destination+"#")
	pending.Limit = aws.Int32(int32(min(max(limit, 1), maxPendingJobs)))
	page, err := s.queryOnce(ctx, pending)
	if err != nil {
		return nil, fmt.Errorf("read the outbox of %s: %w", destination, err)
	}
	jobs := make([]store.Job, 0, len(page.Items))
	for _, item := range page.Items {
		if j, ok := s.job(ctx, item); ok {
			jobs = append(jobs, j)
		}
	}
	return jobs, nil
}

// maxPendingJobs bounds the limit of PendingJobs.
const maxPendingJobs = 10_000

// Outbox implements [store.OutboxStore].
func (s *Store) Outbox(ctx context.Context) iter.Seq2[store.Job, error] {
	ctx = s.metered(ctx, "outbox")
	return func(yield func(store.Job, error) bool) {
		rows := s.pages(ctx, &dynamodb.QueryInput{
			TableName:                 &s.table,
			ConsistentRead:            aws.Bool(true),
			KeyConditionExpression:    aws.String("pk = :pk"),
			ExpressionAttributeValues: map[string]types.AttributeValue{":pk": stringOf(pkOutbox)},
			Limit:                     aws.Int32(maxChanges),
		})
		for found, err := range rows {
			if err != nil {
				yield(store.Job{}, fmt.Errorf("read the outbox: %w", err))
				return
			}
			if j, ok := s.job(ctx, found); ok && !yield(j, nil) {
				return
			}
		}
	}
}

// job decodes a row. ok is false for rows that are not jobs.
func (s *Store) job(ctx context.Context, found row) (j store.Job, ok bool) {
	j, ok = identify(found.text(attrSK))
	if !ok {
		return j, false
	}
	j.Token = found.text(attrID)
	err := s.fillJob(ctx, &j, found)
	if err != nil {
		// It may be any purge. Delivering too much is harmless.
		j.Malformed, j.Targets = err, []store.JobTarget{{PurgeTarget: store.PurgeTarget{Kind: store.PurgeSite}, Hard: true}}
		var created instant
		if unreadable := created.UnmarshalDynamoDBAttributeValue(found[attrCreated]); unreadable != nil {
			created = instant(floorSeconds(s.config.Now()))
		}
		j.CreatedAt = created.time()
	}
	return j, true
}

// identify reads a sort key.
func identify(sk string) (j store.Job, ok bool) {
	rest, pending := strings.CutPrefix(sk, jobRowPrefix)
	if !pending {
		if rest, j.Failed = strings.CutPrefix(sk, failedPrefix); !j.Failed {
			return j, false
		}
	}
	destination, digits, _ := strings.Cut(rest, "#")
	seq, err := strconv.ParseInt(digits, 10, 64)
	j.Destination, j.Seq = destination, seq
	return j, err == nil && store.ValidDestination(destination) == nil && len(digits) == 20
}

// fillJob decodes the attributes of a job. An error is a *[MalformedError].
func (s *Store) fillJob(ctx context.Context, j *store.Job, found row) error {
	if _, isList := found[attrTargets].(*types.AttributeValueMemberL); !isList {
		return found.malformed(attrTargets, "a list of maps")
	}
	if err := found.check("", found, requiredOfJob); err != nil {
		return err
	}
	var r jobRow
	if err := s.decode(ctx, found, &r); err != nil {
		return err
	}
	j.CreatedAt, j.Attempts, j.Error = r.Created.time(), int(min(r.Attempts, 1<<30)), r.Error
	if r.NextAt > 0 {
		j.NextAt = r.NextAt.time()
	}
	if r.FailedAt > 0 {
		j.FailedAt = r.FailedAt.time()
	}
	for _, t := range r.Targets {
		j.Targets = append(j.Targets, store.JobTarget{
			PurgeTarget: store.PurgeTarget{Kind: store.PurgeKind(t.Kind), Tenant: t.Tenant, Value: t.Value}, Hard: bool(t.Hard),
		})
	}
	if len(j.Targets) == 0 {
		return found.malformed(attrTargets, "at least one target")
	}
	return nil
}

// FinishJobs implements [store.OutboxStore]. It costs a write unit for each job of at most
// 1 KB.
func (s *Store) FinishJobs(ctx context.Context, jobs []store.Job) error {
	ctx = s.metered(ctx, "outbox")
	deletes, ctx := errgroup.WithContext(ctx)
	deletes.SetLimit(maxFinishing)
	for _, j := range jobs {
		deletes.Go(func() error { return s.deleteJob(ctx, jobRowPrefix, j) })
	}
	if err := deletes.Wait(); err != nil {
		return fmt.Errorf("delete delivered jobs: %w", err)
	}
	return nil
}

// deleteJob deletes a job, if it is the one that was read.
func (s *Store) deleteJob(ctx context.Context, prefix string, j store.Job) error {
	row := &jobRow{location: s.at(pkOutbox, jobKey(prefix, j.Destination, j.Seq))}
	return s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(row).WithConditionExpression(sameJob(j)).Delete()
	}})
}

// sameJob is the condition that a row is the job that was read. Enqueue replaces the job
// of a change by one with more targets, and needs no lease: the process that delivers the
// first one must not end the second.
func sameJob(j store.Job) (expression string, values map[string]any) {
	if j.Token == "" {
		// An older version wrote it, or the attribute is damaged.
		return "attribute_exists(pk) AND NOT id > :none", map[string]any{":none": stringOf("")}
	}
	return "id = :id", map[string]any{":id": stringOf(j.Token)}
}

// DelayJob implements [store.OutboxStore]. It costs a write unit.
func (s *Store) DelayJob(ctx context.Context, j store.Job) error {
	ctx = s.metered(ctx, "outbox")
	row := &jobRow{
		location: s.at(pkOutbox, jobKey(jobRowPrefix, j.Destination, j.Seq)),
		Attempts: count(j.Attempts), NextAt: horizon(ceilSeconds(j.NextAt)), Error: cut(j.Error, maxJobError),
	}
	err := s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(row).WithConditionExpression(sameJob(j)).Update("Attempts", "NextAt", "Error")
	}})
	if err != nil {
		return fmt.Errorf("delay job %s: %w", j.ID(), err)
	}
	return nil
}

// FailJob implements [store.OutboxStore]. It is a transaction that moves the row, at four
// write units.
func (s *Store) FailJob(ctx context.Context, j store.Job) error {
	ctx = s.metered(ctx, "outbox")
	failed := s.jobRow(failedPrefix, j)
	failed.FailedAt = horizon(floorSeconds(j.FailedAt))
	failed.TTL = horizon(ceilSeconds(j.FailedAt.Add(store.FailedJobLife)))
	if err := s.moveJob(ctx, jobRowPrefix, j, failed); err != nil {
		return fmt.Errorf("fail job %s: %w", j.ID(), err)
	}
	return nil
}

// jobRow returns the row of a job, without the attributes of a delay or a failure.
func (s *Store) jobRow(prefix string, j store.Job) *jobRow {
	row := &jobRow{
		location: s.at(pkOutbox, jobKey(prefix, j.Destination, j.Seq)), ID: laxText(j.Token),
		Created: instant(floorSeconds(j.CreatedAt)), Attempts: count(j.Attempts), Error: cut(j.Error, maxJobError),
	}
	for _, t := range j.Targets {
		row.Targets = append(row.Targets, jobTarget{string(t.Kind), t.Tenant, t.Value, flag(t.Hard)})
	}
	return row
}

// moveJob replaces the row of a job by another one, in a transaction, if it is the job that
// was read. The conditions are on the other row.
func (s *Store) moveJob(ctx context.Context, from string, j store.Job, to *jobRow, conditions ...tabletheory.Precondition) error {
	row := &jobRow{location: s.at(pkOutbox, jobKey(from, j.Destination, j.Seq))}
	gone := remove(onJob, row, tabletheory.ConditionExpression(sameJob(j)))
	gone.item = itemKey{row.PK, row.SK}
	tx := s.newTransaction([]action{gone, put(onJob, to, conditions...)})
	return s.execute(ctx, operation{bounded: true, send: tx.send, refused: ignoreRefusal})
}

// readJob reads a job, pending or failed, by the prefix of its sort key. ok is false if there
// is none.
func (s *Store) readJob(ctx context.Context, prefix, destination string, seq int64) (j store.Job, ok bool, err error) {
	found, err := s.readRow(ctx, true, pkOutbox, jobKey(prefix, destination, seq))
	if err != nil {
		return store.Job{}, false, err
	}
	j, ok = s.job(ctx, found)
	return j, ok, nil
}

// eachJob calls do with the pending and the failed job of a sequence. It returns
// [store.ErrNoJob] if there is neither, and ends after the first error.
func (s *Store) eachJob(ctx context.Context, destination string, seq int64, do func(prefix string, j store.Job) error) error {
	if err := store.ValidDestination(destination); err != nil {
		return err
	}
	result := store.ErrNoJob
	for _, prefix := range []string{jobRowPrefix, failedPrefix} {
		j, ok, err := s.readJob(ctx, prefix, destination, seq)
		if ok {
			result, err = nil, do(prefix, j)
		}
		if err != nil {
			return err
		}
	}
	return result
}

// RetryJob implements [store.OutboxStore].
func (s *Store) RetryJob(ctx context.Context, destination string, seq int64) error {
	ctx = s.metered(ctx, "outbox")
	pending := false
	err := s.eachJob(ctx, destination, seq, func(prefix string, j store.Job) error {
		j.Attempts, j.Error, j.NextAt = 0, "", s.config.Now()
		switch {
		case prefix == jobRowPrefix:
			pending = true
			return s.DelayJob(ctx, j)
		case pending:
			return nil
		}
		// A job that has become pending since was written by Enqueue, and includes this one.
		return s.moveJob(ctx, failedPrefix, j, s.jobRow(jobRowPrefix, j), tabletheory.IfNotExists())
	})
	if err != nil {
		return fmt.Errorf("retry job %s/%d: %w", destination, seq, err)
	}
	return nil
}

// DropJob implements [store.OutboxStore].
func (s *Store) DropJob(ctx context.Context, destination string, seq int64) error {
	ctx = s.metered(ctx, "outbox")
	err := s.eachJob(ctx, destination, seq, func(prefix string, j store.Job) error { return s.deleteJob(ctx, prefix, j) })
	if err != nil {
		return fmt.Errorf("drop job %s/%d: %w", destination, seq, err)
	}
	return nil
}
