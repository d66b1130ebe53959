package localdynamo_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"pgregory.net/rapid"
)

// TestDifferentialTables creates, describes, updates and deletes tables with a few
// items, so that new indexes have something to backfill.
func TestDifferentialTables(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	round := 0
	rapid.Check(t, func(rt *rapid.T) {
		round++ // after an internal failure, DynamoDB Local cannot use the name any longer
		names := []string{fmt.Sprintf("%s%d-a", p.prefix, round), fmt.Sprintf("%s%d-b", p.prefix, round)}
		defer func() {
			if err := errors.Join(dropAll(context.Background(), p.ours, names), dropAll(context.Background(), p.theirs, names)); err != nil {
				rt.Error(err)
			}
		}()
		p.compareTables(rt, names)
	})
}

func (p *pair) compareTables(rt *rapid.T, names []string) {
	g := &generator{T: rt, table: &table{shape: shapes[0]}}
	for range rapid.IntRange(1, 10).Draw(rt, "requests") {
		if !p.compare(rt, rapid.Custom(func(t *rapid.T) apiCall { return g.with(t).tableCall(names) }).Draw(rt, "request")) {
			return
		}
	}
	for _, name := range names {
		p.compare(rt, describeTable(name))
		p.compare(rt, scanAll(&dynamodb.ScanInput{TableName: &name}))
	}
}

// dropAll deletes the tables that exist.
func dropAll(ctx context.Context, side operations, names []string) error {
	for _, name := range names {
		if _, err := settle(ctx, side, &dynamodb.DescribeTableInput{TableName: &name}); err != nil {
			if isMissing(err) || errors.Is(err, errUnsettled) {
				continue
			}
			return err
		}
		if _, err := side.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: &name}); err != nil && !isMissing(err) && !hasFailed(err) {
			return err
		}
	}
	return nil
}

func isMissing(err error) bool {
	var missing *types.ResourceNotFoundException
	return errors.As(err, &missing)
}

// hasFailed reports whether err is an internal failure of DynamoDB Local.
func hasFailed(err error) bool {
	var known smithy.APIError
	return errors.As(err, &known) && known.ErrorCode() == "InternalFailure"
}

