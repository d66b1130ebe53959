package tabletheory_test

import (
	"context"
	"crypto/rand"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"

	"github.com/facetheory/isr/localdynamo/localdynamotest"
	"github.com/facetheory/isr/localdynamo/wire"
	"github.com/facetheory/isr/tabletheory"
)

// onTable puts models into the table of a test.
type onTable struct {
	Table string `theorydb:"-"`
}

func (o onTable) TableName() string { return o.Table }

// score has every property of a table.
type score struct {
	onTable
	Game   string `theorydb:"pk,attr:game"`
	Player int64  `theorydb:"sk,attr:player,index:by-player,pk"`
	Points int64  `theorydb:"attr:points,index:by-player,sk,lsi:by-points,sk"`
	Badge  []byte `theorydb:"attr:badge,index:by-badge,pk,sparse"`
	Until  int64  `theorydb:"ttl,attr:until,omitempty"`
}

// bareScore shares the table and needs only its key.
type bareScore struct {
	onTable
	Game   string `theorydb:"pk,attr:game"`
	Player int64  `theorydb:"sk,attr:player"`
}

// rank shares the table and needs an index of its own.
type rank struct {
	onTable
	Game   string `theorydb:"pk,attr:game"`
	Player int64  `theorydb:"sk,attr:player"`
	Rank   string `theorydb:"attr:rank,index:by-rank,pk"`
}

// tableOfTest returns a table name; the table is deleted when the test ends, if
// it exists.
func tableOfTest(t *testing.T, api *dynamodb.Client) onTable {
	t.Helper()
	name := "tabletheory-" + rand.Text()
	t.Cleanup(func() {
		// The test's own context is done.
		err := tabletheory.New(api).DeleteTable(context.Background(), bareScore{onTable: onTable{name}})
		if err != nil && !errors.Is(err, tabletheory.ErrTableNotFound) {
			t.Errorf("delete the table: %v", err)
		}
	})
	return onTable{name}
}

// tableWords describes the properties of a table that a model decides.
func tableWords(t *testing.T, api *dynamodb.Client, table onTable) []string {
	t.Helper()
	got, err := tabletheory.New(api).DescribeTable(t.Context(), bareScore{onTable: table})
	if err != nil {
		t.Fatal(err)
	}
	words := []string{string(got.TableStatus), string(got.BillingModeSummary.BillingMode), "key " + schemaWords(got, got.KeySchema)}
	for _, index := range got.GlobalSecondaryIndexes {
		words = append(words, strings.Join([]string{"global", *index.IndexName, schemaWords(got, index.KeySchema), string(index.Projection.ProjectionType), string(index.IndexStatus)}, " "))
	}
	for _, index := range got.LocalSecondaryIndexes {
		words = append(words, strings.Join([]string{"local", *index.IndexName, schemaWords(got, index.KeySchema), string(index.Projection.ProjectionType)}, " "))
	}
	ttl, err := api.DescribeTimeToLive(t.Context(), &dynamodb.DescribeTimeToLiveInput{TableName: &table.Table})
	if err != nil {
		t.Fatal(err)
	}
	if ttl.TimeToLiveDescription.TimeToLiveStatus == types.TimeToLiveStatusEnabled {
		words = append(words, "ttl "+*ttl.TimeToLiveDescription.AttributeName)
	}
	slices.Sort(words)
	return words
}

func schemaWords(table *types.TableDescription, schema []types.KeySchemaElement) string {
	var words []string
	for _, element := range schema {
		i := slices.IndexFunc(table.AttributeDefinitions, func(d types.AttributeDefinition) bool { return *d.AttributeName == *element.AttributeName })
		words = append(words, *element.AttributeName+":"+string(table.AttributeDefinitions[i].AttributeType)+":"+string(element.KeyType))
	}
	return strings.Join(words, "+")
}

// scoreWords describes the table of score.
func scoreWords() []string {
	return []string{
		"ACTIVE", "PAY_PER_REQUEST",
		"global by-badge badge:B:HASH ALL ACTIVE",
		"global by-player player:N:HASH+points:N:RANGE ALL ACTIVE",
		"key game:S:HASH+player:N:RANGE",
		"local by-points game:S:HASH+points:N:RANGE ALL",
		"ttl until",
	}
}

