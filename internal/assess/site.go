package assess

import (
	"cmp"
	"math"
	"net/url"
	"slices"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/cost"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/survey"
	"github.com/facetheory/isr/internal/wellknown"
)

// A SiteReport is what a cache could store of a site, by the responses to visits of its pages. Without a log it has no
// hit ratio: that depends on which pages visitors request how often.
type SiteReport struct {
	Site      string `json:"site"`
	Framework string `json:"framework,omitempty"`
	// Visited are the pages that have answered, Failed those that have not, and Disallowed those that robots.txt
	// excludes. Stopped is why not all were visited.
	Visited    int    `json:"visited"`
	Failed     int    `json:"failed"`
	Disallowed int    `json:"disallowed"`
	Stopped    string `json:"stopped,omitempty"`
	// Sitemap is the sitemap of the site, and Listed the number of its pages, at most 5,000.
	Sitemap string `json:"sitemap,omitempty"`
	Listed  int    `json:"listed"`
	// P50, P95 and Longest are how long pages took, in milliseconds, the network included.
	P50     int64 `json:"p50_ms"`
	P95     int64 `json:"p95_ms"`
	Longest int64 `json:"longest_ms"`
	Bytes   int64 `json:"bytes"` // of all visited pages
	// AsIs are the pages that can be cached as they are, WithWindow those that can with a freshness window (revalidate).
	AsIs       int `json:"as_is"`
	WithWindow int `json:"with_window"`
	// Verdicts are why the others cannot, and what would change it.
	Verdicts []Verdict `json:"verdicts"`
	// Cacheable is the number of pages of the whole site that can be cached, and Memory what they need, in bytes:
	// estimates from the visited pages if the sitemap lists more.
	Cacheable int   `json:"cacheable"`
	Memory    int64 `json:"memory"`
	// Rate is the stated number of requests a second for these pages; 0 if none was stated.
	Rate        float64  `json:"rate,omitempty"`
	Windows     []Window `json:"windows"`
	Assumptions []string `json:"assumptions"`
	Pages       []Page   `json:"pages"`
}

// A Verdict is why pages cannot be cached as they are.
type Verdict struct {
	Reason  string `json:"reason"` // a detail of Cache-Status
	Pages   int    `json:"pages"`
	Meaning string `json:"meaning"`
	Advice  string `json:"advice,omitempty"`
	// Names are the cookies, the headers of Vary, or the parameters that cause it.
	Names    []string `json:"names,omitempty"`
	Examples []string `json:"examples"`
}

// A Window is what a freshness window means for all pages that can be cached.
type Window struct {
	Seconds int64 `json:"seconds"`
	// Renders is the largest number of renders a second, whatever is requested: each page once in each window. With a
	// rate, it is the number if all pages are requested equally often, and Fewest by Zipf's law.
	Renders float64 `json:"renders_per_second"`
	Fewest  float64 `json:"fewest_renders_per_second,omitempty"`
	// Lowest and Highest are the hit ratios that belong to them; 0 without a rate.
	Lowest  float64 `json:"lowest_hit_ratio,omitempty"`
	Highest float64 `json:"highest_hit_ratio,omitempty"`
	// Dollars are what DynamoDB and S3 cost in 30 days, for Renders, without storage.
	Dollars float64 `json:"dollars"`
}

// A Page is a visited page.
type Page struct {
	Path         string   `json:"path"` // without values of its query
	Status       int      `json:"status"`
	Milliseconds int64    `json:"ms"`
	Bytes        int64    `json:"bytes"`
	Fresh        int64    `json:"fresh_seconds"`    // as it states; 0 if it states nothing
	Reason       string   `json:"reason,omitempty"` // why it cannot be cached as it is
	Names        []string `json:"names,omitempty"`
}

// maxNames is how many names a verdict has.
const maxNames = 10

// OfSite returns the report of a crawl. Rate is the number of requests a second for pages that can be cached; 0 if it is
// not known.
func OfSite(found *survey.Crawled, rate float64) *SiteReport {
	r := &SiteReport{
		Site: canonical.Printable(found.Origin.String()), Framework: found.Framework.Name, Visited: len(found.Pages), Failed: found.Failed, Disallowed: found.Disallowed,
		Stopped: canonical.Printable(found.Stopped), Sitemap: canonical.Printable(found.Sitemap), Listed: found.Listed, Rate: rate,
		Verdicts: []Verdict{}, Pages: []Page{},
	}
	verdicts := make(map[string]*Verdict)
	var took []time.Duration
	var memory int64
	for i := range found.Pages {
		p := &found.Pages[i]
		took = append(took, p.Took)
		r.Bytes += int64(p.Bytes)
		reason, names := judge(p)
		page := Page{shownPage(p.Path), p.Status, p.Took.Milliseconds(), int64(p.Bytes), int64(p.Stated / time.Second), reason, names}
		r.Pages = append(r.Pages, page)
		switch reason {
		case "":
			r.AsIs++
		case noFreshness:
			r.WithWindow++
		}
		if reason == "" || reason == noFreshness {
			memory += page.Bytes + pageOverhead
		}
		if reason != "" {
			addVerdict(verdicts, &page)
		}
	}
	for _, v := range verdicts {
		r.Verdicts = append(r.Verdicts, *v)
	}
	slices.SortFunc(r.Verdicts, func(a, b Verdict) int {
		return cmp.Or(cmp.Compare(b.Pages, a.Pages), cmp.Compare(a.Reason, b.Reason))
	})
	slices.Sort(took)
	r.P50, r.P95, r.Longest = quantile(took, 0.5), quantile(took, 0.95), quantile(took, 1)
	r.estimate(memory)
	return r
}

