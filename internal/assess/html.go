package assess

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"strings"
	"time"

	"github.com/facetheory/isr/internal/units"
)

// The beginning of all reports, and the report of a log.
var (
	//go:embed head.html
	headText string
	//go:embed report.html
	htmlText string
)

// Sizes of the plots, in units of their view boxes.
const (
	plotWidth  = 720.0
	plotHeight = 160.0
)

// WriteHTML writes the report as one HTML file, which loads nothing. All texts of the log are escaped.
func (r *Report) WriteHTML(to io.Writer) error {
	page, err := template.New("report").Funcs(template.FuncMap{
		"number": number, "percent": percent, "bytes": units.Bytes, "fewer": fewer,
		"part": func(n int64) string { return percent(float64(n) / float64(max(r.Requests, 1))) },
		"date": func(t time.Time) string { return t.UTC().Format(time.DateTime) },
		"bar":  func(part float64) string { return fmt.Sprintf("%.1f", plotWidth/2*part) },
	}).Parse(headText + htmlText)
	if err != nil {
		return err
	}
	return page.Execute(to, struct {
		*Report
		Span, Rate, Requested, Hit string
		Most                       string // requests a second in the busiest bucket
	}{
		r, spanOf(r.Until.Sub(r.From)), rate(r.Requests, r.Until.Sub(r.From)),
		area(r.Series.Requests, r.Series.most()), area(r.Series.Hits, r.Series.most()),
		fmt.Sprintf("%.1f", r.Series.most()/float64(max(r.Series.Seconds, 1))),
	})
}

// most returns the requests of the busiest bucket.
func (s *Series) most() (most float64) {
	for _, n := range s.Requests {
		most = max(most, n)
	}
	return most
}

// area returns the points of a polygon below the numbers of a series.
func area(buckets []float64, most float64) string {
	var b strings.Builder
	fmt.Fprintf(&b, "0,%.0f", plotHeight)
	step := plotWidth / float64(max(len(buckets), 1))
	for i, n := range buckets {
		y := plotHeight * (1 - min(n/max(most, 1), 1))
		fmt.Fprintf(&b, " %.1f,%.1f %.1f,%.1f", float64(i)*step, y, float64(i+1)*step, y)
	}
	fmt.Fprintf(&b, " %.0f,%.0f", plotWidth, plotHeight)
	return b.String()
}
