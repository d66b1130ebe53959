// Report writes the reports of bench/results into docs/performance.md, between the comments that name
// them:
//
//	go run -C bench ./report
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"

	"github.com/facetheory/isr/bench/internal/compare"
)

const page = "docs/performance.md"

func main() {
	if err := run(".."); err != nil {
		fmt.Fprintln(os.Stderr, "bench/report:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	file := filepath.Join(root, page)
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	text, err = quote(text, root)
	if err != nil {
		return fmt.Errorf("%s: %w", page, err)
	}
	return os.WriteFile(file, text, 0o644)
}

var block = regexp.MustCompile(`(?s)(<!-- (bench/results/[a-z]+\.json) -->\n).*?(<!-- end -->\n)`)

// quote returns a page with the reports that it names.
func quote(text []byte, root string) ([]byte, error) {
	var failed error
	blocks := 0
	text = block.ReplaceAllFunc(text, func(old []byte) []byte {
		blocks++
		parts := block.FindSubmatch(old)
		report, err := compare.Read(filepath.Join(root, string(parts[2])))
		if err != nil {
			failed = errors.Join(failed, err)
			return old
		}
		return fmt.Appendf(nil, "%s\n%s\n%s", parts[1], report.Markdown(), parts[3])
	})
	if blocks == 0 {
		failed = errors.New("it has no comment that names a report of bench/results")
	}
	return text, failed
}
