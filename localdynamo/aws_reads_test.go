package localdynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/localdynamo"
)

// wantMessage requires a ValidationException with exactly this message.
func wantMessage(t *testing.T, err error, want string) {
	t.Helper()
	var e *smithy.GenericAPIError
	if !errors.As(err, &e) || e.Code != "ValidationException" || e.Message != want {
		t.Errorf("got  %v\nwant a ValidationException: %s", err, want)
	}
}

// TestFilterOnUnprojectedAttributes: a Query refuses a filter on attributes that
// the index does not project. A Scan treats them as absent, even if it fetches
// whole items for a local index.
func TestFilterOnUnprojectedAttributes(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	putGame(t, db, "ann", item{"at": num("1"), "score": num("5"), "more": str("o")})
	for index, condition := range map[string]string{"top": "game = :k", "recent": "player = :k"} {
		for _, sel := range []types.Select{"", types.SelectCount} {
			_, err := db.Query(t.Context(), &dynamodb.QueryInput{
				TableName: aws.String("games"), IndexName: &index, KeyConditionExpression: &condition, Select: sel,
				FilterExpression: aws.String("note = :k OR attribute_exists(more)"), ExpressionAttributeValues: item{":k": str("k")},
			})
			wantMessage(t, err, "One or more parameter values were invalid: Secondary index "+index+" does not project one or more filter attributes: [more, note]")
		}
		for filter, want := range map[string]int32{"attribute_exists(note)": 0, "NOT attribute_exists(note)": 1} {
			out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("games"), IndexName: &index, FilterExpression: &filter})
			if err != nil || out.Count != want || out.ScannedCount != 1 {
				t.Errorf("Scan of %s with %s: %+v, %v; want %d of 1", index, filter, out, err, want)
			}
		}
	}
	_, err := db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("games"), IndexName: aws.String("top"),
		KeyConditions: map[string]types.Condition{"game": {ComparisonOperator: types.ComparisonOperatorEq, AttributeValueList: []types.AttributeValue{str("chess")}}},
		QueryFilter:   map[string]types.Condition{"note": {ComparisonOperator: types.ComparisonOperatorNotNull}},
	})
	wantMessage(t, err, "One or more parameter values were invalid: Secondary index top does not project one or more filter attributes: [note]")
	whole, err := db.Scan(t.Context(), &dynamodb.ScanInput{
		TableName: aws.String("games"), IndexName: aws.String("recent"), Select: types.SelectAllAttributes, FilterExpression: aws.String("attribute_not_exists(note)"),
	})
	if err != nil || len(whole.Items) != 1 || whole.Items[0]["note"] == nil {
		t.Errorf("got %+v, %v; want the whole item", whole, err)
	}
}

