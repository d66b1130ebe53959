//go:build linux || darwin

package leases

import (
	"math/rand/v2"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
)

// TestLies records what one worker was told, and has the judge refuse the history
// as soon as any one answer is another one: what happens one after the other has one
// explanation.
func TestLies(t *testing.T) {
	history := alone(t, 300)
	linearizable(t, history)
	t.Log(tally(history))
	lies := 0
	for i, o := range history {
		right := o.Output.(answer)
		for _, lie := range right.lies(o.Input.(asked).Verb) {
			lies++
			history[i].Output = lie
			if porcupine.CheckOperations(model(), history) {
				t.Errorf("call %d: %+v -> %+v instead of %+v was accepted", i, o.Input.(asked).call, lie, right)
			}
		}
		history[i].Output = right
	}
	t.Logf("%d lies about %d answers", lies, len(history))
}

// alone is the history of one worker, by a clock that moves between its calls alone.
func alone(t *testing.T, calls int) []porcupine.Operation {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	now := instant{Wall: time.Now().Truncate(time.Minute).UnixNano() + 1}
	var events []event
	w := &worker{
		name: "w", api: localdynamotest.New(t), table: "pages", random: random,
		clock:  func() instant { return now },
		writes: new(atomic.Int64), number: new(atomic.Int64),
		report: func(e event) {
			now.Mono++
			if e.Answer != nil {
				now.Wall += random.Int64N(int64(400 * time.Millisecond))
			}
			events = append(events, e)
		},
	}
	if err := dynamostore.CreateTable(t.Context(), w.api.(dynamostore.TableAPI), w.table); err != nil {
		t.Fatal(err)
	}
	w.prepare()
	for len(events) < 2*calls {
		w.turn()
	}
	for at := range pages {
		w.read(at)
	}
	history, err := operations(0, events, now)
	if err != nil {
		t.Fatal(err)
	}
	return history
}

// lies are answers that differ from one in what a call of that verb says.
func (a answer) lies(v verb) []answer {
	var all []answer
	lie := func(change func(*answer)) {
		other := a
		change(&other)
		all = append(all, other)
	}
	opposite := map[said]said{saidOK: saidMoved, saidLost: saidOK, saidMoved: saidOK}
	switch v {
	case verbRefresh:
		lie(func(o *answer) { o.Said = opposite[a.Said] })
	case verbPublish, verbRollback:
		lie(func(o *answer) { o.Said = opposite[a.Said] })
		if a.Said == saidOK {
			lie(func(o *answer) { o.Meta.Version++ })
		}
	case verbRead:
		lie(func(o *answer) { o.Lock.Owner += "x" })
		lie(func(o *answer) { o.Lock.Ends++ })
		lie(func(o *answer) { o.Lock.Failures++ })
		lie(func(o *answer) { o.Meta.Generation += "x" })
		lie(func(o *answer) { o.Meta.Version++ })
	case verbLookUp:
		lie(func(o *answer) { o.Request.State += "x" })
		lie(func(o *answer) { o.Request.Until++ })
		lie(func(o *answer) { o.Request.Body += "x" })
	}
	return all
}
