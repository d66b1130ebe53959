package localdynamo_test

import (
	"context"
	"errors"
	"slices"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

const cellCount = 4

// cells is the model's state: the values of a few items.
type cells [cellCount]int

const absent = -1

func noCells() cells { return cells{absent, absent, absent, absent} }

// call is an operation of a history. next and invoke define what a, b and the
// cells mean to each verb; they must agree.
type call struct {
	verb  string
	cells []int
	a, b  int
}

// result is what a call returned: whether its conditions held, and the values
// that it read.
type result struct {
	ok   bool
	seen []int
}

func (a result) equal(b result) bool { return a.ok == b.ok && slices.Equal(a.seen, b.seen) }

var (
	singleVerbs = []string{"get", "create", "swap", "add", "delete"}
	allVerbs    = append(slices.Clone(singleVerbs), "move", "guard", "snapshot", "query")
)

// next is the model: it returns the state after a call, and the call's result.
func (c call) next(s cells) (cells, result) {
	at := c.cells[0]
	old := s[at]
	switch c.verb {
	case "get":
		return s, result{true, []int{old}}
	case "create":
		if old != absent {
			return s, result{false, []int{old}}
		}
		s[at] = c.b
		return s, result{ok: true}
	case "swap":
		if old != c.a {
			return s, result{false, []int{old}}
		}
		s[at] = c.b
		return s, result{ok: true}
	case "add":
		s[at] = max(old, 0) + c.b
		return s, result{true, []int{s[at]}}
	case "delete":
		s[at] = absent
		return s, result{true, []int{old}}
	case "move":
		if old < 1 {
			return s, result{false, []int{old}}
		}
		to := c.cells[1]
		s[at], s[to] = old-1, max(s[to], 0)+1
		return s, result{ok: true}
	case "guard":
		if old != c.a {
			return s, result{false, []int{old}}
		}
		s[c.cells[1]], s[c.cells[2]] = c.b, absent
		return s, result{ok: true}
	default: // snapshot, query
		return s, result{true, slices.Clone(s[:])}
	}
}

// api is the subset of DB and the SDK's client that the histories use.
type api interface {
	GetItem(context.Context, *dynamodb.GetItemInput, ...func(*dynamodb.Options)) (*dynamodb.GetItemOutput, error)
	PutItem(context.Context, *dynamodb.PutItemInput, ...func(*dynamodb.Options)) (*dynamodb.PutItemOutput, error)
	UpdateItem(context.Context, *dynamodb.UpdateItemInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateItemOutput, error)
	DeleteItem(context.Context, *dynamodb.DeleteItemInput, ...func(*dynamodb.Options)) (*dynamodb.DeleteItemOutput, error)
	Query(context.Context, *dynamodb.QueryInput, ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error)
	TransactGetItems(context.Context, *dynamodb.TransactGetItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactGetItemsOutput, error)
	TransactWriteItems(context.Context, *dynamodb.TransactWriteItemsInput, ...func(*dynamodb.Options)) (*dynamodb.TransactWriteItemsOutput, error)
}

func cellKey(i int) item { return key("cells", strconv.Itoa(i)) }

func number(n int) types.AttributeValue { return num(strconv.Itoa(n)) }

// valueOf returns the value of a cell's item.
func valueOf(it item) (int, error) {
	v, ok := it["v"].(*types.AttributeValueMemberN)
	if !ok {
		return absent, nil
	}
	return strconv.Atoi(v.Value)
}

// cellsOf returns the values of several items.
func cellsOf(items ...item) ([]int, error) {
	seen := make([]int, len(items))
	for i, it := range items {
		var err error
		if seen[i], err = valueOf(it); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

const allOld = types.ReturnValuesOnConditionCheckFailureAllOld

// invoke performs the call on the engine.
func (c call) invoke(ctx context.Context, db api) (result, error) {
	switch c.verb {
	case "move", "guard":
		return c.invokeTransaction(ctx, db)
	case "snapshot", "query":
		return c.readAll(ctx, db)
	}
	shown, err := c.invokeSingle(ctx, db)
	var failed *types.ConditionalCheckFailedException
	if errors.As(err, &failed) {
		seen, err := cellsOf(failed.Item)
		return result{false, seen}, err
	}
	if err != nil || c.verb == "create" || c.verb == "swap" {
		return result{ok: err == nil}, err
	}
	seen, err := cellsOf(shown)
	return result{true, seen}, err
}

// invokeSingle performs a call on one item, and returns the attributes that it
// read.
func (c call) invokeSingle(ctx context.Context, db api) (item, error) {
	k := cellKey(c.cells[0])
	switch c.verb {
	case "get":
		out, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: things, Key: k, ConsistentRead: aws.Bool(true)})
		if err != nil {
			return nil, err
		}
		return out.Item, nil
	case "create":
		k["v"] = number(c.b)
		_, err := db.PutItem(ctx, &dynamodb.PutItemInput{
			TableName: things, Item: k, ConditionExpression: aws.String("attribute_not_exists(pk)"), ReturnValuesOnConditionCheckFailure: allOld,
		})
		return nil, err
	case "swap":
		condition := "v = :a"
		values := item{":a": number(c.a), ":b": number(c.b)}
		if c.a == absent {
			condition = "attribute_not_exists(v)"
			delete(values, ":a")
		}
		_, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: things, Key: k, UpdateExpression: aws.String("SET v = :b"), ConditionExpression: &condition,
			ExpressionAttributeValues: values, ReturnValuesOnConditionCheckFailure: allOld,
		})
		return nil, err
	case "add":
		out, err := db.UpdateItem(ctx, &dynamodb.UpdateItemInput{
			TableName: things, Key: k, UpdateExpression: aws.String("ADD v :b"),
			ExpressionAttributeValues: item{":b": number(c.b)}, ReturnValues: types.ReturnValueUpdatedNew,
		})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	default: // delete
		out, err := db.DeleteItem(ctx, &dynamodb.DeleteItemInput{TableName: things, Key: k, ReturnValues: types.ReturnValueAllOld})
		if err != nil {
			return nil, err
		}
		return out.Attributes, nil
	}
}

