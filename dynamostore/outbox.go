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

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

const (
	pkOutbox = "OUTBOX"
	// Sort keys continue with the destination, '#' and the sequence, so that the pending
	// jobs of one destination are one range, without those of others and failed ones.
	jobRowPrefix = "JOB#"
	failedPrefix = "FAILED#"

	maxJobError = 1024 // bytes of the stored error

	// maxBatchWrite is DynamoDB's limit of writes in one BatchWriteItem.
	maxBatchWrite = 25
)

// jobRow is a delivery to a downstream cache.
type jobRow struct {
	location

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

// jobActions returns the puts of the jobs.
func (w *logWrites) jobActions() []action {
	var actions []action
	for _, d := range slices.Sorted(maps.Keys(w.jobs)) {
		row := &jobRow{location: w.store.at(pkOutbox, jobKey(jobRowPrefix, d, w.next())), Targets: w.jobs[d], Created: instant(w.now)}
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
	err := s.fillJob(ctx, &j, found)
	if err != nil {
		// It may be any purge. Delivering too much is harmless.
		j.CreatedAt, j.Malformed, j.Targets = s.config.Now(), err, []store.JobTarget{{PurgeTarget: store.PurgeTarget{Kind: store.PurgeSite}, Hard: true}}
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
// 1 KB. The deletes have no condition: a job is the same delivery as long as its row
// exists.
func (s *Store) FinishJobs(ctx context.Context, jobs []store.Job) error {
	ctx = s.metered(ctx, "outbox")
	var keys []types.WriteRequest
	for _, j := range jobs {
		keys = append(keys, deleteOf(jobKey(jobRowPrefix, j.Destination, j.Seq)))
	}
	for some := range slices.Chunk(keys, maxBatchWrite) {
		if err := s.batchWrite(ctx, some); err != nil {
			return fmt.Errorf("delete delivered jobs: %w", err)
		}
	}
	return nil
}

func deleteOf(sk string) types.WriteRequest {
	return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: map[string]types.AttributeValue{
		attrPK: stringOf(pkOutbox), attrSK: stringOf(sk),
	}}}
}

// batchWrite makes at most maxBatchWrite idempotent writes. It repeats the request for
// those that DynamoDB leaves unprocessed.
func (s *Store) batchWrite(ctx context.Context, writes []types.WriteRequest) error {
	for attempt := 1; len(writes) > 0; attempt++ {
		var out *dynamodb.BatchWriteItemOutput
		err := s.try(ctx, func(ctx context.Context) (err error) {
			out, err = s.api.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{s.table: writes}})
			return err
		})
		if err != nil {
			return err
		}
		if writes = out.UnprocessedItems[s.table]; len(writes) > 0 && !s.pause(ctx, attempt) {
			return context.Cause(ctx)
		}
	}
	return nil
}

// DelayJob implements [store.OutboxStore]. It costs a write unit.
func (s *Store) DelayJob(ctx context.Context, j store.Job) error {
	ctx = s.metered(ctx, "outbox")
	row := &jobRow{
		location: s.at(pkOutbox, jobKey(jobRowPrefix, j.Destination, j.Seq)),
		Attempts: count(j.Attempts), NextAt: horizon(ceilSeconds(j.NextAt)), Error: cut(j.Error, maxJobError),
	}
	err := s.execute(ctx, operation{bounded: true, refused: ignoreRefusal, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(row).IfExists().Update("Attempts", "NextAt", "Error")
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
		location: s.at(pkOutbox, jobKey(prefix, j.Destination, j.Seq)),
		Created:  instant(floorSeconds(j.CreatedAt)), Attempts: count(j.Attempts), Error: cut(j.Error, maxJobError),
	}
	for _, t := range j.Targets {
		row.Targets = append(row.Targets, jobTarget{string(t.Kind), t.Tenant, t.Value, flag(t.Hard)})
	}
	return row
}

// moveJob replaces the row of a job by another one, in a transaction, if it exists.
func (s *Store) moveJob(ctx context.Context, from string, j store.Job, to *jobRow) error {
	row := &jobRow{location: s.at(pkOutbox, jobKey(from, j.Destination, j.Seq))}
	gone := remove(onJob, row, tabletheory.IfExists())
	gone.item = itemKey{row.PK, row.SK}
	tx := s.newTransaction([]action{gone, put(onJob, to)})
	return s.execute(ctx, operation{bounded: true, send: tx.send, refused: ignoreRefusal})
}

// findJob reads a job, pending or failed.
func (s *Store) findJob(ctx context.Context, destination string, seq int64) (store.Job, error) {
	if err := store.ValidDestination(destination); err != nil {
		return store.Job{}, err
	}
	for _, prefix := range []string{jobRowPrefix, failedPrefix} {
		found, err := s.readRow(ctx, true, pkOutbox, jobKey(prefix, destination, seq))
		if err != nil {
			return store.Job{}, err
		}
		if j, ok := s.job(ctx, found); ok {
			return j, nil
		}
	}
	return store.Job{}, store.ErrNoJob
}

// RetryJob implements [store.OutboxStore].
func (s *Store) RetryJob(ctx context.Context, destination string, seq int64) error {
	ctx = s.metered(ctx, "outbox")
	j, err := s.findJob(ctx, destination, seq)
	switch {
	case err != nil:
	case j.Failed:
		j.Attempts, j.Error = 0, ""
		err = s.moveJob(ctx, failedPrefix, j, s.jobRow(jobRowPrefix, j))
	default:
		j.Attempts, j.Error, j.NextAt = 0, "", s.config.Now()
		err = s.DelayJob(ctx, j)
	}
	if err != nil {
		return fmt.Errorf("retry job %s/%d: %w", destination, seq, err)
	}
	return nil
}

// DropJob implements [store.OutboxStore].
func (s *Store) DropJob(ctx context.Context, destination string, seq int64) error {
	ctx = s.metered(ctx, "outbox")
	_, err := s.findJob(ctx, destination, seq)
	if err == nil {
		err = s.batchWrite(ctx, []types.WriteRequest{
			deleteOf(jobKey(jobRowPrefix, destination, seq)), deleteOf(jobKey(failedPrefix, destination, seq)),
		})
	}
	if err != nil {
		return fmt.Errorf("drop job %s/%d: %w", destination, seq, err)
	}
	return nil
}
