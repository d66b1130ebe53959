package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr/cmd/isr/cli"
	"github.com/facetheory/isr/cmd/isr/server"
	"github.com/facetheory/isr/dynamostore"
)

type tableCommand struct {
	Create tableCreateCommand `cmd:"" help:"Create the table, with time to live (TTL) enabled; an existing table is checked."`
}

type tableCreateCommand struct {
	Table            string `required:"" placeholder:"NAME" help:"Name of the table."`
	Region           string `placeholder:"NAME" help:"AWS region (from the AWS configuration)."`
	DynamodbEndpoint string `name:"dynamodb-endpoint" placeholder:"URL" help:"URL of a DynamoDB endpoint other than AWS's."`
}

func (c *tableCreateCommand) Run(ctx context.Context, s *cli.Streams) error {
	ctx, cancel := context.WithTimeout(ctx, server.TableTime)
	defer cancel()
	f := server.StoreFlags{Table: c.Table, Region: c.Region, DynamodbEndpoint: c.DynamodbEndpoint}
	cfg, err := f.AWSConfig(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := dynamostore.CreateTable(ctx, f.DynamoDB(cfg), c.Table); err != nil {
		return server.Unanswered(err, "DynamoDB", "--dynamodb-endpoint")
	}
	_, err = fmt.Fprintf(s.Out, "table %s is ready: keys pk and sk, TTL attribute ttl\n", c.Table)
	return err
}
