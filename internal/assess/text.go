package assess

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/internal/units"
)

// maxColumn is the width of the longest setting in a table, in bytes.
const maxColumn = 40

// Write writes the report as text.
func (r *Report) Write(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s requests in %s, from %s to %s: %s a second.\n", number(r.Requests), spanOf(r.Until.Sub(r.From)),
		r.From.UTC().Format(time.DateTime), r.Until.UTC().Format(time.DateTime), rate(r.Requests, r.Until.Sub(r.From)))
	if r.Disordered > 0 {
		fmt.Fprintf(&b, "%s of them are more than a minute older than one before them: sort the log, or give its files separately.\n", number(r.Disordered))
	}
	base := r.Forecasts[0]
	fmt.Fprintf(&b, "\nWith %s, isr answers %s of them from the cache, and the site gets %s instead of %s.\n\n",
		r.Configuration, percent(base.HitRatio), number(base.Origin), number(r.Requests))
	r.writeForecasts(&b)
	r.writeGains(&b)
	r.writeReasons(&b)
	r.writeParameters(&b)
	b.WriteString("\nThe forecast assumes:\n")
	for _, text := range r.Assumptions {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

func (r *Report) writeForecasts(b *strings.Builder) {
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SETTING\tHITS\tOF WHICH STALE\tTO THE SITE\tPAGES\tMEMORY\tFOR 95% OF HITS\tAWS PER MONTH")
	for i, f := range r.Forecasts {
		name := cut(f.Setting, maxColumn)
		if i == 0 {
			name = "as it is"
		}
		if f.Sampled {
			name += " (estimated)"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t$%.2f\n", name, percent(f.HitRatio), percent(float64(f.Stale)/float64(max(r.Requests, 1))),
			number(f.Origin), number(f.Pages), units.Bytes(f.Memory), units.Bytes(f.HotMemory), f.Dollars)
	}
	_ = w.Flush() // to memory
}

func (r *Report) writeGains(b *strings.Builder) {
	switch {
	case len(r.Forecasts) == 1:
		return
	case len(r.Gains) == 0:
		b.WriteString("\nNone of these settings gains more.\n")
		return
	}
	b.WriteString("\nThe settings that gain most, each alone:\n\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, g := range r.Gains {
		fmt.Fprintf(w, "  %s\t%+.1f points\tthe site gets %s\n", g.Setting, g.Points, fewer(g.Origin))
	}
	_ = w.Flush() // to memory
	for _, g := range r.Gains {
		if strings.HasPrefix(g.Setting, "ignore_query") {
			b.WriteString("\nignore_query: [\"*\"] is right only if no page depends on its query: name the parameters that do not matter.\n")
		}
	}
}

func (r *Report) writeReasons(b *strings.Builder) {
	if len(r.Reasons) == 0 {
		return
	}
	b.WriteString("\nWhy the others are not answered from the cache:\n")
	for _, reason := range r.Reasons {
		fmt.Fprintf(b, "\n  %s of the requests, %s: %s\n", percent(float64(reason.Requests)/float64(max(r.Requests, 1))), reason.Reason, reason.Meaning)
		if reason.Advice != "" {
			fmt.Fprintf(b, "  %s\n", reason.Advice)
		}
		for _, page := range reason.Pages {
			fmt.Fprintf(b, "    %s\n", page)
		}
	}
}

func (r *Report) writeParameters(b *strings.Builder) {
	if len(r.Parameters) == 0 {
		return
	}
	b.WriteString("\nQuery parameters of most requests:\n\n")
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	for _, p := range r.Parameters {
		values := number(int64(p.Values))
		if p.Values >= maxValues {
			values = "more than " + values
		}
		dropped := "a request with it is not cached, unless query or ignore_query name it"
		if p.Dropped != "" {
			dropped = "dropped (" + p.Dropped + ")"
		}
		fmt.Fprintf(w, "  %s\t%s requests\t%s different\t%s\n", p.Name, number(p.Requests), values, dropped)
	}
	_ = w.Flush() // to memory
}

// fewer writes a difference of requests.
func fewer(n int64) string {
	switch {
	case n > 0:
		return number(n) + " fewer"
	case n < 0:
		return number(-n) + " more"
	}
	return "as many"
}

// number writes a number with commas between thousands.
func number(n int64) string {
	text := fmt.Sprint(n)
	for at := len(text) - 3; at > 0 && text[at-1] != '-'; at -= 3 {
		text = text[:at] + "," + text[at:]
	}
	return text
}

func percent(part float64) string { return fmt.Sprintf("%.1f%%", 100*part) }

func rate(requests int64, in time.Duration) string {
	return fmt.Sprintf("%.1f", float64(requests)/max(in.Seconds(), 1))
}

// spanOf writes how long a log is.
func spanOf(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return fmt.Sprintf("%.1f days", d.Hours()/24)
	case d >= 2*time.Hour:
		return fmt.Sprintf("%.1f hours", d.Hours())
	case d >= 2*time.Minute:
		return fmt.Sprintf("%.1f minutes", d.Minutes())
	}
	return fmt.Sprintf("%.0f seconds", d.Seconds())
}