func TestCreateTable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := tableOfTest(t, api), tabletheory.New(api)
		if err := db.CreateTable(t.Context(), &score{onTable: table}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(scoreWords(), tableWords(t, api, table)); diff != "" {
			t.Errorf("the table differs: %s", diff)
		}
		err := db.CreateTable(t.Context(), bareScore{onTable: table})
		if _, exists := errors.AsType[*types.ResourceInUseException](err); !exists || !strings.Contains(err.Error(), table.Table) {
			t.Errorf("second call: %v; want the SDK's ResourceInUseException, and the table's name", err)
		}
	})
}

func TestCreateTableOfSeveralModels(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table := tableOfTest(t, api)
		err := tabletheory.New(api).CreateTable(t.Context(), bareScore{onTable: table}, score{onTable: table}, &rank{onTable: table}, score{onTable: table})
		if err != nil {
			t.Fatal(err)
		}
		want := append(scoreWords(), "global by-rank rank:S:HASH ALL ACTIVE")
		slices.Sort(want)
		if diff := cmp.Diff(want, tableWords(t, api, table)); diff != "" {
			t.Errorf("the table differs: %s", diff)
		}
	})
}

// Nothing is sent for models that disagree.
func TestModelsThatDisagree(t *testing.T) {
	t.Parallel()
	type otherKey struct {
		onTable
		Game string `theorydb:"pk,attr:game"`
	}
	type otherType struct {
		onTable
		Game   string `theorydb:"pk,attr:game"`
		Player string `theorydb:"sk,attr:player"`
	}
	type otherTTL struct {
		onTable
		Game   string `theorydb:"pk,attr:game"`
		Player int64  `theorydb:"sk,attr:player"`
		TTL    int64  `theorydb:"ttl,attr:ttl"`
	}
	type otherIndex struct {
		onTable
		Game   string `theorydb:"pk,attr:game"`
		Player int64  `theorydb:"sk,attr:player"`
		Badge  []byte `theorydb:"attr:badge,lsi:by-badge,sk"`
	}
	type otherAttribute struct {
		onTable
		Game   string `theorydb:"pk,attr:game"`
		Player int64  `theorydb:"sk,attr:player"`
		Points string `theorydb:"attr:points,index:by-name,pk"`
	}
	api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, _ func()) error {
		t.Errorf("%s was sent", call.Operation)
		return nil
	}))
	table := onTable{"scores"}
	for want, other := range map[string]any{
		"it belongs to the table others, not scores":              bareScore{onTable: onTable{"others"}},
		"its keys are game (S, hash), not game (S, hash), player": otherKey{onTable: table},
		"its keys are game (S, hash), player (S, range), not":     otherType{onTable: table},
		"its ttl is the attribute ttl, not until":                 otherTTL{onTable: table},
		"its index by-badge is local, with the keys game":         otherIndex{onTable: table},
		"key attribute points has the types N and S":              otherAttribute{onTable: table},
	} {
		err := tabletheory.New(api).EnsureTable(t.Context(), score{onTable: table}, other)
		if !errors.Is(err, tabletheory.ErrInvalidModel) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want ErrInvalidModel with …%s…", err, want)
		}
	}
	if err := tabletheory.New(api).CreateTable(t.Context(), bareScore{}); !errors.Is(err, tabletheory.ErrInvalidModel) {
		t.Errorf("without a name: %v; want ErrInvalidModel", err)
	}
}

func TestEnsureTable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := tableOfTest(t, api), tabletheory.New(api)
		for range 2 {
			if err := db.EnsureTable(t.Context(), score{onTable: table}); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(scoreWords(), tableWords(t, api, table)); diff != "" {
				t.Errorf("the table differs: %s", diff)
			}
		}
		// Other models of the table neither lose nor need this model's indexes.
		if err := db.EnsureTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(scoreWords(), tableWords(t, api, table)); diff != "" {
			t.Errorf("the table has changed: %s", diff)
		}
	})
}

