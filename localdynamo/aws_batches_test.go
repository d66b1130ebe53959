package localdynamo_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

const (
	mapKeys = "Map keys must satisfy constraint: [Member must have length less than or equal to 255, " +
		"Member must have length greater than or equal to 3, Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+]"
	mapValues = "Map value must satisfy constraint: [Member must have length less than or equal to 25, Member must have length greater than or equal to 1]"
)

// TestBatchGetErrorTexts: keys are checked before any table is looked up, and
// legacy parameters exclude expressions, even for different tables.
func TestBatchGetErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	one := []item{key("p", "s")}
	many := make([]item, 101)
	for want, requests := range map[string]map[string]types.KeysAndAttributes{
		"1 validation error detected: Value at 'RequestItems' failed to satisfy constraint: Member must have length greater than or equal to 1":                    {},
		"1 validation error detected: Value at 'RequestItems.things.member.Keys' failed to satisfy constraint: Member must have length greater than or equal to 1": {"things": {Keys: []item{}}},
		"1 validation error detected: Value at 'RequestItems.things.member.Keys' failed to satisfy constraint: Member must have length less than or equal to 100":  {"things": {Keys: many}},
		"1 validation error detected: Value '{bad!name}' at 'requestItems' failed to satisfy constraint: " + mapKeys:                                               {"bad!name": {Keys: one}},
		"Provided list of item keys contains duplicates": {"things": {Keys: []item{one[0], one[0]}}},
		"Invalid ProjectionExpression: Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [a], path two: [a]": {
			"absent": {Keys: one}, "things": {Keys: one, ProjectionExpression: aws.String("a, a")},
		},
		"Can not use both expression and non-expression parameters in the same request: " +
			"Non-expression parameters: {AttributesToGet} Expression parameters: {ProjectionExpression}": {
			"absent": {Keys: one, ProjectionExpression: aws.String("pk")}, "things": {Keys: one, AttributesToGet: []string{"pk"}},
		},
	} {
		_, err := db.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: requests})
		wantMessage(t, err, want)
	}
}

func TestBatchWriteErrorTexts(t *testing.T) {
	t.Parallel()
	db := open(t, localdynamo.Options{})
	createIndexed(t, db)
	put := func(it item) []types.WriteRequest {
		return []types.WriteRequest{{PutRequest: &types.PutRequest{Item: it}}}
	}
	game := func(score types.AttributeValue) item {
		return item{"player": str("ann"), "game": str("chess"), "score": score}
	}
	const empty = "One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: pk"
	for want, requests := range map[string]map[string][]types.WriteRequest{
		"1 validation error detected: Value at 'RequestItems' failed to satisfy constraint: Member must have length greater than or equal to 1":             {},
		"1 validation error detected: Value '{things=[]}' at 'requestItems' failed to satisfy constraint: " + mapValues:                                     {"things": {}},
		"1 validation error detected: Value at 'RequestItems.things.member' failed to satisfy constraint: Member must have length less than or equal to 25": {"things": make([]types.WriteRequest, 26)},
		"1 validation error detected: Value '{bad!name}' at 'requestItems' failed to satisfy constraint: " + mapKeys:                                        {"bad!name": put(key("p", "s"))},
		"Provided list of item keys contains duplicates":     {"things": append(put(key("p", "s")), types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key("p", "s")}})},
		"The provided key element does not match the schema": {"things": {{DeleteRequest: &types.DeleteRequest{Key: item{"other": str("x")}}}}},
		empty: {"things": put(key("", "s"))},
		"One or more parameter values were invalid: Type mismatch for Index Key score Expected: N Actual: S IndexName: top": {"games": put(game(str("5")))},
		"One or more parameter values were invalid: Type mismatch for Index Key score Expected: N Actual: L IndexName: top": {"games": put(game(&types.AttributeValueMemberL{}))},
	} {
		_, err := db.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: requests})
		wantMessage(t, err, want)
	}
}
