package localdynamo_test

import (
	"context"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// call generates a request on the table's items.
func (g *generator) call() apiCall {
	switch g.pick(15) {
	case 3, 4, 5:
		return g.updateItem()
	case 6:
		return g.get()
	case 7:
		return g.deleteItem()
	case 8, 9:
		return g.query()
	case 10:
		return g.scan()
	case 11:
		return g.transactWrite()
	case 12:
		return g.transactGet()
	case 13:
		return g.batchGet()
	case 14:
		return g.batchWrite()
	}
	return g.put()
}

// name returns the table's name, or rarely the name of a missing table.
func (g *generator) name() *string {
	if g.chance(1) {
		return aws.String(g.text("no-such-table", "a", "bad/name"))
	}
	return &g.table.name
}

// capacityMode is always valid: DynamoDB Local reports an invalid one only after
// the write.
func (g *generator) capacityMode() types.ReturnConsumedCapacity {
	return oneOf[types.ReturnConsumedCapacity](g, "", "TOTAL", "INDEXES", "NONE")
}

func (g *generator) onFailure() types.ReturnValuesOnConditionCheckFailure {
	return oneOf[types.ReturnValuesOnConditionCheckFailure](g, "", "ALL_OLD", "NONE")
}

func (g *generator) returned(usual ...types.ReturnValue) types.ReturnValue {
	if g.chance(1) {
		return oneOf[types.ReturnValue](g, "BAD", "ALL_NEW", "UPDATED_OLD")
	}
	return oneOf(g, usual...)
}

// maybe returns an optional flag.
func (g *generator) maybe() *bool {
	return oneOf(g, nil, aws.Bool(true), aws.Bool(false))
}

// guard generates a condition in this percentage of cases.
func (s *scope) guard(percent int) *string {
	if !s.chance(percent) {
		return nil
	}
	return s.spoil(s.condition(2))
}

func (g *generator) put() apiCall {
	if g.chance(15) {
		return g.legacyPut()
	}
	s := g.scope()
	in := &dynamodb.PutItemInput{
		TableName: g.name(), Item: g.item(), ConditionExpression: s.guard(40),
		ReturnValues: g.returned("", "NONE", "ALL_OLD"), ReturnConsumedCapacity: g.capacityMode(), ReturnValuesOnConditionCheckFailure: g.onFailure(),
	}
	s.spoilPlaceholders()
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = s.names, s.values
	return newCall(operations.PutItem, in)
}

func (g *generator) updateItem() apiCall {
	if g.chance(15) {
		return g.legacyUpdate()
	}
	s := g.scope()
	in := &dynamodb.UpdateItemInput{
		TableName: g.name(), Key: g.key(), ConditionExpression: s.guard(30),
		ReturnValues:           g.returned("ALL_NEW", "", "NONE", "ALL_OLD", "UPDATED_OLD", "UPDATED_NEW"),
		ReturnConsumedCapacity: g.capacityMode(), ReturnValuesOnConditionCheckFailure: g.onFailure(),
	}
	if !g.chance(3) {
		in.UpdateExpression = s.spoil(s.update())
	}
	s.spoilPlaceholders()
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = s.names, s.values
	c := newCall(operations.UpdateItem, in)
	if onlyRemoves(in.UpdateExpression) {
		c = putFirst(c, in)
	}
	return c
}

// putFirst creates the item before the call. If the item of an update with only
// REMOVE and DELETE is absent, AWS creates none, and DynamoDB Local one with only
// a key.
func putFirst(c apiCall, in *dynamodb.UpdateItemInput) apiCall {
	do := c.do
	c.do = func(ctx context.Context, side operations) (any, error) {
		_, err := side.UpdateItem(ctx, &dynamodb.UpdateItemInput{TableName: in.TableName, Key: in.Key})
		if err != nil {
			return nil, err
		}
		return do(ctx, side)
	}
	return c
}

func (g *generator) deleteItem() apiCall {
	if g.chance(15) {
		return g.legacyDelete()
	}
	s := g.scope()
	in := &dynamodb.DeleteItemInput{
		TableName: g.name(), Key: g.key(), ConditionExpression: s.guard(40),
		ReturnValues: g.returned("ALL_OLD", "", "NONE"), ReturnConsumedCapacity: g.capacityMode(), ReturnValuesOnConditionCheckFailure: g.onFailure(),
	}
	s.spoilPlaceholders()
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = s.names, s.values
	return newCall(operations.DeleteItem, in)
}

func (g *generator) get() apiCall {
	s := g.scope()
	in := &dynamodb.GetItemInput{TableName: g.name(), Key: g.key(), ConsistentRead: g.maybe(), ReturnConsumedCapacity: g.capacityMode()}
	switch {
	case g.chance(10):
		in.AttributesToGet = g.attributesToGet()
	case g.chance(60):
		in.ProjectionExpression = s.spoil(s.projection())
	}
	s.spoilPlaceholders()
	in.ExpressionAttributeNames = s.names
	return newCall(operations.GetItem, in)
}

func (g *generator) query() apiCall {
	if g.chance(10) {
		return g.legacyQuery()
	}
	s := g.scope()
	keys, index := g.order()
	in := &dynamodb.QueryInput{
		TableName: g.name(), IndexName: index, ConsistentRead: g.consistent(index), ReturnConsumedCapacity: g.capacityMode(), ScanIndexForward: g.maybe(),
		KeyConditionExpression: s.spoil(s.keyCondition(keys)), FilterExpression: s.guard(40), Select: g.selection(),
	}
	if g.chance(25) {
		in.ProjectionExpression = s.spoil(s.projection())
	}
	if g.chance(30) {
		in.Limit = aws.Int32(int32(oneOf(g, 1, 2, 3, 0)))
	}
	if index == nil && g.chance(15) {
		in.ExclusiveStartKey = g.key()
	}
	s.spoilPlaceholders()
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = s.names, s.values
	if index != nil || g.chance(20) {
		return queryAll(in, keys)
	}
	return newCall(operations.Query, in)
}

// order draws what to query: the table, one of its indexes, or rarely a missing
// index.
func (g *generator) order() ([]keyAttribute, *string) {
	if g.chance(1) {
		return g.table.keys(), aws.String("no-such-index")
	}
	if len(g.table.indexes) == 0 || g.chance(30) {
		return g.table.keys(), nil
	}
	ix := oneOf(g, g.table.indexes...)
	return ix.keyed, &ix.name
}

// consistent rarely sets ConsistentRead for an index; global indexes refuse it.
func (g *generator) consistent(index *string) *bool {
	if index != nil && !g.chance(5) {
		return nil
	}
	return g.maybe()
}

func (g *generator) selection() types.Select {
	if g.chance(15) {
		return oneOf[types.Select](g, "COUNT", "ALL_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "BAD")
	}
	return ""
}

func (g *generator) scan() apiCall {
	if g.chance(10) {
		return g.legacyScan()
	}
	s := g.scope()
	_, index := g.order()
	in := &dynamodb.ScanInput{
		TableName: g.name(), IndexName: index, ConsistentRead: g.consistent(index), ReturnConsumedCapacity: g.capacityMode(),
		FilterExpression: s.guard(60), Select: g.selection(),
	}
	if g.chance(25) {
		in.ProjectionExpression = s.spoil(s.projection())
	}
	if g.chance(20) {
		in.Limit = aws.Int32(int32(oneOf(g, 1, 2, 3, 0)))
	}
	if g.chance(20) {
		in.TotalSegments = aws.Int32(int32(oneOf(g, 1, 2, 3, 0)))
	}
	s.spoilPlaceholders()
	in.ExpressionAttributeNames, in.ExpressionAttributeValues = s.names, s.values
	return scanAll(in)
}
