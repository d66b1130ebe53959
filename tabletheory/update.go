package tabletheory

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/tabletheory/internal/expression"
	"github.com/facetheory/isr/tabletheory/internal/model"
)

// UpdateBuilder changes attributes of one item, which it creates unless a
// condition prevents it. Each path may be changed once, and no other change may
// be inside it. Keys cannot be changed. Encrypted fields can only be set and
// removed, as a whole. An UpdateBuilder is not safe for concurrent use and runs
// once.
//
// updated_at is set and the version is incremented, unless the caller changes
// them. The version is compared only with [UpdateBuilder.ConditionVersion]. The
// model that gives the key is unchanged.
type UpdateBuilder struct {
	*write   // incomplete if err is not nil
	ctx      context.Context
	err      error  // the first error; nothing is sent if there is one
	executor string // executes the update, "a transaction"; empty: the caller, by Execute
	used     bool   // it was executed

	clauses   clauses
	changed   []*model.Path
	encrypted map[*model.Field]types.AttributeValue // values to encrypt and set
	holds     expression.Condition                  // of Condition and OrCondition
	returned  types.ReturnValue
}

// UpdateBuilder changes single attributes of the item with the model's key. The
// conditions of the Query hold for the update too.
func (q *Query) UpdateBuilder() *UpdateBuilder { return q.updateBuilder() }

func (q *Query) updateBuilder() *UpdateBuilder {
	w, err := q.newKeyedWrite(kindUpdate, callCondition)
	return &UpdateBuilder{write: w, ctx: q.ctx, err: err}
}

// setErrorf records an [ErrInvalidQuery], unless there is an error already.
func (b *UpdateBuilder) setErrorf(format string, args ...any) {
	if b.err == nil {
		b.err = b.failure(fmt.Errorf("%w: "+format, append([]any{ErrInvalidQuery}, args...)...))
	}
}

// Set stores a value.
func (b *UpdateBuilder) Set(field string, value any) *UpdateBuilder {
	path := b.change("Set", field)
	if path == nil {
		return b
	}
	av, err := path.Encode(value)
	switch {
	case err != nil:
		b.setErrorf("Set: %w", err)
	case path.Field.Encrypted:
		b.setEncrypted(path, av)
	default:
		b.setTo(path, av)
	}
	return b
}

// setEncrypted sets a field that finish encrypts, all such fields with one data
// key.
func (b *UpdateBuilder) setEncrypted(path *model.Path, av types.AttributeValue) {
	if b.encrypted == nil {
		b.encrypted = map[*model.Field]types.AttributeValue{}
	}
	b.encrypted[path.Field] = av
}

// SetIfNotExists stores a value if the attribute does not exist.
func (b *UpdateBuilder) SetIfNotExists(field string, value any) *UpdateBuilder {
	path := b.changePlain("SetIfNotExists", field)
	if path == nil {
		return b
	}
	av, err := path.Encode(value)
	if err != nil {
		b.setErrorf("SetIfNotExists: %w", err)
		return b
	}
	b.dependsOnStored = true
	b.set(path, "if_not_exists("+b.expressions.Path(path)+", "+b.expressions.Value(av)+")")
	return b
}

// Add adds a number to a number, where a missing attribute counts as 0, or
// members, a slice or a set, to a set.
//
// Adding a number, appending to a list and changing a list element are not
// idempotent: if the SDK repeated such an update after a lost reply, it would
// be applied twice. It is therefore sent as a transaction of one action, whose
// client token makes it idempotent, at twice the write units. ConditionVersion
// also makes it safe, at no extra cost. Transactions return no attributes, so
// [UpdateBuilder.ExecuteWithResult] makes one attempt instead and repeats it
// only after throttling: if the reply is lost, the outcome is unknown.
func (b *UpdateBuilder) Add(field string, value any) *UpdateBuilder {
	path := b.changePlain("Add", field)
	if path == nil {
		return b
	}
	av, err := path.Encode(value)
	_, isNumber := av.(*types.AttributeValueMemberN)
	if err == nil && !isNumber {
		av, err = members(path, value)
	}
	if err != nil {
		b.setErrorf("Add(%q) takes a number, or members of a set: %w", field, err)
		return b
	}
	b.dependsOnStored, b.notIdempotent = true, b.notIdempotent || isNumber
	b.clauses.add = append(b.clauses.add, b.expressions.Path(path)+" "+b.expressions.Value(av))
	return b
}

