package live

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// Bounds of the lists in a Snapshot.
const (
	listedTop     = 20
	listedFailing = 50
)

// A Snapshot is what a server did in the last hour.
type Snapshot struct {
	At            time.Time      `json:"at" doc:"Now, by the server's clock."`
	Hour          Totals         `json:"hour" doc:"The last 60 minutes."`
	Minute        Totals         `json:"minute" doc:"The last 60 seconds."`
	Minutes       []MinuteTotals `json:"minutes" doc:"The last 60 minutes, oldest first. Minutes without anything are left out."`
	Seconds       []SecondCounts `json:"seconds" doc:"The last 60 seconds, oldest first. Seconds without requests are left out."`
	MostRequested []PageActivity `json:"most_requested" doc:"The 20 most requested pages of the last 30 to 60 minutes."`
	Slowest       []PageActivity `json:"slowest" doc:"The 20 pages with the slowest renders of the last 30 to 60 minutes, by mean."`
	Failing       []FailingPage  `json:"failing" doc:"Up to 50 pages whose latest render failed, the latest first."`
}

// Counts are requests by what the cache did for them.
type Counts struct {
	Requests int64 `json:"requests" doc:"All requests."`
	Hit      int64 `json:"hit" doc:"Answered with a fresh page of the cache."`
	Stale    int64 `json:"stale" doc:"Answered with a stale page of the cache."`
	Miss     int64 `json:"miss" doc:"Answered after a render."`
	Bypass   int64 `json:"bypass" doc:"Answered without the cache."`
	Error    int64 `json:"error" doc:"Answered with a status of 500 or more, or broken off."`
}

// A SecondCounts is the requests of one second.
type SecondCounts struct {
	At time.Time `json:"at" doc:"When the second began."`
	Counts
}

// Totals are what a server did in a time.
type Totals struct {
	Counts
	Bytes          int64            `json:"bytes" doc:"Of the bodies that were sent."`
	HitRatio       float64          `json:"hit_ratio" doc:"(hit + stale) / requests, the share that the cache has answered; 0 if there are no requests."`
	Reasons        map[string]int64 `json:"reasons" doc:"Why requests were no plain hits, as in Cache-Status. Other than the first 64 of a minute are counted as other."`
	HitMS          Quantiles        `json:"hit_ms" doc:"How long hits took, stale or not."`
	RenderMS       Quantiles        `json:"render_ms" doc:"How long renders took."`
	Renders        int64            `json:"renders" doc:"Renders of pages."`
	RenderSeconds  float64          `json:"render_seconds" doc:"Their time, all together."`
	RenderOutcomes map[string]int64 `json:"render_outcomes" doc:"How they ended: published, unchanged, unpublished, refused, rejected, failed, lost or canceled."`
	StoreCalls     int64            `json:"store_calls" doc:"Calls of the stores."`
	StoreErrors    int64            `json:"store_errors" doc:"Those that failed."`
	StoreMS        Quantiles        `json:"store_ms" doc:"How long they took."`
	Purges         int64            `json:"purges" doc:"Purges by this server."`
	Applied        int64            `json:"applied" doc:"Changes by other servers that took effect here."`
}

// A MinuteTotals is what a server did in one minute.
type MinuteTotals struct {
	At time.Time `json:"at" doc:"When the minute began."`
	Totals
}

