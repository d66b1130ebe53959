package model

import (
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

// Registry compiles models and caches them. It is safe for concurrent use.
type Registry struct {
	converters map[reflect.Type]Converter
	encoders   sync.Pool // of *encoder

	models sync.Map             // *compiled by reflect.Type
	codecs [numNamings]sync.Map // complete *codec by reflect.Type
	mu     sync.Mutex           // held while codecs are compiled
}

// compiled is the result of compiling a model.
type compiled struct {
	model *Model
	err   error
}

// Converter encodes and decodes the values of one type.
type Converter struct {
	Type   reflect.Type
	Encode func(reflect.Value) (types.AttributeValue, error)
	Decode func(types.AttributeValue, reflect.Value) error // into a settable value
}

// NewRegistry returns an empty registry whose models use these converters. The
// last converter of a type wins.
func NewRegistry(converters ...Converter) *Registry {
	r := &Registry{converters: make(map[reflect.Type]Converter, len(converters))}
	r.encoders.New = func() any { return &encoder{registry: r} }
	for _, c := range converters {
		r.converters[c.Type] = c
	}
	return r
}

// Model returns the model of a struct type or a pointer to one, or an *Error.
func (r *Registry) Model(t reflect.Type) (*Model, error) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if known, ok := r.models.Load(t); ok {
		c := known.(*compiled)
		return c.model, c.err
	}
	m, err := r.compileModel(t)
	known, _ := r.models.LoadOrStore(t, &compiled{m, err})
	c := known.(*compiled)
	return c.model, c.err
}

// EncodeValue encodes a value that does not belong to a field. nil is NULL.
func (r *Registry) EncodeValue(v any) (types.AttributeValue, error) {
	return r.encodeOwn(reflect.ValueOf(v), camelCase)
}

// encodeOwn encodes a value by its own type.
func (r *Registry) encodeOwn(v reflect.Value, n naming) (types.AttributeValue, error) {
	if !v.IsValid() {
		return &types.AttributeValueMemberNULL{Value: true}, nil
	}
	c, err := r.codec(v.Type(), n)
	if err != nil {
		return nil, err
	}
	return r.encodeWith(c, v)
}

// encodeWith encodes a value with the codec of its type.
func (r *Registry) encodeWith(c *codec, v reflect.Value) (types.AttributeValue, error) {
	e := r.encoder()
	defer e.release()
	av, err := c.encode(e, v)
	if err != nil {
		return nil, err
	}
	e.finish()
	return av, nil
}

// DecodeValue decodes into dest, a non-nil pointer. On an error the value behind
// dest is unchanged.
func (r *Registry) DecodeValue(av types.AttributeValue, dest any) error {
	v := reflect.ValueOf(dest)
	if v.Kind() != reflect.Pointer || v.IsNil() {
		return fmt.Errorf("decode into %T: want a non-nil pointer", dest)
	}
	c, err := r.codec(v.Type().Elem(), camelCase)
	if err != nil {
		return err
	}
	fresh := reflect.New(v.Type().Elem()).Elem()
	if err := c.decode(av, fresh, 0); err != nil {
		return err
	}
	v.Elem().Set(fresh)
	return nil
}

// codec returns the codec of a type.
func (r *Registry) codec(t reflect.Type, n naming) (*codec, error) {
	if known, ok := r.codecs[n].Load(t); ok {
		return known.(*codec), nil
	}
	var c *codec
	err := r.compile(func(k *compiler) (err error) {
		c, err = k.codec(t, n)
		return err
	})
	return c, err
}

// compile runs a compilation and publishes its codecs if all are complete, so
// that an incomplete codec is never visible outside.
func (r *Registry) compile(work func(*compiler) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := &compiler{registry: r, made: map[codecKey]*codec{}}
	if err := work(k); err != nil {
		return err
	}
	for key, c := range k.made {
		r.codecs[key.naming].Store(key.typ, c)
	}
	return nil
}

// errEmptyKey is the reason why an item with an incomplete key is refused.
var errEmptyKey = errors.New("the table key is empty: set the field")
