package tabletheory_test

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/localdynamo/localdynamotest"
)

// tables are the names of the tables that the models of these tests read from the
// environment. Tests run in parallel, so they cannot set the environment: every
// test has an engine of its own, or a namespace in DynamoDB Local.
var tables = map[string]string{
	"TABLETHEORY_ORDERS":          "orders",
	"TABLETHEORY_ACCOUNTS":        "accounts",
	"TABLETHEORY_READINGS":        "readings",
	"TABLETHEORY_EVERYTHING":      "everything",
	"TABLETHEORY_PATIENTS":        "patients",
	"TABLETHEORY_SHAPES":          "shapes",
	"FACETHEORY_CACHE_TABLE_NAME": "cache",
}

func TestMain(m *testing.M) {
	for env, name := range tables {
		if err := os.Setenv(env, name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	m.Run()
}

// engines runs a test on both engines in parallel: localdynamo in memory, and
// DynamoDB Local if ISR_TEST_DYNAMODB has its address.
func engines(t *testing.T, test func(t *testing.T, api *dynamodb.Client)) {
	onEngines(t, func(t *testing.T, open func(*testing.T) *dynamodb.Client) { test(t, open(t)) })
}

// engineCases is engines for each case, with tables of its own.
func engineCases[C any](t *testing.T, cases map[string]C, test func(t *testing.T, api *dynamodb.Client, c C)) {
	onEngines(t, func(t *testing.T, open func(*testing.T) *dynamodb.Client) {
		for name, c := range cases {
			t.Run(name, func(t *testing.T) { test(t, open(t), c) })
		}
	})
}

func onEngines(t *testing.T, test func(t *testing.T, open func(*testing.T) *dynamodb.Client)) {
	t.Run("localdynamo", func(t *testing.T) {
		t.Parallel()
		test(t, func(t *testing.T) *dynamodb.Client { return localdynamotest.New(t) })
	})
	t.Run("DynamoDBLocal", func(t *testing.T) {
		t.Parallel()
		test(t, dynamoDBLocal)
	})
}

// dynamoDBLocal returns a client of AWS's DynamoDB Local, with a namespace for the
// test.
func dynamoDBLocal(t *testing.T) *dynamodb.Client {
	t.Helper()
	endpoint := isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local")
	return dynamodb.New(dynamodb.Options{
		Region:                          "us-east-1",
		BaseEndpoint:                    aws.String(endpoint),
		Credentials:                     credentials.NewStaticCredentialsProvider("isrtest", "isrtest", ""),
		HTTPClient:                      newNamespace(),
		DisableValidateResponseChecksum: true, // the response is rewritten
	})
}

// A namespace is an HTTP client that adds a prefix to table names in requests
// and removes it from responses. DynamoDB Local does not check signatures.
type namespace struct{ add, remove *strings.Replacer }

func newNamespace() namespace {
	prefix := "tabletheory-" + rand.Text() + "-"
	var add, remove []string
	for _, name := range tables {
		add = append(add, strconv.Quote(name), strconv.Quote(prefix+name))
		remove = append(remove, prefix+name, name)
	}
	return namespace{strings.NewReplacer(add...), strings.NewReplacer(remove...)}
}

func (n namespace) Do(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	text := n.add.Replace(string(body))
	r = r.Clone(r.Context())
	r.Body, r.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	response, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	body, err = io.ReadAll(response.Body)
	err = errors.Join(err, response.Body.Close())
	text = n.remove.Replace(string(body))
	response.Body, response.ContentLength = io.NopCloser(strings.NewReader(text)), int64(len(text))
	return response, err
}

// Order has every feature of a model: a numeric sort key, a global and a local
// index, a version, times, a set and documents.
type Order struct {
	Customer string `theorydb:"pk"`
	Number   int64  `theorydb:"sk"`

	Status string `theorydb:"index:by-status,pk"`
	Placed int64  `theorydb:"index:by-status,sk"`
	Total  int64  `theorydb:"lsi:by-total,sk"`

	Tags    []string `theorydb:"set,omitempty"`
	Address Address
	Lines   []Line  `theorydb:"omitempty"`
	Note    *string `theorydb:"omitempty"`

	Version   int64     `theorydb:"version"`
	CreatedAt time.Time `theorydb:"created_at"`
	UpdatedAt time.Time `theorydb:"updated_at"`
}

// Address is a document in an [Order].
type Address struct {
	Street string
	City   string
}

// Line is a document in a list of an [Order].
type Line struct {
	Article string
	Price   int64
}

func (Order) TableName() string { return os.Getenv("TABLETHEORY_ORDERS") }

// Account has only a partition key.
type Account struct {
	ID      string `theorydb:"pk"`
	Name    string
	Balance int64
}

func (Account) TableName() string { return os.Getenv("TABLETHEORY_ACCOUNTS") }

// cacheTable creates the table of [FaceTheoryCacheMetadata] and
// [FaceTheoryCacheLease] for the duration of a test and returns its name.
func cacheTable(t *testing.T, api *dynamodb.Client) string {
	t.Helper()
	return createTable(t, api, "FACETHEORY_CACHE_TABLE_NAME", &dynamodb.CreateTableInput{
		KeySchema:            keySchema("pk", "sk"),
		AttributeDefinitions: definitions("pk", "S", "sk", "S"),
	})
}

// orderTable creates the table of [Order] for the duration of a test.
func orderTable(t *testing.T, api *dynamodb.Client) string {
	t.Helper()
	all := &types.Projection{ProjectionType: types.ProjectionTypeAll}
	return createTable(t, api, "TABLETHEORY_ORDERS", &dynamodb.CreateTableInput{
		KeySchema:            keySchema("customer", "number"),
		AttributeDefinitions: definitions("customer", "S", "number", "N", "status", "S", "placed", "N", "total", "N"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{
			{IndexName: aws.String("by-status"), KeySchema: keySchema("status", "placed"), Projection: all},
		},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{
			{IndexName: aws.String("by-total"), KeySchema: keySchema("customer", "total"), Projection: all},
		},
	})
}

// accountTable creates the table of [Account] for the duration of a test.
func accountTable(t *testing.T, api *dynamodb.Client) string {
	t.Helper()
	return createTable(t, api, "TABLETHEORY_ACCOUNTS", &dynamodb.CreateTableInput{
		KeySchema:            keySchema("id"),
		AttributeDefinitions: definitions("id", "S"),
	})
}

// createTable creates the table whose name is in env, and deletes it when the test
// ends.
func createTable(t *testing.T, api *dynamodb.Client, env string, in *dynamodb.CreateTableInput) string {
	t.Helper()
	name := tables[env]
	in.TableName = &name
	in.BillingMode = types.BillingModePayPerRequest
	if _, err := api.CreateTable(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	testbed.DropTable(t, api, name)
	return name
}

// keySchema returns a partition key and an optional sort key.
func keySchema(names ...string) []types.KeySchemaElement {
	kinds := []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}
	schema := make([]types.KeySchemaElement, len(names))
	for i, name := range names {
		schema[i] = types.KeySchemaElement{AttributeName: aws.String(name), KeyType: kinds[i]}
	}
	return schema
}

// definitions returns the definitions of alternating names and types.
func definitions(namesAndTypes ...string) []types.AttributeDefinition {
	var list []types.AttributeDefinition
	for i := 0; i < len(namesAndTypes); i += 2 {
		list = append(list, types.AttributeDefinition{
			AttributeName: aws.String(namesAndTypes[i]),
			AttributeType: types.ScalarAttributeType(namesAndTypes[i+1]),
		})
	}
	return list
}

// attrs is a DynamoDB item.
type attrs = map[string]types.AttributeValue

func str(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }
func num(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// putRaw stores an item like another writer.
func putRaw(t *testing.T, api *dynamodb.Client, table string, item attrs) {
	t.Helper()
	if _, err := api.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// getRaw returns the stored item, or nil.
func getRaw(t *testing.T, api *dynamodb.Client, table string, key attrs) attrs {
	t.Helper()
	out, err := api.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &table, Key: key, ConsistentRead: aws.Bool(true)})
	if err != nil {
		t.Fatal(err)
	}
	return out.Item
}
