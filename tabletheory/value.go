package tabletheory

import "github.com/facetheory/isr/tabletheory/internal/model"

// Number is a number as DynamoDB stores it: a decimal of up to 38 significant
// digits between 1E-130 and 9.99E+125 in magnitude. Unlike float64, it loses no
// digits. Its methods convert it.
type Number = model.Number

// Marshaler and Unmarshaler are implemented by types that encode and decode
// themselves. They are the interfaces of the SDK's package attributevalue.
type (
	Marshaler   = model.Marshaler
	Unmarshaler = model.Unmarshaler
)

// ModelError names the struct and the field whose tags are invalid. Errors that
// are [ErrInvalidModel] wrap it.
type ModelError = model.Error

// EncodeError and DecodeError name the attribute and the field whose value cannot
// be encoded or decoded.
type (
	EncodeError = model.EncodeError
	DecodeError = model.DecodeError
)
