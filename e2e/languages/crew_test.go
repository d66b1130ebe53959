package languages

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
	"github.com/facetheory/isr/e2e/internal/process"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
)

const region = "us-east-1"

// An engine is a server that speaks DynamoDB's protocol.
type engine struct {
	name, url string
	// Credentials, which any engine takes; those of the S3 server, as isr serve has
	// but one pair.
	access, secret string
}

// onEngines runs a test on each engine. Changes of the sources of any language are
// changes of the test.
func onEngines(t *testing.T, test func(t *testing.T, e engine)) {
	t.Helper()
	process.ReadSources(t, "../..")
	access, secret := os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY")
	if access == "" {
		access, secret = "isrtest", "isrtest"
	}
	for named := range strings.SplitSeq(isrtest.Engine(t, "ISR_TEST_ENGINES", "DynamoDB (name=URL, separated by commas)"), ",") {
		name, url, ok := strings.Cut(named, "=")
		if !ok {
			t.Fatalf("ISR_TEST_ENGINES has %q: expected name=URL", named)
		}
		t.Run(name, func(t *testing.T) { test(t, engine{name, url, access, secret}) })
	}
}

func (e engine) client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		Region: region, BaseEndpoint: aws.String(e.url),
		Credentials: credentials.NewStaticCredentialsProvider(e.access, e.secret, ""),
	})
}

// environment is what a process is told of the engine, and of this machine.
func (e engine) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + os.TempDir(),
		"AWS_EC2_METADATA_DISABLED=true", "AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region,
		"AWS_ENDPOINT_URL_DYNAMODB=" + e.url, "AWS_ACCESS_KEY_ID=" + e.access, "AWS_SECRET_ACCESS_KEY=" + e.secret,
	}
}

// A crew is one worker of each language, or several, on one table.
type crew struct {
	engine
	workers []*worker
	api     *dynamodb.Client
	table   string
}

// newCrew starts so many workers of each language, who have the same table by now.
func newCrew(t *testing.T, e engine, each int) *crew {
	t.Helper()
	c := &crew{engine: e, api: e.client()}
	for n := range each {
		for _, l := range languages() {
			c.workers = append(c.workers, l.start(t, l.name+strings.Repeat("'", n), e.environment()))
		}
	}
	c.newTable(t)
	return c
}

// newTable gives all workers a table that is new.
func (c *crew) newTable(t *testing.T) {
	t.Helper()
	name := "languages-" + strings.ToLower(rand.Text())
	c.table = name
	if err := dynamostore.CreateTable(t.Context(), c.api, name); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := c.api.DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &name}); err != nil {
			t.Errorf("delete the table: %v", err)
		}
	})
	for _, w := range c.workers {
		w.does(t, command{Do: "open", Table: c.table})
	}
}

// hire starts one more worker of a language, on the same table.
func (c *crew) hire(t *testing.T, name, owner string) *worker {
	t.Helper()
	for _, l := range languages() {
		if l.name == name {
			w := l.start(t, owner, c.environment())
			w.does(t, command{Do: "open", Table: c.table})
			return w
		}
	}
	t.Fatalf("no worker is written in %s", name)
	return nil
}

// after is the worker n places after the i-th, in a ring.
func (c *crew) after(i, n int) *worker { return c.workers[(i+n)%len(c.workers)] }

// --- Rows, as they are ------------------------------------------------------

// A row is an item of the table.
type row = map[string]types.AttributeValue

func pk(key string) string { return store.HashedPartition(store.Key{Text: key}) }

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// put writes a row as it is.
func (c *crew) put(t *testing.T, pk, sk string, attributes row) {
	t.Helper()
	item := row{"pk": text(pk), "sk": text(sk)}
	for name, value := range attributes {
		item[name] = value
	}
	if _, err := c.api.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &c.table, Item: item}); err != nil {
		t.Fatal(err)
	}
}

// get reads a row as it is, nil if there is none.
func (c *crew) get(t *testing.T, pk, sk string) row {
	t.Helper()
	found, err := c.api.GetItem(t.Context(), &dynamodb.GetItemInput{
		TableName: &c.table, Key: row{"pk": text(pk), "sk": text(sk)}, ConsistentRead: aws.Bool(true),
	})
	if err != nil {
		t.Fatal(err)
	}
	return found.Item
}

// set adds an attribute to a row, or a member to a map of it.
func (c *crew) set(t *testing.T, pk, sk, path string, value types.AttributeValue) {
	t.Helper()
	if _, err := c.api.UpdateItem(t.Context(), &dynamodb.UpdateItemInput{
		TableName: &c.table, Key: row{"pk": text(pk), "sk": text(sk)},
		UpdateExpression:          aws.String("SET " + path + " = :value"),
		ExpressionAttributeValues: row{":value": value},
	}); err != nil {
		t.Fatal(err)
	}
}
