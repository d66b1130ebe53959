package admin

import (
	"context"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/store"
)

// An Explain is the input of an explanation.
type Explain struct {
	URL     string `json:"url,omitempty" doc:"URL that a visitor requests, like https://example.com/blog/hello."`
	Method  string `json:"method,omitempty" doc:"Method of the request (GET)."`
	Headers string `json:"headers,omitempty" doc:"Headers of the request: lines of NAME: VALUE, at most 100, of 16 KiB in all."`
	From    string `json:"from,omitempty" doc:"Address that sends the request: forwarding headers count if it is a trusted proxy's. Missing: a visitor's."`
	Fetch   bool   `json:"fetch,omitempty" doc:"Ask the origin as a render of the page would, or a request that bypasses the cache, and store nothing."`
}

// Bounds of an [Explain].
const (
	maxExplainURL     = 8 << 10
	maxExplainHeaders = 16 << 10
	maxExplainLines   = 100
)

// Request returns the request as a listener receives it. Errors are for people.
func (in Explain) Request() (*http.Request, error) {
	u, err := url.Parse(canonical.Address(in.URL))
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(in.URL) > maxExplainURL {
		return nil, invalid("%.200q is not the URL of a page; expected one like https://example.com/blog/hello", in.URL)
	}
	r, err := http.NewRequest(in.Method, u.String(), nil) //nolint:noctx // it is not sent
	if err != nil {
		return nil, invalid("%v", err)
	}
	r.RequestURI = u.RequestURI()
	if in.From != "" {
		address, err := netip.ParseAddr(in.From)
		if err != nil {
			return nil, invalid("%.60q is not an address; expected one like 10.0.0.1", in.From)
		}
		r.RemoteAddr = netip.AddrPortFrom(address, 0).String()
	}
	lines := strings.Split(in.Headers, "\n")
	if len(in.Headers) > maxExplainHeaders || len(lines) > maxExplainLines {
		return nil, invalid("the request has %d header lines of %d bytes, at most %d of %d bytes are explained", len(lines), len(in.Headers), maxExplainLines, maxExplainHeaders)
	}
	for _, line := range lines {
		if line == "" {
			continue
		}
		name, value, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) == "" {
			return nil, invalid("the header %.100q has no value; expected NAME: VALUE, like 'Accept-Language: de'", line)
		}
		if strings.EqualFold(name, "Host") {
			r.Host = strings.TrimSpace(value)
			continue
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
	}
	return r, nil
}

// An Explained is what the cache would do with a request, and why.
type Explained struct {
	URL     string `json:"url" doc:"URL of the request, without its query."`
	Method  string `json:"method" doc:"Its method."`
	Running bool   `json:"running" doc:"Whether a running server has answered. Otherwise its memory is not known, and the configuration is the command's."`

	Listener *Place `json:"listener,omitempty" doc:"Listener that receives it."`
	Host     *Place `json:"host,omitempty" doc:"Host, in canonical form."`
	Route    *Place `json:"route,omitempty" doc:"Route that matches it."`
	Origin   *Place `json:"origin,omitempty" doc:"Origin of the route."`

	Verdict     string   `json:"verdict" doc:"HIT, STALE, MISS, BYPASS, ERROR (isr answers with an error) or REFUSED."`
	CacheStatus string   `json:"cache_status,omitempty" doc:"Cache-Status that the request would get, without ttl."`
	Open        bool     `json:"open,omitempty" doc:"Whether the origin decides the rest of cache_status, or all of it if the render fails."`
	Status      int      `json:"status,omitempty" doc:"HTTP status of the response, before conditions and ranges. Missing if the origin decides."`
	Reasons     []Reason `json:"reasons" doc:"Steps of the decision, in order."`

	Key     string        `json:"key,omitempty" doc:"Cache key. Missing if the request bypasses the cache."`
	Tenant  string        `json:"tenant,omitempty" doc:"Tenant of the page."`
	Variant string        `json:"variant,omitempty" doc:"Key of the variant that the request gets, because of the Vary of the page."`
	Bypass  string        `json:"bypass,omitempty" doc:"Why the request bypasses the cache."`
	Tags    []string      `json:"tags,omitempty" doc:"Purge tags that the route gives the page."`
	Parts   []RequestPart `json:"parts" doc:"Parts of the request, and why each is in the key or not."`

	Memory      *Memory      `json:"memory,omitempty" doc:"What the server knows of the page without asking the store."`
	Stored      *Page        `json:"stored,omitempty" doc:"What the store has, as of GET /-/page."`
	Quarantined *Quarantined `json:"quarantined,omitempty" doc:"Rejected generation of the page."`
	Fetched     *Fetched     `json:"fetched,omitempty" doc:"What the origin has answered."`
}

