package metrics_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/telemetry/metrics"
)

var update = flag.Bool("update", false, "write the table of docs/metrics.md")

const documentation = "../../../docs/metrics.md"

// used returns metrics of which each has a series.
func used(t *testing.T) *metrics.Metrics {
	m, _ := newMetrics(t)
	m.Noticed("team", 1, nil)
	m.Done(exchange("GET", "/", 200, isr.Report{Route: "/", Hit: true, Detail: "stale"}))
	for _, kind := range []isr.OperationKind{isr.OperationRender, isr.OperationTable} {
		_, end := m.Begin(t.Context(), isr.Operation{Kind: kind, Name: "read", Route: "/"})
		end(isr.Result{Outcome: "ok"})
	}
	m.Note(isr.Event{Kind: isr.EventNotStored, Reason: "set-cookie"})
	m.Message("regenerations")("executed")
	m.Note(isr.Event{Kind: isr.EventPurge, Reason: "soft", Target: "tag"})
	m.Origin("site", "GET", 0, errors.New("reset"), time.Second)
	m.Sample(metrics.Sources{
		Cache:       func() isr.Stats { return isr.Stats{} },
		Origins:     func() []metrics.Origin { return []metrics.Origin{{Addresses: []metrics.Address{{}}}} },
		Capacity:    func() (float64, float64) { return 0, 0 },
		Disk:        func() (int64, int64) { return 0, 0 },
		Buffers:     func() (int64, int64) { return 0, 0 },
		Connections: func() (int, int64, int64) { return 0, 0, 0 },
		HTTP3:       func() (int, int64, int64) { return 0, 0, 0 },
		Ready:       func() map[string]bool { return map[string]bool{"serving": true} },
		Downstream:  func() map[string]bool { return map[string]bool{"cdn": true} },
		Dropped:     func() map[string]int64 { return map[string]int64{"access": 0} },
	})
	return m
}

// The table of the documentation has all metrics of the server, except the metrics of Go and the
// process, with their labels. The dashboard and the alerts are checked against it.
func TestDocumentation(t *testing.T) {
	m := used(t)
	var rows []string
	families := gather(t, m)
	for _, name := range slices.Sorted(maps.Keys(families)) {
		f := families[name]
		if strings.HasPrefix(name, "go_") || strings.HasPrefix(name, "process_") {
			continue
		}
		var labels []string
		for _, l := range f.GetMetric()[0].GetLabel() {
			labels = append(labels, "`"+l.GetName()+"`")
		}
		rows = append(rows, fmt.Sprintf("| `%s` | %s | %s | %s |", name, strings.ToLower(f.GetType().String()), strings.Join(labels, ", "), f.GetHelp()))
	}
	for _, name := range registered(m) {
		if families[name] == nil {
			t.Errorf("%s has no series here: add one to used", name)
		}
	}
	text, err := os.ReadFile(documentation)
	if err != nil {
		t.Fatal(err)
	}
	const begin = "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	before, rest, found := strings.Cut(string(text), begin)
	if !found {
		t.Fatalf("%s has no table that begins with %q", documentation, begin)
	}
	old, after, _ := strings.Cut(rest, "\n\n")
	table := strings.Join(rows, "\n")
	switch {
	case old == table:
	case *update:
		if err := os.WriteFile(documentation, []byte(before+begin+table+"\n\n"+after), 0o644); err != nil { //nolint:gosec // documentation
			t.Fatal(err)
		}
	default:
		t.Errorf("the table in %s differs from the registry; update it with: go test ./internal/telemetry/metrics -run TestDocumentation -update", documentation)
	}
}

// registered returns the names of all metrics of the registry.
func registered(m *metrics.Metrics) (names []string) {
	descs := make(chan *prometheus.Desc)
	go func() {
		defer close(descs)
		m.Gatherer().(prometheus.Collector).Describe(descs)
	}()
	name := regexp.MustCompile(`fqName: "((?:isr|http)_[a-z_]+)"`)
	for desc := range descs {
		if match := name.FindStringSubmatch(desc.String()); match != nil {
			names = append(names, match[1])
		}
	}
	return names
}

// Names have base units and suffixes as Prometheus recommends.
func TestNames(t *testing.T) {
	for name, f := range gather(t, used(t)) {
		switch kind := f.GetType().String(); {
		case strings.HasPrefix(name, "go_"), strings.HasPrefix(name, "process_"):
		case (kind == "COUNTER") != strings.HasSuffix(name, "_total"):
			t.Errorf("%s is a %s", name, kind)
		case kind == "HISTOGRAM" && !strings.HasSuffix(name, "_seconds"):
			t.Errorf("the unit of %s is missing", name)
		case regexp.MustCompile(`_ratio|percent|milli|_ms$|_kb|avg`).MatchString(name):
			t.Errorf("%s is a ratio, an average or no base unit", name)
		case f.GetHelp() == "" || !strings.HasSuffix(f.GetHelp(), "."):
			t.Errorf("the help of %s is %q", name, f.GetHelp())
		}
	}
}
