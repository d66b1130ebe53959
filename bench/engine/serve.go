package main

import (
	"context"
	"errors"
	"net/http"
	_ "net/http/pprof" // on the default mux, which has nothing else
	"time"

	"github.com/facetheory/isr/localdynamo"
	"github.com/facetheory/isr/localdynamo/wire"
)

// runServer serves the engine as isr dynamodb does, and profiles on an address of their
// own, until ctx is done.
func runServer(ctx context.Context, address, data, profile string) (err error) {
	db, err := localdynamo.Open(data, localdynamo.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	handler, err := wire.New(db, wire.Config{})
	if err != nil {
		return err
	}
	profiles := &http.Server{Addr: profile, Handler: http.DefaultServeMux, ReadHeaderTimeout: time.Minute}
	go func() { _ = profiles.ListenAndServe() }() // without it profiles fail, the benchmark does not
	defer profiles.Close()
	server := &http.Server{Addr: address, Handler: handler, ReadHeaderTimeout: time.Minute}
	defer context.AfterFunc(ctx, func() { _ = server.Close() })()
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
