// Command testreport makes what "go test -json" writes readable, and counts it.
// It is a part of ./test:
//
//	go test -json ./... | testreport -counts FILE -skips FILE
//
// A line per package goes to standard output, and under it all that a failed test
// has written. "passed failed skipped" is appended to the file of counts, and
// each reason for skipping, with the number of tests that gave it, to the file of
// skips. Tests and subtests count alike; a package that does not build, or that
// ends without the failure of any test, counts as one failure.
//
// The exit status is 1 if anything failed, and 2 if the report failed itself.
package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
)

func main() {
	counts := flag.String("counts", "", "append the counts to this file")
	skips := flag.String("skips", "", "append the reasons for skipping to this file")
	flag.Parse()
	r := newReport(os.Stdout)
	err := r.readAll(os.Stdin)
	if err == nil {
		err = errors.Join(appendTo(*counts, r.writeCounts), appendTo(*skips, r.writeSkips))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	if r.failed > 0 {
		os.Exit(1)
	}
}

// readAll reads events, one a line, until the end.
func (r *report) readAll(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			r.line(line)
		}
		if errors.Is(err, io.EOF) {
			return r.out.Flush()
		}
		if err != nil {
			return err
		}
	}
}

func appendTo(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	f, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}
