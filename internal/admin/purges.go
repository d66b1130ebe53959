package admin

import (
	"context"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/facetheory/isr/store"
)

// Bounds of the list of purges.
const (
	maxPurges     = 200
	maxDeliveries = 200
	maxNamed      = 20 // targets, and servers, that a purge in the list names
)

// Purges are the latest changes of the log, and how far they have reached.
type Purges struct {
	Seq        int64      `json:"seq" doc:"Sequence of the newest change of the log."`
	Purges     []PurgeRow `json:"purges" doc:"The newest first: at most 200, of about the last hour."`
	Nodes      []Node     `json:"nodes" doc:"The live servers."`
	Deliveries []Delivery `json:"deliveries" doc:"Purges that have not been delivered to downstream caches, at most 200."`
	Truncated  bool       `json:"truncated" doc:"There are more deliveries: isr outbox lists all."`
}

// A PurgeRow is a change of the log.
type PurgeRow struct {
	Seq          int64     `json:"seq" doc:"Its sequence: the receipt of the purge."`
	At           time.Time `json:"at,omitzero" doc:"When it was made. Missing for changes of single pages."`
	Kind         string    `json:"kind" doc:"marks: a purge of a tag, prefix, host, tenant or everything. pages: a purge, rollback, pin or other change of single pages. mixed: both. other: neither, such as the change of a build."`
	Targets      []string  `json:"targets" doc:"What was purged or changed; the first 20."`
	TargetCount  int       `json:"target_count" doc:"How many there are."`
	Hard         bool      `json:"hard" doc:"A purge of marks that was hard. The log does not record how single pages were purged."`
	Destinations []string  `json:"destinations" doc:"The downstream caches that it was to be delivered to."`
	Servers      int       `json:"servers" doc:"Live servers that had started when they last reported."`
	Reached      int       `json:"reached" doc:"Those that have reported it as applied. They report every 20 seconds, and at once if the purge waits for them."`
	Missing      []string  `json:"missing" doc:"Names of the others; the first 20."`
	Pending      []string  `json:"pending" doc:"Ids of its deliveries that are not made yet."`
}

func (a *API) listPurges() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/purges", name: "listPurges", limit: lookTime,
		summary: "List the latest purges, and which servers and downstream caches they have reached.",
	}, func(r *http.Request, _ struct{}) (Purges, error) { return a.purges(r.Context()) })
}

func (a *API) purges(ctx context.Context) (Purges, error) {
	fleet, err := a.nodes(ctx)
	if err != nil {
		return Purges{}, err
	}
	all := Purges{Purges: []PurgeRow{}, Nodes: fleet.Nodes, Deliveries: []Delivery{}}
	pending := make(map[int64][]string)
	for j, err := range a.store.Outbox(ctx) {
		if err != nil {
			return Purges{}, err
		}
		if all.Truncated = len(all.Deliveries) == maxDeliveries; all.Truncated {
			break
		}
		all.Deliveries = append(all.Deliveries, a.delivery(j))
		pending[j.Seq] = append(pending[j.Seq], j.ID())
	}
	sequence, changes, err := a.store.Changes(ctx, max(fleet.Seq-maxPurges, 0))
	if err != nil {
		return Purges{}, err
	}
	all.Seq = sequence.Seq
	for _, c := range slices.Backward(changes) {
		if len(all.Purges) == maxPurges {
			break
		}
		if c.Malformed == nil {
			all.Purges = append(all.Purges, row(c, fleet.Nodes, pending[c.Seq]))
		}
	}
	return all, nil
}

// row describes a change of the log.
func row(c store.Change, nodes []Node, pending []string) PurgeRow {
	p := PurgeRow{
		Seq: c.Seq, Kind: "other", Targets: []string{}, TargetCount: len(c.Marks) + len(c.Reload), Destinations: append([]string{}, c.Destinations...),
		Servers: len(nodes), Missing: []string{}, Pending: append([]string{}, pending...),
	}
	name := func(text string) {
		if len(p.Targets) < maxNamed {
			p.Targets = append(p.Targets, text)
		}
	}
	for _, m := range c.Marks {
		p.At, p.Hard = m.At.UTC(), p.Hard || m.HardSeq == c.Seq
		name(describeTarget(m.Target))
	}
	for _, k := range c.Reload {
		name(k.String())
	}
	switch marks, pages := len(c.Marks) > 0, len(c.Reload) > 0; {
	case marks && pages:
		p.Kind = "mixed"
	case marks:
		p.Kind = "marks"
	case pages:
		p.Kind = "pages"
	}
	for _, n := range nodes {
		if n.Applied >= c.Seq {
			p.Reached++
		} else if len(p.Missing) < maxNamed {
			p.Missing = append(p.Missing, n.Name)
		}
	}
	return p
}

