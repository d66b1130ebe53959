package redirect

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// Bounds of a map file.
const (
	MaxEntries = 100_000
	maxLine    = 8 << 10
)

// ReadFile reads a map file: a line for each exact rule, "FROM,TO" or "FROM,TO,STATUS", as CSV. Empty lines and those that begin
// with # are skipped. The error names all lines that are wrong, at most 50.
func ReadFile(path string) ([]Rule, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	var rules []Rule
	var errs []error
	name := filepath.Base(path)
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, maxLine)
	number := 1
	for ; lines.Scan(); number++ {
		text := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff")) // the byte order mark of some editors
		if text == "" || text[0] == '#' {
			continue
		}
		if len(rules) == MaxEntries {
			return nil, fmt.Errorf("%s has more than %d redirects; use patterns, in redirects", path, MaxEntries)
		}
		place := name + ":" + strconv.Itoa(number)
		rule, err := parseLine(text)
		if err != nil {
			if errs = append(errs, fmt.Errorf("%s: %w", place, err)); len(errs) == maxErrors {
				break
			}
			continue
		}
		rule.Place = place
		rules = append(rules, rule)
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		errs = append(errs, fmt.Errorf("%s:%d: the line is longer than %d bytes", name, number, maxLine))
	case err != nil:
		errs = append(errs, err)
	}
	return rules, errors.Join(errs...)
}

func parseLine(text string) (Rule, error) {
	fields := strings.Split(text, ",")
	if strings.Contains(text, `"`) {
		var err error
		r := csv.NewReader(strings.NewReader(text))
		r.TrimLeadingSpace = true
		if fields, err = r.Read(); err != nil {
			return Rule{}, fmt.Errorf("%.100q is not CSV: %w", text, errors.Unwrap(err))
		}
	}
	for i := range fields {
		fields[i] = strings.TrimSpace(fields[i])
	}
	rule := Rule{Status: 301}
	switch len(fields) {
	case 2:
	case 3:
		switch fields[2] {
		case "301", "302", "307", "308":
			rule.Status, _ = strconv.Atoi(fields[2])
		default:
			return Rule{}, fmt.Errorf("the status is %.20q; expected 301, 302, 307 or 308", fields[2])
		}
	default:
		return Rule{}, fmt.Errorf("%.100q has %d fields; expected FROM,TO or FROM,TO,STATUS (put a text with a comma into double quotes)", text, len(fields))
	}
	rule.From, rule.To = fields[0], fields[1]
	return rule, nil
}
