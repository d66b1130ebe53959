package localdynamo

import (
	"bytes"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Query reads the items of one hash key in range key order, from one snapshot,
// up to 1 MB per page.
func (db *DB) Query(ctx context.Context, in *dynamodb.QueryInput, _ ...func(*dynamodb.Options)) (*dynamodb.QueryOutput, error) {
	in = orEmpty(in)
	q, err := db.planQuery(in)
	if err != nil {
		return nil, err
	}
	if err := db.readPage(ctx, &q.page, q.lo, q.hi, q.reverse); err != nil {
		return nil, err
	}
	return &dynamodb.QueryOutput{
		Items:            q.items,
		Count:            int32(q.count),
		ScannedCount:     int32(q.scanned),
		LastEvaluatedKey: q.lastEvaluated,
		ConsumedCapacity: q.usage().consumed(in.ReturnConsumedCapacity),
	}, nil
}

// query is a validated Query.
type query struct {
	page
	lo, hi  []byte
	reverse bool
}

func (db *DB) planQuery(in *dynamodb.QueryInput) (*query, error) {
	q := &query{reverse: in.ScanIndexForward != nil && !*in.ScanIndexForward}
	shared := &readParams{
		query: true, table: in.TableName, index: in.IndexName, selected: in.Select, projection: in.ProjectionExpression, attributes: in.AttributesToGet,
		consistent: in.ConsistentRead, limit: in.Limit, start: in.ExclusiveStartKey, capacity: in.ReturnConsumedCapacity,
	}
	if err := expr.CheckOperator(expr.KindQueryFilter, in.ConditionalOperator); err != nil {
		return nil, asInvalid(err)
	}
	if err := q.checkFields(shared); err != nil {
		return nil, err
	}
	if err := checkQueryForms(in); err != nil {
		return nil, err
	}
	if in.KeyConditionExpression == nil && in.KeyConditions == nil {
		return nil, invalid("Either the KeyConditions or KeyConditionExpression parameter must be specified in the request.")
	}
	terms, err := db.bindQuery(in, &q.page)
	if err != nil {
		return nil, err
	}
	s, err := db.source(in.TableName, in.IndexName)
	if err != nil {
		return nil, err
	}
	key, err := bindKey(in, terms, s.key())
	if err != nil {
		return nil, asInvalid(err)
	}
	if err := checkFilter(in, s.key(), q.filter); err != nil {
		return nil, err
	}
	if err := q.setSource(s, shared); err != nil {
		return nil, err
	}
	if err := q.checkProjected(); err != nil {
		return nil, err
	}
	if q.lo, q.hi, err = s.key().span(key); err != nil {
		return nil, err
	}
	q.atMostOne = s.index == nil && s.key().Range == nil
	return q, q.setStart(q.start)
}

// bindQuery binds the expressions that do not depend on the table. terms is nil
// if the key condition is in the legacy form.
func (db *DB) bindQuery(in *dynamodb.QueryInput, p *page) (terms *expr.KeyTerms, err error) {
	scope, err := expr.NewScope(&db.expressions, in.ExpressionAttributeNames, in.ExpressionAttributeValues)
	if err != nil {
		return nil, asInvalid(withoutValueName(err))
	}
	if p.projection, err = scope.Projection(in.ProjectionExpression); err != nil {
		return nil, asInvalid(err)
	}
	if p.filter, err = scope.Condition(expr.KindFilter, in.FilterExpression); err != nil {
		return nil, asInvalid(err)
	}
	if err := p.bindLegacy(in.AttributesToGet, expr.KindQueryFilter, in.QueryFilter, in.ConditionalOperator); err != nil {
		return nil, err
	}
	if in.KeyConditions == nil {
		if terms, err = scope.KeyTerms(*in.KeyConditionExpression); err != nil {
			return nil, asInvalid(err)
		}
	}
	return terms, asInvalid(scope.CheckUnused())
}

// bindKey turns the terms, or the legacy KeyConditions, into a condition on the
// key.
func bindKey(in *dynamodb.QueryInput, terms *expr.KeyTerms, schema *keySchema) (*expr.KeyCondition, error) {
	hashes, ranges := names(schema.hashes()), names(schema.ranges())
	if terms == nil {
		return expr.KeyConditions(in.KeyConditions, hashes, ranges)
	}
	return terms.Resolve(hashes, ranges)
}

// checkFilter refuses a filter on key attributes.
func checkFilter(in *dynamodb.QueryInput, schema *keySchema, filter *expr.Condition) error {
	named := "Filter Expression"
	if in.QueryFilter != nil {
		named = "QueryFilter"
	}
	for _, a := range schema.keyAttributes() {
		if filter.Mentions(a.Name) != "" {
			return invalid("%s can only contain non-primary key attributes: Primary key attribute: %s", named, a.Name)
		}
	}
	return nil
}

// checkProjected refuses a filter on attributes that the index does not project.
// A Scan treats them as absent instead.
func (q *query) checkProjected() error {
	if missing := q.unprojected(q.filter.Roots()); len(missing) > 0 {
		return invalid("One or more parameter values were invalid: Secondary index %s does not project one or more filter attributes: [%s]", q.index.Name, strings.Join(missing, ", "))
	}
	return nil
}

// setStart moves the start of the key range past the ExclusiveStartKey.
func (q *query) setStart(start map[string]types.AttributeValue) error {
	at, err := q.source.startPosition(start)
	if message, ok := validationMessage(err); ok && message == startKeyInvalid+": "+keySchemaMismatch {
		return invalid(startKeyInvalid)
	}
	if err != nil || at == nil {
		return err
	}
	if bytes.Compare(at, q.lo) < 0 || q.hi != nil && bytes.Compare(at, q.hi) >= 0 {
		return invalid("The provided starting key is outside query boundaries based on provided conditions")
	}
	if q.atMostOne {
		return invalid("The query can return at most one row and cannot be restarted")
	}
	if q.reverse {
		q.hi = at
	} else {
		q.lo = append(at, 0) // the smallest key after it
	}
	return nil
}

// span returns the key range [lo, hi) of a key condition.
func (k *keySchema) span(key *expr.KeyCondition) (lo, hi []byte, err error) {
	prefix, err := appendConditionKeys(nil, k.hashes(), key.Hash, maxHashSize)
	if err != nil {
		return nil, nil, err
	}
	r := key.Range
	if r == nil {
		return prefix, value.PrefixEnd(prefix), nil
	}
	ranges := k.ranges()
	if prefix, err = appendConditionKeys(prefix, ranges, key.Equal, maxRangeSize); err != nil {
		return nil, nil, err
	}
	a, size := ranges[len(key.Equal)], keySizeOf(key.Equal...)
	if r.Operator == "begins_with" {
		return a.prefixSpan(prefix, r.Low, size)
	}
	low, err := appendConditionKey(bytes.Clone(prefix), a, r.Low, size, maxRangeSize)
	if err != nil {
		return nil, nil, err
	}
	switch r.Operator {
	case "=":
		return low, value.PrefixEnd(low), nil
	case "<":
		return prefix, low, nil
	case "<=":
		return prefix, value.PrefixEnd(low), nil
	case ">":
		return value.PrefixEnd(low), value.PrefixEnd(prefix), nil
	case ">=":
		return low, value.PrefixEnd(prefix), nil
	}
	high, err := appendConditionKey(prefix, a, r.High, size, maxRangeSize)
	return low, value.PrefixEnd(high), err
}

// prefixSpan is span for begins_with on an attribute that follows others of size bytes.
// Callers must not use prefix afterwards.
func (a attribute) prefixSpan(prefix []byte, begin types.AttributeValue, size int) (lo, hi []byte, err error) {
	if value.Type(begin) != string(a.Type) {
		return nil, nil, errConditionType()
	}
	if err := checkKeyValue(a, begin, size, maxRangeSize); err != nil {
		return nil, nil, err
	}
	lo, err = value.AppendKeyPrefix(prefix, begin)
	return lo, value.PrefixEnd(lo), asInvalid(err)
}

// appendConditionKeys appends the operands of equality for the first of attributes, whose
// sizes together are at most limit.
func appendConditionKeys(dst []byte, attributes []attribute, values []types.AttributeValue, limit int) (_ []byte, err error) {
	for i, v := range values {
		if dst, err = appendConditionKey(dst, attributes[i], v, keySizeOf(values[:i]...), limit); err != nil {
			return nil, err
		}
	}
	return dst, nil
}

// appendConditionKey appends an operand of a key condition, encoded as a key; see appendKey.
func appendConditionKey(dst []byte, a attribute, v types.AttributeValue, before, limit int) ([]byte, error) {
	if value.Type(v) != string(a.Type) {
		return nil, errConditionType()
	}
	return appendKey(dst, a, v, before, limit)
}

func errConditionType() error {
	return invalid("One or more parameter values were invalid: Condition parameter type does not match schema type")
}
