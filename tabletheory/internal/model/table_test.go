package model_test

import (
	"reflect"
	"strings"
	"testing"
)

// named has a TableName method on its pointer.
type named struct {
	key
	name string
}

func (n *named) TableName() string { return n.name }

func TestTableName(t *testing.T) {
	m := mustModel[named](t)
	value := named{name: "isr"}
	for _, v := range []reflect.Value{reflect.ValueOf(value), reflect.ValueOf(&value), reflect.ValueOf(&value).Elem()} {
		if name, err := m.TableName(v); name != "isr" || err != nil {
			t.Errorf("the table of %v is %q, %v", v.Type(), name, err)
		}
	}
	if name, err := mustModel[metadata](t).TableName(reflect.ValueOf(&meta)); name != "isr" || err != nil {
		t.Errorf("the table is %q, %v", name, err)
	}
}

func TestEmptyTableName(t *testing.T) {
	_, empty := mustModel[named](t).TableName(reflect.ValueOf(&named{}))
	_, none := mustModel[order](t).TableName(reflect.ValueOf(order{}))
	_, null := mustModel[named](t).TableName(reflect.ValueOf((*named)(nil)))
	for words, err := range map[string]error{
		`func (named) TableName() string { return os.Getenv("TABLE_NAME") }`: empty,
		"model_test.order: no method TableName() string":                     none,
		"not nil": null,
	} {
		if err == nil || !strings.Contains(err.Error(), words) {
			t.Errorf("got error %v, want %q in it", err, words)
		}
	}
}
