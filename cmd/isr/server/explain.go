package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/config"
	"github.com/facetheory/isr/internal/details"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/store"
)

// RequestOf returns what is explained. Credentials are not part of it.
func RequestOf(url, method string, headers []string) admin.Explain {
	lines := make([]string, 0, len(headers))
	for _, line := range headers {
		if name, _, found := strings.Cut(line, ":"); found && (strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization")) {
			line = name + ": redacted"
		}
		lines = append(lines, strings.NewReplacer("\r", " ", "\n", " ").Replace(line))
	}
	return admin.Explain{URL: url, Method: method, Headers: strings.Join(lines, "\n")}
}

// prepare does to a request what its listener does by a configuration.
func prepare(f *config.File, r *http.Request) (gateway.Prepared, error) {
	trust, err := trustOf(f.Listen[receiver(f, r)])
	if err != nil {
		return gateway.Prepared{}, err
	}
	secrets, err := draftSecrets(f)
	if err != nil {
		return gateway.Prepared{}, err
	}
	p, err := gateway.Prepare(r, trust, secrets)
	if err != nil {
		return gateway.Prepared{}, &refusedRequest{http.StatusBadRequest, fmt.Errorf("the request is refused: %w", err)}
	}
	var cookies []string
	for _, o := range f.Origins {
		if o.Sticky.Cookie != "" {
			cookies = append(cookies, o.Sticky.Cookie)
		}
	}
	slices.Sort(cookies)
	p.WithoutSticky(cookies)
	if f.BothSchemes() {
		p.KeyScheme(schemeOf(f, r), f.PublicScheme)
	}
	return p, nil
}

// schemeOf returns the scheme of a request to be explained, as its listener knows it.
func schemeOf(f *config.File, r *http.Request) string { return f.SchemeOf(f.Listen[receiver(f, r)]) }

// explain explains by the present configuration of a server.
func (r *reloader) explain(req *http.Request, fetch bool) (admin.Explained, store.Key, error) {
	e, k, err := explainRequest(r.file(), r.flags, r.site, req, fetch)
	e.Running = true
	return e, k, err
}

// ExplainRequest explains what a site with the configuration of a file would do with a request.
// The key is of the page that it would get; zero if there is none.
func ExplainRequest(f *config.File, site *gateway.Site, r *http.Request, fetch bool) (e admin.Explained, k store.Key, err error) {
	return explainRequest(f, given{"config": "--config"}, site, r, fetch)
}

// explainRequest is ExplainRequest for a file of which flags have set a part.
func explainRequest(f *config.File, flags given, site *gateway.Site, r *http.Request, fetch bool) (e admin.Explained, k store.Key, err error) {
	shown := *r.URL
	if shown.User = nil; shown.RawQuery != "" {
		shown.RawQuery = "…" // parameters that are in no key may be secret
	}
	e = admin.Explained{URL: shown.String(), Method: r.Method, Reasons: []admin.Reason{}, Parts: []admin.RequestPart{}}
	p, err := prepare(f, r)
	if err != nil {
		return e, store.Key{}, err
	}
	places, err := explain(f, p.Request)
	var refused *refusedRequest
	switch {
	case errors.As(err, &refused):
		e.Verdict, e.Status = string(isr.VerdictRefused), refused.status
		e.Reasons = append(e.Reasons, admin.Reason{Text: refused.Error()})
		return e, store.Key{}, nil
	case err != nil:
		return e, store.Key{}, err
	}
	host, route, origin := places.place(places.host, "hosts"), places.route(), places.origin()
	e.Listener, e.Host, e.Route, e.Origin, e.Tags = &places.listener, &host, &route, &origin, places.tags
	p.Request.Host = places.host
	if to := f.RedirectTo(receiver(f, r)); to >= 0 && p.RedirectsToHTTPS() {
		e.Verdict, e.Status = string(isr.VerdictBypass), http.StatusMovedPermanently
		text := "the listener has no TLS and another one has: the visitor is redirected to https"
		if f.Listen[to].ACME {
			text += ", once there is a certificate for the host"
		}
		e.Reasons = append(e.Reasons, admin.Reason{Text: text, Advice: "explain the URL with https; redirect_https: false of the listener turns the redirect off"})
		return e, store.Key{}, nil
	}
	p.Request = p.Request.WithContext(details.WithNaming(r.Context(), func(setting string) string {
		if path := fmt.Sprintf("routes[%d].%s", places.index, setting); fileSets(f, path) {
			return f.Source(path).String()
		}
		return flags.naming(setting, f)
	}))
	d, err := site.Explain(p, fetch)
	if errors.Is(err, routing.ErrNone) {
		return e, store.Key{}, fmt.Errorf("the configuration is being replaced; try again: %w", err)
	}
	if err != nil {
		return e, store.Key{}, err
	}
	e.Add(d)
	return e, cmp.Or(d.Variant, d.Key), nil
}

