package localdynamo_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// grownItems is how many items of grownAttributes attributes the tests of growth read.
const (
	grownItems      = 25
	grownAttributes = 35_000
)

// TestGrowth sends each operation requests in which one input has grown to grown
// elements, about as many as 16 MB hold, or a quarter of that if each is a parameter. If the work of one grew with the square of its
// elements, its request would take most of an hour, and the test would not end in time:
// each takes about a second. No time is asserted.
func TestGrowth(t *testing.T) {
	db := open(t, localdynamo.Options{})
	wide := item{}
	for i := range grownAttributes {
		wide[fmt.Sprintf("a%05d", i)] = str("1")
	}
	for i := range grownItems {
		wide["pk"], wide["sk"] = str("wide"), str(strconv.Itoa(i))
		put(t, db, wide)
	}
	for name, request := range growingRequests() {
		t.Run(name, func(t *testing.T) {
			var refused interface{ ErrorCode() string }
			if err := request(t.Context(), db); err != nil && !errors.As(err, &refused) {
				t.Fatal(err) // any answer is good: the engine has read the request
			}
		})
	}
}

// growingRequests returns a request for each input that can grow, by operation and input.
func growingRequests() map[string]func(context.Context, *localdynamo.DB) error {
	all := make(map[string]func(context.Context, *localdynamo.DB) error)
	for name, value := range grownValues() {
		it := item{"pk": str("a"), "sk": str("b"), "v": value}
		all["PutItem/"+name] = func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.PutItem(ctx, &dynamodb.PutItemInput{TableName: things, Item: it})
			return err
		}
		all["UpdateItem/"+name] = func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
				TableName: things, Key: key("a", "b"), UpdateExpression: aws.String("SET v = :v"), ExpressionAttributeValues: item{":v": value},
			})
			return err
		}
	}
	for _, requests := range []map[string]func(context.Context, *localdynamo.DB) error{grownReads(), grownWrites(), grownTables()} {
		for name, request := range requests {
			all[name] = request
		}
	}
	return all
}

// grownNames returns grown distinct names.
func grownNames(prefix string) []string {
	names := make([]string, grown)
	for i := range names {
		names[i] = prefix + strconv.Itoa(i)
	}
	return names
}

// grownValues returns values of grown elements.
func grownValues() map[string]types.AttributeValue {
	names := grownNames("")
	twice := append(grownNames(""), names[grown-1])
	binaries := make([][]byte, len(twice))
	list := make([]types.AttributeValue, grown)
	fields := make(item, grown)
	for i, name := range twice {
		binaries[i] = []byte(name)
	}
	for i, name := range names {
		list[i], fields[name] = num(name), str(name)
	}
	nested := types.AttributeValue(&types.AttributeValueMemberL{})
	for range grown / 10 {
		nested = &types.AttributeValueMemberL{Value: []types.AttributeValue{nested}}
	}
	return map[string]types.AttributeValue{
		"set of strings":                  &types.AttributeValueMemberSS{Value: names},
		"set of numbers":                  &types.AttributeValueMemberNS{Value: names},
		"set of strings with a duplicate": &types.AttributeValueMemberSS{Value: twice},
		"set of numbers with a duplicate": &types.AttributeValueMemberNS{Value: twice},
		"set of binaries, a duplicate":    &types.AttributeValueMemberBS{Value: binaries},
		"list":                            &types.AttributeValueMemberL{Value: list},
		"nested lists":                    nested,
		"map":                             &types.AttributeValueMemberM{Value: fields},
		"number":                          num(strings.Repeat("1", 10*grown)),
		"exponent":                        num("1e" + strings.Repeat("0", 10*grown)),
		"string":                          str(strings.Repeat("x", 10*grown)),
	}
}