// tableCall generates a request about tables.
func (g *generator) tableCall(names []string) apiCall {
	name := oneOf(g, names...)
	switch g.pick(10) {
	case 3:
		return g.updateTable(name)
	case 4:
		return describeTable(name)
	case 5:
		return afterSettling(newCall(operations.DeleteTable, &dynamodb.DeleteTableInput{TableName: &name}), name)
	case 6:
		return listTables(names, g.between(1, 3))
	case 7:
		return g.updateTimeToLive(name)
	case 8:
		return newCall(operations.DescribeTimeToLive, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	case 9:
		return newCall(operations.PutItem, &dynamodb.PutItemInput{TableName: &name, Item: item{hashName: str(g.text("p", "q")), rangeName: str("s"), "a": num("1"), "b": str(g.text("x", "y"))}})
	}
	return g.createTable(name)
}

// between draws a number from low to high.
func (g *generator) between(low, high int) int {
	return rapid.IntRange(low, high).Draw(g.T, "number")
}

// describeTable returns a call that reads a table's definition when no change is in
// progress.
func describeTable(name string) apiCall {
	in := &dynamodb.DescribeTableInput{TableName: &name}
	return apiCall{in: in, unordered: true, do: func(ctx context.Context, side operations) (any, error) {
		return settle(ctx, side, in)
	}}
}

// afterSettling makes a call return the table's definition after the change is
// complete. On AWS and DynamoDB Local, changes of indexes take time.
func afterSettling(c apiCall, name string) apiCall {
	do := c.do
	c.unordered = true
	c.do = func(ctx context.Context, side operations) (any, error) {
		out, err := do(ctx, side)
		if err != nil {
			return nil, err
		}
		described, err := settle(ctx, side, &dynamodb.DescribeTableInput{TableName: &name})
		if isMissing(err) {
			return out, nil
		}
		return described, err
	}
	return c
}

// errUnsettled means that a table never became ACTIVE. DynamoDB Local sometimes
// loses the work on an index.
var errUnsettled = errors.New("never ACTIVE")

// settle describes a table until no change is in progress. During work on an
// index, DescribeTable of DynamoDB Local sometimes fails.
func settle(ctx context.Context, side operations, in *dynamodb.DescribeTableInput) (*dynamodb.DescribeTableOutput, error) {
	for range 5_000 {
		out, err := side.DescribeTable(ctx, in)
		if hasFailed(err) {
			continue
		}
		if err != nil || isSettled(out.Table) {
			return out, err
		}
	}
	return nil, fmt.Errorf("table %s: %w", *in.TableName, errUnsettled)
}

func isSettled(t *types.TableDescription) bool {
	for _, ix := range t.GlobalSecondaryIndexes {
		if ix.IndexStatus != types.IndexStatusActive {
			return false
		}
	}
	return t.TableStatus == types.TableStatusActive
}

// listTables returns a call that lists the existing ones of these tables. Parallel
// tests have other tables.
func listTables(names []string, limit int) apiCall {
	in := &dynamodb.ListTablesInput{ExclusiveStartTableName: aws.String(strings.TrimSuffix(names[0], "-a")), Limit: aws.Int32(int32(limit))}
	return apiCall{in: in, do: func(ctx context.Context, side operations) (any, error) {
		out, err := side.ListTables(ctx, in)
		if err != nil {
			return nil, err
		}
		found := []string{}
		for _, name := range out.TableNames {
			if name == names[0] || name == names[1] {
				found = append(found, name)
			}
		}
		return &dynamodb.ListTablesOutput{TableNames: found}, nil
	}}
}

func (g *generator) createTable(name string) apiCall {
	s := oneOf(g, shapes...)
	in := s.input(name)
	if g.chance(30) {
		in.BillingMode = oneOf[types.BillingMode](g, types.BillingModeProvisioned, "")
		if g.chance(90) {
			in.ProvisionedThroughput = g.throughput()
			for i := range in.GlobalSecondaryIndexes {
				in.GlobalSecondaryIndexes[i].ProvisionedThroughput = g.throughput()
			}
		}
	}
	if g.chance(15) {
		g.spoilDefinition(in)
	}
	return afterSettling(newCall(operations.CreateTable, in), name)
}

func (g *generator) throughput() *types.ProvisionedThroughput {
	if g.chance(3) {
		return nil
	}
	units := func() *int64 { return aws.Int64(oneOf[int64](g, 1, 2, 5, 0)) }
	return &types.ProvisionedThroughput{ReadCapacityUnits: units(), WriteCapacityUnits: units()}
}

// spoilDefinition makes a definition invalid in one way.
func (g *generator) spoilDefinition(in *dynamodb.CreateTableInput) {
	switch g.pick(8) {
	case 0:
		in.AttributeDefinitions = in.AttributeDefinitions[1:]
	case 1:
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String("unused"), AttributeType: "S"})
	case 2:
		in.KeySchema = append(in.KeySchema, in.KeySchema[0])
	case 3:
		in.KeySchema[0].KeyType = types.KeyTypeRange
	case 4:
		in.AttributeDefinitions[0].AttributeType = "BOOL"
	case 5:
		in.AttributeDefinitions = append(in.AttributeDefinitions, in.AttributeDefinitions[0])
	case 6:
		in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, in.GlobalSecondaryIndexes...)
	case 7:
		in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{
			IndexName: aws.String("wrong"), KeySchema: in.KeySchema[:1], Projection: &types.Projection{ProjectionType: "ALL"},
		})
	}
}

func (g *generator) updateTable(name string) apiCall {
	in := &dynamodb.UpdateTableInput{TableName: &name}
	switch g.pick(5) {
	case 0:
		in.BillingMode = types.BillingModePayPerRequest
	case 1:
		in.BillingMode = types.BillingModeProvisioned
		in.ProvisionedThroughput = g.throughput()
	case 2:
		ix := &types.CreateGlobalSecondaryIndexAction{
			IndexName: aws.String(g.text("all", "added")), Projection: &types.Projection{ProjectionType: oneOf[types.ProjectionType](g, "ALL", "KEYS_ONLY")},
			KeySchema: schemaOf([]keyAttribute{hashKey("b", "S")}),
		}
		in.AttributeDefinitions = []types.AttributeDefinition{{AttributeName: aws.String("b"), AttributeType: "S"}}
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Create: ix}}
	case 3:
		in.GlobalSecondaryIndexUpdates = []types.GlobalSecondaryIndexUpdate{{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: aws.String(g.text("all", "added", "keys"))}}}
	case 4:
		in.DeletionProtectionEnabled = aws.Bool(false) // never true: DynamoDB Local loses it when an index is added
	}
	return afterSettling(newCall(operations.UpdateTable, in), name)
}

func (g *generator) updateTimeToLive(name string) apiCall {
	return newCall(operations.UpdateTimeToLive, &dynamodb.UpdateTimeToLiveInput{TableName: &name, TimeToLiveSpecification: &types.TimeToLiveSpecification{
		AttributeName: aws.String(g.text("ttl", "other")), Enabled: aws.Bool(g.pick(2) == 0),
	}})
}
