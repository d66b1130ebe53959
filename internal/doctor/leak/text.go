package leak

import (
	"fmt"
	"io"
	"strings"

	"github.com/facetheory/isr/internal/canonical"
)

// maxListed bounds the URLs that are listed of one finding.
const maxListed = 5

// Write writes a report for people: findings by severity; findings with the same text are together.
func (r *Report) Write(w io.Writer) error {
	var b strings.Builder
	for _, group := range []struct {
		severity Severity
		title    string
	}{
		{Leak, "LEAKS: visitors get what is meant for others, or decide what others get"},
		{Wrong, "SHARED WRONGLY: visitors get one page where the site has several"},
		{Note, "NOT CACHED, OR NOT EXAMINED"},
	} {
		r.writeGroup(&b, group.severity, group.title)
	}
	cached := 0
	for _, p := range r.Pages {
		if p.Cached {
			cached++
		}
	}
	fmt.Fprintf(&b, "%d pages examined with %d requests: %d cached, %d not. %d leaks, %d shared wrongly.\n", len(r.Pages), r.Requests, cached, len(r.Pages)-cached, r.Count(Leak), r.Count(Wrong))
	if r.More > 0 {
		fmt.Fprintf(&b, "%d further URLs were not examined; raise --max-pages to include them.\n", r.More)
	}
	lines := strings.Split(b.String(), "\n")
	for i, line := range lines {
		lines[i] = canonical.Printable(line)
	}
	_, err := io.WriteString(w, strings.Join(lines, "\n"))
	return err
}

func (r *Report) writeGroup(b *strings.Builder, severity Severity, title string) {
	type same struct{ kind, subject, problem, do string }
	var order []same
	urls := make(map[same][]string)
	for _, f := range r.Findings {
		if f.Severity != severity {
			continue
		}
		s := same{f.Kind, f.Subject, f.Problem, f.Do}
		if urls[s] == nil {
			order = append(order, s)
		}
		urls[s] = append(urls[s], f.URL)
	}
	if len(order) == 0 {
		return
	}
	fmt.Fprintf(b, "%s\n", title)
	for _, s := range order {
		fmt.Fprintf(b, "\n  %s (%s)\n", s.problem, s.kind)
		for _, u := range urls[s][:min(len(urls[s]), maxListed)] {
			fmt.Fprintf(b, "    %s\n", u)
		}
		if more := len(urls[s]) - maxListed; more > 0 {
			fmt.Fprintf(b, "    and %d more\n", more)
		}
		fmt.Fprintf(b, "    do: %s\n", s.do)
	}
	b.WriteByte('\n')
}
