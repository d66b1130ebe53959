// Summary prints what ./test ends with: the slowest tests, what could not run, and on
// the last line how many tests passed, failed and were skipped.
//
//	summary UNRUN REPORT...
//
// UNRUN is a file with a line for each part that could not run. Each REPORT is a JUnit
// file of gotestsum, node or pytest; subtests count as tests. The exit status is 1 if a
// test failed or, with CI=true, if anything could not run.
package main

import (
	"cmp"
	"encoding/xml"
	"fmt"
	"log"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A suite is the content of an element testsuites or testsuite; node nests them.
type suite struct {
	Suites []suite    `xml:"testsuite"`
	Cases  []testCase `xml:"testcase"`
}

type testCase struct {
	Class   string    `xml:"classname,attr"`
	Name    string    `xml:"name,attr"`
	Seconds float64   `xml:"time,attr"`
	Failure *struct{} `xml:"failure"`
	Error   *struct{} `xml:"error"`
	Skipped *struct {
		Message string `xml:"message,attr"`
	} `xml:"skipped"`
}

func main() {
	log.SetFlags(0)
	missing := string(read(os.Args[1]))
	var all []testCase
	for _, file := range os.Args[2:] {
		var report suite
		if err := xml.Unmarshal(read(file), &report); err != nil {
			log.Fatalf("%s: %v", file, err)
		}
		all = append(all, report.all()...)
	}
	passed, failed, reasons := 0, 0, make(map[string]int)
	for _, c := range all {
		switch {
		case c.Failure != nil || c.Error != nil:
			failed++
		case c.Skipped != nil:
			reasons[c.reason()]++
		default:
			passed++
		}
	}
	skipped := 0
	for _, reason := range slices.Sorted(maps.Keys(reasons)) {
		skipped += reasons[reason]
		missing += fmt.Sprintf("%d tests skipped: %s\n", reasons[reason], reason)
	}
	// Tests of Go include their subtests.
	all = slices.DeleteFunc(all, func(c testCase) bool { return strings.Contains(c.Class, "/") && strings.Contains(c.Name, "/") })
	slices.SortFunc(all, func(a, b testCase) int { return cmp.Compare(b.Seconds, a.Seconds) })
	fmt.Println("slowest tests:")
	for _, c := range all[:min(10, len(all))] {
		fmt.Printf("%8.1f s  %s %s\n", c.Seconds, c.Class, c.Name)
	}
	if missing != "" {
		fmt.Print("could not run:\n  ", strings.ReplaceAll(strings.TrimSpace(missing), "\n", "\n  "), "\n")
	}
	fmt.Printf("%d passed, %d failed, %d skipped\n", passed, failed, skipped)
	if failed > 0 || missing != "" && os.Getenv("CI") == "true" {
		os.Exit(1)
	}
}

func read(file string) []byte {
	text, err := os.ReadFile(file)
	if err != nil {
		log.Fatal(err)
	}
	return text
}

func (s suite) all() []testCase {
	all := s.Cases
	for _, inner := range s.Suites {
		all = append(all, inner.all()...)
	}
	return all
}

var logged = regexp.MustCompile(`(?m)^\s+\S+\.go:\d+: (.*)$`)

// reason is the last line that a skipped Go test logged, or the message of the others.
func (c testCase) reason() string {
	if lines := logged.FindAllStringSubmatch(c.Skipped.Message, -1); lines != nil {
		return lines[len(lines)-1][1]
	}
	return cmp.Or(strings.TrimSpace(c.Skipped.Message), "no reason given by "+c.Class+" "+c.Name)
}
