// Package expression builds DynamoDB's expressions. Every name and value gets a
// placeholder, so that no name is a reserved word and no value is parsed as part
// of the expression.
package expression

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// maxIn is DynamoDB's bound on the values of one IN.
const maxIn = 100

// Builder collects the names and values of all expressions of one request. The
// zero value is ready to use. It must not be copied.
type Builder struct {
	names  map[string]string // attribute names by placeholder
	own    []string          // attribute names, by the number of the generated placeholder
	few    [4]string         // the first backing array of own
	values model.Item
}

// Placeholders without an allocation. Few expressions have more.
var (
	firstNames  = [...]string{"#_0", "#_1", "#_2", "#_3", "#_4", "#_5", "#_6", "#_7", "#_8", "#_9"}
	firstValues = [...]string{":_0", ":_1", ":_2", ":_3", ":_4", ":_5", ":_6", ":_7", ":_8", ":_9"}
)

// Names returns the ExpressionAttributeNames: nil if there are none, because
// DynamoDB refuses an empty map.
func (b *Builder) Names() map[string]string { return b.names }

// Values returns the ExpressionAttributeValues: nil if there are none.
func (b *Builder) Values() map[string]types.AttributeValue { return b.values }

// Path returns a document path with placeholders.
func (b *Builder) Path(p *model.Path) string {
	if len(p.Steps) == 1 {
		return b.name(p.Steps[0].Name)
	}
	var text strings.Builder
	for i, step := range p.Steps {
		if step.Name == "" {
			text.WriteString("[" + strconv.Itoa(step.Index) + "]")
			continue
		}
		if i > 0 {
			text.WriteByte('.')
		}
		text.WriteString(b.name(step.Name))
	}
	return text.String()
}

// Attribute returns the placeholder of a top-level attribute.
func (b *Builder) Attribute(f *model.Field) string { return b.name(f.Attribute) }

func (b *Builder) name(attribute string) string {
	number := slices.Index(b.own, attribute)
	isNew := number < 0
	if isNew {
		if b.own == nil {
			b.own = b.few[:0]
		}
		number = len(b.own)
		b.own = append(b.own, attribute)
	}
	var placeholder string
	if number < len(firstNames) {
		placeholder = firstNames[number]
	} else {
		placeholder = "#_" + strconv.Itoa(number)
	}
	if isNew {
		b.setName(placeholder, attribute)
	}
	return placeholder
}

func (b *Builder) setName(placeholder, attribute string) {
	if b.names == nil {
		b.names = map[string]string{}
	}
	b.names[placeholder] = attribute
}

// Value returns the placeholder of a value.
func (b *Builder) Value(av types.AttributeValue) string {
	var placeholder string
	if number := len(b.values); number < len(firstValues) {
		placeholder = firstValues[number]
	} else {
		placeholder = ":_" + strconv.Itoa(number)
	}
	b.setValue(placeholder, av)
	return placeholder
}

func (b *Builder) setValue(placeholder string, av types.AttributeValue) {
	if b.values == nil {
		b.values = model.Item{}
	}
	b.values[placeholder] = av
}

// Compare returns the condition that compares the value at the path with value.
func (b *Builder) Compare(p *model.Path, operator string, value any) (Condition, error) {
	path := b.Path(p)
	op := strings.ToUpper(strings.TrimSpace(operator))
	switch op {
	case "=", "<>", "!=", "<", "<=", ">", ">=":
		if op == "!=" {
			op = "<>"
		}
		operand, err := b.operand(p, value)
		return Condition{text: path + " " + op + " " + operand}, err
	case "BETWEEN":
		return b.between(p, path, value)
	case "IN":
		return b.in(p, path, value)
	case "BEGINS_WITH":
		operand, err := b.operand(p, value)
		return Condition{text: "begins_with(" + path + ", " + operand + ")"}, err
	case "CONTAINS", "NOT_CONTAINS":
		av, err := p.EncodeElement(value)
		if err != nil {
			return Condition{}, err
		}
		text := "contains(" + path + ", " + b.Value(av) + ")"
		if op == "NOT_CONTAINS" {
			text = "NOT " + text
		}
		return Condition{text: text}, nil
	case "EXISTS", "NOT_EXISTS":
		if value != nil {
			return Condition{}, fmt.Errorf("%s takes no value, got %v: pass nil", op, value)
		}
		return Condition{text: "attribute_" + strings.ToLower(op) + "(" + path + ")"}, nil
	case "ATTRIBUTE_TYPE":
		name, ok := value.(string)
		if !ok {
			return Condition{}, fmt.Errorf("ATTRIBUTE_TYPE takes one of the strings S, SS, N, NS, B, BS, BOOL, NULL, L and M, not a %T", value)
		}
		return Condition{text: "attribute_type(" + path + ", " + b.Value(&types.AttributeValueMemberS{Value: name}) + ")"}, nil
	}
	return Condition{}, fmt.Errorf("unknown operator %q: use =, <>, <, <=, >, >=, BETWEEN, IN, BEGINS_WITH, CONTAINS, NOT_CONTAINS, EXISTS, NOT_EXISTS or ATTRIBUTE_TYPE", operator)
}