// growing is a model that has gained three indexes and a TTL since its table was
// created.
type growing struct {
	onTable
	Game   string `theorydb:"pk,attr:game"`
	Player int64  `theorydb:"sk,attr:player,index:by-player,pk"`
	Points int64  `theorydb:"attr:points,index:by-player,sk,index:by-points,pk"`
	Name   string `theorydb:"attr:name,index:by-name,pk"`
	Until  int64  `theorydb:"ttl,attr:until"`
}

func growingWords() []string {
	return []string{
		"ACTIVE", "PAY_PER_REQUEST",
		"global by-name name:S:HASH ALL ACTIVE", "global by-player player:N:HASH+points:N:RANGE ALL ACTIVE", "global by-points points:N:HASH ALL ACTIVE",
		"key game:S:HASH+player:N:RANGE",
		"ttl until",
	}
}

func TestEnsureTableAddsIndexes(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := tableOfTest(t, api), tabletheory.New(api)
		if err := db.CreateTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Fatal(err)
		}
		putRaw(t, api, table.Table, attrs{"game": str("chess"), "player": num("1"), "points": num("7"), "name": str("Ada")})
		if err := db.EnsureTable(t.Context(), growing{onTable: table}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(growingWords(), tableWords(t, api, table)); diff != "" {
			t.Errorf("the table differs: %s", diff)
		}
		out, err := api.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table.Table, IndexName: aws.String("by-name")})
		if err != nil || out.Count != 1 {
			t.Errorf("%v, %v; want the item in the new index", out, err)
		}
	})
}

// Processes that start concurrently do not disturb each other, whether the table
// exists or not.
func TestEnsureTableConcurrently(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := tableOfTest(t, api), tabletheory.New(api)
		for _, model := range []any{bareScore{onTable: table}, growing{onTable: table}} {
			var wg sync.WaitGroup
			for range 6 {
				wg.Go(func() {
					if err := db.EnsureTable(t.Context(), model); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
		}
		if diff := cmp.Diff(growingWords(), tableWords(t, api, table)); diff != "" {
			t.Errorf("the table differs: %s", diff)
		}
	})
}

// A difference that cannot be changed is an error and is left as it is.
func TestEnsureTableRefuses(t *testing.T) {
	t.Parallel()
	table := func(change func(*dynamodb.CreateTableInput)) *dynamodb.CreateTableInput {
		in := &dynamodb.CreateTableInput{
			BillingMode:          types.BillingModePayPerRequest,
			KeySchema:            keySchema("game", "player"),
			AttributeDefinitions: definitions("game", "S", "player", "N", "points", "N", "badge", "B"),
			LocalSecondaryIndexes: []types.LocalSecondaryIndex{{
				IndexName: aws.String("by-points"), KeySchema: keySchema("game", "points"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			}},
			GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
				IndexName: aws.String("by-badge"), KeySchema: keySchema("badge"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
			}},
		}
		change(in)
		return in
	}
	refused := map[string]*dynamodb.CreateTableInput{
		"its keys are game (S, hash): expected game (S, hash), player (N, range)": table(func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions = keySchema("game"), definitions("game", "S")
			in.LocalSecondaryIndexes, in.GlobalSecondaryIndexes = nil, nil
		}),
		"its keys are game (S, hash), player (S, range): expected": table(func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = definitions("game", "S", "player", "S", "points", "N", "badge", "B")
		}),
		"it lacks the local index by-points": table(func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes, in.AttributeDefinitions = nil, definitions("game", "S", "player", "N", "badge", "B")
		}),
		"its index by-points is global, with the keys badge (B, hash): expected local": table(func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].IndexName = aws.String("by-points")
			in.LocalSecondaryIndexes[0].IndexName = aws.String("by-badge")
		}),
		"its index by-badge is global, with the keys points (N, hash): expected": table(func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].KeySchema = keySchema("points")
			in.AttributeDefinitions = definitions("game", "S", "player", "N", "points", "N")
		}),
		"its index by-badge projects KEYS_ONLY: expected ALL": table(func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].Projection.ProjectionType = types.ProjectionTypeKeysOnly
		}),
		"its index by-points projects KEYS_ONLY: expected ALL": table(func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes[0].Projection.ProjectionType = types.ProjectionTypeKeysOnly
		}),
	}
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		for want, in := range refused {
			t.Run(want, func(t *testing.T) {
				table, in := tableOfTest(t, api), *in
				in.TableName = &table.Table
				if _, err := api.CreateTable(t.Context(), &in); err != nil {
					t.Fatal(err)
				}
				before := tableWords(t, api, table)
				err := tabletheory.New(api).EnsureTable(t.Context(), score{onTable: table})
				if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), table.Table) {
					t.Errorf("%v; want …%s…", err, want)
				}
				if diff := cmp.Diff(before, tableWords(t, api, table)); diff != "" {
					t.Errorf("the table was changed: %s", diff)
				}
			})
		}
	})
}

