// Package core holds the interfaces of the mapper: what the functions that a
// caller hands to package tabletheory are given, and what its methods return.
//
// Fields are named by the Go field or by the attribute, whichever the caller
// likes; a path into a document (address.city, lines[2].price) begins with
// either. Values are Go values: they are encoded as the field that they are
// compared with or stored in would be.
//
// Methods that return their own interface can be chained. A mistake in any of
// them is kept, and returned by the call that ends the chain; nothing is sent
// then.
package core

import "context"

// ConditionKind tells what a [Condition] says.
type ConditionKind int

// The kinds of conditions.
const (
	Compare    ConditionKind = iota // Field Operator Value
	Expression                      // Expression, with Values
	Exists                          // the item exists
	NotExists                       // the item does not exist
	AtVersion                       // the version field is Value
)

// Condition is something that must hold of an item as it is stored, or else an
// operation changes nothing. Functions of package tabletheory make them.
type Condition struct {
	Kind     ConditionKind
	Field    string
	Operator string
	Value    any

	Expression string         // in DynamoDB's own words, with :placeholders
	Values     map[string]any // of the placeholders, with their colons
}

// Query reads and writes the items of one model. A Query is built up by one
// goroutine, and is used once.
//
// Operators are =, !=, <>, <, <=, >, >=, BETWEEN (a slice of two values), IN (a
// slice of at most 100), BEGINS_WITH, CONTAINS, NOT_CONTAINS, EXISTS,
// NOT_EXISTS (without a value: nil) and ATTRIBUTE_TYPE, in any case.
type Query interface {
	// Where states a condition on a key attribute of the table or of the index.
	// For Update, UpdateBuilder and Delete it can give the key of the item, the
	// whole of it and by =, where the model's own is empty.
	// First, All, Count and Query-like calls turn conditions on the keys into a
	// GetItem or a Query, and refuse to turn into a Scan what has no partition
	// key: that is what Scan is for.
	Where(field, operator string, value any) Query
	// Index reads a secondary index instead of the table.
	Index(name string) Query
	// Filter drops items after they were read, and paid for. Several filters
	// must all hold.
	Filter(field, operator string, value any) Query
	// OrFilter is an alternative to the filters before it, taken together.
	OrFilter(field, operator string, value any) Query
	// FilterGroup adds filters in parentheses, all of what group states by
	// Filter, OrFilter and groups of its own. OrFilterGroup is an alternative to
	// the filters before it.
	FilterGroup(group func(Query)) Query
	OrFilterGroup(group func(Query)) Query
	// Limit is how many items to return at most, over all pages; 0, the default,
	// is all of them. With AllPaginated it is how many to look at for one page.
	Limit(n int) Query
	// OrderBy sorts by the sort key of the table or index, ASC (the default) or
	// DESC. Nothing else can be sorted by.
	OrderBy(field, direction string) Query
	// Select reads only these fields, or parts of documents. The others of the
	// destination keep their values; a document of which parts are selected is
	// replaced by them.
	Select(fields ...string) Query
	// ConsistentRead asks for strong consistency, at twice the price. Global
	// secondary indexes do not have it.
	ConsistentRead() Query
	// Cursor goes on where an earlier page ended; see [Page]. The empty cursor
	// begins at the beginning. A cursor is safe in a URL, and belongs to the model,
	// table, index, partition key and direction that it came with: with others, or
	// damaged, it is an ErrInvalidQuery.
	Cursor(cursor string) Query

	// WithCondition, WithConditionExpression, IfExists and IfNotExists state
	// what must hold of the stored item for a write; all of them must. Reads
	// refuse them.
	WithCondition(field, operator string, value any) Query
	WithConditionExpression(expression string, values map[string]any) Query
	IfExists() Query
	IfNotExists() Query
	// ReturnOld has CreateOrUpdate and Delete read the item that they replace or
	// delete into dest, a pointer to a struct of the model, at no further cost. If
	// there was none, dest is left alone. If it cannot be read into dest, the error
	// is a *DecodeError, but the write has happened.
	ReturnOld(dest any) Query

	// First reads one item into dest, a pointer to a struct. Without any it
	// returns ErrItemNotFound and leaves dest alone.
	First(dest any) error
	// All reads all items into dest, a pointer to a slice of structs or of
	// pointers to them, which is replaced by them; on an error it stays as it was.
	All(dest any) error
	// AllPaginated reads one page into dest.
	AllPaginated(dest any) (*Page, error)
	// Count counts without reading the items into memory; it costs what reading
	// them does.
	Count() (int64, error)
	// Scan reads the whole table or index into dest, filtered.
	Scan(dest any) error
	// ParallelScan is Scan by so many workers at once (1 to 1,000,000; DynamoDB's
	// segments), in no order.
	ParallelScan(dest any, segments int) error

	// BatchGet reads items by their keys, which are structs of the model or, in
	// a model without a sort key, bare partition keys, into dest, a pointer to a
	// slice. Keys without an item are left out; the order is that of keys, and a
	// key that is there twice is read once. Any number of keys is split into
	// requests of 100. What DynamoDB leaves unprocessed is asked for again, with
	// jittered pauses, until the context ends.
	BatchGet(keys []any, dest any) error
	// BatchCreate puts items, a slice of structs, replacing what is there;
	// BatchDelete deletes by keys as BatchGet takes them; BatchWrite does both.
	// They are split into requests of 25, are not atomic, and take no
	// conditions: DynamoDB has none for them. So a version is not compared, but
	// still incremented. Nothing is sent if an item is invalid, or is there
	// twice. What DynamoDB leaves unprocessed is sent again, with jittered
	// pauses, until the context ends; an error tells how much was written.
	BatchCreate(items any) error
	BatchDelete(keys []any) error
	BatchWrite(puts []any, deletes []any) error

	// Writes store versions and times in the model as well, if it is a pointer:
	// once they have happened, and only then. updated_at is the time of the
	// write; created_at is that of the write which puts the whole item, unless
	// the model has one already.
	//
	// Create puts the model's item, which may not exist yet: ErrConditionFailed.
	// Its version is 1, unless the model has one already.
	Create() error
	// CreateOrUpdate puts the model's item, whatever was there. A version field
	// is compared and incremented, as by Update: a model with version 0 replaces
	// no item that has one.
	CreateOrUpdate() error
	// Update sets these fields of the stored item to the model's values, and
	// removes those that are omitted (omitempty and empty); without names it is
	// all but the keys and created_at. A version field is compared and
	// incremented, in the item and in the model: ErrVersionConflict. No item, and
	// an item that has none, have version 0. An item that does not exist is made
	// if nothing, such as IfExists or a version, demands one.
	Update(fields ...string) error
	// UpdateBuilder changes single attributes of the item with the model's key.
	UpdateBuilder() UpdateBuilder
	// Delete deletes the item with the model's key; that there is none is no
	// error, unless a condition says so. The model's version is compared if it
	// is not 0.
	Delete() error
}

