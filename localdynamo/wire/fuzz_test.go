package wire

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// FuzzDecode decodes any body as the inputs of operations that cover all types. The
// result is a client error or a value, and encoding and decoding the value returns it
// unchanged.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{
		``, `{}`, `null`, `[]`, `{"TransactItems":[null]}`,
		`{"TransactItems":[{"Put":{"TableName":"t","Item":{"a":{"S":"\u00e9\ud83d\ude00\ud800"},"b":{"N":"1"},"c":{"B":"YWJj"},"d":{"BOOL":true},"e":{"NULL":true}}}}]}`,
		`{"TransactItems":[{"Put":{"TableName":"t","Item":{"a":{"SS":["a",""]},"b":{"NS":["1"]},"c":{"BS":["YQ==",""]},"d":{"L":[{"M":{}}]},"e":{"M":{"":{"L":[]}}}}}}],"ClientRequestToken":"x"}`,
		`{"TransactItems":[{"Update":{"Key":{},"ExpressionAttributeNames":{"#a":"b"},"ReturnValuesOnConditionCheckFailure":"ALL_OLD"}}]}`,
		`{"TableName":"t","Limit":1.5e3,"ConsistentRead":false,"Segment":-0,"AttributesToGet":["a"],"ScanFilter":{"a":{"ComparisonOperator":"EQ","AttributeValueList":[{"S":"x"}]}}}`,
		`{"TableName":"t","KeySchema":[{"AttributeName":"a","KeyType":"HASH"}],"GlobalSecondaryIndexes":[{"IndexName":"i","ProvisionedThroughput":{"ReadCapacityUnits":9223372036854775807,"WriteCapacityUnits":-1e18}}]}`,
		`{"TableName":"t","Item":{"a":{"S":"a","N":"1"},"b":{},"c":null,"d":{"L":[null]},"e":{"SS":[null]}}}`,
	} {
		f.Add([]byte(seed))
	}
	table := table(f)
	// Together these cover all types.
	chosen := []*operation{table["TransactWriteItems"], table["Scan"], table["PutItem"], table["CreateTable"], table["UpdateTimeToLive"]}
	f.Fuzz(func(t *testing.T, body []byte) {
		var d decoder
		for _, o := range chosen {
			in, err := o.decode(&d, body)
			if err != nil {
				if !isAPIError(err) || isServerFault(err) {
					t.Fatalf("%s: %v is not a client error", o.name, err)
				}
				continue
			}
			encoded := o.in.encode(nil, reflect.ValueOf(in).Elem())
			if !json.Valid(encoded) {
				t.Fatalf("%s: encoded to %s", o.name, encoded)
			}
			again, err := o.decode(&d, encoded)
			if err != nil {
				t.Fatalf("%s: %s: %v", o.name, encoded, err)
			}
			if diff := cmp.Diff(in, again, unexported()); diff != "" {
				t.Fatalf("%s: %s\n%s", o.name, encoded, diff)
			}
		}
	})
}

// unexported ignores the SDK's marker fields in a comparison.
func unexported() cmp.Option {
	return cmp.Options{
		cmpopts.IgnoreUnexported(
			dynamodb.TransactWriteItemsInput{}, dynamodb.ScanInput{}, dynamodb.PutItemInput{}, dynamodb.CreateTableInput{}, dynamodb.UpdateTimeToLiveInput{},
		),
		cmp.FilterPath(func(p cmp.Path) bool {
			field, ok := p.Last().(cmp.StructField)
			return ok && field.Name() == "noSmithyDocumentSerde"
		}, cmp.Ignore()),
		cmp.Exporter(func(t reflect.Type) bool { return t.PkgPath() == reflect.TypeFor[types.Put]().PkgPath() }),
	}
}
