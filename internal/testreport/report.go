package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// An event is a line of "go test -json"; see "go doc test2json".
type event struct {
	Action      string
	Package     string
	ImportPath  string // of build events
	Test        string
	Output      string
	Elapsed     float64 // seconds
	FailedBuild string  // of a package that could not be tested: its ImportPath
}

// A testID names a test; with an empty test, what belongs to the package alone.
type testID struct{ pkg, test string }

// A report is what the events so far add up to.
type report struct {
	out      *bufio.Writer
	position *regexp.Regexp // "    file.go:12: " before what a test logs

	passed, failed, skipped int

	output  map[testID][]string // of tests that have not ended
	builds  map[string][]string // output of builds, by ImportPath
	tests   map[string]int      // tests that ended, by package
	broken  map[string]bool     // packages with a failed test
	reasons map[string]int      // tests skipped, by reason
}

func newReport(out io.Writer) *report {
	return &report{
		out:      bufio.NewWriter(out),
		position: regexp.MustCompile(`^\s+\S+\.go:\d+: `),
		output:   map[testID][]string{},
		builds:   map[string][]string{},
		tests:    map[string]int{},
		broken:   map[string]bool{},
		reasons:  map[string]int{},
	}
}

// line takes one line; what is no event is somebody's output, and passed on.
func (r *report) line(line []byte) {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		r.print(string(line))
		return
	}
	id := testID{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.output[id] = append(r.output[id], e.Output)
	case "build-output":
		r.builds[e.ImportPath] = append(r.builds[e.ImportPath], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnd(e)
		} else {
			r.testEnd(e, id)
		}
	}
}

func (r *report) testEnd(e event, id testID) {
	r.tests[e.Package]++
	switch e.Action {
	case "pass":
		r.passed++
	case "skip":
		r.skipped++
		r.reasons[r.reason(id)]++
	case "fail":
		r.failed++
		r.broken[e.Package] = true
		r.print(r.output[id]...)
	}
	delete(r.output, id)
}

func (r *report) packageEnd(e event) {
	switch e.Action {
	case "pass":
		r.print(fmt.Sprintf("ok    %-48s %4d tests %7.1f s\n", e.Package, r.tests[e.Package], e.Elapsed))
	case "fail":
		if !r.broken[e.Package] {
			r.failed++
		}
		r.print(r.builds[e.FailedBuild]...)
		r.printRest(e.Package)
		r.print(fmt.Sprintf("FAIL  %-48s %4d tests %7.1f s\n", e.Package, r.tests[e.Package], e.Elapsed))
	}
	// "skip" is a package without tests.
	maps.DeleteFunc(r.output, func(id testID, _ []string) bool { return id.pkg == e.Package })
	_ = r.out.Flush() // readAll reports it
}

// printRest prints what a failed package has written outside its tests, and the
// tests that were under way when it ended.
func (r *report) printRest(pkg string) {
	var ids []testID
	for id := range r.output {
		if id.pkg == pkg {
			ids = append(ids, id)
		}
	}
	slices.SortFunc(ids, func(a, b testID) int { return strings.Compare(a.test, b.test) })
	for _, id := range ids {
		r.print(r.output[id]...)
	}
}

// reason is the last thing that a skipped test logged.
func (r *report) reason(id testID) string {
	for _, line := range slices.Backward(r.output[id]) {
		if r.position.MatchString(line) {
			return strings.TrimSpace(r.position.ReplaceAllString(line, ""))
		}
	}
	return "no reason given by " + id.pkg + " " + id.test
}

func (r *report) print(lines ...string) {
	for _, line := range lines {
		_, _ = r.out.WriteString(line) // an error stays, and Flush returns it
	}
}

func (r *report) writeCounts(w io.Writer) error {
	_, err := fmt.Fprintln(w, r.passed, r.failed, r.skipped)
	return err
}

func (r *report) writeSkips(w io.Writer) error {
	for _, reason := range slices.Sorted(maps.Keys(r.reasons)) {
		if _, err := fmt.Fprintf(w, "%d tests skipped: %s\n", r.reasons[reason], reason); err != nil {
			return err
		}
	}
	return nil
}
