package tabletheory

import (
	"fmt"
	"math"
	"reflect"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// stamp is a value that a write sets by itself: a version or a time. The
// caller's struct gets it after the write has succeeded.
type stamp struct {
	field *model.Field
	value reflect.Value // has the field's type
	av    types.AttributeValue
}

// version returns the version in the struct; 0 if the model has no version
// field.
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
	return 0, fmt.Errorf("%w: field %s has the version %v: must be 0 (none) to %d", ErrInvalidModel, f.Name, v, int64(math.MaxInt64))
}

// nextVersion requires the version of the struct, unless a condition requires
// one already, and returns the version after it; 0 if the model has no version
// field.
func (w *write) nextVersion() (int64, error) {
	if w.model.Version == nil {
		return 0, nil
	}
	if w.wantVersion == nil {
		version, err := w.version()
		if err != nil {
			return 0, err
		}
		if err := w.require(AtVersion(version)); err != nil {
			return 0, err
		}
	}
	if *w.wantVersion == math.MaxInt64 {
		return 0, noNextVersion(*w.wantVersion)
	}
	return *w.wantVersion + 1, nil
}

func noNextVersion(version int64) error {
	return fmt.Errorf("%w: version %d is the highest and cannot be incremented", ErrInvalidModel, version)
}

// stampWhole stamps a whole item: its version, updated_at and, unless the struct
// has it, created_at.
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

// stampChange stamps an update: the next version and updated_at.
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

// time returns the current time as it is stored: in UTC, without a monotonic
// reading.
func (w *write) time() time.Time { return w.now().UTC().Round(0) }

func (w *write) stampVersion(version int64) error {
	f := w.model.Version
	if f == nil {
		return nil
	}
	value := reflect.New(w.fieldType(f)).Elem()
	if !setInteger(value, version) {
		return fmt.Errorf("%w: version %d overflows field %s, a %v: make it an int64", ErrInvalidModel, version, f.Name, value.Type())
	}
	return w.stamp(f, value)
}

// stampTime stores a time in the form of the field: as a time, an RFC 3339
// string or epoch seconds. f may be nil.
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
		return fmt.Errorf("%w: time %v overflows field %s, a %v: make it a time.Time or an int64", ErrInvalidModel, now, f.Name, value.Type())
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

// fieldType returns the Go type of a field, even if an embedded pointer to it is
// nil.
func (t *target) fieldType(f *model.Field) reflect.Type {
	if v := f.Value(t.value, false); v.IsValid() {
		return v.Type()
	}
	return f.Value(reflect.New(t.model.Type).Elem(), true).Type()
}

// setInteger stores n in an integer and reports whether it fits.
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

// isZero reports whether a field has no time. v may be invalid.
func isZero(v reflect.Value) bool {
	if !v.IsValid() {
		return true
	}
	if t, ok := v.Interface().(interface{ IsZero() bool }); ok {
		return t.IsZero() // unlike Value.IsZero, ignores the location
	}
	return v.IsZero()
}
