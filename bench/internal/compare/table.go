package compare

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
)

// rows returns the result as a table: a header, and a row for each server.
func (r *Result) rows(rounds int) [][]string {
	head := []string{""}
	for i, c := range r.Columns {
		head = append(head, c.Title)
		if i == 0 {
			head = append(head, "min to max", "of "+r.Baseline)
		}
	}
	rows := [][]string{append(head, "foreign load")}
	for _, s := range r.Servers {
		row := []string{strings.TrimSpace(s.Name + " " + s.Version)}
		for i, c := range r.Columns {
			v, known := s.Summary[c.Key]
			row = append(row, cell(v.Median, c.Digits, known))
			if i == 0 {
				ratio := r.ratio(s)
				row = append(row, cell(v.Min, c.Digits, known)+" to "+cell(v.Max, c.Digits, known), cell(ratio, 2, ratio > 0))
			}
		}
		row = append(row, fmt.Sprintf("%d of %d rounds, %.1f CPUs", s.Marked, rounds, s.Foreign))
		if s.Refused > 0 {
			row[len(row)-1] += fmt.Sprintf(", %d refused", s.Refused)
		}
		rows = append(rows, row)
	}
	return rows
}

// cell prints a number with separators of thousands.
func cell(v float64, digits int, known bool) string {
	if !known {
		return "–"
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	for i := len(whole) - 3; i > 0; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction == "" {
		return whole
	}
	return whole + "." + fraction
}

// print writes the report for people.
func (r *Report) print(w io.Writer) {
	fmt.Fprintln(w, r.heading())
	for _, s := range r.Scenarios {
		fmt.Fprintf(w, "\n%s: %s\n", s.Name, s.About)
		t := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
		for _, row := range s.rows(r.Rounds) {
			fmt.Fprintln(t, strings.Join(row, "\t")+"\t")
		}
		_ = t.Flush() // as the writes of fmt
		for _, server := range s.Servers {
			if server.Note != "" {
				fmt.Fprintf(w, "  %s: %s\n", server.Name, server.Note)
			}
		}
		for _, missing := range s.Missing {
			fmt.Fprintln(w, "  not measured:", missing)
		}
	}
}

func (r *Report) heading() string {
	changed := ""
	if r.Modified {
		changed = " with changes"
	}
	return fmt.Sprintf("%s, %s, commit %s%s, %d CPUs (%s), Linux %s, %s; medians of %d rounds of %d s", r.Date.Format("2006-01-02 15:04 UTC"),
		"`"+r.Command+"`", r.Commit, changed, r.Machine.CPUs, r.Machine.CPU, r.Machine.Kernel, r.Machine.Go, r.Rounds, r.Seconds)
}

// Markdown returns the report as text and tables of Markdown.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s.\n", r.heading())
	for _, s := range r.Scenarios {
		fmt.Fprintf(&b, "\n**%s**: %s\n\n", s.Name, s.About)
		for i, row := range s.rows(r.Rounds) {
			fmt.Fprintf(&b, "| %s |\n", strings.Join(row, " | "))
			if i == 0 {
				fmt.Fprintf(&b, "|---|%s\n", strings.Repeat("---:|", len(row)-1))
			}
		}
		notes := s.notes()
		if notes != "" {
			fmt.Fprintf(&b, "\n%s\n", notes)
		}
	}
	return b.String()
}

// notes returns one sentence with the notes of the servers.
func (r *Result) notes() string {
	var all []string
	for _, s := range r.Servers {
		if s.Note != "" {
			all = append(all, s.Name+": "+s.Note)
		}
	}
	all = append(all, r.Missing...)
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, ". ") + "."
}
