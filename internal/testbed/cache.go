// Package testbed is for tests: what the tests of several packages are built on.
package testbed

import (
	"cmp"
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/facetheory/isr"
	"github.com/facetheory/isr/dirbody"
	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
)

// Table returns a store on an empty embedded table, until the end of the test.
func Table(t testing.TB) *dynamostore.Store {
	t.Helper()
	api := localdynamotest.New(t)
	if err := dynamostore.CreateTable(t.Context(), api, "pages"); err != nil {
		t.Fatal(err)
	}
	table, err := dynamostore.New(api, "pages", dynamostore.Config{})
	if err != nil {
		t.Fatal(err)
	}
	return table
}

// Bodies returns a store of bodies in an empty folder, until the end of the test.
func Bodies(t testing.TB) *dirbody.Store {
	t.Helper()
	bodies, err := dirbody.Open(t.TempDir(), dirbody.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := bodies.Close(); err != nil {
			t.Error(err)
		}
	})
	return bodies
}

// Cache returns a cache on a table, until the end of the test. Without a logger in its
// configuration it logs nothing, and without a StoreTimeout it waits for the store for a minute: on
// a busy machine, it may take longer than visitors would wait.
func Cache(t testing.TB, table *dynamostore.Store, cfg isr.Config) *isr.Cache {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.StoreTimeout = cmp.Or(cfg.StoreTimeout, time.Minute)
	cache, err := isr.New(table, Bodies(t), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := cache.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return cache
}
