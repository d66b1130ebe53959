package localdynamo_test

// The differential proof: random requests go to this engine and to AWS's
// DynamoDB Local, and every answer, and all that is stored afterwards, must
// agree. What DynamoDB Local is known to get wrong stands in
// differential_departures_test.go, with its reason, and nowhere else.
//
// ./test runs it with rapid's default of 100 rounds per property. The long run:
//
//	ISR_TEST_DYNAMODB=http://127.0.0.1:8000 go test ./localdynamo -run TestDifferential -rapid.checks=10000 -timeout 2h
//
// A failure prints the shrunken requests, and the seed that repeats it.

import (
	"context"
	"crypto/rand"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/facetheory/isr/localdynamo"
)

// TestDifferentialItems writes and reads items: sequences of every operation
// on items, against tables of every kind of key.
func TestDifferentialItems(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	rapid.Check(t, func(rt *rapid.T) {
		tab := p.table(rt, rapid.SampledFrom(shapes).Draw(rt, "table"))
		g := &generator{T: rt, table: tab, tokens: rand.Text()[:8], issued: new(int)}
		for range rapid.IntRange(1, 15).Draw(rt, "requests") {
			if !p.compare(rt, rapid.Custom(func(t *rapid.T) apiCall { return g.with(t).call() }).Draw(rt, "request")) {
				return
			}
		}
		p.compareState(rt, tab)
	})
}

// tester is a *rapid.T or a *testing.T.
type tester interface {
	Helper()
	Context() context.Context
	Fatalf(format string, args ...any)
}

// pair is the two sides that are asked the same.
type pair struct {
	ours   operations
	theirs *dynamodb.Client
	prefix string            // of the names of all tables of this run
	tables map[string]*table // by the name of their shape
}

func newPair(t *testing.T) *pair {
	client := dynamoDBLocal(t)
	p := &pair{
		ours:   openAt(t, t.TempDir()+"/db", localdynamo.Options{NoSync: true, SweepInterval: -1}),
		theirs: client,
		prefix: "isr-differential-" + rand.Text()[:10] + "-",
		tables: map[string]*table{},
	}
	t.Cleanup(func() {
		for _, tab := range p.tables {
			if _, err := client.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &tab.name}); err != nil {
				t.Errorf("delete the table: %v", err)
			}
		}
	})
	return p
}

// table returns the empty table of a shape, which is made when it is first
// asked for: DynamoDB Local takes its time over tables.
func (p *pair) table(rt tester, s *shape) *table {
	tab := p.tables[s.name]
	if tab == nil {
		tab = &table{shape: s, name: p.prefix + s.name}
		for _, side := range []operations{p.ours, p.theirs} {
			if _, err := side.CreateTable(rt.Context(), s.input(tab.name)); err != nil {
				rt.Fatalf("create the table: %v", err)
			}
		}
		p.tables[s.name] = tab
		return tab
	}
	for _, side := range []operations{p.ours, p.theirs} {
		if err := deleteAllItems(rt.Context(), side, tab); err != nil {
			rt.Fatalf("clear the table: %v", err)
		}
	}
	return tab
}

// empty deletes all items.
func deleteAllItems(ctx context.Context, side operations, tab *table) error {
	out, err := side.Scan(ctx, &dynamodb.ScanInput{TableName: &tab.name})
	if err != nil {
		return err
	}
	for _, it := range out.Items {
		if _, err := side.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &tab.name, Key: tab.keyOf(it)}); err != nil {
			return err
		}
	}
	return nil
}

// inquiry is one request, to be put to either side.
type apiCall struct {
	in any // the SDK's input
	do func(context.Context, operations) (any, error)

	unordered bool // its Items come in any order
}

// request makes an inquiry of a method.
func newCall[I, O any](method func(operations, context.Context, I, ...func(*dynamodb.Options)) (O, error), in I) apiCall {
	return apiCall{in: in, do: func(ctx context.Context, side operations) (any, error) { return method(side, ctx, in) }}
}

// GoString is what rapid prints.
func (c apiCall) GoString() string {
	name := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", c.in), "*dynamodb."), "Input")
	return name + " " + show(plain(c.in))
}

// agree puts a call to both sides and compares. It reports whether the sides
// still hold the same.
func (p *pair) compare(rt tester, c apiCall) bool {
	rt.Helper()
	before := plain(c.in)
	out, err := c.do(rt.Context(), p.ours)
	if after := plain(c.in); !reflect.DeepEqual(before, after) {
		rt.Fatalf("the engine has changed the caller's request:\n%s\nto\n%s", show(before), show(after))
	}
	ours := replyOf(out, err)
	theirs := replyOf(c.do(rt.Context(), p.theirs))
	if diverged(c, &ours, &theirs) {
		return false
	}
	normalizeReplies(c, &ours, &theirs)
	if !reflect.DeepEqual(ours, theirs) {
		rt.Fatalf("%#v\nlocaldynamo:    %s\nDynamoDB Local: %s", c, ours, theirs)
	}
	return true
}

// agreeOnState compares all that a table holds, and what reading it costs.
func (p *pair) compareState(rt tester, tab *table) {
	rt.Helper()
	p.compare(rt, stateOf(tab))
}

func stateOf(tab *table) apiCall {
	return scanAll(&dynamodb.ScanInput{TableName: &tab.name, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
}
