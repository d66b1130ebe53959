package wire_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/facetheory/isr/localdynamo/wire"
)

// everyType returns an item with every type of attribute, and with text that JSON must
// escape.
func everyType() item {
	return item{
		"pk":      str("every"),
		"empty":   str(""),
		"text":    str("\x00\x1f\t\"\\/é😀\u2028</script>"),
		"é\"\\\n": str("name"),
		"number":  num("12345678901234567890.123456789"),
		"blob":    &types.AttributeValueMemberB{Value: []byte{0, 255, 254, 10}},
		"true":    &types.AttributeValueMemberBOOL{Value: true},
		"false":   &types.AttributeValueMemberBOOL{Value: false},
		"null":    &types.AttributeValueMemberNULL{Value: true},
		"ss":      &types.AttributeValueMemberSS{Value: []string{"", "a", "\"b\""}},
		"ns":      &types.AttributeValueMemberNS{Value: []string{"1", "2.5"}},
		"bs":      &types.AttributeValueMemberBS{Value: [][]byte{{1}, {2, 3}}},
		"list":    &types.AttributeValueMemberL{Value: []types.AttributeValue{str("a"), &types.AttributeValueMemberL{Value: []types.AttributeValue{}}}},
		"map":     &types.AttributeValueMemberM{Value: item{"m": &types.AttributeValueMemberM{Value: item{}}}},
	}
}

func sameItem(t *testing.T, what string, got, want item) {
	t.Helper()
	ignore := cmpopts.IgnoreUnexported(
		types.AttributeValueMemberS{}, types.AttributeValueMemberN{}, types.AttributeValueMemberB{}, types.AttributeValueMemberBOOL{},
		types.AttributeValueMemberNULL{}, types.AttributeValueMemberSS{}, types.AttributeValueMemberNS{}, types.AttributeValueMemberBS{},
		types.AttributeValueMemberL{}, types.AttributeValueMemberM{},
	)
	order := cmpopts.SortSlices(func(a, b string) bool { return a < b })
	if diff := cmp.Diff(want, got, ignore, order); diff != "" {
		t.Errorf("%s (- want, + got):\n%s", what, diff)
	}
}

// TestItemsThroughSDK runs every operation on items with every type of attribute, with
// the SDK over a connection.
func TestItemsThroughSDK(t *testing.T) {
	t.Parallel()
	client := newClient(serve(t, newHandler(t, wire.Config{})), "anyone", "anything")
	ctx := t.Context()
	want := everyType()
	put(t, client, want)
	key := item{"pk": str("every")}

	got, err := client.GetItem(ctx, &dynamodb.GetItemInput{TableName: things, Key: key, ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal})
	if err != nil {
		t.Fatal(err)
	}
	sameItem(t, "GetItem", got.Item, want)
	if got.ConsumedCapacity == nil || aws.ToFloat64(got.ConsumedCapacity.CapacityUnits) != 1 {
		t.Errorf("GetItem: consumed %+v", got.ConsumedCapacity)
	}
	query, err := client.Query(ctx, &dynamodb.QueryInput{
		TableName: things, KeyConditionExpression: aws.String("pk = :p"), ExpressionAttributeValues: item{":p": str("every")}, Limit: aws.Int32(1),
	})
	if err != nil {
		t.Fatal(err)
	}
	if query.Count != 1 || query.ScannedCount != 1 || len(query.Items) != 1 {
		t.Fatalf("Query: got %+v", query)
	}
	sameItem(t, "Query", query.Items[0], want)
	scan, err := client.Scan(ctx, &dynamodb.ScanInput{TableName: things, FilterExpression: aws.String("attribute_exists(bs)"), Limit: aws.Int32(1)})
	if err != nil || len(scan.Items) != 1 {
		t.Fatalf("Scan: got %+v, %v", scan, err)
	}
	sameItem(t, "Scan", scan.Items[0], want)
	sameItem(t, "Scan's last key", scan.LastEvaluatedKey, key)

	update, err := client.UpdateItem(ctx, &dynamodb.UpdateItemInput{
		TableName: things, Key: key, UpdateExpression: aws.String("SET #n = :v"), ReturnValues: types.ReturnValueUpdatedNew,
		ExpressionAttributeNames: map[string]string{"#n": "new"}, ExpressionAttributeValues: item{":v": num("7")},
	})
	if err != nil {
		t.Fatal(err)
	}
	sameItem(t, "UpdateItem", update.Attributes, item{"new": num("7")})
	want["new"] = num("7")
	deleted, err := client.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: things, Key: key, ReturnValues: types.ReturnValueAllOld})
	if err != nil {
		t.Fatal(err)
	}
	sameItem(t, "DeleteItem", deleted.Attributes, want)
}

