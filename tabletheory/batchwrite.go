package tabletheory

import "fmt"

// BatchError is that a batch of writes was not carried out whole. What is
// written stays written: repeating the batch is harmless, as all of it is
// unconditional.
type BatchError struct {
	// Written is how many of its Total writes are known to have happened. Of
	// the others, those of one request may have.
	Written, Total int

	cause error
}

// Error says how far the batch came.
func (e *BatchError) Error() string {
	return fmt.Sprintf("%d of %d items are written: %v", e.Written, e.Total, e.cause)
}

// Unwrap returns why it came no further.
func (e *BatchError) Unwrap() error { return e.cause }