// Increment adds 1; see [UpdateBuilder.Add].
func (b *UpdateBuilder) Increment(field string) *UpdateBuilder { return b.Add(field, 1) }

// Decrement adds -1; see [UpdateBuilder.Add].
func (b *UpdateBuilder) Decrement(field string) *UpdateBuilder { return b.Add(field, -1) }

// Remove removes an attribute, or a list element by its path.
func (b *UpdateBuilder) Remove(field string) *UpdateBuilder {
	if path := b.change("Remove", field); path != nil {
		b.removes = append(b.removes, path.Field.Attribute)
		b.changeWithin(path)
		b.clauses.remove = append(b.clauses.remove, b.expressions.Path(path))
	}
	return b
}

// Delete removes members, a slice or a set, from a set.
func (b *UpdateBuilder) Delete(field string, value any) *UpdateBuilder {
	path := b.changePlain("Delete", field)
	if path == nil {
		return b
	}
	av, err := members(path, value)
	if err != nil {
		b.setErrorf("Delete(%q) takes members of a set: %w", field, err)
		return b
	}
	b.dependsOnStored = true
	b.clauses.delete = append(b.clauses.delete, b.expressions.Path(path)+" "+b.expressions.Value(av))
	return b
}

// AppendToList appends elements, a slice, to a list, which it creates if
// necessary; see [UpdateBuilder.Add].
func (b *UpdateBuilder) AppendToList(field string, elements any) *UpdateBuilder {
	return b.extend("AppendToList", field, elements, func(list, more string) string { return list + ", " + more })
}

// PrependToList inserts elements, a slice, at the beginning of a list, which it
// creates if necessary; see [UpdateBuilder.Add].
func (b *UpdateBuilder) PrependToList(field string, elements any) *UpdateBuilder {
	return b.extend("PrependToList", field, elements, func(list, more string) string { return more + ", " + list })
}

func (b *UpdateBuilder) extend(call, field string, elements any, order func(list, more string) string) *UpdateBuilder {
	path := b.changePlain(call, field)
	if path == nil {
		return b
	}
	list, err := encodeElements(path, elements)
	if err != nil {
		b.setErrorf("%s(%q): %w", call, field, err)
		return b
	}
	b.dependsOnStored, b.notIdempotent = true, true
	none := b.expressions.Value(&types.AttributeValueMemberL{Value: []types.AttributeValue{}})
	more := b.expressions.Value(&types.AttributeValueMemberL{Value: list})
	b.set(path, "list_append("+order("if_not_exists("+b.expressions.Path(path)+", "+none+")", more)+")")
	return b
}

// SetListElement replaces the list element at index, counted from 0; see
// [UpdateBuilder.Add].
func (b *UpdateBuilder) SetListElement(field string, index int, value any) *UpdateBuilder {
	return b.Set(element(field, index), value)
}

// RemoveFromListAt removes the list element at index, counted from 0; see
// [UpdateBuilder.Add].
func (b *UpdateBuilder) RemoveFromListAt(field string, index int) *UpdateBuilder {
	return b.Remove(element(field, index))
}

func element(field string, index int) string { return fmt.Sprintf("%s[%d]", field, index) }

// Condition adds a condition on the stored item, joined by AND to those before
// it. The conditions of the Query and of ConditionVersion must hold in any
// case.
func (b *UpdateBuilder) Condition(field, operator string, value any) *UpdateBuilder {
	return b.hold(expression.Condition.And, Condition(field, operator, value))
}

// OrCondition is an alternative to the conditions before it, taken together.
func (b *UpdateBuilder) OrCondition(field, operator string, value any) *UpdateBuilder {
	return b.hold(expression.Condition.Or, Condition(field, operator, value))
}

// ConditionExists requires the item to have an attribute.
func (b *UpdateBuilder) ConditionExists(field string) *UpdateBuilder {
	return b.Condition(field, "EXISTS", nil)
}

// ConditionNotExists requires the item not to have an attribute.
func (b *UpdateBuilder) ConditionNotExists(field string) *UpdateBuilder {
	return b.Condition(field, "NOT_EXISTS", nil)
}

// ConditionExpression adds a condition expression in DynamoDB's own syntax; see
// [ConditionExpression].
func (b *UpdateBuilder) ConditionExpression(text string, values map[string]any) *UpdateBuilder {
	return b.hold(expression.Condition.And, ConditionExpression(text, values))
}