func TestBatchesAndTransactionsThroughSDK(t *testing.T) {
	t.Parallel()
	client := newClient(serve(t, newHandler(t, wire.Config{})), "anyone", "anything")
	ctx := t.Context()
	want := everyType()
	key := item{"pk": str("every")}
	written, err := client.BatchWriteItem(ctx, &dynamodb.BatchWriteItemInput{RequestItems: map[string][]types.WriteRequest{*things: {
		{PutRequest: &types.PutRequest{Item: want}}, {DeleteRequest: &types.DeleteRequest{Key: item{"pk": str("other")}}},
	}}})
	if err != nil || written.UnprocessedItems == nil || len(written.UnprocessedItems) > 0 {
		t.Fatalf("BatchWriteItem: got %+v, %v", written, err)
	}
	got, err := client.BatchGetItem(ctx, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{*things: {Keys: []map[string]types.AttributeValue{key}}}})
	if err != nil || got.UnprocessedKeys == nil || len(got.Responses[*things]) != 1 {
		t.Fatalf("BatchGetItem: got %+v, %v", got, err)
	}
	sameItem(t, "BatchGetItem", got.Responses[*things][0], want)
	if _, err := client.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{
		{Update: &types.Update{TableName: things, Key: key, UpdateExpression: aws.String("REMOVE bs")}},
		{ConditionCheck: &types.ConditionCheck{TableName: things, Key: item{"pk": str("other")}, ConditionExpression: aws.String("attribute_not_exists(pk)")}},
	}}); err != nil {
		t.Fatal(err)
	}
	delete(want, "bs")
	read, err := client.TransactGetItems(ctx, &dynamodb.TransactGetItemsInput{TransactItems: []types.TransactGetItem{
		{Get: &types.Get{TableName: things, Key: item{"pk": str("other")}}}, {Get: &types.Get{TableName: things, Key: key}},
	}})
	if err != nil || len(read.Responses) != 2 {
		t.Fatalf("TransactGetItems: got %+v, %v", read, err)
	}
	sameItem(t, "TransactGetItems", read.Responses[0].Item, nil)
	sameItem(t, "TransactGetItems", read.Responses[1].Item, want)
}

func TestTablesThroughSDK(t *testing.T) {
	t.Parallel()
	client := newClient(serve(t, newHandler(t, wire.Config{})), "anyone", "anything")
	ctx := t.Context()
	described, err := client.DescribeTable(ctx, &dynamodb.DescribeTableInput{TableName: things})
	if err != nil {
		t.Fatal(err)
	}
	table := described.Table
	if aws.ToString(table.TableName) != *things || table.TableStatus != types.TableStatusActive ||
		table.CreationDateTime.IsZero() || len(table.KeySchema) != 1 || table.KeySchema[0].KeyType != types.KeyTypeHash {
		t.Errorf("DescribeTable: got %+v", table)
	}
	expiry, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{
		TableName: things, TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("until"), Enabled: aws.Bool(true)},
	})
	if err != nil || aws.ToString(expiry.TimeToLiveSpecification.AttributeName) != "until" {
		t.Errorf("UpdateTimeToLive: got %+v, %v", expiry, err)
	}
	state, err := client.DescribeTimeToLive(ctx, &dynamodb.DescribeTimeToLiveInput{TableName: things})
	if err != nil || state.TimeToLiveDescription.TimeToLiveStatus != types.TimeToLiveStatusEnabled {
		t.Errorf("DescribeTimeToLive: got %+v, %v", state, err)
	}
	updated, err := client.UpdateTable(ctx, &dynamodb.UpdateTableInput{TableName: things, DeletionProtectionEnabled: aws.Bool(true)})
	if err != nil || !aws.ToBool(updated.TableDescription.DeletionProtectionEnabled) {
		t.Errorf("UpdateTable: got %+v, %v", updated, err)
	}
	tagTable(t, client, table.TableArn)
	others := aws.String("others")
	created, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: others, BillingMode: types.BillingModePayPerRequest,
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("id"), KeyType: types.KeyTypeHash}},
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: types.ScalarAttributeTypeB}},
	})
	if err != nil || created.TableDescription.AttributeDefinitions[0].AttributeType != types.ScalarAttributeTypeB {
		t.Errorf("CreateTable: got %+v, %v", created, err)
	}
	list, err := client.ListTables(ctx, &dynamodb.ListTablesInput{Limit: aws.Int32(1)})
	if err != nil || len(list.TableNames) != 1 || aws.ToString(list.LastEvaluatedTableName) != "others" {
		t.Errorf("ListTables: got %+v, %v", list, err)
	}
	deleted, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: others})
	if err != nil || aws.ToString(deleted.TableDescription.TableName) != "others" {
		t.Errorf("DeleteTable: got %+v, %v", deleted, err)
	}
}

