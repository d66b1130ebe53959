package localdynamo_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// keyElements returns a key schema from "h:name" and "r:name".
func keyElements(elements ...string) []types.KeySchemaElement {
	out := make([]types.KeySchemaElement, len(elements))
	for i, e := range elements {
		kind, name, _ := strings.Cut(e, ":")
		out[i] = types.KeySchemaElement{AttributeName: &name, KeyType: types.KeyTypeHash}
		if kind == "r" {
			out[i].KeyType = types.KeyTypeRange
		}
	}
	return out
}

// matchesTable returns a request for a table of matches with a global index by these keys.
// Attributes that begin with n are numbers.
func matchesTable(elements ...string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{
		TableName: aws.String("matches"), BillingMode: types.BillingModePayPerRequest, KeySchema: keyElements("h:id"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("index"), KeySchema: keyElements(elements...), Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	}
	seen := map[string]bool{}
	for _, e := range append(keyElements("h:id"), in.GlobalSecondaryIndexes[0].KeySchema...) {
		if seen[*e.AttributeName] {
			continue
		}
		seen[*e.AttributeName] = true
		kind := types.ScalarAttributeTypeS
		if strings.HasPrefix(*e.AttributeName, "n") {
			kind = types.ScalarAttributeTypeN
		}
		in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: e.AttributeName, AttributeType: kind})
	}
	return in
}

// TestCompositeKeySchemas: a global index has up to four attributes in its hash key and in
// its range key, the hash key first. The texts are AWS's.
func TestCompositeKeySchemas(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		elements string
		want     string
	}{
		{"h:a h:b", ""},
		{"h:a r:b r:n", ""},
		{"h:a h:b h:c h:d r:e r:f r:g r:n", ""},
		{"h:a h:b h:c h:d h:e", "One or more parameter values were invalid: The KeySchema exceeds the maximum allowed number of HASH key attributes"},
		{"h:a r:b r:c r:d r:e r:f", "One or more parameter values were invalid: The KeySchema exceeds the maximum allowed number of RANGE key attributes"},
		{"h:a r:b h:c", "One or more parameter values were invalid: All HASH key attributes must precede RANGE key attributes in the KeySchema"},
		{"h:a r:b r:b", "The KeySchema contains multiple key attributes with the same name"},
		{"r:a h:b", "Invalid KeySchema: The first KeySchemaElement is not a HASH key type"},
	} {
		db := openAt(t, filepath.Join(t.TempDir(), "db"), localdynamo.Options{NoSync: true, SweepInterval: -1})
		out, err := db.CreateTable(t.Context(), matchesTable(strings.Fields(c.elements)...))
		if c.want != "" {
			wantMessage(t, err, c.want)
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", c.elements, err)
			continue
		}
		var described []string
		for _, e := range out.TableDescription.GlobalSecondaryIndexes[0].KeySchema {
			described = append(described, strings.ToLower(string(e.KeyType[:1]))+":"+*e.AttributeName)
		}
		equal(t, strings.Join(described, " "), c.elements)
	}
	db := openAt(t, filepath.Join(t.TempDir(), "db"), localdynamo.Options{NoSync: true, SweepInterval: -1})
	in := matchesTable("h:a")
	in.KeySchema, in.GlobalSecondaryIndexes = keyElements("h:id", "h:a"), nil
	_, err := db.CreateTable(t.Context(), in)
	wantMessage(t, err, "Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
}

// compositeTable returns a DB with an index by two hash and two range attributes, and 5 matches.
func compositeTable(t *testing.T, path string) *localdynamo.DB {
	t.Helper()
	db := openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	if _, err := db.CreateTable(t.Context(), matchesTable("h:cup", "h:region", "r:round", "r:n")); err != nil {
		t.Fatal(err)
	}
	for _, m := range []item{
		{"id": str("5"), "round": str("final"), "n": num("100")},
		{"id": str("4"), "round": str("half"), "n": num("9")},
		{"id": str("3"), "round": str("half"), "n": num("10")},
		{"id": str("2"), "round": str("half"), "n": num("200")},
		{"id": str("1"), "round": str("quarter"), "n": num("-1")},
		{"id": str("lacks a sort key"), "round": str("half")},
		{"id": str("lacks the other"), "n": num("1")},
	} {
		m["cup"], m["region"] = str("winter"), str("north")
		putMatch(t, db, m)
	}
	putMatch(t, db, item{"id": str("6"), "cup": str("winter"), "region": str("south"), "round": str("half"), "n": num("1")})
	putMatch(t, db, item{"id": str("7"), "cup": str("winter"), "round": str("half"), "n": num("1")})
	return db
}

