package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/config"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/gateway/admin"
	"github.com/facetheory/isr/internal/routing"
	"github.com/facetheory/isr/store"
)

type explainCommand struct {
	URL    string   `arg:"" name:"url" help:"URL that a visitor requests, like https://example.com/blog/hello."`
	Header []string `short:"H" sep:"none" env:"-" placeholder:"NAME: VALUE" help:"Header of the request; repeatable. Values of Authorization are not sent."`
	Method string   `short:"X" env:"-" default:"GET" placeholder:"METHOD" help:"Method of the request (${default})."`
	Fetch  bool     `env:"-" help:"Ask the origin as a render of the page would, store nothing, and say what would make its answer cacheable."`
	From   string   `env:"-" placeholder:"ADDRESS" help:"Address that sends the request. X-Forwarded-* and Forwarded count if it is that of a trusted proxy; otherwise they are removed (a visitor)."`
	JSON   bool     `name:"json" help:"Write JSON."`
	Config string   `env:"-" default:"isr.yaml" placeholder:"FILE" help:"Configuration file, if no server runs (${default}). A running server explains by its own."`

	askFlags `embed:""`
}

func (c *explainCommand) Help() string {
	return `Says which listener, route and origin are for the request, what of it is in the key, what the memory of the
server, the store, lease and purges say, and what the request would get, with reasons. The running server decides, by
the code that serves, and changes nothing; without one the configuration file and the store are used, and what the
memory of a server would say is not known.

isr config explain shows the settings of the route and where they come from, from the file alone.`
}

// requestOf returns what is explained. Credentials are not part of it.
func requestOf(url, method string, headers []string) admin.Explain {
	lines := make([]string, 0, len(headers))
	for _, line := range headers {
		if name, _, found := strings.Cut(line, ":"); found && (strings.EqualFold(name, "Authorization") || strings.EqualFold(name, "Proxy-Authorization")) {
			line = name + ": redacted"
		}
		lines = append(lines, strings.NewReplacer("\r", " ", "\n", " ").Replace(line))
	}
	return admin.Explain{URL: url, Method: method, Headers: strings.Join(lines, "\n")}
}

func (c *explainCommand) Run(ctx context.Context, s *streams) error {
	in := requestOf(c.URL, c.Method, c.Header)
	in.From = c.From
	if _, err := in.Request(); err != nil {
		return usagef("%v", err)
	}
	in.Fetch = c.Fetch
	c.complete = c.withoutServer
	return c.ask(ctx, func(client *admin.Client) error {
		e, err := client.Explain(ctx, in)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.out, e)
		}
		return writeExplained(s.out, e)
	})
}

// withoutServer explains by the configuration file and the store.
func (c *explainCommand) withoutServer(cfg *admin.Config, st *stores) (end func(), err error) {
	file, err := readConfig(c.Config)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no server runs here: %w; start isr serve, give its configuration file with --config, or a server with --server", err)
	}
	if err != nil {
		return nil, err
	}
	discard := slog.New(slog.DiscardHandler)
	routes, err := siteConfig(file, discard)
	if err != nil {
		return nil, err
	}
	cache, err := isr.New(st.meta, st.bodies, isr.Config{Memory: -1, Poll: -1, Logger: discard})
	if err != nil {
		return nil, err
	}
	site, err := gateway.NewSite(cache, routes)
	if err != nil {
		return nil, errors.Join(err, cache.Close(context.Background()))
	}
	cfg.Explain = func(r *http.Request, fetch bool) (admin.Explained, store.Key, error) {
		e, k, err := explainRequest(file, site, r, fetch)
		e.Memory = nil
		return e, k, err
	}
	return func() {
		site.Close()
		_ = cache.Close(context.Background()) // it has no work in progress
	}, nil
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
	if f.BothSchemes() {
		p.KeyScheme(schemeOf(f, r), f.PublicScheme)
	}
	return p, nil
}

// schemeOf returns the scheme of a request to be explained, as its listener knows it.
func schemeOf(f *config.File, r *http.Request) string { return f.SchemeOf(f.Listen[receiver(f, r)]) }

// explain explains by the present configuration of a server.
func (r *reloader) explain(req *http.Request, fetch bool) (admin.Explained, store.Key, error) {
	r.mu.Lock()
	file := r.current
	r.mu.Unlock()
	e, k, err := explainRequest(file, r.site, req, fetch)
	e.Running = true
	return e, k, err
}

// explainRequest explains what a site with the configuration of a file would do with a request.
// The key is that of the page that it would get; zero if there is none.
func explainRequest(f *config.File, site *gateway.Site, r *http.Request, fetch bool) (e admin.Explained, k store.Key, err error) {
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
