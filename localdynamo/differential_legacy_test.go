package localdynamo_test

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// The generators of this file draw legacy parameters, which expressions replaced.

func (g *generator) legacyPut() apiCall {
	in := &dynamodb.PutItemInput{
		TableName: g.name(), Item: g.item(), ReturnValues: g.returned("", "ALL_OLD"), ReturnConsumedCapacity: g.capacityMode(),
	}
	in.Expected, in.ConditionalOperator = g.expected()
	return newCall(operations.PutItem, in)
}

func (g *generator) legacyDelete() apiCall {
	in := &dynamodb.DeleteItemInput{
		TableName: g.name(), Key: g.key(), ReturnValues: g.returned("ALL_OLD", ""), ReturnConsumedCapacity: g.capacityMode(),
	}
	in.Expected, in.ConditionalOperator = g.expected()
	return newCall(operations.DeleteItem, in)
}

func (g *generator) legacyUpdate() apiCall {
	in := &dynamodb.UpdateItemInput{
		TableName: g.name(), Key: g.key(), AttributeUpdates: map[string]types.AttributeValueUpdate{},
		ReturnValues: g.returned("ALL_NEW", "", "ALL_OLD", "UPDATED_OLD", "UPDATED_NEW"), ReturnConsumedCapacity: g.capacityMode(),
	}
	if g.chance(30) {
		in.Expected, in.ConditionalOperator = g.expected()
	}
	takes := true
	for range 1 + g.pick(2) {
		name := g.text(attributeNames...)
		if g.table.isIndexKey(name) {
			name = "count" // DynamoDB Local accepts invalid index keys
		}
		u := types.AttributeValueUpdate{Action: oneOf[types.AttributeAction](g, "PUT", "ADD", "DELETE", "")}
		if u.Action != "DELETE" || g.chance(50) {
			u.Value = g.valueFor(name)
		}
		in.AttributeUpdates[name] = u
	}
	for _, u := range in.AttributeUpdates {
		takes = takes && u.Action == "DELETE"
	}
	c := newCall(operations.UpdateItem, in)
	if takes {
		c = putFirst(c, in)
	}
	return c
}

// expected generates the legacy conditions of a write.
func (g *generator) expected() (map[string]types.ExpectedAttributeValue, types.ConditionalOperator) {
	out := map[string]types.ExpectedAttributeValue{}
	for range 1 + g.pick(2) {
		name := g.text(attributeNames...)
		var e types.ExpectedAttributeValue
		if g.chance(30) {
			e.Exists = g.maybe()
			if e.Exists == nil || *e.Exists || g.chance(5) {
				e.Value = g.valueFor(name)
			}
		} else {
			c := g.legacyCondition(name)
			e.ComparisonOperator, e.AttributeValueList = c.ComparisonOperator, c.AttributeValueList
		}
		out[name] = e
	}
	return out, g.operator(len(out))
}

// operator joins n conditions. With fewer than two it is invalid.
func (g *generator) operator(n int) types.ConditionalOperator {
	if n < 2 && !g.chance(3) {
		return ""
	}
	return oneOf[types.ConditionalOperator](g, "", "AND", "OR")
}

// operands is the number of operands of each comparison; -1 is one or more.
var operands = map[types.ComparisonOperator]int{
	"EQ": 1, "NE": 1, "LT": 1, "LE": 1, "GT": 1, "GE": 1, "BEGINS_WITH": 1, "CONTAINS": 1, "NOT_CONTAINS": 1,
	"NULL": 0, "NOT_NULL": 0, "BETWEEN": 2, "IN": -1,
}

// legacyCondition generates a condition on one attribute.
func (g *generator) legacyCondition(name string) types.Condition {
	c := types.Condition{ComparisonOperator: oneOf(g, types.ComparisonOperator("").Values()...)}
	n := operands[c.ComparisonOperator]
	if n < 0 {
		n = 1 + g.pick(3)
	}
	if g.chance(3) {
		n = g.pick(4)
	}
	for range n {
		v := g.valueFor(name)
		switch kind := usual[name]; c.ComparisonOperator {
		case "BEGINS_WITH":
			if !g.chance(10) {
				v = g.ofKind(g.text("S", "B"), 0)
			}
		case "CONTAINS", "NOT_CONTAINS":
			if len(kind) == 2 {
				v = g.ofKind(kind[:1], 0)
			}
			switch v.(type) {
			case *types.AttributeValueMemberBOOL, *types.AttributeValueMemberNULL:
				v = num("1") // DynamoDB Local also accepts BOOL and NULL here; AWS does not
			}
		}
		c.AttributeValueList = append(c.AttributeValueList, v)
	}
	return c
}

func (g *generator) legacyFilter() (map[string]types.Condition, types.ConditionalOperator) {
	out := map[string]types.Condition{}
	for range 1 + g.pick(2) {
		name := g.text(attributeNames...)
		out[name] = g.legacyCondition(name)
	}
	return out, g.operator(len(out))
}

func (g *generator) attributesToGet() []string {
	if !g.chance(25) {
		return nil
	}
	out := make([]string, 1+g.pick(3))
	for i := range out {
		out[i] = g.text(attributeNames...)
	}
	return out
}

func (g *generator) legacyScan() apiCall {
	in := &dynamodb.ScanInput{TableName: g.name(), AttributesToGet: g.attributesToGet(), ReturnConsumedCapacity: g.capacityMode()}
	in.ScanFilter, in.ConditionalOperator = g.legacyFilter()
	return scanAll(in)
}

func (g *generator) legacyQuery() apiCall {
	keys, index := g.order()
	in := &dynamodb.QueryInput{
		TableName: g.name(), IndexName: index, AttributesToGet: g.attributesToGet(), ScanIndexForward: g.maybe(), ReturnConsumedCapacity: g.capacityMode(),
		KeyConditions: map[string]types.Condition{keys[0].name: {ComparisonOperator: "EQ", AttributeValueList: []types.AttributeValue{g.keyValue(keys[0])}}},
	}
	if len(keys) == 2 && g.chance(60) {
		c := types.Condition{ComparisonOperator: oneOf[types.ComparisonOperator](g, "EQ", "LT", "LE", "GT", "GE", "BETWEEN", "BEGINS_WITH", "NE")}
		for range operands[c.ComparisonOperator] {
			c.AttributeValueList = append(c.AttributeValueList, g.keyValue(keys[1]))
		}
		in.KeyConditions[keys[1].name] = c
	}
	if g.chance(40) {
		in.QueryFilter, in.ConditionalOperator = g.legacyFilter()
	}
	if g.chance(20) {
		in.Limit = aws.Int32(int32(1 + g.pick(3)))
	}
	return queryAll(in, keys)
}
