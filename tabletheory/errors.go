package tabletheory

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go"

	"github.com/facetheory/isr/tabletheory/internal/model"
)

// Sentinel errors for [errors.Is]. DynamoDB's errors are wrapped too, so that
// [errors.AsType] finds the SDK's types.
var (
	// ErrItemNotFound: the item does not exist.
	ErrItemNotFound = errors.New("item not found")
	// ErrConditionFailed: a condition on the stored item did not hold, and nothing
	// was changed. A *[ConditionError] has the stored item.
	ErrConditionFailed = errors.New("condition failed")
	// ErrVersionConflict: the stored item has another version than the model,
	// because it was changed since it was read. It is an ErrConditionFailed too.
	ErrVersionConflict = errors.New("version conflict (the item was changed since it was read)")
	// ErrUnknownOutcome: the write was refused, but the reply to an earlier attempt
	// of the SDK was lost, and that attempt may have been applied. If the refusal
	// was a failed condition, a *[ConditionError] has the stored item. [OutcomeOf]
	// returns Unknown for other errors too.
	ErrUnknownOutcome = errors.New("unknown outcome: the reply to an earlier attempt was lost")
	// ErrTransactionConflict: another transaction was writing the item.
	ErrTransactionConflict = errors.New("conflict with another transaction on the item")
	// ErrThrottled: the table or the account has reached the limit of its capacity.
	ErrThrottled = errors.New("DynamoDB throttled the request")
	// ErrTableNotFound: the table does not exist, or is not ready yet.
	ErrTableNotFound = errors.New("table not found")
	// ErrInvalidModel: the tags of a struct are invalid, its TableName is empty, or
	// a value is not a model.
	ErrInvalidModel = errors.New("invalid model")
	// ErrInvalidQuery: the calls that built a query, an update or a transaction
	// contradict each other. Nothing was sent.
	ErrInvalidQuery = errors.New("invalid query")
	// ErrUnsupported: the client lacks the operation.
	ErrUnsupported = errors.New("unsupported by the client")
)

// ConditionError is a write of one item that failed because its conditions did
// not hold. It is an [ErrConditionFailed] and, if the version differs, an
// [ErrVersionConflict].
//
// The SDK retries a request whose reply was lost, so a write can fail on its own
// effect. If Item is the result of the write, the write is a success and there
// is no error. Otherwise the error is an [ErrUnknownOutcome] and neither of the
// two above: the write may have been applied and overwritten since.
type ConditionError struct {
	Table string
	Key   map[string]types.AttributeValue
	// Item is the stored item, still encrypted; nil if there is none.
	Item map[string]types.AttributeValue

	stored
	conflict bool
	unknown  bool
	cause    error
}

// Error returns the failed condition and what is stored.
func (e *ConditionError) Error() string {
	if e.unknown {
		return ErrUnknownOutcome.Error() + "; " + failedText(false) + e.found(e.Item)
	}
	return failedText(e.conflict) + e.found(e.Item)
}

// Unwrap returns the sentinel errors and the SDK's error.
func (e *ConditionError) Unwrap() []error {
	switch {
	case e.unknown:
		return []error{ErrUnknownOutcome, e.cause}
	case e.conflict:
		return []error{ErrConditionFailed, ErrVersionConflict, e.cause}
	}
	return []error{ErrConditionFailed, e.cause}
}

// Decode decodes the stored item into dest, a pointer to a struct of the model.
// If there is no item it returns [ErrItemNotFound] and leaves dest unchanged.
func (e *ConditionError) Decode(dest any) error { return e.decode(e.Item, dest) }

// TransactionError is a cancelled transaction: nothing of it happened. It is an
// [ErrConditionFailed], [ErrVersionConflict], [ErrTransactionConflict] or
// [ErrThrottled] if one of its actions has that reason.
type TransactionError struct {
	// Reasons has one entry for each action, in order.
	Reasons []Reason

	cause error
}

// Reason is the outcome of one action of a cancelled transaction.
type Reason struct {
	Label any    // of the action, by [TransactionBuilder.Label]; nil if it has none
	Kind  string // put, create, update, delete, condition check or get
	Table string
	Key   map[string]types.AttributeValue
	// Code is DynamoDB's: None for an action that was not refused,
	// ConditionalCheckFailed, TransactionConflict, ProvisionedThroughputExceeded,
	// ThrottlingError, ItemCollectionSizeLimitExceeded, ValidationError or one
	// that AWS has added. Message is DynamoDB's text.
	Code, Message string
	// Item is the stored item if a condition failed; nil if there is none.
	Item map[string]types.AttributeValue

	stored
	name     string // of the model and the key, for Error
	conflict bool
}

