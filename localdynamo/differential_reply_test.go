package localdynamo_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"
	"github.com/aws/smithy-go/middleware"
)

// reply is a side's reply, as maps, lists and strings that can be compared.
type reply struct {
	code    string // of the error; "" is success
	message string // of the error
	content any    // the output, or the error's other fields
}

func (a reply) String() string {
	if a.code == "" {
		return show(a.content)
	}
	return fmt.Sprintf("%s: %s %s", a.code, a.message, show(a.content))
}

func replyOf(out any, err error) reply {
	if err == nil {
		return reply{content: plain(out)}
	}
	var known smithy.APIError
	if !errors.As(err, &known) {
		return reply{code: "unknown", message: err.Error()}
	}
	a := reply{code: known.ErrorCode(), message: known.ErrorMessage()}
	if generic := (*smithy.GenericAPIError)(nil); errors.As(err, &generic) {
		return a // a generic error of the SDK has no other fields
	}
	if content, _ := plain(known).(map[string]any); content != nil {
		delete(content, "Message")
		a.content = content
	}
	return a
}

// plain converts an input or output of the SDK to maps, lists and strings. It
// omits absent members, empty lists and times, and sorts sets.
func plain(v any) any { return plainValue(reflect.ValueOf(v)) }

func plainValue(v reflect.Value) any {
	if !v.IsValid() {
		return nil
	}
	switch at := v.Interface().(type) {
	case types.AttributeValue:
		return plainAttribute(at)
	case middleware.Metadata, time.Time:
		return nil
	case []byte:
		return fmt.Sprintf("%x", at)
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		return plainValue(v.Elem())
	case reflect.Struct:
		return plainStruct(v)
	case reflect.Map:
		return plainMap(v)
	case reflect.Slice:
		return plainList(v)
	case reflect.String:
		if v.Len() == 0 {
			return nil
		}
		return v.String()
	}
	return v.Interface()
}

func plainStruct(v reflect.Value) any {
	out := map[string]any{}
	for i := range v.NumField() {
		field := v.Type().Field(i)
		if !field.IsExported() || field.Name == "ErrorCodeOverride" || isNil(v.Field(i)) {
			continue
		}
		value := v.Field(i)
		if value.Kind() == reflect.Pointer && value.Elem().Kind() == reflect.String {
			out[field.Name] = value.Elem().String() // an empty string is not an absent one
			continue
		}
		if member := plainValue(value); member != nil {
			out[field.Name] = member
		}
	}
	return out
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface, reflect.Map, reflect.Slice:
		return v.IsNil()
	}
	return false
}

func plainMap(v reflect.Value) any {
	out := make(map[string]any, v.Len())
	for entries := v.MapRange(); entries.Next(); {
		out[entries.Key().String()] = plainValue(entries.Value())
	}
	return out
}

func plainList(v reflect.Value) any {
	if v.Len() == 0 {
		return nil
	}
	out := make([]any, v.Len())
	for i := range out {
		out[i] = plainValue(v.Index(i))
	}
	return out
}

// plainAttribute converts a value to the form of DynamoDB's JSON, with sorted
// sets.
func plainAttribute(v types.AttributeValue) any {
	switch v := v.(type) {
	case *types.AttributeValueMemberS:
		return map[string]any{"S": v.Value}
	case *types.AttributeValueMemberN:
		return map[string]any{"N": v.Value}
	case *types.AttributeValueMemberB:
		return map[string]any{"B": fmt.Sprintf("%x", v.Value)}
	case *types.AttributeValueMemberBOOL:
		return map[string]any{"BOOL": v.Value}
	case *types.AttributeValueMemberNULL:
		return map[string]any{"NULL": v.Value}
	case *types.AttributeValueMemberL:
		members := make([]any, len(v.Value))
		for i, e := range v.Value {
			members[i] = plainAttribute(e)
		}
		return map[string]any{"L": members}
	case *types.AttributeValueMemberM:
		return map[string]any{"M": plainMap(reflect.ValueOf(v.Value))}
	case *types.AttributeValueMemberSS:
		return map[string]any{"SS": sortedTexts(v.Value)}
	case *types.AttributeValueMemberNS:
		return map[string]any{"NS": sortedTexts(v.Value)}
	case *types.AttributeValueMemberBS:
		texts := make([]string, len(v.Value))
		for i, b := range v.Value {
			texts[i] = fmt.Sprintf("%x", b)
		}
		return map[string]any{"BS": sortedTexts(texts)}
	}
	return fmt.Sprintf("%T", v)
}

func sortedTexts(texts []string) []any {
	out := make([]any, len(texts))
	for i, s := range slices.Sorted(slices.Values(texts)) {
		out[i] = s
	}
	return out
}

// sortedByText sorts a list without a defined order by its printed elements.
func sortedByText(list []any) []any {
	out := slices.Clone(list)
	slices.SortFunc(out, func(a, b any) int { return strings.Compare(show(a), show(b)) })
	return out
}

// show formats a plain value for failure messages.
func show(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}
