package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/internal/admin"
	"github.com/facetheory/isr/internal/backup"
	"github.com/facetheory/isr/internal/handover"
	"github.com/facetheory/isr/localdynamo"
)

type dynamodbCommand struct {
	Listen string `default:"127.0.0.1:8000" placeholder:"ADDR" help:"Address to listen on (${default})."`
	Data   string `default:"./isr-data" type:"path" placeholder:"DIR" help:"Folder of the tables; the data folder of an isr serve that is stopped also works (${default})."`
	Memory bool   `env:"-" help:"Keep the tables in memory, even with --data: they end with the process."`
	Fault  faults `env:"ISR_DYNAMODB_FAULT" placeholder:"KIND=SHARE" help:"Answer a share of the requests, like 0.05 or 5%, with an error of AWS, to test how programs handle it: throttle (ProvisionedThroughputExceededException), conflict (TransactionConflict) or unprocessed (items of batches). May be repeated."`

	server.DynamodbKeys `embed:""`
	server.LogFlag      `embed:""`
}

func (c *dynamodbCommand) Help() string {
	return `Programs use it through any AWS SDK, with this endpoint and any region:

  AWS_ENDPOINT_URL_DYNAMODB=http://127.0.0.1:8000

Acknowledged writes are on disk, unless the tables are in memory (--memory).`
}

func (c *dynamodbCommand) Run(ctx context.Context, s *cli.Streams) (err error) {
	if c.Data == "" && !c.Memory {
		return cli.Usagef("--data is empty; expected a folder, like --data ./isr-data")
	}
	if err := c.Validate("--listen", c.Listen); err != nil {
		return err
	}
	log := c.Logger(s)
	if len(c.Fault) > 0 {
		log.Warn("answering some requests with errors, as --fault wants", "fault", c.Fault.String())
	}
	hangups, stop := server.CatchHangups()
	defer stop()
	defer hangups.Each(ctx, func() { log.Info("SIGHUP has reloaded nothing: isr dynamodb has no configuration file") })()
	if c.Memory {
		db := localdynamo.OpenMemory(localdynamo.Options{})
		defer func() { err = errors.Join(err, db.Close()) }()
		return c.run(ctx, db, "memory", log)
	}
	folder, err := server.Claim(c.Data)
	if err != nil {
		return err
	}
	defer folder.Release()
	db, err := server.OpenEngine(c.Data)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	defer server.KeepProcessors(ctx, db)()
	socket, err := server.ListenSocket(folder, backup.Source{DB: db, Folder: true}.Before(refuseCommands(c.Data)), log)
	if err != nil {
		return err
	}
	defer socket.Stop(ctx, log)
	return c.run(ctx, db, c.Data, log)
}

// run serves the engine until ctx is done. data is where the tables are.
func (c *dynamodbCommand) run(ctx context.Context, db *localdynamo.DB, data string, log *slog.Logger) error {
	server.RelaxCollector()
	served, err := c.Serve(ctx, new(handover.Sockets), "--listen", c.Listen, db, c.Fault.interceptor(), log.With("data", data))
	if err != nil {
		return err
	}
	select {
	case err := <-served.Failed:
		return fmt.Errorf("serving %s: %w", c.Listen, err)
	case <-ctx.Done():
	}
	log.Info("stopping", "grace", server.DefaultGrace)
	grace, cancel := server.WithGrace(ctx, server.DefaultGrace)
	defer cancel()
	served.Stop(grace, log)
	log.Info("stopped")
	return nil
}

// refuseCommands answers commands that ask the server of a site: none is served from the folder.
func refuseCommands(dir string) http.Handler {
	answer := map[string]any{"error": admin.Error{
		Code: "no_site", Message: fmt.Sprintf("data folder %s is used by another isr process", dir), Hint: "stop it, or give another folder with --data",
	}}
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusConflict)
		_ = json.NewEncoder(w).Encode(answer)
	})
}