// TestQueryErrorTexts and TestScanErrorTexts: Query and Scan share most error
// texts, but not all.
func TestQueryErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	const operand = "Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: "
	const schema = "One or more parameter values were invalid: Condition parameter type does not match schema type"
	yes, seven := &types.AttributeValueMemberBOOL{Value: true}, num("7")
	for want, change := range map[string]func(in *dynamodb.QueryInput){
		"1 validation error detected: Value 'ALL' at 'select' failed to satisfy constraint: Member must satisfy enum value set: [SPECIFIC_ATTRIBUTES, COUNT, ALL_ATTRIBUTES, ALL_PROJECTED_ATTRIBUTES]": func(in *dynamodb.QueryInput) {
			in.Select = "ALL"
		},
		"1 validation error detected: Value at 'Limit' failed to satisfy constraint: Member must have value greater than or equal to 1": func(in *dynamodb.QueryInput) {
			in.Limit = aws.Int32(0)
		},
		"1 validation error detected: Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES": func(in *dynamodb.QueryInput) {
			in.Select = types.SelectSpecificAttributes
		},
		"The provided starting key is invalid": func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = item{"bad": str("p")}
		},
		"Supplied AttributeValue is empty, must contain exactly one of the supported datatypes": func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey = item{"pk": nil}
		},
		"Query condition missed key schema element: pk": func(in *dynamodb.QueryInput) {
			in.KeyConditionExpression = aws.String("a = :p")
		},
		"Invalid KeyConditionExpression: The expression can not be empty;": func(in *dynamodb.QueryInput) {
			in.KeyConditionExpression = aws.String("")
		},
		"Invalid KeyConditionExpression: The expression has redundant parentheses;": func(in *dynamodb.QueryInput) {
			in.KeyConditionExpression = aws.String("((pk = :p))")
		},
		"Invalid KeyConditionExpression: KeyConditionExpressions cannot have conditions on nested attributes": func(in *dynamodb.QueryInput) {
			in.KeyConditionExpression = aws.String("pk = :p AND sk.a = :p")
		},
		operand + "begins_with, operand type: N":    rangeConditionChange("begins_with(sk, :v)", seven),
		operand + "begins_with, operand type: BOOL": rangeConditionChange("begins_with(sk, :v)", yes),
		operand + "<, operand type: BOOL":           rangeConditionChange("sk < :v", yes),
		operand + ">=, operand type: BOOL":          rangeConditionChange(":v >= sk", yes),
		operand + "BETWEEN, operand type: BOOL":     rangeConditionChange("sk BETWEEN :v AND :p", yes),
		schema:                                      rangeConditionChange("sk = :v", yes),
		"Invalid KeyConditionExpression: KeyConditionExpressions must only contain one condition per key":   rangeConditionChange("sk > :v AND sk < :v", str("v")),
		"The number of query conditions (3) exceeds the number of key attributes defined in the schema (2)": rangeConditionChange("sk > :v AND a = :v", str("v")),
		"Invalid FilterExpression: An expression attribute name used in the document path is not defined; attribute name: #a": func(in *dynamodb.QueryInput) {
			in.FilterExpression = aws.String("#a = :p")
		},
		"Value provided in ExpressionAttributeNames unused in expressions: keys: {#a}": func(in *dynamodb.QueryInput) {
			in.ExpressionAttributeNames = map[string]string{"#a": "a"}
		},
		"Consistent reads are not supported on global secondary indexes": func(in *dynamodb.QueryInput) {
			in.TableName, in.IndexName, in.ConsistentRead = aws.String("games"), aws.String("top"), aws.Bool(true)
			in.KeyConditionExpression = aws.String("game = :p")
		},
	} {
		in := &dynamodb.QueryInput{TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")}}
		change(in)
		_, err := db.Query(t.Context(), in)
		wantMessage(t, err, want)
	}
}

// rangeConditionChange adds a condition on the range key and its operand :v.
func rangeConditionChange(text string, v types.AttributeValue) func(in *dynamodb.QueryInput) {
	return func(in *dynamodb.QueryInput) {
		in.KeyConditionExpression = aws.String("pk = :p AND " + text)
		in.ExpressionAttributeValues[":v"] = v
	}
}

func TestScanErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	pk := aws.String("pk")
	for want, in := range map[string]*dynamodb.ScanInput{
		"1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1": {Limit: aws.Int32(0)},
		"Must specify the AttributesToGet or ProjectionExpression when choosing to get SPECIFIC_ATTRIBUTES":                                 {Select: types.SelectSpecificAttributes},
		"Cannot specify the ProjectionExpression when choosing to get ALL_ATTRIBUTES":                                                       {Select: types.SelectAllAttributes, ProjectionExpression: pk},
		"Cannot specify the ProjectionExpression when choosing to get only the Count":                                                       {Select: types.SelectCount, ProjectionExpression: pk},
		"Cannot specify the ProjectionExpression when choosing to get ALL_PROJECTED_ATTRIBUTES":                                             {Select: types.SelectAllProjectedAttributes, ProjectionExpression: pk},
		"ALL_PROJECTED_ATTRIBUTES can be used only when Querying using an IndexName":                                                        {Select: types.SelectAllProjectedAttributes},
		"The provided starting key is invalid: The provided key element does not match the schema":                                          {ExclusiveStartKey: item{"bad": str("p")}},
		"The TotalSegments parameter is required but was not present in the request when Segment parameter is present":                      {Segment: aws.Int32(0)},
		"The Segment parameter is required but was not present in the request when parameter TotalSegments is present":                      {TotalSegments: aws.Int32(4)},
		"The Segment parameter is zero-based and must be less than parameter TotalSegments: Segment: 5 is not less than TotalSegments: 5":   {Segment: aws.Int32(5), TotalSegments: aws.Int32(5)},
		"Invalid FilterExpression: The expression has redundant parentheses;":                                                               {FilterExpression: aws.String("((attribute_exists(a)))")},
		"Invalid FilterExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N": {
			FilterExpression: aws.String("begins_with(a, :n)"), ExpressionAttributeValues: item{":n": num("1")},
		},
		"Invalid ProjectionExpression: An expression attribute name used in the document path is not defined; attribute name: #a": {ProjectionExpression: aws.String("#a")},
		"Consistent reads are not supported on global secondary indexes":                                                          {TableName: aws.String("games"), IndexName: aws.String("top"), ConsistentRead: aws.Bool(true)},
	} {
		if in.TableName == nil {
			in.TableName = things
		}
		_, err := db.Scan(t.Context(), in)
		wantMessage(t, err, want)
	}
}

