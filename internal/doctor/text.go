package doctor

import (
	"fmt"
	"io"
	"strings"
)

// Write writes a report for people: a line for each finding, and below those that are not ok
// what was seen and what to do.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "%-8s %-8s %s\n", f.Severity, f.Check, f.What)
		if f.Severity == OK {
			continue
		}
		for _, line := range f.Evidence {
			fmt.Fprintf(&b, "%18sseen: %s\n", "", line)
		}
		if f.Do != "" {
			fmt.Fprintf(&b, "%18sdo:   %s\n", "", f.Do)
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
