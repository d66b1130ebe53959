package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/telemetry/live"
	"github.com/facetheory/isr/internal/units"
)

// A topFrame is what isr top shows at a moment.
type topFrame struct {
	admin.Overview
	Origins []admin.Origin `json:"origins"`

	problem string // the server does not answer any more; empty if it does
}

const (
	// plainWidth is the width of a frame that is no screen.
	plainWidth = 120
	// plainRows is how many pages each list of such a frame has.
	plainRows = 10
)

// text returns the frame, at most width characters wide and height lines high; a height of 0 has
// no bound.
func (f topFrame) text(width, height int, color bool) string {
	p := &frameWriter{width: width, color: color}
	f.writeHead(p)
	f.writeTotals(p)
	f.writeNow(p)
	f.writeLists(p, height)
	lines := p.lines
	if height > 0 {
		lines = lines[:min(len(lines), height)]
	}
	return strings.Join(lines, "\n") + "\n"
}

func (f topFrame) writeHead(p *frameWriter) {
	p.line(bold, "isr top  %s  %s  up %s  %s UTC", cmp.Or(f.Node, "-"), f.Version, cli.SpanText(f.At.Sub(f.Started)), f.At.UTC().Format(time.TimeOnly))
	if f.problem != "" {
		p.line(red, "the server does not answer: %s", f.problem)
	}
	for _, problem := range f.Problems {
		p.line(red, "degraded: %s", problem)
	}
	for _, s := range f.Learned[:min(len(f.Learned), maxLearned)] {
		p.line("", "not cached: %s  %s; %s", pageText(s.Tenant, s.Section), s.Meaning, cmp.Or(s.Advice, "nothing to change"))
	}
	p.line("", "")
}

// maxLearned bounds the lines about sections whose pages are not cacheable.
const maxLearned = 5

// writeTotals writes the counts of the last minute and the last hour.
func (f topFrame) writeTotals(p *frameWriter) {
	minute, hour := f.Minute, f.Hour
	lived := max(f.At.Sub(f.Started), time.Second)
	rows := [][]string{{"", "LAST MINUTE", "LAST HOUR"}}
	row := func(name string, of func(live.Totals) string) {
		rows = append(rows, []string{name, of(minute), of(hour)})
	}
	rows = append(rows, []string{"requests", rateText(minute.Requests, min(lived, time.Minute)), rateText(hour.Requests, min(lived, time.Hour))})
	row("hit ratio", func(t live.Totals) string {
		if t.Requests == 0 {
			return "-"
		}
		return fmt.Sprintf("%.1f%%", 100*t.HitRatio)
	})
	for _, c := range []struct {
		name string
		of   func(live.Totals) int64
	}{
		{"  hit", func(t live.Totals) int64 { return t.Hit }},
		{"  stale", func(t live.Totals) int64 { return t.Stale }},
		{"  miss", func(t live.Totals) int64 { return t.Miss }},
		{"  bypass", func(t live.Totals) int64 { return t.Bypass }},
		{"  error", func(t live.Totals) int64 { return t.Error }},
	} {
		row(c.name, func(t live.Totals) string { return fmt.Sprint(c.of(t)) })
	}
	row("hits take", func(t live.Totals) string { return quantilesText(t.Hit+t.Stale, t.HitMS) })
	rows = append(rows, []string{"renders", rateText(minute.Renders, min(lived, time.Minute)), rateText(hour.Renders, min(lived, time.Hour))})
	row("renders take", func(t live.Totals) string { return quantilesText(t.Renders, t.RenderMS) })
	row("  ended", func(t live.Totals) string { return countsText(t.RenderOutcomes) })
	row("store calls", func(t live.Totals) string { return fmt.Sprintf("%d, %d failed", t.StoreCalls, t.StoreErrors) })
	row("purges", func(t live.Totals) string { return fmt.Sprintf("%d here, %d changes by others", t.Purges, t.Applied) })
	row("not plain hits", func(t live.Totals) string { return countsText(t.Reasons) })
	p.table(rows, bold)
	if n, shares, most := details.Bypasses(hour.Reasons); n > 0 {
		p.line("", "without the cache in the last hour: %d of %d requests (%s)", n, hour.Requests, shares)
		p.line("", "  %s; isr doctor --url %s/", f.Details[most].Do(), f.site()) // as the server names settings
	}
	p.line("", "")
}

// site returns a URL of the server's site, to be examined.
func (f topFrame) site() string {
	if len(f.Sites) == 0 {
		return "URL"
	}
	return f.Sites[0]
}

func (f topFrame) writeNow(p *frameWriter) {
	g := f.Now
	p.line("", "memory %s of %s, %s   renders %d, %d waiting   leases held %d   log read %.0fms ago",
		units.Bytes(g.MemoryBytes), units.Bytes(g.MemoryLimit), cli.Counted(g.MemoryEntries, "page"), g.Renders, g.Queued, g.LeasesHeld, g.PollLagMS)
	for _, down := range g.StoresDown {
		p.line(red, "the store of the %s does not answer: its circuit breaker is open", down)
	}
	for _, o := range f.Origins {
		if o.Breaker != "closed" {
			p.line(red, "origin %s: too many renders have failed in a row: its circuit breaker is open", o.Name)
		}
		for _, a := range o.Addresses {
			if !a.Healthy {
				p.line(red, "origin %s: %s is down", o.Name, a.URL)
			}
		}
	}
	p.line("", "requests/s of the last minute %s", sparkline(f.perSecond()))
}

