package admin

import (
	"context"
	"net/http"
	"reflect"
	"time"

	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/telemetry/live"
)

// An Overview is what a server does now, and did in the last hour.
type Overview struct {
	live.Snapshot

	Node     string      `json:"node,omitempty" doc:"Host and process id."`
	Version  string      `json:"version" doc:"Version of the program."`
	Started  time.Time   `json:"started_at" doc:"When the server started."`
	Store    string      `json:"store" doc:"Where pages are stored."`
	Sites    []string    `json:"sites" doc:"URLs at which visitors reach the server: its listeners."`
	Demo     bool        `json:"demo" doc:"Whether it serves the demonstration site."`
	Status   string      `json:"status" doc:"ok, or degraded: visitors are served without something."`
	Problems []string    `json:"problems" doc:"Why it is degraded."`
	Now      Gauges      `json:"now" doc:"The state of the cache."`
	Holding  []HeldLease `json:"holding" doc:"Leases that the server holds, the oldest first, at most 50."`
	Cost     Cost        `json:"cost" doc:"What the cache costs, and saves."`
	Learned  []Section   `json:"learned" doc:"Sections of the site whose pages are not rendered before the requests of visitors pass through, because the last renders there were refused; at most 50."`

	Details map[string]details.Detail `json:"details" doc:"What the reasons of the hour mean, and what to change."`
}

// A Section is a part of a site in which the last renders were refused.
type Section struct {
	Route   string    `json:"route,omitempty" doc:"Label of its route."`
	Tenant  string    `json:"tenant,omitempty" doc:"Tenant of its pages."`
	Section string    `json:"section" doc:"Host, and the beginning of the paths."`
	Reason  string    `json:"reason" doc:"Why the renders were refused: a detail of Cache-Status."`
	Meaning string    `json:"meaning" doc:"What the reason means."`
	Advice  string    `json:"advice,omitempty" doc:"What to change."`
	Since   time.Time `json:"since" doc:"When it was learned."`
}

// maxShownSections bounds the sections of an overview.
const maxShownSections = 50

// learned returns what the cache has learned of sections.
func (a *API) learned() []Section {
	all := []Section{}
	for _, s := range a.cache.Learned() {
		if len(all) == maxShownSections {
			break
		}
		d, _ := details.OfRefusal(s.Reason)
		all = append(all, Section{s.Route, s.Tenant, s.Section, s.Reason, d.Meaning, d.Advice, s.Since.UTC()})
	}
	return all
}

// Gauges are the state of the cache at a moment.
type Gauges struct {
	MemoryBytes   int64    `json:"memory_bytes" doc:"Size of the pages in memory."`
	MemoryLimit   int64    `json:"memory_limit_bytes" doc:"What they may have; 0: no pages are kept in memory."`
	MemoryEntries int      `json:"memory_entries" doc:"Pages in memory, approximately."`
	Renders       int      `json:"renders_in_flight" doc:"Renders in progress."`
	Queued        int      `json:"renders_queued" doc:"Pages that wait for their turn at an origin."`
	LeasesHeld    int      `json:"leases_held" doc:"Leases that this server holds."`
	Unpublished   int      `json:"unpublished" doc:"Pages in memory that could not be stored, approximately."`
	StoresDown    []string `json:"stores_down" doc:"Stores that do not answer: table, bodies."`
	PollLagMS     float64  `json:"poll_lag_ms" doc:"How long ago this server read the log; 0 if it need not."`
	Streams       int      `json:"streams" doc:"Browsers and programs that watch this server."`
}

// A Cost is what the cache costs, in units of DynamoDB, and what it saves.
type Cost struct {
	Embedded          bool    `json:"embedded" doc:"The store is embedded and costs nothing: the units are what DynamoDB would charge."`
	ReadUnits         float64 `json:"read_units_total" doc:"Read capacity units since the start."`
	WriteUnits        float64 `json:"write_units_total" doc:"Write capacity units since the start."`
	ReadUnitsHour     float64 `json:"read_units_hour" doc:"Read capacity units of the last hour."`
	WriteUnitsHour    float64 `json:"write_units_hour" doc:"Write capacity units of the last hour."`
	RenderSeconds     float64 `json:"render_seconds_hour" doc:"How long the origin rendered in the last hour."`
	RenderSecondsSave float64 `json:"render_seconds_saved_hour" doc:"An estimate of what the hits of the last hour would have taken there: their number, times the mean of the renders."`
}

func (a *API) showOverview() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/overview", name: "showOverview", limit: lookTime,
		summary:  "Show what the server does now, and did in the last hour.",
		details:  "Counts are this server's, and are lost when it stops.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Overview, error) { return a.overview() })
}

func (a *API) overview() (Overview, error) {
	if a.cfg.Live == nil || a.cfg.Cache == nil {
		return Overview{}, noServer("not_counted", "no server is running here that counts its requests")
	}
	o := Overview{
		Snapshot: a.cfg.Live.Snapshot(time.Now()), Node: a.cfg.Node, Version: a.cfg.Version, Started: a.began.UTC(), Store: a.cfg.Place,
		Sites: a.sites(), Demo: a.cfg.Demo, Status: "ok", Problems: []string{}, Now: a.gauges(), Holding: a.holding(maxShownLeases),
		Learned: a.learned(),
	}
	o.Details = a.detailsOf(o.Snapshot)
	if a.cfg.Problems != nil {
		o.Problems = append(o.Problems, a.cfg.Problems()...)
	}
	if len(o.Problems) > 0 {
		o.Status = "degraded"
	}
	o.Cost.Embedded = a.cfg.Embedded
	if m := a.cfg.Meter; m != nil {
		o.Cost.ReadUnits, o.Cost.WriteUnits = m.Units()
		o.Cost.ReadUnitsHour, o.Cost.WriteUnitsHour = m.unitsOfHour(time.Now())
	}
	o.Cost.RenderSeconds = o.Hour.RenderSeconds
	if o.Hour.Renders > 0 {
		o.Cost.RenderSecondsSave = float64(o.Hour.Hit+o.Hour.Stale) * o.Hour.RenderSeconds / float64(o.Hour.Renders)
	}
	return o, nil
}