// Reason returns the reason of the action with a label. ok is false if no action
// has the label.
func (e *TransactionError) Reason(label any) (r Reason, ok bool) {
	i := slices.IndexFunc(e.Reasons, func(r Reason) bool { return label != nil && r.Label == label })
	if i < 0 {
		return Reason{}, false
	}
	return e.Reasons[i], true
}

// Failed reports whether this action was a reason of the cancellation.
func (r Reason) Failed() bool { return r.Code != codeNone }

// ConditionFailed reports whether a condition of this action did not hold.
func (r Reason) ConditionFailed() bool { return r.Code == codeConditionFailed }

// Decode decodes the stored item of a failed condition into dest, a pointer to a
// struct of the action's model. If there is no item it returns [ErrItemNotFound]
// and leaves dest unchanged.
func (r Reason) Decode(dest any) error { return r.decode(r.Item, dest) }

// Error lists the refused actions.
func (e *TransactionError) Error() string {
	var text strings.Builder
	text.WriteString("transaction cancelled")
	for i, r := range e.Reasons {
		if r.Failed() {
			fmt.Fprintf(&text, "; %s, %s %s: %s", nameAction(i, r.Label), r.Kind, r.name, r.text())
		}
	}
	return text.String()
}

func (r Reason) text() string {
	switch {
	case r.Code == codeConditionFailed:
		return failedText(r.conflict) + r.found(r.Item)
	case r.Message == "":
		return r.Code
	}
	return r.Code + ": " + r.Message
}

// nameAction names an action of a transaction in errors.
func nameAction(index int, label any) string {
	if label == nil {
		return fmt.Sprintf("action %d", index)
	}
	return fmt.Sprintf("action %d (%v)", index, label)
}

// Unwrap returns the sentinel errors, each once, and the SDK's error.
func (e *TransactionError) Unwrap() []error {
	var conditions, conflicts, versions, throttled bool
	for _, r := range e.Reasons {
		switch r.Code {
		case codeConditionFailed:
			conditions = true
			versions = versions || r.conflict
		case codeConflict:
			conflicts = true
		case codeThrottled, codeCapacity:
			throttled = true
		}
	}
	all := []error{e.cause}
	for _, sentinel := range []struct {
		holds bool
		err   error
	}{{conditions, ErrConditionFailed}, {versions, ErrVersionConflict}, {conflicts, ErrTransactionConflict}, {throttled, ErrThrottled}} {
		if sentinel.holds {
			all = append(all, sentinel.err)
		}
	}
	return all
}

// failedText returns the text of a failed condition.
func failedText(conflict bool) string {
	if conflict {
		return ErrVersionConflict.Error()
	}
	return ErrConditionFailed.Error()
}

// stored decodes the stored item that came with an error.
type stored struct {
	target *target
}

// found describes the stored item for an error.
func (s stored) found(item model.Item) string {
	if len(item) == 0 {
		return ": the item does not exist"
	}
	if s.target.model.Version == nil {
		return ""
	}
	version, ok := versionOf(s.target.model, item)
	if !ok {
		return fmt.Sprintf(": its %s is not a version", s.target.model.Version.Attribute)
	}
	return fmt.Sprintf(": stored version %d", version)
}

func (s stored) decode(item model.Item, dest any) error {
	into, err := s.target.destStruct("Decode", dest)
	if err != nil {
		return err
	}
	if len(item) == 0 {
		return fmt.Errorf("tabletheory: decode the stored item: %w", ErrItemNotFound)
	}
	// A copy, because decryption is in place. The background context, because the
	// context of the write may be done.
	return s.target.decode(context.Background(), maps.Clone(item), into)
}

// versionOf returns the version of a stored item, 0 if it has none. ok is false
// if the attribute is not a version.
func versionOf(m *model.Model, item model.Item) (version int64, ok bool) {
	av, stored := item[m.Version.Attribute]
	if !stored {
		return 0, true
	}
	n, ok := av.(*types.AttributeValueMemberN)
	if !ok {
		return 0, false
	}
	version, err := strconv.ParseInt(n.Value, 10, 64)
	return version, err == nil
}

// failure returns the error of an operation on one item, or nil if err is nil.
// op is an infinitive; key may be nil.
func (t *target) failure(op string, key model.Item, err error) error {
	return t.failureAt(op, key, nil, err)
}

// failureAt is failure for a write that requires a version of the item; nil:
// none.
func (t *target) failureAt(op string, key model.Item, wantVersion *int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tabletheory: %s %s in table %s: %w", op, t.describe(key), t.table, t.classify(key, wantVersion, err))
}

