package localdynamo

import (
	"maps"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/expr"
	"github.com/facetheory/isr/localdynamo/internal/store"
	"github.com/facetheory/isr/localdynamo/internal/value"
)

// operation is a conditional write as requested. PutItem, UpdateItem and
// DeleteItem are one operation; a transaction is a list of them.
type operation struct {
	verb      verb
	table     *string
	item      map[string]types.AttributeValue // verbPut
	key       map[string]types.AttributeValue // all others
	update    *string                         // verbUpdate
	condition *string
	names     map[string]string
	values    map[string]types.AttributeValue
	legacy    *legacyWrite // instead of update and condition
	onFailure types.ReturnValuesOnConditionCheckFailure
	returns   types.ReturnValue // not for the actions of a transaction
}

// mutation is a validated operation. What remains depends on the stored item.
type mutation struct {
	table     *table
	key       []byte // as stored
	condition *expr.Condition
	verb      verb
	item      []byte                          // verbPut: the new item, encoded
	update    *expr.Update                    // verbUpdate
	fields    map[string]types.AttributeValue // of the new item (verbPut), or of the key
	payload   int                             // bytes of the values in the request
	onFailure types.ReturnValuesOnConditionCheckFailure
}

type verb uint8

const (
	verbPut verb = iota
	verbUpdate
	verbDelete
	verbCheck // ConditionCheck: evaluates the condition, writes nothing
)

// plan validates an operation that is a request by itself, in AWS's order:
// fields, expressions, table, keys, sizes.
func (db *DB) plan(o *operation) (*mutation, error) {
	m, err := db.check(o)
	if err != nil {
		return nil, withErrorCount(err)
	}
	if err := m.resolveTable(db, o.table); err != nil {
		return nil, err
	}
	if err := m.resolveKey(); err != nil {
		return nil, err
	}
	return m, m.encode()
}

// check is the part of plan that does not need the table.
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
	fields, err := o.target()
	if err != nil {
		return nil, err
	}
	if m.verb == verbPut { // AWS checks an item before the expressions, a key after them
		err = m.normalize(fields)
	}
	if err == nil {
		err = db.bind(o, m)
	}
	if err == nil && m.verb != verbPut {
		err = m.normalize(fields)
	}
	return m, err
}

// normalize checks the values of the new item or the key, and makes them
// canonical.
func (m *mutation) normalize(fields map[string]types.AttributeValue) (err error) {
	m.fields, err = value.NormalizeItem(fields)
	m.payload += value.ItemSize(m.fields)
	return asInvalid(err)
}

// resolveTable finds the table and refuses empty key values, in the item or key
// and in assignments of the update.
func (m *mutation) resolveTable(db *DB, name *string) (err error) {
	if m.table, err = db.findTable(name); err != nil {
		return err
	}
	if err := m.table.checkNonEmptyKeys(m.fields); err != nil {
		return err
	}
	return m.table.checkAssignedKeys(m.update)
}

// resolveKey encodes the key, and checks the item's index keys.
func (m *mutation) resolveKey() (err error) {
	if m.verb != verbPut {
		m.key, err = m.table.keyFrom(m.fields)
		return err
	}
	if m.key, err = m.table.keyOfItem(m.fields); err != nil {
		return err
	}
	return m.table.checkIndexKeys(expr.Fields(m.fields))
}

// encode checks the size of a new item and encodes it.
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

