package localdynamo_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
)

// What is checked here: a history of concurrent calls is linearizable if there
// is an order of them, in which no call stands before one that had ended when
// it began, and in which a sequential model gives every answer that was given.

// model checks histories with transactions, which cannot be taken apart.
func model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return noCells() },
		Step: func(state, input, output any) (bool, any) {
			next, want := input.(call).next(state.(cells))
			return want.equal(output.(result)), next
		},
		DescribeOperation: func(input, output any) string { return fmt.Sprintf("%v -> %v", input, output) },
	}
}

// singleModel checks histories of calls on one cell each: they are
// linearizable if those of every cell are.
func singleModel() porcupine.Model {
	m := model()
	m.Partition = func(history []porcupine.Operation) [][]porcupine.Operation {
		byCell := map[int][]porcupine.Operation{}
		for _, o := range history {
			at := o.Input.(call).cells[0]
			byCell[at] = append(byCell[at], o)
		}
		return slices.Collect(maps.Values(byCell))
	}
	return m
}

// record has clients make random calls, each one after the other, and returns
// the history of all, which ends with a snapshot.
func record(t *testing.T, db api, verbs []string, clients, calls int) []porcupine.Operation {
	t.Helper()
	began := time.Now()
	perform := func(client int, c call) porcupine.Operation {
		from := time.Since(began)
		got, err := c.invoke(context.WithoutCancel(t.Context()), db)
		to := time.Since(began)
		if err != nil {
			t.Errorf("%v: %v", c, err)
		}
		return porcupine.Operation{ClientId: client, Input: c, Call: from.Nanoseconds(), Output: got, Return: to.Nanoseconds()}
	}
	histories := make([][]porcupine.Operation, clients)
	var group sync.WaitGroup
	for client := range clients {
		group.Go(func() {
			random := rand.New(rand.NewPCG(uint64(client), uint64(calls)))
			known := noCells() // by its last answers, so that conditions often hold
			for range calls / clients {
				c := randomCall(random, verbs, known)
				o := perform(client, c)
				histories[client] = append(histories[client], o)
				if seen := o.Output.(result).seen; len(seen) == 1 {
					known[c.cells[0]] = seen[0]
				} else if len(seen) > 1 {
					known = cells(seen)
				}
			}
		})
	}
	group.Wait()
	history := slices.Concat(histories...)
	for at := range cellCount {
		history = append(history, perform(clients, call{verb: "get", cells: []int{at}}))
	}
	return history
}

func randomCall(random *rand.Rand, verbs []string, known cells) call {
	c := call{verb: verbs[random.IntN(len(verbs))], cells: random.Perm(len(known))[:3], b: random.IntN(1000)}
	c.a = known[c.cells[0]]
	if c.verb == "add" {
		c.b %= 10
	}
	return c
}

// linearizable judges a history, within 30 seconds.
func linearizable(t *testing.T, m porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	switch result := porcupine.CheckOperationsTimeout(m, history, 30*time.Second); result {
	case porcupine.Ok:
		t.Logf("%d calls, %s", len(history), overlap(history))
	case porcupine.Unknown:
		t.Errorf("could not tell within 30 seconds whether %d calls are linearizable", len(history))
	default:
		t.Errorf("%d calls are not linearizable", len(history))
	}
}

// overlap says how concurrent a history was, and how its conditions went: a
// history without overlap or without success would prove little.
func overlap(history []porcupine.Operation) string {
	concurrent, held := 0, 0
	sorted := slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) })
	end := int64(-1)
	for _, o := range sorted {
		if o.Call <= end {
			concurrent++
		}
		end = max(end, o.Return)
		if o.Output.(result).ok {
			held++
		}
	}
	return fmt.Sprintf("%d began while another ran, %d were carried out", concurrent, held)
}

// TestLinearizable records histories of the engine in memory, on disk with
// every write synced, and behind the wire through the SDK.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	engines := map[string]func(*testing.T) api{
		"memory": func(t *testing.T) api {
			db := localdynamo.OpenMemory(localdynamo.Options{})
			t.Cleanup(func() {
				if err := db.Close(); err != nil {
					t.Error(err)
				}
			})
			createTable(t, db, "things", types.ScalarAttributeTypeS)
			return db
		},
		"file": func(t *testing.T) api {
			db := openAt(t, filepath.Join(t.TempDir(), "db"), localdynamo.Options{})
			createTable(t, db, "things", types.ScalarAttributeTypeS)
			return db
		},
		"wire": func(t *testing.T) api {
			client, db := localdynamotest.Open(t)
			createTable(t, db, "things", types.ScalarAttributeTypeS)
			return client
		},
	}
	for name, start := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			t.Run("items", func(t *testing.T) {
				t.Parallel()
				linearizable(t, singleModel(), record(t, start(t), singleVerbs, 8, 4000))
			})
			t.Run("transactions", func(t *testing.T) {
				t.Parallel()
				linearizable(t, model(), record(t, start(t), allVerbs, 8, 4000))
			})
		})
	}
}

