package sdk

import (
	"bytes"
	"crypto/rand"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// golang runs the tests of the SDK for Go, which verifies the CRC-32 of every response.
func (s *server) golang(t *testing.T) {
	t.Parallel()
	u := goUser{client: s.client(s.access, s.secret)}
	t.Run("tables", u.tables)
	t.Run("items", func(t *testing.T) {
		u.table = u.createTable(t)
		t.Run("values", u.values)
		t.Run("conditions", u.conditions)
		t.Run("pages", u.pages)
		t.Run("batches", u.batches)
		t.Run("transactions", u.transactions)
		t.Run("refusals", u.refusals)
	})
	if s.verified {
		t.Run("wrong signatures", s.wrongSignatures)
	}
}

// client returns a client without retries, which would hide failures.
func (s *server) client(access, secret string) *dynamodb.Client {
	return dynamodb.New(dynamodb.Options{
		BaseEndpoint:             aws.String(s.url),
		Region:                   "eu-nowhere-1",
		Credentials:              credentials.NewStaticCredentialsProvider(access, secret, ""),
		EnableAcceptEncodingGzip: true,
		RetryMaxAttempts:         1,
	})
}

type goUser struct {
	client *dynamodb.Client
	table  string
}

// schema returns a table with an index of a customer's orders by price.
func schema(name string) *dynamodb.CreateTableInput {
	attribute := func(name string, t types.ScalarAttributeType) types.AttributeDefinition {
		return types.AttributeDefinition{AttributeName: aws.String(name), AttributeType: t}
	}
	keys := func(hash, sort string) []types.KeySchemaElement {
		return []types.KeySchemaElement{
			{AttributeName: aws.String(hash), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String(sort), KeyType: types.KeyTypeRange},
		}
	}
	return &dynamodb.CreateTableInput{
		TableName:   aws.String(name),
		BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{
			attribute("pk", types.ScalarAttributeTypeS), attribute("sk", types.ScalarAttributeTypeN),
			attribute("customer", types.ScalarAttributeTypeS), attribute("price", types.ScalarAttributeTypeN),
		},
		KeySchema: keys("pk", "sk"),
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName:  aws.String("by-price"),
			KeySchema:  keys("customer", "price"),
			Projection: &types.Projection{ProjectionType: types.ProjectionTypeKeysOnly},
		}},
		Tags: []types.Tag{{Key: aws.String("stage"), Value: aws.String("test")}},
	}
}

// createTable creates a table with a new name and waits until it is active.
func (u goUser) createTable(t *testing.T) string {
	t.Helper()
	name := "go-" + rand.Text()
	_, err := u.client.CreateTable(t.Context(), schema(name))
	noError(t, err)
	waiter := dynamodb.NewTableExistsWaiter(u.client, func(o *dynamodb.TableExistsWaiterOptions) { o.MinDelay, o.MaxDelay = time.Millisecond, time.Second })
	noError(t, waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute))
	return name
}

func (u goUser) tables(t *testing.T) {
	ctx, name := t.Context(), u.createTable(t)
	_, err := u.client.CreateTable(ctx, schema(name))
	isError[*types.ResourceInUseException](t, err)
	described, err := u.client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: &name})
	noError(t, err)
	if age := time.Since(*described.Table.CreationDateTime); age < -time.Minute || age > time.Minute {
		t.Errorf("the table was created %s ago", age)
	}
	if index := described.Table.GlobalSecondaryIndexes[0]; index.IndexStatus != types.IndexStatusActive || *index.IndexName != "by-price" {
		t.Errorf("unexpected index %+v", index)
	}
	var names []string
	for pages := dynamodb.NewListTablesPaginator(u.client, &dynamodb.ListTablesInput{Limit: aws.Int32(1)}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		noError(t, err)
		names = append(names, page.TableNames...)
	}
	if !slices.Contains(names, name) {
		t.Errorf("got the tables %q, expected %q among them", names, name)
	}
	u.tag(t, described.Table.TableArn)
	_, err = u.client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName:               &name,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expires"), Enabled: aws.Bool(true)},
	})
	noError(t, err)
	ttl, err := u.client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: &name})
	noError(t, err)
	equal(t, "expires", *ttl.TimeToLiveDescription.AttributeName)
	u.deleteTable(t, name)
}