// Page tells of a page that was read.
type Page struct {
	Count        int    // items returned
	ScannedCount int    // items looked at, before filters
	NextCursor   string // for Query.Cursor; empty at the end
	HasMore      bool   // whether there may be more
}

// UpdateBuilder changes attributes of one item, which is made if it does not
// exist, unless a condition says otherwise. Each path may be changed once, and
// none that another change is within. Keys cannot be changed. Encrypted fields
// can be set and removed, as a whole, and nothing else.
//
// updated_at is set, and the version incremented, unless the caller changes
// them; without ConditionVersion it is not compared. The model that gives the
// key stays as it is.
type UpdateBuilder interface {
	// Set stores a value.
	Set(field string, value any) UpdateBuilder
	// SetIfNotExists stores a value where there is none.
	SetIfNotExists(field string, value any) UpdateBuilder
	// Add adds a number, an absent attribute being 0, or members, a slice or a
	// set, to a set. Increment and Decrement add 1 and -1.
	//
	// A repetition of a lost request would add a number twice, and likewise append to a list or
	// change another element of it. Such an update is sent as a
	// transaction of one action, whose client token keeps it from being carried out
	// twice, at twice the write units. ConditionVersion guards it as well, at no
	// extra cost. Transactions return no attributes, so ExecuteWithResult makes
	// one attempt instead, and repeats it only after throttling: if the reply is
	// lost, the outcome is unknown.
	Add(field string, value any) UpdateBuilder
	Increment(field string) UpdateBuilder
	Decrement(field string) UpdateBuilder
	// Remove removes an attribute, or a list element by its path.
	Remove(field string) UpdateBuilder
	// Delete removes members, a slice or a set, from a set.
	Delete(field string, members any) UpdateBuilder
	// AppendToList and PrependToList add elements, a slice, to a list, which is
	// made if it does not exist.
	AppendToList(field string, elements any) UpdateBuilder
	PrependToList(field string, elements any) UpdateBuilder
	// SetListElement replaces, and RemoveFromListAt removes, one element, from 0.
	SetListElement(field string, index int, value any) UpdateBuilder
	RemoveFromListAt(field string, index int) UpdateBuilder

	// Condition and OrCondition state what must hold, as Filter and OrFilter do.
	// What the query and ConditionVersion demand must hold besides.
	Condition(field, operator string, value any) UpdateBuilder
	OrCondition(field, operator string, value any) UpdateBuilder
	ConditionExists(field string) UpdateBuilder
	ConditionNotExists(field string) UpdateBuilder
	ConditionExpression(expression string, values map[string]any) UpdateBuilder
	// ConditionVersion demands the version and increments it.
	ConditionVersion(version int64) UpdateBuilder

	// ReturnValues is NONE (the default), ALL_OLD, UPDATED_OLD, ALL_NEW or
	// UPDATED_NEW; see ExecuteWithResult.
	ReturnValues(values string) UpdateBuilder

	// Execute carries the update out.
	Execute() error
	// ExecuteWithResult carries it out and reads what is returned into dest, a
	// pointer to a struct of the model; ALL_NEW, if ReturnValues was not called.
	// UPDATED_OLD and UPDATED_NEW leave fields alone that were not updated; of a
	// document that was updated in part only that part is returned. Of an item
	// that did not exist there is nothing old, and dest is left alone.
	ExecuteWithResult(dest any) error
}