// detailsOf describes the reasons of the hour.
func (a *API) detailsOf(s live.Snapshot) map[string]details.Detail {
	all := map[string]details.Detail{}
	for reason := range s.Hour.Reasons {
		all[reason] = a.detailOf(reason)
	}
	return all
}

// detailOf describes a reason: one of Cache-Status, or a word for requests that have none.
func (a *API) detailOf(reason string) details.Detail {
	switch reason {
	case "unrouted":
		return details.Detail{Meaning: "the request was refused before it reached a route", Advice: "the log of isr names unknown hosts"}
	case "error":
		return details.Detail{Meaning: "isr answered with an error"}
	case "other":
		return details.Detail{Meaning: "reasons beyond the first 64"}
	}
	d, _ := details.Named(reason, a.cfg.Naming)
	return d
}

// maxShownLeases bounds the leases in an overview.
const maxShownLeases = 50

// holding returns the leases that the server holds, the oldest first, at most limit.
func (a *API) holding(limit int) []HeldLease {
	all := make([]HeldLease, 0)
	for _, held := range a.cache.Holding() {
		if len(all) == limit {
			break
		}
		all = append(all, HeldLease{Key: held.Key.Text, Tenant: held.Key.Tenant, Route: held.Route, Since: held.Since.UTC()})
	}
	return all
}

func (a *API) gauges() Gauges {
	s := a.cfg.Cache.Stats()
	return Gauges{
		MemoryBytes: s.Memory.Bytes, MemoryLimit: s.Memory.Limit, MemoryEntries: s.Memory.Entries,
		Renders: s.Renders, Queued: s.Queued, LeasesHeld: s.LeasesHeld, Unpublished: s.Unpublished,
		StoresDown: append([]string{}, s.StoresDown...), PollLagMS: milliseconds(s.PollLag), Streams: len(a.streams),
	}
}

// Overview returns what the server does now, and did in the last hour.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return ask[Overview](ctx, c, http.MethodGet, "/-/overview", struct{}{})
}

// A Health is the health of the server; the fields after Status need a token.
type Health struct {
	Status  string    `json:"status" doc:"Always ok."`
	Version string    `json:"version,omitempty" doc:"Version of the program."`
	Store   string    `json:"store,omitempty" doc:"Where pages are stored."`
	Started time.Time `json:"started_at,omitzero" doc:"When the server started."`
}

func (a *API) showHealth() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/health", name: "showHealth", limit: lookTime, public: true,
		summary: "Check that the server runs.",
		details: "Needs no token; without one, the response is only the status ok. Does not check the store.",
	}, func(r *http.Request, _ struct{}) (Health, error) {
		h := Health{Status: "ok"}
		if visitorOf(r).admitted {
			h.Version, h.Store, h.Started = a.cfg.Version, a.cfg.Place, a.began.UTC()
		}
		return h, nil
	})
}

func (a *API) showMetrics() operation {
	return operation{
		method: http.MethodGet, path: "/metrics", name: "showMetrics", limit: lookTime, kind: "text/plain",
		input: reflect.TypeFor[struct{}](), output: reflect.TypeFor[string](),
		summary:  "Show the metrics of the server, for Prometheus.",
		details:  "In the text format of Prometheus, in OpenMetrics, or as protobuf, by the header Accept.",
		problems: []int{http.StatusConflict},
		serve: func(x *exchange) error {
			if a.cfg.Metrics == nil {
				return noServer("not_counted", "no server is running here that has metrics")
			}
			a.cfg.Metrics.ServeHTTP(x.w, x.r)
			return nil
		},
	}
}

// An Activity is what a server knows of one page besides what is stored.
type Activity struct {
	live.PageActivity
	Failing *live.FailingPage `json:"failing,omitempty" doc:"Its trouble, if its latest render by this server failed."`
	Changes []AuditEntry      `json:"changes" doc:"The latest changes of the page that were requested of this server, at most 100; for the admin token only."`
}

// shownChanges bounds the changes of a page that are shown.
const shownChanges = 100

func (a *API) showActivity() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/page/activity", name: "showActivity", limit: lookTime,
		summary: "Show what this server knows of the requests, renders and changes of a page.",
	}, func(r *http.Request, t Target) (Activity, error) {
		k, err := t.key()
		if err != nil {
			return Activity{}, err
		}
		shown := Activity{PageActivity: live.PageActivity{Key: k.Text, Tenant: k.Tenant}, Changes: []AuditEntry{}}
		if m := a.cfg.Live; m != nil {
			shown.PageActivity = m.PageActivity(time.Now(), k)
			if failing, ok := m.FailingPage(k); ok {
				shown.Failing = &failing
			}
		}
		if visitorOf(r).role == RoleAdmin {
			shown.Changes = a.trail.latest(k.String(), shownChanges)
		}
		return shown, nil
	})
}

// sites returns the URLs at which visitors reach the server.
func (a *API) sites() []string {
	if a.cfg.Sites == nil {
		return []string{}
	}
	return a.cfg.Sites()
}