const noFreshness = "no-freshness"

// judge returns why a page cannot be cached as it is, with the names that cause it; empty if it can.
func judge(p *survey.Page) (reason string, names []string) {
	u, err := url.Parse(p.Path)
	if err == nil {
		for name := range u.Query() {
			if wellknown.Parameter(name) == "" {
				names = append(names, name)
			}
		}
	}
	switch {
	case len(names) > 0: // of the request, before there is a response
		slices.Sort(names)
		return "query", shownNames(names)
	case p.Refused == "set-cookie":
		return p.Refused, shownNames(p.Cookies)
	case p.Refused == "vary":
		return p.Refused, shownNames(p.Vary)
	case p.Refused != "":
		return p.Refused, nil
	case p.Stated == 0:
		return noFreshness, nil
	}
	return "", nil
}

// shownNames returns names that strangers have chosen as the report shows them.
func shownNames(names []string) (shown []string) {
	for _, name := range names[:min(len(names), maxNames)] {
		shown = append(shown, cut(canonical.Printable(name), maxShown))
	}
	return shown
}

func addVerdict(to map[string]*Verdict, p *Page) {
	v := to[p.Reason]
	if v == nil {
		d, _ := details.Of(p.Reason)
		v = &Verdict{Reason: p.Reason, Meaning: d.Meaning, Advice: d.Advice}
		to[p.Reason] = v
	}
	v.Pages++
	if len(v.Examples) < shownPages && !slices.Contains(v.Examples, p.Path) {
		v.Examples = append(v.Examples, p.Path)
	}
	for _, name := range p.Names {
		if len(v.Names) < maxNames && !slices.Contains(v.Names, name) {
			v.Names = append(v.Names, name)
		}
	}
}

// quantile returns a quantile of sorted durations, in milliseconds.
func quantile(sorted []time.Duration, q float64) int64 {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[max(int(math.Ceil(q*float64(len(sorted))))-1, 0)].Milliseconds()
}

// estimate sets what follows for the whole site, from the memory of the visited pages that can be cached.
func (r *SiteReport) estimate(memory int64) {
	cacheable, scale := r.AsIs+r.WithWindow, 1.0
	if r.Visited > 0 {
		scale = max(float64(r.Listed)/float64(r.Visited), 1)
	}
	r.Cacheable, r.Memory = int(math.Round(scale*float64(cacheable))), int64(scale*float64(memory))
	r.Windows = []Window{}
	for _, window := range windows() {
		if r.Cacheable > 0 {
			r.Windows = append(r.Windows, r.window(window))
		}
	}
	r.Assumptions = []string{
		"The visits are those of a visitor without cookies and credentials, in English, from this machine: the times contain the network. isr init tests whether visitors get different pages.",
		"A page that is not visited is like the visited ones.",
		"The freshness windows are of all pages that can be cached, also of pages that state one themselves.",
		"The hit ratio depends on what visitors request: isr assess with an access log forecasts it. A page that is requested L times a second has the hit ratio LW/(1+LW) with a freshness window of W seconds.",
		"One server. A tenth of the regenerations changes the page. The list prices of us-east-1 apply, without storage. The embedded store of one machine costs nothing.",
	}
	if r.Rate > 0 {
		r.Assumptions = append(r.Assumptions, "All requests of the stated rate are for pages that can be cached, at random times. The lowest hit ratio is if all pages are requested equally often; the highest by Zipf's law (the page of rank r gets a share in proportion to 1/r), as many sites have it.")
	}
}

// window returns what a freshness window means.
func (r *SiteReport) window(window time.Duration) Window {
	pages, seconds := float64(r.Cacheable), window.Seconds()
	w := Window{Seconds: int64(seconds), Renders: pages / seconds}
	if r.Rate > 0 {
		w.Renders = r.Rate / (1 + r.Rate*seconds/pages)
		site := cost.Site{Pages: r.Cacheable, Rate: r.Rate, Window: window, Servers: 1}
		w.Fewest = site.Activity().Regenerations / cost.Month.Seconds()
		w.Lowest, w.Highest = 1-w.Renders/r.Rate, 1-w.Fewest/r.Rate
	}
	w.Dollars = billed(w.Renders * cost.Month.Seconds())
	return w
}

// billed returns what DynamoDB and S3 cost in 30 days with so many regenerations.
func billed(regenerations float64) float64 {
	return cost.Activity{
		Regenerations: regenerations, Changed: changedShare * regenerations, Compressed: true,
		Polls: cost.Polls(1, isr.DefaultPoll, cost.Month),
	}.Bill(cost.USEast1()).Sum()
}
