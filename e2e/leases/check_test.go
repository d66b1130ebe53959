//go:build linux || darwin

package leases

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// checkTimeout is the time limit for checking a history.
const checkTimeout = time.Minute

// check fails the test unless the fleet's history is linearizable and contains every expected
// kind of answer. It reports false if it has not found out in time whether it is linearizable.
func (f *fleet) check() (decided bool) {
	began := time.Now()
	decided = linearizable(f.t, f.history)
	f.t.Logf("%d processes, %d killed, %d freezes; checked in %s; %s",
		f.clients, f.killed, f.frozen, time.Since(began).Round(time.Millisecond), overlap(f.history))
	f.t.Log(tally(f.history))
	if missing := f.missing(); len(missing) > 0 {
		f.t.Errorf("the history lacks answers of these kinds, so it proves too little: %q", missing)
	}
	return decided
}

// missing returns the expected kinds of answers that the history does not contain.
func (f *fleet) missing() []string {
	counts := tally(f.history)
	return slices.DeleteFunc([]string{
		"acquire: ok", "acquire: held", "acquire: completed", "acquire: in progress", "acquire: mismatch",
		"refresh: ok", "refresh: lost", "break: ok", "publish: ok", "publish: lost", "publish: moved", "roll back: ok",
	}, func(happened string) bool { return counts[happened] > 0 })
}

// linearizable checks a history. If it is not linearizable, it fails the test, and writes a visualization,
// which is kept after the test, of the longest prefix that is. It reports false if that is not known
// within checkTimeout.
func linearizable(t *testing.T, history []porcupine.Operation) (decided bool) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model(), history, checkTimeout)
	switch result {
	case porcupine.Ok:
		return true
	case porcupine.Unknown:
		t.Logf("the check of %d calls did not finish within %s", len(history), checkTimeout)
		return false
	}
	t.Errorf("%d calls are not linearizable", len(history))
	drawing, err := os.CreateTemp("", "isr-leases-*.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(porcupine.Visualize(model(), info, drawing), drawing.Close()); err != nil {
		t.Errorf("write visualization of history: %v", err)
	}
	t.Logf("visualization (open in a browser): %s", drawing.Name())
	return true
}

// A counts is the number of answers by verb and outcome.
type counts map[string]int

func tally(history []porcupine.Operation) counts {
	c := make(counts)
	for _, o := range history {
		c[fmt.Sprintf("%s: %s", o.Input.(modelInput).Verb, o.Output.(answer).Outcome)]++
	}
	return c
}

func (c counts) String() string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(c)) {
		fmt.Fprintf(&b, "%s %d; ", name, c[name])
	}
	return strings.TrimSuffix(b.String(), "; ")
}

// overlap describes how concurrent a history was: a sequential history would prove little.
func overlap(history []porcupine.Operation) string {
	concurrent, end := 0, make(map[int]int64)
	for _, o := range slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) }) {
		at := o.Input.(modelInput).Page
		if o.Call <= end[at] {
			concurrent++
		}
		if o.Return != forever {
			end[at] = max(end[at], o.Return)
		}
	}
	return fmt.Sprintf("%d calls, %d of them concurrent with another call on the same page", len(history), concurrent)
}