// TestModelAgainstRecord: a history without concurrency has one order, so the
// checker must reject it as soon as any one answer is changed.
func TestCheckerRejectsAlteredHistories(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	history := record(t, db, allVerbs, 1, 300)
	linearizable(t, model(), history)
	for i, o := range history {
		right := o.Output.(result)
		lies := []result{{!right.ok, right.seen}}
		for at := range right.seen {
			lie := result{right.ok, slices.Clone(right.seen)}
			lie.seen[at]++
			lies = append(lies, lie)
		}
		for _, lie := range lies {
			history[i].Output = lie
			if porcupine.CheckOperations(model(), history) {
				t.Errorf("%v -> %v instead of %v was accepted", o.Input, lie, right)
			}
		}
		history[i].Output = right
	}
}

// TestModel judges histories written by hand. Times are those of calls and of
// returns; what overlaps may have happened in either order.
func TestLinearizabilityModel(t *testing.T) {
	t.Parallel()
	op := func(from, to int64, verb string, at []int, a, b int, ok bool, seen ...int) porcupine.Operation {
		return porcupine.Operation{Call: from, Return: to, Input: call{verb, at, a, b}, Output: result{ok, seen}}
	}
	add := op(0, 1, "add", []int{0}, 0, 1, true, 1)
	move := op(10, 20, "move", []int{0, 1}, 0, 0, true)
	snapshot := func(from, to int64, seen ...int) porcupine.Operation {
		return op(from, to, "snapshot", []int{0}, 0, 0, true, append(seen, absent, absent)...)
	}
	for _, c := range []struct {
		name    string
		history []porcupine.Operation
		want    bool
	}{
		{"read after write", []porcupine.Operation{add, op(2, 3, "get", []int{0}, 0, 0, true, 1)}, true},
		{"read beside write", []porcupine.Operation{add, op(1, 3, "get", []int{0}, 0, 0, true, absent)}, true},
		{"stale read", []porcupine.Operation{add, op(2, 3, "get", []int{0}, 0, 0, true, absent)}, false},
		{"lost update", []porcupine.Operation{add, op(0, 2, "add", []int{0}, 0, 1, true, 1)}, false},
		{"two winners", []porcupine.Operation{op(0, 9, "create", []int{0}, 0, 5, true), op(0, 9, "create", []int{0}, 0, 6, true)}, false},
		{"one winner", []porcupine.Operation{op(0, 9, "create", []int{0}, 0, 5, true), op(0, 9, "create", []int{0}, 0, 6, false, 5)}, true},
		{"a condition that held, and failed", []porcupine.Operation{add, op(2, 3, "swap", []int{0}, 1, 2, false, 1)}, false},
		{"two swaps of one value", []porcupine.Operation{add, op(2, 9, "swap", []int{0}, 1, 2, true), op(2, 9, "swap", []int{0}, 1, 3, true)}, false},
		{"transaction not yet seen", []porcupine.Operation{add, move, snapshot(12, 14, 1, absent)}, true},
		{"transaction seen", []porcupine.Operation{add, move, snapshot(12, 14, 0, 1)}, true},
		{"first half of a transaction", []porcupine.Operation{add, move, snapshot(12, 14, 0, absent)}, false},
		{"second half of a transaction", []porcupine.Operation{add, move, snapshot(12, 14, 1, 1)}, false},
		{"seen, then not", []porcupine.Operation{add, move, snapshot(12, 13, 0, 1), snapshot(14, 15, 1, absent)}, false},
		{"not seen, then seen", []porcupine.Operation{add, move, snapshot(12, 13, 1, absent), snapshot(14, 15, 0, 1)}, true},
		{"a transaction without its condition", []porcupine.Operation{add, op(2, 3, "guard", []int{0, 1, 2}, 7, 1, true)}, false},
	} {
		if got := porcupine.CheckOperations(model(), c.history); got != c.want {
			t.Errorf("%s: judged %v", c.name, got)
		}
	}
}
