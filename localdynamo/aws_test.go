package localdynamo_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/facetheory/isr/localdynamo"
)

// The tests of this file hold what others measured on AWS, and what an engine
// written from the documentation, or compared with DynamoDB Local alone, gets
// wrong.

// TestSizeToTheByte: what a number costs is seen where an item is full.
func TestSizeToTheByte(t *testing.T) {
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
		mustRefuse(t, err, "Item size has exceeded the maximum allowed size")
	}
}

// TestLongNames: DynamoDB's documentation allows 64 KB for a name, DynamoDB a
// byte less.
func TestLongNames(t *testing.T) {
	db := open(t, localdynamo.Options{})
	it := key("p", "s")
	it[strings.Repeat("n", 65_535)] = num("1")
	put(t, db, it)
	it[strings.Repeat("n", 65_536)] = num("1")
	_, err := db.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: it})
	mustRefuse(t, err, "Attribute name is too large, must be less than 65536 bytes")
}

// TestInexactSum: what 38 digits cannot hold is refused, as an overflow.
func TestInexactSum(t *testing.T) {
	db := open(t, localdynamo.Options{})
	for _, update := range []string{"SET n = :big + :one", "SET n = :big - :one"} {
		_, err := db.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
			TableName: things, Key: key("p", "s"), UpdateExpression: aws.String(update),
			ExpressionAttributeValues: item{":big": num("1e50"), ":one": num("+1")},
		})
		mustRefuse(t, err, "Number overflow")
	}
}
