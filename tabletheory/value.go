package tabletheory

import "github.com/facetheory/isr/tabletheory/internal/model"

// Number is a number as DynamoDB keeps it: a decimal of up to 38 significant
// digits between 1E-130 and 9.99E+125 in magnitude. Fields of this type lose no
// digits, as those of float64 do. Its methods convert it.
type Number = model.Number

// Marshaler and Unmarshaler are implemented by types that encode and decode
// themselves. They are the interfaces of the SDK's package attributevalue.
type (
	Marshaler   = model.Marshaler
	Unmarshaler = model.Unmarshaler
)

// ModelError, wrapped by errors that are [ErrInvalidModel], names the struct and
// the field that cannot be what the tags say.
type ModelError = model.Error

// EncodeError and DecodeError name the attribute and the field whose value does
// not fit.
type (
	EncodeError = model.EncodeError
	DecodeError = model.DecodeError
)