func tagTable(t *testing.T, client *dynamodb.Client, arn *string) {
	t.Helper()
	ctx := t.Context()
	if _, err := client.TagResource(ctx, &dynamodb.TagResourceInput{ResourceArn: arn, Tags: []types.Tag{
		{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")},
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UntagResource(ctx, &dynamodb.UntagResourceInput{ResourceArn: arn, TagKeys: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	tags, err := client.ListTagsOfResource(ctx, &dynamodb.ListTagsOfResourceInput{ResourceArn: arn})
	if err != nil || len(tags.Tags) != 1 || aws.ToString(tags.Tags[0].Value) != "2" {
		t.Errorf("ListTagsOfResource: got %+v, %v", tags, err)
	}
}

func TestAccountThroughSDK(t *testing.T) {
	t.Parallel()
	url := serve(t, newHandler(t, wire.Config{}))
	client := newClient(url, "anyone", "anything")
	limits, err := client.DescribeLimits(t.Context(), &dynamodb.DescribeLimitsInput{})
	if err != nil || aws.ToInt64(limits.TableMaxReadCapacityUnits) == 0 {
		t.Errorf("DescribeLimits: got %+v, %v", limits, err)
	}
	endpoints, err := client.DescribeEndpoints(t.Context(), &dynamodb.DescribeEndpointsInput{})
	if err != nil || len(endpoints.Endpoints) != 1 || "http://"+aws.ToString(endpoints.Endpoints[0].Address) != url {
		t.Errorf("DescribeEndpoints: got %+v, %v", endpoints, err)
	}
}

// failing returns a Config whose interceptor fails every call with err.
func failing(err error) wire.Config {
	return wire.Config{Intercept: func(context.Context, wire.Call, func()) error { return err }}
}

// TestErrorsThroughSDK: the SDK decodes each API error to the same error.
func TestErrorsThroughSDK(t *testing.T) {
	t.Parallel()
	message := aws.String("some \"words\"")
	reasons := []types.ThrottlingReason{{Reason: aws.String("TableReadProvisionedThroughputExceeded"), Resource: aws.String("arn")}}
	for _, want := range []smithy.APIError{
		&types.ConditionalCheckFailedException{Message: message, Item: everyType()},
		&types.ConditionalCheckFailedException{Message: message},
		&types.IdempotentParameterMismatchException{Message: message},
		&types.InternalServerError{Message: message},
		&types.ItemCollectionSizeLimitExceededException{Message: message},
		&types.LimitExceededException{Message: message},
		&types.ProvisionedThroughputExceededException{Message: message, ThrottlingReasons: reasons},
		&types.ReplicatedWriteConflictException{Message: message},
		&types.RequestLimitExceeded{Message: message, ThrottlingReasons: reasons},
		&types.ResourceInUseException{Message: message},
		&types.ResourceNotFoundException{Message: message},
		&types.ThrottlingException{Message: message, ThrottlingReasons: reasons},
		&types.TransactionCanceledException{Message: message, CancellationReasons: []types.CancellationReason{
			{Code: aws.String("None")}, {Code: aws.String("ConditionalCheckFailed"), Message: message, Item: everyType()},
		}},
		&types.TransactionConflictException{Message: message},
		&types.TransactionInProgressException{Message: message},
	} {
		client := newClient(serve(t, newHandler(t, failing(want))), "anyone", "anything")
		_, err := client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{TransactItems: []types.TransactWriteItem{}})
		var got smithy.APIError
		if !errors.As(err, &got) {
			t.Errorf("%T: got %v", want, err)
			continue
		}
		exported := cmp.FilterPath(func(p cmp.Path) bool {
			field, ok := p.Last().(cmp.StructField)
			return ok && field.Name() == "noSmithyDocumentSerde"
		}, cmp.Ignore())
		if diff := cmp.Diff(want, got, exported, cmpopts.SortSlices(func(a, b string) bool { return a < b })); diff != "" {
			t.Errorf("%T (- sent, + got):\n%s", want, diff)
		}
	}
}

func TestValidationThroughSDK(t *testing.T) {
	t.Parallel()
	client := newClient(serve(t, newHandler(t, wire.Config{})), "anyone", "anything")
	_, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: item{}})
	var got smithy.APIError
	if !errors.As(err, &got) || got.ErrorCode() != "ValidationException" || !strings.Contains(got.ErrorMessage(), "key element") {
		t.Errorf("got %v", err)
	}
}

// TestBrokenConnection: any other error of an interceptor breaks the connection, before
// or after the call is applied.
func TestBrokenConnection(t *testing.T) {
	t.Parallel()
	for _, applied := range []bool{false, true} {
		var lose atomic.Bool
		client := newClient(serve(t, newHandler(t, wire.Config{Intercept: func(_ context.Context, _ wire.Call, apply func()) error {
			if !lose.Load() {
				return nil
			}
			if applied {
				apply()
			}
			return errors.New("lost")
		}})), "anyone", "anything")
		put(t, client, item{"pk": str("other")})
		lose.Store(true)
		_, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: things, Item: item{"pk": str("a")}})
		var sent interface{ ConnectionError() bool }
		if !errors.As(err, &sent) {
			t.Errorf("got %v, want a broken connection", err)
		}
		lose.Store(false)
		out, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: things, Key: item{"pk": str("a")}})
		if err != nil || (out.Item != nil) != applied {
			t.Errorf("applied: %t, found: %v, %v", applied, out.Item, err)
		}
	}
}
