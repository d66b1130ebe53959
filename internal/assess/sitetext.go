package assess

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/facetheory/isr/internal/units"
)

//go:embed site.html
var siteText string

// Write writes the report as text.
func (r *SiteReport) Write(to io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: visited %s, %s.\n", r.Site, r.visited(), r.of())
	if r.Stopped != "" {
		fmt.Fprintf(&b, "Not all pages were visited: %s.\n", r.Stopped)
	}
	if r.Failed+r.Disallowed > 0 {
		fmt.Fprintf(&b, "%d have not answered, and %d were left out by robots.txt or by what they may do.\n", r.Failed, r.Disallowed)
	}
	fmt.Fprintf(&b, "A page takes %d ms (half of them), %d ms (95%%), %d ms (the longest), and has %s on average.\n\n", r.P50, r.P95, r.Longest, units.Bytes(r.average()))
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "  %d\tcan be cached as they are\n", r.AsIs)
	fmt.Fprintf(w, "  %d\tcan be cached with a freshness window (revalidate)\n", r.WithWindow)
	fmt.Fprintf(w, "  %d\tcannot be cached as they are\n", r.Visited-r.AsIs-r.WithWindow)
	_ = w.Flush() // to memory
	r.writeVerdicts(&b)
	r.writeWindows(&b)
	b.WriteString("\nThis assumes:\n")
	for _, text := range r.Assumptions {
		fmt.Fprintf(&b, "- %s\n", text)
	}
	_, err := io.WriteString(to, b.String())
	return err
}

// visited returns the number of visited pages with its noun.
func (r *SiteReport) visited() string {
	if r.Visited == 1 {
		return "1 page"
	}
	return number(int64(r.Visited)) + " pages"
}

// of describes what the pages are a part of.
func (r *SiteReport) of() string {
	if r.Sitemap == "" {
		return "found by links"
	}
	return fmt.Sprintf("of %s in %s", number(int64(r.Listed)), r.Sitemap)
}

// average returns the bytes of a visited page.
func (r *SiteReport) average() int64 { return r.Bytes / int64(max(r.Visited, 1)) }

func (r *SiteReport) writeVerdicts(b *strings.Builder) {
	for _, v := range r.Verdicts {
		fmt.Fprintf(b, "\n  %d of %s, %s: %s\n", v.Pages, r.visited(), v.Reason, v.Meaning)
		if len(v.Names) > 0 {
			fmt.Fprintf(b, "  by %s\n", strings.Join(v.Names, ", "))
		}
		if v.Advice != "" {
			fmt.Fprintf(b, "  %s\n", v.Advice)
		}
		for _, page := range v.Examples {
			fmt.Fprintf(b, "    %s\n", page)
		}
	}
}

func (r *SiteReport) writeWindows(b *strings.Builder) {
	if len(r.Windows) == 0 {
		return
	}
	fmt.Fprintf(b, "\nPages of the whole site that can be cached: %s, which need %s of memory.\n\n", number(int64(r.Cacheable)), units.Bytes(r.Memory))
	w := tabwriter.NewWriter(b, 0, 0, 2, ' ', 0)
	if r.Rate > 0 {
		fmt.Fprintf(w, "SETTING\tHITS OF %g REQUESTS A SECOND\tRENDERS A SECOND\tAWS PER MONTH, AT MOST\n", r.Rate)
	} else {
		fmt.Fprintln(w, "SETTING\tRENDERS A SECOND, AT MOST\tAWS PER MONTH, AT MOST")
	}
	for _, f := range r.Windows {
		if r.Rate > 0 {
			fmt.Fprintf(w, "%s\t%s\t%.3g to %.3g\t$%.2f\n", f.setting(), f.hits(), f.Fewest, f.Renders, f.Dollars)
		} else {
			fmt.Fprintf(w, "%s\t%.3g\t$%.2f\n", f.setting(), f.Renders, f.Dollars)
		}
	}
	_ = w.Flush() // to memory
	if r.Rate == 0 {
		b.WriteString("\nWith --rate N (requests a second for these pages), the table has the range of the hit ratio.\n")
	}
}

func (w Window) setting() string {
	return "revalidate: " + units.Duration(time.Duration(w.Seconds)*time.Second)
}

func (w Window) hits() string { return percent(w.Lowest) + " to " + percent(w.Highest) }

// WriteHTML writes the report as one HTML file, which loads nothing. All texts of the site are escaped.
func (r *SiteReport) WriteHTML(to io.Writer) error {
	page, err := template.New("site").Funcs(template.FuncMap{
		"bytes": units.Bytes, "setting": Window.setting, "hits": Window.hits, "join": strings.Join,
		"bar": func(n int) string { return fmt.Sprintf("%.1f", plotWidth/2*float64(n)/float64(max(r.Visited, 1))) },
		"time": func(ms int64) string {
			return fmt.Sprintf("%.1f", plotWidth/2*float64(ms)/float64(max(r.Longest, 1)))
		},
	}).Parse(headText + siteText)
	if err != nil {
		return err
	}
	return page.Execute(to, struct {
		*SiteReport
		Count, Of string
		Average   int64
		Others    int
	}{r, r.visited(), r.of(), r.average(), r.Visited - r.AsIs - r.WithWindow})
}
