package admin

import (
	"context"
	"net/http"
	"time"
)

// A Process is what a running server knows of its process and its surroundings: what isr
// doctor examines, and what cannot be seen from outside.
type Process struct {
	Name         string            `json:"name" doc:"Host and process id."`
	Version      string            `json:"version" doc:"Version of the program."`
	Config       string            `json:"config" doc:"Digest of the configuration, as other servers see it."`
	File         string            `json:"file,omitempty" doc:"Configuration file."`
	Started      time.Time         `json:"started_at" doc:"When the server started."`
	Store        string            `json:"store" doc:"Where pages are stored."`
	Table        string            `json:"table,omitempty" doc:"DynamoDB table; empty for an embedded store."`
	Bucket       string            `json:"bucket,omitempty" doc:"S3 bucket."`
	Region       string            `json:"region,omitempty" doc:"AWS region, if it was given."`
	DynamoDB     string            `json:"dynamodb_endpoint,omitempty" doc:"DynamoDB endpoint other than that of AWS."`
	S3           string            `json:"s3_endpoint,omitempty" doc:"S3 endpoint other than that of AWS."`
	Memory       int64             `json:"memory_bytes" doc:"Size of the page cache in memory."`
	Files        int64             `json:"max_files" doc:"Limit of open files, such as connections (RLIMIT_NOFILE); 0 if it is not known."`
	OpenFiles    int64             `json:"open_files" doc:"Open files now; 0 if it is not known."`
	Limit        int64             `json:"memory_limit_bytes" doc:"Memory that the process may use: the limit of its control group, else that of the machine; 0 if it is not known."`
	Origins      []ProcessOrigin   `json:"origins" doc:"The sites behind the server."`
	Hosts        []string          `json:"hosts,omitempty" doc:"The hosts that are served, as they are configured; none: localhost."`
	Listeners    []ProcessListener `json:"listeners" doc:"The public addresses."`
	Requests     int64             `json:"requests" doc:"Requests at the public addresses since the start."`
	Scheme       string            `json:"scheme_problem,omitempty" doc:"How the X-Forwarded-Proto of trusted proxies contradicts the scheme that renders state; missing if it does not."`
	SchemeAdvice string            `json:"scheme_advice,omitempty" doc:"What to change then."`
	Peers        []ProcessPeer     `json:"peers" doc:"A sample of the addresses that requests came from, the most frequent first, at most 64; the last may stand for all others."`
}

// A ProcessOrigin is a site behind a server, with the settings of one of its routes.
type ProcessOrigin struct {
	Name        string   `json:"name" doc:"Name in the configuration."`
	URLs        []string `json:"urls" doc:"Addresses; none for the demonstration site."`
	Health      string   `json:"health,omitempty" doc:"Path of the health checks."`
	Host        string   `json:"host,omitempty" doc:"A host of the site that visitors use."`
	Path        string   `json:"path" doc:"A page of the origin."`
	Scheme      string   `json:"public_scheme,omitempty" doc:"The scheme that renders state."`
	Revalidate  float64  `json:"revalidate_seconds" doc:"Freshness window of the page if the origin sends none."`
	Strict      bool     `json:"strict,omitempty" doc:"The route has opt_in: strict."`
	MaxHeader   int64    `json:"max_header_bytes,omitempty" doc:"Size of the largest response header that is stored."`
	Off         bool     `json:"off,omitempty" doc:"The route has cache: off."`
	Headers     []string `json:"headers,omitempty" doc:"Request headers in the cache key of the page."`
	Vary        bool     `json:"vary_auto,omitempty" doc:"The route has vary: auto."`
	Connections int64    `json:"max_connections" doc:"Connections to the origin that requests may need: max_connections and max_renders."`
}

// A ProcessListener is a public address of a server.
type ProcessListener struct {
	Address  string   `json:"address" doc:"Host and port."`
	Trusted  []string `json:"trusted_proxies" doc:"Networks whose forwarding fields are trusted."`
	Host     bool     `json:"trust_forwarded_host,omitempty" doc:"The host is taken from X-Forwarded-Host or Forwarded of these networks."`
	Protocol bool     `json:"proxy_protocol,omitempty" doc:"Trusted peers use the PROXY protocol."`
}

// A ProcessPeer is an address that requests came from.
type ProcessPeer struct {
	Address    string   `json:"address" doc:"IP address; empty for all others."`
	Trusted    bool     `json:"trusted" doc:"Its forwarding fields are trusted."`
	Requests   int64    `json:"requests" doc:"Requests in the sample."`
	Forwarding int64    `json:"forwarding" doc:"Of these, with forwarding fields."`
	Fields     []string `json:"fields" doc:"The names of these fields."`
}

func (a *API) showProcess() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/process", name: "showProcess", limit: lookTime, adminOnly: true,
		summary:  "Show what the server knows of its process: limits, origins, and the peers that send requests.",
		details:  "This is what isr doctor asks for. It has addresses of clients, but no secrets.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Process, error) {
		if a.cfg.Process == nil {
			return Process{}, &Error{
				Status: http.StatusConflict, Code: "not_serving", Message: "no server is running here",
				Hint: "start isr serve, or give the URL of a running server with --server",
			}
		}
		p := a.cfg.Process()
		p.Version, p.Store, p.Started = a.cfg.Version, a.cfg.Place, a.began.UTC()
		return p, nil
	})
}

// Process returns what the server knows of its process.
func (c *Client) Process(ctx context.Context) (Process, error) {
	return ask[Process](ctx, c, http.MethodGet, "/-/process", struct{}{})
}
