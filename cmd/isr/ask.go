package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/store"
)

// pageFlags identify one page.
type pageFlags struct {
	Page   string `arg:"" name:"url" help:"URL of the page, or its key as isr ls shows it."`
	Tenant string `placeholder:"NAME" help:"Tenant of the page, on a site with tenants."`
}

func (f pageFlags) key() (store.Key, error) {
	k, err := store.ParseAddress(f.Tenant, f.Page)
	if err != nil {
		return store.Key{}, cli.Usagef("%v", err)
	}
	return k, nil
}

// askFlags select what a command talks to: the server at --server, else the server that
// runs in the data folder, else the store itself.
type askFlags struct {
	Server string `placeholder:"URL" help:"URL of the admin API of a server, like http://127.0.0.1:9180; its token is taken from ISR_ADMIN_TOKEN."`

	server.StoreFlags `embed:""`

	// complete completes the API over the store, for commands that need more; nil if none does. It
	// returns what ends that.
	complete func(*admin.Config, *server.Stores) (end func(), err error)
}

// ask calls do with a client of the selected server or store.
func (f *askFlags) ask(ctx context.Context, do func(*admin.Client) error) error {
	if f.Server != "" {
		client, err := admin.NewClient(f.Server, os.Getenv(server.TokenVariable), nil)
		if err != nil {
			return cli.Usagef("--server: %v", err)
		}
		err = do(client)
		if unreached := (*url.Error)(nil); errors.As(err, &unreached) {
			return fmt.Errorf("%w; check that isr serve runs there with this --admin address", err)
		}
		return err
	}
	if err := f.Check(); err != nil {
		return err
	}
	if f.Table == "" {
		if transport := server.DialSocket(ctx, f.Data); transport != nil {
			return server.AskThrough(transport, do)
		}
	}
	return f.askStore(ctx, do)
}

// askStore calls do with a client of an API in this process, over the store.
func (f *askFlags) askStore(ctx context.Context, do func(*admin.Client) error) (err error) {
	discard := slog.New(slog.DiscardHandler)
	st, err := f.Open(ctx, false, discard)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if st.Reach != nil {
		if err := st.Reach.MustRead(ctx); err != nil {
			return err
		}
	}
	names, err := f.Named()
	if err != nil {
		return err
	}
	cfg := admin.Config{Downstream: names, Version: cli.Version(), Place: st.Where, Logger: discard}
	if f.complete != nil {
		end, err := f.complete(&cfg, st)
		if err != nil {
			return err
		}
		defer end()
	}
	api, err := admin.New(st.Meta, st.Bodies, cfg)
	if err != nil {
		return err
	}
	return server.AskWithin(api.Handler(), do)
}