func (b *Builder) operand(p *model.Path, value any) (string, error) {
	av, err := p.Encode(value)
	if err != nil {
		return "", err
	}
	return b.Value(av), nil
}

func (b *Builder) between(p *model.Path, path string, value any) (Condition, error) {
	operands, err := b.operands(p, value)
	if err != nil {
		return Condition{}, err
	}
	if len(operands) != 2 {
		return Condition{}, fmt.Errorf("BETWEEN takes a slice of two values, got %d", len(operands))
	}
	return Condition{text: path + " BETWEEN " + operands[0] + " AND " + operands[1]}, nil
}

func (b *Builder) in(p *model.Path, path string, value any) (Condition, error) {
	operands, err := b.operands(p, value)
	if err != nil {
		return Condition{}, err
	}
	if len(operands) == 0 || len(operands) > maxIn {
		return Condition{}, fmt.Errorf("IN takes a slice of 1 to %d values, got %d", maxIn, len(operands))
	}
	return Condition{text: path + " IN (" + strings.Join(operands, ", ") + ")"}, nil
}

func (b *Builder) operands(p *model.Path, value any) ([]string, error) {
	list := reflect.ValueOf(value)
	if list.Kind() != reflect.Slice && list.Kind() != reflect.Array {
		return nil, fmt.Errorf("BETWEEN and IN take a slice of values, not a %T", value)
	}
	operands := make([]string, list.Len())
	for i := range operands {
		operand, err := b.operand(p, list.Index(i).Interface())
		if err != nil {
			return nil, err
		}
		operands[i] = operand
	}
	return operands, nil
}

// Raw returns a condition that the caller wrote in DynamoDB's syntax. A
// placeholder #x in it is the attribute of field x. values has the values of its
// placeholders, with their colons; encode encodes them.
func (b *Builder) Raw(m *model.Model, text string, values map[string]any, encode func(any) (types.AttributeValue, error)) (Condition, error) {
	for _, name := range placeholders(text) {
		field, ok := m.Field(name)
		if !ok {
			return Condition{}, fmt.Errorf("#%s in the expression %q is not a field of %v", name, text, m.Type)
		}
		b.setName("#"+name, field.Attribute)
	}
	for placeholder, value := range values {
		if strings.HasPrefix(placeholder, ":_") || !strings.HasPrefix(placeholder, ":") {
			return Condition{}, fmt.Errorf("value %q of the expression %q: a placeholder begins with a colon and a letter or digit", placeholder, text)
		}
		if _, taken := b.values[placeholder]; taken {
			return Condition{}, fmt.Errorf("two expressions of one request have the value %s: rename one", placeholder)
		}
		av, err := encode(value)
		if err != nil {
			return Condition{}, fmt.Errorf("value %s: %w", placeholder, err)
		}
		b.setValue(placeholder, av)
	}
	return raw(text), nil
}

// placeholders returns the names after each # in an expression.
func placeholders(text string) []string {
	var names []string
	for {
		_, rest, found := strings.Cut(text, "#")
		if !found {
			return names
		}
		end := strings.IndexFunc(rest, func(r rune) bool {
			return r != '_' && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
		})
		if end < 0 {
			end = len(rest)
		}
		names = append(names, rest[:end])
		text = rest[end:]
	}
}
