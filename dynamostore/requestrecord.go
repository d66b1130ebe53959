package dynamostore

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/store"
	"github.com/facetheory/isr/tabletheory"
)

// requestRow is a request record. Its hash and status are required; attributes that
// other services do not write are read as leniently as a lease.
type requestRow struct {
	location

	Hash   string        `theorydb:"attr:request_hash"`
	Status requestStatus `theorydb:"attr:status"`
	Result string        `theorydb:"attr:result_s3_key,omitempty"`
	TTL    laxNumber     `theorydb:"ttl,attr:ttl"`

	// Attempt is the token of the claim.
	Attempt      laxText  `theorydb:"attr:attempt_token,omitempty"`
	Until        leaseEnd `theorydb:"attr:in_progress_until,omitempty"`
	Failure      laxText  `theorydb:"attr:error,omitempty"`
	GenerationID laxText  `theorydb:"attr:generation_id,omitempty"`
}

// requestStatus is a state as the table stores it.
type requestStatus string

const expectedStatus = expectation("STARTED, COMPLETED or FAILED")

// UnmarshalDynamoDBAttributeValue is for package tabletheory.
func (s *requestStatus) UnmarshalDynamoDBAttributeValue(av types.AttributeValue) error {
	text, _ := av.(*types.AttributeValueMemberS)
	if text == nil {
		return expectedStatus
	}
	*s = requestStatus(text.Value)
	if _, ok := s.state(); !ok {
		return expectedStatus
	}
	return nil
}

func statusOf(state store.RequestState) requestStatus { return requestStatus(state.String()) }

func (s requestStatus) state() (store.RequestState, bool) {
	for _, state := range []store.RequestState{store.RequestStarted, store.RequestCompleted, store.RequestFailed} {
		if s == statusOf(state) {
			return state, true
		}
	}
	return 0, false
}

// findRequestRecord reads a request record, as stored and decoded; the decoded one is
// nil if there is none or it has expired. A malformed row is a *[MalformedError],
// because its request may have been executed.
func (s *Store) findRequestRecord(ctx context.Context, pk, key string) (row, *store.RequestRecord, error) {
	found, err := s.readRow(ctx, true, pk, requestPrefix+key)
	if err != nil || found == nil {
		return nil, nil, err
	}
	var end laxNumber
	if err := end.UnmarshalDynamoDBAttributeValue(found[attrTTL]); err != nil {
		return nil, nil, err
	}
	if end > 0 && int64(end) <= floorSeconds(s.config.Now()) {
		return found, nil, nil // expired, but not yet deleted by TTL
	}
	if found.text(attrRequestHash) == "" {
		return nil, nil, found.malformed(attrRequestHash, string(expectedText))
	}
	if found.text(attrStatus) == "" {
		return nil, nil, found.malformed(attrStatus, string(expectedStatus))
	}
	var r requestRow
	if err := s.decode(ctx, found, &r); err != nil {
		return nil, nil, err
	}
	return found, r.record(key), nil
}

func (r *requestRow) record(key string) *store.RequestRecord {
	state, _ := r.Status.state()
	request := &store.RequestRecord{
		Key: key, Hash: r.Hash, State: state,
		BodyKey: r.Result, GenerationID: string(r.GenerationID), Failure: string(r.Failure),
	}
	if r.Until > 0 {
		request.InProgressUntil = moment(int64(r.Until))
	}
	return request
}

// unchangedRequest requires that a REQ# row is as it was read: it was not extended,
// taken over or ended.
func unchangedRequest(found row) tabletheory.Precondition {
	if found == nil {
		return tabletheory.IfNotExists()
	}
	var same sameness
	same.require("request_hash", ":old_hash", found[attrRequestHash])
	same.require("#Status", ":old_status", found[attrStatus])
	same.require("attempt_token", ":old_attempt", found[attrAttempt])
	same.require("in_progress_until", ":old_until", found[attrInProgress])
	same.require("#TTL", ":old_ttl", found[attrTTL])
	return same.condition()
}

// A claim is the right to complete or fail a request record, proven by its token.
type claim struct {
	sk    string
	token string
	keep  int64 // the earliest ttl of the record, in epoch seconds
}

// newClaim returns a claim that is not yet in the table.
func (s *Store) newClaim(c *store.Claim) (*claim, error) {
	if err := store.ValidRequestKey(c.Key); err != nil {
		return nil, err
	}
	if c.Hash == "" || !utf8.ValidString(c.Hash) || len(c.Hash) > maxHash {
		return nil, fmt.Errorf("%w: the hash of request %q must be the hex sha256 of its inputs, 1 to %d bytes (got %.60q)", store.ErrInvalidKey, c.Key, maxHash, c.Hash)
	}
	if c.Keep < 0 {
		return nil, fmt.Errorf("%w: Keep of request %q must not be negative (got %v)", store.ErrInvalidInput, c.Key, c.Keep)
	}
	keep := moment(floorSeconds(s.config.Now())).Add(time.Duration(interval(c.Keep)) * time.Second)
	return &claim{sk: requestPrefix + c.Key, token: s.config.NewToken(), keep: floorSeconds(keep) + 1}, nil
}

