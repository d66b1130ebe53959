package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/cost"
)

var updateDocs = flag.Bool("update", false, "write the tables of docs/cost.md")

// TestCostPage: the tables of docs/cost.md are made of the prices, and of the output of the commands above them.
func TestCostPage(t *testing.T) {
	const path = "../../docs/cost.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	commands := regexp.MustCompile(`(?m)^isr (cost .+?) +# (.+)$`).FindAllStringSubmatch(page, -1)
	if len(commands) != 3 {
		t.Fatalf("%s has %d commands, want 3", path, len(commands))
	}
	for name, table := range map[string]string{"prices": pricesTable(), "sites": sitesTable(t, commands)} {
		begin, end := "<!-- "+name+": go test ./cmd/isr -run TestCostPage -update -->\n", "<!-- end of "+name+" -->"
		before, rest, found := strings.Cut(page, begin)
		written, after, ended := strings.Cut(rest, end)
		if !found || !ended {
			t.Fatalf("%s lacks %q or %q", path, begin, end)
		}
		if table = "\n" + table + "\n"; written != table && !*updateDocs {
			t.Errorf("the table of %s is not the one of the command; update it with: go test ./cmd/isr -run TestCostPage -update\n%s", name, table)
		}
		page = before + begin + table + end + after
	}
	if *updateDocs {
		if err := os.WriteFile(path, []byte(page), 0o644); err != nil { //nolint:gosec // a page
			t.Fatal(err)
		}
	}
}

func pricesTable() string {
	table := "| `--price` | of | |\n|---|---|---|\n"
	for _, price := range cost.USEast1().List() {
		table += fmt.Sprintf("| `%s` | %s | $%g |\n", price.Name, price.Of, price.Dollars)
	}
	return table
}

// sitesTable returns a table with the lines of forecasts, and a column for each command.
func sitesTable(t *testing.T, commands [][]string) string {
	t.Helper()
	var names []string // of lines, in the order of the longest forecast
	cells := make(map[string]map[string]string)
	head, rule, sum := "| |", "|---|", "| **together** |"
	add := func(line, column, text string) {
		if cells[line] == nil {
			names, cells[line] = append(names, line), make(map[string]string)
		}
		cells[line][column] = text
	}
	for _, command := range commands {
		head, rule = head+" "+command[2]+" |", rule+"---|"
		f := forecast(t, strings.Fields(command[1])...)
		add("regenerations", command[2], roundNumber(f.Activity.Regenerations))
		add("hit ratio", command[2], fmt.Sprintf("%.1f%%", 100*f.HitRatio))
		for _, line := range f.Lines {
			add(line.Service+": "+line.Of, command[2], fmt.Sprintf("$%.2f", line.Dollars))
		}
		sum += fmt.Sprintf(" **$%.0f** |", f.Dollars)
	}
	table := head + "\n" + rule + "\n"
	for _, line := range names {
		table += "| " + line + " |"
		for _, command := range commands {
			text := cells[line][command[2]]
			if text == "" {
				text = "–"
			}
			table += " " + text + " |"
		}
		table += "\n"
	}
	return table + sum + "\n"
}

func forecast(t *testing.T, args ...string) (f costForecast) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := execute(t.Context(), append(args, "--json"), &cli.Streams{Out: &out, Err: &errs}); code != 0 {
		t.Fatalf("isr %q: exit code %d: %s", args, code, &errs)
	}
	if err := json.Unmarshal(out.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	return f
}
