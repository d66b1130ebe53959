package assess

import (
	"cmp"
	"math"
	"slices"
	"time"

	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/cost"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/wellknown"
)

// A Report is what a cache would make of the requests of a log.
type Report struct {
	Configuration string    `json:"configuration"`
	From          time.Time `json:"from"`
	Until         time.Time `json:"until"`
	Requests      int64     `json:"requests"`
	Bytes         int64     `json:"bytes"`
	// Disordered are the entries that are more than a minute older than one before them.
	Disordered int64 `json:"disordered,omitempty"`
	// Forecasts: the first is of the configuration itself.
	Forecasts []Forecast `json:"forecasts"`
	// Gains are the settings that gain most, at most three.
	Gains       []Gain      `json:"gains"`
	Reasons     []Reason    `json:"reasons"`
	Parameters  []Parameter `json:"parameters"`
	Assumptions []string    `json:"assumptions"`
	Series      Series      `json:"series"`
}

// A Forecast is of one configuration. Numbers of requests are estimates if Sampled.
type Forecast struct {
	// Setting is the difference from the configuration, as isr.yaml has it; empty if there is none.
	Setting string `json:"setting,omitempty"`
	// HitRatio is the part of the requests that are answered from the cache, as RFC 9211 defines a hit: 0 to 1.
	HitRatio float64 `json:"hit_ratio"`
	Hits     int64   `json:"hits"`
	// Stale are the hits with a page that is not fresh, while a new one is rendered.
	Stale int64 `json:"stale"`
	// Origin are the requests that the site gets, those in the background included.
	Origin    int64 `json:"origin"`
	Pages     int64 `json:"pages"`
	Published int64 `json:"published"`
	// Memory is what all pages need, in bytes, and HotMemory what those with 95 of 100 hits need.
	Memory    int64 `json:"memory"`
	HotMemory int64 `json:"hot_memory"`
	// Dollars are what DynamoDB and S3 cost in 30 days, without storage.
	Dollars float64 `json:"dollars"`
	// Sampled: the numbers are estimated from a part of the pages.
	Sampled bool `json:"sampled,omitempty"`
}

// A Gain is a setting by which the hit ratio grows, or the site gets at least a hundredth fewer requests.
type Gain struct {
	Setting string  `json:"setting"`
	Points  float64 `json:"points"` // of the hit ratio, in percent
	Origin  int64   `json:"origin"` // requests that the site no longer gets
}

// A Reason is why requests are not answered from the cache, by the configuration itself.
type Reason struct {
	Reason   string   `json:"reason"`
	Requests int64    `json:"requests"`
	Meaning  string   `json:"meaning"`
	Advice   string   `json:"advice,omitempty"`
	Pages    []string `json:"pages"` // the most frequent, without values of queries
}

// A Parameter is a name of query parameters.
type Parameter struct {
	Name     string `json:"name"`
	Requests int64  `json:"requests"`
	Values   int    `json:"values"`            // different ones; at most 1,000 are counted
	Dropped  string `json:"dropped,omitempty"` // why isr drops it; empty if it does not
}

// A Series is the number of requests, and of hits by the configuration itself, over time.
type Series struct {
	From     time.Time `json:"from"`
	Seconds  int64     `json:"seconds"` // of each element
	Requests []float64 `json:"requests"`
	Hits     []float64 `json:"hits"`
}

const (
	maxGains      = 3
	maxReasons    = 12
	maxShownNames = 10
	// leastGain is the smallest gain that is shown, in points.
	leastGain = 0.1
	// pageOverhead is what a page needs in memory in addition to its body, in bytes.
	pageOverhead = 2 << 10
	// changedShare is the part of the regenerations that are assumed to change their page, as in docs/cost.md.
	changedShare = 0.1
	// hotShare is the part of the hits that HotMemory is for.
	hotShare = 0.95
)

func newReport(in *intake, forecasts []*forecast) *Report {
	r := &Report{
		Configuration: canonical.Printable(in.opts.Name), From: in.from, Until: in.until, Requests: in.requests, Bytes: in.bytes, Disordered: in.disordered,
		Forecasts: []Forecast{}, Gains: []Gain{}, Parameters: in.parameters.shown(),
	}
	for _, f := range forecasts {
		r.Forecasts = append(r.Forecasts, f.result(in))
	}
	base := r.Forecasts[0]
	for _, f := range r.Forecasts[1:] {
		gain := Gain{f.Setting, 100 * (f.HitRatio - base.HitRatio), base.Origin - f.Origin}
		if gain.Points >= leastGain || gain.Points > -leastGain && 100*gain.Origin >= base.Origin {
			r.Gains = append(r.Gains, gain)
		}
	}
	slices.SortStableFunc(r.Gains, func(a, b Gain) int {
		return cmp.Or(cmp.Compare(math.Round(b.Points/leastGain), math.Round(a.Points/leastGain)), cmp.Compare(b.Origin, a.Origin))
	})
	r.Gains = r.Gains[:min(len(r.Gains), maxGains)]
	r.Reasons = forecasts[0].reasons.shown()
	hits := forecasts[0].hits
	hits.alignTo(&in.series)
	r.Series = Series{From: in.series.from, Seconds: int64(in.series.width / time.Second), Requests: in.series.buckets, Hits: hits.buckets}
	r.Assumptions = assumptions(base.Sampled)
	return r
}