// ConditionVersion requires the item to have this version, regardless of
// OrCondition, and increments it.
func (b *UpdateBuilder) ConditionVersion(version int64) *UpdateBuilder {
	if b.err == nil {
		b.setError(b.require(AtVersion(version)))
	}
	return b
}

func (b *UpdateBuilder) hold(join join, c Precondition) *UpdateBuilder {
	if b.err != nil {
		return b
	}
	condition, err := b.target.condition(&b.expressions, c)
	if err != nil {
		b.setErrorf("condition: %w", err)
		return b
	}
	b.holds = join(b.holds, condition)
	return b
}

// setError records an error, unless there is one already.
func (b *UpdateBuilder) setError(err error) {
	if b.err == nil {
		b.err = b.failure(err)
	}
}

// ReturnValues selects what [UpdateBuilder.ExecuteWithResult] reads: NONE,
// ALL_OLD, UPDATED_OLD, ALL_NEW or UPDATED_NEW.
func (b *UpdateBuilder) ReturnValues(values string) *UpdateBuilder {
	if b.err != nil {
		return b
	}
	returned := types.ReturnValue(strings.ToUpper(strings.TrimSpace(values)))
	switch {
	case b.executor != "":
		b.setErrorf("ReturnValues inside %s, which decides what it returns: remove it", b.executor)
	case !slices.Contains(returned.Values(), returned):
		b.setErrorf("ReturnValues(%q): must be one of %v", values, returned.Values())
	}
	b.returned = returned
	return b
}

// Execute sends the update.
func (b *UpdateBuilder) Execute() error {
	if err := b.begin("Execute"); err != nil {
		return err
	}
	if b.needsToken() {
		return b.failure(b.executeAsTransaction(b.ctx))
	}
	_, err := b.updateItem(b.ctx, types.ReturnValueNone)
	return b.failure(err)
}

// ExecuteWithResult sends the update and decodes the returned attributes into
// dest, a pointer to a struct of the model. The default of ReturnValues is
// ALL_NEW here. UPDATED_OLD and UPDATED_NEW leave other fields of dest
// unchanged; of a document that was changed in part they return only that part.
// If the item did not exist, ALL_OLD and UPDATED_OLD return nothing and dest is
// unchanged.
func (b *UpdateBuilder) ExecuteWithResult(dest any) error {
	if b.err != nil {
		return b.err
	}
	into, err := b.destStruct("ExecuteWithResult", dest)
	if err != nil {
		return err
	}
	switch b.returned {
	case "":
		b.returned = types.ReturnValueAllNew
	case types.ReturnValueNone:
		b.setErrorf("ExecuteWithResult with ReturnValues NONE has no result: use Execute")
	}
	if err := b.begin("ExecuteWithResult"); err != nil {
		return err
	}
	update := func() (model.Item, error) { return b.updateItem(b.ctx, b.returned) }
	if b.needsToken() {
		update = func() (model.Item, error) { return b.updateWithoutRetry(b.ctx, b.returned) }
	}
	item, err := update()
	if err != nil {
		return b.failure(err)
	}
	return b.read(item, into)
}

// begin starts the execution and returns the first error.
func (b *UpdateBuilder) begin(call string) error {
	switch {
	case b.err != nil:
	case b.executor != "":
		b.setErrorf("%s inside %s, which executes the update: remove it", call, b.executor)
	case b.used:
		b.setErrorf("%s of an update that was executed already: begin a new one with Model", call)
	default:
		b.setError(b.finish(b.ctx))
	}
	b.used = true
	return b.err
}

// read decodes the attributes that an update returned.
func (b *UpdateBuilder) read(item model.Item, into reflect.Value) error {
	if len(item) == 0 {
		return nil
	}
	if b.returned == types.ReturnValueAllNew || b.returned == types.ReturnValueAllOld {
		return b.decode(b.ctx, item, into)
	}
	for name, av := range b.key {
		item[name] = av // decryption needs the key, and dest gets it
	}
	if err := b.open(b.ctx, item); err != nil {
		return b.failure(err)
	}
	return b.failure(b.model.DecodeSelected(item, into))
}