func TestEnsureTableWithAnotherTTL(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := tableOfTest(t, api), tabletheory.New(api)
		if err := db.CreateTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Fatal(err)
		}
		_, err := api.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
			TableName:               &table.Table,
			TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
		})
		if err != nil {
			t.Fatal(err)
		}
		err = db.EnsureTable(t.Context(), growing{onTable: table})
		if err == nil || !strings.Contains(err.Error(), `enable TTL for attribute "until": TTL is enabled for attribute "expires"`) {
			t.Errorf("%v; want an error that names both attributes", err)
		}
		if words := tableWords(t, api, table); len(words) != 4 {
			t.Errorf("the table was changed: %v", words)
		}
		if err := db.EnsureTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Errorf("a model without a ttl: %v", err)
		}
	})
}

func TestDeleteTable(t *testing.T) {
	t.Parallel()
	engines(t, func(t *testing.T, api *dynamodb.Client) {
		table, db := tableOfTest(t, api), tabletheory.New(api)
		if err := db.CreateTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Fatal(err)
		}
		if err := db.DeleteTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Fatal(err)
		}
		if got, err := db.DescribeTable(t.Context(), bareScore{onTable: table}); !errors.Is(err, tabletheory.ErrTableNotFound) || !strings.Contains(err.Error(), table.Table) {
			t.Errorf("describe: %v, %v; want ErrTableNotFound that names the table", got, err)
		}
		if err := db.DeleteTable(t.Context(), bareScore{onTable: table}); !errors.Is(err, tabletheory.ErrTableNotFound) || !strings.Contains(err.Error(), table.Table) {
			t.Errorf("delete: %v; want ErrTableNotFound that names the table", err)
		}
	})
}

// onlyItems is a client without table operations.
type onlyItems struct{ tabletheory.API }

func TestClientWithoutTableAPI(t *testing.T) {
	t.Parallel()
	db, model := tabletheory.New(onlyItems{localdynamotest.New(t)}), bareScore{onTable: onTable{"scores"}}
	_, described := db.DescribeTable(t.Context(), model)
	for method, err := range map[string]error{
		"CreateTable": db.CreateTable(t.Context(), model), "EnsureTable": db.EnsureTable(t.Context(), model),
		"DeleteTable": db.DeleteTable(t.Context(), model), "DescribeTable": described,
	} {
		if !errors.Is(err, tabletheory.ErrUnsupported) || !strings.Contains(err.Error(), method) || !strings.Contains(err.Error(), "onlyItems is not a TableAPI") {
			t.Errorf("%v; want ErrUnsupported of %s", err, method)
		}
	}
}

// slowTables is a client whose tables change slowly, like the tables of AWS: the next
// descriptions have these states; an empty state means that the table is gone.
type slowTables struct {
	*dynamodb.Client
	states []types.TableStatus
	last   *types.TableDescription
}

func (s *slowTables) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := s.Client.DescribeTable(ctx, in, options...)
	if len(s.states) == 0 {
		return out, err
	}
	state := s.states[0]
	s.states = s.states[1:]
	if state == "" {
		return nil, &types.ResourceNotFoundException{}
	}
	if err == nil {
		s.last = out.Table
	}
	seen := *s.last
	seen.TableStatus = state
	return &dynamodb.DescribeTableOutput{Table: &seen}, nil
}

// calls counts the requests of a client that were applied, by operation.
type calls map[string]int

func (c calls) count(_ context.Context, call wire.Call, _ func()) error {
	c[call.Operation]++
	return nil
}

func TestCreateTableWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		slow := &slowTables{Client: localdynamotest.New(t), states: []types.TableStatus{"", types.TableStatusCreating, types.TableStatusCreating}}
		if err := tabletheory.New(slow).CreateTable(t.Context(), score{onTable: onTable{"scores"}}); err != nil {
			t.Fatal(err)
		}
		if len(slow.states) != 0 {
			t.Errorf("did not wait for %v", slow.states)
		}
	})
}

// EnsureTable waits for a deletion and then creates the table.
func TestEnsureTableAfterDeletion(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := onTable{"scores"}
		slow := &slowTables{Client: localdynamotest.New(t)}
		db := tabletheory.New(slow)
		if err := db.CreateTable(t.Context(), bareScore{onTable: table}); err != nil {
			t.Fatal(err)
		}
		if _, err := slow.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &table.Table}); err != nil {
			t.Fatal(err)
		}
		if _, err := slow.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &table.Table}); err != nil {
			t.Fatal(err)
		}
		slow.last = &types.TableDescription{}
		slow.states = []types.TableStatus{types.TableStatusDeleting, types.TableStatusDeleting}
		if err := db.EnsureTable(t.Context(), score{onTable: table}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(scoreWords(), tableWords(t, slow.Client, table)); diff != "" {
			t.Errorf("the table differs: %s", diff)
		}
	})
}

// The context bounds every wait, and the error tells what the wait was for.
func TestWaitsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := bareScore{onTable: onTable{"scores"}}
		slow := &slowTables{Client: localdynamotest.New(t)}
		db := tabletheory.New(slow)
		if err := db.CreateTable(t.Context(), model); err != nil {
			t.Fatal(err)
		}
		for state, call := range map[types.TableStatus]func(context.Context, any) error{
			types.TableStatusCreating: func(ctx context.Context, v any) error { return db.EnsureTable(ctx, v) },
			types.TableStatusDeleting: db.DeleteTable,
		} {
			slow.states = slices.Repeat([]types.TableStatus{state}, 10_000)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			began := time.Now()
			err := call(ctx, model)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "the table is "+string(state)) {
				t.Errorf("%s: %v; want DeadlineExceeded, and the state", state, err)
			}
			if took := time.Since(began); took != time.Minute {
				t.Errorf("%s: waited for %v; want a minute", state, took)
			}
			if looks := 10_000 - len(slow.states); looks > 100 {
				t.Errorf("%s: %d descriptions in a minute", state, looks)
			}
		}
		slow.states = []types.TableStatus{types.TableStatusArchived}
		if err := db.EnsureTable(t.Context(), model); err == nil || !strings.Contains(err.Error(), "the table is ARCHIVED: expected ACTIVE") {
			t.Errorf("%v; want an error at once: waiting does not help", err)
		}
	})
}

// A persistent refusal is reported soon; a transient one is not.
func TestPersistentRefusalIsReported(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		model := growing{onTable: onTable{"scores"}}
		var refusals []error
		var seen calls = map[string]int{}
		api := localdynamotest.New(t, localdynamotest.Intercept(func(ctx context.Context, call wire.Call, apply func()) error {
			if call.Operation == "UpdateTable" && len(refusals) > 0 {
				next := refusals[0]
				refusals = refusals[1:]
				if next != nil {
					return next
				}
			}
			return seen.count(ctx, call, apply)
		}))
		db := tabletheory.New(api)
		if err := db.CreateTable(t.Context(), bareScore{onTable: model.onTable}); err != nil {
			t.Fatal(err)
		}
		inUse, limit := &types.ResourceInUseException{}, &types.LimitExceededException{Message: aws.String("one at a time")}
		refusals = slices.Repeat([]error{limit}, 1000)
		err := db.EnsureTable(t.Context(), model)
		if _, ok := errors.AsType[*types.LimitExceededException](err); !ok || !strings.Contains(err.Error(), "add index by-player") {
			t.Errorf("%v; want the SDK's LimitExceededException, and the index", err)
		}
		// Indexes are created one after the other.
		refusals = []error{inUse, limit, inUse, nil, limit, limit, limit, nil, inUse, inUse, inUse, nil}
		if err := db.EnsureTable(t.Context(), model); err != nil {
			t.Error(err)
		}
		if seen["UpdateTable"] != 3 {
			t.Errorf("%d updates; want one for each index", seen["UpdateTable"])
		}
	})
}