// A Place is a part of the configuration, and where it is written.
type Place struct {
	Text   string `json:"text" doc:"The value."`
	Source string `json:"source" doc:"File and line, flag, or default."`
}

// A Reason is a step of a decision.
type Reason struct {
	Text   string `json:"text" doc:"A sentence for people."`
	Advice string `json:"advice,omitempty" doc:"What to change. Missing if there is nothing to change."`
	RFC    string `json:"rfc,omitempty" doc:"Section that requires it."`
}

// A RequestPart is a part of a request.
type RequestPart struct {
	Kind  string `json:"kind" doc:"method, host, path, query, header, cookie or body."`
	Name  string `json:"name,omitempty" doc:"Name of the parameter, header or cookie."`
	Use   string `json:"use" doc:"key, ignored, forwarded, obeyed, bypass or refused."`
	Value string `json:"value,omitempty" doc:"What the key has of it."`
	Why   string `json:"why" doc:"Why."`
}

// Memory is what a server knows of a page without asking the store.
type Memory struct {
	State       string    `json:"state,omitempty" doc:"State of the page in memory: fresh, stale, expired or purged. Missing if it has none."`
	Generation  string    `json:"generation_id,omitempty" doc:"Its generation."`
	AgeSeconds  int64     `json:"age_seconds,omitempty" doc:"Its age."`
	FreshFor    int64     `json:"fresh_for_seconds,omitempty" doc:"Time left in its freshness window; negative after it."`
	StaleFor    int64     `json:"stale_for_seconds,omitempty" doc:"Time left in its stale window; negative after it."`
	PinnedUntil time.Time `json:"pinned_until,omitzero" doc:"Until when it is pinned."`
	Rejected    bool      `json:"rejected,omitempty" doc:"Whether the last render was rejected."`
	Negative    bool      `json:"negative,omitempty" doc:"Whether it is a response such as 404 that is not stored."`
	Unpublished bool      `json:"unpublished,omitempty" doc:"Whether it could not be stored."`

	Refused      string    `json:"refused,omitempty" doc:"Why the last render was not cacheable."`
	FailedStatus int       `json:"failed_status,omitempty" doc:"Status of the last render, which failed."`
	Until        time.Time `json:"until,omitzero" doc:"Until when that is remembered."`
	Rendering    bool      `json:"rendering,omitempty" doc:"Whether this server is finding or rendering the page."`
	StoresDown   []string  `json:"stores_down,omitempty" doc:"Stores whose circuit breaker is open: table, bodies."`
	OriginDown   bool      `json:"origin_down,omitempty" doc:"Whether the circuit breaker of the origin is open."`
	LogAge       int64     `json:"log_age_ms" doc:"Time since the log of changes was read; -1: it was not."`
}

// Fetched is what the origin has answered.
type Fetched struct {
	Status    int         `json:"status,omitempty" doc:"HTTP status. Missing if it sent none."`
	Header    http.Header `json:"header" doc:"Header fields that decide about caching. Values of cookies are removed."`
	Bytes     int64       `json:"body_bytes,omitempty" doc:"Size of the body, if it would be stored."`
	Took      int64       `json:"took_ms" doc:"How long the origin took."`
	Failure   string      `json:"failure,omitempty" doc:"Why the render failed."`
	Stored    bool        `json:"stored" doc:"Whether a render would be stored."`
	FreshFor  int64       `json:"fresh_for_seconds,omitempty" doc:"Its freshness window."`
	StaleFor  int64       `json:"stale_for_seconds,omitempty" doc:"Its stale window after that."`
	Tags      []string    `json:"tags,omitempty" doc:"Its purge tags."`
	Obstacles []Obstacle  `json:"obstacles" doc:"All that keeps it from being stored."`
}

// An Obstacle keeps a response from being stored.
type Obstacle struct {
	Detail string `json:"detail" doc:"Detail of Cache-Status: private, vary, ..."`
	What   string `json:"what" doc:"What forbids it."`
	Advice string `json:"advice,omitempty" doc:"What to change."`
	RFC    string `json:"rfc,omitempty" doc:"Section that requires it."`
}

// explainTime bounds an explanation, which may render.
const explainTime = 2 * time.Minute