// A PageActivity is what a server did for one page in the last 30 to 60 minutes.
type PageActivity struct {
	Key           string  `json:"key" doc:"Key of the page."`
	Tenant        string  `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Route         string  `json:"route,omitempty" doc:"Name of its route."`
	Requests      int64   `json:"requests" doc:"Requests; of pages that are not among the 1,000 most requested, 0."`
	RequestsError int64   `json:"requests_error" doc:"By how much requests may be too high."`
	Renders       int64   `json:"renders" doc:"Renders; of pages that are not among the 1,000 with the longest renders, 0."`
	RenderMean    float64 `json:"render_ms_mean" doc:"How long they took on average, in milliseconds."`
	RenderMax     float64 `json:"render_ms_max" doc:"The longest."`
	RenderLast    float64 `json:"render_ms_last" doc:"The latest."`
}

// sums are the parts of Totals.
type sums struct {
	tally  tally
	period *period
}

func newSums() *sums { return &sums{period: newPeriod()} }

func (s *sums) counts() Counts {
	c := s.tally.counts
	return Counts{
		Requests: c[hit] + c[stale] + c[miss] + c[bypass] + c[failed],
		Hit:      c[hit], Stale: c[stale], Miss: c[miss], Bypass: c[bypass], Error: c[failed],
	}
}

func (s *sums) totals() Totals {
	t := Totals{
		Counts: s.counts(), Bytes: s.tally.bytes, Reasons: s.period.reasons, HitMS: s.tally.latency.quantiles(),
		RenderMS: s.period.render.quantiles(), Renders: s.period.render.total(), RenderSeconds: s.period.render.sum.Seconds(),
		RenderOutcomes: s.period.renders, StoreCalls: s.period.calls.total(), StoreErrors: s.period.errors,
		StoreMS: s.period.calls.quantiles(), Purges: s.period.purges, Applied: s.period.applied,
	}
	if t.Requests > 0 {
		t.HitRatio = float64(t.Hit+t.Stale) / float64(t.Requests)
	}
	return t
}

// Snapshot returns what the server did in the hour before a time.
func (m *Monitor) Snapshot(now time.Time) Snapshot {
	byMinute, bySecond := make(map[int64]*sums), make(map[int64]*sums)
	hour, minute := newSums(), newSums()
	of := func(all map[int64]*sums, at int64) *sums {
		if all[at] == nil {
			all[at] = newSums()
		}
		return all[at]
	}
	m.requests.each(now.Unix(), func(at int64, t *tally) {
		of(byMinute, at).tally.merge(t)
		hour.tally.merge(t)
	}, func(at int64, t *tally) {
		of(bySecond, at).tally.merge(t)
		minute.tally.merge(t)
	})
	m.work.each(now.Unix(), func(at int64, p *period) {
		of(byMinute, at).period.merge(p)
		hour.period.merge(p)
	}, minute.period.merge)
	s := Snapshot{
		At: now.UTC(), Hour: hour.totals(), Minute: minute.totals(),
		Minutes: make([]MinuteTotals, 0, len(byMinute)), Seconds: make([]SecondCounts, 0, len(bySecond)),
	}
	for _, at := range slices.Sorted(maps.Keys(byMinute)) {
		s.Minutes = append(s.Minutes, MinuteTotals{At: time.Unix(at, 0).UTC(), Totals: byMinute[at].totals()})
	}
	for _, at := range slices.Sorted(maps.Keys(bySecond)) {
		if c := bySecond[at].counts(); c.Requests > 0 {
			s.Seconds = append(s.Seconds, SecondCounts{At: time.Unix(at, 0).UTC(), Counts: c})
		}
	}
	all := m.Activity(now)
	s.MostRequested = best(all, func(p PageActivity) float64 { return float64(p.Requests) })
	s.Slowest = best(all, func(p PageActivity) float64 { return p.RenderMean })
	s.Failing = m.Failing(now)
	s.Failing = s.Failing[:min(len(s.Failing), listedFailing)]
	return s
}

// best returns the pages with the largest values, without those that have none.
func best(all map[store.Key]PageActivity, value func(PageActivity) float64) []PageActivity {
	found := make([]PageActivity, 0, len(all))
	for _, p := range all {
		if value(p) > 0 {
			found = append(found, p)
		}
	}
	slices.SortFunc(found, func(a, b PageActivity) int {
		return cmp.Or(cmp.Compare(value(b), value(a)), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Tenant, b.Tenant))
	})
	return found[:min(len(found), listedTop)]
}

// Activity returns what is known of about 1,000 pages by requests, and as many by renders.
func (m *Monitor) Activity(now time.Time) map[store.Key]PageActivity {
	requested, rendered := m.requested.entries(now), m.rendered.entries(now)
	all := make(map[store.Key]PageActivity, len(requested)+len(rendered))
	for k, e := range requested {
		all[k] = activity(k, e, rendered[k])
	}
	for k, e := range rendered {
		if _, known := all[k]; !known {
			all[k] = activity(k, entry{}, e)
		}
	}
	return all
}

// PageActivity returns what is known of one page.
func (m *Monitor) PageActivity(now time.Time, k store.Key) PageActivity {
	return activity(k, m.requested.entry(now, k), m.rendered.entry(now, k))
}

func activity(k store.Key, requested, rendered entry) PageActivity {
	p := PageActivity{
		Key: k.Text, Tenant: k.Tenant, Route: cmp.Or(requested.route, rendered.route), Requests: requested.sum, RequestsError: requested.err,
		Renders: rendered.renders, RenderMax: milliseconds(rendered.longest), RenderLast: milliseconds(rendered.last),
	}
	if rendered.renders > 0 {
		p.RenderMean = milliseconds(time.Duration((rendered.sum - rendered.err) / rendered.renders))
	}
	return p
}
