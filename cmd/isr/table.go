package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/facetheory/isr/dynamostore"
)

type tableCommand struct {
	Create tableCreateCommand `cmd:"" help:"Make the table, with expiry (TTL) enabled; one that is there is checked."`
}

type tableCreateCommand struct {
	Table            string `required:"" placeholder:"NAME" help:"Name of the table."`
	Region           string `placeholder:"NAME" help:"AWS region (the SDK's own configuration)."`
	DynamodbEndpoint string `name:"dynamodb-endpoint" placeholder:"URL" help:"Address of DynamoDB, where it is not AWS's own."`
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
	_, err = fmt.Fprintf(s.out, "table %s is ready: keys pk and sk, expiry on ttl\n", c.Table)
	return err
}
