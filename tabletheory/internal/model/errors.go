package model

import (
	"fmt"
	"reflect"
	"strings"
)

// Error is the reason why a type cannot be a model or part of one.
type Error struct {
	Type    reflect.Type // of the struct
	Field   string       // Go name of the field; empty if the error is about the struct
	Problem string       // with what to write instead
}

// Error implements error.
func (e *Error) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("%v: %s", e.Type, e.Problem)
	}
	return fmt.Sprintf("field %s of %v: %s", e.Field, e.Type, e.Problem)
}

// EncodeError tells which value cannot be stored, and wraps the reason.
type EncodeError struct {
	Path  string // of the attribute: isr.headers.link[1]; empty if the value is not an attribute
	Field string // the innermost Go field on the path: models.Page.Headers; may be empty
	Err   error
}

// Error implements error.
func (e *EncodeError) Error() string {
	return "encode " + place(e.Path, e.Field) + ": " + e.Err.Error()
}

// Unwrap returns the reason.
func (e *EncodeError) Unwrap() error { return e.Err }

// DecodeError tells which stored value does not fit its field.
type DecodeError struct {
	Path   string // of the attribute: isr.headers.link[1]; empty if the value is not an attribute
	Field  string // the innermost Go field on the path: models.Page.Headers; may be empty
	Found  string // what is stored: "S"
	Wanted string // what the field takes: "N for int64"
	Err    error  // the reason, if it is not the type; otherwise nil
}

// Error implements error.
func (e *DecodeError) Error() string {
	text := "decode " + place(e.Path, e.Field) + ": found " + e.Found + ", want " + e.Wanted
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the reason, or nil.
func (e *DecodeError) Unwrap() error { return e.Err }

func place(path, field string) string {
	switch {
	case path == "":
		return "a value"
	case field == "":
		return "attribute " + path
	}
	return "attribute " + path + " (field " + field + ")"
}

// addStep prepends a step, a name or [1], to the path of an error while it is
// returned from nested values. field is the Go field of the step, or empty.
func addStep(step, field string, err error) error {
	if found, ok := err.(*DecodeError); ok {
		found.Path = join(step, found.Path)
		if found.Field == "" {
			found.Field = field
		}
		return found
	}
	wrapped, ok := err.(*EncodeError)
	if !ok {
		wrapped = &EncodeError{Err: err}
	}
	wrapped.Path = join(step, wrapped.Path)
	if wrapped.Field == "" {
		wrapped.Field = field
	}
	return wrapped
}

func join(step, path string) string {
	if path == "" || strings.HasPrefix(path, "[") {
		return step + path
	}
	return step + "." + path
}
