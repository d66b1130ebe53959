package dynamostore_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"golang.org/x/sync/errgroup"

	"github.com/facetheory/isr/dynamostore"
)

func timeToLive(t *testing.T, db engine, table string) *types.TimeToLiveDescription {
	t.Helper()
	out, err := db.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table})
	if err != nil {
		t.Fatal(err)
	}
	return out.TimeToLiveDescription
}

func TestCreateTable(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := newTable(t, db)
		if err := dynamostore.CheckTable(t.Context(), db, name, nil); err != nil {
			t.Errorf("CheckTable: %v", err)
		}
		ttl := timeToLive(t, db, name)
		if ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled || aws.ToString(ttl.AttributeName) != "ttl" {
			t.Errorf("TTL is %+v", ttl)
		}
		out, err := db.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
		if err != nil {
			t.Fatal(err)
		}
		if out.Table.BillingModeSummary == nil || out.Table.BillingModeSummary.BillingMode != types.BillingModePayPerRequest {
			t.Errorf("billing is %+v", out.Table.BillingModeSummary)
		}
		if err := dynamostore.CreateTable(t.Context(), db, name); err != nil {
			t.Errorf("CreateTable of a table that is there: %v", err)
		}
	})
}

// TestCreateTableConcurrently: several processes start with --create-table.
func TestCreateTableConcurrently(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := newName(t, db)
		var group errgroup.Group
		for range 4 {
			group.Go(func() error { return dynamostore.CreateTable(t.Context(), db, name) })
		}
		if err := group.Wait(); err != nil {
			t.Error(err)
		}
	})
}

// plainTable creates a table with any key schema.
func plainTable(t *testing.T, db engine, keys ...types.KeySchemaElement) string {
	t.Helper()
	name := newName(t, db)
	kinds := map[string]types.ScalarAttributeType{"pk": "S", "sk": "S", "id": "N"}
	input := &dynamodb.CreateTableInput{TableName: &name, KeySchema: keys, BillingMode: types.BillingModePayPerRequest}
	for _, key := range keys {
		input.AttributeDefinitions = append(input.AttributeDefinitions, types.AttributeDefinition{
			AttributeName: key.AttributeName, AttributeType: kinds[*key.AttributeName],
		})
	}
	if _, err := db.CreateTable(t.Context(), input); err != nil {
		t.Fatal(err)
	}
	return name
}

func hashKey(name string) types.KeySchemaElement {
	return types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeHash}
}

func rangeKey(name string) types.KeySchemaElement {
	return types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeRange}
}

func TestCreateTableEnablesTTL(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := plainTable(t, db, hashKey("pk"), rangeKey("sk"))
		wantMessage(t, dynamostore.CheckTable(t.Context(), db, name, nil), name, "TTL is disabled", "isr table create --table "+name)
		if err := dynamostore.CreateTable(t.Context(), db, name); err != nil {
			t.Fatal(err)
		}
		if err := dynamostore.CheckTable(t.Context(), db, name, nil); err != nil {
			t.Errorf("CheckTable: %v", err)
		}
		if ttl := timeToLive(t, db, name); ttl.TimeToLiveStatus != types.TimeToLiveStatusEnabled {
			t.Errorf("TTL is %+v", ttl)
		}
	})
}

func TestTTLOnAnotherAttribute(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := plainTable(t, db, hashKey("pk"), rangeKey("sk"))
		_, err := db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName:               &name,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		wantMessage(t, dynamostore.CreateTable(t.Context(), db, name), name, `"expires"`, `"ttl"`)
		wantMessage(t, dynamostore.CheckTable(t.Context(), db, name, nil), name, `"expires"`, `"ttl"`)
	})
}

func TestWrongKeySchema(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		for found, keys := range map[string][]types.KeySchemaElement{
			"(found pk (string, hash));":                                 {hashKey("pk")},
			"(found id (number, hash), sk (string, range));":             {hashKey("id"), rangeKey("sk")},
			"(found sk (string, hash), pk (string, range)); use another": {hashKey("sk"), rangeKey("pk")},
		} {
			name := plainTable(t, db, keys...)
			for _, err := range []error{
				dynamostore.CheckTable(t.Context(), db, name, nil),
				dynamostore.CreateTable(t.Context(), db, name),
			} {
				wantMessage(t, err, name, "must be pk (string, hash), sk (string, range)", found)
			}
		}
	})
}

func TestNoTable(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		err := dynamostore.CheckTable(t.Context(), db, "isr-not-there", nil)
		wantMessage(t, err, "isr-not-there", "isr table create", "--create-table")
		if !errors.Is(err, dynamostore.ErrNoTable) {
			t.Errorf("%v does not wrap ErrNoTable", err)
		}
		store := newStore(t, db, "isr-not-there", dynamostore.Config{})
		if _, err := store.Read(t.Context(), pk); err == nil {
			t.Error("Read without a table: no error")
		}
	})
}

