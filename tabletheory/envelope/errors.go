package envelope

import "errors"

// Errors of [Open], for [errors.Is]. The full message names the table, the key of the
// item and the attribute.
var (
	// ErrTampered: authentication failed. The attribute or its sealed data key was
	// modified, or copied from another attribute, item or table.
	ErrTampered = errors.New("authentication failed: the value was modified or copied from another attribute, item or table")
	// ErrMalformed: the attribute does not have the format of this package.
	ErrMalformed = errors.New("malformed encrypted attribute")
	// ErrNotEncrypted: the attribute is stored in plaintext.
	ErrNotEncrypted = errors.New("the attribute is not encrypted")
	// ErrUnknownKey: the provider does not have the master key that sealed the data
	// key.
	ErrUnknownKey = errors.New("unknown master key")
)
