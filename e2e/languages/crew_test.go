package languages

import (
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
	"github.com/facetheory/isr/internal/testbed"
	"github.com/facetheory/isr/isrtest"
	"github.com/facetheory/isr/store"
)

const region = "us-east-1"

// An engine is a server that implements the DynamoDB API.
type engine struct {
	name, url string
	// Credentials of the S3 server, since isr serve has one pair for both. The engines
	// accept any.
	access, secret string
}

// onEngines runs a test on each engine. The sources of all languages count as inputs of the
// test for the go command's test cache.
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
			t.Fatalf("ISR_TEST_ENGINES: got %q, expected name=URL", named)
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

// environment returns the environment of a process: the engine, and what it needs of this
// machine.
func (e engine) environment() []string {
	return []string{
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "HOME=" + os.TempDir(),
		"AWS_EC2_METADATA_DISABLED=true", "AWS_REGION=" + region, "AWS_DEFAULT_REGION=" + region,
		"AWS_ENDPOINT_URL_DYNAMODB=" + e.url, "AWS_ACCESS_KEY_ID=" + e.access, "AWS_SECRET_ACCESS_KEY=" + e.secret,
	}
}

// A crew is one or more workers of each language on one table.
type crew struct {
	engine
	workers []*worker
	api     *dynamodb.Client
	table   string
}

// newCrew starts the given number of workers of each language and gives them a new table.
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

// newTable creates a table and opens it in all workers.
func (c *crew) newTable(t *testing.T) {
	t.Helper()
	name := "languages-" + strings.ToLower(rand.Text())
	c.table = name
	testbed.DropTable(t, c.api, name)
	if err := dynamostore.CreateTable(t.Context(), c.api, name); err != nil {
		t.Fatal(err)
	}
	for _, w := range c.workers {
		w.does(t, command{Do: "open", Table: c.table})
	}
}

// addWorker starts another worker of a language on the same table.
func (c *crew) addWorker(t *testing.T, name, owner string) *worker {
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

// after returns the worker n places after the i-th, in a ring.
func (c *crew) after(i, n int) *worker { return c.workers[(i+n)%len(c.workers)] }

// --- Raw rows ---------------------------------------------------------------

// A row is an item of the table.
type row = map[string]types.AttributeValue

func pk(key string) string { return store.HashedPartition(store.Key{Text: key}) }

func text(s string) types.AttributeValue   { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

// put writes a row with exactly these attributes.
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

// get returns the stored row, or nil if there is none.
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

// set sets an attribute of a row, or a member of a map attribute.
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