func (a *API) explain() operation {
	return replying(operation{
		method: http.MethodPost, path: "/-/explain", name: "explainRequest", limit: explainTime, reads: true,
		summary: "Explain what the cache would do with a request, and why.",
		details: "Nothing changes: no page is rendered or stored, no lease acquired. With fetch, the origin is asked as a render would, without waiting for a turn. " +
			"Send no credentials: of Authorization and cookies, only the names matter, except for cookies of the route.",
		problems: []int{http.StatusConflict},
	}, func(r *http.Request, in Explain) (Explained, error) {
		if in.Fetch && visitorOf(r).role == RoleRead {
			return Explained{}, &Error{
				Status: http.StatusForbidden, Code: "read_only", Message: "this token may only read, and not ask the origin", Hint: "use the admin token, or leave out fetch",
			}
		}
		request, err := in.Request()
		if err != nil {
			return Explained{}, err
		}
		if a.cfg.Explain == nil {
			return Explained{}, &Error{
				Status: http.StatusConflict, Code: "no_configuration", Message: "no server is running here, and the routes of the site are not known",
				Hint: "start isr serve, or give its configuration file with --config, or the URL of a running server with --server",
			}
		}
		out, k, err := a.cfg.Explain(request.WithContext(r.Context()), in.Fetch)
		if err != nil || k == (store.Key{}) {
			return out, err
		}
		return a.completed(r.Context(), out, k), nil
	})
}

// completed adds what the store has of the page to an explanation. A store that does not answer
// is part of the explanation, and no error.
func (a *API) completed(ctx context.Context, out Explained, k store.Key) Explained {
	p, err := a.page(ctx, k)
	if err != nil {
		out.Reasons = append(out.Reasons, Reason{Text: "the state of the page in the store is not known: " + err.Error()})
		return out
	}
	out.Stored = &p
	if q, err := a.cache.Quarantined(ctx, k); err == nil {
		shown := quarantined(q)
		out.Quarantined = &shown
	}
	return out
}

// Add adds what a cache has decided.
func (e *Explained) Add(d isr.Decision) {
	e.Verdict, e.CacheStatus, e.Open, e.Status, e.Bypass = string(d.Verdict), d.CacheStatus, d.Open, d.Status, d.Bypass
	e.Reasons = make([]Reason, 0, len(d.Reasons))
	for _, r := range d.Reasons {
		e.Reasons = append(e.Reasons, Reason(r))
	}
	e.Key, e.Tenant, e.Variant = d.Key.Text, d.Key.Tenant, d.Variant.Text
	e.Parts = make([]RequestPart, 0, len(d.Parts))
	for _, p := range d.Parts {
		e.Parts = append(e.Parts, RequestPart{p.Kind, p.Name, string(p.Use), p.Value, p.Why})
	}
	e.Memory = memoryOf(d.Memory)
	if f := d.Fetched; f != nil {
		e.Fetched = &Fetched{
			Status: f.Status, Header: f.Header, Bytes: f.Bytes, Took: f.Took.Milliseconds(), Failure: f.Failure, Stored: f.Stored,
			FreshFor: int64(f.FreshFor / time.Second), StaleFor: int64(f.StaleFor / time.Second), Tags: f.Tags, Obstacles: make([]Obstacle, 0, len(f.Obstacles)),
		}
		if f.Header == nil {
			e.Fetched.Header = make(http.Header)
		}
		for _, o := range f.Obstacles {
			e.Fetched.Obstacles = append(e.Fetched.Obstacles, Obstacle(o))
		}
	}
}

func memoryOf(m isr.Memory) *Memory {
	out := &Memory{
		Refused: m.Refused, FailedStatus: m.FailedStatus, Until: moment(m.Until), Rendering: m.Rendering,
		StoresDown: m.StoresDown, OriginDown: m.OriginDown, LogAge: -1,
	}
	if m.LogAge >= 0 {
		out.LogAge = m.LogAge.Milliseconds()
	}
	if p := m.Page; p != nil {
		out.State, out.Generation, out.AgeSeconds = p.State, p.Generation, int64(p.Age/time.Second)
		out.FreshFor, out.StaleFor, out.PinnedUntil = int64(p.FreshFor/time.Second), int64(p.StaleFor/time.Second), moment(p.PinnedUntil)
		out.Rejected, out.Negative, out.Unpublished = p.Rejected, p.Negative, p.Unpublished
	}
	return out
}

// Explain returns what the cache would do with a request.
func (c *Client) Explain(ctx context.Context, in Explain) (Explained, error) {
	return ask[Explained](ctx, c, http.MethodPost, "/-/explain", in)
}
