package localdynamo

import (
	"context"
	"encoding/json"
	"fmt"
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

// table is a table's definition, as it is stored. It is immutable: a change
// makes a new one.
type table struct {
	Name string
	ID   int // names the space of its items, never used twice
	keySchema
	Indexes  []*index `json:",omitempty"`
	LastID   int      `json:",omitempty"` // the highest ID that an index of this table ever had
	TTL      string   `json:",omitempty"` // attribute that holds expiry times; "" is off
	Billing  types.BillingMode
	OnDemand time.Time `json:",omitzero"` // when it last became PAY_PER_REQUEST; zero in older files
	Read     int64     // provisioned units; they limit nothing here
	Write    int64
	Created  time.Time
	Deletion bool              `json:",omitempty"` // protection against deletion
	Class    types.TableClass  `json:",omitempty"` // "" if none was ever asked for
	Classed  time.Time         `json:",omitzero"`  // when UpdateTable last changed Class
	Tags     map[string]string `json:",omitempty"` // like all else, never changed

	Spending   spending `json:",omitzero"`
	Encryption string   `json:",omitempty"` // the ARN of a key, or "" for AWS's own
}

// catalogue is all tables by name. It is never changed, only replaced.
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

// space is where the table's items are, by key.
func (t *table) space() string { return "items/" + strconv.Itoa(t.ID) }

// index finds a secondary index, or nil.
func (t *table) index(name string) *index {
	for _, ix := range t.Indexes {
		if ix.Name == name {
			return ix
		}
	}
	return nil
}

// filling returns the index that is being filled, or nil. There is one at most.
func (t *table) filling() *index {
	for _, ix := range t.Indexes {
		if ix.Filling {
			return ix
		}
	}
	return nil
}

// arnPrefix begins the ARN of every table: there is one account and one region.
const arnPrefix = "arn:aws:dynamodb:local:000000000000:table/"

// arn returns the Amazon resource name of the table.
func (t *table) arn() string { return arnPrefix + t.Name }

// lookUp finds a table by its name or its ARN, for requests about items.
func (db *DB) lookUp(given *string) (*table, error) {
	name, err := tableName(given)
	if err != nil {
		return nil, err
	}
	if t := (*db.tables.Load())[name]; t != nil {
		return t, nil
	}
	return nil, notFound()
}

// definition finds a table by its name or its ARN, for requests about tables.
func (db *DB) definition(given *string) (*table, error) {
	name, err := tableName(given)
	if err != nil {
		return nil, err
	}
	if t := (*db.tables.Load())[name]; t != nil {
		return t, nil
	}
	return nil, noTable(name)
}

// noTable is what AWS says where the request is about the table itself.
func noTable(name string) error {
	return &types.ResourceNotFoundException{Message: aws.String("Requested resource not found: Table: " + name + " not found")}
}

// tableName returns the name in a TableName member, which may be an ARN.
func tableName(given *string) (string, error) {
	if given != nil && *given == "" {
		return "", errTooShort("TableName")
	}
	return tableNameAt("tableName", given)
}

// tableNameAt is tableName for one that stands in member.
func tableNameAt(member string, given *string) (string, error) {
	if given != nil && strings.HasPrefix(*given, "arn:") {
		name, own := strings.CutPrefix(*given, arnPrefix)
		if !own {
			return "", invalid("Invalid TableArn: %s is of another account, region or service; the tables here begin with %s", *given, arnPrefix)
		}
		given = &name
	}
	if err := checkName(member, given); err != nil {
		return "", err
	}
	return *given, nil
}

func checkTableName(given *string) error {
	_, err := tableName(given)
	return err
}

// orEmpty makes a nil input an empty one, as the SDK's client does.
func orEmpty[Input any](in *Input) *Input {
	if in == nil {
		return new(Input)
	}
	return in
}

// CreateTable makes a table with a hash key, or a hash and a range key, of
// types S, N or B, and its secondary indexes. It is ACTIVE at once. An existing
// table is a *types.ResourceInUseException.
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
			tx.count(space, "", "")
		}
		return tx.putTable(t)
	})
	if err != nil {
		return nil, err
	}
	return &dynamodb.CreateTableOutput{TableDescription: t.description(nil)}, nil
}

// counterSpace holds, under tableCounter, the highest ID that a table ever had.
const (
	counterSpace = "counters"
	tableCounter = "tables"
)

// nextTableID returns an ID that no table has or had, so that what a deleted
// table may leave behind never turns up in another.
func nextTableID(tx *transaction) (int, error) {
	last := 0
	if stored := tx.Get(counterSpace, []byte(tableCounter)); stored != nil {
		var err error
		if last, err = strconv.Atoi(string(stored)); err != nil {
			return 0, fmt.Errorf("%w: counter of tables: %w", ErrCorrupt, err)
		}
	}
	for _, t := range tx.tables { // files of format 1 have no counter
		last = max(last, t.ID)
	}
	last++
	return last, tx.Put(counterSpace, []byte(tableCounter), strconv.AppendInt(nil, int64(last), 10))
}

// DescribeTable returns a table's definition. ItemCount and TableSizeBytes are
// those of this moment; the bytes are counted as AWS bills them.
func (db *DB) DescribeTable(ctx context.Context, in *dynamodb.DescribeTableInput, _ ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error) {
	if err := db.ready(ctx); err != nil {
		return nil, err
	}
	t, err := db.definition(orEmpty(in).TableName)
	if err != nil {
		return nil, err
	}
	held, err := db.tallies(ctx, t)
	if err != nil {
		return nil, err
	}
	return &dynamodb.DescribeTableOutput{Table: t.description(held)}, nil
}

// description describes a table and its indexes, which hold so much, by space.
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
	if t.filling() != nil {
		d.TableStatus = types.TableStatusUpdating
	}
	d.BillingModeSummary = t.describeBilling()
	if t.Class != "" {
		d.TableClassSummary = &types.TableClassSummary{TableClass: t.Class, LastUpdateDateTime: timeOrNil(t.Classed)}
	}
	d.OnDemandThroughput, d.SSEDescription = t.Spending.describe(), t.describeEncryption()
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

// describeBilling returns nil for a table that was always PROVISIONED, as AWS
// does.
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

// clone returns a copy that may be changed. Keys and indexes are shared: they
// are replaced, never changed.
func (t *table) clone() *table {
	c := *t
	c.Indexes = slices.Clone(t.Indexes)
	return &c
}

// definitions lists the attributes that are keys of the table or an index,
// each once, by name.
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