// change resolves the path of a change; it returns nil after an error.
func (b *UpdateBuilder) change(call, field string) *model.Path {
	if b.err != nil {
		return nil
	}
	path, err := b.model.Path(field)
	switch {
	case err != nil:
		b.setErrorf("%s: %w", call, err)
		return nil
	case b.isKey(path.Field):
		b.setError(keyUpdateError(path.Field))
		return nil
	case path.Field.Encrypted && len(path.Steps) > 1:
		b.setErrorf("%s(%q): field %s is encrypted and can only be changed as a whole", call, field, path.Field.Name)
		return nil
	}
	for _, other := range b.changed {
		if overlap(path, other) {
			b.setErrorf("%s(%q): the update already changes this path, a part of it or a document around it", call, field)
			return nil
		}
	}
	b.changed = append(b.changed, path)
	return path
}

// changePlain is change for operations that need DynamoDB to read the value.
func (b *UpdateBuilder) changePlain(call, field string) *model.Path {
	path := b.change(call, field)
	if path != nil && path.Field.Encrypted {
		b.setErrorf("%s(%q): the field is encrypted and DynamoDB cannot read it: use Set", call, field)
		return nil
	}
	return path
}

// setTo sets a path to a value.
func (b *UpdateBuilder) setTo(path *model.Path, av types.AttributeValue) {
	if b.sets == nil {
		b.sets = model.Item{}
	}
	b.sets[path.Field.Attribute] = av
	b.changeWithin(path)
	b.set(path, b.expressions.Value(av))
}

// changeWithin notes a change inside a document, whose result depends on the
// stored document. Changing a list element is not idempotent: a removal moves
// the elements after it, and setting an index beyond the end appends.
func (b *UpdateBuilder) changeWithin(path *model.Path) {
	if len(path.Steps) == 1 {
		return
	}
	b.dependsOnStored = true
	for _, step := range path.Steps[1:] {
		b.notIdempotent = b.notIdempotent || step.Name == ""
	}
}

func (b *UpdateBuilder) set(path *model.Path, value string) {
	b.clauses.set = append(b.clauses.set, b.expressions.Path(path)+" = "+value)
}

// changes reports whether the caller changes a field or a part of it.
func (b *UpdateBuilder) changes(f *model.Field) bool {
	return slices.ContainsFunc(b.changed, func(p *model.Path) bool { return p.Field == f })
}

// finish completes the write with the update expression.
func (b *UpdateBuilder) finish(ctx context.Context) error {
	if len(b.changed) == 0 && b.wantVersion == nil && b.model.UpdatedAt == nil {
		return fmt.Errorf("%w: the update changes nothing: call Set, Add, Remove, …", ErrInvalidQuery)
	}
	if err := b.finishVersion(); err != nil {
		return err
	}
	if f := b.model.UpdatedAt; f != nil && !b.changes(f) {
		if err := b.stampTime(f, b.time()); err != nil {
			return err
		}
	}
	for _, s := range b.stamps {
		b.setTo(s.field.Path(), s.av)
	}
	b.stamps = nil // the struct only gave the key, and is unchanged
	if err := b.finishEncrypted(ctx); err != nil {
		return err
	}
	b.condition = b.condition.And(b.holds)
	b.update = b.clauses.String()
	return nil
}

// finishVersion increments the version, so that concurrent writers that have
// read the item get a conflict.
func (b *UpdateBuilder) finishVersion() error {
	f := b.model.Version
	switch {
	case f == nil:
		return nil
	case b.wantVersion == nil && b.changes(f):
		return nil // the caller sets it
	case b.wantVersion == nil:
		b.dependsOnStored = true
		b.clauses.add = append(b.clauses.add, b.expressions.Attribute(f)+" "+b.expressions.Value(&types.AttributeValueMemberN{Value: "1"}))
		return nil
	case b.changes(f):
		return fmt.Errorf("%w: field %s is the version, which ConditionVersion increments: do not change it as well", ErrInvalidQuery, f.Name)
	}
	next, err := b.nextVersion()
	if err != nil {
		return err
	}
	return b.stampVersion(next)
}

// finishEncrypted encrypts the values of encrypted fields, in the order of the
// fields.
func (b *UpdateBuilder) finishEncrypted(ctx context.Context) error {
	if len(b.encrypted) == 0 {
		return nil
	}
	attributes := make(model.Item, len(b.encrypted))
	for f, av := range b.encrypted {
		attributes[f.Attribute] = av
	}
	if err := b.seal(ctx, b.key, attributes); err != nil {
		return err
	}
	for _, f := range b.model.Encrypted {
		if av, ok := attributes[f.Attribute]; ok {
			b.setTo(f.Path(), av)
		}
	}
	return nil
}