func putMatch(t *testing.T, db *localdynamo.DB, it item) {
	t.Helper()
	if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("matches"), Item: it}); err != nil {
		t.Fatal(err)
	}
}

func matchQuery(condition string) *dynamodb.QueryInput {
	all := item{":c": str("winter"), ":g": str("north"), ":r": str("half"), ":h": str("h"), ":n": num("10"), ":m": num("200")}
	in := &dynamodb.QueryInput{TableName: aws.String("matches"), IndexName: aws.String("index"), KeyConditionExpression: &condition, ExpressionAttributeValues: item{}}
	for name, v := range all {
		if strings.Contains(condition, name) {
			in.ExpressionAttributeValues[name] = v
		}
	}
	for _, name := range []string{"round", "region"} {
		if strings.Contains(condition, name) {
			*in.KeyConditionExpression = strings.ReplaceAll(*in.KeyConditionExpression, name, "#"+name)
			if in.ExpressionAttributeNames == nil {
				in.ExpressionAttributeNames = map[string]string{}
			}
			in.ExpressionAttributeNames["#"+name] = name
		}
	}
	return in
}

// TestCompositeKeyConditions: a Query needs equality on each attribute of the hash key, and
// conditions on the range key from left to right, the last of any kind. Items are sorted by
// all attributes of the range key, each by its type; items that lack one are not indexed.
func TestCompositeKeyConditions(t *testing.T) {
	t.Parallel()
	db := compositeTable(t, filepath.Join(t.TempDir(), "db"))
	const both = "cup = :c AND region = :g"
	for _, c := range []struct{ condition, want string }{
		{both, "5 4 3 2 1"},
		{"n > :n AND round = :r AND region = :g AND cup = :c", "2"},
		{both + " AND round = :r", "4 3 2"},
		{both + " AND round > :r", "1"},
		{both + " AND round <= :r", "5 4 3 2"},
		{both + " AND begins_with(round, :h)", "4 3 2"},
		{both + " AND round = :r AND n = :n", "3"},
		{both + " AND round = :r AND n >= :n", "3 2"},
		{both + " AND round = :r AND n < :n", "4"},
		{both + " AND round = :r AND n BETWEEN :n AND :m", "3 2"},
	} {
		for _, page := range []int32{0, 1, 2} {
			in := matchQuery(c.condition)
			if page > 0 {
				in.Limit = &page
			}
			for _, reverse := range []bool{false, true} {
				in.ScanIndexForward, in.ExclusiveStartKey = aws.Bool(!reverse), nil
				var got []string
				for more := true; more; more = in.ExclusiveStartKey != nil {
					out, err := db.Query(t.Context(), in)
					if err != nil {
						t.Fatalf("%s: %v", c.condition, err)
					}
					for _, it := range out.Items {
						got = append(got, it["id"].(*types.AttributeValueMemberS).Value)
					}
					if in.ExclusiveStartKey = out.LastEvaluatedKey; in.ExclusiveStartKey != nil && len(in.ExclusiveStartKey) != 5 {
						t.Fatalf("%s: the last key has %v", c.condition, in.ExclusiveStartKey)
					}
				}
				if reverse {
					for i, j := 0, len(got)-1; i < j; i, j = i+1, j-1 {
						got[i], got[j] = got[j], got[i]
					}
				}
				if strings.Join(got, " ") != c.want {
					t.Errorf("%s in pages of %d, reverse %v: got %v, want %s", c.condition, page, reverse, got, c.want)
				}
			}
		}
	}
	for condition, want := range map[string]string{
		"cup = :c":                                     "Query condition missed key schema element: region",
		"region = :g AND round = :r":                   "Query condition missed key schema element: cup",
		both + " AND n = :n":                           "Query condition missed key schema element: round",
		both + " AND round > :r AND n = :n":            "Query key condition not supported",
		"cup = :c AND region > :g":                     "Query key condition not supported",
		both + " AND alien = :r":                       "Query condition missed key schema element: round",
		both + " AND round = :r AND n = :n AND x = :h": "The number of query conditions (5) exceeds the number of key attributes defined in the schema (4)",
		both + " AND round = :n":                       "One or more parameter values were invalid: Condition parameter type does not match schema type",
	} {
		_, err := db.Query(t.Context(), matchQuery(condition))
		wantMessage(t, err, want)
	}
	in := matchQuery(both)
	in.FilterExpression = aws.String("n > :n")
	in.ExpressionAttributeValues[":n"] = num("1")
	_, err := db.Query(t.Context(), in)
	wantInvalid(t, err, "Primary key attribute: n")
}