// maxHash bounds the hash of a request, in bytes.
const maxHash = 256

// row returns the REQ# row of the claim in a state. Its ttl is at least keep, and later
// than the end of the claim.
func (c *claim) row(s *Store, pk string, state store.RequestState, until int64) *requestRow {
	return &requestRow{
		location: s.at(pk, c.sk), Status: statusOf(state), Attempt: laxText(c.token),
		Until: leaseEnd(until), TTL: laxNumber(max(c.keep, until+lockLinger)),
	}
}

// isMine requires that the claim was neither taken over nor ended.
func (c *claim) isMine() []tabletheory.Precondition {
	return []tabletheory.Precondition{
		tabletheory.Condition("Attempt", "=", c.token),
		tabletheory.Condition("Status", "=", string(statusOf(store.RequestStarted))),
	}
}

// extend returns the action that extends the claim to a time in epoch seconds.
func (c *claim) extend(s *Store, pk string, until int64) action {
	r := c.row(s, pk, store.RequestStarted, until)
	return update(onRequest, r, []string{"Until", "TTL"}, c.isMine()...)
}

// finished returns the REQ# row of the ended claim, and the fields that change. Its
// ttl stays.
func (c *claim) finished(s *Store, pk string, end store.RequestEnd) (r *requestRow, fields []string) {
	r = c.row(s, pk, store.RequestFailed, 0)
	r.Failure = laxText(cut(strings.ToValidUTF8(end.Failure, "\uFFFD"), maxFailure))
	if end.Result != nil {
		r.Status, r.Failure = statusOf(store.RequestCompleted), ""
		r.Result, r.GenerationID = end.Result.BodyKey, laxText(end.Result.GenerationID)
	}
	return r, []string{"Status", "Result", "GenerationID", "Until", "Failure"}
}

// maxFailure bounds the stored reason of a failure, in bytes.
const maxFailure = 1024

// RequestRecord implements [store.MetaStore].
func (s *Store) RequestRecord(ctx context.Context, pk, key string) (store.RequestRecord, bool, error) {
	ctx = s.metered(ctx, "request")
	if err := checkPartition(pk); err != nil {
		return store.RequestRecord{}, false, err
	}
	if err := store.ValidRequestKey(key); err != nil {
		return store.RequestRecord{}, false, err
	}
	_, request, err := s.findRequestRecord(ctx, pk, key)
	if err != nil {
		return store.RequestRecord{}, false, fmt.Errorf("read request record %s of %s: %w", key, pk, err)
	}
	if request == nil {
		return store.RequestRecord{}, false, nil
	}
	return *request, true, nil
}

// EndRequest implements [store.MetaStore]. The lease may be lost or released before.
// Like Release, it does not detach ctx. An error other than [store.ErrForeignLease]
// leaves open whether the record was ended; EndRequest may be called again.
func (s *Store) EndRequest(ctx context.Context, l store.Lease, end store.RequestEnd) error {
	ctx = s.metered(ctx, "end request")
	held, err := s.own(l)
	if err != nil {
		return fmt.Errorf("end a request record: %w", err)
	}
	if err := s.endClaim(ctx, true, held, end); err != nil {
		return fmt.Errorf("end the request record of the lease of %s: %w", held.pk, err)
	}
	return nil
}

// endClaim completes or fails the claim of a lease, if it has one. For bounded see
// [operation]. A failed condition means that another process took the claim over, or
// that an earlier call of ours was executed.
func (s *Store) endClaim(ctx context.Context, bounded bool, l *lease, end store.RequestEnd) error {
	c := l.openClaim()
	if c == nil {
		return nil
	}
	r, fields := c.finished(s, l.pk, end)
	err := s.execute(ctx, operation{bounded: bounded, refused: ignoreRefusal, send: func(ctx context.Context) error {
		return s.db.WithContext(ctx).Model(r).
			WithCondition("Attempt", "=", c.token).
			WithCondition("Status", "=", string(statusOf(store.RequestStarted))).
			Update(fields...)
	}})
	if err == nil {
		l.closeClaim()
	}
	return err
}

// failClaim fails a claim that will not be executed, so that it can be made again.
// Callers must have revoked the lease.
func (l *lease) failClaim(ctx context.Context, cause error) error {
	return l.store.endClaim(ctx, false, l, store.RequestEnd{Failure: fmt.Sprintf("not started: %v", cause)})
}
