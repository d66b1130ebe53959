package e2e

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/facetheory/isr/isrtest"
)

// A cloud is one table in DynamoDB Local and one bucket of an S3 server, for the
// processes of one test.
type cloud struct {
	dynamodb, s3   string // addresses
	table, bucket  string
	access, secret string // credentials, the same for both
}

const region = "us-east-1"

// newCloud creates the bucket; --create-table creates the table.
func newCloud(t *testing.T) *cloud {
	t.Helper()
	name := "isr-e2e-" + strings.ToLower(rand.Text())
	c := &cloud{
		dynamodb: isrtest.Engine(t, "ISR_TEST_DYNAMODB", "DynamoDB Local"),
		s3:       isrtest.Engine(t, "ISR_TEST_S3", "S3 server"),
		table:    name,
		bucket:   name,
	}
	c.access, c.secret = os.Getenv("ISR_TEST_S3_ACCESS_KEY"), os.Getenv("ISR_TEST_S3_SECRET_KEY")
	t.Cleanup(func() { // there is none if no process has created it
		_, err := c.tables().DeleteTable(context.Background(), &dynamodb.DeleteTableInput{TableName: &c.table})
		if missing := (*types.ResourceNotFoundException)(nil); err != nil && !errors.As(err, &missing) {
			t.Errorf("delete the table %s: %v", c.table, err)
		}
	})
	client := s3.New(s3.Options{
		BaseEndpoint: &c.s3,
		UsePathStyle: true,
		Region:       region,
		Credentials:  c.credentials(),
	})
	if _, err := client.CreateBucket(t.Context(), &s3.CreateBucketInput{Bucket: aws.String(c.bucket)}); err != nil {
		t.Fatalf("making the bucket %s: %v", c.bucket, err)
	}
	return c
}

// settings returns the settings of another process of the fleet, with its own folder.
func (c *cloud) settings(t *testing.T, args ...string) settings {
	t.Helper()
	return settings{
		dir:   t.TempDir(),
		store: c.flags(),
		args:  append([]string{"--create-table"}, args...),
		env:   []string{"AWS_ACCESS_KEY_ID=" + c.access, "AWS_SECRET_ACCESS_KEY=" + c.secret},
	}
}

func (c *cloud) tables() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{BaseEndpoint: &c.dynamodb, Region: region, Credentials: c.credentials()})
}

func (c *cloud) credentials() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(c.access, c.secret, "")
}

func (c *cloud) flags() []string {
	return []string{
		"--table", c.table, "--bucket", c.bucket, "--region", region,
		"--dynamodb-endpoint", c.dynamodb, "--s3-endpoint", c.s3,
	}
}

// foreignTable creates the test's table first, with another key schema than the cache uses.
func foreignTable(t *testing.T, _ *settings, c *cloud) {
	t.Helper()
	_, err := c.tables().CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            &c.table,
		BillingMode:          types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeS}},
	})
	if err != nil {
		t.Fatalf("making the table %s: %v", c.table, err)
	}
}