// result returns what a forecast has counted.
func (f *forecast) result(in *intake) Forecast {
	asked := float64(in.requests - f.passed.requests) // requests for pages, which are known
	of := func(count func(*page) int64) float64 { return f.estimated(asked, count) }
	answered := max(asked-of(func(p *page) int64 { return p.requests - p.hits }), 0)
	published := of(func(p *page) int64 { return p.published })
	month := float64(cost.Month) / float64(max(in.until.Sub(in.from), time.Minute))
	pages, memory, hot := f.weigh()
	return Forecast{
		Setting: canonical.Printable(f.setting), HitRatio: answered / float64(in.requests), Hits: int64(math.Round(answered)),
		Stale:  int64(math.Round(min(of(func(p *page) int64 { return p.stale }), answered))),
		Origin: f.passed.origin + int64(math.Round(of(func(p *page) int64 { return p.origin }))),
		Pages:  int64(pages), Published: int64(math.Round(published)), Memory: int64(memory), HotMemory: int64(hot),
		Dollars: billed(published * month), Sampled: f.sampled(),
	}
}

// estimated returns the sum of a count over all pages: exactly unless pages were left out, and else by the regression
// estimator of survey sampling (Särndal, Swensson, Wretman, 1992, chapter 6). The sum of the weighted counts is corrected by
// how far the sum of the weighted requests is off their known number. So the requests of a page that happens to be in the
// sample, or not, hardly matter.
func (f *forecast) estimated(requests float64, count func(*page) int64) float64 {
	var sum, seen, both, square float64
	for _, p := range f.pages {
		w, n, of := p.weight(), float64(count(p)), float64(p.requests)
		sum += w * n
		seen += w * of
		both += w * (w - 1) * n * of
		square += w * (w - 1) * of * of
	}
	if square > 0 {
		sum += both / square * (requests - seen)
	}
	return max(sum, 0)
}

// weigh returns the number of stored pages, the bytes of memory that they need, and those that the pages with most of
// the hits need.
func (f *forecast) weigh() (pages, memory, hot float64) {
	type weighed struct{ hits, bytes float64 }
	var weights []weighed
	hits := 0.0
	for _, p := range f.pages {
		if p.published == 0 {
			continue
		}
		n := p.weight()
		w := weighed{n * float64(p.hits), n * float64(p.size+pageOverhead)}
		pages, memory, hits = pages+n, memory+w.bytes, hits+w.hits
		weights = append(weights, w)
	}
	slices.SortFunc(weights, func(a, b weighed) int { return cmp.Compare(b.hits*a.bytes, a.hits*b.bytes) })
	covered := 0.0
	for _, w := range weights {
		if covered >= hotShare*hits {
			break
		}
		covered += w.hits
		hot += w.bytes
	}
	return pages, memory, hot
}

// sampled reports whether pages were left out.
func (f *forecast) sampled() bool { return f.threshold < everything }

// detailOf explains a reason: a detail of Cache-Status, or a word of a forecast.
func detailOf(word string) details.Detail {
	switch word {
	case "first":
		return details.Detail{Meaning: "the first request for a page, or for one that was not kept", Advice: "isr warm renders pages before visitors come"}
	case "expired":
		return details.Detail{Meaning: "the page was too old, and no stale copy was served", Advice: "a longer revalidate, or a stale window"}
	case "collapsed":
		return details.Detail{Meaning: "the visitor waits for the response to another visitor, and the site gets one request"}
	case "status":
		return details.Detail{Meaning: "the response has a status that is not stored, such as 403 or 500"}
	case "bad-request":
		return details.Detail{Meaning: "the target of the request is not valid"}
	case "other":
		return details.Detail{Meaning: "the cache is not asked"}
	}
	d, _ := details.Of(word)
	return d
}

// shown returns the most frequent reasons.
func (r reasons) shown() []Reason {
	all := make([]Reason, 0, len(r))
	for word, of := range r {
		d := detailOf(word)
		all = append(all, Reason{Reason: word, Requests: int64(of.requests), Meaning: d.Meaning, Advice: d.Advice, Pages: of.top()})
	}
	slices.SortFunc(all, func(a, b Reason) int {
		return cmp.Or(cmp.Compare(b.Requests, a.Requests), cmp.Compare(a.Reason, b.Reason))
	})
	return all[:min(len(all), maxReasons)]
}

// shown returns the parameters by which most requests differ.
func (p *parameters) shown() []Parameter {
	names := p.sorted(func(_ string, known *parameter) bool { return len(known.values) > 1 || known.requests > 1 })
	all := make([]Parameter, 0, maxShownNames)
	for _, name := range names[:min(len(names), maxShownNames)] {
		known := p.byName[name]
		all = append(all, Parameter{Name: canonical.Printable(name), Requests: known.requests, Values: len(known.values), Dropped: wellknown.Parameter(name)})
	}
	return all
}

// assumptions are what a log does not show.
func assumptions(sampled bool) []string {
	all := []string{
		"Visitors have no cookies and no credentials: a log does not show them. Requests with a session cookie, or with Authorization, reach the site, so that the hit ratio of a site with many signed-in visitors is lower.",
		"Responses may be stored unless the log shows a Cache-Control or Set-Cookie that forbids it: most formats have neither. isr init looks at the headers of ten pages.",
		"Nothing is purged.",
		"Pages do not depend on request headers.",
		"One server, which begins without pages.",
		"A tenth of the regenerations changes the page. The list prices of us-east-1 apply, without storage. The embedded store of one machine costs nothing.",
	}
	if sampled {
		all = append(all, "There are more pages than are simulated. The numbers are estimated from a part of them, which their hashes choose, and from those that are requested often.")
	}
	return all
}
