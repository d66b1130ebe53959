package dynamostore_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/store"
)

// A freezer loses the replies to its next transactions, and then the process freezes for
// longer than DynamoDB remembers a token. While it is frozen, the monotonic clock stops, as it
// does on some systems, and the wall clock continues.
type freezer struct {
	clock  *isrtest.Clock
	client *dynamodb.Client
	lost   int    // number of lost replies; the freeze follows the last
	freeze func() // called during the freeze
	tokens []string
}

const frozenFor = 11 * time.Minute

// newFreezer must run in a synctest bubble.
func newFreezer(t *testing.T) (*freezer, *dynamostore.Store) {
	t.Helper()
	f := &freezer{clock: isrtest.NewClock(time.Now())}
	f.client = localdynamotest.New(t, localdynamotest.WithClock(f.clock.Now), localdynamotest.Intercept(f.intercept))
	if err := dynamostore.CreateTable(t.Context(), f.client, "pages"); err != nil {
		t.Fatal(err)
	}
	// The SDK waits up to 6 s between its three attempts, which must fit into one call.
	return f, newStore(t, f.client, "pages", dynamostore.Config{Now: f.clock.Now, CallTimeout: 10 * time.Second})
}

func (f *freezer) intercept(_ context.Context, call wire.Call, apply func()) error {
	in, ok := call.Input.(*dynamodb.TransactWriteItemsInput)
	if !ok {
		return nil
	}
	f.tokens = append(f.tokens, aws.ToString(in.ClientRequestToken))
	if f.lost == 0 {
		return nil
	}
	f.lost--
	apply()
	if f.lost == 0 {
		f.clock.Advance(frozenFor)
		if f.freeze != nil {
			f.freeze()
		}
	}
	return errReset
}

// wantNoRepetition fails the test if a token was sent after the freeze that was sent before.
func (f *freezer) wantNoRepetition(t *testing.T, lost int) {
	t.Helper()
	for _, token := range f.tokens[lost:] {
		for _, old := range f.tokens[:lost] {
			if token == old {
				t.Errorf("a transaction was repeated under a token of %v ago", frozenFor)
			}
		}
	}
}

// TestFrozenProcessDoesNotRepeatTokens: DynamoDB forgets client tokens after ten
// minutes. A later repetition would be evaluated again, and refused because of its
// own effect, so neither this package (after the three attempts of the SDK) nor the
// SDK sends it.
func TestFrozenProcessDoesNotRepeatTokens(t *testing.T) {
	t.Parallel()
	for name, lost := range map[string]int{"the SDK would repeat it": 1, "the store would repeat it": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, meta := newFreezer(t)
				if _, err := meta.Acquire(t.Context(), pk, time.Hour, nil); err != nil {
					t.Fatal(err)
				}
				read, err := meta.Read(t.Context(), pk)
				if err != nil {
					t.Fatal(err)
				}
				f.lost = lost
				if err := meta.BreakLease(t.Context(), read); err == nil || errors.Is(err, store.ErrMoved) {
					t.Errorf("BreakLease: %v, want an error that leaves open what became of it", err)
				}
				f.wantNoRepetition(t, lost)
			})
		})
	}
}

// TestFrozenPublish: the outcome of a publish is unknown if only its client token
// could tell it, and the token is too old.
func TestFrozenPublish(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		lost       int
		overwrites bool // another service writes META during the freeze
		want       error
	}{
		"its rows tell":                  {3, false, nil},
		"its rows tell, under the SDK":   {1, false, nil},
		"it was overwritten":             {3, true, store.ErrUnknownOutcome},
		"it was overwritten, in the SDK": {1, true, store.ErrUnknownOutcome},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, meta := newFreezer(t)
				l, read := begin(t, meta, pk)
				f.lost = test.lost
				if test.overwrites {
					f.freeze = func() { overwrite(t, f.client) }
				}
				next := store.Entry{BodyKey: "bodies/g", GenerationID: "g", GeneratedAt: f.clock.Now(), Revalidate: time.Hour, Status: 200}
				if _, err := meta.Publish(t.Context(), l, read, next, store.PublishOptions{}); !errors.Is(err, test.want) {
					t.Errorf("Publish: %v, want %v", err, test.want)
				} else if err != nil && !strings.Contains(err.Error(), "too old") {
					t.Errorf("Publish: %v, which does not say why it is unknown", err)
				}
				f.wantNoRepetition(t, test.lost)
			})
		})
	}
}

// overwrite publishes over META twice, as a client with a fence would.
func overwrite(t *testing.T, client *dynamodb.Client) {
	_, err := client.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: aws.String("pages"), Key: attrs{"pk": str(pk), "sk": str("META")},
		UpdateExpression:         aws.String("SET #isr.#v = #isr.#v + :two, #isr.generation_id = :id"),
		ExpressionAttributeNames: map[string]string{"#isr": "isr", "#v": "v"},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":two": num("2"), ":id": str("another"),
		},
	})
	if err != nil {
		t.Error(err)
	}
}
