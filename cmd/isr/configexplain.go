package main

import (
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/config"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/canonical"
	"github.com/facetheory/isr/internal/routing"
)

type configExplainCommand struct {
	URL    string   `arg:"" name:"url" help:"URL that a visitor requests, like https://example.com/blog/hello."`
	Config string   `default:"isr.yaml" placeholder:"FILE" help:"Configuration file (${default})."`
	Header []string `short:"H" sep:"none" env:"-" placeholder:"NAME: VALUE" help:"Header of the request; repeatable."`
	Method string   `short:"X" env:"-" default:"GET" placeholder:"METHOD" help:"Method of the request (${default})."`
}

func (c *configExplainCommand) Help() string {
	return `No request is sent. Settings that say built-in are in neither the file nor its preset.`
}

func (c *configExplainCommand) Run(s *streams) error {
	r, err := c.request()
	if err != nil {
		return err
	}
	f, err := readConfig(c.Config)
	if err != nil {
		return err
	}
	e, err := explain(f, r)
	if err != nil {
		return err
	}
	return e.write(s.out)
}

// request returns the request as a listener receives it.
func (c *configExplainCommand) request() (*http.Request, error) {
	u, err := url.Parse(c.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usagef("%q is not the URL of a page; expected one like https://example.com/blog/hello", c.URL)
	}
	r, err := http.NewRequest(c.Method, u.String(), nil) //nolint:noctx // it is not sent
	if err != nil {
		return nil, usagef("%v", err)
	}
	r.RequestURI = u.RequestURI()
	for _, line := range c.Header {
		name, value, found := strings.Cut(line, ":")
		if !found || strings.TrimSpace(name) == "" {
			return nil, usagef("--header %q is not a header; expected NAME: VALUE, like 'Accept-Language: de'", line)
		}
		if strings.EqualFold(name, "Host") {
			r.Host = strings.TrimSpace(value)
			continue
		}
		r.Header.Add(strings.TrimSpace(name), strings.TrimSpace(value))
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
	listener string
}

// explain finds the rules for a request. An error says why it is refused.
func explain(f *config.File, r *http.Request) (*explained, error) {
	host, ok := canonical.Host(r.Host)
	if !ok {
		return nil, fmt.Errorf("the host %.100q is not a host name; such a request is refused with 400", r.Host)
	}
	e := &explained{file: f, request: r, host: host}
	if err := e.findListener(); err != nil {
		return nil, err
	}
	patterns := make([]string, len(f.Routes))
	for i := range f.Routes {
		patterns[i] = f.Routes[i].Match
	}
	table, err := routing.New(patterns)
	if err != nil {
		return nil, err
	}
	if e.index, err = table.FindRequest(r); err != nil {
		return nil, fmt.Errorf("the request is refused: %w", err)
	}
	rt := f.Routes[e.index]
	rules, err := routeOf(rt, f.Origins[rt.Origin].Demo)
	if err != nil {
		return nil, err
	}
	if e.outcome, err = rules.Explain(r); err != nil {
		return nil, err
	}
	if rules.Tags != nil && e.outcome.Render != nil {
		e.tags = rules.Tags(e.outcome.Render)
	}
	return e, nil
}

// findListener finds the listener of the URL's port, else the first, and checks that it
// serves the host.
func (e *explained) findListener() error {
	hosts := gateway.LoopbackHosts()
	var err error
	if len(e.file.Hosts) > 0 {
		if hosts, err = gateway.ParseHosts(e.file.Hosts); err != nil {
			return err
		}
	}
	at := 0
	for i, l := range e.file.Listen {
		address, err := net.ResolveTCPAddr("tcp", l.Address)
		if err != nil {
			return err
		}
		hosts = hosts.WithListener(address)
		if _, port, _ := net.SplitHostPort(l.Address); port == e.request.URL.Port() {
			at = i
		}
	}
	if !hosts.Serve(e.host) {
		return fmt.Errorf("the host %s is not served: a request for it gets 421; the hosts are %s (%s)", e.host, hosts, e.file.Source("hosts"))
	}
	e.listener = fmt.Sprintf("%s (%s)", e.file.Listen[at].Address, e.file.Source(fmt.Sprintf("listen[%d].address", at)))
	return nil
}

func (e *explained) write(to io.Writer) error {
	w := tabwriter.NewWriter(to, 0, 4, 2, ' ', 0)
	r := e.file.Routes[e.index]
	at := fmt.Sprintf("routes[%d]", e.index)
	fmt.Fprintf(w, "request\t%s %s\n", e.request.Method, e.request.URL)
	fmt.Fprintf(w, "listener\t%s\n", e.listener)
	fmt.Fprintf(w, "host\t%s (%s)\n", e.host, e.file.Source("hosts"))
	fmt.Fprintf(w, "route\t%s (%s)\n", r.Match, e.file.Source(at+".match"))
	fmt.Fprintf(w, "origin\t%s: %s (%s)\n", r.Origin, originAddress(e.file.Origins[r.Origin]), e.originSource(r.Origin))
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

// originSource returns where an origin is declared.
func (e *explained) originSource(name string) config.Source {
	if e.file.Origins[name].Demo {
		return e.file.Source("origins." + name + ".demo")
	}
	return e.file.Source("origins." + name + ".url")
}

// originAddress describes where an origin is.
func originAddress(o config.Origin) string {
	if o.Demo {
		return "the demonstration site"
	}
	return strings.Join(o.URL, ", ")
}
