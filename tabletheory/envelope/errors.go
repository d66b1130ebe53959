package envelope

import "errors"

// Why an attribute cannot be opened, by [errors.Is]. The error's text names the
// table, the key of the item and the attribute.
var (
	// ErrTampered: the attribute is not what was encrypted for this place: it,
	// or its sealed data key, was changed, or copied from another attribute,
	// item or table.
	ErrTampered = errors.New("it is not what was encrypted for this place: it was changed, or copied from elsewhere")
	// ErrMalformed: the attribute is not of the form that this package knows.
	ErrMalformed = errors.New("malformed encrypted attribute")
	// ErrNotEncrypted: the attribute is stored in plain.
	ErrNotEncrypted = errors.New("the attribute is not encrypted")
	// ErrUnknownKey: the data key was sealed by a master key that the provider
	// does not have.
	ErrUnknownKey = errors.New("unknown master key")
)