// TestProjectionErrorTexts: paths are quoted in the order of the expression, with
// placeholders resolved.
func TestProjectionErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	const overlap = "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: "
	for projection, want := range map[string]string{
		"a, a":            overlap + "[a], path two: [a]",
		"#a, #b":          overlap + "[a], path two: [a]",
		"a, #a":           overlap + "[a], path two: [a]",
		"a, a.c":          overlap + "[a], path two: [a, c]",
		"a.c, a":          overlap + "[a, c], path two: [a]",
		"#a, #b.c":        overlap + "[a], path two: [a, c]",
		"a, a.b.c":        overlap + "[a], path two: [a, b, c]",
		"c, c[0]":         overlap + "[c], path two: [c, [0]]",
		"!!! INVALID !!!": `Syntax error; token: "!", near: "!!"`,
	} {
		var names map[string]string
		switch {
		case strings.Contains(projection, "#b"):
			names = map[string]string{"#a": "a", "#b": "a"}
		case strings.Contains(projection, "#a"):
			names = map[string]string{"#a": "a"}
		}
		_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", "s"), ProjectionExpression: &projection, ExpressionAttributeNames: names})
		wantMessage(t, err, "Invalid ProjectionExpression: "+want)
		_, err = db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
			*things: {Keys: []item{key("p", "s")}, ProjectionExpression: &projection, ExpressionAttributeNames: names},
		}})
		wantMessage(t, err, "Invalid ProjectionExpression: "+want)
	}
}

// TestValuesAreCheckedBeforeTables: an invalid value is reported before a missing
// table, even if the table is in an earlier part of a batch.
func TestValuesAreCheckedBeforeTables(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	absent := aws.String("absent")
	bad := item{"pk": num("x")}
	const want = "The parameter cannot be converted to a numeric value: x"
	_, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: absent, Key: bad})
	wantMessage(t, err, want)
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: absent, ExclusiveStartKey: bad})
	wantMessage(t, err, want)
	_, err = db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: absent, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")}, ExclusiveStartKey: bad,
	})
	wantMessage(t, err, want)
	_, err = db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		"absent": {Keys: []item{key("p", "s")}}, "things": {Keys: []item{bad}},
	}})
	wantMessage(t, err, want)
	_, err = db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{
		"absent": {{PutRequest: &types.PutRequest{Item: key("p", "s")}}}, "things": {{DeleteRequest: &types.DeleteRequest{Key: bad}}},
	}})
	wantMessage(t, err, want)
}

