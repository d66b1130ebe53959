package localdynamo

import (
	"errors"
	"fmt"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// Errors of Open, Check and Close, and of a closed DB. Other errors of operations
// have the SDK's types.
var (
	// ErrLocked means that another process has the file open.
	ErrLocked = store.ErrLocked

	// ErrCorrupt means that the file is damaged, or not a file of this package.
	ErrCorrupt = store.ErrCorrupt

	// ErrFormat means that a newer version of this package wrote the file.
	ErrFormat = store.ErrFormat

	// ErrClosed means that the DB has been closed.
	ErrClosed = errors.New("localdynamo: closed")
)

// codeValidation is the error code that the SDK has no type for.
const codeValidation = "ValidationException"

// invalid returns a ValidationException.
func invalid(format string, args ...any) error {
	return &smithy.GenericAPIError{Code: codeValidation, Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// validationError is a ValidationException with the error of package value or
// expr that caused it.
type validationError struct {
	*smithy.GenericAPIError
	cause error
}

func (c *validationError) Unwrap() []error { return []error{c.GenericAPIError, c.cause} }

// asInvalid turns an error of package value or expr into a ValidationException;
// nil stays nil.
func asInvalid(err error) error {
	if err == nil {
		return nil
	}
	return &validationError{&smithy.GenericAPIError{Code: codeValidation, Message: err.Error(), Fault: smithy.FaultClient}, err}
}

// withLegacyWording gives an error about a value the older wording that
// BatchWriteItem and Scan still use.
func withLegacyWording(err error) error {
	var named *expr.ValueError
	var fault *value.Fault
	if errors.As(err, &named) || !errors.As(err, &fault) {
		return err
	}
	return invalid("%s", fault.Older())
}

// withErrorCount adds the prefix that AWS puts before every ValidationException
// of PutItem, UpdateItem and DeleteItem that does not depend on the table.
func withErrorCount(err error) error {
	const words = "1 validation error detected: "
	message, ok := validationMessage(err)
	if !ok || strings.HasPrefix(message, words) {
		return err
	}
	return invalid("%s%s", words, message)
}

// withoutValueName removes the name of an expression attribute value from an
// error about it. AWS names it only in Scan and, in most regions, in
// transactions.
func withoutValueName(err error) error {
	var named *expr.ValueError
	if errors.As(err, &named) {
		return named.Fault
	}
	return err
}

// validationMessage returns the message of a ValidationException.
func validationMessage(err error) (string, bool) {
	var e *smithy.GenericAPIError
	if !errors.As(err, &e) || e.Code != codeValidation {
		return "", false
	}
	return e.Message, true
}

func errNotFound() error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found")}
}

// internal wraps a failure of the store as an InternalServerError. As on AWS,
// the caller cannot know whether the write took effect, unless the result is a
// definiteError.
func (db *DB) internal(err error) error {
	answer := &types.InternalServerError{Message: aws.String("Internal server error")}
	if err = db.withDamage(err); errors.Is(err, ErrDamaged) {
		answer.Message = aws.String(err.Error())
	}
	if errors.Is(err, store.ErrUncertain) {
		return fmt.Errorf("localdynamo: %s: %w: %w", db.path, answer, err)
	}
	if errors.Is(err, ErrDamaged) {
		return &definiteError{fmt.Errorf("localdynamo: %s: %w", db.path, &damageAnswer{answer, err})}
	}
	return &definiteError{fmt.Errorf("localdynamo: %s: %w: %w%s", db.path, answer, err, advice(db.path, err))}
}

// A damageAnswer is an InternalServerError whose message is the text of a *DamageError.
type damageAnswer struct {
	*types.InternalServerError
	damage error
}

func (a *damageAnswer) Error() string { return a.damage.Error() }

func (a *damageAnswer) Unwrap() []error { return []error{a.InternalServerError, a.damage} }

// A definiteError is a failure of the store that wrote nothing and that a retry
// would meet again.
type definiteError struct{ error }

func (e *definiteError) Unwrap() error { return e.error }

// Definite reports that the write had no effect, and that a retry cannot help.
func (e *definiteError) Definite() bool { return true }

// maxViolations is how many violated constraints AWS reports in one error.
const maxViolations = 10

// constraintError is the ValidationException for members that violate
// constraints of AWS's service model, such as a length or an enum. Unlike other
// errors, they are collected from the whole request.
type constraintError struct {
	*smithy.GenericAPIError
	violations []string // one sentence per constraint
}

func (e *constraintError) Unwrap() error { return e.GenericAPIError }

// errViolations returns the error for at least one violation.
func errViolations(sentences ...string) error {
	sentences = sentences[:min(len(sentences), maxViolations)]
	plural := ""
	if len(sentences) > 1 {
		plural = "s"
	}
	message := fmt.Sprintf("%d validation error%s detected: %s", len(sentences), plural, strings.Join(sentences, "; "))
	return &constraintError{
		&smithy.GenericAPIError{Code: codeValidation, Message: message, Fault: smithy.FaultClient},
		sentences,
	}
}

// joinFaults merges all constraint violations among the faults into one error.
// Without violations it returns the first other fault. Faults may be nil.
func joinFaults(faults ...error) error {
	var sentences []string
	var other error
	for _, fault := range faults {
		var e *constraintError
		if errors.As(fault, &e) {
			sentences = append(sentences, e.violations...)
		} else if other == nil {
			other = fault
		}
	}
	if len(sentences) > 0 {
		return errViolations(sentences...)
	}
	return other
}

func errNull(member string) error {
	return errViolations("Value null at '" + member + "' failed to satisfy constraint: Member must not be null")
}

func errConstraint(value, member, constraint string) error {
	return errViolations("Value '" + value + "' at '" + member + "' failed to satisfy constraint: " + constraint)
}

// checkLength requires a length from 1 to most, of a list or a string. AWS's
// message quotes the member's name, not its value.
func checkLength(member string, n, most int) error {
	switch {
	case n < 1:
		return errTooShort(member)
	case n > most:
		return errViolations(fmt.Sprintf("Value at '%s' failed to satisfy constraint: Member must have length less than or equal to %d", member, most))
	}
	return nil
}

func errTooShort(member string) error {
	return errViolations("Value at '" + member + "' failed to satisfy constraint: Member must have length greater than or equal to 1")
}

// Limits for the names of tables and indexes, in characters.
const (
	minName = 3
	maxName = 255
)

// checkName checks the name of a table or an index. member is its path in the
// request.
func checkName(member string, name *string) error {
	if name == nil {
		return errNull(member)
	}
	var pattern, length error
	if strings.ContainsFunc(*name, notInName) {
		pattern = errConstraint(*name, member, "Member must satisfy regular expression pattern: [a-zA-Z0-9_.-]+")
	}
	switch n := len(*name); {
	case n < minName:
		length = errConstraint(*name, member, fmt.Sprintf("Member must have length greater than or equal to %d", minName))
	case n > maxName:
		length = errConstraint(*name, member, fmt.Sprintf("Member must have length less than or equal to %d", maxName))
	}
	return joinFaults(pattern, length)
}

func notInName(c rune) bool {
	return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '_' && c != '-' && c != '.'
}
