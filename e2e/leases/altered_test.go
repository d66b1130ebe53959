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

// TestCheckerRejectsAlteredAnswers records a sequential history of one worker, and expects the
// checker to reject it when any single answer is altered: a sequential history has one
// explanation.
func TestCheckerRejectsAlteredAnswers(t *testing.T) {
	history := recordSequential(t, 300)
	if !linearizable(t, history) {
		t.Error("the history was not decided")
	}
	t.Log(tally(history))
	count := 0
	for i, o := range history {
		right := o.Output.(answer)
		for _, changed := range right.altered(o.Input.(modelInput).Verb) {
			count++
			history[i].Output = changed
			if porcupine.CheckOperations(model(), history) {
				t.Errorf("call %d: %+v: the checker accepted %+v instead of %+v", i, o.Input.(modelInput).call, changed, right)
			}
		}
		history[i].Output = right
	}
	t.Logf("%d altered answers of %d calls", count, len(history))
}

// recordSequential records the history of one worker, with a clock that advances only between
// calls.
func recordSequential(t *testing.T, calls int) []porcupine.Operation {
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

// altered returns answers that differ from a in a member that calls of this verb return.
func (a answer) altered(v verb) []answer {
	var all []answer
	changed := func(change func(*answer)) {
		other := a
		change(&other)
		all = append(all, other)
	}
	opposite := map[outcome]outcome{outcomeOK: outcomeMoved, outcomeLost: outcomeOK, outcomeMoved: outcomeOK}
	switch v {
	case verbRefresh:
		changed(func(o *answer) { o.Outcome = opposite[a.Outcome] })
	case verbPublish, verbRollback:
		changed(func(o *answer) { o.Outcome = opposite[a.Outcome] })
		if a.Outcome == outcomeOK {
			changed(func(o *answer) { o.Meta.Version++ })
		}
	case verbRead:
		changed(func(o *answer) { o.Lock.Owner += "x" })
		changed(func(o *answer) { o.Lock.Ends++ })
		changed(func(o *answer) { o.Lock.Failures++ })
		changed(func(o *answer) { o.Meta.Generation += "x" })
		changed(func(o *answer) { o.Meta.Version++ })
	case verbLookUp:
		changed(func(o *answer) { o.Request.State += "x" })
		changed(func(o *answer) { o.Request.Until++ })
		changed(func(o *answer) { o.Request.Body += "x" })
	}
	return all
}
