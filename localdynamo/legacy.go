package localdynamo

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

// The legacy parameters are those that expressions replaced, such as Expected.
// Package expr evaluates them like expressions; this file decides which of the
// two forms a request uses.

// parameter is a request parameter that belongs to one of the two forms.
type parameter struct {
	name    string
	present bool
}

// forms holds the parameters of a request, by form. AWS refuses a request with
// both forms, and placeholders without an expression.
type forms struct {
	legacy, expressions []parameter
	names               map[string]string
	values              map[string]types.AttributeValue
	write               bool // AWS's error for writes is shorter
}

const projectionParameter = "ProjectionExpression" // the only expression without values

func (f *forms) check() error {
	legacy, expressions := presentNames(f.legacy), presentNames(f.expressions)
	if legacy != nil && expressions != nil {
		return invalid("Can not use both expression and non-expression parameters in the same request: Non-expression parameters: {%s} Expression parameters: {%s}",
			strings.Join(legacy, ", "), strings.Join(expressions, ", "))
	}
	if f.names != nil && expressions == nil {
		return invalid("ExpressionAttributeNames can only be specified when using expressions")
	}
	if f.values == nil || slices.ContainsFunc(expressions, func(name string) bool { return name != projectionParameter }) {
		return nil
	}
	const lonely = "ExpressionAttributeValues can only be specified when using expressions"
	if f.write {
		return invalid(lonely)
	}
	var absent []string
	for _, p := range f.expressions {
		if p.name != projectionParameter {
			absent = append(absent, p.name)
		}
	}
	are := "is"
	if len(absent) > 1 {
		are = "are"
	}
	return invalid(lonely+": %s %s null", strings.Join(absent, " and "), are)
}

func presentNames(parameters []parameter) []string {
	var names []string
	for _, p := range parameters {
		if p.present {
			names = append(names, p.name)
		}
	}
	return names
}

// legacyWrite holds the legacy parameters of PutItem, UpdateItem and DeleteItem.
// It is nil for the actions of a transaction, which have none.
type legacyWrite struct {
	expected map[string]types.ExpectedAttributeValue
	operator types.ConditionalOperator
	updates  map[string]types.AttributeValueUpdate // UpdateItem
}

// bind sets m's condition and update from the legacy parameters. bound is false
// if the request has none.
func (l *legacyWrite) bind(o *operation, m *mutation) (bound bool, err error) {
	if l == nil {
		return false, nil
	}
	f := forms{
		legacy:      []parameter{{"Expected", l.expected != nil}, {"ConditionalOperator", l.operator != ""}},
		expressions: []parameter{{"ConditionExpression", o.condition != nil}},
		names:       o.names,
		values:      o.values,
		write:       true,
	}
	if o.verb == verbUpdate {
		f.legacy = slices.Insert(f.legacy, 0, parameter{"AttributeUpdates", l.updates != nil})
		f.expressions = slices.Insert(f.expressions, 0, parameter{"UpdateExpression", o.update != nil})
	}
	if err := f.check(); err != nil || presentNames(f.legacy) == nil {
		return false, err
	}
	if m.update, err = expr.AttributeUpdates(l.updates); err != nil {
		return false, asInvalid(err)
	}
	m.condition, err = expr.Expected(l.expected, l.operator)
	return err == nil, asInvalid(err)
}

// bindProjection binds a projection in either form, and returns nil if there is
// none.
func (db *DB) bindProjection(text *string, names map[string]string, attributes []string) (*expr.Projection, error) {
	f := forms{
		legacy:      []parameter{{"AttributesToGet", attributes != nil}},
		expressions: []parameter{{projectionParameter, text != nil}},
		names:       names,
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if attributes == nil {
		return db.parseProjection(text, names)
	}
	projection, err := expr.AttributesToGet(attributes)
	return projection, asInvalid(err)
}

// checkQueryForms allows KeyConditions together with expressions, as AWS does,
// except for KeyConditionExpression.
func checkQueryForms(in *dynamodb.QueryInput) error {
	return (&forms{
		legacy: []parameter{
			{"AttributesToGet", in.AttributesToGet != nil},
			{"QueryFilter", in.QueryFilter != nil},
			{"ConditionalOperator", in.ConditionalOperator != ""},
			{"KeyConditions", in.KeyConditions != nil && in.KeyConditionExpression != nil},
		},
		expressions: []parameter{
			{projectionParameter, in.ProjectionExpression != nil},
			{"FilterExpression", in.FilterExpression != nil},
			{"KeyConditionExpression", in.KeyConditionExpression != nil},
		},
		names:  in.ExpressionAttributeNames,
		values: in.ExpressionAttributeValues,
	}).check()
}

func checkScanForms(in *dynamodb.ScanInput) error {
	return (&forms{
		legacy: []parameter{
			{"AttributesToGet", in.AttributesToGet != nil},
			{"ScanFilter", in.ScanFilter != nil},
			{"ConditionalOperator", in.ConditionalOperator != ""},
		},
		expressions: []parameter{
			{projectionParameter, in.ProjectionExpression != nil},
			{"FilterExpression", in.FilterExpression != nil},
		},
		names:  in.ExpressionAttributeNames,
		values: in.ExpressionAttributeValues,
	}).check()
}

// bindLegacy sets the projection from AttributesToGet and the filter from the
// legacy filter of this kind. Without them it leaves the page unchanged.
func (p *page) bindLegacy(attributes []string, kind expr.Kind, filter map[string]types.Condition, operator types.ConditionalOperator) error {
	if attributes != nil {
		projection, err := expr.AttributesToGet(attributes)
		if err != nil {
			return asInvalid(err)
		}
		p.projection = projection
	}
	if filter == nil && operator == "" {
		return nil
	}
	bound, err := expr.Filter(kind, filter, operator)
	if err != nil {
		return asInvalid(err)
	}
	p.filter = bound
	return nil
}
