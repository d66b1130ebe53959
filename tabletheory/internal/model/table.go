package model

import (
	"fmt"
	"reflect"
)

// TableName calls the model's TableName method on the value or its pointer; v is
// a struct or a pointer to one. An empty name is an error.
func (m *Model) TableName(v reflect.Value) (string, error) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return "", &Error{Type: m.Type, Problem: "TableName needs a struct, not nil"}
	}
	named, ok := addressable(v).Interface().(interface{ TableName() string })
	if !ok {
		return "", &Error{Type: m.Type, Problem: "no method TableName() string: add one, like " + m.idiom()}
	}
	if name := named.TableName(); name != "" {
		return name, nil
	}
	return "", &Error{Type: m.Type, Problem: "TableName returned an empty string: set the environment variable that it reads, like " + m.idiom()}
}

func (m *Model) idiom() string {
	return fmt.Sprintf(`func (%s) TableName() string { return os.Getenv("TABLE_NAME") }`, m.Type.Name())
}
