package model

import (
	"errors"
	"reflect"
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var timeType = reflect.TypeFor[time.Time]()

// Bounds of epoch seconds: the years 0 to 9999, which RFC 3339 can express.
const (
	minEpoch = -62167219200
	maxEpoch = 253402300799
)

var (
	errYear  = errors.New("RFC 3339 has only the years 0 to 9999")
	errEpoch = errors.New("epoch seconds beyond the year 9999: they may be milliseconds")
)

// useTime makes c the codec of time.Time or a type defined as it: RFC 3339 in
// UTC with nanoseconds, or epoch seconds. It reports whether c.typ is such a
// type. Decoding takes either form.
func (c *codec) useTime(epoch bool) bool {
	if c.typ.Kind() != reflect.Struct || !c.typ.ConvertibleTo(timeType) {
		return false
	}
	if epoch {
		c.useN(func(b []byte, v reflect.Value) ([]byte, error) {
			return strconv.AppendInt(b, timeOf(v).Unix(), 10), nil
		}, setEpoch)
	} else {
		c.useS(appendTime, setRFC3339)
	}
	c.decode = func(av types.AttributeValue, v reflect.Value, _ int) error {
		var err error
		switch av := av.(type) {
		case *types.AttributeValueMemberS:
			err = setRFC3339(av.Value, v)
		case *types.AttributeValueMemberN:
			err = setEpoch(av.Value, v)
		case *types.AttributeValueMemberNULL:
			v.SetZero()
		default:
			return c.mismatch(av)
		}
		if err != nil {
			return c.invalid(av, err)
		}
		return nil
	}
	return true
}

// timeOf returns the time in a value of time.Time or a type defined as it. It
// does not allocate if the value is addressable.
func timeOf(v reflect.Value) time.Time {
	if v.Type() != timeType {
		v = v.Convert(timeType)
	}
	if v.CanAddr() {
		return *v.Addr().Interface().(*time.Time)
	}
	return v.Interface().(time.Time)
}

func appendTime(b []byte, v reflect.Value) ([]byte, error) {
	t := timeOf(v).UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return nil, errYear
	}
	return t.AppendFormat(b, time.RFC3339Nano), nil
}

func setRFC3339(s string, v reflect.Value) error {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return err
	}
	setTime(v, t.UTC())
	return nil
}

func setEpoch(s string, v reflect.Value) error {
	seconds, err := parseInt(s)
	if err != nil {
		return err
	}
	if seconds < minEpoch || seconds > maxEpoch {
		return errEpoch
	}
	setTime(v, time.Unix(seconds, 0).UTC())
	return nil
}

func setTime(v reflect.Value, t time.Time) {
	if v.Type() == timeType {
		*v.Addr().Interface().(*time.Time) = t
		return
	}
	v.Set(reflect.ValueOf(t).Convert(v.Type()))
}