// TestCompositeKeysLegacy is the same for KeyConditions.
func TestCompositeKeysLegacy(t *testing.T) {
	t.Parallel()
	db := compositeTable(t, filepath.Join(t.TempDir(), "db"))
	query := func(conditions map[string]types.Condition) (int32, error) {
		out, err := db.Query(t.Context(), &dynamodb.QueryInput{TableName: aws.String("matches"), IndexName: aws.String("index"), KeyConditions: conditions})
		if err != nil {
			return 0, err
		}
		return out.Count, nil
	}
	is := func(operator types.ComparisonOperator, v types.AttributeValue) types.Condition {
		return types.Condition{ComparisonOperator: operator, AttributeValueList: []types.AttributeValue{v}}
	}
	conditions := map[string]types.Condition{"cup": is("EQ", str("winter")), "region": is("EQ", str("north")), "round": is("EQ", str("half")), "n": is("GT", num("9"))}
	if n, err := query(conditions); n != 2 || err != nil {
		t.Errorf("got %d items, error %v", n, err)
	}
	delete(conditions, "round")
	_, err := query(conditions)
	wantMessage(t, err, "Query condition missed key schema element: round")
}

// TestCompositeKeysAreMaintained: updates move entries by any attribute of the key, and values
// that cannot be keys are refused. An index that is added later is the same, also after a
// restart. Its items are scanned in parallel once each. Check compares all entries.
func TestCompositeKeysAreMaintained(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "db")
	db := compositeTable(t, path)
	update := func(id, expression string, values item) error {
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: aws.String("matches"), Key: item{"id": str(id)}, UpdateExpression: &expression, ExpressionAttributeValues: values,
			ExpressionAttributeNames: map[string]string{"#r": "region"},
		})
		return err
	}
	count := func() int32 {
		t.Helper()
		out, err := db.Query(t.Context(), matchQuery("cup = :c AND region = :g"))
		if err != nil {
			t.Fatal(err)
		}
		return out.Count
	}
	if err := update("6", "SET #r = :v", item{":v": str("north")}); err != nil {
		t.Fatal(err)
	}
	equal(t, count(), int32(6))
	if err := update("1", "REMOVE #r", nil); err != nil {
		t.Fatal(err)
	}
	equal(t, count(), int32(5))
	wantInvalid(t, update("2", "SET #r = :v", item{":v": num("1")}), "Type mismatch for Index Key region")
	wantInvalid(t, update("2", "SET #r = :v", item{":v": str("")}), "empty string value")
	wantInvalid(t, update("2", "SET #r = :v", item{":v": str(strings.Repeat("x", 2048-len("winter")+1))}), "Size of hashkey has exceeded")
	if err := update("2", "SET #r = :v", item{":v": str(strings.Repeat("x", 2048-len("winter")))}); err != nil {
		t.Error(err)
	}
	_, err := db.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{
		TableName: aws.String("matches"), AttributeDefinitions: matchesTable("h:round", "h:region").AttributeDefinitions[1:],
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Create: &types.CreateGlobalSecondaryIndexAction{
			IndexName: aws.String("later"), KeySchema: keyElements("h:round", "h:region"), Projection: &types.Projection{ProjectionType: types.ProjectionTypeAll},
		}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for describe(t, db, "matches").TableStatus != types.TableStatusActive {
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = openAt(t, path, localdynamo.Options{NoSync: true, SweepInterval: -1})
	equal(t, count(), int32(4))
	seen := map[string]int{}
	for segment := range int32(3) {
		out, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("matches"), IndexName: aws.String("later"), Segment: &segment, TotalSegments: aws.Int32(3)})
		if err != nil {
			t.Fatal(err)
		}
		for _, it := range out.Items {
			seen[fmt.Sprint(it["id"].(*types.AttributeValueMemberS).Value)]++
		}
	}
	equal(t, len(seen), 6)
}