func (c call) invokeTransaction(ctx context.Context, db api) (result, error) {
	_, err := db.TransactWriteItems(ctx, &dynamodb.TransactWriteItemsInput{TransactItems: c.actions()})
	var canceled *types.TransactionCanceledException
	if errors.As(err, &canceled) {
		seen, err := cellsOf(canceled.CancellationReasons[0].Item)
		return result{false, seen}, err
	}
	return result{ok: err == nil}, err
}

// actions returns the actions of a transaction. Only the first has a condition.
func (c call) actions() []types.TransactWriteItem {
	if c.verb == "move" {
		return []types.TransactWriteItem{
			{Update: &types.Update{
				TableName: things, Key: cellKey(c.cells[0]), UpdateExpression: aws.String("SET v = v - :one"),
				ConditionExpression: aws.String("v >= :one"), ExpressionAttributeValues: item{":one": number(1)},
				ReturnValuesOnConditionCheckFailure: allOld,
			}},
			{Update: &types.Update{
				TableName: things, Key: cellKey(c.cells[1]), UpdateExpression: aws.String("ADD v :one"), ExpressionAttributeValues: item{":one": number(1)},
			}},
		}
	}
	check := &types.ConditionCheck{
		TableName: things, Key: cellKey(c.cells[0]), ConditionExpression: aws.String("v = :a"),
		ExpressionAttributeValues: item{":a": number(c.a)}, ReturnValuesOnConditionCheckFailure: allOld,
	}
	if c.a == absent {
		check.ConditionExpression, check.ExpressionAttributeValues = aws.String("attribute_not_exists(v)"), nil
	}
	written := cellKey(c.cells[1])
	written["v"] = number(c.b)
	return []types.TransactWriteItem{
		{ConditionCheck: check},
		{Put: &types.Put{TableName: things, Item: written}},
		{Delete: &types.Delete{TableName: things, Key: cellKey(c.cells[2])}},
	}
}

// readAll reads all cells from one snapshot.
func (c call) readAll(ctx context.Context, db api) (result, error) {
	items := make([]item, cellCount)
	if c.verb == "query" {
		out, err := db.Query(ctx, &dynamodb.QueryInput{
			TableName: things, KeyConditionExpression: aws.String("pk = :p"), ConsistentRead: aws.Bool(true),
			ExpressionAttributeValues: item{":p": str("cells")},
		})
		if err != nil {
			return result{}, err
		}
		for _, it := range out.Items {
			at, err := strconv.Atoi(it["sk"].(*types.AttributeValueMemberS).Value)
			if err != nil {
				return result{}, err
			}
			items[at] = it
		}
	} else {
		in := &dynamodb.TransactGetItemsInput{}
		for i := range items {
			in.TransactItems = append(in.TransactItems, types.TransactGetItem{Get: &types.Get{TableName: things, Key: cellKey(i)}})
		}
		out, err := db.TransactGetItems(ctx, in)
		if err != nil {
			return result{}, err
		}
		for i, r := range out.Responses {
			items[i] = r.Item
		}
	}
	seen, err := cellsOf(items...)
	return result{true, seen}, err
}
