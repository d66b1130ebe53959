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
	// ErrUnknownOutcome: the write was refused, but an earlier attempt that the SDK
	// made at it was not answered, and may have been carried out. A
	// *[ConditionError] tells what is stored, if the refusal was a condition.
	// [OutcomeOf] is Unknown for other errors too.
	ErrUnknownOutcome = errors.New("an earlier attempt at the write was not answered, and may have been carried out")
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

// ConditionError is that a write of one item found another item than its
// conditions demand. It is an [ErrConditionFailed] and, if the version is what
// differs, an [ErrVersionConflict].
//
// The SDK repeats a request that was not answered, so a write whose reply was lost
// can fail on what it has itself stored. If Item is what the write leaves, the write is a
// success and there is no error. Otherwise the error is an [ErrUnknownOutcome],
// and neither of the two above: the write may have been carried out, and
// overwritten since.
type ConditionError struct {
	Table string
	Key   map[string]types.AttributeValue
	// Item is the stored item, as it is stored; nil if there is none.
	Item map[string]types.AttributeValue

	stored
	conflict bool
	unknown  bool
	cause    error
}

// Error says what is wrong, and what is stored instead.
func (e *ConditionError) Error() string {
	if e.unknown {
		return ErrUnknownOutcome.Error() + "; " + demand(false) + e.found(e.Item)
	}
	return demand(e.conflict) + e.found(e.Item)
}

// Unwrap returns what callers branch on, and the SDK's own error.
func (e *ConditionError) Unwrap() []error {
	switch {
	case e.unknown:
		return []error{ErrUnknownOutcome, e.cause}
	case e.conflict:
		return []error{ErrConditionFailed, ErrVersionConflict, e.cause}
	}
	return []error{ErrConditionFailed, e.cause}
}

// Decode reads the stored item into dest, a pointer to a struct of the model. If
// there is no item it returns [ErrItemNotFound] and leaves dest alone.
func (e *ConditionError) Decode(dest any) error { return e.decode(e.Item, dest) }

// TransactionError is that a transaction was cancelled, and nothing of it
// happened. It is an [ErrConditionFailed], [ErrVersionConflict],
// [ErrTransactionConflict] or [ErrThrottled] if one of its actions has that
// reason.
type TransactionError struct {
	// Reasons has one entry for each action, in order.
	Reasons []Reason

	cause error
}

// Reason is why one action of a transaction was, or would have been, refused.
type Reason struct {
	Label any    // of the action, by [TransactionBuilder.Label]; nil if it has none
	Kind  string // put, create, update, delete, condition check or get
	Table string
	Key   map[string]types.AttributeValue
	// Code is DynamoDB's: None if nothing was wrong with this action,
	// ConditionalCheckFailed, TransactionConflict, ProvisionedThroughputExceeded,
	// ThrottlingError, ItemCollectionSizeLimitExceeded, ValidationError or one
	// that AWS has added. Message is its text.
	Code, Message string
	// Item is the stored item if a condition failed; nil if there is none.
	Item map[string]types.AttributeValue

	stored
	name     string // of the model and the key, for people
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

// Failed reports whether this action had a part in the cancellation.
func (r Reason) Failed() bool { return r.Code != codeNone }

// ConditionFailed reports whether a condition of this action did not hold.
func (r Reason) ConditionFailed() bool { return r.Code == codeConditionFailed }

// Decode reads the item of a failed condition into dest, a pointer to a struct
// of the action's model. If there is no item it returns [ErrItemNotFound] and
// leaves dest alone.
func (r Reason) Decode(dest any) error { return r.decode(r.Item, dest) }

// Error lists the actions that were refused.
func (e *TransactionError) Error() string {
	var text strings.Builder
	text.WriteString("the transaction was cancelled, and nothing of it happened")
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
		return demand(r.conflict) + r.found(r.Item)
	case r.Message == "":
		return r.Code
	}
	return r.Code + ": " + r.Message
}

// nameAction names an action of a transaction for people.
func nameAction(index int, label any) string {
	if label == nil {
		return fmt.Sprintf("action %d", index)
	}
	return fmt.Sprintf("action %d (%v)", index, label)
}

// Unwrap returns what callers branch on, each once, and the SDK's own error.
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

// demand is what was found to be wrong with a stored item.
func demand(conflict bool) string {
	if conflict {
		return ErrVersionConflict.Error()
	}
	return ErrConditionFailed.Error()
}

// stored knows how an item is read that came with an error.
type stored struct {
	target *target
}

