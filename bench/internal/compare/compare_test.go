package compare

import (
	"context"
	"errors"
	"flag"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/facetheory/isr/bench/internal/peer"
)

func TestSummary(t *testing.T) {
	for _, test := range []struct {
		values []float64
		want   Summary
	}{
		{[]float64{7}, Summary{7, 7, 7}},
		{[]float64{9, 1, 5}, Summary{5, 1, 9}},
		{[]float64{4, 1, 2, 9}, Summary{3, 1, 9}},
	} {
		if got := summary(test.values); got != test.want {
			t.Errorf("%v: %v, want %v", test.values, got, test.want)
		}
	}
}

// of returns a server with measurements: values, and parts of the machine that others used.
func of(name string, measured ...[2]float64) *Server {
	s := &Server{Name: name}
	for round, m := range measured {
		s.Measurements = append(s.Measurements, Measurement{Round: round, Values: Sample{"x": m[0]}, ForeignCPUs: m[1] * float64(runtime.NumCPU())})
	}
	return s
}

func TestRoundsWithForeignLoadCountOnlyIfMostHaveIt(t *testing.T) {
	few := Result{Columns: []Column{{Key: "x"}}, Servers: []*Server{
		of("a", [2]float64{10, 0}, [2]float64{20, 0.01}, [2]float64{1, 0.5}),
		of("b", [2]float64{7, 0}, [2]float64{8, 0}, [2]float64{100, 0}),
	}}
	few.summarize(3)
	a, b := few.Servers[0], few.Servers[1]
	if a.Marked != 1 || a.Foreign == 0 || a.Summary["x"] != (Summary{15, 10, 20}) || b.Marked != 0 || b.Summary["x"] != (Summary{7.5, 7, 8}) {
		t.Errorf("%+v, %+v, want the round with foreign load left out for both", a, b)
	}
	most := Result{Columns: few.Columns, Servers: []*Server{
		of("a", [2]float64{10, 0}, [2]float64{2, 0.5}, [2]float64{1, 0}), of("b", [2]float64{5, 0}, [2]float64{6, 0}, [2]float64{7, 0.5}),
	}}
	most.summarize(3)
	if a, b := most.Servers[0], most.Servers[1]; a.Summary["x"] != (Summary{2, 1, 10}) || b.Summary["x"] != (Summary{6, 5, 7}) {
		t.Errorf("%+v, %+v, want all rounds of both", a, b)
	}
}

func TestRefusedMeasurementsNeverCount(t *testing.T) {
	s, none := of("a", [2]float64{1, 0}, [2]float64{2, 0}, [2]float64{3, 0}), of("b", [2]float64{1, 0})
	s.Measurements[0].Refused, s.Measurements[1].Refused, none.Measurements[0].Refused = "errors", "errors", "errors"
	result := &Result{Name: "s", Baseline: "a", Columns: []Column{{Key: "x", Title: "x"}}, Servers: []*Server{s, none}}
	result.summarize(3)
	if s.Refused != 2 || s.Summary["x"].Median != 3 {
		t.Errorf("%+v, want the median of the measurement that is left", s)
	}
	report := Report{Scenarios: []*Result{result}}
	if err := report.refused(); err == nil || !strings.Contains(report.Markdown(), "| b | –") {
		t.Errorf("error %v, want one, and a dash for the value", err)
	}
}

// sample is a report as it is read from a file.
func sample() *Report {
	server := func(name, version string, median float64) *Server {
		return &Server{Name: name, Version: version, Summary: map[string]Summary{
			"rate": {median, median - 1, median + 1}, "p99": {1.5, 1, 2},
		}}
	}
	return &Report{
		Bench: "x", Command: "go run -C bench ./x", Commit: "abc", Rounds: 5, Seconds: 2,
		Machine: Machine{CPU: "a CPU", CPUs: 2, Kernel: "6.1", Go: "go1.26"},
		Scenarios: []*Result{{
			Name: "hits", About: "a load.", Baseline: "nginx", Missing: []string{"varnishd is not installed"},
			Columns: []Column{{"rate", "requests/s", 0}, {"p99", "p99, ms", 2}},
			Servers: []*Server{server("isr", "", 61_234), server("nginx", "1.22.1", 50_000)},
		}},
	}
}

