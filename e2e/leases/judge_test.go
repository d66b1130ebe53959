//go:build linux || darwin

package leases

import (
	"cmp"
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
const thinking = 2 * time.Minute

// judge fails the test unless the fleet's history is linearizable, and tells of
// something.
func (f *fleet) judge() {
	began := time.Now()
	linearizable(f.t, f.history)
	f.t.Logf("%d processes, %d killed, frozen %d times; judged in %s; %s",
		f.clients, f.killed, f.frozen, time.Since(began).Round(time.Millisecond), overlap(f.history))
	counts := tally(f.history)
	f.t.Logf("%s", counts)
	// Where these never happened, little was proved.
	for _, happened := range []string{
		"acquire: ok", "acquire: held", "acquire: completed", "acquire: in progress", "acquire: mismatch",
		"refresh: ok", "refresh: lost", "break: ok", "publish: ok", "publish: lost", "publish: moved", "roll back: ok",
	} {
		if counts[happened] == 0 {
			f.t.Errorf("no call was answered so: %s", happened)
		}
	}
}

func linearizable(t *testing.T, history []porcupine.Operation) {
	t.Helper()
	switch result := porcupine.CheckOperationsTimeout(model(), history, thinking); result {
	case porcupine.Ok:
		return
	case porcupine.Unknown:
		t.Errorf("could not tell within %s whether %d calls are linearizable", thinking, len(history))
	case porcupine.Illegal:
		t.Errorf("%d calls are not linearizable", len(history))
	}
	t.Logf("see %s, in a browser", draw(t, history))
}

// draw leaves a drawing of the history of each page that cannot be explained, how
// far it can, and returns the folder. It stays when the test has ended.
func draw(t *testing.T, history []porcupine.Operation) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "isr-leases-")
	if err != nil {
		t.Fatal(err)
	}
	for i, page := range model().Partition(history) {
		result, info := porcupine.CheckOperationsVerbose(model(), page, thinking)
		if result == porcupine.Ok {
			continue
		}
		if err := porcupine.VisualizePath(model(), info, fmt.Sprintf("%s/%d.html", folder, i)); err != nil {
			t.Errorf("drawing a history: %v", err)
		}
	}
	return folder
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
