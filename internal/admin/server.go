package admin

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
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
	DynamoDB     string            `json:"dynamodb_endpoint,omitempty" doc:"DynamoDB endpoint other than AWS's."`
	S3           string            `json:"s3_endpoint,omitempty" doc:"S3 endpoint other than AWS's."`
	Memory       int64             `json:"memory_bytes" doc:"Size of the page cache in memory."`
	Files        int64             `json:"max_files" doc:"Limit of open files, such as connections (RLIMIT_NOFILE); 0 if it is not known."`
	OpenFiles    int64             `json:"open_files" doc:"Open files now; 0 if it is not known."`
	Limit        int64             `json:"memory_limit_bytes" doc:"Memory that the process may use: the limit of its control group, else the memory of the machine; 0 if it is not known."`
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
			return Process{}, noServer("not_serving", "no server is running here")
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

// A Reload is the input of a reload, which has no fields.
type Reload struct{}

func (Reload) target() string { return "the configuration file" }

// Reloaded is the result of a reload.
type Reloaded struct {
	File    string `json:"file" doc:"Configuration file."`
	Routes  int    `json:"routes" doc:"Routes in use."`
	Origins int    `json:"origins" doc:"Origins in use."`
	// Changed names the settings that differ from the previous configuration.
	Changed []string `json:"changed" doc:"Settings that differ from the previous configuration, by their paths in the file."`
}

func (a *API) reload() operation {
	return exchanging(operation{
		method: http.MethodPost, path: "/-/reload", name: "reloadConfiguration", limit: lookTime,
		summary: "Read the configuration file again.",
		details: "Requests in flight finish under the old configuration, later ones follow the new one; pages stay in memory. " +
			"An invalid file, or one that changes what cannot change while the server runs, changes nothing.",
		problems: []int{http.StatusConflict, http.StatusUnprocessableEntity},
	}, func(x *exchange, _ Reload) (Reloaded, error) {
		if a.cfg.Reload == nil {
			return Reloaded{}, &Error{
				Status: http.StatusConflict, Code: "no_configuration_file", Message: "no server with a configuration file is running here",
				Hint: "start isr serve --config FILE, or give the URL of a running server with --server",
			}
		}
		done, err := a.cfg.Reload(x.r.Context())
		if err == nil && len(done.Changed) > 0 {
			x.target += ": " + strings.Join(done.Changed, ", ") // for the audit log
		}
		return done, err
	})
}

// Reload makes the server read its configuration file again.
func (c *Client) Reload(ctx context.Context) (Reloaded, error) {
	return ask[Reloaded](ctx, c, http.MethodPost, "/-/reload", Reload{})
}

// A Meter sums the consumed capacity of a store by kind of operation. Its zero value is
// ready to use. It is safe for concurrent use.
type Meter struct {
	mu          sync.Mutex
	byOperation map[string]OperationUsage // guarded by mu
	minutes     [60]unitsOfMinute         // guarded by mu
}

// unitsOfMinute are the units that were consumed in one minute.
type unitsOfMinute struct {
	minute      int64 // Unix time
	read, write float64
}

// Count adds the capacity units of one response of the store.
func (m *Meter) Count(operation string, read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byOperation == nil {
		m.byOperation = make(map[string]OperationUsage)
	}
	u := m.byOperation[operation]
	u.Operation = operation
	u.Answers++
	u.ReadUnits += read
	u.WriteUnits += write
	m.byOperation[operation] = u
	minute := time.Now().Unix() / 60
	of := &m.minutes[minute%60]
	if of.minute != minute {
		*of = unitsOfMinute{minute: minute}
	}
	of.read += read
	of.write += write
}

// unitsOfHour returns the units that were consumed in the hour before a time.
func (m *Meter) unitsOfHour(now time.Time) (read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, of := range m.minutes {
		if of.minute > now.Unix()/60-60 {
			read += of.read
			write += of.write
		}
	}
	return read, write
}

// Units returns the units that were consumed in all.
func (m *Meter) Units() (read, write float64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, u := range m.byOperation {
		read += u.ReadUnits
		write += u.WriteUnits
	}
	return read, write
}

// usage returns the counts, sorted by name.
func (m *Meter) usage() []OperationUsage {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.byOperation), func(a, b OperationUsage) int { return cmp.Compare(a.Operation, b.Operation) })
}

// Usage is the DynamoDB capacity that a server has consumed.
type Usage struct {
	Since      time.Time        `json:"since" doc:"When the server started."`
	Until      time.Time        `json:"until" doc:"Now, by the server's clock."`
	Operations []OperationUsage `json:"operations" doc:"By the kind of operation."`
}

// An OperationUsage is the capacity that one kind of operation has consumed.
type OperationUsage struct {
	Operation  string  `json:"operation" doc:"For example acquire, publish or changes (a poll of the log)."`
	Answers    int64   `json:"answers" doc:"Responses of DynamoDB that report consumed capacity."`
	ReadUnits  float64 `json:"read_units" doc:"Read capacity units."`
	WriteUnits float64 `json:"write_units" doc:"Write capacity units."`
}

func (a *API) showUsage() operation {
	return replying(operation{
		method: http.MethodGet, path: "/-/usage", name: "showUsage", limit: lookTime,
		summary:  "Show the DynamoDB capacity that this server has consumed since its start.",
		details:  "Does not include writes whose condition failed, for which DynamoDB reports no capacity. For an embedded store, which costs nothing, the numbers are what DynamoDB would consume.",
		problems: []int{http.StatusConflict},
	}, func(*http.Request, struct{}) (Usage, error) {
		if a.cfg.Meter == nil {
			return Usage{}, noServer("not_counted", "no server is running here that counts consumed capacity")
		}
		u := Usage{Since: a.began.UTC(), Until: a.cfg.Now().UTC(), Operations: a.cfg.Meter.usage()}
		if u.Operations == nil {
			u.Operations = []OperationUsage{}
		}
		return u, nil
	})
}

// Usage returns the capacity that the server has consumed since its start.
func (c *Client) Usage(ctx context.Context) (Usage, error) {
	return ask[Usage](ctx, c, http.MethodGet, "/-/usage", struct{}{})
}
