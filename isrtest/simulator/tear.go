package simulator

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// A tearingEngine shows transactions in part, as DynamoDB may while it commits them: for a
// while after the commit, reads return some rows as they were before, strongly consistent
// reads too. The same rows cannot be written or read by other transactions during that time: these
// are refused because of a conflict, and a repetition under the same client token because
// the transaction is in progress. See dynamostore for what DynamoDB promises. Only the driver
// calls it.
type tearingEngine struct {
	Engine
	w     *world
	now   time.Time     // of the driver: calls of an engine with I/O run outside the bubble, with another clock
	next  time.Duration // how long the next transaction is seen in part; 0: it is not
	rows  map[rowKey]tear
	ended map[rowKey]time.Time // when the last tear of a row ended, or ends
}

type rowKey struct{ pk, sk string }

// A tear is a row that a committed transaction has written, and reads do not show yet.
type tear struct {
	before item // what reads return; nil: there was no row
	until  time.Time
	token  string // of the transaction
}

// longestTear bounds how long a transaction is seen in part. DynamoDB states no bound: it
// commits a row a few milliseconds after another, and longer if a coordinator fails. It must be
// less than the timeout of calls, so that the callers of most transactions get their replies, and
// than the time for which the product distrusts what it has read.
const longestTear = 4 * time.Second

func newTearingEngine(w *world) *tearingEngine {
	return &tearingEngine{Engine: w.engine, w: w, rows: make(map[rowKey]tear), ended: make(map[rowKey]time.Time)}
}

// mend ends all tears, for a write of another service, which would conflict with them.
func (e *tearingEngine) mend() {
	if e != nil {
		clear(e.rows)
	}
}

// of returns the tear of a row, for the driver. It is safe for a nil engine, which has none.
func (e *tearingEngine) of(pk, sk string) (t tear, torn bool) {
	if e == nil {
		return tear{}, false
	}
	return e.tearOf(rowKey{pk, sk}, time.Now())
}

func (e *tearingEngine) tearOf(k rowKey, now time.Time) (t tear, torn bool) {
	t, torn = e.rows[k]
	return t, torn && now.Before(t.until)
}

// active reports whether a row is torn.
func (e *tearingEngine) active() bool {
	if e == nil {
		return false
	}
	now := time.Now()
	for _, t := range e.rows {
		if now.Before(t.until) {
			return true
		}
	}
	return false
}

// tornSince reports whether a row was torn after a moment.
func (e *tearingEngine) tornSince(pk, sk string, since time.Time) bool {
	return e != nil && e.ended[rowKey{pk, sk}].After(since)
}

func keyOf(key item) rowKey { return rowKey{textOf(key, "pk"), textOf(key, "sk")} }

// shown returns a row as a read returns it.
func (e *tearingEngine) shown(row, key item) item {
	if t, torn := e.tearOf(keyOf(key), e.now); torn {
		e.w.counts["read of a transaction in part"]++
		return t.before
	}
	return row
}

// GetItem implements [dynamostore.API].
func (e *tearingEngine) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...options) (*dynamodb.GetItemOutput, error) {
	out, err := e.Engine.GetItem(ctx, in, o...)
	if err != nil {
		return nil, err
	}
	seen := *out
	seen.Item = e.shown(out.Item, in.Key)
	return &seen, nil
}

// BatchGetItem implements [dynamostore.API].
func (e *tearingEngine) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...options) (*dynamodb.BatchGetItemOutput, error) {
	out, err := e.Engine.BatchGetItem(ctx, in, o...)
	if err != nil {
		return nil, err
	}
	seen := *out
	seen.Responses = make(map[string][]item)
	for table, wanted := range in.RequestItems {
		for _, key := range wanted.Keys {
			i := slices.IndexFunc(out.Responses[table], func(row item) bool { return keyOf(row) == keyOf(key) })
			var row item
			if i >= 0 {
				row = out.Responses[table][i]
			}
			if row = e.shown(row, key); row != nil {
				seen.Responses[table] = append(seen.Responses[table], row)
			}
		}
	}
	return &seen, nil
}

// Query implements [dynamostore.API].
func (e *tearingEngine) Query(ctx context.Context, in *dynamodb.QueryInput, o ...options) (*dynamodb.QueryOutput, error) {
	out, err := e.Engine.Query(ctx, in, o...)
	if err != nil || len(e.rows) == 0 {
		return out, err
	}
	seen := *out
	seen.Items = nil
	for _, row := range out.Items {
		if row = e.shown(row, row); row != nil {
			seen.Items = append(seen.Items, row)
		}
	}
	// Rows that the transaction has deleted.
	pk, first, last := textOf(in.ExpressionAttributeValues, ":pk"), textOf(in.ExpressionAttributeValues, ":first"), textOf(in.ExpressionAttributeValues, ":last")
	for k := range e.rows {
		t, torn := e.tearOf(k, e.now)
		isIn := func(row item) bool { return keyOf(row) == k }
		if torn && t.before != nil && k.pk == pk && first <= k.sk && k.sk <= last && !slices.ContainsFunc(out.Items, isIn) {
			seen.Items = append(seen.Items, t.before)
		}
	}
	slices.SortFunc(seen.Items, func(a, b item) int { return strings.Compare(textOf(a, "sk"), textOf(b, "sk")) })
	if !aws.ToBool(in.ScanIndexForward) && in.ScanIndexForward != nil {
		slices.Reverse(seen.Items)
	}
	return &seen, nil
}