// ConfigExplainCommand is isr config explain: it shows which rules of a file apply to a request.
type ConfigExplainCommand struct {
	URL    string   `arg:"" name:"url" help:"URL that a visitor requests, like https://example.com/blog/hello."`
	Config string   `default:"isr.yaml" placeholder:"FILE" help:"Configuration file (${default})."`
	Header []string `short:"H" sep:"none" env:"-" placeholder:"NAME: VALUE" help:"Header of the request; repeatable."`
	Method string   `short:"X" env:"-" default:"GET" placeholder:"METHOD" help:"Method of the request (${default})."`
}

// Help returns the text below the usage line.
func (c *ConfigExplainCommand) Help() string {
	return `No request is sent, and neither a server nor a store is asked: isr explain does that, and shows what
the cache would do with the request now. Settings marked built-in are in neither the file nor its preset.`
}

// Run executes the command. Invalid flags are a [cli.UsageError].
func (c *ConfigExplainCommand) Run(s *cli.Streams) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	f, err := ReadConfig(c.Config)
	if err != nil {
		return err
	}
	e, err := explain(f, r)
	if err != nil {
		return err
	}
	return e.write(s.Out)
}

// request returns the request as a listener receives it.
func (c *ConfigExplainCommand) request() (*http.Request, error) {
	r, err := RequestOf(c.URL, c.Method, c.Header).Request()
	if err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return r, nil
}

// An explained is what a configuration makes of a request.
type explained struct {
	file     *config.File
	request  *http.Request
	host     string // canonical
	index    int    // of the route
	outcome  isr.Explanation
	tags     []string
	listener admin.Place
	redirect string // where the request is redirected, and by which rule; empty if it is not
}

// place returns a value of the file and where it is written.
func (e *explained) place(text, path string) admin.Place {
	return admin.Place{Text: text, Source: e.file.Source(path).String()}
}

// route and origin return those that decide.
func (e *explained) route() admin.Place {
	return e.place(e.file.Routes[e.index].Match, fmt.Sprintf("routes[%d].match", e.index))
}

func (e *explained) origin() admin.Place {
	name := e.file.Routes[e.index].Origin
	o := e.file.Origins[name]
	path := "origins." + name + ".url"
	if o.Demo {
		path = "origins." + name + ".demo"
	}
	return e.place(name+": "+originAddress(o), path)
}

// PlaceText writes a place on one line.
func PlaceText(p admin.Place) string { return p.Text + " (" + p.Source + ")" }

// A refusedRequest is a request that is refused before it reaches a route.
type refusedRequest struct {
	status int // of the answer
	err    error
}

// Error implements error.
func (e *refusedRequest) Error() string { return e.err.Error() }

// Unwrap returns the reason.
func (e *refusedRequest) Unwrap() error { return e.err }

// explain finds the rules for a request. The error may be a *refusedRequest.
func explain(f *config.File, r *http.Request) (*explained, error) {
	host, ok := canonical.Host(r.Host)
	if !ok {
		return nil, &refusedRequest{http.StatusBadRequest, fmt.Errorf("the host %.100q is not a host name; such a request is refused with 400", r.Host)}
	}
	e := &explained{file: f, request: r, host: host}
	if err := e.findListener(); err != nil {
		return nil, err
	}
	redirects, err := f.RedirectTable()
	if err != nil {
		return nil, err
	}
	if to, ok := redirects.Find(r); ok {
		e.redirect = fmt.Sprintf("%d %s (%s)", to.Status, to.Location, to.Place)
	}
	patterns := make([]string, len(f.Routes))
	for i := range f.Routes {
		patterns[i] = f.Routes[i].Match
	}
	table, err := routing.New(patterns)
	if err != nil {
		return nil, err
	}
	switch e.index, err = table.FindRequest(r); {
	case errors.Is(err, routing.ErrNone):
		return nil, &refusedRequest{http.StatusNotFound, fmt.Errorf("the request is refused: %w", err)}
	case err != nil:
		return nil, &refusedRequest{http.StatusBadRequest, fmt.Errorf("the request is refused: %w", err)}
	}
	rt := f.Routes[e.index]
	rules, err := routeOf(rt, f.Origins[rt.Origin].Demo)
	if err != nil {
		return nil, err
	}
	if e.outcome, err = rules.Explain(r); err != nil {
		return nil, &refusedRequest{http.StatusBadRequest, err}
	}
	if rules.Tags != nil && e.outcome.Render != nil {
		e.tags = rules.Tags(e.outcome.Render)
	}
	return e, nil
}

