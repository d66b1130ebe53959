package localdynamo

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
)

// The parameters that expressions replaced. Package expr makes of them what
// it makes of expressions; here is which request takes which of the two.

// parameter is one of a request, and whether the request has it.
type parameter struct {
	name  string
	given bool
}

// forms is which parameters of either form a request has. AWS refuses both
// forms in one request, and placeholders where there is no expression.
type forms struct {
	legacy, expressions []parameter
	names               map[string]string
	values              map[string]types.AttributeValue
	write               bool // AWS says less of these
}

const projectionParameter = "ProjectionExpression" // the one that takes no values

func (f *forms) check() error {
	legacy, expressions := givenNames(f.legacy), givenNames(f.expressions)
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

func givenNames(parameters []parameter) []string {
	var names []string
	for _, p := range parameters {
		if p.given {
			names = append(names, p.name)
		}
	}
	return names
}

// legacyWrite is what PutItem, UpdateItem and DeleteItem take in place of
// expressions. The actions of a transaction have none: nil.
type legacyWrite struct {
	expected map[string]types.ExpectedAttributeValue
	operator types.ConditionalOperator
	updates  map[string]types.AttributeValueUpdate // UpdateItem
}

// bind fills m's condition and update, and reports whether it did: the request
// may as well have expressions, or neither.
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
	if err := f.check(); err != nil || givenNames(f.legacy) == nil {
		return false, err
	}
	if m.update, err = expr.AttributeUpdates(l.updates); err != nil {
		return false, asInvalid(err)
	}
	m.condition, err = expr.Expected(l.expected, l.operator)
	return err == nil, asInvalid(err)
}

// eitherProjection binds a projection in either form; nil if there is none.
func (db *DB) eitherProjection(text *string, names map[string]string, attributes []string) (*expr.Projection, error) {
	f := forms{
		legacy:      []parameter{{"AttributesToGet", attributes != nil}},
		expressions: []parameter{{projectionParameter, text != nil}},
		names:       names,
	}
	if err := f.check(); err != nil {
		return nil, err
	}
	if attributes == nil {
		return db.projection(text, names)
	}
	projection, err := expr.AttributesToGet(attributes)
	return projection, asInvalid(err)
}

// checkQueryForms lets KeyConditions stand beside expressions, as AWS does:
// they exclude only the expression that replaced them.
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

// bindLegacy fills what AttributesToGet and a filter of the kind say; of what
// the request does not have nothing is changed.
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
