package simulator_test

import (
	"context"
	"errors"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/dynamostore"
)

type (
	item    = map[string]types.AttributeValue
	options = func(*dynamodb.Options)
)

// An editedAPI alters a node's requests and their responses. Fields that are nil alter nothing.
// It copies requests first, because the store sends the same ones again.
type editedAPI struct {
	dynamostore.API
	put      func(*dynamodb.PutItemInput)
	update   func(*dynamodb.UpdateItemInput)
	delete   func(*dynamodb.DeleteItemInput)
	meta     func(*types.Update)                // of META, in a transaction
	lock     func(*types.TransactWriteItem)     // of LOCK, in a transaction
	answered func(rows []string, e error) error // the result of a transaction on rows of these sort keys
	drop     func(action types.TransactWriteItem, rows []string) bool
	request  func(*dynamodb.UpdateItemInput)           // of REQ#, alone
	claim    func(*types.Update)                       // of REQ#, in a transaction
	hidden   string                                    // prefix of sort keys that GetItem does not find; empty: none
	taken    func(*dynamodb.PutItemInput, error) error // the result of a put of LOCK
	unlisted string                                    // prefix of sort keys that are missing from queries; empty: none
	forget   bool                                      // the newest rows of the log have no targets
}

// edit returns an API that alters the requests of every node.
func edit(e editedAPI) func(dynamostore.API) dynamostore.API {
	return func(inner dynamostore.API) dynamostore.API {
		node := e
		node.API = inner
		return &node
	}
}

func (e *editedAPI) GetItem(ctx context.Context, in *dynamodb.GetItemInput, o ...options) (*dynamodb.GetItemOutput, error) {
	out, err := e.API.GetItem(ctx, in, o...)
	if err == nil && e.hidden != "" && strings.HasPrefix(sortKey(in.Key), e.hidden) {
		return &dynamodb.GetItemOutput{}, nil
	}
	return out, err
}

func (e *editedAPI) PutItem(ctx context.Context, in *dynamodb.PutItemInput, o ...options) (*dynamodb.PutItemOutput, error) {
	if e.put != nil && sortKey(in.Item) == "LOCK" {
		altered := *in
		altered.Item, altered.ExpressionAttributeValues = maps.Clone(in.Item), maps.Clone(in.ExpressionAttributeValues)
		e.put(&altered)
		in = &altered
	}
	out, err := e.API.PutItem(ctx, in, o...)
	if e.taken != nil && sortKey(in.Item) == "LOCK" {
		err = e.taken(in, err)
	}
	return out, err
}

// listed returns rows without the hidden ones.
func (e *editedAPI) listed(rows []item) []item {
	if e.unlisted == "" {
		return rows
	}
	return slices.DeleteFunc(slices.Clone(rows), func(row item) bool { return strings.HasPrefix(sortKey(row), e.unlisted) })
}

func (e *editedAPI) Query(ctx context.Context, in *dynamodb.QueryInput, o ...options) (*dynamodb.QueryOutput, error) {
	out, err := e.API.Query(ctx, in, o...)
	if err != nil {
		return nil, err
	}
	seen := *out
	seen.Items = e.listed(out.Items)
	if e.forget && in.ScanIndexForward != nil {
		for i, row := range seen.Items {
			seen.Items[i] = maps.Clone(row)
			seen.Items[i]["targets"] = &types.AttributeValueMemberL{}
		}
	}
	return &seen, nil
}

func (e *editedAPI) Scan(ctx context.Context, in *dynamodb.ScanInput, o ...options) (*dynamodb.ScanOutput, error) {
	out, err := e.API.Scan(ctx, in, o...)
	if err != nil {
		return nil, err
	}
	seen := *out
	seen.Items = e.listed(out.Items)
	return &seen, nil
}

func (e *editedAPI) BatchGetItem(ctx context.Context, in *dynamodb.BatchGetItemInput, o ...options) (*dynamodb.BatchGetItemOutput, error) {
	out, err := e.API.BatchGetItem(ctx, in, o...)
	if err != nil {
		return nil, err
	}
	seen := *out
	seen.Responses = make(map[string][]item)
	for table, rows := range out.Responses {
		seen.Responses[table] = e.listed(rows)
	}
	return &seen, nil
}

func (e *editedAPI) UpdateItem(ctx context.Context, in *dynamodb.UpdateItemInput, o ...options) (*dynamodb.UpdateItemOutput, error) {
	altered := *in
	switch sk := sortKey(in.Key); {
	case e.update != nil && sk == "LOCK":
		e.update(&altered)
	case e.request != nil && strings.HasPrefix(sk, "REQ#"):
		e.request(&altered)
	}
	in = &altered
	return e.API.UpdateItem(ctx, in, o...)
}

func (e *editedAPI) DeleteItem(ctx context.Context, in *dynamodb.DeleteItemInput, o ...options) (*dynamodb.DeleteItemOutput, error) {
	if e.delete != nil && sortKey(in.Key) == "LOCK" {
		altered := *in
		e.delete(&altered)
		in = &altered
	}
	return e.API.DeleteItem(ctx, in, o...)
}