func grownReads() map[string]func(context.Context, *localdynamo.DB) error {
	names := grownNames("b")
	placeholders := make(map[string]string)
	values := make(item)
	conditions := make(map[string]types.Condition)
	keys := make([]item, grown/4)
	gets := make([]types.TransactGetItem, grown/4)
	for i, name := range names[:grown/4] {
		placeholders["#"+name], values[":"+name] = name, str(name)
		conditions[name] = types.Condition{ComparisonOperator: types.ComparisonOperatorEq, AttributeValueList: []types.AttributeValue{str(name)}}
		keys[i] = key("wide", name)
		gets[i] = types.TransactGetItem{Get: &types.Get{TableName: things, Key: keys[i]}}
	}
	present := make([]item, grownItems)
	for i := range present {
		present[i] = key("wide", strconv.Itoa(i))
	}
	batch := func(in types.KeysAndAttributes) func(context.Context, *localdynamo.DB) error {
		return func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"things": in}})
			return err
		}
	}
	scan := func(in *dynamodb.ScanInput) func(context.Context, *localdynamo.DB) error {
		in.TableName = things
		return func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.Scan(ctx, in)
			return err
		}
	}
	return map[string]func(context.Context, *localdynamo.DB) error{
		"BatchGetItem/AttributesToGet": batch(types.KeysAndAttributes{Keys: present, AttributesToGet: names}),
		"BatchGetItem/names":           batch(types.KeysAndAttributes{Keys: present, ProjectionExpression: aws.String("#b1"), ExpressionAttributeNames: placeholders}),
		"BatchGetItem/keys":            batch(types.KeysAndAttributes{Keys: keys}),
		"Scan/AttributesToGet":         scan(&dynamodb.ScanInput{AttributesToGet: names}),
		"Scan/names":                   scan(&dynamodb.ScanInput{FilterExpression: aws.String("#b1 = :b1"), ExpressionAttributeNames: placeholders, ExpressionAttributeValues: item{":b1": str("1")}}),
		"Scan/values":                  scan(&dynamodb.ScanInput{FilterExpression: aws.String("a = :b1"), ExpressionAttributeValues: values}),
		"Scan/ScanFilter":              scan(&dynamodb.ScanInput{ScanFilter: conditions, ConditionalOperator: types.ConditionalOperatorOr, Select: types.SelectCount}),
		"Scan/ExclusiveStartKey":       scan(&dynamodb.ScanInput{ExclusiveStartKey: values}),
		"Query/KeyConditions": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.Query(ctx, &dynamodb.QueryInput{TableName: things, KeyConditions: conditions})
			return err
		},
		"Query/QueryFilter": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.Query(ctx, &dynamodb.QueryInput{
				TableName: things, QueryFilter: conditions, ConditionalOperator: types.ConditionalOperatorOr,
				KeyConditionExpression: nil, KeyConditions: map[string]types.Condition{"pk": {ComparisonOperator: types.ComparisonOperatorEq, AttributeValueList: []types.AttributeValue{str("wide")}}},
			})
			return err
		},
		"GetItem/Key": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: things, Key: values})
			return err
		},
		"TransactGetItems/actions": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: gets})
			return err
		},
	}
}

func grownWrites() map[string]func(context.Context, *localdynamo.DB) error {
	names := grownNames("b")
	expected := make(map[string]types.ExpectedAttributeValue)
	updates := make(map[string]types.AttributeValueUpdate)
	writes := make([]types.WriteRequest, grown/4)
	actions := make([]types.TransactWriteItem, grown/4)
	for i, name := range names[:grown/4] {
		expected[name] = types.ExpectedAttributeValue{Value: str(name)}
		updates[name] = types.AttributeValueUpdate{Value: str(name)}
		writes[i] = types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("a", name)}}
		actions[i] = types.TransactWriteItem{Delete: &types.Delete{TableName: things, Key: key("a", name)}}
	}
	// As many as an item holds.
	few := &types.AttributeValueMemberSS{Value: names[:min(grown, 40_000)]}
	return map[string]func(context.Context, *localdynamo.DB) error{
		"DeleteItem/Expected": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: things, Key: key("wide", "0"), Expected: expected, ConditionalOperator: types.ConditionalOperatorOr})
			return err
		},
		"UpdateItem/AttributeUpdates": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: things, Key: key("wide", "0"), AttributeUpdates: updates})
			return err
		},
		"UpdateItem/ADD and DELETE": func(ctx context.Context, db *localdynamo.DB) error {
			for _, update := range []string{"ADD s :s", "DELETE s :s"} {
				_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
					TableName: things, Key: key("a", "set"), UpdateExpression: &update, ExpressionAttributeValues: item{":s": few},
				})
				if err != nil {
					return err
				}
			}
			return nil
		},
		"BatchWriteItem/requests": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{"things": writes}})
			return err
		},
		"TransactWriteItems/actions": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: actions})
			return err
		},
	}
}

