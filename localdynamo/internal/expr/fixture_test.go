package expr_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/cockroachdb/datadriven"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// TestFixtures runs the files in testdata. The command "item" sets the item for later
// commands. The input of the other commands is the expression, followed by the
// definitions of its names and values, which begin with # or :. The commands for legacy
// parameters take JSON.
func TestFixtures(t *testing.T) {
	t.Parallel()
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		item := map[string]types.AttributeValue{}
		cache := &expr.Cache{}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "item" {
				item = readItem(t, d.Input)
				return ""
			}
			if out, known, err := runLegacy(t, d, item); err != nil {
				return "error: " + err.Error()
			} else if known {
				return out
			}
			text, names, values := definitions(t, d.Input)
			out, err := run(cache, d.Cmd, text, names, values, item)
			if err != nil {
				return "error: " + err.Error()
			}
			return out
		})
	})
}

func run(cache *expr.Cache, command, text string, names map[string]string, values, item map[string]types.AttributeValue) (string, error) {
	scope, err := expr.NewScope(cache, names, values)
	if err != nil {
		return "", err
	}
	var out func() (string, error)
	switch command {
	case "condition":
		c, err := scope.Condition(expr.KindCondition, &text)
		if err != nil {
			return "", err
		}
		out = func() (string, error) { return fmt.Sprint(c.Match(expr.Fields(item))), nil }
	case "project":
		p, err := scope.Projection(&text)
		if err != nil {
			return "", err
		}
		out = func() (string, error) { return showItem(p.Apply(expr.Fields(item))), nil }
	case "update":
		u, err := scope.Update(&text)
		if err != nil {
			return "", err
		}
		out = func() (string, error) { return apply(u, item) }
	case "key":
		terms, err := scope.KeyTerms(text)
		if err != nil {
			return "", err
		}
		k, err := terms.Resolve([]string{"pk"}, []string{"sk"})
		if err != nil {
			return "", err
		}
		out = func() (string, error) { return showKey(k), nil }
	default:
		return "", fmt.Errorf("unknown command %q", command)
	}
	if err := scope.CheckUnused(); err != nil {
		return "", err
	}
	return out()
}

func showKey(k *expr.KeyCondition) string {
	s := "hash"
	for _, v := range k.Hash {
		s += " " + formatScalar(v)
	}
	for _, v := range k.Equal {
		s += ", range = " + formatScalar(v)
	}
	if r := k.Range; r != nil {
		s += ", range " + r.Operator + " " + formatScalar(r.Low)
		if r.High != nil {
			s += " " + formatScalar(r.High)
		}
	}
	return s
}

func definitions(t *testing.T, input string) (text string, names map[string]string, values map[string]types.AttributeValue) {
	var lines []string
	for line := range strings.SplitSeq(input, "\n") {
		name, definition, ok := strings.Cut(line, " := ")
		switch {
		case !ok:
			lines = append(lines, line)
		case strings.HasPrefix(name, "#"):
			if names == nil {
				names = map[string]string{}
			}
			names[name] = definition
		default:
			if values == nil {
				values = map[string]types.AttributeValue{}
			}
			values[name] = readValue(t, json.RawMessage(definition))
		}
	}
	return strings.Join(lines, "\n"), names, values
}

func copyItem(item map[string]types.AttributeValue) map[string]types.AttributeValue {
	out, err := value.NormalizeItem(item)
	if err != nil {
		panic(err)
	}
	return out
}

// readItem and showItem use the JSON of the DynamoDB protocol.
func readItem(t *testing.T, text string) map[string]types.AttributeValue {
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	out := map[string]types.AttributeValue{}
	for name, v := range raw {
		out[name] = readValue(t, v)
	}
	return out
}

func readValue(t *testing.T, raw json.RawMessage) types.AttributeValue {
	var tagged struct {
		S, N   *string
		B      []byte
		BOOL   *bool
		NULL   *bool
		L      []json.RawMessage
		M      json.RawMessage
		SS, NS []string
		BS     [][]byte
	}
	if err := json.Unmarshal(raw, &tagged); err != nil {
		t.Fatalf("%s: %v", raw, err)
	}
	switch {
	case tagged.S != nil:
		return &types.AttributeValueMemberS{Value: *tagged.S}
	case tagged.N != nil:
		return &types.AttributeValueMemberN{Value: *tagged.N}
	case tagged.B != nil:
		return &types.AttributeValueMemberB{Value: tagged.B}
	case tagged.BOOL != nil:
		return &types.AttributeValueMemberBOOL{Value: *tagged.BOOL}
	case tagged.NULL != nil:
		return &types.AttributeValueMemberNULL{Value: *tagged.NULL}
	case tagged.M != nil:
		return &types.AttributeValueMemberM{Value: readItem(t, string(tagged.M))}
	case tagged.SS != nil:
		return &types.AttributeValueMemberSS{Value: tagged.SS}
	case tagged.NS != nil:
		return &types.AttributeValueMemberNS{Value: tagged.NS}
	case tagged.BS != nil:
		return &types.AttributeValueMemberBS{Value: tagged.BS}
	case tagged.L != nil:
		list := []types.AttributeValue{}
		for _, e := range tagged.L {
			list = append(list, readValue(t, e))
		}
		return &types.AttributeValueMemberL{Value: list}
	}
	return nil
}

func showItem(item map[string]types.AttributeValue) string {
	b, err := json.Marshal(plainItem(item))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func formatScalar(v types.AttributeValue) string {
	b, err := json.Marshal(plain(v))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func plainItem(item map[string]types.AttributeValue) map[string]any {
	out := map[string]any{}
	for name, v := range item {
		out[name] = plain(v)
	}
	return out
}

func plain(v types.AttributeValue) map[string]any {
	tag := value.Type(v)
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{tag: v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{tag: v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{tag: v.Value}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{tag: v.Value}
	case *types.AttributeValueMemberM:
		return map[string]any{tag: plainItem(v.Value)}
	case *types.AttributeValueMemberL:
		list := []any{}
		for _, e := range v.Value {
			list = append(list, plain(e))
		}
		return map[string]any{tag: list}
	case *types.AttributeValueMemberSS:
		return map[string]any{tag: v.Value}
	case *types.AttributeValueMemberNS:
		return map[string]any{tag: v.Value}
	case *types.AttributeValueMemberBS:
		return map[string]any{tag: v.Value}
	}
	return map[string]any{tag: true}
}
