package localdynamo

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/facetheory/isr/localdynamo/internal/store"
)

// tableSpace holds one definition per table, by name.
const tableSpace = "tables"

// table is a table's definition, stored as JSON. It is immutable: a change
// creates a new one.
type table struct {
	Name string
	ID   int // names the space of its items; never reused
	keySchema
	Indexes  []*index `json:",omitempty"`
	LastID   int      `json:",omitempty"` // the highest index ID that this table ever had
	TTL      string   `json:",omitempty"` // attribute that holds expiry times; "" disables TTL
	Billing  types.BillingMode
	OnDemand time.Time `json:",omitzero"` // when it last became PAY_PER_REQUEST; zero in older files
	Read     int64     // provisioned units, not enforced
	Write    int64
	Created  time.Time
	Deletion bool              `json:",omitempty"` // deletion protection
	Class    types.TableClass  `json:",omitempty"` // "" if never set
	Classed  time.Time         `json:",omitzero"`  // when UpdateTable last changed Class
	Tags     map[string]string `json:",omitempty"` // replaced, never modified

	Spending   onDemandLimits `json:",omitzero"`
	Warm       warmUnits      `json:",omitzero"`
	Encryption string         `json:",omitempty"` // a key's ARN, or "" for the AWS owned key
}

// catalogue holds all tables by name. It is immutable; changes replace it.
type catalogue map[string]*table

func readCatalogue(r store.Reader) (catalogue, error) {
	c := catalogue{}
	var err error
	r.Range(tableSpace, nil, nil, false, func(name, stored []byte) bool {
		t := &table{}
		if err = json.Unmarshal(stored, t); err != nil {
			err = fmt.Errorf("%w: definition of table %q: %w", ErrCorrupt, name, err)
			return false
		}
		c[t.Name] = t
		return true
	})
	return c, err
}

// space names the space of the store that holds the table's items by key.
func (t *table) space() string { return "items/" + strconv.Itoa(t.ID) }

// index returns the secondary index of that name, or nil.
func (t *table) index(name string) *index {
	for _, ix := range t.Indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// backfillingIndex returns the index that is being backfilled, or nil. There is
// at most one.
func (t *table) backfillingIndex() *index {
	for _, ix := range t.Indexes {
		if ix.Filling {
			return ix
		}
	}
	return nil
}

// arnPrefix is the prefix of every table's ARN: one account, one region.
const arnPrefix = "arn:aws:dynamodb:local:000000000000:table/"

// arn returns the table's Amazon Resource Name.
func (t *table) arn() string { return arnPrefix + t.Name }

// findTable returns the table with this name or ARN, for requests about items.
func (db *DB) findTable(nameOrARN *string) (*table, error) {
	name, err := tableName(nameOrARN)
	if err != nil {
		return nil, err
	}
	if t := (*db.tables.Load())[name]; t != nil {
		return t, nil
	}
	return nil, errNotFound()
}

// findDefinition returns the table with this name or ARN, for requests about
// tables, whose error names the table.
func (db *DB) findDefinition(nameOrARN *string) (*table, error) {
	name, err := tableName(nameOrARN)
	if err != nil {
		return nil, err
	}
	if t := (*db.tables.Load())[name]; t != nil {
		return t, nil
	}
	return nil, errTableNotFound(name)
}

// errTableNotFound is AWS's error for requests about a table that does not exist.
func errTableNotFound(name string) error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: Table: " + name + " not found")}
}

// tableName returns the name in a TableName member, which may be an ARN.
func tableName(nameOrARN *string) (string, error) {
	if nameOrARN != nil && *nameOrARN == "" {
		return "", errTooShort("TableName")
	}
	return tableNameAt("tableName", nameOrARN)
}

// tableNameAt is tableName for the member at this path.
func tableNameAt(member string, nameOrARN *string) (string, error) {
	if nameOrARN != nil && strings.HasPrefix(*nameOrARN, "arn:") {
		name, own := strings.CutPrefix(*nameOrARN, arnPrefix)
		if !own {
			return "", invalid("Invalid TableArn: %s is of another account, region or service; the tables here begin with %s", *nameOrARN, arnPrefix)
		}
		nameOrARN = &name
	}
	if err := checkName(member, nameOrARN); err != nil {
		return "", err
	}
	return *nameOrARN, nil
}

func checkTableName(nameOrARN *string) error {
	_, err := tableName(nameOrARN)
	return err
}

