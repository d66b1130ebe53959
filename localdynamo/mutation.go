package localdynamo

import (
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// operation is a conditional write as it was asked for: PutItem, UpdateItem
// and DeleteItem are one each, a transaction is a list of them.
type operation struct {
	verb      verb
	table     *string
	item      map[string]types.AttributeValue // verbPut
	key       map[string]types.AttributeValue // all others
	update    *string                         // verbUpdate
	condition *string
	names     map[string]string
	values    map[string]types.AttributeValue
	legacy    *legacyWrite // in place of update and condition
	onFailure types.ReturnValuesOnConditionCheckFailure
}

// mutation is an operation checked as far as it can be without the item.
type mutation struct {
	table     *table
	key       []byte // as stored
	condition *expr.Condition
	verb      verb
	item      []byte                          // verbPut: the new item, encoded
	update    *expr.Update                    // verbUpdate
	fields    map[string]types.AttributeValue // of the new item (verbPut), or of the key
	payload   int                             // bytes of the values that were given
	onFailure types.ReturnValuesOnConditionCheckFailure
}

type verb uint8

const (
	verbPut verb = iota
	verbUpdate
	verbDelete
	verbCheck // only the condition
)

// plan checks an operation that is a request of its own, in the order of AWS:
// fields, expressions, table, keys, sizes.
func (db *DB) plan(o *operation) (*mutation, error) {
	m, err := db.check(o)
	if err != nil {
		return nil, counted(err)
	}
	if err := m.aim(db, o.table); err != nil {
		return nil, err
	}
	if err := m.fit(); err != nil {
		return nil, err
	}
	return m, m.encode()
}

// check is the part of plan that needs no table.
func (db *DB) check(o *operation) (*mutation, error) {
	m := &mutation{verb: o.verb, onFailure: o.onFailure}
	if err := checkTableName(o.table); err != nil {
		return nil, err
	}
	switch o.onFailure {
	case "", types.ReturnValuesOnConditionCheckFailureNone, types.ReturnValuesOnConditionCheckFailureAllOld:
	default:
		return nil, invalid("1 validation error detected: Value '%s' at 'returnValuesOnConditionCheckFailure' failed to satisfy constraint: Member must satisfy enum value set: [ALL_OLD, NONE]", o.onFailure)
	}
	given, err := o.given()
	if err != nil {
		return nil, err
	}
	if m.verb == verbPut { // an item is looked at before the expressions, a key after them
		err = m.clean(given)
	}
	if err == nil {
		err = db.bind(o, m)
	}
	if err == nil && m.verb != verbPut {
		err = m.clean(given)
	}
	return m, err
}

// clean checks the values of the new item, or of the key.
func (m *mutation) clean(given map[string]types.AttributeValue) (err error) {
	m.fields, err = value.NormalizeItem(given)
	m.payload += value.ItemSize(m.fields)
	return asInvalid(err)
}

// aim finds the table, and refuses what no table would take: an empty value
// in a key, given as such or assigned by an update.
func (m *mutation) aim(db *DB, name *string) (err error) {
	if m.table, err = db.lookUp(name); err != nil {
		return err
	}
	if err := m.table.checkFilled(m.fields); err != nil {
		return err
	}
	return m.table.checkAssigned(m.update)
}

// fit finds the key, and refuses what this table's keys are not like.
func (m *mutation) fit() (err error) {
	if m.verb != verbPut {
		m.key, err = m.table.keyFrom(m.fields)
		return err
	}
	if m.key, err = m.table.keyOfItem(m.fields); err != nil {
		return err
	}
	return m.table.checkIndexKeys(expr.Fields(m.fields))
}

// encode brings a new item into its stored form.
func (m *mutation) encode() error {
	if m.verb != verbPut {
		return nil
	}
	if value.ItemSize(m.fields) > value.MaxItemSize {
		return invalid("Item size has exceeded the maximum allowed size")
	}
	m.item, m.fields = value.Encode(nil, m.fields), nil
	return nil
}

// given returns the new item of a put, or the key of everything else.
func (o *operation) given() (map[string]types.AttributeValue, error) {
	switch {
	case o.verb == verbPut && o.item == nil:
		return nil, errNull("item")
	case o.verb == verbPut:
		return o.item, nil
	case o.key == nil:
		return nil, errNullKey()
	}
	return o.key, nil
}

func (db *DB) bind(o *operation, m *mutation) error {
	if bound, err := o.legacy.bind(o, m); bound || err != nil {
		return err
	}
	if o.condition == nil && o.update == nil && o.names == nil && o.values == nil {
		return nil
	}
	scope, err := expr.NewScope(&db.expressions, o.names, o.values)
	if err != nil {
		return asInvalid(unnamed(err))
	}
	if m.update, err = scope.Update(o.update); err != nil {
		return asInvalid(err)
	}
	if m.condition, err = scope.Condition(expr.KindCondition, o.condition); err != nil {
		return asInvalid(err)
	}
	m.payload += scope.Size()
	return asInvalid(scope.CheckUnused())
}

// effect is what a mutation does to the item it found, and to the indexes.
// Nothing in it points into the store.
type effect struct {
	old     value.Item // what was there; "" if nothing was
	now     []byte     // what will be there; nil if nothing will be
	indexes []reindexing
}

// evaluate decides what m would do. Its error is the request's own, a
// ValidationException or a *types.ConditionalCheckFailedException, or that of
// a table deleted meanwhile.
func (m *mutation) evaluate(tx *transaction) (effect, error) {
	var err error
	if m.table, err = tx.table(m.table); err != nil {
		return effect{}, err
	}
	found := tx.Get(m.table.space(), m.key)
	s := &stored{item: value.View(found)}
	if !m.condition.Match(s) {
		return effect{}, m.failed(s.item)
	}
	if s.fault != nil {
		return effect{}, s.fault
	}
	e := effect{old: value.Item(found)} // a copy: the bytes are the store's
	switch m.verb {
	case verbPut:
		e.now = m.item
	case verbUpdate:
		if e.now, err = m.updated(e.old); err != nil {
			return effect{}, err
		}
	case verbCheck:
		return e, nil
	}
	e.indexes, err = m.table.reindex(m.key, e.old, value.View(e.now))
	return e, err
}

// failed reports that the condition does not hold, with the item if it was
// asked for and there is one.
func (m *mutation) failed(found value.Item) error {
	message := "The conditional request failed"
	failure := &types.ConditionalCheckFailedException{Message: &message}
	if m.onFailure == types.ReturnValuesOnConditionCheckFailureAllOld {
		var err error
		if failure.Item, err = decode(value.Item(strings.Clone(string(found)))); err != nil {
			return err
		}
	}
	return failure
}

func (m *mutation) checkKeyUntouched() error {
	for _, a := range m.table.keyAttributes() {
		if m.update.Touches(a.Name) {
			return invalid("One or more parameter values were invalid: Cannot update attribute %s. This attribute is part of the key", a.Name)
		}
	}
	return nil
}

func (m *mutation) updated(old value.Item) ([]byte, error) {
	if err := m.checkKeyUntouched(); err != nil {
		return nil, err
	}
	if old == "" && !m.update.Creates() {
		return nil, nil // there is nothing to take away from, whatever the paths
	}
	fields, err := decode(old)
	if err != nil {
		return nil, err
	}
	if fields == nil {
		fields = maps.Clone(m.fields)
	}
	if err := m.update.Apply(fields); err != nil {
		return nil, asInvalid(err)
	}
	if err := value.CheckDepth(fields); err != nil {
		return nil, asInvalid(err)
	}
	if err := m.table.checkIndexKeys(expr.Fields(fields)); err != nil {
		return nil, err
	}
	if value.ItemSize(fields) > value.MaxItemSize {
		return nil, invalid("Item size to update has exceeded the maximum allowed size")
	}
	return value.Encode(nil, fields), nil
}

// apply writes what evaluate decided.
func (m *mutation) apply(tx *transaction, e effect) error {
	if m.verb == verbCheck {
		return nil
	}
	return m.table.replace(tx, m.key, e)
}

// replace writes or deletes one item, and its entries in the indexes.
func (t *table) replace(tx *transaction, key []byte, e effect) error {
	for i := range e.indexes {
		if err := e.indexes[i].apply(tx, t); err != nil {
			return err
		}
	}
	space := t.space()
	tx.count(space, e.old, value.View(e.now))
	switch {
	case e.now != nil:
		return tx.Put(space, key, e.now)
	case e.old != "":
		return tx.Delete(space, key)
	}
	return nil // deleting what is not there
}

// usage is what the write costs outside of a transaction.
func (e *effect) usage(t *table) usage {
	u := usage{Table: t.Name, Units: writeUnits(e.old.Size(), value.View(e.now).Size())}
	for i := range e.indexes {
		u.addIndex(e.indexes[i].index, e.indexes[i].units())
	}
	return u
}
