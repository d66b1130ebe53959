package localdynamo_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// The tests of this file check behavior of AWS that others have measured and
// published, and that neither the documentation nor DynamoDB Local shows.

// TestNumberSize measures the size of numbers with items that reach the size
// limit exactly.
func TestNumberSize(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for number, size := range map[string]int{
		"0": 1, "-0": 1, "12": 2, "123": 3, "0042": 2, "1010": 3, "1E125": 2, "1E-100": 2, "15": 2, "1.5": 3, "1.200": 3, "100.5": 4, "3.14159": 5, "-42": 3,
	} {
		it := key("p", "s")
		it["n"] = num(number)
		rest := 400<<10 - len("pk"+"p"+"sk"+"s"+"n"+"pad") - size
		it["pad"] = str(strings.Repeat("x", rest))
		put(t, db, it)
		it["pad"] = str(strings.Repeat("x", rest+1))
		_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it})
		wantInvalid(t, err, "Item size has exceeded the maximum allowed size")
	}
}

// TestAttributeNameLimit: the documentation allows names of 64 KB, AWS allows one
// byte less.
func TestAttributeNameLimit(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	it := key("p", "s")
	it[strings.Repeat("n", 65_535)] = num("1")
	put(t, db, it)
	it[strings.Repeat("n", 65_536)] = num("1")
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it})
	wantInvalid(t, err, "Attribute name is too large, must be less than 65536 bytes")
}

// TestArithmeticBeyond38DigitsOverflows: a result that needs more than 38 digits
// is refused, not rounded.
func TestArithmeticBeyond38DigitsOverflows(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for _, update := range []string{"SET n = :big + :one", "SET n = :big - :one"} {
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: things, Key: key("p", "s"), UpdateExpression: aws.String(update),
			ExpressionAttributeValues: item{":big": num("1e50"), ":one": num("+1")},
		})
		wantInvalid(t, err, "Number overflow")
	}
}

// canceledFor returns the codes of all cancellation reasons, and the first
// message.
func canceledFor(t *testing.T, err error) (codes []string, message string) {
	t.Helper()
	var canceled *types.TransactionCanceledException
	if !errors.As(err, &canceled) {
		t.Fatalf("got %v, want a TransactionCanceledException", err)
	}
	for _, r := range canceled.CancellationReasons {
		codes = append(codes, aws.ToString(r.Code))
		if message == "" {
			message = aws.ToString(r.Message)
		}
	}
	return codes, message
}

func putAction(it item) types.TransactWriteItem {
	return types.TransactWriteItem{Put: &types.Put{TableName: things, Item: it}}
}

// TestInvalidKeyCancelsTransaction: the first key that does not match the schema
// cancels the transaction, as its only reason, before any condition is evaluated.
// An empty key, an item that is too large, and a syntax error are errors of the
// whole request.
func TestInvalidKeyCancelsTransaction(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	failing := putAction(key("p", "s"))
	failing.Put.ConditionExpression = aws.String("attribute_exists(pk)")
	write := func(actions ...types.TransactWriteItem) error {
		_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: actions})
		return err
	}
	codes, message := canceledFor(t, write(failing, putAction(item{"pk": num("7"), "sk": str("s")}), putAction(item{"pk": num("8"), "sk": str("s")})))
	equal(t, codes, []string{"None", "ValidationError", "None"})
	equal(t, message, "One or more parameter values were invalid: Type mismatch for key pk expected: S actual: N")
	for _, unfit := range []item{{"pk": str("p")}, {"pk": num("1"), "sk": str("s")}, {"pk": str("p"), "other": str("s")}} {
		codes, message = canceledFor(t, write(types.TransactWriteItem{Delete: &types.Delete{TableName: things, Key: unfit}}))
		equal(t, codes, []string{"ValidationError"})
		equal(t, message, "The provided key element does not match the schema")
		_, err := db.TransactGetItems(t.Context(), &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
			{Get: &types.Get{TableName: things, Key: unfit}}, {Get: &types.Get{TableName: things, Key: unfit}},
		}})
		codes, message = canceledFor(t, err)
		equal(t, codes, []string{"ValidationError", "None"})
		equal(t, message, "The provided key element does not match the schema")
	}
	large := key("p", "large")
	large["body"] = str(strings.Repeat("x", 400<<10))
	wantInvalid(t, write(failing, putAction(large)), "Item size has exceeded")
	wantInvalid(t, write(failing, putAction(key("", "s"))), "empty string value. Key: pk")
	wantInvalid(t, write(types.TransactWriteItem{Delete: &types.Delete{TableName: things, Key: key("p", "")}}), "empty string value. Key: sk")
	unread := putAction(key("p", "t"))
	unread.Put.ConditionExpression = aws.String("attribute_exists(")
	absent := putAction(key("p", "u"))
	absent.Put.TableName = aws.String("absent")
	wantInvalid(t, write(absent, unread), "Syntax error")
}

// TestTransactionSizeLimitCountsRequest: the 4 MB limit counts the request, not
// the stored items.
func TestTransactionSizeLimitCountsRequest(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	body := str(strings.Repeat("x", 100_000))
	var puts, deletes []types.TransactWriteItem
	for i := range 50 {
		it := key("p", fmt.Sprint(i))
		deletes = append(deletes, types.TransactWriteItem{Delete: &types.Delete{TableName: things, Key: key("p", fmt.Sprint(i))}})
		it["body"] = body
		puts = append(puts, putAction(it))
		put(t, db, it)
	}
	_, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: puts})
	wantInvalid(t, err, "Transaction payload size cannot exceed 4MB")
	if _, err := db.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: deletes}); err != nil {
		t.Fatal(err)
	}
	if get(t, db, "p", "49") != nil {
		t.Error("the item was not deleted")
	}
}

// TestEmptyProjection: if an item has none of the projected attributes, GetItem
// and BatchGetItem return an empty item, TransactGetItems returns none.
func TestEmptyProjection(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	put(t, db, key("p", "s"))
	absent := aws.String("absent")
	one, err := db.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: key("p", "s"), ProjectionExpression: absent})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, one.Item, item{})
	many, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{
		*things: {Keys: []item{key("p", "s")}, ProjectionExpression: absent},
	}})
	if err != nil {
		t.Fatal(err)
	}
	equal(t, many.Responses[*things], []item{{}})
	in := &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{{Get: &types.Get{TableName: things, Key: key("p", "s"), ProjectionExpression: absent}}}}
	together, err := db.TransactGetItems(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, together.Responses, []types.ItemResponse{{}})
}

// TestBatchWriteInvalidKeys: in a batch, a put with an invalid key gets the error
// text for keys.
func TestBatchWriteInvalidKeys(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	for _, unfit := range []item{{"pk": str("p")}, {"pk": num("1"), "sk": str("s")}, {"pk": str("p"), "sk": &types.AttributeValueMemberL{}}} {
		_, err := batchWrite(t, db, []types.WriteRequest{{PutRequest: &types.PutRequest{Item: unfit}}})
		wantInvalid(t, err, "The provided key element does not match the schema")
	}
}
