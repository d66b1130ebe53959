package localdynamo_test

import (
	"cmp"
	"context"
	"errors"
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

// A history of concurrent calls is linearizable if the calls can be ordered so
// that a call follows every call that returned before it began, and a sequential
// model returns the same results.

// model is for histories with transactions, which cannot be partitioned.
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

// singleModel is for histories whose calls have one cell each. Such a history is
// linearizable if the history of each cell is.
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

// record runs concurrent clients that make random calls, and returns the history.
// It ends with reads of all cells.
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
			known := noCells() // from its last results, so that conditions often hold
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

// linearizable checks a history, for at most two minutes:
// parallel tests share the CPU with it.
func linearizable(t *testing.T, m porcupine.Model, history []porcupine.Operation) {
	t.Helper()
	switch result := porcupine.CheckOperationsTimeout(m, history, 2*time.Minute); result {
	case porcupine.Ok:
		t.Logf("%d calls, %s", len(history), overlap(history))
	case porcupine.Unknown:
		t.Errorf("the check of %d calls did not finish within 2 minutes", len(history))
	default:
		t.Errorf("%d calls are not linearizable", len(history))
	}
}

// overlap summarizes how concurrent a history was, and how many calls succeeded.
// Without overlap or success the check proves little.
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
	return fmt.Sprintf("%d began while another ran, %d succeeded", concurrent, held)
}

// TestLinearizable records histories of the engine in memory, on disk with every
// write synced, with half of the writes volatile, and over HTTP through the SDK.
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
		"volatile in memory": func(t *testing.T) api {
			db := localdynamo.OpenMemory(localdynamo.Options{})
			t.Cleanup(func() {
				if err := errors.Join(db.Check(context.WithoutCancel(t.Context())), db.Close()); err != nil {
					t.Error(err)
				}
			})
			createTable(t, db, "things", types.ScalarAttributeTypeS)
			return &half{DB: db}
		},
		"volatile": func(t *testing.T) api {
			db := openAt(t, filepath.Join(t.TempDir(), "db"), localdynamo.Options{})
			createTable(t, db, "things", types.ScalarAttributeTypeS)
			return &half{DB: db}
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

// TestCheckerRejectsAlteredHistories: a sequential history has only one order, so
// the checker must reject it if any result is altered.
func TestCheckerRejectsAlteredHistories(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	history := record(t, db, allVerbs, 1, 300)
	linearizable(t, model(), history)
	for i, o := range history {
		correct := o.Output.(result)
		altered := []result{{!correct.ok, correct.seen}}
		for at := range correct.seen {
			wrong := result{correct.ok, slices.Clone(correct.seen)}
			wrong.seen[at]++
			altered = append(altered, wrong)
		}
		for _, wrong := range altered {
			history[i].Output = wrong
			if porcupine.CheckOperations(model(), history) {
				t.Errorf("%v -> %v instead of %v was accepted", o.Input, wrong, correct)
			}
		}
		history[i].Output = correct
	}
}

// TestLinearizabilityModel checks histories written by hand. Each operation has
// the times of its call and return; overlapping operations may be in either
// order.
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
		{"read concurrent with write", []porcupine.Operation{add, op(1, 3, "get", []int{0}, 0, 0, true, absent)}, true},
		{"stale read", []porcupine.Operation{add, op(2, 3, "get", []int{0}, 0, 0, true, absent)}, false},
		{"lost update", []porcupine.Operation{add, op(0, 2, "add", []int{0}, 0, 1, true, 1)}, false},
		{"two winners", []porcupine.Operation{op(0, 9, "create", []int{0}, 0, 5, true), op(0, 9, "create", []int{0}, 0, 6, true)}, false},
		{"one winner", []porcupine.Operation{op(0, 9, "create", []int{0}, 0, 5, true), op(0, 9, "create", []int{0}, 0, 6, false, 5)}, true},
		{"a condition that should have held failed", []porcupine.Operation{add, op(2, 3, "swap", []int{0}, 1, 2, false, 1)}, false},
		{"two swaps of one value", []porcupine.Operation{add, op(2, 9, "swap", []int{0}, 1, 2, true), op(2, 9, "swap", []int{0}, 1, 3, true)}, false},
		{"transaction not yet visible", []porcupine.Operation{add, move, snapshot(12, 14, 1, absent)}, true},
		{"transaction visible", []porcupine.Operation{add, move, snapshot(12, 14, 0, 1)}, true},
		{"first half of a transaction", []porcupine.Operation{add, move, snapshot(12, 14, 0, absent)}, false},
		{"second half of a transaction", []porcupine.Operation{add, move, snapshot(12, 14, 1, 1)}, false},
		{"visible, then not", []porcupine.Operation{add, move, snapshot(12, 13, 0, 1), snapshot(14, 15, 1, absent)}, false},
		{"not visible, then visible", []porcupine.Operation{add, move, snapshot(12, 13, 1, absent), snapshot(14, 15, 0, 1)}, true},
		{"a transaction whose condition does not hold", []porcupine.Operation{add, op(2, 3, "guard", []int{0, 1, 2}, 7, 1, true)}, false},
	} {
		if got := porcupine.CheckOperations(model(), c.history); got != c.want {
			t.Errorf("%s: got linearizable %v, want %v", c.name, got, c.want)
		}
	}
}
