package localdynamo_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"pgregory.net/rapid"

	"github.com/facetheory/isr/localdynamo"
)

func rangeKeys(items []item) string {
	var keys []string
	for _, it := range items {
		switch v := it["sk"].(type) {
		case *types.AttributeValueMemberS:
			keys = append(keys, v.Value)
		case *types.AttributeValueMemberN:
			keys = append(keys, v.Value)
		}
	}
	return strings.Join(keys, " ")
}

func TestQuery(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for _, pk := range []string{"p", "p\x00", "pp", "o"} {
		for _, sk := range []string{"a", "aa", "ab", "b", "c", "\x00", "é"} {
			put(t, db, item{"pk": str(pk), "sk": str(sk), "n": num(fmt.Sprint(len(sk)))})
		}
	}
	values := item{":p": str("p")}
	query := func(condition string, more func(*dynamodb.QueryInput), extra ...string) *dynamodb.QueryOutput {
		t.Helper()
		in := &dynamodb.QueryInput{TableName: things, KeyConditionExpression: &condition, ExpressionAttributeValues: item{}}
		for name, v := range values {
			in.ExpressionAttributeValues[name] = v
		}
		for i := 0; i < len(extra); i += 2 {
			in.ExpressionAttributeValues[extra[i]] = str(extra[i+1])
		}
		if more != nil {
			more(in)
		}
		out, err := db.Query(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", condition, err)
		}
		return out
	}
	for _, c := range []struct {
		condition string
		extra     []string
		want      string
	}{
		{"pk = :p", nil, "\x00 a aa ab b c é"},
		{"pk = :p AND sk = :s", []string{":s", "a"}, "a"},
		{"pk = :p AND sk < :s", []string{":s", "ab"}, "\x00 a aa"},
		{"pk = :p AND sk <= :s", []string{":s", "ab"}, "\x00 a aa ab"},
		{"pk = :p AND sk > :s", []string{":s", "a"}, "aa ab b c é"},
		{"pk = :p AND sk >= :s", []string{":s", "a"}, "a aa ab b c é"},
		{"pk = :p AND begins_with(sk, :s)", []string{":s", "a"}, "a aa ab"},
		{"pk = :p AND sk BETWEEN :s AND :t", []string{":s", "aa", ":t", "b"}, "aa ab b"},
		{"pk = :p AND sk BETWEEN :s AND :t", []string{":s", "x", ":t", "y"}, ""},
	} {
		equal(t, rangeKeys(query(c.condition, nil, c.extra...).Items), c.want)
		reversed := strings.Fields(c.want)
		back := query(c.condition, func(in *dynamodb.QueryInput) { in.ScanIndexForward = aws.Bool(false) }, c.extra...)
		equal(t, len(back.Items), len(reversed))
		for i, sk := range reversed {
			equal(t, back.Items[len(reversed)-1-i]["sk"], str(sk))
		}
	}
	out := query("pk = :p", func(in *dynamodb.QueryInput) {
		in.FilterExpression = aws.String("n = :two")
		in.ProjectionExpression = aws.String("sk")
		in.ExpressionAttributeValues[":two"] = num("2")
		in.ReturnConsumedCapacity = types.ReturnConsumedCapacityTotal
	})
	equal(t, rangeKeys(out.Items), "aa ab é")
	equal(t, out.Items[0], item{"sk": str("aa")})
	equal(t, []int32{out.Count, out.ScannedCount}, []int32{3, 7})
	equal(t, *out.ConsumedCapacity.CapacityUnits, 0.5)
	out = query("pk = :p", func(in *dynamodb.QueryInput) { in.Select = types.SelectCount })
	equal(t, []int32{out.Count, out.ScannedCount}, []int32{7, 7})
	equal(t, len(out.Items), 0)
}

func TestPagination(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for i := range 7 {
		put(t, db, key("p", string(rune('a'+i))))
	}
	for _, forward := range []bool{true, false} {
		var got []string
		var at item
		for range 10 {
			out, err := db.Query(t.Context(), &dynamodb.QueryInput{
				TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")},
				Limit: aws.Int32(2), ExclusiveStartKey: at, ScanIndexForward: &forward,
			})
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, rangeKeys(out.Items))
			if at = out.LastEvaluatedKey; at == nil {
				break
			}
		}
		want := []string{"a b", "c d", "e f", "g"}
		if !forward {
			want = []string{"g f", "e d", "c b", "a"}
		}
		equal(t, got, want)
	}
	// A page that ends with the last item still has a last key.
	out, err := db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")}, Limit: aws.Int32(7),
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, out.LastEvaluatedKey, key("p", "g"))

	for i := range 5 {
		put(t, db, item{"pk": str("large"), "sk": str(fmt.Sprint(i)), "v": str(strings.Repeat("x", 300_000))})
	}
	out, err = db.Query(t.Context(), &dynamodb.QueryInput{
		TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("large")},
	})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, rangeKeys(out.Items), "0 1 2 3") // the fourth crosses 1 MB
	equal(t, out.LastEvaluatedKey, key("large", "3"))
}

