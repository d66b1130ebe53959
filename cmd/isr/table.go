package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr/dynamostore"
)

type tableCommand struct {
	Create tableCreateCommand `cmd:"" help:"Create the table, with time to live (TTL) enabled; an existing table is checked."`
}

type tableCreateCommand struct {
	Table            string `required:"" placeholder:"NAME" help:"Name of the table."`
	Region           string `placeholder:"NAME" help:"AWS region (from the AWS configuration)."`
	DynamodbEndpoint string `name:"dynamodb-endpoint" placeholder:"URL" help:"URL of a DynamoDB endpoint other than that of AWS."`
}

func (c *tableCreateCommand) Run(ctx context.Context, s *streams) error {
	ctx, cancel := context.WithTimeout(ctx, tableTime)
	defer cancel()
	f := storeFlags{Table: c.Table, Region: c.Region, DynamodbEndpoint: c.DynamodbEndpoint}
	cfg, err := f.awsConfig(ctx, slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	if err := dynamostore.CreateTable(ctx, f.dynamoDB(cfg), c.Table); err != nil {
		return unanswered(err, "DynamoDB", "--dynamodb-endpoint")
	}
	_, err = fmt.Fprintf(s.out, "table %s is ready: keys pk and sk, TTL attribute ttl\n", c.Table)
	return err
}
