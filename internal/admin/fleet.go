package admin

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"time"
)

// Nodes are the live servers of a fleet.
type Nodes struct {
	Seq   int64  `json:"seq" doc:"Sequence of the newest change of the log."`
	Alone bool   `json:"alone" doc:"Only this server uses the store, and does not announce itself."`
	Nodes []Node `json:"nodes" doc:"Sorted by name."`
}

// A Node is a live server of a fleet.
type Node struct {
	ID      string    `json:"id,omitempty" doc:"Identifies the process."`
	Name    string    `json:"name" doc:"Its host and process id."`
	This    bool      `json:"this" doc:"It is the server that answers."`
	Since   time.Time `json:"since" doc:"When it started."`
	SeenAt  time.Time `json:"seen_at" doc:"When it announced itself last."`
	Applied int64     `json:"applied" doc:"The sequence up to which it has reported the log as applied."`
	Behind  int64     `json:"behind" doc:"Changes of the log that it has not reported as applied; it reports every 20 seconds."`
	Version string    `json:"version,omitempty" doc:"Version of the program."`
	Config  string    `json:"config,omitempty" doc:"Digest of its configuration. Servers with different ones were configured differently."`
}

func (a *API) listNodes() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/nodes", name: "listNodes", limit: lookTime,
		summary: "List the live servers of the fleet.",
	}, func(r *http.Request, _ struct{}) (Nodes, error) { return a.nodes(r.Context()) })
}

func (a *API) nodes(ctx context.Context) (Nodes, error) {
	sequence, err := a.store.Sequence(ctx)
	if err != nil {
		return Nodes{}, err
	}
	live, err := a.store.Nodes(ctx)
	if err != nil {
		return Nodes{}, err
	}
	n := Nodes{Seq: sequence.Seq, Nodes: make([]Node, 0, len(live))}
	for _, one := range live {
		n.Nodes = append(n.Nodes, Node{
			ID: one.ID, Name: one.Name, This: a.cfg.Node != "" && one.Name == a.cfg.Node, Since: moment(one.Since), SeenAt: moment(one.SeenAt),
			Applied: one.Applied, Behind: max(sequence.Seq-one.Applied, 0), Version: one.Release, Config: one.Config,
		})
	}
	slices.SortStableFunc(n.Nodes, func(x, y Node) int { return strings.Compare(x.Name, y.Name) })
	if len(live) == 0 && a.cfg.Cache != nil {
		n.Alone = true
		n.Nodes = append(n.Nodes, Node{
			Name: cmp.Or(a.cfg.Node, "this server"), This: true, Since: a.began.UTC(), SeenAt: a.cfg.Now().UTC(), Applied: sequence.Seq, Version: a.cfg.Version, Config: a.digest(),
		})
	}
	return n, nil
}

// digest returns the digest of the configuration; empty if it is not known.
func (a *API) digest() string {
	if a.cfg.Process == nil {
		return ""
	}
	return a.cfg.Process().Config
}

// Leases are the leases that are known to be held.
type Leases struct {
	Holding []HeldLease  `json:"holding" doc:"By this server, now, the oldest first; at most 1,000."`
	Known   []KnownLease `json:"known" doc:"By any server, when the pages were read for searches; at most 1,000."`
	AsOf    time.Time    `json:"as_of,omitzero" doc:"When that was. Missing: not yet."`
}

// A HeldLease is a lease that this server holds.
type HeldLease struct {
	Key    string    `json:"key" doc:"Key of the page that it renders."`
	Tenant string    `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Route  string    `json:"route,omitempty" doc:"Name of the route of the page."`
	Since  time.Time `json:"since" doc:"Since when."`
}

// A KnownLease is a lease, or a back-off, in the store.
type KnownLease struct {
	Key       string    `json:"key,omitempty" doc:"Key of the page. Missing if no row has it."`
	Tenant    string    `json:"tenant,omitempty" doc:"Tenant of the page, on a site with tenants."`
	Partition string    `json:"pk" doc:"The partition key of its rows."`
	Owner     string    `json:"owner,omitempty" doc:"Name of its holder. Missing for a back-off after failed renders."`
	Until     time.Time `json:"until" doc:"When it expires."`
}

// maxLeases bounds the leases in a list.
const maxLeases = 1000

func (a *API) listLeases() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/leases", name: "listLeases", limit: lookTime,
		summary: "List the leases that this server holds, and those that are known of others.",
	}, func(*http.Request, struct{}) (Leases, error) {
		l := Leases{Holding: a.holding(maxLeases), Known: []KnownLease{}}
		shown := a.index.look()
		l.AsOf = moment(shown.asOf)
		now := a.cfg.Now().Unix()
		for i := range shown.pages {
			if p := &shown.pages[i]; p.leaseUntil > now && len(l.Known) < maxLeases {
				l.Known = append(l.Known, KnownLease{
					Key: p.key.Text, Tenant: p.key.Tenant, Partition: a.partitionOf(p), Owner: p.owner, Until: time.Unix(p.leaseUntil, 0).UTC(),
				})
			}
		}
		return l, nil
	})
}

// Origins are the sites behind a server.
type Origins struct {
	Origins []Origin `json:"origins" doc:"Sorted by name."`
}

// An Origin is what an origin does at a moment.
type Origin struct {
	Name      string          `json:"name" doc:"Name in the configuration."`
	Addresses []OriginAddress `json:"addresses" doc:"Its servers; none for the demonstration site."`
	Breaker   string          `json:"breaker" doc:"closed; or open: renders fail at once, except one at a time that probes the origin."`
	Rendering int             `json:"in_flight" doc:"Renders in progress."`
	Waiting   int             `json:"waiting" doc:"Pages that wait for their turn."`
}

// An OriginAddress is a server of an origin.
type OriginAddress struct {
	URL     string `json:"url" doc:"Its URL."`
	Healthy bool   `json:"healthy" doc:"Requests prefer it: health checks succeed, and connections too."`
}

func (a *API) listOrigins() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/origins", name: "listOrigins", limit: lookTime,
		summary:  "List the origins, their circuit breakers, and how busy they are.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Origins, error) {
		if a.cfg.Origins == nil {
			return Origins{}, noServer("not_serving", "no server is running here")
		}
		return Origins{Origins: append([]Origin{}, a.cfg.Origins()...)}, nil
	})
}

// Nodes returns the live servers of the fleet.
func (c *Client) Nodes(ctx context.Context) (Nodes, error) {
	return ask[Nodes](ctx, c, http.MethodGet, "/-/nodes", struct{}{})
}

// Origins returns the origins of the server.
func (c *Client) Origins(ctx context.Context) (Origins, error) {
	return ask[Origins](ctx, c, http.MethodGet, "/-/origins", struct{}{})
}
