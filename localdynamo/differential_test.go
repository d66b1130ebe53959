package localdynamo_test

// Differential tests send random requests to this engine and to AWS's DynamoDB
// Local. Every reply, and the stored items afterwards, must agree. Known errors of
// DynamoDB Local are listed in differential_departures_test.go, with reasons, and
// nowhere else.
//
// ./test runs them with rapid's default of 100 rounds per property. A long run:
//
//	ISR_TEST_DYNAMODB=http://127.0.0.1:8000 go test ./localdynamo -run TestDifferential -rapid.checks=10000 -timeout 2h
//
// The tests run in parallel, each on tables of its own. A failure prints the
// minimized requests, and the seed that reproduces it.

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

// TestDifferentialItems runs sequences of all operations on items, on tables with
// every kind of key.
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

// pair holds this engine and DynamoDB Local, which get the same requests.
type pair struct {
	ours   operations
	theirs *dynamodb.Client
	prefix string            // of the names of this test's tables
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
				t.Errorf("delete table %s: %v", tab.name, err)
			}
		}
	})
	return p
}

// table returns an empty table of a shape. It creates the table once and empties
// it afterwards, because DynamoDB Local is slow to create tables.
func (p *pair) table(rt tester, s *shape) *table {
	tab := p.tables[s.name]
	if tab == nil {
		tab = &table{shape: s, name: p.prefix + s.name}
		for _, side := range []operations{p.ours, p.theirs} {
			if _, err := side.CreateTable(rt.Context(), s.input(tab.name)); err != nil {
				rt.Fatalf("create table %s: %v", tab.name, err)
			}
		}
		p.tables[s.name] = tab
		return tab
	}
	for _, side := range []operations{p.ours, p.theirs} {
		if err := deleteAllItems(rt.Context(), side, tab); err != nil {
			rt.Fatalf("delete the items of table %s: %v", tab.name, err)
		}
	}
	return tab
}

// deleteAllItems deletes all items of a table.
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

// apiCall is a request that can be sent to either side.
type apiCall struct {
	in any // the SDK's input
	do func(context.Context, operations) (any, error)

	unordered bool // the order of Items is undefined
}

// newCall returns the call of a method.
func newCall[I, O any](method func(operations, context.Context, I, ...func(*dynamodb.Options)) (O, error), in I) apiCall {
	return apiCall{in: in, do: func(ctx context.Context, side operations) (any, error) { return method(side, ctx, in) }}
}

// GoString formats the call for rapid's output.
func (c apiCall) GoString() string {
	name := strings.TrimSuffix(strings.TrimPrefix(fmt.Sprintf("%T", c.in), "*dynamodb."), "Input")
	return name + " " + show(plain(c.in))
}

// compare sends a call to both sides and compares the replies. It returns false
// if the sides have diverged in a known way.
func (p *pair) compare(rt tester, c apiCall) bool {
	rt.Helper()
	before := plain(c.in)
	out, err := c.do(rt.Context(), p.ours)
	if after := plain(c.in); !reflect.DeepEqual(before, after) {
		rt.Fatalf("the engine modified the caller's request from\n%s\nto\n%s", show(before), show(after))
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

// compareState compares all items of a table, and the capacity of reading them.
func (p *pair) compareState(rt tester, tab *table) {
	rt.Helper()
	p.compare(rt, stateOf(tab))
}

func stateOf(tab *table) apiCall {
	return scanAll(&dynamodb.ScanInput{TableName: &tab.name, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
}