// fillingTables is a client whose tables have an index that is never filled.
type fillingTables struct {
	*dynamodb.Client
	index string
}

func (f *fillingTables) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	out, err := f.Client.DescribeTable(ctx, in, options...)
	if err != nil {
		return nil, err
	}
	out.Table.TableStatus = types.TableStatusUpdating
	for i := range out.Table.GlobalSecondaryIndexes {
		if index := &out.Table.GlobalSecondaryIndexes[i]; *index.IndexName == f.index {
			index.IndexStatus = types.IndexStatusCreating
		}
	}
	return out, nil
}

// EnsureTable waits for its own indexes. It waits for an index of another model
// only if it must create one.
func TestEnsureTableWhileAnIndexIsFilled(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		table := onTable{"scores"}
		api := localdynamotest.New(t)
		if err := tabletheory.New(api).CreateTable(t.Context(), score{onTable: table}, rank{onTable: table}); err != nil {
			t.Fatal(err)
		}
		db := tabletheory.New(&fillingTables{api, "by-rank"})
		if err := db.EnsureTable(t.Context(), score{onTable: table}); err != nil {
			t.Errorf("a model whose indexes all exist: %v", err)
		}
		type further struct {
			bareScore
			Name string `theorydb:"attr:name,index:by-name,pk"`
		}
		for _, model := range []any{rank{onTable: table}, further{bareScore: bareScore{onTable: table}}} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := db.EnsureTable(ctx, model)
			if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "index by-rank is CREATING") {
				t.Errorf("%T: %v; want DeadlineExceeded, and what it waited for", model, err)
			}
		}
	})
}

// A deletion whose reply was lost is a success: the SDK's next attempt finds no
// table.
func TestDeleteTableReplyLost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		lost := false
		api := localdynamotest.New(t, localdynamotest.Intercept(func(_ context.Context, call wire.Call, apply func()) error {
			if call.Operation != "DeleteTable" || lost {
				return nil
			}
			lost = true
			apply()
			return errors.New("connection reset")
		}))
		db, model := tabletheory.New(api), bareScore{onTable: onTable{"scores"}}
		if err := db.CreateTable(t.Context(), model); err != nil {
			t.Fatal(err)
		}
		if err := db.DeleteTable(t.Context(), model); err != nil || !lost {
			t.Errorf("%v, lost %t", err, lost)
		}
	})
}

// A busy table is deleted when it is ready; a table that another process creates
// under the same name in between is not.
func TestDeleteTableBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var seen calls = map[string]int{}
		busy := 3
		api := localdynamotest.New(t, localdynamotest.Intercept(func(ctx context.Context, call wire.Call, apply func()) error {
			if call.Operation == "DeleteTable" && busy > 0 {
				busy--
				return &types.ResourceInUseException{}
			}
			return seen.count(ctx, call, apply)
		}))
		recreating := &recreatingTables{Client: api}
		db, model := tabletheory.New(recreating), bareScore{onTable: onTable{"scores"}}
		if err := db.CreateTable(t.Context(), model); err != nil {
			t.Fatal(err)
		}
		if err := db.DeleteTable(t.Context(), model); err != nil {
			t.Fatal(err)
		}
		if busy != 0 || seen["DeleteTable"] != 1 {
			t.Errorf("%d deletions, and %d refusals left", seen["DeleteTable"], busy)
		}
		if _, err := db.DescribeTable(t.Context(), model); err != nil {
			t.Errorf("the other process's table: %v", err)
		}
	})
}

// recreatingTables recreates a table as soon as it is deleted.
type recreatingTables struct{ *dynamodb.Client }

func (r *recreatingTables) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, options ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	out, err := r.Client.DeleteTable(ctx, in, options...)
	if err != nil {
		return nil, err
	}
	return out, tabletheory.New(r.Client).CreateTable(ctx, bareScore{onTable: onTable{*in.TableName}})
}