// TransactionBuilder collects the actions of one transaction, 1 to 100 on as
// many different items. Models are pointers to structs or structs, and are taken
// as they are when the action is stated; only their keys matter for
// ConditionCheck and UpdateWithBuilder, and their keys and versions for Delete.
// Versions and times are treated as by Query. A condition AtVersion takes the
// place of the model's version.
type TransactionBuilder interface {
	// Put stores a whole item, as Query.CreateOrUpdate does.
	Put(model any, conditions ...Condition) TransactionBuilder
	// Create stores a whole item that may not exist yet.
	Create(model any, conditions ...Condition) TransactionBuilder
	// Update does what Query.Update does. The version in the model is
	// incremented when the transaction has succeeded.
	Update(model any, fields []string, conditions ...Condition) TransactionBuilder
	// UpdateWithBuilder does what the update that change builds says. What ends
	// a chain, Execute and ExecuteWithResult, is an error here.
	UpdateWithBuilder(model any, change func(UpdateBuilder) error, conditions ...Condition) TransactionBuilder
	// Delete deletes an item.
	Delete(model any, conditions ...Condition) TransactionBuilder
	// ConditionCheck only demands; it needs at least one condition.
	ConditionCheck(model any, conditions ...Condition) TransactionBuilder
	// ClientRequestToken names the request, in 1 to 36 characters: within ten
	// minutes DynamoDB carries out at most one of those that have the same name
	// and content, and answers the others alike. The default is a random one,
	// the same for all attempts that TransactWrite makes. Times and what is
	// encrypted are content too: a second call is the same request only if it
	// writes neither, or else is an error of DynamoDB's.
	ClientRequestToken(token string) TransactionBuilder
}

// TransactionReader collects the reads of one transaction, 1 to 100.
type TransactionReader interface {
	// Get reads the item with the key of dest, a pointer to a struct, into dest.
	// If there is none, dest is left alone and found, if not nil, set to false.
	Get(dest any, found *bool) TransactionReader
}

// KeyProvider makes and opens the data keys of encrypted attributes. Both
// methods are safe for concurrent use.
type KeyProvider interface {
	// NewDataKey makes a key of 32 bytes, and returns it as it is and sealed.
	// The sealed key, 1 to 6,144 bytes, is stored with what the plain one
	// encrypts. The caller wipes the plain one: it is not kept by the provider.
	NewDataKey(ctx context.Context) (plain, sealed []byte, err error)
	// OpenDataKey opens what NewDataKey, of this provider or of one with the
	// same master key, has sealed. Keys of master keys that were rotated stay
	// readable. The caller wipes the plain key here too.
	OpenDataKey(ctx context.Context, sealed []byte) (plain []byte, err error)
}