// refuses reports whether a write of a row conflicts with a transaction in progress.
func (e *tearingEngine) refuses(key item) bool {
	_, torn := e.tearOf(keyOf(key), e.now)
	return torn
}

// PutItem implements [dynamostore.API].
func (e *tearingEngine) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...options) (*dynamodb.PutItemOutput, error) {
	if e.refuses(in.Item) {
		return nil, &types.TransactionConflictException{}
	}
	return e.Engine.PutItem(ctx, in, o...)
}

// UpdateItem implements [dynamostore.API].
func (e *tearingEngine) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...options) (*dynamodb.UpdateItemOutput, error) {
	if e.refuses(in.Key) {
		return nil, &types.TransactionConflictException{}
	}
	return e.Engine.UpdateItem(ctx, in, o...)
}

// DeleteItem implements [dynamostore.API].
func (e *tearingEngine) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...options) (*dynamodb.DeleteItemOutput, error) {
	if e.refuses(in.Key) {
		return nil, &types.TransactionConflictException{}
	}
	return e.Engine.DeleteItem(ctx, in, o...)
}

// conflict is the refusal of a transaction on these rows, nil if none of them is torn.
func (e *tearingEngine) conflict(keys []item) error {
	refused := false
	reasons := make([]types.CancellationReason, len(keys))
	for i, key := range keys {
		reasons[i].Code = aws.String("None")
		if e.refuses(key) {
			reasons[i].Code = aws.String("TransactionConflict")
			refused = true
		}
	}
	if !refused {
		return nil
	}
	e.w.counts["conflict with a transaction in part"]++
	return &types.TransactionCanceledException{CancellationReasons: reasons}
}

// TransactGetItems implements [dynamostore.API].
func (e *tearingEngine) TransactGetItems(ctx context.Context, in *dynamodb.TransactGetItemsInput, o ...options) (*dynamodb.TransactGetItemsOutput, error) {
	var keys []item
	for _, get := range in.TransactItems {
		keys = append(keys, get.Get.Key)
	}
	if err := e.conflict(keys); err != nil {
		return nil, err
	}
	return e.Engine.TransactGetItems(ctx, in, o...)
}

// TransactWriteItems implements [dynamostore.API].
func (e *tearingEngine) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...options) (*dynamodb.TransactWriteItemsOutput, error) {
	var keys []item
	for _, action := range in.TransactItems {
		_, key := actionOf(action)
		keys = append(keys, key)
		if t, torn := e.tearOf(keyOf(key), e.now); torn && t.token == aws.ToString(in.ClientRequestToken) {
			return nil, &types.TransactionInProgressException{}
		}
	}
	if err := e.conflict(keys); err != nil {
		return nil, err
	}
	before := make([]item, len(keys))
	for i, key := range keys {
		row, err := e.Engine.GetItem(ctx, &dynamodb.GetItemInput{
			TableName: &e.w.table, Key: item{"pk": key["pk"], "sk": key["sk"]}, ConsistentRead: aws.Bool(true),
		})
		if err != nil {
			return nil, err
		}
		before[i] = row.Item
	}
	out, err := e.Engine.TransactWriteItems(ctx, in, o...)
	if err != nil || e.next == 0 {
		return out, err
	}
	// The log often shows a change that other rows do not show yet: nodes follow it.
	logFirst := e.w.rng.IntN(4) > 0
	for i, key := range keys {
		ofLog := keyOf(key).sk == "SEQ" || strings.HasPrefix(keyOf(key).sk, "LOG#")
		if in.TransactItems[i].ConditionCheck != nil || ofLog && logFirst || e.w.rng.IntN(3) == 0 {
			continue
		}
		until := e.now.Add(e.next)
		if e.w.rng.IntN(2) == 0 {
			until = e.now.Add(1 + time.Duration(e.w.rng.Int64N(int64(e.next))))
		}
		e.rows[keyOf(key)] = tear{before: before[i], until: until, token: aws.ToString(in.ClientRequestToken)}
		e.ended[keyOf(key)] = until
	}
	return out, nil
}

// executeInPart executes a transaction that is seen in part for a while, and returns when
// that ends: its caller must not get a reply before, since from then on strongly consistent
// reads show all of it.
func (w *world) executeInPart(c *call, how string) (outcome, time.Time) {
	if w.tears == nil || c.kind != transaction {
		return w.execute(c, how), time.Now()
	}
	longest := w.pace.of(longestTear)
	w.tears.next = longest/2 + time.Duration(w.rng.Int64N(int64(longest/2)))
	until := time.Now().Add(w.tears.next)
	o := w.execute(c, how)
	w.tears.next = 0
	if o.err != nil {
		until = time.Now()
	}
	return o, until
}

// noteReadable records that all reads of SEQ return the current sequence from now on, unless a torn
// change still hides it.
func (w *world) noteReadable() {
	if _, torn := w.tears.of("PURGE", "SEQ"); torn {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.readable = w.seq
}
