package localdynamo

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// gate is a store that counts commits, blocks them, and can make them fail.
type gate struct {
	store.Store
	enter   chan struct{} // each value permits one commit
	commits int
	failure error
	// evaluated is called before the commit of what was evaluated; nil: it is not.
	evaluated func()
}

func (g *gate) Update(fn func(store.Writer) error) error {
	<-g.enter
	return g.Store.Update(func(w store.Writer) error {
		err := fn(w)
		if g.evaluated != nil {
			g.evaluated()
		}
		if err == nil {
			g.commits++
			err = g.failure
		}
		return err
	})
}

func gated(t *testing.T) (*DB, *gate) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "db")
	s, err := store.Open(path, true)
	if err != nil {
		t.Fatal(err)
	}
	g := &gate{Store: s, enter: make(chan struct{}, 1)}
	db, err := newDB(path, g, Options{SweepInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	g.enter <- struct{}{}
	_, err = db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: aws.String("things"), BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(g.enter)
		if err := db.Check(context.WithoutCancel(t.Context())); err != nil {
			t.Error(err)
		}
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db, g
}

func putThing(ctx context.Context, db *DB, pk, condition string) error {
	in := &dynamodb.PutItemInput{
		TableName: aws.String("things"), Item: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: pk}},
	}
	if condition != "" {
		in.ConditionExpression = &condition
	}
	_, err := db.PutItem(ctx, in)
	return err
}

// TestGroupCommit delays commits so that writes queue up. Queued writes must
// share commits.
func TestGroupCommit(t *testing.T) {
	t.Parallel()
	db, g := gated(t)
	before := g.commits
	errs := make([]error, 20)
	var group sync.WaitGroup
	group.Go(func() { errs[0] = putThing(t.Context(), db, "0", "") })
	for i := 1; i < len(errs); i++ {
		group.Go(func() {
			condition := ""
			if i%5 == 0 {
				condition = "attribute_exists(nothing)"
			}
			errs[i] = putThing(t.Context(), db, strconv.Itoa(i), condition)
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for running := true; running; {
		select {
		case g.enter <- struct{}{}:
		case <-done:
			running = false
		}
	}
	var failed *types.ConditionalCheckFailedException
	for i, err := range errs {
		if wantFailure := i > 0 && i%5 == 0; errors.As(err, &failed) != wantFailure || err != nil && !wantFailure {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if n := g.commits - before; n > len(errs)-3 {
		t.Errorf("got %d commits for %d writes, want at most %d", n, len(errs), len(errs)-3)
	}
}

// TestFailedCommitFailsBatch: if a commit fails, every write of the batch gets the
// error, even those whose condition had failed. Nothing is written, and later
// writes can succeed.
func TestFailedCommitFailsBatch(t *testing.T) {
	t.Parallel()
	db, g := gated(t)
	full := errors.New("no space left on device")
	g.failure = full
	var group sync.WaitGroup
	for i := range 5 {
		group.Go(func() {
			err := putThing(t.Context(), db, strconv.Itoa(i), "")
			var internal *types.InternalServerError
			if !errors.Is(err, full) || !errors.As(err, &internal) {
				t.Errorf("%d: %v", i, err)
			}
		})
	}
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	for running := true; running; {
		select {
		case g.enter <- struct{}{}:
		case <-done:
			running = false
		}
	}
	select {
	case <-g.enter: // an unused permit
	default:
	}
	g.failure = nil
	g.enter <- struct{}{}
	if err := putThing(t.Context(), db, "0", "attribute_not_exists(pk)"); err != nil {
		t.Error(err)
	}
}

// TestCanceledWriteIsWithdrawn: canceling a write before the writer accepts it
// withdraws it.
func TestCanceledWriteIsWithdrawn(t *testing.T) {
	t.Parallel()
	db, g := gated(t)
	first := make(chan error, 1)
	go func() { first <- putThing(t.Context(), db, "first", "") }()
	// The writer is, or soon will be, in a commit that waits for the gate.
	ctx, cancel := context.WithCancel(t.Context())
	second := make(chan error, 1)
	go func() { second <- putThing(ctx, db, "second", "") }()
	cancel()
	err := error(nil)
	for first != nil {
		select {
		case err = <-second:
			second = nil
		case g.enter <- struct{}{}:
		case e := <-first:
			if e != nil {
				t.Error(e)
			}
			first = nil
		}
	}
	for second != nil {
		select {
		case err = <-second:
			second = nil
		case g.enter <- struct{}{}:
		}
	}
	out, getErr := db.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: aws.String("things"), Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: "second"}},
	})
	if getErr != nil {
		t.Fatal(getErr)
	}
	if (err == nil) != (out.Item != nil) || err != nil && !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, item %v", err, out.Item)
	}
}

