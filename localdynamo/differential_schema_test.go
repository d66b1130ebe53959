package localdynamo_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo"
)

// operations are the methods that both sides implement.
type operations interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	DeleteTable(context.Context, *dynamodb.DeleteTableInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error)
	ListTables(context.Context, *dynamodb.ListTablesInput, ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	Scan(context.Context, *dynamodb.ScanInput, ...func(*dynamodb.Options)) (*dynamodb.ScanOutput, error)
	BatchGetItem(context.Context, *dynamodb.BatchGetItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchGetItemOutput, error)
	BatchWriteItem(context.Context, *dynamodb.BatchWriteItemInput, ...func(*dynamodb.Options)) (*dynamodb.BatchWriteItemOutput, error)
	TransactGetItems(context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

var (
	_ operations = (*localdynamo.DB)(nil)
	_ operations = (*dynamodb.Client)(nil)
)

// dynamoDBLocal returns a client without retries, because errors are compared too.
func dynamoDBLocal(t *testing.T) *dynamodb.Client {
	t.Helper()
	return dynamodb.New(dynamodb.Options{
		Region:           "us-east-1",
		BaseEndpoint:     aws.String(isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")),
		Credentials:      credentials.NewStaticCredentialsProvider("isrtest", "isrtest", ""),
		RetryMaxAttempts: 1,
		HTTPClient:       &http.Client{Transport: bufferedBody{&http.Transport{MaxIdleConnsPerHost: 10}}},
	})
}

// bufferedBody gives the transport its own copy of the request body. The SDK
// closes the body as soon as the response begins. If the transport has not yet
// seen the end of the body, it closes the connection before the response is
// complete (aws-sdk-go-v2, issue 2737).
type bufferedBody struct{ transport http.RoundTripper }

func (p bufferedBody) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Body = io.NopCloser(bytes.NewReader(body))
	return p.transport.RoundTrip(r)
}

// shape is the definition of a table.
type shape struct {
	name      string
	hash      types.ScalarAttributeType
	rangeType types.ScalarAttributeType // "" if there is no range key
	indexes   []indexShape
}

// indexShape is the definition of a secondary index.
type indexShape struct {
	name       string
	local      bool
	keyed      []keyAttribute
	projection types.ProjectionType
	include    []string
}

// Key attributes of every table.
const (
	hashName  = "pk"
	rangeName = "sk"
)

// shapes covers every kind of primary key and of index.
var shapes = append(keyShapes(),
	&shape{name: "globals", hash: "S", rangeType: "S", indexes: []indexShape{
		{name: "all", keyed: []keyAttribute{hashKey("b", "S")}, projection: "ALL"},
		{name: "keys", keyed: []keyAttribute{hashKey("h", "N")}, projection: "KEYS_ONLY"},
		{name: "include", keyed: []keyAttribute{hashKey("f", "B")}, projection: "INCLUDE", include: []string{"c", "d"}},
	}},
	&shape{name: halfKeys, hash: "S", rangeType: "S", indexes: []indexShape{
		{name: "all", keyed: []keyAttribute{hashKey("b", "S"), rangeKey("a", "N")}, projection: "ALL"},
		{name: "include", keyed: []keyAttribute{hashKey("f", "B"), rangeKey("b", "S")}, projection: "INCLUDE", include: []string{"c", "d"}},
	}},
	&shape{name: "locals", hash: "S", rangeType: "N", indexes: []indexShape{
		{name: "keys", local: true, keyed: []keyAttribute{hashKey(hashName, "S"), rangeKey("a", "N")}, projection: "KEYS_ONLY"},
		{name: "include", local: true, keyed: []keyAttribute{hashKey(hashName, "S"), rangeKey("b", "S")}, projection: "INCLUDE", include: []string{"c", "e"}},
		{name: "all", local: true, keyed: []keyAttribute{hashKey(hashName, "S"), rangeKey("f", "B")}, projection: "ALL"},
	}},
	&shape{name: "both", hash: "N", rangeType: "S", indexes: []indexShape{
		{name: "inverted", keyed: []keyAttribute{hashKey(rangeName, "S"), rangeKey(hashName, "N")}, projection: "KEYS_ONLY"},
		{name: "local", local: true, keyed: []keyAttribute{hashKey(hashName, "N"), rangeKey("h", "N")}, projection: "ALL"},
	}},
	&shape{name: "hashed", hash: "B", indexes: []indexShape{
		{name: "other", keyed: []keyAttribute{hashKey("b", "S")}, projection: "INCLUDE", include: []string{"a"}},
	}},
)

// halfKeys is a table with global indexes of two keys. An item may have only one
// of them; see departures.
const halfKeys = "halves"

func hashKey(name string, kind types.ScalarAttributeType) keyAttribute {
	return keyAttribute{name, kind, types.KeyTypeHash}
}

func rangeKey(name string, kind types.ScalarAttributeType) keyAttribute {
	return keyAttribute{name, kind, types.KeyTypeRange}
}

// keyShapes returns a shape for every kind of primary key.
func keyShapes() []*shape {
	var out []*shape
	for _, ranged := range []types.ScalarAttributeType{"S", "", "N", "B"} {
		for _, hash := range types.ScalarAttributeType("").Values() {
			out = append(out, &shape{name: string(hash + ranged), hash: hash, rangeType: ranged})
		}
	}
	return out
}

// GoString formats the shape for rapid's output.
func (s *shape) GoString() string { return s.name }

func (s *shape) input(name string) *dynamodb.CreateTableInput {
	in := &dynamodb.CreateTableInput{TableName: &name, BillingMode: types.BillingModePayPerRequest, KeySchema: schemaOf(s.keys())}
	defined := map[string]bool{}
	define := func(keys []keyAttribute) {
		for _, a := range keys {
			if !defined[a.name] {
				in.AttributeDefinitions = append(in.AttributeDefinitions, types.AttributeDefinition{AttributeName: aws.String(a.name), AttributeType: a.kind})
			}
			defined[a.name] = true
		}
	}
	define(s.keys())
	for i := range s.indexes {
		ix := &s.indexes[i]
		define(ix.keyed)
		projection := &types.Projection{ProjectionType: ix.projection, NonKeyAttributes: ix.include}
		if ix.local {
			in.LocalSecondaryIndexes = append(in.LocalSecondaryIndexes, types.LocalSecondaryIndex{IndexName: &ix.name, KeySchema: schemaOf(ix.keyed), Projection: projection})
		} else {
			in.GlobalSecondaryIndexes = append(in.GlobalSecondaryIndexes, types.GlobalSecondaryIndex{IndexName: &ix.name, KeySchema: schemaOf(ix.keyed), Projection: projection})
		}
	}
	return in
}

func schemaOf(keys []keyAttribute) []types.KeySchemaElement {
	var out []types.KeySchemaElement
	for _, a := range keys {
		out = append(out, types.KeySchemaElement{AttributeName: aws.String(a.name), KeyType: a.role})
	}
	return out
}

// keyAttribute is one element of a primary key.
type keyAttribute struct {
	name string
	kind types.ScalarAttributeType
	role types.KeyType
}

func (s *shape) keys() []keyAttribute {
	keys := []keyAttribute{hashKey(hashName, s.hash)}
	if s.rangeType != "" {
		keys = append(keys, rangeKey(rangeName, s.rangeType))
	}
	return keys
}

// isIndexKey reports whether an attribute is the key of an index.
func (s *shape) isIndexKey(name string) bool {
	for _, ix := range s.indexes {
		for _, a := range ix.keyed {
			if a.name == name {
				return true
			}
		}
	}
	return false
}

// keyOf returns the primary key of an item.
func (s *shape) keyOf(it item) item {
	key := item{}
	for _, a := range s.keys() {
		key[a.name] = it[a.name]
	}
	return key
}

// table is a shape that exists on both sides.
type table struct {
	*shape
	name string
}
