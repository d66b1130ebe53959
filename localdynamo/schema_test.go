package localdynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// keys returns a key schema with a hash key, and a range key for a second name.
func keys(names ...string) []types.KeySchemaElement {
	var out []types.KeySchemaElement
	for i, name := range names {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(name), KeyType: []types.KeyType{"HASH", "RANGE", "RANGE"}[i]})
	}
	return out
}

// defs returns attribute definitions, of type S or as in "name:N".
func defs(names ...string) []types.AttributeDefinition {
	var out []types.AttributeDefinition
	for _, name := range names {
		name, kind, typed := strings.Cut(name, ":")
		if !typed {
			kind = "S"
		}
		out = append(out, types.AttributeDefinition{AttributeName: &name, AttributeType: types.ScalarAttributeType(kind)})
	}
	return out
}

func units(read, write int64) *types.ProvisionedThroughput {
	return &types.ProvisionedThroughput{ReadCapacityUnits: &read, WriteCapacityUnits: &write}
}

var everything = &types.Projection{ProjectionType: types.ProjectionTypeAll}

// plainTable returns the input for an on-demand table with the string keys pk and
// sk.
func plainTable(name string) *dynamodb.CreateTableInput {
	return &dynamodb.CreateTableInput{
		TableName: &name, BillingMode: types.BillingModePayPerRequest,
		KeySchema: keys("pk", "sk"), AttributeDefinitions: defs("pk", "sk"),
	}
}

func TestCreateTableRefusals(t *testing.T) {
	t.Parallel()
	type in = *dynamodb.CreateTableInput
	long := strings.Repeat("x", 256)
	db := open(t, localdynamo.Options{})
	for words, change := range map[string]func(in){
		"parameter 'TableName' is required":            func(in in) { in.TableName = nil },
		"Invalid TableArn":                             func(in in) { in.TableName = aws.String("arn:aws:s3:::bucket") },
		"length greater than or equal to 1":            func(in in) { in.KeySchema = []types.KeySchemaElement{} },
		"less than or equal to 2":                      func(in in) { in.KeySchema = keys("pk", "sk", "x") },
		"[HASH, RANGE]":                                func(in in) { in.KeySchema[0].KeyType = "FIRST" },
		"'keySchema.1.member.attributeName' failed":    func(in in) { in.KeySchema[0].AttributeName = nil },
		"'attributeDefinitions.1.member.attributeName": func(in in) { in.AttributeDefinitions[0].AttributeName = nil },
		"[B, N, S]":         func(in in) { in.AttributeDefinitions = defs("pk", "sk", "unused:SS") },
		"between 1 and 255": func(in in) { in.KeySchema, in.AttributeDefinitions = keys(long), defs(long) },
		"not defined in AttributeDefinitions. Keys: [pk, x], AttributeDefinitions: [pk, sk]": func(in in) { in.KeySchema = keys("pk", "x") },
		"have the same name":                     func(in in) { in.KeySchema = keys("pk", "pk") },
		"second KeySchemaElement is not a RANGE": func(in in) { in.KeySchema[1].KeyType = "HASH" },
		"does not exactly match":                 func(in in) { in.KeySchema = keys("pk") },
		"[PROVISIONED, PAY_PER_REQUEST]":         func(in in) { in.BillingMode = "FREE" },
		"Neither ReadCapacityUnits":              func(in in) { in.ProvisionedThroughput = units(1, 1) },
		"must both be specified":                 func(in in) { in.BillingMode = "PROVISIONED" },
		"Value '0' at 'provisionedThroughput.r":  func(in in) { in.BillingMode, in.ProvisionedThroughput = "", units(0, 1) },
		"null at 'provisionedThroughput.write": func(in in) {
			in.BillingMode, in.ProvisionedThroughput = "", &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(1)}
		},
		"[STANDARD, STANDARD_INFREQUENT_ACCESS]": func(in in) { in.TableClass = "CHEAP" },
		"resource policies":                      func(in in) { in.ResourcePolicy = aws.String("{}") },
		"global tables":                          func(in in) { in.GlobalTableSourceArn = aws.String("arn") },
	} {
		in := plainTable("refused")
		change(in)
		_, err := db.CreateTable(t.Context(), in)
		wantInvalid(t, err, words)
	}
	_, err := db.CreateTable(t.Context(), nil)
	wantInvalid(t, err, "parameter 'TableName' is required")
}

func TestIndexDefinitionRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	include := func(names ...string) *types.Projection {
		return &types.Projection{ProjectionType: types.ProjectionTypeInclude, NonKeyAttributes: names}
	}
	many := make([]string, 21)
	for i := range many {
		many[i] = fmt.Sprint("x", i)
	}
	good := types.GlobalSecondaryIndex{IndexName: aws.String("index"), KeySchema: keys("a"), Projection: everything}
	local := types.LocalSecondaryIndex{IndexName: aws.String("index"), KeySchema: keys("pk", "a"), Projection: everything}
	for words, change := range map[string]func(*dynamodb.CreateTableInput){
		"List of GlobalSecondaryIndexes is empty":              func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{} },
		"List of LocalSecondaryIndexes is empty":               func(in *dynamodb.CreateTableInput) { in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{} },
		"'globalSecondaryIndexes.1.member.indexName' failed":   func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].IndexName = nil },
		"Member must have length greater than or equal to 3":   func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].IndexName = aws.String("x") },
		"null at 'globalSecondaryIndexes.1.member.keySchema'":  func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].KeySchema = nil },
		"null at 'globalSecondaryIndexes.1.member.projection'": func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].Projection = nil },
		"Unknown ProjectionType: null":                         func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].Projection = &types.Projection{} },
		"[ALL, INCLUDE, KEYS_ONLY]": func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].Projection = &types.Projection{ProjectionType: "SOME"}
		},
		"but NonKeyAttributes is not specified": func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].Projection = include() },
		"ProjectionType is ALL, but": func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes[0].Projection = &types.Projection{ProjectionType: "ALL", NonKeyAttributes: []string{"x"}}
		},
		"less than or equal to 20": func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].Projection = include(many...) },
		"Duplicate attribute name": func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].Projection = include("x", "x") },
		"between 1 and 255":        func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].Projection = include("") },
		"Duplicate index name":     func(in *dynamodb.CreateTableInput) { in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{local} },
		"Keys: [z]":                func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].KeySchema = keys("z") },
		"keys used: [pk, sk]":      func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].KeySchema = keys("sk") },
		"should not be specified":  func(in *dynamodb.CreateTableInput) { in.GlobalSecondaryIndexes[0].ProvisionedThroughput = units(1, 1) },
		"must be specified for index": func(in *dynamodb.CreateTableInput) {
			in.BillingMode, in.ProvisionedThroughput = "", units(1, 1)
		},
		"limit of 20": func(in *dynamodb.CreateTableInput) {
			in.GlobalSecondaryIndexes = nil
			for i := range 21 {
				more := good
				more.IndexName = aws.String(fmt.Sprint("index", i))
				in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, more)
			}
		},
		"limit of 5": func(in *dynamodb.CreateTableInput) {
			for i := range 6 {
				more := local
				more.IndexName = aws.String(fmt.Sprint("local", i))
				in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, more)
			}
		},
		"same leading hash key": func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{IndexName: aws.String("local"), KeySchema: keys("a", "sk"), Projection: everything}}
		},
		"does not have a range key for index: local": func(in *dynamodb.CreateTableInput) {
			in.LocalSecondaryIndexes = []types.LocalSecondaryIndex{{IndexName: aws.String("local"), KeySchema: keys("pk"), Projection: everything}}
		},
		"Table KeySchema does not have a range key": func(in *dynamodb.CreateTableInput) {
			in.KeySchema, in.AttributeDefinitions, in.LocalSecondaryIndexes = keys("pk"), defs("pk", "a"), []types.LocalSecondaryIndex{local}
		},
	} {
		in := plainTable("refused")
		in.AttributeDefinitions = defs("pk", "sk", "a")
		in.GlobalSecondaryIndexes = []types.GlobalSecondaryIndex{good}
		change(in)
		_, err := db.CreateTable(t.Context(), in)
		wantInvalid(t, err, words)
	}
}

// TestTableByARN: requests may name a table by its ARN.
func TestTableByARN(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	arn := arnOf(t, db, "things")
	it := key("a", "b")
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: arn, Item: it}); err != nil {
		t.Fatal(err)
	}
	out, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: arn, Key: it})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out.Item, it)
	equal(t, *describe(t, db, *arn).TableName, "things")
	_, err = db.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{
		TableName: arn, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)},
	})
	if err != nil {
		t.Error(err)
	}
	if _, err := deleteTable(t, db, *arn); err != nil {
		t.Error(err)
	}
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: arn})
	wantNotFound(t, err)
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("arn:aws:dynamodb:us-east-1:123456789012:table/things")})
	wantInvalid(t, err, "Invalid TableArn")
}

// TestNilInputs: like the SDK's client, the engine treats a nil input as an empty
// one.
func TestNilInputs(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	ctx := t.Context()
	_, create := db.CreateTable(ctx, nil)
	_, describe := db.DescribeTable(ctx, nil)
	_, update := db.UpdateTable(ctx, nil)
	_, remove := db.DeleteTable(ctx, nil)
	_, enable := db.UpdateTimeToLive(ctx, nil)
	_, ttl := db.DescribeTimeToLive(ctx, nil)
	wantInvalid(t, create, "parameter 'TableName' is required")
	for _, err := range []error{describe, update, remove, enable, ttl} {
		wantInvalid(t, err, "null at 'tableName'")
	}
	_, tag := db.TagResource(ctx, nil)
	_, untag := db.UntagResource(ctx, nil)
	_, tags := db.ListTagsOfResource(ctx, nil)
	for _, err := range []error{tag, untag, tags} {
		wantInvalid(t, err, "null at '")
	}
	if out, err := db.ListTables(ctx, nil); err != nil || len(out.TableNames) != 1 {
		t.Errorf("list: %v, %v", out, err)
	}
}

// TestDescriptionIsACopy: the caller may modify a description.
func TestDescriptionIsACopy(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	d := describe(t, db, "games").GlobalSecondaryIndexes[0]
	*d.IndexName, *d.ProvisionedThroughput.ReadCapacityUnits, d.Projection.NonKeyAttributes[0] = "changed", 99, "changed"
	again := describe(t, db, "games").GlobalSecondaryIndexes[0]
	equal(t, *again.IndexName, "top")
	equal(t, *again.ProvisionedThroughput.ReadCapacityUnits, int64(0))
	equal(t, again.Projection.NonKeyAttributes, []string{"name"})
}
