package localdynamo_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// createIndexed creates the table "games" with the keys player and game, the
// global index "top" by game and score, which includes name, and the local index
// "recent" by player and at, with keys only.
func createIndexed(t testing.TB, db *localdynamo.DB) {
	t.Helper()
	schema := func(hash, rng string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: &hash, KeyType: types.KeyTypeHash},
			{AttributeName: &rng, KeyType: types.KeyTypeRange},
		}
	}
	_, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:   aws.String("games"),
		BillingMode: types.BillingModePayPerRequest,
		KeySchema:   schema("player", "game"),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("player"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("game"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("score"), AttributeType: types.ScalarAttributeTypeN},
			{AttributeName: aws.String("at"), AttributeType: types.ScalarAttributeTypeN},
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String("top"),
			KeySchema:  schema("game", "score"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: []string{"name"}},
		}},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{{
			IndexName:  aws.String("recent"),
			KeySchema:  schema("player", "at"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	if err != nil {
		t.Fatal(err)
	}
}

func putGame(t testing.TB, db *localdynamo.DB, player string, more item) {
	t.Helper()
	it := item{"player": str(player), "game": str("chess"), "name": str("Name of " + player), "note": str("long")}
	for name, v := range more {
		it[name] = v
	}
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("games"), Item: it}); err != nil {
		t.Fatal(err)
	}
}