// orEmpty replaces a nil input by an empty one, as the SDK's client does.
func orEmpty[Input any](in *Input) *Input {
	if in == nil {
		return new(Input)
	}
	return in
}

// CreateTable creates a table with a hash key, or a hash and a range key, of
// types S, N or B, and its secondary indexes. The table is ACTIVE at once. If
// it exists, the error is a *types.ResourceInUseException.
func (db *DB) CreateTable(ctx context.Context, in *dynamodb.CreateTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error) {
	t, err := define(orEmpty(in))
	if err != nil {
		return nil, err
	}
	t.Created = db.now().Truncate(time.Millisecond)
	if t.Billing == types.BillingModePayPerRequest {
		t.OnDemand = t.Created
	}
	err = db.submit(ctx, func(tx *transaction) error {
		if tx.tables[t.Name] != nil {
			return &types.ResourceInUseException{Message: aws.String("Table already exists: " + t.Name)}
		}
		var err error
		if t.ID, err = nextTableID(tx); err != nil {
			return err
		}
		for _, space := range t.spaces() {
			tx.updateTally(space, "", "")
		}
		return tx.putTable(t)
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.CreateTableOutput{TableDescription: t.description(nil)}, nil
}

// counterSpace holds the highest table ID ever assigned, under tableCounter.
const (
	counterSpace = "counters"
	tableCounter = "tables"
)

// nextTableID returns an ID that was never used, so that leftovers of a deleted
// table never appear in another.
func nextTableID(tx *transaction) (int, error) {
	last := 0
	if stored := tx.Get(counterSpace, []byte(tableCounter)); stored != nil {
		var err error
		if last, err = strconv.Atoi(string(stored)); err != nil {
			return 0, fmt.Errorf("%w: counter of tables: %w", ErrCorrupt, err)
		}
	}
	for _, t := range tx.tables { // a file of format 1 has no counter
		last = max(last, t.ID)
	}
	last++
	return last, tx.Put(counterSpace, []byte(tableCounter), strconv.AppendInt(nil, int64(last), 10))
}

// DescribeTable returns a table's definition. ItemCount and TableSizeBytes are
// current; bytes are counted as AWS bills them.
func (db *DB) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	t, err := db.findDefinition(orEmpty(in).TableName)
	if err != nil {
		return nil, err
	}
	held, err := db.readTallies(ctx, t)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeTableOutput{Table: t.description(held)}, nil
}

// description describes a table and its indexes. held maps each space to its
// tally; nil means empty.
func (t *table) description(held map[string]tally) *types.TableDescription {
	n := held[t.space()]
	d := &types.TableDescription{
		TableName:                 aws.String(t.Name),
		TableArn:                  aws.String(t.arn()),
		TableId:                   aws.String(fmt.Sprintf("00000000-0000-0000-0000-%012d", t.ID)),
		TableStatus:               types.TableStatusActive,
		CreationDateTime:          aws.Time(t.Created),
		ItemCount:                 &n.items,
		TableSizeBytes:            &n.bytes,
		DeletionProtectionEnabled: aws.Bool(t.Deletion),
		ProvisionedThroughput: &types.ProvisionedThroughputDescription{
			NumberOfDecreasesToday: aws.Int64(0),
			ReadCapacityUnits:      aws.Int64(t.Read),
			WriteCapacityUnits:     aws.Int64(t.Write),
		},
	}
	if t.backfillingIndex() != nil {
		d.TableStatus = types.TableStatusUpdating
	}
	d.BillingModeSummary = t.describeBilling()
	if t.Class != "" {
		d.TableClassSummary = &types.TableClassSummary{TableClass: t.Class, LastUpdateDateTime: timeOrNil(t.Classed)}
	}
	d.OnDemandThroughput, d.WarmThroughput, d.SSEDescription = t.Spending.describe(), t.describeWarm(), t.describeEncryption()
	d.KeySchema = t.describe()
	for _, ix := range t.Indexes {
		if ix.Global {
			d.GlobalSecondaryIndexes = append(d.GlobalSecondaryIndexes, ix.describeGlobal(t, held[ix.space(t)]))
		} else {
			d.LocalSecondaryIndexes = append(d.LocalSecondaryIndexes, ix.describeLocal(t, held[ix.space(t)]))
		}
	}
	d.AttributeDefinitions = t.definitions()
	return d
}

// describeBilling returns nil for a table that was never PAY_PER_REQUEST, as
// AWS does.
func (t *table) describeBilling() *types.BillingModeSummary {
	since := t.OnDemand
	if since.IsZero() && t.Billing == types.BillingModePayPerRequest {
		since = t.Created
	}
	if since.IsZero() {
		return nil
	}
	return &types.BillingModeSummary{BillingMode: t.Billing, LastUpdateToPayPerRequestDateTime: &since}
}

func timeOrNil(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}

// clone returns a copy that the caller may modify. Key schemas and index
// definitions are shared: replace them, do not modify them.
func (t *table) clone() *table {
	c := *t
	c.Indexes = slices.Clone(t.Indexes)
	return &c
}

// definitions lists the key attributes of the table and its indexes, without
// duplicates, sorted by name.
func (t *table) definitions() []types.AttributeDefinition {
	all := t.keyAttributes()
	for _, ix := range t.Indexes {
		all = append(all, ix.keyAttributes()...)
	}
	slices.SortFunc(all, func(a, b attribute) int { return strings.Compare(a.Name, b.Name) })
	all = slices.Compact(all)
	out := make([]types.AttributeDefinition, len(all))
	for i, a := range all {
		out[i] = types.AttributeDefinition{AttributeName: aws.String(a.Name), AttributeType: a.Type}
	}
	return out
}

// DeleteTable deletes a table with its items and indexes. The reply says
// DELETING, but the table is gone at once: queued and later requests get a
// *types.ResourceNotFoundException. What it held is removed in the background. With deletion protection the error is a
// ValidationException; while an index is being added, it is a
// *types.ResourceInUseException.
func (db *DB) DeleteTable(ctx context.Context, in *dynamodb.DeleteTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DeleteTableOutput, error) {
	name, err := tableName(orEmpty(in).TableName)
	if err != nil {
		return nil, err
	}
	var t *table
	var held map[string]tally
	err = db.submit(ctx, func(tx *transaction) error {
		t = tx.tables[name]
		switch {
		case t == nil:
			return errTableNotFound(name)
		case t.Deletion:
			return invalid("Resource cannot be deleted as it is currently protected against deletion. Disable deletion protection first.")
		case t.backfillingIndex() != nil:
			return errBeingUpdated(name)
		}
		var err error
		if held, err = tx.readTallies(t); err != nil {
			return err
		}
		return tx.removeTable(t)
	})
	if err != nil {
		return nil, err
	}
	db.removalWake.wake()
	d := t.description(held)
	d.TableStatus = types.TableStatusDeleting
	// AWS describes the size of a table being deleted, but not its schema.
	d.AttributeDefinitions, d.KeySchema, d.CreationDateTime = nil, nil, nil
	d.GlobalSecondaryIndexes, d.LocalSecondaryIndexes = nil, nil
	return &dynamodb.DeleteTableOutput{TableDescription: d}, nil
}

func errBeingUpdated(name string) error {
	return &types.ResourceInUseException{Message: aws.String("Attempt to change a resource which is still in use: Table is being updated: " + name)}
}

// maxListed is the default and maximum page size of ListTables.
const maxListed = 100

// ListTables returns the sorted names of the tables after
// ExclusiveStartTableName, which need not exist. LastEvaluatedTableName is set
// if there are more than Limit. The default and maximum of Limit is 100.
func (db *DB) ListTables(ctx context.Context, in *dynamodb.ListTablesInput, _ ...func(*dynamodb.Options)) (*dynamodb.ListTablesOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	in = orEmpty(in)
	limit, err := listLimit(in.Limit)
	if err != nil {
		return nil, err
	}
	names := slices.Sorted(maps.Keys(*db.tables.Load()))
	if start := in.ExclusiveStartTableName; start != nil {
		if err := checkName("exclusiveStartTableName", start); err != nil {
			return nil, err
		}
		at, found := slices.BinarySearch(names, *start)
		if found {
			at++
		}
		names = names[at:]
	}
	out := &dynamodb.ListTablesOutput{TableNames: []string{}}
	if len(names) > limit {
		names = names[:limit]
		out.LastEvaluatedTableName = aws.String(names[limit-1])
	}
	out.TableNames = append(out.TableNames, names...)
	return out, nil
}

func listLimit(limit *int32) (int, error) {
	switch {
	case limit == nil:
		return maxListed, nil
	case *limit < 1:
		return 0, errConstraint(strconv.Itoa(int(*limit)), "limit", "Member must have value greater than or equal to 1")
	case *limit > maxListed:
		return 0, errConstraint(strconv.Itoa(int(*limit)), "limit", "Member must have value less than or equal to 100")
	}
	return int(*limit), nil
}
