// Package tabletheory maps Go structs to items of DynamoDB tables.
//
// DynamoDB's own API takes maps of typed values and expressions in strings.
// Written by hand it is verbose, and its mistakes are silent: a missing condition,
// a lost update, a number without its last digits, a scan instead of a query. In
// this package the tags of a struct describe its items once. A call does what it
// says, or returns an error before anything is sent.
//
//	type Song struct {
//		Artist string `theorydb:"pk"`
//		Title  string `theorydb:"sk"`
//		Year   int    `theorydb:"omitempty"`
//	}
//
//	func (Song) TableName() string { return os.Getenv("SONGS_TABLE") }
//
//	db, err := tabletheory.Open(ctx, tabletheory.Config{})
//	err = db.Model(&Song{Artist: "Nina Simone", Title: "Sinnerman"}).Create()
//
// # The model
//
// A model is a struct with tags and a method TableName. It is compiled once, on
// first use. Mistakes in it are [ErrInvalidModel] and wrap a [ModelError] that
// names the field. TableName is called for every operation (by a [Table] once); an
// empty name is an error.
//
//	Song ──tags──► model ──► item {artist S, title S, year N} ──► table
//	               (once)
//
// There are two APIs for the same code. [DB.Model] returns a [Query] with
// chainable methods. [NewTable] has the model as a type parameter, and iterators.
// [DB.TransactWrite] and [DB.TransactGet] are transactions on items of any models.
// A client is anything with the methods of [API]: the SDK's client, or package
// localdynamo.
//
// # Guarantees
//
// A condition is never dropped: a call that does not support an earlier call of
// its chain refuses it. A read never becomes a scan by itself. Values come back as
// they were stored, or the operation is an error: nothing is rounded, truncated or
// omitted silently. After an error, destinations and models are unchanged. A
// request that is retried after a lost reply takes effect once if DynamoDB can
// detect the retry, which it does for transactions; otherwise [OutcomeOf] returns whether a
// write can have happened.
//
// A [DB] and a [Table] are safe for concurrent use. A [Query] and the builders are
// not.
//
// # Tags
//
// The tag theorydb has options, separated by commas, each at most once.
//
//	pk                   the table's partition key: a string, a number or []byte,
//	                     never empty, never omitted; each model has one
//	sk                   the table's sort key, likewise; at most one
//	attr:name            the attribute's name, instead of the derived one
//	index:Name,pk        a key of a global secondary index; pk once per index, sk
//	index:Name,sk        at most once. A field may be a key of several indexes
//	lsi:Name,sk          the sort key of a local secondary index
//	…,sparse             after either: the attribute is omitted if it is empty, so
//	                     that the item is not in the index
//	ttl                  when the item may be deleted: an integer (epoch seconds) or
//	                     a time.Time, stored as epoch seconds. The zero time is
//	                     omitted, as is 0 with omitempty
//	version              an integer that counts the writes; see below
//	created_at           a time.Time or a string (RFC 3339 in UTC), or an integer
//	updated_at           (epoch seconds), which writes set
//	omitempty            no attribute for false, 0, "", nil, a slice or map without
//	                     elements, a zero struct, or if a method IsZero returns true
//	set                  a slice, array, or map to bool or struct{} as SS, NS or BS.
//	                     An empty set is omitted: DynamoDB has none
//	json                 S, with the field's JSON by encoding/json
//	binary               B, from a string or MarshalBinary
//	encrypted            encrypted with the keys of WithKeyProvider; not for keys
//	-                    alone: not stored
//
// pk and sk belong to the index named before them in the tag, otherwise to the
// table. A field has at most one of ttl, version, created_at and updated_at, and a
// model has each at most once. A field has at most one of set, json and binary. An
// unknown option is an error.
//
// Attribute names are derived from field names: UserID becomes userId. A blank
// field selects another naming for its struct and the structs in it:
//
//	_ struct{} `theorydb:"naming:snake_case"` // user_id; the default is camelCase
//
// A word ends before an upper-case letter that follows a lower-case letter or a
// digit, and before the last of several upper-case letters that a lower-case letter
// follows: S3Key becomes s3Key, HTTPServer httpServer, ETag eTag. The fields of
// embedded structs without a tag are promoted by Go's rules. Calls take Go names,
// attribute names, and paths into documents: Address.City, lines[2].price.
//
// # Encoding
//
//	string                         S, must be valid UTF-8
//	integers, floats               N, exact; NaN and infinities are errors
//	*big.Int, *big.Rat, *big.Float,
//	Number, json.Number            N; more than 38 digits are an error
//	bool                           BOOL
//	[]byte, [N]byte                B
//	time.Time                      S, RFC 3339 in UTC with nanoseconds
//	time.Duration                  N, nanoseconds
//	slices, arrays                 L; [][]byte too, unless it is a set
//	maps                           M; keys are strings, numbers, bools or texts
//	structs                        M
//	pointers, interfaces           the value that they point to or hold
//	nil                            NULL
//	encoding.TextMarshaler         S, if it has UnmarshalText
//	Marshaler, Unmarshaler         as they define; they are attributevalue's
//	types.AttributeValue           itself
//	types with WithConverter       as it defines; it takes precedence
//
// Channels, functions and complex numbers are an ErrInvalidModel. Structs and maps
// nest up to DynamoDB's 32 levels.
//
// Decoding is more lenient than encoding, for items of other writers: NULL is the
// zero value of every type; a list decodes into a set field, and a set into a
// slice; 1.5E3 is an integer; times are RFC 3339 in any zone, or epoch seconds. A
// number that overflows, a fraction for an integer or a string for a number is a
// [DecodeError] with the path of the attribute. In an interface, numbers become Number,
// which loses no digit, lists []any, maps map[string]any, and sets slices. Attributes without a field are
// ignored; writes of whole items (Create, CreateOrUpdate, Put) drop them, updates
// keep them. Fields without an attribute become zero.
//
// Items are compatible with the SDK's attributevalue and with the SDKs of other
// languages; docs/tabletheory.md lists the few differences.
//
// # Versions and times
//
// A version field enables optimistic locking. Create stores version 1, unless the
// model has one. Update, CreateOrUpdate and Put require the stored item to have the
// model's version, store the next version and set it in the model. A writer whose
// copy is outdated gets an [ErrVersionConflict] and must read the item again.
// Delete requires the version if the model's is not 0. [AtVersion] replaces the
// model's version. Batches only increment, because they have no conditions.
//
// Writes of the whole item set created_at, unless the model has a time; every
// write sets updated_at. Both use [WithClock].
//
// # Errors
//
// Use errors.Is with:
//
//	ErrItemNotFound         a read of one item found none
//	ErrConditionFailed      a *ConditionError, with the stored item; nothing changed
//	ErrVersionConflict      the same, because of the version
//	ErrUnknownOutcome       refused, but the reply to an earlier attempt was lost
//	ErrTransactionConflict  another transaction was writing an item
//	ErrThrottled            capacity is exhausted, after the SDK's retries
//	ErrTableNotFound        the table does not exist, or is not ready
//	ErrInvalidModel         the struct, or a value in it; nothing was sent
//	ErrInvalidQuery         calls that contradict each other; nothing was sent
//	ErrUnsupported          the client lacks the operation
//
// The SDK retries requests whose reply was lost, and returns only the last reply.
// A conditional write that was applied then fails on its own effect. If the stored
// item is the result of the write, it is a success; otherwise the error is an
// ErrUnknownOutcome and not an ErrConditionFailed. [OutcomeOf] classifies every
// error of a write.
//
// A cancelled transaction is a *[TransactionError] with a [Reason] for each action,
// found by the action's label, and is the sentinel errors of its reasons. An
// incomplete batch is a *[BatchError]. All of them wrap the SDK's errors.
package tabletheory

// The files:
//
//	query.go               builds the query that read.go and querywrite.go execute
//	write.go, stamp.go     every write of one item; its version and timestamps
//	transact.go            transactions
//	errors.go, outcome.go  classify answers
//	table.go               the generic API

// The life of a call.
//
//  1. DB.Model finds the compiled plan of the struct (internal/model) and its table name.
//  2. Calls add to the query. The first error is kept, and the call that ends the chain returns it. That call also
//     refuses clauses that it cannot use: none is silently dropped.
//  3. A read with key conditions becomes a GetItem or a Query, never a Scan. A write adds its conditions, its version
//     and its timestamps (stamp.go), and encrypts last.
//  4. The response is decoded into a copy before the caller's value changes. An error is classified once, by code and
//     type. A transaction is retried under its client token if all cancellation reasons are transient.