// A creatingTable is an engine whose tables become active after some DescribeTable calls.
type creatingTable struct {
	engine
	looks int
}

func (c *creatingTable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := c.engine.DescribeTable(ctx, in)
	if err == nil && c.looks > 0 {
		c.looks--
		out.Table.TableStatus = types.TableStatusCreating
	}
	return out, err
}

func TestCreateTableWaits(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := newTable(t, db)
		slow := &creatingTable{engine: db, looks: 1}
		wantMessage(t, dynamostore.CheckTable(t.Context(), slow, name, nil), name, "CREATING", "ACTIVE")
		slow.looks = 2
		if err := dynamostore.CreateTable(t.Context(), slow, name); err != nil {
			t.Fatal(err)
		}
		if slow.looks != 0 {
			t.Error("CreateTable did not wait until the table was active")
		}
		slow.looks = 1 << 30
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := dynamostore.CreateTable(ended, slow, name); err == nil {
			t.Error("CreateTable with an ended context: no error")
		}
	})
}

func TestNew(t *testing.T) {
	t.Parallel()
	if _, err := dynamostore.New(nil, "pages", dynamostore.Config{}); err == nil {
		t.Error("New without a client: no error")
	}
	if _, err := dynamostore.New(&faultyAPI{}, "", dynamostore.Config{}); err == nil {
		t.Error("New without a table: no error")
	}
}

// wantMessage checks that an error is one line and contains the parts.
func wantMessage(t *testing.T, err error, parts ...string) {
	t.Helper()
	if err == nil {
		t.Errorf("no error, want one that says %q", parts)
		return
	}
	for _, part := range append(parts, "table") {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("the error %q does not say %q", err, part)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %q", err)
	}
}

// A describedTable is an engine with another description of its tables.
type describedTable struct {
	engine
	change func(*types.TableDescription)
	ttl    error
}

func (d *describedTable) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := d.engine.DescribeTable(ctx, in)
	if err == nil && d.change != nil {
		d.change(out.Table)
	}
	return out, err
}

func (d *describedTable) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	if d.ttl != nil {
		return nil, d.ttl
	}
	return d.engine.DescribeTimeToLive(ctx, in)
}

// TestGlobalTables: global tables are refused, with the reason and what to do.
func TestGlobalTables(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := newTable(t, db)
		replicas := []types.ReplicaDescription{{RegionName: aws.String("eu-west-1")}, {RegionName: aws.String("us-east-1")}}
		for _, test := range []struct {
			change func(*types.TableDescription)
			words  []string
		}{
			{func(d *types.TableDescription) { d.Replicas = replicas }, []string{"eu-west-1, us-east-1", "leases", "sequence forks", "last writer wins", "remove the replicas"}},
			{func(d *types.TableDescription) { d.GlobalTableVersion = aws.String("2017.11.29") }, []string{"global table", "leases"}},
			{func(d *types.TableDescription) {
				d.Replicas, d.MultiRegionConsistency = replicas, types.MultiRegionConsistencyStrong
			}, []string{"eu-west-1", "strong consistency", "no transactions"}},
		} {
			global := &describedTable{engine: db, change: test.change}
			wantMessage(t, dynamostore.CheckTable(t.Context(), global, name, nil), append(test.words, name)...)
			wantMessage(t, dynamostore.CreateTable(t.Context(), global, name), append(test.words, name)...)
		}
	})
}

// TestUnreadableTTL: an unreadable state of TTL is only a warning.
func TestUnreadableTTL(t *testing.T) {
	t.Parallel()
	onEngines(t, func(t *testing.T, db engine) {
		name := newTable(t, db)
		log := new(strings.Builder)
		denied := &describedTable{engine: db, ttl: &smithy.GenericAPIError{Code: "AccessDeniedException", Message: "no"}}
		if err := dynamostore.CheckTable(t.Context(), denied, name, slog.New(slog.NewTextHandler(log, nil))); err != nil {
			t.Errorf("CheckTable: %v", err)
		}
		for _, word := range []string{"WARN", "TTL", "dynamodb:DescribeTimeToLive", name, "AccessDenied"} {
			if !strings.Contains(log.String(), word) {
				t.Errorf("the log %q does not say %q", log, word)
			}
		}
		if err := dynamostore.CheckTable(t.Context(), denied, name, nil); err != nil {
			t.Errorf("CheckTable without a log: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := dynamostore.CheckTable(ended, db, name, nil); err == nil {
			t.Error("CheckTable with an ended context: no error")
		}
	})
}