// found tells people what is stored.
func (s stored) found(item model.Item) string {
	if len(item) == 0 {
		return ": there is none"
	}
	if s.target.model.Version == nil {
		return ""
	}
	version, ok := versionOf(s.target.model, item)
	if !ok {
		return fmt.Sprintf(": what it has as %s is no version", s.target.model.Version.Attribute)
	}
	return fmt.Sprintf(": it has version %d", version)
}

func (s stored) decode(item model.Item, dest any) error {
	into, err := s.target.structOf("Decode", dest)
	if err != nil {
		return err
	}
	if len(item) == 0 {
		return fmt.Errorf("tabletheory: decode the item that an error came with: %w", ErrItemNotFound)
	}
	// A copy, as what is encrypted is decrypted in place; and in the background,
	// as the context of the write may have ended.
	return s.target.decode(context.Background(), maps.Clone(item), into)
}

// versionOf is the version of a stored item, 0 if it has none. It is not ok if
// another writer has stored something there that is no version.
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

// failure is the error of an operation on one item: nil if err is. op is what
// was tried, in the infinitive, and key, which may be nil, on which item.
func (t *target) failure(op string, key model.Item, err error) error {
	return t.failureAt(op, key, nil, err)
}

// failureAt is failure for a write that demands a version of the item; nil: none.
func (t *target) failureAt(op string, key model.Item, demanded *int64, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("tabletheory: %s %s in table %s: %w", op, t.describe(key), t.table, t.classified(key, demanded, err))
}

// classified wraps what DynamoDB has answered in what callers branch on.
// demanded is the version that the write demanded of the item; nil: none.
func (t *target) classified(key model.Item, demanded *int64, err error) error {
	if item, failed := failedCondition(err); failed {
		return &ConditionError{
			Table: t.table, Key: key, Item: item, stored: stored{t},
			conflict: t.conflicts(item, demanded), unknown: errors.Is(err, ErrUnknownOutcome), cause: err,
		}
	}
	if sentinel := sentinelOf(err); sentinel != nil {
		return fmt.Errorf("%w: %w", sentinel, err)
	}
	return err
}

// failedCondition returns the stored item if err is the failed condition of a
// write of one item, sent alone or as a transaction of its own.
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

// conflicts reports whether a stored item has another version than was demanded.
func (t *target) conflicts(item model.Item, demanded *int64) bool {
	if demanded == nil {
		return false
	}
	version, ok := versionOf(t.model, item)
	return !ok || version != *demanded
}

// sentinelOf is what callers branch on for an answer of DynamoDB; nil if that is
// nothing but the SDK's type.
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

// action is one action of a transaction, as errors tell of it.
type action struct {
	*target
	label    any    // see Reason.Label
	kind     string // see Reason.Kind
	key      model.Item
	demanded *int64 // the version that it demands; nil: none
}

// transactionFailure is the error of a transaction: nil if err is.
func transactionFailure(op string, actions []action, err error) error {
	if err == nil {
		return nil
	}
	if sentinel := sentinelOf(err); sentinel != nil {
		err = fmt.Errorf("%w: %w", sentinel, err)
	}
	return fmt.Errorf("tabletheory: %s of %d actions: %w", op, len(actions), canceled(actions, err))
}

// canceled returns a *[TransactionError] if err is the cancellation of a
// transaction of these actions, and err otherwise.
func canceled(actions []action, err error) error {
	if answer, ok := errors.AsType[*types.TransactionCanceledException](err); ok {
		return &TransactionError{Reasons: reasonsOf(actions, answer.CancellationReasons), cause: err}
	}
	return err
}

// reasonsOf joins actions with the reasons that DynamoDB has given for them,
// which may be fewer or have no codes.
func reasonsOf(actions []action, given []types.CancellationReason) []Reason {
	reasons := make([]Reason, len(actions))
	for i, a := range actions {
		r := Reason{
			Label: a.label, Kind: a.kind, Table: a.table, Key: a.key, Code: codeNone,
			stored: stored{a.target}, name: a.describe(a.key),
		}
		if i < len(given) && given[i].Code != nil {
			r.Code, r.Message, r.Item = *given[i].Code, aws.ToString(given[i].Message), given[i].Item
			r.conflict = r.Code == codeConditionFailed && a.conflicts(r.Item, a.demanded)
		}
		reasons[i] = r
	}
	return reasons
}

// describe names an item for people: its model, and its key as far as it is
// known.
func (t *target) describe(key model.Item) string {
	text := t.model.Type.Name()
	for _, field := range []*model.Field{t.model.Hash, t.model.Range} {
		if field == nil || key[field.Attribute] == nil {
			continue
		}
		text += " " + field.Attribute + "=" + readable(key[field.Attribute])
	}
	return strings.TrimSpace(text)
}

// readable shows the value of a key attribute: quoted where it would be mistaken
// for something else.
func readable(av types.AttributeValue) string {
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