// TestCommitSizeLimit: the write that reaches maxBatchBytes is the last of its
// commit; the others go into the next.
func TestCommitSizeLimit(t *testing.T) {
	t.Parallel()
	db, g := gated(t)
	batch := make([]*pendingWrite, 5)
	for i := range batch {
		batch[i] = &pendingWrite{apply: func(tx *transaction) error {
			return tx.Put("large", []byte{byte(i)}, make([]byte, maxBatchBytes/2))
		}}
	}
	var got []int
	for rest := batch; len(rest) > 0; {
		g.enter <- struct{}{}
		n, err := db.commit(rest)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, n)
		rest = rest[n:]
	}
	if !slices.Equal(got, []int{2, 2, 1}) {
		t.Errorf("commits of %v writes, want 2, 2 and 1", got)
	}
}

// TestVolatileWriteDoesNotWait: while a commit is in progress, a volatile write returns at
// once, unless the commit writes or reads the same item. If the commit fails, what was
// volatile is as before.
func TestVolatileWriteDoesNotWait(t *testing.T) {
	t.Parallel()
	db, g := gated(t)
	put := func(pk, value string) error {
		_, err := db.Volatile().PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("things"), Item: map[string]types.AttributeValue{
			"pk": &types.AttributeValueMemberS{Value: pk}, "v": &types.AttributeValueMemberS{Value: value},
		}})
		return err
	}
	get := func(pk string) string {
		out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{
			TableName: aws.String("things"), Key: map[string]types.AttributeValue{"pk": &types.AttributeValueMemberS{Value: pk}},
		})
		if err != nil {
			t.Fatal(err)
		}
		v, _ := out.Item["v"].(*types.AttributeValueMemberS)
		if v == nil {
			return ""
		}
		return v.Value
	}
	if err := put("lease", "first"); err != nil { // no commit is permitted
		t.Fatal(err)
	}
	evaluated, proceed := make(chan struct{}), make(chan struct{})
	g.evaluated = func() {
		close(evaluated)
		<-proceed
	}
	g.failure = errors.New("no space left on device")
	committed := make(chan error, 1)
	go func() { committed <- putThing(t.Context(), db, "lease", "attribute_exists(v)") }()
	g.enter <- struct{}{}
	<-evaluated
	if err := put("other", "during"); err != nil || get("other") != "during" || get("lease") != "first" {
		t.Errorf("during a commit: error %v, other %q, lease %q", err, get("other"), get("lease"))
	}
	waiting := make(chan error, 1)
	go func() { waiting <- put("lease", "second") }()
	close(proceed)
	if err := <-committed; !errors.Is(err, g.failure) {
		t.Errorf("the commit returned %v", err)
	}
	if got := get("lease"); got != "first" {
		t.Errorf("after the commit failed the lease is %q", got)
	}
	g.evaluated, g.failure = nil, nil
	g.enter <- struct{}{}
	if err := <-waiting; err != nil || get("lease") != "second" {
		t.Errorf("the write that waited returned %v, and the lease is %q", err, get("lease"))
	}
	if err := put("third", "at once"); err != nil {
		t.Error(err)
	}
}
