package wire_test

import (
	"encoding/json"
	"iter"
)

// fullRequests returns, by operation, a body with all supported members.
func fullRequests() map[string]string {
	const (
		expressions = `"ConditionExpression":"#a = :a","ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"S":"x"}},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"`
		key         = `"TableName":"things","Key":{"pk":{"S":"a"}}`
		item        = `"TableName":"things","Item":{"pk":{"S":"a"},"l":{"L":[{"N":"1"}]},"m":{"M":{"b":{"B":"YQ=="}}},"ss":{"SS":["a"]},"ns":{"NS":["1"]},"bs":{"BS":["YQ=="]},"t":{"BOOL":true},"n":{"NULL":true}}`
		keySchema   = `"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"},{"AttributeName":"sk","KeyType":"RANGE"}]`
		index       = `{"IndexName":"index",` + keySchema + `,"Projection":{"ProjectionType":"INCLUDE","NonKeyAttributes":["a"]},"ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"OnDemandThroughput":{"MaxReadRequestUnits":1},"WarmThroughput":{"ReadUnitsPerSecond":1}}`
		definitions = `"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"},{"AttributeName":"sk","AttributeType":"N"}]`
		legacy      = `{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"}]}}`
		expected    = `"Expected":{"a":{"Exists":true,"Value":{"S":"x"}},"b":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"}]}},"ConditionalOperator":"AND"`
		tags        = `"Tags":[{"Key":"a","Value":"b"}]`
		arn         = `"ResourceArn":"arn:aws:dynamodb:local:000000000000:table/things"`
	)
	return map[string]string{
		"BatchGetItem":   `{"RequestItems":{"things":{"Keys":[{"pk":{"S":"a"}}],"ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"},"AttributesToGet":["a"]}}}`,
		"BatchWriteItem": `{"RequestItems":{"things":[{"PutRequest":{"Item":{"pk":{"S":"a"}}},"DeleteRequest":{"Key":{"pk":{"S":"a"}}}}]}}`,
		"CreateTable": `{"TableName":"others",` + keySchema + `,` + definitions + `,"BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},` +
			`"GlobalSecondaryIndexes":[` + index + `],"LocalSecondaryIndexes":[` + index + `],"StreamSpecification":{"StreamEnabled":false,"StreamViewType":"KEYS_ONLY"},"SSESpecification":{"Enabled":true},` + tags + `}`,
		"DeleteItem":         `{` + key + `,` + expressions + `,` + expected + `}`,
		"DeleteTable":        `{"TableName":"others"}`,
		"DescribeEndpoints":  `{}`,
		"DescribeLimits":     `{}`,
		"DescribeTable":      `{"TableName":"things"}`,
		"DescribeTimeToLive": `{"TableName":"things"}`,
		"GetItem":            `{` + key + `,"AttributesToGet":["a"],"ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"},"ReturnConsumedCapacity":"TOTAL"}`,
		"ListTables":         `{"ExclusiveStartTableName":"things","Limit":1}`,
		"ListTagsOfResource": `{` + arn + `,"NextToken":"a"}`,
		"PutItem":            `{` + item + `,` + expressions + `,` + expected + `,"ReturnValues":"ALL_OLD"}`,
		"Query":              `{"TableName":"things","KeyConditionExpression":"pk = :a","FilterExpression":"#a = :a","ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"S":"x"}},"KeyConditions":` + legacy + `,"QueryFilter":` + legacy + `,"ExclusiveStartKey":{"pk":{"S":"a"}},"Select":"COUNT","IndexName":"index"}`,
		"Scan":               `{"TableName":"things","FilterExpression":"#a = :a","ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"S":"x"}},"ScanFilter":` + legacy + `,"ExclusiveStartKey":{"pk":{"S":"a"}},"Segment":0,"TotalSegments":1}`,
		"TagResource":        `{` + arn + `,` + tags + `}`,
		"TransactGetItems":   `{"TransactItems":[{"Get":{` + key + `,"ProjectionExpression":"#a","ExpressionAttributeNames":{"#a":"a"}}}]}`,
		"TransactWriteItems": `{"TransactItems":[{"Put":{` + item + `,` + expressions + `}},{"Update":{` + key + `,"UpdateExpression":"SET #a = :a",` + expressions + `}},{"Delete":{` + key + `,` + expressions + `}},{"ConditionCheck":{` + key + `,` + expressions + `}}],"ClientRequestToken":"t"}`,
		"UntagResource":      `{` + arn + `,"TagKeys":["a"]}`,
		"UpdateItem":         `{` + key + `,"UpdateExpression":"SET #a = :a",` + expressions + `,` + expected + `,"AttributeUpdates":{"a":{"Action":"PUT","Value":{"S":"x"}}}}`,
		"UpdateTable":        `{"TableName":"things",` + definitions + `,"BillingMode":"PROVISIONED","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"GlobalSecondaryIndexUpdates":[{"Create":` + index + `},{"Update":{"IndexName":"index","ProvisionedThroughput":{"ReadCapacityUnits":1}}},{"Delete":{"IndexName":"index"}}],"StreamSpecification":{"StreamEnabled":false},"ReplicaUpdates":[{"Create":{"RegionName":"eu-west-1"}}]}`,
		"UpdateTimeToLive":   `{"TableName":"things","TimeToLiveSpecification":{"AttributeName":"ttl","Enabled":true}}`,
	}
}

// eachReplaced yields copies of the JSON text, each with one value replaced or one
// object member removed.
func eachReplaced(text, by string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var root, replacement any
		if json.Unmarshal([]byte(text), &root) != nil || json.Unmarshal([]byte(by), &replacement) != nil {
			panic(text)
		}
		out := func() bool {
			b, err := json.Marshal(root)
			return err == nil && yield(string(b))
		}
		walk(root, replacement, out)
	}
}

func walk(v, replacement any, out func() bool) bool {
	switch v := v.(type) {
	case map[string]any:
		for name, old := range v {
			delete(v, name)
			if !out() {
				return false
			}
			v[name] = replacement
			if !out() {
				return false
			}
			v[name] = old
			if !walk(old, replacement, out) {
				return false
			}
		}
	case []any:
		for i, old := range v {
			v[i] = replacement
			if !out() {
				return false
			}
			v[i] = old
			if !walk(old, replacement, out) {
				return false
			}
		}
	}
	return true
}
