package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/gateway"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

type explainCommand struct {
	URL    string   `arg:"" name:"url" help:"URL that a visitor requests, like https://example.com/blog/hello."`
	Header []string `short:"H" sep:"none" env:"-" placeholder:"NAME: VALUE" help:"Header of the request; repeatable. Values of Authorization are not sent."`
	Method string   `short:"X" env:"-" default:"GET" placeholder:"METHOD" help:"Method of the request (${default})."`
	Fetch  bool     `env:"-" help:"Ask the origin as a render of the page would, store nothing, and show what would make its answer cacheable."`
	From   string   `env:"-" placeholder:"ADDRESS" help:"Address that sends the request (a visitor's). If it is a trusted proxy's, X-Forwarded-* and Forwarded count; otherwise they are removed."`
	JSON   bool     `name:"json" help:"Write JSON."`
	Config string   `env:"-" default:"isr.yaml" placeholder:"FILE" help:"Configuration file, if no server runs (${default}). A running server uses its own."`

	askFlags `embed:""`
}

func (c *explainCommand) Help() string {
	return `Shows the listener, route and origin of the request, which parts of it are in the key, the page in the memory
of the server and in the store, its lease and purges, and the response that the request would get, with reasons. The
running server decides, by the code that serves, and changes nothing. Without a server, the configuration file and the
store are used, and the memory of a server is unknown.

isr config explain shows the settings of the route and where they come from, from the file alone.`
}

func (c *explainCommand) Run(ctx context.Context, s *cli.Streams) error {
	in := server.RequestOf(c.URL, c.Method, c.Header)
	in.From = c.From
	if _, err := in.Request(); err != nil {
		return cli.Usagef("%v", err)
	}
	in.Fetch = c.Fetch
	c.complete = c.withoutServer
	return c.ask(ctx, func(client *admin.Client) error {
		e, err := client.Explain(ctx, in)
		if err != nil {
			return err
		}
		if c.JSON {
			return writeJSON(s.Out, e)
		}
		return writeExplained(s.Out, e)
	})
}

// withoutServer explains by the configuration file and the store.
func (c *explainCommand) withoutServer(cfg *admin.Config, st *server.Stores) (end func(), err error) {
	file, err := server.ReadConfig(c.Config)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no server runs here: %w; start isr serve, give its configuration file with --config, or a server with --server", err)
	}
	if err != nil {
		return nil, err
	}
	discard := slog.New(slog.DiscardHandler)
	routes, err := server.SiteConfig(file, discard)
	if err != nil {
		return nil, err
	}
	cache, err := isr.New(st.Meta, st.Bodies, isr.Config{Memory: -1, Poll: -1, Logger: discard})
	if err != nil {
		return nil, err
	}
	site, err := gateway.NewSite(cache, routes)
	if err != nil {
		return nil, errors.Join(err, cache.Close(context.Background()))
	}
	cfg.Explain = func(r *http.Request, fetch bool) (admin.Explained, store.Key, error) {
		e, k, err := server.ExplainRequest(file, site, r, fetch)
		e.Memory = nil
		return e, k, err
	}
	return func() {
		site.Close()
		_ = cache.Close(context.Background()) // it has no work in progress
	}, nil
}