func TestQueryRefusals(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	try := func(change func(*dynamodb.QueryInput)) error {
		in := &dynamodb.QueryInput{TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("p")}}
		change(in)
		_, err := db.Query(t.Context(), in)
		return err
	}
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.KeyConditionExpression, in.ExpressionAttributeValues = nil, nil }), "must be specified")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.IndexName = aws.String("gsi") }), "does not have the specified index")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.Limit = aws.Int32(0) }), "Limit")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.FilterExpression = aws.String("sk = :p") }), "non-primary key")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = item{"pk": str("p")} }), "starting key")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.ExclusiveStartKey = key("other", "a") }), "starting key")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.ExpressionAttributeValues[":p"] = num("1") }), "does not match schema type")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.Select = types.SelectSpecificAttributes }), "SPECIFIC_ATTRIBUTES")
	wantInvalid(t, try(func(in *dynamodb.QueryInput) { in.Select = types.SelectAllProjectedAttributes }), "IndexName")
}

func TestScan(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for i := range 100 {
		put(t, db, item{"pk": str(fmt.Sprint(i / 4)), "sk": str(fmt.Sprint(i)), "n": num(fmt.Sprint(i % 2))})
	}
	seen := map[string]int{}
	for segment := range int32(3) {
		var at item
		for {
			out, err := db.Scan(t.Context(), &dynamodb.ScanInput{
				TableName: things, Segment: &segment, TotalSegments: aws.Int32(3), Limit: aws.Int32(7), ExclusiveStartKey: at,
				FilterExpression: aws.String("n = :n"), ExpressionAttributeValues: item{":n": num("1")},
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, it := range out.Items {
				seen[it["sk"].(*types.AttributeValueMemberS).Value]++
			}
			if at = out.LastEvaluatedKey; at == nil {
				break
			}
		}
	}
	equal(t, len(seen), 50)
	for sk, n := range seen {
		if n != 1 {
			t.Errorf("item %s was returned %d times, want once", sk, n)
		}
	}
	_, err := db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, Segment: aws.Int32(0)})
	wantInvalid(t, err, "TotalSegments")
	_, err = db.Scan(t.Context(), &dynamodb.ScanInput{TableName: things, Segment: aws.Int32(2), TotalSegments: aws.Int32(2)})
	wantInvalid(t, err, "less than")
}

// TestNumericRange paginates random numbers with random page sizes.
func TestNumericRange(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		name := fmt.Sprintf("numbers%d", n)
		createTable(t, db, name, types.ScalarAttributeTypeN)
		numbers := rapid.SliceOfN(rapid.IntRange(-50, 50), 1, 20).Draw(rt, "numbers")
		low, high := rapid.IntRange(-60, 0).Draw(rt, "low"), rapid.IntRange(0, 60).Draw(rt, "high")
		want := map[string]bool{}
		for _, x := range numbers {
			text := fmt.Sprintf("%d.5", x)
			if _, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &name, Item: item{"pk": str("p"), "sk": num(text)}}); err != nil {
				rt.Fatal(err)
			}
			if v := floorHalf(x); v >= float64(low) && v <= float64(high) {
				want[text] = true
			}
		}
		last := float64(low)
		var at item
		for {
			out, err := db.Query(t.Context(), &dynamodb.QueryInput{
				TableName: &name, KeyConditionExpression: aws.String("pk = :p AND sk BETWEEN :l AND :h"), Limit: aws.Int32(3), ExclusiveStartKey: at,
				ExpressionAttributeValues: item{":p": str("p"), ":l": num(fmt.Sprint(low)), ":h": num(fmt.Sprint(high))},
			})
			if err != nil {
				rt.Fatal(err)
			}
			for _, it := range out.Items {
				text := it["sk"].(*types.AttributeValueMemberN).Value
				var v float64
				fmt.Sscan(text, &v)
				if v < last || !want[text] {
					rt.Fatalf("%s is out of order or out of range", text)
				}
				last = v
				delete(want, text)
			}
			if at = out.LastEvaluatedKey; at == nil {
				break
			}
		}
		if len(want) > 0 {
			rt.Fatalf("items %v are missing", want)
		}
	})
}

// floorHalf parses the text that "%d.5" formats: -3.5 for -3.
func floorHalf(x int) float64 {
	var v float64
	fmt.Sscan(fmt.Sprintf("%d.5", x), &v)
	return v
}
