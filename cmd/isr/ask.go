package main

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net/url"
	"os"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/gateway/admin"
	"github.com/facetheory/isr/store"
)

// pageFlags name one page.
type pageFlags struct {
	Page   string `arg:"" name:"url" help:"URL of the page, or its key as isr ls shows it."`
	Tenant string `placeholder:"NAME" help:"Tenant of the page, on a site with tenants."`
}

func (f pageFlags) key() (store.Key, error) {
	k, err := store.ParseKey(f.Tenant, f.Page)
	if err != nil {
		return store.Key{}, usagef("%v", err)
	}
	return k, nil
}

// askFlags say whom a command asks: a server by its address, else the one that runs
// in the data folder, else the store itself.
type askFlags struct {
	Server string `placeholder:"URL" help:"Ask the server with its admin API there, like http://127.0.0.1:9180; its token is taken from ISR_ADMIN_TOKEN."`

	storeFlags `embed:""`
}

// ask calls do with the client of whoever answers.
func (f *askFlags) ask(ctx context.Context, do func(*admin.Client) error) error {
	if f.Server != "" {
		client, err := admin.NewClient(f.Server, os.Getenv(tokenVariable), nil)
		if err != nil {
			return usagef("--server: %v", err)
		}
		err = do(client)
		if unreached := (*url.Error)(nil); errors.As(err, &unreached) {
			return fmt.Errorf("%w; see that isr serve runs there, with that --admin", err)
		}
		return err
	}
	if err := f.validate(); err != nil {
		return err
	}
	if f.Table == "" {
		if transport := dialSocket(ctx, f.Data); transport != nil {
			return askThrough(transport, do)
		}
	}
	return f.askStore(ctx, do)
}

// askStore answers do from the store, by the very API that a server has.
func (f *askFlags) askStore(ctx context.Context, do func(*admin.Client) error) (err error) {
	nobody := slog.New(slog.DiscardHandler)
	st, err := f.open(ctx, false, nobody)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	if st.reach != nil {
		if err := st.reach.mustRead(ctx); err != nil {
			return err
		}
	}
	api, err := admin.New(pages{st.meta}, st.bodies, admin.Config{Version: version(), Place: st.where, Logger: nobody})
	if err != nil {
		return err
	}
	within := serveWithin(api.Handler())
	defer within.close()
	return askThrough(within.transport(), do)
}

// pages are those of a store, as the API lists them.
type pages struct{ *dynamostore.Store }

var _ admin.Store = pages{}

func (p pages) List(ctx context.Context) iter.Seq2[admin.Listed, error] {
	return func(yield func(admin.Listed, error) bool) {
		for listed, err := range p.Store.List(ctx) {
			if !yield(admin.Listed(listed), err) {
				return
			}
		}
	}
}