// TestKeyConditionErrorOrder: of several errors in a key condition the first in
// the text is reported, before a missing table.
func TestKeyConditionErrorOrder(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	const operand = "Invalid KeyConditionExpression: Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"
	const undefined = "Invalid KeyConditionExpression: An expression attribute value used in expression is not defined; attribute value: :missing"
	for _, c := range []struct{ table, text, want string }{
		{"things", "pk = :missing AND begins_with(sk, :n)", undefined},
		{"things", "begins_with(sk, :n) AND pk = :missing", operand},
		{"things", "pk = :p AND begins_with(sk, :n) AND sk = :missing", operand},
		{"things", "pk = :p AND begins_with(sk, :n) AND sk > :p", operand},
		{"absent", "pk = :p AND begins_with(sk, :n)", operand},
	} {
		_, err := db.Query(t.Context(), &dynamodb.QueryInput{
			TableName: &c.table, KeyConditionExpression: &c.text, ExpressionAttributeValues: item{":p": str("p"), ":n": num("1")},
		})
		wantMessage(t, err, c.want)
	}
	_, err := db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("absent"), KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")},
	})
	var missing *types.ResourceNotFoundException
	if !errors.As(err, &missing) {
		t.Errorf("got %v, want a ResourceNotFoundException", err)
	}
}

// TestScanRefusesStartKeyOfAnotherSegment: a parallel Scan continues only from
// keys of its own segment. From another's, it would silently skip items.
func TestScanRefusesStartKeyOfAnotherSegment(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for i := range 40 {
		put(t, db, item{"pk": str(fmt.Sprint(i)), "sk": str("x")})
	}
	const total = 4
	scan := func(segment int32, start item) (*dynamodb.ScanOutput, error) {
		return db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, Segment: &segment, TotalSegments: aws.Int32(total), ExclusiveStartKey: start})
	}
	for segment := range int32(total) {
		all, err := scan(segment, nil)
		if err != nil || len(all.Items) < 2 {
			t.Fatalf("segment %d: %v, %v", segment, all, err)
		}
		for at, it := range all.Items {
			rest, err := scan(segment, it)
			if err != nil {
				t.Fatal(err)
			}
			equal(t, len(rest.Items), len(all.Items)-at-1)
			other := (segment + 1) % total
			_, err = scan(other, it)
			wantMessage(t, err, fmt.Sprintf("The provided starting key is invalid: Invalid ExclusiveStartKey. Please use ExclusiveStartKey with correct Segment. TotalSegments: %d Segment: %d", total, other))
		}
	}
}

// TestQueryWithoutRangeKeyHasOnePage: without a range key a Query matches at most
// one item, so there is no next page.
func TestQueryWithoutRangeKeyHasOnePage(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	name := aws.String("hashed")
	if _, err := db.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: name, BillingMode: types.BillingModePayPerRequest,
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("g"), AttributeType: types.ScalarAttributeTypeS},
		},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String("by-g"),
			KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("g"), KeyType: types.KeyTypeHash}},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, pk := range []string{"a", "b"} {
		if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: name, Item: item{"pk": str(pk), "g": str("x")}}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(change func(in *dynamodb.QueryInput)) (*dynamodb.QueryOutput, error) {
		in := &dynamodb.QueryInput{
			TableName: name, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("a")}, Limit: aws.Int32(1),
		}
		change(in)
		return db.Query(t.Context(), in)
	}
	out, err := ask(func(*dynamodb.QueryInput) {})
	if err != nil || len(out.Items) != 1 || out.LastEvaluatedKey != nil {
		t.Errorf("%v, %v; want one item and no last key", out, err)
	}
	for _, reverse := range []bool{false, true} {
		_, err = ask(func(in *dynamodb.QueryInput) {
			in.ExclusiveStartKey, in.ScanIndexForward = item{"pk": str("a")}, aws.Bool(!reverse)
		})
		wantMessage(t, err, "The query can return at most one row and cannot be restarted")
	}
	_, err = ask(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"pk": str("b")} })
	wantMessage(t, err, "The provided starting key is outside query boundaries based on provided conditions")

	// In an index without a range key, several items may match.
	var start item
	for _, want := range []string{"a", "b"} {
		out, err := ask(func(in *dynamodb.QueryInput) {
			in.IndexName, in.KeyConditionExpression, in.ExclusiveStartKey = aws.String("by-g"), aws.String("g = :p"), start
			in.ExpressionAttributeValues = item{":p": str("x")}
		})
		if err != nil || len(out.Items) != 1 {
			t.Fatalf("%v, %v", out, err)
		}
		equal(t, out.Items[0], item{"pk": str(want), "g": str("x")})
		start = out.LastEvaluatedKey
	}
}
