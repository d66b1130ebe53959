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

// Errors of opening and closing. Errors of operations are the SDK's own types.
var (
	// ErrLocked says that another process has the file open.
	ErrLocked = store.ErrLocked

	// ErrCorrupt says that the file is damaged, or is no file of ours.
	ErrCorrupt = store.ErrCorrupt

	// ErrFormat says that a newer version of this package wrote the file.
	ErrFormat = store.ErrFormat

	// ErrClosed says that the DB has been closed.
	ErrClosed = errors.New("localdynamo: closed")
)

// codeValidation is the code of the one error that the SDK has no type for.
const codeValidation = "ValidationException"

// invalid returns a ValidationException.
func invalid(format string, args ...any) error {
	return &smithy.GenericAPIError{Code: codeValidation, Message: fmt.Sprintf(format, args...), Fault: smithy.FaultClient}
}

// complaint is a ValidationException about a value or an expression.
type complaint struct {
	*smithy.GenericAPIError
	cause error
}

func (c *complaint) Unwrap() []error { return []error{c.GenericAPIError, c.cause} }

// asInvalid makes a complaint about a value or an expression one about the
// request; nil stays nil.
func asInvalid(err error) error {
	if err == nil {
		return nil
	}
	return &complaint{&smithy.GenericAPIError{Code: codeValidation, Message: err.Error(), Fault: smithy.FaultClient}, err}
}

// older says of a value that is wrong what BatchWriteItem and Scan still say.
func older(err error) error {
	var named *expr.ValueError
	var fault *value.Fault
	if errors.As(err, &named) || !errors.As(err, &fault) {
		return err
	}
	return invalid("%s", fault.Older())
}

// counted adds the words that AWS puts before every complaint of PutItem,
// UpdateItem and DeleteItem that it makes without a look at the table.
func counted(err error) error {
	const words = "1 validation error detected: "
	message, ok := validationMessage(err)
	if !ok || strings.HasPrefix(message, words) {
		return err
	}
	return invalid("%s%s", words, message)
}

// unnamed takes from a complaint about a value of an expression which value
// that is. AWS tells it in Scan, in most regions in transactions, and nowhere
// else any longer.
func unnamed(err error) error {
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

func notFound() error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found")}
}

// internal reports a failure of the store. Unless it says otherwise, whether the
// write took place is unknown to whoever gets it, as it is after an
// InternalServerError of AWS.
func (db *DB) internal(err error) error {
	answer := &types.InternalServerError{Message: aws.String("Internal server error")}
	if errors.Is(err, store.ErrUncertain) {
		return fmt.Errorf("localdynamo: %s: %w: %w", db.path, answer, err)
	}
	return &failure{fmt.Errorf("localdynamo: %s: %w: %w%s", db.path, answer, err, advice(db.path, err))}
}

// A failure is an error of the store after which nothing was written, and which
// the same request would meet again.
type failure struct{ error }

func (f *failure) Unwrap() error { return f.error }

// Definite says that the request was not carried out, and never will be.
func (f *failure) Definite() bool { return true }
