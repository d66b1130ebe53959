// Package tabletheory maps Go structs to the items of DynamoDB tables.
//
// DynamoDB's own interface is made of maps of typed values and of expressions
// that are strings. Written by hand it is long, and what goes wrong there goes
// wrong in silence: a condition that was left out, a write that undid another, a
// number that lost its digits, a scan where a query was meant. Here a struct says
// once, in its tags, what its items are; and each call either does what it says
// or is an error that was returned before anything was sent.
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
// A model is a struct with tags and a method TableName. It is looked at once,
// when it is first used; what is wrong with it is an [ErrInvalidModel], which
// wraps a [ModelError] that names the field. TableName is asked each time that
// something is done with the model (by a [Table] once), and an empty name is an
// error, never another table.
//
//	Song ──tags──► model ──► item {artist S, title S, year N} ──► table
//	               (once)
//
// There are two faces to the same code. [DB.Model] begins fluent calls, whose
// interfaces are those of package core; [NewTable] has the model as a type, and
// iterators. [DB.TransactWrite] and [DB.TransactGet] are for several items at one
// moment, of any models. Clients are anything with the methods of [API]: that of
// the SDK, or package localdynamo.
//
// # What it promises
//
// Conditions are never dropped: a call that has no use for something that was
// stated before it refuses it. No read becomes a scan by itself. Values come back
// as they went in, by whichever operation, or are an error: nothing is rounded,
// cut or left out without a word. After an error destinations and models are as
// they were. What is sent twice because an answer was lost happens
// once where DynamoDB can know it, in transactions; elsewhere [OutcomeOf] tells
// whether a write can have happened.
//
// A [DB] and a [Table] are safe for concurrent use; what is built up with one of
// their calls belongs to one goroutine.
//
// # Tags
//
// Options stand in the tag theorydb, separated by commas. Each stands once.
//
//	pk                   the table's partition key: a string, a number or []byte,
//	                     never empty, never omitted; each model has one
//	sk                   the table's sort key, likewise; at most one
//	attr:name            the attribute's name; otherwise that of the naming
//	index:Name,pk        a key of a global secondary index; pk once an index, sk at
//	index:Name,sk        most once. A field may be a key of several
//	lsi:Name,sk          the sort key of a local secondary index
//	…,sparse             behind either: items whose key of the index is empty are
//	                     not in it; the attribute is omitted then
//	ttl                  when the item may be deleted: an integer of epoch seconds,
//	                     or a time.Time, which is stored so. The zero time is
//	                     omitted, and so is 0 with omitempty
//	version              an integer that counts the writes; see below
//	created_at           a time.Time or a string, RFC 3339 in UTC, or an integer of
//	updated_at           epoch seconds, which writes set
//	omitempty            no attribute for false, 0, "", nil, a slice or map without
//	                     elements, a zero struct, or what a method IsZero says
//	set                  a slice, array, or map to bool or struct{} as SS, NS or BS.
//	                     DynamoDB has no empty sets: those are omitted
//	json                 S, with the JSON that encoding/json makes of the field
//	binary               B, of a string, or by MarshalBinary
//	encrypted            encrypted by the keys of WithKeyProvider, on no key
//	-                    by itself: not stored
//
// pk and sk belong to the index that was named before them in the same tag, and
// else to the table. Of ttl, version, created_at and updated_at a field has at
// most one, and a model one of each; of set, json and binary a field has at most
// one. An unknown option is an error.
//
// Attributes are named after fields: UserID is userId. A blank field changes that
// for its struct and for those in it that do not say otherwise:
//
//	_ struct{} `theorydb:"naming:snake_case"` // user_id; the default is camelCase
//
// A word ends before an upper-case letter that follows a lower-case one or a
// digit, and before the last of several upper-case letters that a lower-case one
// follows: S3Key is s3Key, HTTPServer httpServer, ETag eTag. The fields of embedded
// structs without a tag are fields of the struct around them, by Go's rules. Calls
// take the Go name or the attribute's, and paths into documents: Address.City,
// lines[2].price.
//
// # What is stored how
//
//	string                         S, which has to be UTF-8
//	integers, floats               N, to the last digit; NaN and infinities are errors
//	*big.Int, *big.Rat, *big.Float,
//	Number, json.Number            N; more than 38 digits are an error
//	bool                           BOOL
//	[]byte, [N]byte                B
//	time.Time                      S, RFC 3339 in UTC with its nanoseconds
//	time.Duration                  N, of nanoseconds
//	slices, arrays                 L; [][]byte too, unless it is a set
//	maps                           M; keys are strings, numbers, bools or texts
//	structs                        M
//	pointers, interfaces           what they point to or hold
//	nil                            NULL
//	encoding.TextMarshaler         S, if it can be read by UnmarshalText
//	Marshaler, Unmarshaler         what they say; they are attributevalue's
//	types.AttributeValue           itself
//	types with WithConverter       what it says, before all others
//
// Channels, functions and complex numbers are an ErrInvalidModel. Structs and maps
// nest up to DynamoDB's 32 levels.
//
// Reading is more lenient than writing, for the sake of other writers: NULL is the
// zero value of every type; lists are read into sets, and sets into slices; 1.5E3
// is an integer; times are RFC 3339 in any zone or epoch seconds. A number that
// does not fit, a fraction for an integer, a string for a number are a [DecodeError] with
// the path of the attribute. Attributes without a field are passed over; whole
// writes (Create, CreateOrUpdate, Put) leave them out, updates leave them alone.
// Fields without an attribute become zero.
//
// Items are those of the SDK's attributevalue, and of the SDKs of other languages
// for the same shapes; see docs/tabletheory.md for the few differences.
//
// # Versions and times
//
// A version field makes writes optimistic. Create stores 1, unless the model has
// one already. Update, CreateOrUpdate and Put demand that the stored item has the version of the model,
// store the next one, and put it into the model: whoever read the item before
// somebody else wrote it gets an [ErrVersionConflict], has to read again, and
// undoes nothing. Delete demands the version if the model has one. [AtVersion]
// takes the model's place. Batches cannot demand anything in DynamoDB; they
// increment.
//
// created_at is set by the write that makes the whole item, unless the model has
// a time already; updated_at by every write. Both come from [WithClock].
//
// # Errors
//
// Callers branch by errors.Is:
//
//	ErrItemNotFound         a read of one item has found none
//	ErrConditionFailed      a *ConditionError, with the stored item; nothing changed
//	ErrVersionConflict      the same, because of the version
//	ErrUnknownOutcome       refused, but an earlier attempt of the SDK was not answered
//	ErrTransactionConflict  another transaction is at work on an item
//	ErrThrottled            capacity is exhausted, after the SDK's retries
//	ErrTableNotFound        there is no such table, or not yet
//	ErrInvalidModel         the struct, or a value in it; nothing was sent
//	ErrInvalidQuery         calls that do not go together; nothing was sent
//	ErrUnsupported          the client lacks the operation
//
// The SDK repeats requests that were not answered, and returns the last answer
// alone. A conditional write that was carried out then fails on its own effect.
// If the stored item is what the write leaves, it is a success; otherwise it is
// an ErrUnknownOutcome, and not an ErrConditionFailed. [OutcomeOf] judges every error of a write.
//
// A cancelled transaction is a *[TransactionError] with a [Reason] for each
// action, and is those of the above that its reasons are. A batch that was not
// carried out whole is a *[BatchError]. The SDK's own errors are wrapped in all
// of them.
package tabletheory