func (u goUser) tag(t *testing.T, arn *string) {
	t.Helper()
	ctx := t.Context()
	_, err := u.client.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{{Key: aws.String("owner"), Value: aws.String("zoë")}}})
	noError(t, err)
	_, err = u.client.UntagResource(ctx, &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"stage"}})
	noError(t, err)
	tags, err := u.client.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
	noError(t, err)
	equal(t, []types.Tag{{Key: aws.String("owner"), Value: aws.String("zoë")}}, tags.Tags)
}

func (u goUser) deleteTable(t *testing.T, name string) {
	t.Helper()
	_, err := u.client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: &name})
	noError(t, err)
	waiter := dynamodb.NewTableNotExistsWaiter(u.client, func(o *dynamodb.TableNotExistsWaiterOptions) { o.MinDelay, o.MaxDelay = time.Millisecond, time.Second })
	noError(t, waiter.Wait(t.Context(), &dynamodb.DescribeTableInput{TableName: &name}, time.Minute))
	_, err = u.client.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: &name})
	isError[*types.ResourceNotFoundException](t, err)
}

func (u goUser) values(t *testing.T) {
	item := order("values", 1, attributes{
		"digits":  number("12345678901234567890123456789012345678"),
		"huge":    number("1" + strings.Repeat("0", 125)),
		"tiny":    number("-0." + strings.Repeat("0", 129) + "1"),
		"empty":   text(""),
		"text":    text("Größe 東京 🚲 \x00 \"\\"),
		"long":    text(strings.Repeat("é\n", 100_000)),
		"bytes":   &types.AttributeValueMemberB{Value: []byte{0, 1, 254, 255}},
		"nothing": &types.AttributeValueMemberNULL{Value: true},
		"yes":     &types.AttributeValueMemberBOOL{Value: true},
		"list":    &types.AttributeValueMemberL{Value: []types.AttributeValue{number("1"), &types.AttributeValueMemberL{Value: []types.AttributeValue{}}}},
		"map":     &types.AttributeValueMemberM{Value: attributes{"a.b": &types.AttributeValueMemberM{Value: attributes{}}}},
		"names":   &types.AttributeValueMemberSS{Value: []string{"", "a", "b"}},
		"numbers": &types.AttributeValueMemberNS{Value: []string{"-1", "3", "20.5"}},
		"blobs":   &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}},
	})
	_, err := u.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &u.table, Item: item})
	noError(t, err)
	got, err := u.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: &u.table, Key: order("values", 1, nil), ConsistentRead: aws.Bool(true)})
	noError(t, err)
	equal(t, item, got.Item)
}

func (u goUser) conditions(t *testing.T) {
	ctx := t.Context()
	item := order("conditions", 1, attributes{"version": number("1")})
	create := &dynamodb.PutItemInput{TableName: &u.table, Item: item, ConditionExpression: aws.String("attribute_not_exists(pk)")}
	_, err := u.client.PutItem(ctx, create)
	noError(t, err)
	_, err = u.client.PutItem(ctx, create)
	equal(t, attributes(nil), isError[*types.ConditionalCheckFailedException](t, err).Item)
	create.ReturnValuesOnConditionCheckFailure = types.ReturnValuesOnConditionCheckFailureAllOld
	_, err = u.client.PutItem(ctx, create)
	failed := isError[*types.ConditionalCheckFailedException](t, err)
	equal(t, item, failed.Item)
	equal(t, "The conditional request failed", failed.ErrorMessage())

	updated, err := u.client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName:                 &u.table,
		Key:                       order("conditions", 1, nil),
		UpdateExpression:          aws.String("SET #v = #v + :one ADD tags :tags"),
		ConditionExpression:       aws.String("#v = :one"),
		ExpressionAttributeNames:  map[string]string{"#v": "version"},
		ExpressionAttributeValues: attributes{":one": number("1.0"), ":tags": &types.AttributeValueMemberSS{Value: []string{"x"}}},
		ReturnValues:              types.ReturnValueUpdatedNew,
	})
	noError(t, err)
	equal(t, attributes{"version": number("2"), "tags": &types.AttributeValueMemberSS{Value: []string{"x"}}}, updated.Attributes)
	_, err = u.client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: &u.table, Key: order("conditions", 1, nil)})
	noError(t, err)
}

