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

// thinking is how long the judge may take for a history.
const thinking = time.Minute

// judge fails the test unless the fleet's history is linearizable, and tells of all
// kinds of answers.
func (f *fleet) judge() {
	began := time.Now()
	linearizable(f.t, f.history)
	f.t.Logf("%d processes, %d killed, frozen %d times; judged in %s; %s",
		f.clients, f.killed, f.frozen, time.Since(began).Round(time.Millisecond), overlap(f.history))
	f.t.Log(tally(f.history))
	if missing := f.missing(); len(missing) > 0 {
		f.t.Errorf("no call was answered so, which proves little: %q", missing)
	}
}

// missing are the answers that nobody was given, of those that a history should have.
func (f *fleet) missing() []string {
	counts := tally(f.history)
	return slices.DeleteFunc([]string{
		"acquire: ok", "acquire: held", "acquire: completed", "acquire: in progress", "acquire: mismatch",
		"refresh: ok", "refresh: lost", "break: ok", "publish: ok", "publish: lost", "publish: moved", "roll back: ok",
	}, func(happened string) bool { return counts[happened] > 0 })
}

// linearizable judges a history. If it cannot be explained, a drawing that says how
// far it can stays behind when the test has ended.
func linearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	result, info := porcupine.CheckOperationsVerbose(model(), history, thinking)
	switch result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.Errorf("could not tell within %s whether %d calls are linearizable", thinking, len(history))
	case porcupine.Illegal:
		t.Errorf("%d calls are not linearizable", len(history))
	}
	drawing, err := os.CreateTemp("", "isr-leases-*.html")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(porcupine.Visualize(model(), info, drawing), drawing.Close()); err != nil {
		t.Errorf("drawing the history: %v", err)
	}
	t.Logf("see %s, in a browser", drawing.Name())
}

// A counts is how often a verb was answered in a way.
type counts map[string]int

func tally(history []porcupine.Operation) counts {
	c := make(counts)
	for _, o := range history {
		c[fmt.Sprintf("%s: %s", o.Input.(asked).Verb, o.Output.(answer).Said)]++
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

// overlap says how concurrent a history was: one without overlap would prove
// little.
func overlap(history []porcupine.Operation) string {
	concurrent, end := 0, make(map[int]int64)
	for _, o := range slices.SortedFunc(slices.Values(history), func(a, b porcupine.Operation) int { return cmp.Compare(a.Call, b.Call) }) {
		at := o.Input.(asked).Page
		if o.Call <= end[at] {
			concurrent++
		}
		if o.Return != forever {
			end[at] = max(end[at], o.Return)
		}
	}
	return fmt.Sprintf("%d calls, of which %d began while another of the page ran", len(history), concurrent)
}
