package assess_test

import (
	"fmt"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/facetheory/isr/internal/assess"
	"github.com/facetheory/isr/internal/survey"
)

// visited returns what a crawl finds of a site with pages of each kind.
func visited() *survey.Crawled {
	site := &survey.Site{Origin: &url.URL{Scheme: "https", Host: "example.com"}, Sitemap: "https://example.com/sitemap.xml", Listed: 200}
	add := func(p survey.Page) {
		p.Status, p.Took, p.Bytes = 200, time.Duration(len(site.Pages)+1)*10*time.Millisecond, 10_000
		site.Pages = append(site.Pages, p)
	}
	for i := range 12 {
		add(survey.Page{Path: fmt.Sprintf("/news/%d", i), Stated: time.Minute})
	}
	for i := range 4 {
		add(survey.Page{Path: fmt.Sprintf("/about/%d", i)})
	}
	add(survey.Page{Path: "/cart", Refused: "set-cookie", Cookies: []string{"cart", "<script>"}})
	add(survey.Page{Path: "/list?page=secret&utm_source=x", Stated: time.Minute})
	add(survey.Page{Path: "/account", Refused: "private"})
	add(survey.Page{Path: "/<script>", Refused: "vary", Vary: []string{"Cookie"}})
	return &survey.Crawled{Site: site, Failed: 1, Disallowed: 2, Stopped: "it takes longer than 1h"}
}

// The report of a site, word by word, with a rate and without one.
func TestSiteReport(t *testing.T) {
	for golden, rate := range map[string]float64{"testdata/site.txt": 0, "testdata/site-rate.txt": 20} {
		report := assess.OfSite(visited(), rate)
		var text, page strings.Builder
		if err := report.Write(&text); err != nil {
			t.Fatal(err)
		}
		if *update {
			if err := os.WriteFile(golden, []byte(text.String()), 0o644); err != nil { //nolint:gosec // a text
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(golden)
		if err != nil {
			t.Fatal(err)
		}
		if text.String() != string(want) {
			t.Errorf("the report is not %s (-update writes it):\n%s", golden, text.String())
		}
		if err := report.WriteHTML(&page); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(text.String()+page.String(), "secret") {
			t.Error("the report has the value of a query parameter")
		}
		if strings.Contains(page.String(), "<script") || !strings.Contains(page.String(), "&lt;script&gt;") {
			t.Errorf("the page has what the site has as it is:\n%s", page.String())
		}
	}
}

// The range of the hit ratio contains that of any distribution of the requests between the equal one and Zipf's law, and
// a longer window has a higher one.
func TestWindows(t *testing.T) {
	last := assess.Window{}
	for _, w := range assess.OfSite(visited(), 20).Windows {
		if !(w.Lowest > last.Lowest && w.Highest > last.Highest && w.Lowest <= w.Highest && w.Highest < 1 && w.Fewest <= w.Renders && w.Renders < last.Renders+20) {
			t.Errorf("%+v after %+v", w, last)
		}
		// 160 pages with 1/8 request a second each.
		if want := 1 - 1/(1+float64(w.Seconds)/8); w.Lowest-want > 1e-9 || want-w.Lowest > 1e-9 {
			t.Errorf("%+v: the lowest hit ratio is %v, want %v", w, w.Lowest, want)
		}
		last = w
	}
	if none := assess.OfSite(&survey.Crawled{Site: &survey.Site{Origin: &url.URL{}}}, 5); len(none.Windows) != 0 || none.Memory != 0 {
		t.Errorf("%+v", none)
	}
}