func (u goUser) pages(t *testing.T) {
	ctx := t.Context()
	for n := range 12 {
		item := order("pages", n, attributes{"customer": text("zoë"), "price": number(strconv.Itoa(-n)), "hidden": text("x")})
		_, err := u.client.PutItem(ctx, &dynamodb.PutItemInput{TableName: &u.table, Item: item})
		noError(t, err)
	}
	var found []string
	for pages := dynamodb.NewQueryPaginator(u.client, &dynamodb.QueryInput{
		TableName:                 &u.table,
		IndexName:                 aws.String("by-price"),
		KeyConditionExpression:    aws.String("customer = :c AND price < :p"),
		ExpressionAttributeValues: attributes{":c": text("zoë"), ":p": number("-2")},
		Limit:                     aws.Int32(4),
	}); pages.HasMorePages(); {
		page, err := pages.NextPage(ctx)
		noError(t, err)
		for _, item := range page.Items {
			equal(t, []string{"customer", "pk", "price", "sk"}, slices.Sorted(maps.Keys(item)))
			found = append(found, item["sk"].(*types.AttributeValueMemberN).Value)
		}
	}
	equal(t, []string{"11", "10", "9", "8", "7", "6", "5", "4", "3"}, found)
	var scanned int32
	for segment := range int32(2) {
		for pages := dynamodb.NewScanPaginator(u.client, &dynamodb.ScanInput{
			TableName: &u.table, IndexName: aws.String("by-price"), Segment: &segment, TotalSegments: aws.Int32(2), Limit: aws.Int32(5),
		}); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			noError(t, err)
			scanned += page.Count
		}
	}
	equal(t, int32(12), scanned)
}

func (u goUser) batches(t *testing.T) {
	var writes []types.WriteRequest
	keys := []map[string]types.AttributeValue{order("batch", 99, nil)} // does not exist
	for n := range 25 {
		keys = append(keys, order("batch", n, nil))
		writes = append(writes, types.WriteRequest{PutRequest: &types.PutRequest{Item: order("batch", n, nil)}})
	}
	wrote, err := u.client.BatchWriteItem(t.Context(), &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{u.table: writes}})
	noError(t, err)
	equal(t, map[string][]types.WriteRequest{}, wrote.UnprocessedItems)
	read, err := u.client.BatchGetItem(t.Context(), &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{u.table: {Keys: keys}}})
	noError(t, err)
	equal(t, 25, len(read.Responses[u.table]))
	equal(t, map[string]types.KeysAndAttributes{}, read.UnprocessedKeys)
}