// queryGames returns one page of an index.
func queryGames(t testing.TB, db *localdynamo.DB, in *dynamodb.QueryInput) *dynamodb.QueryOutput {
	t.Helper()
	in.TableName = aws.String("games")
	in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
	out, err := db.Query(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func topOfChess() *dynamodb.QueryInput {
	return &dynamodb.QueryInput{
		IndexName:                 aws.String("top"),
		KeyConditionExpression:    aws.String("game = :g"),
		ExpressionAttributeValues: item{":g": str("chess")},
	}
}

func players(items []item) []string {
	var out []string
	for _, it := range items {
		out = append(out, it["player"].(*types.AttributeValueMemberS).Value)
	}
	return out
}

func TestGlobalIndex(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	for i, player := range []string{"ann", "bob", "cyd", "dan"} {
		putGame(t, db, player, item{"score": num(fmt.Sprint(10 * (i % 3)))})
	}
	putGame(t, db, "eve", nil) // no score: not in the index

	in := topOfChess()
	in.ScanIndexForward = aws.Bool(false)
	in.Limit = aws.Int32(1)
	var got []string
	for {
		out := queryGames(t, db, in)
		got = append(got, players(out.Items)...)
		if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey == nil {
			break
		}
		if len(in.ExclusiveStartKey) != 3 {
			t.Fatalf("last key %v, want the keys of the index and the table", in.ExclusiveStartKey)
		}
	}
	if want := []string{"cyd", "bob", "dan", "ann"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want by descending score %v", got, want)
	}

	out := queryGames(t, db, topOfChess())
	if first := out.Items[0]; len(first) != 4 || first["note"] != nil || first["name"] == nil {
		t.Errorf("got item %v, want its keys and name", first)
	}
	if units := out.ConsumedCapacity.GlobalSecondaryIndexes["top"].CapacityUnits; aws.ToFloat64(units) != 0.5 || aws.ToFloat64(out.ConsumedCapacity.Table.CapacityUnits) != 0 {
		t.Errorf("consumed %v units of the index, %v of the table", aws.ToFloat64(units), aws.ToFloat64(out.ConsumedCapacity.Table.CapacityUnits))
	}
}

func TestIndexIsMaintained(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	putGame(t, db, "ann", item{"score": num("1")})
	expect := func(want ...string) {
		t.Helper()
		if got := players(queryGames(t, db, topOfChess()).Items); !slices.Equal(got, want) {
			t.Fatalf("the index has %v, want %v", got, want)
		}
		if err := db.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	update := func(text string, values item) {
		t.Helper()
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("games"), Key: item{"player": str("ann"), "game": str("chess")},
			UpdateExpression: &text, ExpressionAttributeValues: values,
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	expect("ann")
	update("SET score = :s", item{":s": num("7")})
	expect("ann")
	update("REMOVE score", nil)
	expect()
	update("SET score = :s", item{":s": num("8")})
	expect("ann")
	if _, err := db.DeleteItem(t.Context(), &dynamodb.DeleteItemInput{TableName: aws.String("games"), Key: item{"player": str("ann"), "game": str("chess")}}); err != nil {
		t.Fatal(err)
	}
	expect()
}

// TestLocalIndexFetchesFromTable: attributes that a local index does not project
// are read from the table, and counted in the capacity.
func TestLocalIndexFetchesFromTable(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	putGame(t, db, "ann", item{"at": num("1")})
	in := &dynamodb.QueryInput{
		IndexName:                 aws.String("recent"),
		ConsistentRead:            aws.Bool(true),
		KeyConditionExpression:    aws.String("player = :p AND #at > :zero"),
		ExpressionAttributeNames:  map[string]string{"#at": "at"},
		ExpressionAttributeValues: item{":p": str("ann"), ":zero": num("0")},
	}
	out := queryGames(t, db, in)
	if len(out.Items) != 1 || len(out.Items[0]) != 3 || aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) != 1 {
		t.Errorf("got %v for %v units, want three keys for 1", out.Items, aws.ToFloat64(out.ConsumedCapacity.CapacityUnits))
	}
	in.Select = types.SelectAllAttributes
	out = queryGames(t, db, in)
	if len(out.Items) != 1 || out.Items[0]["note"] == nil || aws.ToFloat64(out.ConsumedCapacity.CapacityUnits) != 2 {
		t.Errorf("got %v for %v units, want the item for 2", out.Items, aws.ToFloat64(out.ConsumedCapacity.CapacityUnits))
	}
}

// TestIndexWriteCapacity follows AWS's table of write capacity for indexes: one
// unit if an entry is added, removed or changed, two if its key changes, none if
// the entry stays the same.
func TestIndexWriteCapacity(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	for _, step := range []struct {
		update string
		values item
		want   float64 // of the index
	}{
		{"SET note = :v", item{":v": str("outside")}, 0},
		{"SET score = :v", item{":v": num("1")}, 1},
		{"SET note = :v", item{":v": str("still outside")}, 0},
		{"SET #name = :v", item{":v": str("projected")}, 1},
		{"SET score = :v", item{":v": num("2")}, 2},
		{"SET score = :v", item{":v": num("2")}, 0},
		{"REMOVE score", nil, 1},
	} {
		in := &dynamodb.UpdateItemInput{
			TableName: aws.String("games"), Key: item{"player": str("ann"), "game": str("chess")},
			UpdateExpression: &step.update, ExpressionAttributeValues: step.values,
			ReturnConsumedCapacity: types.ReturnConsumedCapacityIndexes,
		}
		if step.update == "SET #name = :v" {
			in.ExpressionAttributeNames = map[string]string{"#name": "name"}
		}
		out, err := db.UpdateItem(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if got := aws.ToFloat64(out.ConsumedCapacity.GlobalSecondaryIndexes["top"].CapacityUnits); got != step.want {
			t.Errorf("%s %v: the index consumed %v units, want %v", step.update, step.values, got, step.want)
		}
		if got := aws.ToFloat64(out.ConsumedCapacity.CapacityUnits); got != step.want+1 {
			t.Errorf("%s %v: consumed %v units in total, want %v", step.update, step.values, got, step.want+1)
		}
	}
}

func TestItemCollectionMetrics(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	ann := item{"player": str("ann")}
	whole := item{"player": str("ann"), "game": str("chess")}
	size := types.ReturnItemCollectionMetricsSize
	one, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("games"), Item: whole, ReturnItemCollectionMetrics: size})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, one.ItemCollectionMetrics.ItemCollectionKey, ann)
	batch, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{
			"games": {{DeleteRequest: &types.DeleteRequest{Key: whole}}},
			*things: {{DeleteRequest: &types.DeleteRequest{Key: key("a", "b")}}}, // no local index
		},
		ReturnItemCollectionMetrics: size,
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, len(batch.ItemCollectionMetrics), 1)
	equal(t, batch.ItemCollectionMetrics["games"][0].ItemCollectionKey, ann)
	_, err = db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("games"), Item: whole, ReturnItemCollectionMetrics: "ALL"})
	wantInvalid(t, err, "[SIZE, NONE]")
}

func TestIndexRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	put := func(it item) error {
		it["player"], it["game"] = str("ann"), str("chess")
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("games"), Item: it})
		return err
	}
	query := func(change func(*dynamodb.QueryInput)) error {
		in := topOfChess()
		in.TableName = aws.String("games")
		change(in)
		_, err := db.Query(t.Context(), in)
		return err
	}
	for _, c := range []struct {
		err   error
		words string
	}{
		{put(item{"score": str("high")}), "Type mismatch for Index Key score"},
		{query(func(in *dynamodb.QueryInput) { in.ConsistentRead = aws.Bool(true) }), "Consistent reads are not supported"},
		{query(func(in *dynamodb.QueryInput) { in.Select = types.SelectAllAttributes }), "ALL_ATTRIBUTES is not supported"},
		{query(func(in *dynamodb.QueryInput) { in.ProjectionExpression = aws.String("note") }), "does not project [note]"},
		{query(func(in *dynamodb.QueryInput) { in.IndexName = aws.String("bottom") }), "does not have the specified index: bottom"},
		{query(func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = item{"player": str("ann"), "game": str("chess")}
		}), "starting key is invalid"},
	} {
		wantInvalid(t, c.err, c.words)
	}
}