// perSecond returns the requests of each of the last 60 seconds, oldest first.
func (f topFrame) perSecond() []int64 {
	counts := make([]int64, 60)
	for _, s := range f.Seconds {
		if ago := int(f.At.Sub(s.At) / time.Second); ago >= 0 && ago < len(counts) {
			counts[len(counts)-1-ago] = s.Requests
		}
	}
	return counts
}

// sparkline draws numbers as bars, in proportion to the largest.
func sparkline(numbers []int64) string {
	bars := []rune("▁▂▃▄▅▆▇█")
	largest := max(slices.Max(numbers), 1)
	var b strings.Builder
	for _, n := range numbers {
		bar := ' '
		if n > 0 {
			bar = bars[n*int64(len(bars)-1)/largest]
		}
		b.WriteRune(bar)
	}
	return b.String()
}

// writeLists writes the lists of pages, which share the lines that are left.
func (f topFrame) writeLists(p *frameWriter, height int) {
	lists := []topList{f.failing(), f.holding(), f.slowest(), f.requested()}
	lists = slices.DeleteFunc(lists, func(l topList) bool { return len(l.rows) == 0 })
	if len(lists) == 0 {
		p.line("", "")
		p.line("", "No page has been requested or rendered in the last hour.")
		return
	}
	for i, l := range lists {
		shown := plainRows
		if height > 0 { // an empty line and the head of each list
			shown = (height-len(p.lines))/(len(lists)-i) - 2
		}
		if shown < 1 {
			return
		}
		p.line("", "")
		p.table(append([][]string{l.head}, l.rows[:min(len(l.rows), shown)]...), bold)
	}
}

// A topList is a list of pages.
type topList struct {
	head []string
	rows [][]string
}

func (f topFrame) failing() topList {
	l := topList{head: []string{"FAILING FOR", "RENDERS", "REASON", "PAGE", "ERROR"}}
	for _, p := range f.Failing {
		l.rows = append(l.rows, []string{cli.SpanText(f.At.Sub(p.Since)), fmt.Sprint(p.Count), cmp.Or(p.Reason, p.Outcome), pageText(p.Tenant, p.Key), p.Error})
	}
	return l
}

func (f topFrame) holding() topList {
	l := topList{head: []string{"LEASE HELD FOR", "PAGE"}}
	for _, h := range f.Holding {
		l.rows = append(l.rows, []string{cli.SpanText(f.At.Sub(h.Since)), pageText(h.Tenant, h.Key)})
	}
	return l
}

func (f topFrame) slowest() topList {
	l := topList{head: []string{"RENDER MEAN", "MAX", "LAST", "RENDERS", "SLOWEST PAGES"}}
	for _, p := range f.Slowest {
		l.rows = append(l.rows, []string{millisText(p.RenderMean), millisText(p.RenderMax), millisText(p.RenderLast), fmt.Sprint(p.Renders), pageText(p.Tenant, p.Key)})
	}
	return l
}

func (f topFrame) requested() topList {
	l := topList{head: []string{"REQUESTS", "MOST REQUESTED PAGES"}}
	for _, p := range f.MostRequested {
		l.rows = append(l.rows, []string{fmt.Sprint(p.Requests), pageText(p.Tenant, p.Key)})
	}
	return l
}

func pageText(tenant, key string) string {
	if tenant == "" {
		return key
	}
	return tenant + " " + key
}

// rateText is a number and how often that is in a second.
func rateText(n int64, in time.Duration) string {
	return fmt.Sprintf("%d, %.1f/s", n, float64(n)/max(in.Seconds(), 1))
}

func quantilesText(n int64, q live.Quantiles) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprintf("p50 %s, p95 %s, p99 %s", millisText(q.P50), millisText(q.P95), millisText(q.P99))
}

// millisText formats milliseconds.
func millisText(ms float64) string {
	switch {
	case ms >= 1000:
		return fmt.Sprintf("%.1fs", ms/1000)
	case ms >= 10:
		return fmt.Sprintf("%.0fms", ms)
	}
	return fmt.Sprintf("%.2gms", ms)
}

// shownCounts bounds the words of countsText.
const shownCounts = 4

// countsText lists the largest counts.
func countsText(counts map[string]int64) string {
	if len(counts) == 0 {
		return "-"
	}
	names := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), cmp.Compare(a, b))
	})
	var texts []string
	for _, name := range names[:min(len(names), shownCounts)] {
		texts = append(texts, fmt.Sprintf("%s %d", name, counts[name]))
	}
	if len(names) > shownCounts {
		texts = append(texts, "…")
	}
	return strings.Join(texts, ", ")
}

// A frameWriter collects the lines of a frame. Texts come from visitors and origins: control
// characters, which a terminal could obey, are replaced.
type frameWriter struct {
	lines []string
	width int
	color bool
}

// line adds a line, in a style; empty if it has none.
func (p *frameWriter) line(style, format string, args ...any) {
	text := cut(printable(fmt.Sprintf(format, args...)), p.width)
	if style != "" && p.color && text != "" {
		text = style + text + plainText
	}
	p.lines = append(p.lines, text)
}

// table adds rows with aligned columns, of which the first has a style.
func (p *frameWriter) table(rows [][]string, head string) {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		_, _ = fmt.Fprintln(w, strings.Join(row, "\t")) // to memory
	}
	_ = w.Flush()
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		style := ""
		if i == 0 {
			style = head
		}
		p.line(style, "%s", strings.TrimRight(line, " "))
	}
}

// printable replaces what is no printable character.
func printable(text string) string {
	return canonical.Printable(strings.ToValidUTF8(text, "�"))
}

// cut shortens a text to a number of characters.
func cut(text string, width int) string {
	if utf8.RuneCountInString(text) <= width {
		return text
	}
	return string([]rune(text)[:max(width-1, 0)]) + "…"
}