// TestWarmThroughput: it is described as on AWS, stored, and cannot decrease.
func TestWarmThroughput(t *testing.T) {
	t.Parallel()
	db := openAt(t, filepath.Join(t.TempDir(), "db"), localdynamo.Options{NoSync: true, SweepInterval: -1})
	warm := func(read, write int64) *types.WarmThroughput {
		return &types.WarmThroughput{ReadUnitsPerSecond: &read, WriteUnitsPerSecond: &write}
	}
	described := func() string {
		d := describe(t, db, "matches")
		w, ix := d.WarmThroughput, d.GlobalSecondaryIndexes[0].WarmThroughput
		return fmt.Sprint(w.Status, *w.ReadUnitsPerSecond, *w.WriteUnitsPerSecond, ix.Status, *ix.ReadUnitsPerSecond, *ix.WriteUnitsPerSecond)
	}
	in := matchesTable("h:a")
	in.WarmThroughput = warm(1, 1)
	_, err := db.CreateTable(t.Context(), in)
	wantInvalid(t, err, "Requested ReadUnitsPerSecond for WarmThroughput for table is lower than initial throughput for OnDemand")
	in.WarmThroughput = &types.WarmThroughput{ReadUnitsPerSecond: aws.Int64(12_001)}
	if _, err := db.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	equal(t, described(), "ACTIVE12001 4000ACTIVE12000 4000")
	update := func(in dynamodb.UpdateTableInput) error {
		in.TableName = aws.String("matches")
		_, err := db.UpdateTable(t.Context(), &in)
		return err
	}
	wantInvalid(t, update(dynamodb.UpdateTableInput{WarmThroughput: warm(12_000, 5000)}), "decreasing WarmThroughput is not supported")
	index := func(w *types.WarmThroughput) dynamodb.UpdateTableInput {
		return dynamodb.UpdateTableInput{GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: aws.String("index"), WarmThroughput: w}}}}
	}
	for _, in := range []dynamodb.UpdateTableInput{{WarmThroughput: warm(13_000, 5000)}, index(warm(14_000, 6000))} {
		if err := update(in); err != nil {
			t.Fatal(err)
		}
	}
	wantInvalid(t, update(index(warm(14_000, 5000))), "Requested WriteUnitsPerSecond for WarmThroughput for index index is lower than current WarmThroughput")
	equal(t, described(), "ACTIVE13000 5000ACTIVE14000 6000")
	createTable(t, db, "things", types.ScalarAttributeTypeS)
	if err := update(dynamodb.UpdateTableInput{
		TableName: things, BillingMode: types.BillingModeProvisioned, ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(6)},
		GlobalSecondaryIndexUpdates: []types.GlobalSecondaryIndexUpdate{{Update: &types.UpdateGlobalSecondaryIndexAction{IndexName: aws.String("index"), ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(7), WriteCapacityUnits: aws.Int64(8)}}}},
	}); err != nil {
		t.Fatal(err)
	}
	equal(t, described(), "ACTIVE13000 5000ACTIVE14000 6000") // it never decreases
}
