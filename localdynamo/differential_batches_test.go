package localdynamo_test

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

func (g *generator) batchGet() apiCall {
	s := g.scope()
	keys := types.KeysAndAttributes{ConsistentRead: g.maybe()}
	for range 1 + g.pick(4) {
		keys.Keys = append(keys.Keys, canonicalKey(g.key()))
	}
	if g.chance(40) {
		keys.ProjectionExpression = s.spoil(s.projection())
	}
	s.spoilPlaceholders()
	keys.ExpressionAttributeNames = s.names
	c := newCall(operations.BatchGetItem, &dynamodb.BatchGetItemInput{
		RequestItems: map[string]types.KeysAndAttributes{*g.name(): keys}, ReturnConsumedCapacity: g.capacityMode(),
	})
	c.unordered = true
	return c
}

func (g *generator) batchWrite() apiCall {
	var writes []types.WriteRequest
	for range 1 + g.pick(4) {
		if g.chance(40) {
			writes = append(writes, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: canonicalKey(g.key())}})
		} else {
			writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: canonicalKey(g.item())}})
		}
	}
	return newCall(operations.BatchWriteItem, &dynamodb.BatchWriteItemInput{
		RequestItems: map[string][]types.WriteRequest{*g.name(): writes}, ReturnConsumedCapacity: g.capacityMode(),
	})
}

func (g *generator) transactGet() apiCall {
	in := &dynamodb.TransactGetItemsInput{ReturnConsumedCapacity: g.capacityMode()}
	for range 1 + g.pick(4) {
		s := g.scope()
		get := &types.Get{TableName: g.name(), Key: canonicalKey(g.key())}
		if g.chance(40) {
			get.ProjectionExpression = s.spoil(s.projection())
		}
		s.spoilPlaceholders()
		get.ExpressionAttributeNames = s.names
		in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: get})
	}
	return newCall(operations.TransactGetItems, in)
}

func (g *generator) transactWrite() apiCall {
	in := &dynamodb.TransactWriteItemsInput{ReturnConsumedCapacity: g.capacityMode()}
	for range 1 + g.pick(4) {
		in.TransactItems = append(in.TransactItems, g.action())
	}
	// Without a token the SDK would generate one and set it in the request.
	*g.issued++
	in.ClientRequestToken = aws.String(fmt.Sprintf("%s-%d", g.tokens, *g.issued))
	if g.chance(20) {
		in.ClientRequestToken = aws.String(g.tokens)
	}
	return newCall(operations.TransactWriteItems, in)
}

func (g *generator) action() types.TransactWriteItem {
	s := g.scope()
	var out types.TransactWriteItem
	// DynamoDB Local treats two spellings of a number as two items.
	key, put := canonicalKey(g.key()), canonicalKey(g.item())
	switch g.pick(4) {
	case 0:
		a := &types.Put{TableName: g.name(), Item: put, ConditionExpression: s.guard(30), ReturnValuesOnConditionCheckFailure: g.onFailure()}
		s.spoilPlaceholders()
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = s.names, s.values
		out.Put = a
	case 1:
		a := &types.Update{TableName: g.name(), Key: key, UpdateExpression: s.spoil(s.updateThatAdds()), ConditionExpression: s.guard(30), ReturnValuesOnConditionCheckFailure: g.onFailure()}
		s.spoilPlaceholders()
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = s.names, s.values
		out.Update = a
	case 2:
		a := &types.Delete{TableName: g.name(), Key: key, ConditionExpression: s.guard(30), ReturnValuesOnConditionCheckFailure: g.onFailure()}
		s.spoilPlaceholders()
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = s.names, s.values
		out.Delete = a
	case 3:
		a := &types.ConditionCheck{TableName: g.name(), Key: key, ConditionExpression: s.spoil(s.condition(1)), ReturnValuesOnConditionCheckFailure: g.onFailure()}
		s.spoilPlaceholders()
		a.ExpressionAttributeNames, a.ExpressionAttributeValues = s.names, s.values
		out.ConditionCheck = a
	}
	return out
}

// canonicalKey replaces the numbers of a key by their canonical form.
func canonicalKey(it item) item {
	for _, name := range []string{hashName, rangeName} {
		if n, ok := it[name].(*types.AttributeValueMemberN); ok {
			it[name] = num(canonicalNumber(n.Value))
		}
	}
	return it
}