// marks are the purge marks of a store, by what they cover: the marks of a page are looked
// up, and not searched for, so that a list of many pages with many marks is fast.
type marks struct {
	marks map[store.PurgeTarget]store.Mark
	// lengths are the distinct lengths of the prefixes.
	lengths []int
	// others are of kinds that a newer version has written.
	others   []store.Mark
	lifetime time.Duration // how long marks are kept
}

// readMarks reads all marks.
func (a *API) readMarks(ctx context.Context) (marks, error) {
	sequence, err := a.store.Sequence(ctx)
	if err != nil {
		return marks{}, err
	}
	ms := marks{marks: make(map[store.PurgeTarget]store.Mark), lifetime: sequence.MarkLifetime}
	lengths := make(map[int]bool)
	for m, err := range a.store.Marks(ctx) {
		if err != nil {
			return marks{}, err
		}
		switch m.Target.Kind {
		case store.PurgePrefix:
			lengths[len(m.Target.Value)] = true
			fallthrough
		case store.PurgeTag, store.PurgeTenant, store.PurgeSite:
			ms.marks[m.Target] = m
		default:
			ms.others = append(ms.others, m)
		}
	}
	ms.lengths = slices.Sorted(maps.Keys(lengths))
	return ms, nil
}

// covering returns the merged state of the marks that cover a page with these tags.
func (ms marks) covering(k store.Key, tags []string, now time.Time) store.PurgeState {
	p := store.PurgeState{MarkLifetime: ms.lifetime}
	merge := func(t store.PurgeTarget) {
		if m, ok := ms.marks[t]; ok {
			p = p.Merge(m.State(now))
		}
	}
	merge(store.PurgeTarget{Kind: store.PurgeSite})
	merge(store.PurgeTarget{Kind: store.PurgeTenant, Tenant: k.Tenant})
	for _, tag := range tags {
		merge(store.PurgeTarget{Kind: store.PurgeTag, Tenant: k.Tenant, Value: tag})
	}
	for _, n := range ms.lengths {
		if n > len(k.Text) {
			break
		}
		merge(store.PurgeTarget{Kind: store.PurgePrefix, Tenant: k.Tenant, Value: k.Text[:n]})
	}
	for _, m := range ms.others {
		if m.Target.Covers(k, tags) {
			p = p.Merge(m.State(now))
		}
	}
	return p
}

// A TagTarget names a tag.
type TagTarget struct {
	Tag    string `json:"tag" doc:"The tag."`
	Tenant string `json:"tenant,omitempty" doc:"Its tenant, on a site with tenants."`
}

// A TagMark is the newest purge of a tag.
type TagMark struct {
	Seq     int64     `json:"seq" doc:"Sequence of the newest purge of the tag; 0 if there was none, or not in the last 90 days."`
	HardSeq int64     `json:"hard_seq" doc:"Sequence of the newest hard purge; 0 if there was none."`
	At      time.Time `json:"at,omitzero" doc:"When the newest purge was made."`
	AgoMS   int64     `json:"ago_ms" doc:"How long ago that was by the clock of this server, in milliseconds, with a resolution of a second; 0 if there was none."`
}

func (a *API) showTagMark() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/purges/tag", name: "showTagMark", limit: lookTime,
		summary: "Show the newest purge of a tag.",
		details: "A purge of everything or of a tenant is not one of a tag. A program that must purge once for several of its processes, " +
			"such as for a deployment of a site, finds out by this whether another has. Reads the marks of all purges.",
	}, func(r *http.Request, in TagTarget) (TagMark, error) {
		t := store.PurgeTarget{Kind: store.PurgeTag, Tenant: in.Tenant, Value: in.Tag}
		if err := t.Validate(); err != nil {
			return TagMark{}, err
		}
		all, err := a.readMarks(r.Context())
		if err != nil {
			return TagMark{}, err
		}
		m, ok := all.marks[t]
		if !ok {
			return TagMark{}, nil
		}
		return TagMark{Seq: m.Seq, HardSeq: m.HardSeq, At: m.At.UTC(), AgoMS: max(0, a.cfg.Now().Sub(m.At).Milliseconds())}, nil
	})
}

// TagMark returns the newest purge of a tag, of a tenant or, if that is empty, of a site without
// tenants.
func (c *Client) TagMark(ctx context.Context, tenant, tag string) (TagMark, error) {
	return ask[TagMark](ctx, c, http.MethodGet, "/-/purges/tag", TagTarget{Tag: tag, Tenant: tenant})
}