func (u goUser) transactions(t *testing.T) {
	ctx := t.Context()
	put := func(n int, condition *string) types.TransactWriteItem {
		return types.TransactWriteItem{Put: &types.Put{
			TableName: &u.table, Item: order("transaction", n, attributes{"value": text("old")}), ConditionExpression: condition,
			ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
		}}
	}
	first := &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{put(1, nil), put(2, nil)}, ClientRequestToken: aws.String(rand.Text())}
	for range 2 { // the token makes the second call idempotent
		_, err := u.client.TransactWriteItems(ctx, first)
		noError(t, err)
	}
	_, err := u.client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{put(3, nil), put(2, aws.String("attribute_not_exists(pk)"))}})
	reasons := isError[*types.TransactionCanceledException](t, err).CancellationReasons
	equal(t, []types.CancellationReason{
		{Code: aws.String("None")},
		{Code: aws.String("ConditionalCheckFailed"), Message: aws.String("The conditional request failed"), Item: order("transaction", 2, attributes{"value": text("old")})},
	}, reasons)
	first.TransactItems = first.TransactItems[:1]
	_, err = u.client.TransactWriteItems(ctx, first)
	isError[*types.IdempotentParameterMismatchException](t, err)

	get := func(n int) types.TransactGetItem {
		return types.TransactGetItem{Get: &types.Get{TableName: &u.table, Key: order("transaction", n, nil), ProjectionExpression: aws.String("sk")}}
	}
	got, err := u.client.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{get(1), get(3), get(2)}})
	noError(t, err)
	equal(t, []types.ItemResponse{{Item: attributes{"sk": number("1")}}, {}, {Item: attributes{"sk": number("2")}}}, got.Responses)
}

func (u goUser) refusals(t *testing.T) {
	_, err := u.client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("none"), Key: order("a", 1, nil)})
	isError[*types.ResourceNotFoundException](t, err)
	_, err = u.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &u.table, Item: order("", 1, nil)})
	hasCode(t, "ValidationException", err)
	_, err = u.client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: &u.table, Item: order("a", 1, attributes{"long": text(strings.Repeat("x", 400<<10))})})
	hasCode(t, "ValidationException", err)
	_, err = u.client.ListBackups(t.Context(), &dynamodb.ListBackupsInput{})
	hasCode(t, "UnknownOperationException", err)
}

func (s *server) wrongSignatures(t *testing.T) {
	_, err := s.client(s.access, "guessed").ListTables(t.Context(), &dynamodb.ListTablesInput{})
	hasCode(t, "InvalidSignatureException", err)
	_, err = s.client("somebody", "guessed").ListTables(t.Context(), &dynamodb.ListTablesInput{})
	hasCode(t, "UnrecognizedClientException", err)
}

// attributes are an item, or a part of one.
type attributes = map[string]types.AttributeValue

func text(s string) types.AttributeValue { return &types.AttributeValueMemberS{Value: s} }

func number(s string) types.AttributeValue { return &types.AttributeValueMemberN{Value: s} }

// order returns an item with its key, or only the key.
func order(pk string, sk int, more attributes) attributes {
	item := attributes{"pk": text(pk), "sk": number(strconv.Itoa(sk))}
	maps.Copy(item, more)
	return item
}

func noError(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// isError expects an error of type E and returns it.
func isError[E error](t *testing.T, err error) E {
	t.Helper()
	found, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("got error %v, expected %T", err, found)
	}
	return found
}

func hasCode(t *testing.T, code string, err error) {
	t.Helper()
	if e := isError[smithy.APIError](t, err); e.ErrorCode() != code {
		t.Errorf("got error %v, expected %s", err, code)
	}
}

// equal compares values; sets are unordered.
func equal(t *testing.T, want, got any) {
	t.Helper()
	difference := cmp.Diff(want, got, cmpopts.IgnoreUnexported(
		types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{}, types.AttributeValueMemberL{},
		types.AttributeValueMemberM{}, types.AttributeValueMemberN{}, types.AttributeValueMemberNULL{}, types.AttributeValueMemberS{},
		types.CancellationReason{}, types.ItemResponse{}, types.Tag{},
	), cmp.Transformer("members", func(set types.AttributeValueMemberSS) []string { return slices.Sorted(slices.Values(set.Value)) }),
		cmp.Transformer("members", func(set types.AttributeValueMemberNS) []string { return slices.Sorted(slices.Values(set.Value)) }),
		cmp.Transformer("members", func(set types.AttributeValueMemberBS) [][]byte {
			return slices.SortedFunc(slices.Values(set.Value), bytes.Compare)
		}))
	if difference != "" {
		t.Errorf("unexpected (-want +got):\n%s", difference)
	}
}
