package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/s3"
)

const (
	region  = "us-east-1"
	writers = 8  // concurrent batches
	batch   = 25 // DynamoDB's limit of writes in one BatchWriteItem
)

type item = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func (p plan) credentials() aws.CredentialsProvider {
	return credentials.NewStaticCredentialsProvider(p.accessKey, p.privateKey, "")
}

func (p plan) client() *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{Region: region, BaseEndpoint: &p.dynamodb, Credentials: p.credentials()})
}

func (p plan) createBucket(ctx context.Context) error {
	client := s3.New(s3.Options{Region: region, BaseEndpoint: &p.s3, UsePathStyle: true, Credentials: p.credentials()})
	_, err := client.CreateBucket(ctx, &s3.CreateBucketInput{Bucket: &p.bucket})
	return err
}

// store writes the pages' META rows: the rows of a page that a node has rendered, with other
// keys. All have the same body.
func (p plan) store(ctx context.Context, n *node) error {
	if _, _, err := n.get(ctx, pagePath(0)); err != nil {
		return err
	}
	client := p.client()
	first, err := client.GetItem(ctx, &dynamodb.GetItemInput{
		TableName: &p.table, ConsistentRead: aws.Bool(true), Key: item{"pk": text(partition(0)), "sk": text("META")},
	})
	if err != nil || first.Item == nil {
		return errors.Join(err, errors.New("the first page was not stored"))
	}
	return p.write(ctx, client, p.table, 1, p.pages, func(n int) types.WriteRequest {
		row := maps.Clone(first.Item)
		described, _ := row["isr"].(*types.AttributeValueMemberM)
		isr := maps.Clone(described.Value)
		isr["key"] = text(host + pagePath(n))
		row["pk"], row["isr"] = text(partition(n)), &types.AttributeValueMemberM{Value: isr}
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: row}}
	}, nil)
}

func partition(n int) string {
	sum := sha256.Sum256([]byte(host + pagePath(n)))
	return "CACHE#" + hex.EncodeToString(sum[:])
}

// write sends the writes of first to last-1 in batches, and counts the consumed units.
func (p plan) write(ctx context.Context, client *dynamodb.Client, table string, first, last int, request func(int) types.WriteRequest, units *tally) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	starts := make(chan int)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for start := range starts {
				var requests []types.WriteRequest
				for n := start; n < min(start+batch, last); n++ {
					requests = append(requests, request(n))
				}
				if err := send(ctx, client, table, requests, units); err != nil {
					cancel(err)
				}
			}
		})
	}
	for start := first; start < last && ctx.Err() == nil; start += batch {
		starts <- start
	}
	close(starts)
	wg.Wait()
	return context.Cause(ctx)
}

// send writes one batch, again what DynamoDB leaves unprocessed.
func send(ctx context.Context, client *dynamodb.Client, table string, requests []types.WriteRequest, units *tally) error {
	for len(requests) > 0 {
		out, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{
			RequestItems: map[string][]types.WriteRequest{table: requests}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
		})
		if err != nil {
			return err
		}
		for _, c := range out.ConsumedCapacity {
			units.add(c.CapacityUnits)
		}
		requests = out.UnprocessedItems[table]
	}
	return nil
}

// A tally adds up consumed units. A nil tally does not count.
type tally struct {
	mu  sync.Mutex
	sum float64 // guarded by mu
}

func (t *tally) add(units *float64) {
	if t == nil || units == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.sum += *units
}

// measureIndex deletes the pages of a tag one by one: it finds their keys through an
// index, as caches do that keep the tags of each key.
func (p plan) measureIndex(ctx context.Context) error {
	client := p.client()
	if err := p.createIndexed(ctx, client); err != nil {
		return err
	}
	err := p.write(ctx, client, p.index, 0, p.pages, func(n int) types.WriteRequest {
		return types.WriteRequest{PutRequest: &types.PutRequest{Item: item{
			"pk": text(partition(n)), "tag": text(tag), "row": text(fmt.Sprintf("%0600d", n)), // as long as META
		}}}
	}, nil)
	if err != nil {
		return err
	}
	var reads, writes tally
	began := time.Now()
	keys, err := p.keysOfTag(ctx, client, &reads)
	if err != nil {
		return err
	}
	found := time.Since(began)
	err = p.write(ctx, client, p.index, 0, len(keys), func(n int) types.WriteRequest {
		return types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: keys[n]}}
	}, &writes)
	fmt.Printf("\ndeleting the %d keys of the tag, found through an index, %d batches of %d at a time\n", len(keys), writers, batch)
	fmt.Printf("  %-46s %v\n", "until all keys are found", found.Round(time.Millisecond))
	fmt.Printf("  %-46s %v\n", "until all keys are deleted", time.Since(began).Round(time.Millisecond))
	fmt.Printf("  %-46s %10.0f read units, %.0f write units\n", "consumed", reads.sum, writes.sum)
	return err
}

func (p plan) createIndexed(ctx context.Context, client *dynamodb.Client) error {
	_, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: &p.index, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("tag"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash}},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String("tags"),
			KeySchema:  []types.KeySchemaElement{{AttributeName: aws.String("tag"), KeyType: types.KeyTypeHash}, {AttributeName: aws.String("pk"), KeyType: types.KeyTypeRange}},
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
	})
	return err
}

func (p plan) keysOfTag(ctx context.Context, client *dynamodb.Client, units *tally) ([]item, error) {
	var keys []item
	pages := dynamodb.NewQueryPaginator(client, &dynamodb.QueryInput{
		TableName: &p.index, IndexName: aws.String("tags"), KeyConditionExpression: aws.String("tag = :tag"),
		ExpressionAttributeValues: item{":tag": text(tag)}, ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
	})
	for pages.HasMorePages() {
		page, err := pages.NextPage(ctx)
		if err != nil {
			return nil, err
		}
		if page.ConsumedCapacity != nil {
			units.add(page.ConsumedCapacity.CapacityUnits)
		}
		for _, found := range page.Items {
			keys = append(keys, item{"pk": found["pk"]})
		}
	}
	return slices.Clip(keys), nil
}