// classify wraps an error of DynamoDB in the sentinel errors. wantVersion is the
// version that the write required; nil: none.
func (t *target) classify(key model.Item, wantVersion *int64, err error) error {
	if item, failed := failedCondition(err); failed {
		return &ConditionError{
			Table: t.table, Key: key, Item: item, stored: stored{t},
			conflict: t.conflicts(item, wantVersion), unknown: errors.Is(err, ErrUnknownOutcome), cause: err,
		}
	}
	if sentinel := sentinelOf(err); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}

// failedCondition reports whether err is the failed condition of a write of one
// item, sent alone or as a transaction of one action, and returns the stored
// item.
func failedCondition(err error) (stored model.Item, failed bool) {
	if alone, ok := errors.AsType[*types.ConditionalCheckFailedException](err); ok {
		return alone.Item, true
	}
	canceled, ok := errors.AsType[*types.TransactionCanceledException](err)
	if !ok || len(canceled.CancellationReasons) != 1 {
		return nil, false
	}
	reason := canceled.CancellationReasons[0]
	return reason.Item, aws.ToString(reason.Code) == codeConditionFailed
}

// conflicts reports whether a stored item has another version than required.
func (t *target) conflicts(item model.Item, wantVersion *int64) bool {
	if wantVersion == nil {
		return false
	}
	version, ok := versionOf(t.model, item)
	return !ok || version != *wantVersion
}

// sentinelOf returns the sentinel error for an error of DynamoDB, or nil.
func sentinelOf(err error) error {
	api, ok := errors.AsType[smithy.APIError](err)
	if !ok {
		return nil
	}
	switch code := api.ErrorCode(); {
	case isConflict(code):
		return ErrTransactionConflict
	case isThrottling(code, err):
		return ErrThrottled
	case code == "ResourceNotFoundException":
		return ErrTableNotFound
	}
	return nil
}

// action is an action of a transaction, for errors.
type action struct {
	*target
	label       any    // see Reason.Label
	kind        string // see Reason.Kind
	key         model.Item
	wantVersion *int64 // the version that the action requires; nil: none
}

// transactionFailure returns the error of a transaction, or nil if err is nil.
func transactionFailure(op string, actions []action, err error) error {
	if err == nil {
		return nil
	}
	if sentinel := sentinelOf(err); sentinel != nil {
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	return fmt.Errorf("tabletheory: %s of %d actions: %w", op, len(actions), cancellationError(actions, err))
}

// cancellationError returns a *[TransactionError] if err is the cancellation of
// a transaction of these actions, and err otherwise.
func cancellationError(actions []action, err error) error {
	if answer, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return &TransactionError{Reasons: reasonsOf(actions, answer.CancellationReasons), cause: err}
	}
	return err
}

// reasonsOf returns the reason of each action. DynamoDB's reasons may be fewer,
// or lack codes.
func reasonsOf(actions []action, given []types.CancellationReason) []Reason {
	reasons := make([]Reason, len(actions))
	for i, a := range actions {
		r := Reason{
			Label: a.label, Kind: a.kind, Table: a.table, Key: a.key, Code: codeNone,
			stored: stored{a.target}, name: a.describe(a.key),
		}
		if i < len(given) && given[i].Code != nil {
			r.Code, r.Message, r.Item = *given[i].Code, aws.ToString(given[i].Message), given[i].Item
			r.conflict = r.Code == codeConditionFailed && a.conflicts(r.Item, a.wantVersion)
		}
		reasons[i] = r
	}
	return reasons
}

// describe names an item in errors: its model and the known attributes of its
// key.
func (t *target) describe(key model.Item) string {
	text := t.model.Type.Name()
	for _, field := range []*model.Field{t.model.Hash, t.model.Range} {
		if field == nil || key[field.Attribute] == nil {
			continue
		}
		text += " " + field.Attribute + "=" + formatKey(key[field.Attribute])
	}
	return strings.TrimSpace(text)
}

// formatKey formats a key attribute, quoted if it would be ambiguous otherwise.
func formatKey(av types.AttributeValue) string {
	switch v := av.(type) {
	case *types.AttributeValueMemberS:
		if v.Value == "" || strings.ContainsFunc(v.Value, func(r rune) bool { return r == '"' || r == ' ' || !unicode.IsPrint(r) }) {
			return strconv.Quote(v.Value)
		}
		return v.Value
	case *types.AttributeValueMemberN:
		return v.Value
	case *types.AttributeValueMemberB:
		return fmt.Sprintf("0x%x", v.Value)
	}
	return fmt.Sprintf("(%T)", av)
}