func TestTable(t *testing.T) {
	text := sample().Markdown()
	for _, want := range []string{
		"| isr | 61,234 | 61,233 to 61,235 | 1.22 | 1.50 | 0 of 5 rounds, 0.0 CPUs |",
		"| nginx 1.22.1 | 50,000 | 49,999 to 50,001 | 1.00 | 1.50 | 0 of 5 rounds, 0.0 CPUs |",
		"`go run -C bench ./x`, commit abc, 2 CPUs (a CPU), Linux 6.1, go1.26; medians of 5 rounds of 2 s",
		"varnishd is not installed.",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	var printed strings.Builder
	sample().print(&printed)
	if !strings.Contains(printed.String(), "61,234") || !strings.Contains(printed.String(), "not measured: varnishd") {
		t.Errorf("got:\n%s", printed.String())
	}
}

func TestReportIsReadAsItWasWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "x.json")
	if err := sample().write(file); err != nil {
		t.Fatal(err)
	}
	got, err := Read(file)
	if err != nil || !reflect.DeepEqual(got, sample()) {
		t.Errorf("got %+v, error %v", got, err)
	}
}

func TestFlags(t *testing.T) {
	b := Bench{Name: "x", About: "It measures.", Rounds: 5, Seconds: 2}
	run, err := b.parse([]string{"--rounds", "3", "--only", "a/(b|c)"})
	if err != nil || run.Rounds != 3 || run.Seconds != 2 || run.output != "" || run.command != `go run -C bench ./x --rounds 3 --only 'a/(b|c)'` {
		t.Errorf("%+v, error %v", run, err)
	}
	if run, err = b.parse(nil); err != nil || run.output != filepath.Join("results", "x.json") {
		t.Errorf("%+v, error %v, want a complete run to keep its report", run, err)
	}
	for _, bad := range [][]string{{"--rounds", "0"}, {"--seconds", "601"}, {"--only", "("}, {"argument"}} {
		if _, err := b.parse(bad); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if _, err := b.parse([]string{"--help"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: %v", err)
	}
}

// served is the argument that makes the test's binary a server at the address that follows.
const served = "serve-for-test"

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == served {
		_ = http.ListenAndServe(os.Args[2], http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestRoundsAreInterleaved(t *testing.T) {
	run, err := Bench{Name: "x", Rounds: 3, Seconds: 1}.parse(nil)
	if err != nil {
		t.Fatal(err)
	}
	run.place = peer.Place{Dir: t.TempDir()}
	names := make(map[string]string)
	var order []string
	result, err := run.scenario(t.Context(), Scenario{
		Name: "s", Baseline: "a", Columns: []Column{{Key: "x"}},
		Peers: []peer.Peer{peer.Bare("a", served), peer.Bare("b", served)},
		Prepare: func(_ context.Context, s *peer.Server) error {
			names[s.URL] = string(rune('a' + len(names)))
			return nil
		},
		Measure: func(_ context.Context, s *peer.Server, round int) (Sample, error) {
			order = append(order, names[s.URL])
			if round == 2 {
				return nil, errors.New("requests failed")
			}
			return Sample{"x": float64(len(names[s.URL]))}, nil
		},
	})
	if err != nil || strings.Join(order, "") != "abbaab" {
		t.Fatalf("order %q, error %v, want each server first in turn", order, err)
	}
	if got := result.Servers[1]; len(got.Measurements) != 3 || got.Refused != 1 || result.ratio(got) != 1 {
		t.Errorf("%+v, want three measurements of which the last is refused", got)
	}
}

func TestOnlyChoosesServers(t *testing.T) {
	run, err := Bench{Name: "x", Rounds: 1, Seconds: 1}.parse([]string{"--only", "other/"})
	if err != nil {
		t.Fatal(err)
	}
	result, err := run.scenario(t.Context(), Scenario{Name: "s", Peers: []peer.Peer{peer.Bare("a", served)}})
	if err != nil || len(result.Servers) != 0 {
		t.Errorf("%+v, error %v, want no server", result, err)
	}
}