func grownTables() map[string]func(context.Context, *localdynamo.DB) error {
	names := grownNames("index")
	hash := func(name string) []types.KeySchemaElement {
		return []types.KeySchemaElement{{AttributeName: &name, KeyType: types.KeyTypeHash}}
	}
	all := &types.Projection{ProjectionType: types.ProjectionTypeAll}
	var definitions []types.AttributeDefinition
	var schema []types.KeySchemaElement
	var global []types.GlobalSecondaryIndex
	var local []types.LocalSecondaryIndex
	var updates []types.GlobalSecondaryIndexUpdate
	var tags []types.Tag
	for i := range names {
		definitions = append(definitions, types.AttributeDefinition{AttributeName: &names[i], AttributeType: types.ScalarAttributeTypeS})
		schema = append(schema, types.KeySchemaElement{AttributeName: &names[i], KeyType: types.KeyTypeHash})
		global = append(global, types.GlobalSecondaryIndex{IndexName: &names[i], KeySchema: hash("pk"), Projection: all})
		local = append(local, types.LocalSecondaryIndex{IndexName: &names[i], KeySchema: hash("pk"), Projection: all})
		updates = append(updates, types.GlobalSecondaryIndexUpdate{Delete: &types.DeleteGlobalSecondaryIndexAction{IndexName: &names[i]}})
		tags = append(tags, types.Tag{Key: &names[i], Value: aws.String("v")})
	}
	create := func(change func(*dynamodb.CreateTableInput)) func(context.Context, *localdynamo.DB) error {
		in := &dynamodb.CreateTableInput{
			TableName: aws.String("other"), BillingMode: types.BillingModePayPerRequest, KeySchema: hash("pk"),
			AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS}},
		}
		change(in)
		return func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.CreateTable(ctx, in)
			return err
		}
	}
	update := func(in *dynamodb.UpdateTableInput) func(context.Context, *localdynamo.DB) error {
		in.TableName = things
		return func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.UpdateTable(ctx, in)
			return err
		}
	}
	arn := aws.String("arn:aws:dynamodb:local:000000000000:table/things")
	return map[string]func(context.Context, *localdynamo.DB) error{
		"CreateTable/AttributeDefinitions": create(func(in *dynamodb.CreateTableInput) {
			in.AttributeDefinitions = append(definitions, in.AttributeDefinitions...)
		}),
		"CreateTable/KeySchema": create(func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{IndexName: &names[0], KeySchema: schema, Projection: all}}
			in.AttributeDefinitions = definitions
		}),
		"CreateTable/global indexes": create(func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes = global }),
		"CreateTable/local indexes":  create(func(in *dynamodb.CreateTableInput) { in.LocalSecondaryIndexes = local }),
		"CreateTable/Tags":           create(func(in *dynamodb.CreateTableInput) { in.Tags = tags }),
		"CreateTable/NonKeyAttributes": create(func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{{
				IndexName: &names[0], KeySchema: hash("pk"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: names},
			}}
		}),
		"UpdateTable/AttributeDefinitions": update(&dynamodb.UpdateTableInput{
			AttributeDefinitions:        definitions,
			GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{IndexName: &names[0], KeySchema: hash(names[grown-1]), Projection: all}}},
		}),
		"UpdateTable/indexes": update(&dynamodb.UpdateTableInput{GlobalSecondaryIndexUpdates: updates}),
		"TagResource/Tags": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: arn, Tags: tags})
			return err
		},
		"UntagResource/TagKeys": func(ctx context.Context, db *localdynamo.DB) error {
			_, err := db.UntagResource(ctx, &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: names})
			return err
		},
	}
}

// TestFilterWork: a legacy filter may have any number of conditions. A page ends before
// their number times the number of items is out of hand.
func TestFilterWork(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	const items, conditions = 60, 200_000
	for i := range items {
		put(t, db, key("a", fmt.Sprintf("%02d", i)))
	}
	filter := make(map[string]types.Condition, conditions)
	for i := range conditions {
		filter[strconv.Itoa(i)] = types.Condition{ComparisonOperator: types.ComparisonOperatorEq, AttributeValueList: []types.AttributeValue{str("x")}}
	}
	scanned, pages := 0, 0
	for in := (&dynamodb.ScanInput{TableName: things, ScanFilter: filter, ConditionalOperator: types.ConditionalOperatorOr}); pages == 0 || in.ExclusiveStartKey != nil; pages++ {
		out, err := db.Scan(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		scanned += int(out.ScannedCount)
		in.ExclusiveStartKey = out.LastEvaluatedKey
	}
	if scanned != items || pages < 2 {
		t.Errorf("scanned %d of %d items in %d pages, want several", scanned, items, pages)
	}
}

// TestUpdateCopies: an update whose clauses copy a large attribute is refused before it
// has made more copies than an item holds. It does not run in parallel, because it counts
// the allocations of the process.
func TestUpdateCopies(t *testing.T) {
	db := open(t, localdynamo.Options{})
	list := make([]types.AttributeValue, 150_000)
	for i := range list {
		list[i] = &types.AttributeValueMemberNULL{Value: true}
	}
	it := key("a", "b")
	it["l"] = &types.AttributeValueMemberL{Value: list}
	put(t, db, it)
	var clauses []string
	for i := range 500 {
		clauses = append(clauses, fmt.Sprintf("v%d=l", i))
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{TableName: things, Key: key("a", "b"), UpdateExpression: aws.String("SET " + strings.Join(clauses, ","))})
	runtime.ReadMemStats(&after)
	wantInvalid(t, err, "Item size to update has exceeded the maximum allowed size")
	if used := after.TotalAlloc - before.TotalAlloc; used > 100<<20 {
		t.Errorf("the update allocated %d MB", used>>20)
	}
}
