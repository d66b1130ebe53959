package main

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo"
)

// api is the measured part of what the SDK's client and the engine have in common.
type api interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
}

var (
	_ api = (*dynamodb.Client)(nil)
	_ api = (*localdynamo.DB)(nil)
)

// The table has pages, items of 1 KB in a partition each, and lists, partitions of 100
// items of 100 bytes for Query. Sizes are counted as DynamoDB counts them, with names
// and values.
const (
	pages     = 5_000
	lists     = 10
	listItems = 100

	pageAttributes = 8
)

var tableName = aws.String("bench")

type item = map[string]types.AttributeValue

// An operation is one row of the benchmark's result.
type operation struct {
	name string
	// call executes the operation once, on the i-th item.
	call func(ctx context.Context, to api, i int) error
	// minResponse is the minimum length of the body of a successful response; 0 if the
	// operation is not measured over raw connections.
	minResponse int
}

func operations() []operation {
	return []operation{
		{name: "GetItem", call: getItem, minResponse: 1024},
		{name: "PutItem", call: putItem, minResponse: len("{}")},
		{name: "UpdateItem, conditional", call: updateItem, minResponse: len("{}")},
		{name: transactRow, call: transactWriteItems, minResponse: len("{}")},
		{name: "Query of 100 items", call: query},
	}
}

// transactRow is the name of the operation that dynalite does not support.
const transactRow = "TransactWriteItems, two items"

// creation is the operation that -start measures.
var creation = operation{name: "CreateTable", call: func(ctx context.Context, to api, _ int) error { return createTable(ctx, to) }, minResponse: len("{}")}

func getItem(ctx context.Context, to api, i int) error {
	out, err := to.GetItem(ctx, &dynamodb.GetItemInput{TableName: tableName, Key: pageKey(i), ConsistentRead: aws.Bool(true)})
	if err == nil && len(out.Item) != pageAttributes {
		err = fmt.Errorf("item %d has %d attributes, want 8", i, len(out.Item))
	}
	return err
}

func putItem(ctx context.Context, to api, i int) error {
	_, err := to.PutItem(ctx, &dynamodb.PutItemInput{TableName: tableName, Item: page(i)})
	return err
}

func updateItem(ctx context.Context, to api, i int) error {
	_, err := to.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: tableName, Key: pageKey(i),
		ConditionExpression:       aws.String("attribute_exists(pk) AND hits < :most"),
		UpdateExpression:          aws.String("SET hits = hits + :one"),
		ExpressionAttributeValues: item{":one": number("1"), ":most": number("1000000000")},
	})
	return err
}

// transactWriteItems replaces one page and increments a counter on another.
func transactWriteItems(ctx context.Context, to api, i int) error {
	_, err := to.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Put: &types.Put{TableName: tableName, Item: page(i), ConditionExpression: aws.String("attribute_exists(pk)")}},
		{Update: &types.Update{
			TableName: tableName, Key: pageKey(i + 1),
			ConditionExpression:       aws.String("attribute_exists(pk)"),
			UpdateExpression:          aws.String("SET hits = hits + :one"),
			ExpressionAttributeValues: item{":one": number("1")},
		}},
	}})
	return err
}

func query(ctx context.Context, to api, i int) error {
	out, err := to.Query(ctx, &dynamodb.QueryInput{
		TableName: tableName, KeyConditionExpression: aws.String("pk = :list"),
		ExpressionAttributeValues: item{":list": str(listName(i))}, ConsistentRead: aws.Bool(true),
	})
	if err == nil && len(out.Items) != listItems {
		err = fmt.Errorf("list %d has %d items, want 100", i, len(out.Items))
	}
	return err
}

func str(s string) types.AttributeValue    { return &types.AttributeValueMemberS{Value: s} }
func number(n string) types.AttributeValue { return &types.AttributeValueMemberN{Value: n} }

func pageKey(i int) item {
	return item{"pk": str(fmt.Sprintf("PAGE#%043d", i%pages)), "sk": str("META")}
}

// page returns an item of 1 KB, like the META row of a page.
func page(i int) item {
	p := pageKey(i)
	p["etag"] = str(`"8c7dd922ad47494fc02c388e12c00eac"`)
	p["generated_at"] = number("1700000000")
	p["revalidate"] = number("60")
	p["hits"] = number("0")
	p["s3_key"] = str("bodies/" + strings.Repeat("b", 64))
	p["headers"] = str(strings.Repeat("content-type: text/html; charset=utf-8\n", 20))
	return p
}

func listName(i int) string { return fmt.Sprintf("LIST#%d", i%lists) }

// listItem returns an item of 100 bytes.
func listItem(list, i int) item {
	return item{"pk": str(listName(list)), "sk": str(fmt.Sprintf("%06d", i)), "hits": number("1"), "text": str(strings.Repeat("t", 74))}
}

// fill creates the table and its items.
func fill(ctx context.Context, to api) error {
	if err := createTable(ctx, to); err != nil {
		return err
	}
	return each(pages+lists*listItems, func(i int) error {
		made := page(i)
		if i >= pages {
			made = listItem((i-pages)/listItems, i%listItems)
		}
		_, err := to.PutItem(ctx, &dynamodb.PutItemInput{TableName: tableName, Item: made})
		return err
	})
}

func createTable(ctx context.Context, to api) error {
	_, err := to.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: tableName, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("pk"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("sk"), AttributeType: types.ScalarAttributeTypeS},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("pk"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("sk"), KeyType: types.KeyTypeRange},
		},
	})
	return err
}

// each calls do for the numbers below n, 64 at a time, and returns the first error.
func each(n int, do func(i int) error) error {
	const together = 64
	var failed error
	var once sync.Once
	var group sync.WaitGroup
	for worker := range together {
		group.Go(func() {
			for i := worker; i < n; i += together {
				if err := do(i); err != nil {
					once.Do(func() { failed = err })
					return
				}
			}
		})
	}
	group.Wait()
	return failed
}
