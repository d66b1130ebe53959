package tabletheory

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// stamp is what a write stores by itself: a version or a time. The caller's
// struct gets it when the write has happened, and is as it was until then.
type stamp struct {
	field *model.Field
	value reflect.Value // of the field's type
	av    types.AttributeValue
}

// version is the version that the struct has; 0 if the model has none.
func (t *target) version() (int64, error) {
	f := t.model.Version
	if f == nil {
		return 0, nil
	}
	v := f.Value(t.value, false)
	switch {
	case !v.IsValid():
		return 0, nil
	case v.CanInt() && v.Int() >= 0:
		return v.Int(), nil
	case v.CanUint() && v.Uint() <= math.MaxInt64:
		return int64(v.Uint()), nil
	}
	return 0, fmt.Errorf("%w: field %s has the version %v: versions are 0, which is none, to %d", ErrInvalidModel, f.Name, v, int64(math.MaxInt64))
}

// nextVersion demands the version of the struct, unless a condition has demanded
// another one, and returns the version after it; 0 if the model has none.
func (w *write) nextVersion() (int64, error) {
	if w.model.Version == nil {
		return 0, nil
	}
	if w.demanded == nil {
		version, err := w.version()
		if err != nil {
			return 0, err
		}
		if err := w.demand(AtVersion(version)); err != nil {
			return 0, err
		}
	}
	if *w.demanded == math.MaxInt64 {
		return 0, noNextVersion(*w.demanded)
	}
	return *w.demanded + 1, nil
}

func noNextVersion(version int64) error {
	return fmt.Errorf("%w: no version comes after %d", ErrInvalidModel, version)
}

// stampWhole stamps a whole item: with its version, with now as updated_at, and
// as created_at as well unless the struct knows better.
func (w *write) stampWhole(version int64) error {
	if err := w.stampVersion(version); err != nil {
		return err
	}
	now := w.time()
	if f := w.model.CreatedAt; f != nil && isZero(f.Value(w.value, false)) {
		if err := w.stampTime(f, now); err != nil {
			return err
		}
	}
	return w.stampTime(w.model.UpdatedAt, now)
}

// stampChange stamps an update: with the next version and updated_at.
func (w *write) stampChange() error {
	next, err := w.nextVersion()
	if err != nil {
		return err
	}
	if err := w.stampVersion(next); err != nil {
		return err
	}
	return w.stampTime(w.model.UpdatedAt, w.time())
}

// time is now, as it is stored: in UTC, without a monotonic clock reading.
func (w *write) time() time.Time { return w.now().UTC().Round(0) }

func (w *write) stampVersion(version int64) error {
	f := w.model.Version
	if f == nil {
		return nil
	}
	value := reflect.New(w.fieldType(f)).Elem()
	if !setInteger(value, version) {
		return fmt.Errorf("%w: field %s is a %v, which the version %d does not fit into: make it an int64", ErrInvalidModel, f.Name, value.Type(), version)
	}
	return w.stamp(f, value)
}

// stampTime stores a time as the field has it: as it is, as an RFC 3339 string,
// or in epoch seconds. The field may be nil.
func (w *write) stampTime(f *model.Field, now time.Time) error {
	if f == nil {
		return nil
	}
	value := reflect.New(w.fieldType(f)).Elem()
	switch {
	case value.Kind() == reflect.Struct:
		value.Set(reflect.ValueOf(now).Convert(value.Type()))
	case value.Kind() == reflect.String:
		value.SetString(now.Format(time.RFC3339Nano))
	case !setInteger(value, now.Unix()):
		return fmt.Errorf("%w: field %s is a %v, which the time %v does not fit into: make it a time.Time or an int64", ErrInvalidModel, f.Name, value.Type(), now)
	}
	return w.stamp(f, value)
}

func (w *write) stamp(f *model.Field, value reflect.Value) error {
	av, err := f.Path().Encode(value.Interface())
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidModel, err)
	}
	w.stamps = append(w.stamps, stamp{field: f, value: value, av: av})
	return nil
}

// fieldType is the Go type of a field, whether or not the struct that embeds it
// is there.
func (t *target) fieldType(f *model.Field) reflect.Type {
	if v := f.Value(t.value, false); v.IsValid() {
		return v.Type()
	}
	return f.Value(reflect.New(t.model.Type).Elem(), true).Type()
}

// setInteger stores n in an integer that it fits into.
func setInteger(v reflect.Value, n int64) bool {
	switch {
	case v.CanInt() && !v.OverflowInt(n):
		v.SetInt(n)
	case v.CanUint() && n >= 0 && !v.OverflowUint(uint64(n)):
		v.SetUint(uint64(n))
	default:
		return false
	}
	return true
}

// isZero says that a field, which need not be there, has no time yet.
func isZero(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	if t, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return t.IsZero() // the zero time may have a location
	}
	return v.IsZero()
}