func (e *editedAPI) TransactWriteItems(ctx context.Context, in *dynamodb.TransactWriteItemsInput, o ...options) (*dynamodb.TransactWriteItemsOutput, error) {
	altered := *in
	altered.TransactItems = nil
	var rows []string
	for _, action := range in.TransactItems {
		rows = append(rows, sortKey(keyOf(action)))
	}
	for _, action := range in.TransactItems {
		if e.drop != nil && e.drop(action, rows) {
			continue
		}
		altered.TransactItems = append(altered.TransactItems, e.alter(action))
	}
	out, err := e.API.TransactWriteItems(ctx, &altered, o...)
	if e.answered != nil {
		err = e.answered(rows, err)
	}
	return out, err
}

// alter returns an action as altered.
func (e *editedAPI) alter(action types.TransactWriteItem) types.TransactWriteItem {
	switch sk := sortKey(keyOf(action)); {
	case action.Update != nil:
		update := *action.Update
		update.ExpressionAttributeValues = maps.Clone(update.ExpressionAttributeValues)
		if e.meta != nil && sk == "META" {
			e.meta(&update)
		}
		if e.claim != nil && strings.HasPrefix(sk, "REQ#") {
			e.claim(&update)
		}
		action.Update = &update
	case action.Delete != nil && e.lock != nil && sk == "LOCK":
		e.lock(&action)
	}
	return action
}

func keyOf(action types.TransactWriteItem) item {
	switch {
	case action.Put != nil:
		return action.Put.Item
	case action.Update != nil:
		return action.Update.Key
	case action.Delete != nil:
		return action.Delete.Key
	case action.ConditionCheck != nil:
		return action.ConditionCheck.Key
	}
	return nil
}

func sortKey(key item) string { return text(key, "sk") }

// text returns the string attribute of that name; empty if there is none.
func text(row item, name string) string {
	s, _ := row[name].(*types.AttributeValueMemberS)
	if s == nil {
		return ""
	}
	return s.Value
}

// condition is the condition of a write, with its values.
type condition struct {
	expression *string
	names      map[string]string
	values     item
}

// term returns a condition on one attribute, with the value of that kind from the original
// condition.
func (c condition) term(expression string, isValue func(types.AttributeValue) bool) condition {
	for _, v := range c.values {
		if isValue(v) {
			return condition{aws.String(expression), nil, item{":x": v}}
		}
	}
	return condition{}
}

func isText(v types.AttributeValue) bool   { _, ok := v.(*types.AttributeValueMemberS); return ok }
func isNumber(v types.AttributeValue) bool { _, ok := v.(*types.AttributeValueMemberN); return ok }

// used returns the names and values whose placeholders occur in an expression, because DynamoDB
// refuses unused ones.
func used(expression string, names map[string]string, values item) (map[string]string, item) {
	found := make(map[string]bool)
	for _, placeholder := range regexp.MustCompile(`[:#]\w+`).FindAllString(expression, -1) {
		found[placeholder] = true
	}
	names, values = maps.Clone(names), maps.Clone(values)
	maps.DeleteFunc(names, func(name, _ string) bool { return !found[name] })
	maps.DeleteFunc(values, func(name string, _ types.AttributeValue) bool { return !found[name] })
	if len(names) == 0 {
		names = nil
	}
	if len(values) == 0 {
		values = nil
	}
	return names, values
}

// unconditional removes the condition of an update in a transaction.
func unconditional(u *types.Update) {
	u.ConditionExpression = nil
	u.ReturnValuesOnConditionCheckFailure = ""
	u.ExpressionAttributeNames, u.ExpressionAttributeValues = used(aws.ToString(u.UpdateExpression), u.ExpressionAttributeNames, u.ExpressionAttributeValues)
}

// withMap alters the map isr that an update writes.
func withMap(u *types.Update, alter func(item)) {
	for name, v := range u.ExpressionAttributeValues {
		if m, ok := v.(*types.AttributeValueMemberM); ok && m.Value["generation_id"] != nil {
			altered := maps.Clone(m.Value)
			alter(altered)
			u.ExpressionAttributeValues[name] = &types.AttributeValueMemberM{Value: altered}
		}
	}
}

// isBackOff reports whether an update of LOCK writes a back-off instead of a heartbeat.
func isBackOff(in *dynamodb.UpdateItemInput) bool {
	for _, name := range in.ExpressionAttributeNames {
		if name == "failures" {
			return true
		}
	}
	return strings.Contains(aws.ToString(in.UpdateExpression), "failures")
}

// cancelled is a transaction that failed the condition of one row.
func cancelled(rows []string, row string) error {
	reasons := make([]types.CancellationReason, len(rows))
	for i := range reasons {
		reasons[i].Code = aws.String("None")
		if rows[i] == row {
			reasons[i].Code = aws.String("ConditionalCheckFailed")
		}
	}
	return &types.TransactionCanceledException{CancellationReasons: reasons}
}

// isConflict reports whether a transaction was cancelled because of a concurrent one.
func isConflict(err error) bool {
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok {
		return false
	}
	for _, reason := range canceled.CancellationReasons {
		if aws.ToString(reason.Code) == "TransactionConflict" {
			return true
		}
	}
	return false
}
