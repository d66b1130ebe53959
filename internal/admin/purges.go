package admin

import (
	"context"
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
	Kind         string    `json:"kind" doc:"marks: a purge of a tag, prefix, host, tenant or everything. pages: a purge, rollback, pin or other change of single pages. mixed: both. other: neither, such as that of a build."`
	Targets      []string  `json:"targets" doc:"What was purged or changed; the first 20."`
	TargetCount  int       `json:"target_count" doc:"How many there are."`
	Hard         bool      `json:"hard" doc:"A purge of marks that was hard. The log does not tell how single pages were purged."`
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
