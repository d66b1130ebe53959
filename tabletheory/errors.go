package tabletheory

import "errors"

// What callers branch on, by [errors.Is]. Errors that DynamoDB answered with are
// wrapped as well, so that [errors.AsType] finds the SDK's own types.
var (
	// ErrItemNotFound: there is no such item.
	ErrItemNotFound = errors.New("there is no such item")
	// ErrConditionFailed: the stored item is not as a condition demands, and
	// nothing was changed. A *[ConditionError] tells what is stored.
	ErrConditionFailed = errors.New("the stored item is not as the condition demands")
	// ErrVersionConflict: the stored item has another version than the model: it
	// was changed since it was read. Such an error is an ErrConditionFailed too.
	ErrVersionConflict = errors.New("the stored item has another version: it was changed since it was read")
	// ErrTransactionConflict: another transaction was at work on an item.
	ErrTransactionConflict = errors.New("another transaction is at work on the item")
	// ErrThrottled: the table or the account is at the limit of its capacity.
	ErrThrottled = errors.New("DynamoDB has throttled the request")
	// ErrTableNotFound: there is no such table, or it cannot be used yet.
	ErrTableNotFound = errors.New("there is no such table")
	// ErrInvalidModel: a struct cannot be what its tags say, a TableName is
	// empty, or a value is no model at all.
	ErrInvalidModel = errors.New("invalid model")
	// ErrInvalidQuery: the calls that make up a query, an update or a
	// transaction do not go together. Nothing was sent.
	ErrInvalidQuery = errors.New("invalid query")
	// ErrUnsupported: the client that New was given lacks the operation.
	ErrUnsupported = errors.New("the client does not have the operation")
)
