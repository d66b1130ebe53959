package model

import (
	"fmt"
	"reflect"
)

// TableName asks the model's TableName method, of the value or of its pointer;
// v is a struct or a pointer to one. An empty name is an error.
func (m *Model) TableName(v reflect.Value) (string, error) {
	for v.Kind() == reflect.Pointer && !v.IsNil() {
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return "", &Error{Type: m.Type, Problem: "the name of the table is asked of a struct, not of nil"}
	}
	named, ok := addressable(v).Interface().(interface{ TableName() string })
	if !ok {
		return "", &Error{Type: m.Type, Problem: "has no method TableName() string: give it one, as in " + m.idiom()}
	}
	if name := named.TableName(); name != "" {
		return name, nil
	}
	return "", &Error{Type: m.Type, Problem: "TableName returned an empty string: is the environment variable set that it reads, as in " + m.idiom() + "?"}
}

func (m *Model) idiom() string {
	return fmt.Sprintf(`func (%s) TableName() string { return os.Getenv("TABLE_NAME") }`, m.Type.Name())
}