// receiver returns the index of the listener of a request: the one with the URL's port, else the first
// with its scheme, else the first.
func receiver(f *config.File, r *http.Request) int {
	at := slices.IndexFunc(f.Listen, func(l config.Listener) bool {
		_, port, _ := net.SplitHostPort(l.Address)
		return port == r.URL.Port()
	})
	if at < 0 {
		at = slices.IndexFunc(f.Listen, func(l config.Listener) bool { return l.Encrypted() == (r.URL.Scheme == "https") })
	}
	return max(at, 0)
}

// findListener finds the listener, and checks that it serves the host.
func (e *explained) findListener() error {
	hosts := gateway.LoopbackHosts()
	var err error
	if len(e.file.Hosts) > 0 {
		if hosts, err = gateway.ParseHosts(e.file.Hosts); err != nil {
			return err
		}
	}
	for _, l := range e.file.Listen {
		address, err := net.ResolveTCPAddr("tcp", l.Address)
		if err != nil {
			return err
		}
		hosts = hosts.WithListener(address)
	}
	if !hosts.Serve(e.host) {
		return &refusedRequest{http.StatusMisdirectedRequest, fmt.Errorf("the host %s is not served: a request for it gets 421; the hosts are %s (%s)", e.host, hosts, e.file.Source("hosts"))}
	}
	at := receiver(e.file, e.request)
	e.listener = e.place(e.file.Listen[at].Address, fmt.Sprintf("listen[%d].address", at))
	return nil
}

func (e *explained) write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	fmt.Fprintf(w, "request\t%s %s\n", e.request.Method, e.request.URL)
	fmt.Fprintf(w, "listener\t%s\n", PlaceText(e.listener))
	fmt.Fprintf(w, "host\t%s\n", PlaceText(e.place(e.host, "hosts")))
	if e.redirect != "" {
		fmt.Fprintf(w, "redirect\t%s\n", e.redirect)
		return w.Flush()
	}
	fmt.Fprintf(w, "route\t%s\n", PlaceText(e.route()))
	fmt.Fprintf(w, "origin\t%s\n", PlaceText(e.origin()))
	if e.outcome.Bypass != "" {
		fmt.Fprintf(w, "cache\tbypassed (%s): the origin gets the request as it is\n", e.outcome.Bypass)
	} else {
		e.writeRender(w)
	}
	fmt.Fprintf(w, "\nsetting\tfrom\tvalue\n")
	for _, s := range e.file.Effective(e.index) {
		value := s.Value
		if value == "" {
			value = "-"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.Source, value)
	}
	return w.Flush()
}

func (e *explained) writeRender(w io.Writer) {
	key := e.outcome.Key
	fmt.Fprintf(w, "key\t%s\n", key.Text)
	if key.Tenant != "" {
		fmt.Fprintf(w, "tenant\t%s\n", key.Tenant)
	}
	if len(e.tags) > 0 {
		fmt.Fprintf(w, "tags\t%s\n", strings.Join(e.tags, ", "))
	}
	render := e.outcome.Render
	fmt.Fprintf(w, "render\t%s %s\n\tHost: %s\n", render.Method, render.RequestURI, render.Host)
	for _, name := range e.file.Routes[e.index].Forward {
		if values := e.request.Header.Values(name); len(values) == 1 {
			render.Header.Set(name, values[0])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(render.Header)) {
		fmt.Fprintf(w, "\t%s: %s\n", name, strings.Join(render.Header[name], ", "))
	}
}

// originAddress describes where an origin is.
func originAddress(o config.Origin) string {
	if o.Demo {
		return "the demonstration site"
	}
	return strings.Join(o.URL, ", ")
}