// target returns the new item of a put, or the key of another operation.
func (o *operation) target() (map[string]types.AttributeValue, error) {
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
		return asInvalid(withoutValueName(err))
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

// effect is the change that a mutation makes to an item and its index entries.
// It does not share memory with the store.
type effect struct {
	before  value.Item // "" if there was no item
	damaged bool       // there was an item, which is damaged
	after   []byte     // encoded; nil if there will be no item
	indexes []indexChange
}

// evaluate computes the effect of m without writing. The error is a
// ValidationException, a *types.ConditionalCheckFailedException, ErrCorrupt, or
// a *types.ResourceNotFoundException if the table has since been deleted.
func (m *mutation) evaluate(tx *transaction) (effect, error) {
	var err error
	if m.table, err = tx.currentTable(m.table); err != nil {
		return effect{}, err
	}
	space := m.table.space()
	tx.touch(space, m.key)
	var found []byte
	if damage := store.Catch(func() { found = tx.Get(space, m.key) }); damage != nil {
		return m.evaluateDamaged(tx, damage)
	}
	s := &document{item: value.View(found)}
	if !m.condition.Match(s) {
		return effect{}, m.conditionFailed(s.item)
	}
	if s.err != nil {
		return effect{}, s.err
	}
	e := effect{before: value.Item(found)} // copies: the store owns the bytes
	switch m.verb {
	case verbPut:
		e.after = m.item
	case verbUpdate:
		if e.after, err = m.applyUpdate(e.before); err != nil {
			return effect{}, err
		}
	case verbCheck:
		return e, tx.keepItem(space, m.key) // the other writes of the transaction depend on it
	}
	e.indexes, err = m.table.indexChanges(m.key, e.before, value.View(e.after))
	return e, err
}

// evaluateDamaged is evaluate for a stored item that is damaged.
func (m *mutation) evaluateDamaged(tx *transaction, damage *store.Damage) (effect, error) {
	switch {
	case !m.replacesDamaged():
		return effect{}, damage
	case tx.volatile:
		return effect{}, errMustWait
	}
	indexes, err := m.table.indexChanges(m.key, "", value.View(m.item))
	return effect{damaged: true, after: m.item, indexes: indexes}, err
}

// returnsOnFailure reports whether the request wants the item if the condition fails.
func (m *mutation) returnsOnFailure() bool {
	return m.onFailure == types.ReturnValuesOnConditionCheckFailureAllOld
}

// conditionFailed returns a *types.ConditionalCheckFailedException, with the
// item if there is one and the request wants it.
func (m *mutation) conditionFailed(found value.Item) error {
	message := "The conditional request failed"
	failure := &types.ConditionalCheckFailedException{Message: &message}
	if m.returnsOnFailure() {
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

func (m *mutation) applyUpdate(old value.Item) ([]byte, error) {
	if err := m.checkKeyUntouched(); err != nil {
		return nil, err
	}
	if old == "" && !m.update.Creates() {
		return nil, nil // REMOVE and DELETE do nothing to an absent item
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
		return nil, asInvalid(expr.ErrItemSize)
	}
	return value.Encode(nil, fields), nil
}

// apply writes the effect that evaluate returned.
func (m *mutation) apply(tx *transaction, e effect) error {
	if m.verb == verbCheck {
		return nil
	}
	return m.table.replace(tx, m.key, e)
}

// replace writes or deletes one item and updates its index entries.
func (t *table) replace(tx *transaction, key []byte, e effect) error {
	if e.damaged {
		if err := t.discard(tx, key); err != nil {
			return err
		}
	}
	for i := range e.indexes {
		if err := e.indexes[i].apply(tx, t); err != nil {
			return err
		}
	}
	space := t.space()
	before := tx.adopt(space, key, e.before)
	tx.updateTally(space, before, value.View(e.after))
	switch {
	case e.after != nil:
		return tx.Put(space, key, e.after)
	case before != "":
		return tx.Delete(space, key)
	}
	return nil // the item was and stays absent
}

// usage returns the capacity of the write outside of a transaction.
func (e *effect) usage(t *table) usage {
	u := usage{Table: t.Name, Units: writeUnits(e.before.Size(), value.View(e.after).Size())}
	for i := range e.indexes {
		u.addIndex(e.indexes[i].index, e.indexes[i].units())
	}
	return u
}

// An item collection is all items with one hash key, in a table with local
// indexes. AWS limits it to 10 GB and reports its size on request. Here it has
// no limit, and the reported size is always 0 to 1 GB.

func checkMetricsMode(mode types.ReturnItemCollectionMetrics) error {
	switch mode {
	case "", types.ReturnItemCollectionMetricsNone, types.ReturnItemCollectionMetricsSize:
		return nil
	}
	return errConstraint(string(mode), "returnItemCollectionMetrics", "Member must satisfy enum value set: [SIZE, NONE]")
}

// collection returns the item collection metrics of a write, or nil if they were
// not requested or the table has no local index.
func (m *mutation) collection(mode types.ReturnItemCollectionMetrics) (*types.ItemCollectionMetrics, error) {
	if mode != types.ReturnItemCollectionMetricsSize || !m.table.hasLocalIndex() {
		return nil, nil
	}
	hash := m.fields[m.table.Hash.Name]
	if m.verb == verbPut {
		var err error
		if hash, err = value.View(m.item).Lookup(m.table.Hash.Name); err != nil {
			return nil, corrupt(err)
		}
	}
	return &types.ItemCollectionMetrics{
		ItemCollectionKey:   map[string]types.AttributeValue{m.table.Hash.Name: hash},
		SizeEstimateRangeGB: []float64{0, 1},
	}, nil
}

func (t *table) hasLocalIndex() bool {
	for _, ix := range t.Indexes {
		if !ix.Global {
			return true
		}
	}
	return false
}

// collections returns the metrics of several writes by table, or nil.
func collections(mode types.ReturnItemCollectionMetrics, mutations []*mutation) (map[string][]types.ItemCollectionMetrics, error) {
	var out map[string][]types.ItemCollectionMetrics
	for _, m := range mutations {
		if m.verb == verbCheck {
			continue
		}
		c, err := m.collection(mode)
		if err != nil {
			return nil, err
		}
		if c == nil {
			continue
		}
		if out == nil {
			out = make(map[string][]types.ItemCollectionMetrics)
		}
		out[m.table.Name] = append(out[m.table.Name], *c)
	}
	return out, nil
}
